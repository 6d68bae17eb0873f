//! From a proposal to the source that it means. Where a source has regions, everything outside of them stays as it is,
//! byte for byte.

use std::ops::Range;

use evo_protocol::mutator::{MUTATOR_SOURCE_MAX, MutatorEdit};

const BEGIN: &str = "// evo: begin";
const END: &str = "// evo: end";
/// Letters of a text that are shown.
const SHOWN: usize = 60;

/// A part of a source that may be edited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditRegion {
    pub name: String,
    /// Bytes between the lines that mark it.
    pub inner: Range<usize>,
}

/// The regions of a source, in order; none where all of it may be edited.
///
/// # Errors
/// A mark has no name or no partner, or a name occurs twice: what and in which line.
pub fn regions(source: &str) -> Result<Vec<EditRegion>, String> {
    let (mut found, mut open, mut at) = (Vec::<EditRegion>::new(), None::<(String, usize)>, 0);
    for (number, line) in source.split_inclusive('\n').enumerate() {
        let (text, number) = (line.trim(), number + 1);
        let end = at + line.len();
        if let Some(name) = mark(text, BEGIN) {
            let name = named(name, number)?;
            if let Some((other, _)) = &open {
                return Err(format!("line {number}: region `{name}` begins inside of `{other}`"));
            }
            if found.iter().any(|own| own.name == name) {
                return Err(format!("line {number}: a second region `{name}`"));
            }
            open = Some((name, end));
        } else if let Some(name) = mark(text, END) {
            let name = named(name, number)?;
            match open.take() {
                Some((own, start)) if own == name => {
                    found.push(EditRegion { name, inner: start..at });
                }
                _ => return Err(format!("line {number}: region `{name}` ends and did not begin")),
            }
        }
        at = end;
    }
    match open {
        Some((name, _)) => Err(format!("region `{name}` has no end")),
        None => Ok(found),
    }
}

/// The source after edits of `parent`, one after the other.
///
/// # Errors
/// Why the edits cannot be made, in words for their author.
pub fn edited(parent: &str, edits: &[MutatorEdit]) -> Result<String, String> {
    if edits.is_empty() {
        return Err("it has no edits".to_string());
    }
    let mut text = parent.to_string();
    for (at, edit) in edits.iter().enumerate() {
        let number = at + 1;
        let place = only(&text, &edit.search).map_err(|why| format!("edit {number}: {why}"))?;
        let allowed = regions(&text)?;
        let is_inside = |own: &EditRegion| own.inner.start <= place.start && place.end <= own.inner.end;
        if !allowed.is_empty() && !allowed.iter().any(is_inside) {
            let names: Vec<&str> = allowed.iter().map(|own| own.name.as_str()).collect();
            return Err(format!(
                "edit {number}: `{}` is not inside of a region ({})",
                shown(&edit.search),
                names.join(", ")
            ));
        }
        if text.len() - place.len() + edit.replace.len() > MUTATOR_SOURCE_MAX {
            return Err(format!("the source has more than {MUTATOR_SOURCE_MAX} bytes"));
        }
        text.replace_range(place, &edit.replace);
    }
    replaced(parent, &text)?;
    Ok(text)
}

/// Whether a source may take the place of `parent`.
///
/// # Errors
/// It is too long, empty, or differs from `parent` outside of the regions.
pub fn replaced(parent: &str, source: &str) -> Result<(), String> {
    if source.trim().is_empty() {
        return Err("the source is empty".to_string());
    }
    if source.len() > MUTATOR_SOURCE_MAX {
        return Err(format!("the source has more than {MUTATOR_SOURCE_MAX} bytes"));
    }
    if source.contains('\0') {
        return Err("the source has a NUL byte".to_string());
    }
    let own = regions(parent)?;
    if own.is_empty() {
        return Ok(());
    }
    let new = regions(source)?;
    match outside(parent, &own) == outside(source, &new) {
        true => Ok(()),
        false => Err("the source differs outside of its regions".to_string()),
    }
}

/// The texts before, between and after regions.
fn outside<'t>(text: &'t str, regions: &[EditRegion]) -> Vec<&'t str> {
    let starts = std::iter::once(0).chain(regions.iter().map(|own| own.inner.end));
    let ends = regions.iter().map(|own| own.inner.start).chain(std::iter::once(text.len()));
    starts.zip(ends).map(|(start, end)| &text[start..end]).collect()
}

/// Where a text occurs, if that is exactly once. Occurrences that overlap count too.
fn only(text: &str, search: &str) -> Result<Range<usize>, String> {
    let Some(first) = search.chars().next() else { return Err("`search` is empty".to_string()) };
    let Some(start) = text.find(search) else {
        return Err(format!("`{}` does not occur in the source", shown(search)));
    };
    match text[start + first.len_utf8()..].contains(search) {
        true => Err(format!("`{}` occurs more than once in the source", shown(search))),
        false => Ok(start..start + search.len()),
    }
}

/// What stands behind a mark.
fn mark<'t>(line: &'t str, mark: &str) -> Option<&'t str> {
    let rest = line.strip_prefix(mark)?;
    (rest.is_empty() || rest.starts_with(char::is_whitespace)).then(|| rest.trim())
}

fn named(name: &str, line: usize) -> Result<String, String> {
    match name.is_empty() || name.contains(char::is_whitespace) {
        true => Err(format!("line {line}: the mark of a region needs one name")),
        false => Ok(name.to_string()),
    }
}

fn shown(text: &str) -> String {
    evo_space::text::printable(&evo_space::text::shortened(text.trim(), SHOWN)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARKED: &str = "int a;\n// evo: begin body\nint b;\n  // evo: end body\nint c;\n";

    fn edit(search: &str, replace: &str) -> MutatorEdit {
        MutatorEdit { search: search.to_string(), replace: replace.to_string() }
    }

    #[track_caller]
    fn refused(parent: &str, edits: &[MutatorEdit], part: &str) {
        let why = edited(parent, edits).unwrap_err();
        assert!(why.contains(part), "{why}");
    }

    #[test]
    fn edits_match_once_and_follow_each_other() {
        assert_eq!(edited("a b", &[edit("a", "c"), edit("c b", "d")]).unwrap(), "d");
        refused("a b a", &[edit("a", "c")], "edit 1: `a` occurs more than once");
        refused("aaa", &[edit("aa", "c")], "occurs more than once");
        refused("ééé", &[edit("éé", "c")], "occurs more than once");
        refused("a", &[edit("a", "b"), edit("a", "c")], "edit 2: `a` does not occur");
        refused("a", &[edit("", "b")], "`search` is empty");
        refused("a", &[], "no edits");
        refused("a", &[edit("a", " ")], "the source is empty");
        refused("a", &[edit("a", &"x".repeat(MUTATOR_SOURCE_MAX + 1))], "more than");
    }

    #[test]
    fn only_regions_can_be_edited() {
        assert_eq!(regions(MARKED).unwrap()[0].name, "body");
        assert_eq!(edited(MARKED, &[edit("b;", "d;")]).unwrap(), MARKED.replace("b;", "d;"));
        assert_eq!(edited(MARKED, &[edit("int b;\n", "")]).unwrap(), MARKED.replace("int b;\n", ""));
        refused(MARKED, &[edit("a;", "d;")], "not inside of a region (body)");
        refused(MARKED, &[edit("b;\n  // evo: end body", "b;")], "not inside of a region");
        // Marks that an edit brings along open nothing.
        let fake = "// evo: end body\n// evo: begin more\n";
        refused(MARKED, &[edit("int b;\n", fake)], "`body` ends and did not begin");
        refused(MARKED, &[edit("int b;\n", "// evo: begin x\n")], "begins inside of `body`");
        assert!(replaced(MARKED, &MARKED.replace("b;", "d;")).is_ok());
        assert!(replaced(MARKED, &MARKED.replace("c;", "d;")).is_err());
        assert!(replaced(MARKED, "int x;").is_err());
        assert!(replaced("int x;", MARKED).is_ok());
    }

    #[test]
    fn marks_need_names_and_partners() {
        for (text, part) in [
            ("// evo: begin\n", "line 1: the mark of a region needs one name"),
            ("// evo: begin a\n", "region `a` has no end"),
            ("// evo: end a\n", "line 1: region `a` ends and did not begin"),
            ("// evo: begin a\n// evo: end b\n", "line 2: region `b` ends"),
            ("// evo: begin a\n// evo: end a\n// evo: begin a\n", "line 3: a second region `a`"),
        ] {
            let why = regions(text).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
        assert_eq!(regions("// evo: beginning\n").unwrap(), []);
    }
}
