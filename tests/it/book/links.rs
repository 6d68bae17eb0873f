//! Every link of every page leads to a file, and to a heading of it; every page that is linked is in the book.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::markdown::{anchors, from_root, links, pages, plain, root};

/// A link's page and anchor, from the root of the repository; `None` for one that leaves the repository.
fn target(page: &str, link: &str) -> Option<(String, Option<String>)> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = match link.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor.to_string())),
        None => (link, None),
    };
    let folder = root().join(page).parent().unwrap().to_path_buf();
    let path = if path.is_empty() { root().join(page) } else { plain(&folder.join(path)) };
    // A link out of the repository leads nowhere.
    path.starts_with(root()).then(|| (from_root(&path), anchor)).or(Some((link.to_string(), None)))
}

#[test]
fn every_link_and_anchor_leads_somewhere() {
    let pages = pages();
    let headings: BTreeMap<&str, Vec<String>> =
        pages.iter().map(|page| (page.path.as_str(), anchors(&page.text))).collect();
    let mut broken = Vec::new();
    let mut count = 0;
    for page in &pages {
        for (number, link) in links(&page.text) {
            let Some((path, anchor)) = target(&page.path, &link) else { continue };
            count += 1;
            let has_anchor = |anchor: &String| {
                headings.get(path.as_str()).is_some_and(|headings| headings.contains(anchor))
            };
            if !root().join(&path).exists() || anchor.is_some_and(|anchor| !has_anchor(&anchor)) {
                broken.push(format!("{}:{number}: {link}", page.path));
            }
        }
    }
    assert!(count > 300, "the pages have {count} links");
    assert!(broken.is_empty(), "links that lead nowhere: {broken:#?}");
}

/// mdBook makes pages of what `docs/SUMMARY.md` lists. A link to any other page would be dead in the book.
#[test]
fn the_book_has_every_page_once() {
    let pages = pages();
    let summary = pages.iter().find(|page| page.path == "docs/SUMMARY.md").unwrap();
    let listed: Vec<String> = links(&summary.text)
        .iter()
        .map(|(_, link)| target(&summary.path, link).expect("a page of the repository").0)
        .collect();
    let unique: BTreeSet<&String> = listed.iter().collect();
    assert_eq!(unique.len(), listed.len(), "a page is listed twice: {listed:?}");
    let gone: Vec<&String> = listed.iter().filter(|path| !root().join(path).is_file()).collect();
    assert!(gone.is_empty(), "pages that are not there: {gone:?}");
    let is_missing = |path: &&str| !unique.iter().any(|own| own == path);
    let all = pages.iter().map(|page| page.path.as_str()).filter(|path| *path != "docs/SUMMARY.md");
    let missing: Vec<&str> =
        all.filter(|path| Path::new(path).starts_with("docs")).filter(is_missing).collect();
    assert!(missing.is_empty(), "pages that `docs/SUMMARY.md` lacks: {missing:?}");
    let mut dead = Vec::new();
    for page in pages.iter().filter(|page| unique.contains(&page.path)) {
        let targets = links(&page.text);
        let paths = targets.iter().filter_map(|(_, link)| target(&page.path, link)).map(|(path, _)| path);
        dead.extend(paths.filter(|path| path.ends_with(".md")).filter(|path| is_missing(&path.as_str())));
    }
    assert!(dead.is_empty(), "pages that the book links and lacks: {dead:?}");
}
