//! `evo space` as a whole program: summaries, samples, checks, and questions that do not go together.

use std::path::Path;

/// Runs `evo space` in the tests' data folder: exit code, stdout, stderr.
pub fn evo_space(arguments: &[&str]) -> (i32, String, String) {
    let mut command = assert_cmd::Command::cargo_bin("evo").unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let output =
        command.current_dir(folder).env_remove("COLUMNS").arg("space").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_summary_shows_counts_and_what_constraints_remove() {
    let (code, stdout, stderr) = evo_space(&["tiles.json"]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    let (stable, time) = stdout.split_once("ready in").unwrap();
    assert!(time.trim().ends_with(" ms"), "{time}");
    insta::assert_snapshot!(stable);
}

#[test]
fn json_is_one_object_with_exact_integers() {
    let (code, stdout, _) = evo_space(&["tiles.json", "--json", "--sample", "3", "--seed", "1"]);
    assert_eq!((code, stdout.lines().count()), (0, 1));
    let object: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!((&object["cartesian"], &object["valid"]), (&96.into(), &29.into()));
    assert!(object["seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(object["sample"].as_array().unwrap().len(), 3);
    assert_eq!(object["sample"][0]["TILE"].as_i64().map(|tile| (1..=4).contains(&tile)), Some(true));

    // Far beyond 128 bits: the digits themselves must be there.
    let values = (0..100).map(|value| value.to_string()).collect::<Vec<_>>().join(",");
    let parameters = (0..40).map(|at| format!("\"P{at}\":[{values}]")).collect::<Vec<_>>().join(",");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("big.json");
    std::fs::write(&path, format!("{{\"parameters\":{{{parameters}}},\"constraints\":[\"P0 == P39\"]}}"))
        .unwrap();
    let (_, stdout, _) = evo_space(&[path.to_str().unwrap(), "--json"]);
    assert!(
        stdout.contains(&format!("\"cartesian\":1{},\"valid\":1{},", "0".repeat(80), "0".repeat(78))),
        "{stdout}"
    );
}

#[test]
fn samples_are_lines_and_repeat_with_the_seed() {
    let (code, first, _) = evo_space(&["tiles.json", "--sample", "5", "--seed", "1"]);
    assert_eq!((code, first.lines().count()), (0, 5));
    assert!(first.lines().all(|line| line.starts_with("BLOCK=") && line.contains(" UNROLL=")), "{first}");
    assert_eq!(evo_space(&["tiles.json", "--sample", "5", "--seed", "1"]).1, first);
    assert_ne!(evo_space(&["tiles.json", "--sample", "5", "--seed", "2"]).1, first);
    let (_, all, stderr) = evo_space(&["tiles.json", "--sample", "1000"]);
    assert_eq!((all.lines().count(), stderr.as_str()), (29, "note: the space has only 29 valid points\n"));
}

#[test]
fn check_says_why_a_point_is_not_valid() {
    let (code, stdout, _) = evo_space(&["tiles.json", "--check", "BLOCK=256", "TILE=3", "UNROLL=2"]);
    assert_eq!(code, 1);
    insta::assert_snapshot!(stdout);
    let (code, stdout, _) = evo_space(&["tiles.json", "--check", "BLOCK=64"]);
    assert_eq!((code, stdout.lines().next()), (0, Some("valid  BLOCK=64 TILE=2 LAYOUT=row UNROLL=1")));
    let (code, stdout, stderr) = evo_space(&["tiles.json", "--check", "BLOK=64"]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.contains("did you mean `BLOCK`?"), "{stderr}");
}

/// Writes a space file and runs `evo space` on it.
pub fn evo_space_on(text: &str, arguments: &[&str]) -> (i32, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("space.toml");
    std::fs::write(&path, text).unwrap();
    evo_space(&[&[path.to_str().unwrap()], arguments].concat())
}

#[test]
fn values_without_a_valid_point_are_marked() {
    let text = "constraints = ['A * B <= 8', 'A > 1']\n[parameters]\n\
                A = { values = [1, 2, 4, 16], default = 2 }\nB = [1, 2, 4, 8]\nC = ['x']\n";
    let (code, stdout, _) = evo_space_on(text, &[]);
    let (_, stable) = stdout.split_once("\n\n").unwrap();
    assert_eq!(code, 0);
    insta::assert_snapshot!(stable.split_once("ready in").unwrap().0);
    let (_, stdout, _) = evo_space_on(text, &["--json"]);
    let object: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let unused: Vec<String> = (0..3).map(|at| object["parameters"][at]["unused"].to_string()).collect();
    assert_eq!(unused, ["[1,16]", "[8]", "[]"]);
    assert_eq!((&object["groups"], &object["nodes"]), (&1.into(), &4.into()));
}

/// Six parameters of 60 values without pattern, hashed: nothing counts these but trying them all.
#[test]
fn what_cannot_be_counted_is_estimated() {
    let values: Vec<String> = (1..=60).map(|value| (value * 7919 % 10_007).to_string()).collect();
    let parameters: Vec<String> = (0..6).map(|at| format!("P{at} = [{}]", values.join(","))).collect();
    let text = format!(
        "constraints = ['(P0 * 3 + P1 * 5 + P2 * 7 + P3 * P4 * 11 + P5 * P0) % 10007 < 1700']\n[parameters]\n{}\n",
        parameters.join("\n")
    );
    // Trying takes some seconds of one core, which a busy machine may not give for long.
    let patient = ["--limit", "space=600s"];
    let (_, json, _) = evo_space_on(&text, &[&["--json"][..], &patient].concat());
    let object: serde_json::Value = serde_json::from_str(&json).unwrap();
    let estimate = object["valid_estimate"].as_f64().unwrap();
    assert!(object["valid"].is_null() && (7e9..9e9).contains(&estimate), "{estimate}");
    assert_eq!(object["valid_at_most"], 46_656_000_000u64);
    let (_, list, note) =
        evo_space_on(&text, &[&["--list", "--offset", "1", "--rows", "2"][..], &patient].concat());
    assert_eq!(note, "");
    let rows: Vec<Vec<u64>> = list
        .lines()
        .skip(1)
        .map(|line| line.split(',').map(|value| value.parse().unwrap()).collect())
        .collect();
    let holds =
        |p: &Vec<u64>| (p[0] * 3 + p[1] * 5 + p[2] * 7 + p[3] * p[4] * 11 + p[5] * p[0]) % 10_007 < 1700;
    assert!(rows.len() == 2 && rows.iter().all(holds), "{list}");
}

#[test]
fn samples_keep_to_fixed_values() {
    let (code, stdout, stderr) =
        evo_space(&["tiles.json", "--sample", "9", "--fix", "TILE=4", "BLOCK=64", "--fix", "LAYOUT=col"]);
    assert_eq!(code, 0);
    let mut lines: Vec<&str> = stdout.lines().collect();
    lines.sort_unstable();
    let expected = ["1", "2", "4"].map(|unroll| format!("BLOCK=64 TILE=4 LAYOUT=col UNROLL={unroll}"));
    assert_eq!(lines, expected);
    assert_eq!(stderr, "note: with these values there are only 3 valid points\n");
    let (_, stratified, _) = evo_space(&["tiles.json", "--sample", "29", "--stratified"]);
    let mut lines: Vec<&str> = stratified.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 29);
    let (_, json, _) = evo_space(&["tiles.json", "--json", "--sample", "2", "--fix", "TILE=3"]);
    let object: serde_json::Value = serde_json::from_str(&json).unwrap();
    let sample = object["sample"].as_array().unwrap();
    assert!(sample.len() == 2 && sample.iter().all(|point| point["TILE"] == 3), "{json}");
}

#[test]
fn the_help_names_every_option() {
    let (code, stdout, _) = evo_space(&["-h"]);
    assert_eq!(code, 0);
    insta::assert_snapshot!(stdout);
}
