//! Wrong command lines and files, as rows of `tests/data/refused.toml`: each ends before anything runs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::contract::{object, stage};
use crate::support::evo;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    rule: String,
    /// The code that every answer has.
    error: Option<String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// Texts of the space, and what stands there instead.
    #[serde(default)]
    edit: Vec<[String; 2]>,
    /// What the first text of a row takes the place of in the space, where that is not a command line.
    each: Option<String>,
    rows: Vec<Vec<String>>,
}

fn check(root: &Path, group: &Group, words: &str, expected: &[String]) -> Result<(), String> {
    let is_json = words.contains("--json");
    let output =
        evo(root, &if is_json { words.to_string() } else { format!("{words} --json") }).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer = object(words, &output, words.starts_with("sweep"));
    let hint = answer["error"]["hint"].as_str().map_or(String::new(), |hint| format!("hint: {hint}"));
    let told = format!("{stderr}{hint}");
    let fault =
        |is_so: bool, why: &str| if is_so { Ok(()) } else { Err(format!("`{words}`: {why}: {told}")) };
    let seen = (output.status.code(), answer["status"].as_str());
    fault(seen == (Some(2), Some("error")), "it is not refused")?;
    fault(group.error.as_ref().is_none_or(|code| answer["error"]["code"] == **code), "another error")?;
    fault(stderr.contains("error: ") && stderr.lines().count() < 25, "not one screen of words")?;
    fault(!told.contains("os error"), "a number of the system")?;
    fault(!root.join("evidence").exists(), "something was written")?;
    expected.iter().try_for_each(|part| fault(told.contains(part), &format!("no `{part}`")))?;
    if is_json {
        return Ok(());
    }
    // People are told the same, but for hints where clap has words of its own.
    let plain = evo(root, words).output().unwrap();
    let told = String::from_utf8_lossy(&plain.stderr).into_owned();
    let fault = |is_so: bool, why: &str| {
        if is_so { Ok(()) } else { Err(format!("`{words}` without `--json`: {why}: {told}")) }
    };
    fault(plain.status.code() == Some(2) && plain.stdout.is_empty(), "another end, or something on stdout")?;
    let words_of_ours = expected.iter().filter(|part| !part.starts_with("hint: "));
    words_of_ours.into_iter().try_for_each(|part| fault(told.contains(part), &format!("no `{part}`")))
}

#[test]
fn wrong_usage_ends_before_anything_runs() {
    let table = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/refused.toml")).unwrap();
    let table: Table = toml::from_str(&table).unwrap();
    let mut faults = Vec::new();
    for group in &table.groups {
        let folder = stage();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        group.files.iter().for_each(|(name, text)| write(name, text));
        let mut space = fs::read_to_string(folder.path().join("scale.toml")).unwrap();
        for [from, to] in &group.edit {
            assert!(space.contains(from), "{}: no {from:?}", group.rule);
            space = space.replacen(from, to, 1);
        }
        write("scale.toml", &space);
        for row in &group.rows {
            let words = match &group.each {
                Some(place) => {
                    write("scale.toml", &space.replace(place, &row[0]));
                    "test-one scale.toml --device host"
                }
                None => &row[0],
            };
            faults.extend(check(folder.path(), group, words, &row[1..]).err().map(|own| (&group.rule, own)));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
