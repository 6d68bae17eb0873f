//! Wrong command lines and files, as rows of `tests/data/refused.toml`: each ends before anything runs.

use std::collections::BTreeMap;
use std::fs;

use serde::Deserialize;

use crate::support::answer;
use crate::support::stage::Stage;

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

fn check(stage: &Stage, group: &Group, words: &str, expected: &[String]) -> Result<(), String> {
    let is_json = words.contains("--json");
    let ran = stage.run(&if is_json { words.to_string() } else { format!("{words} --json") });
    let answer = answer::last(&ran);
    let hint = answer["error"]["hint"].as_str().map_or(String::new(), |hint| format!("hint: {hint}"));
    let told = format!("{}{hint}", ran.err);
    let fault =
        |is_so: bool, why: &str| if is_so { Ok(()) } else { Err(format!("`{words}`: {why}: {told}")) };
    let seen = (ran.code, answer["status"].as_str());
    fault(seen == (Some(2), Some("error")), "it is not refused")?;
    fault(group.error.as_ref().is_none_or(|code| answer["error"]["code"] == **code), "another error")?;
    fault(ran.err.contains("error: ") && ran.err.lines().count() < 25, "not one screen of words")?;
    fault(!told.contains("os error"), "a number of the system")?;
    fault(!stage.at("evidence").exists(), "something was written")?;
    expected.iter().try_for_each(|part| fault(told.contains(part), &format!("no `{part}`")))?;
    if is_json {
        return Ok(());
    }
    // People are told the same, but for hints where clap has words of its own.
    let plain = stage.run(words);
    let is_told = |part: &&String| part.starts_with("hint: ") || plain.err.contains(*part);
    let is_same = plain.code == Some(2) && plain.out.is_empty() && expected.iter().all(|part| is_told(&part));
    if is_same { Ok(()) } else { Err(format!("without `--json` it is not the same: {plain}")) }
}

#[test]
fn wrong_usage_ends_before_anything_runs() {
    let table = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/refused.toml")).unwrap();
    let table: Table = toml::from_str(&table).unwrap();
    let mut faults = Vec::new();
    for group in &table.groups {
        let stage = Stage::of("scale_fault");
        group.files.iter().for_each(|(name, text)| {
            stage.write(name, text);
        });
        let mut space = stage.read("scale.toml");
        for [from, to] in &group.edit {
            assert!(space.contains(from), "{}: no {from:?}", group.rule);
            space = space.replacen(from, to, 1);
        }
        stage.write("scale.toml", &space);
        for row in &group.rows {
            let words = match &group.each {
                Some(place) => {
                    stage.write("scale.toml", &space.replace(place, &row[0]));
                    "test-one scale.toml --device host"
                }
                None => &row[0],
            };
            faults.extend(check(&stage, group, words, &row[1..]).err().map(|own| (&group.rule, own)));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}
