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
    insta::assert_snapshot!(stable, @r#"
    tiles.json

    parameters
      BLOCK       4  [32] 64 128 256
      TILE        4  1 [2] 3 4  # elements a thread
      LAYOUT      2  [row] col
      UNROLL      3  [1] 2 4

    constraints, with the share of all points that each refuses on its own
       31.25 %  BLOCK * TILE <= 256  # a block covers at most 256 elements
       41.67 %  TILE % UNROLL == 0
       12.50 %  LAYOUT == 'row' or BLOCK != 32

    cartesian  96
    valid      29 (30.21 %)
    default    valid
    linked     1 group of 4 parameters; 14 diagram nodes
    "#);
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
    insta::assert_snapshot!(stdout, @r#"
    invalid  BLOCK=256 TILE=3 LAYOUT=row UNROLL=2
      violates `BLOCK * TILE <= 256`
        where BLOCK=256 TILE=3
        because a block covers at most 256 elements
      violates `TILE % UNROLL == 0`
        where TILE=3 UNROLL=2
      nearest valid  BLOCK=128 TILE=2 LAYOUT=row UNROLL=2
    "#);
    let (code, stdout, _) = evo_space(&["tiles.json", "--check", "BLOCK=64"]);
    assert_eq!((code, stdout.lines().next()), (0, Some("valid  BLOCK=64 TILE=2 LAYOUT=row UNROLL=1")));
    let (code, stdout, stderr) = evo_space(&["tiles.json", "--check", "BLOK=64"]);
    assert_eq!((code, stdout.as_str()), (2, ""));
    assert!(stderr.contains("did you mean `BLOCK`?"), "{stderr}");
}

#[test]
fn bad_space_files_are_usage_errors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.toml");
    let check = |text: &str, expected: &str| {
        std::fs::write(&path, text).unwrap();
        let (code, stdout, stderr) = evo_space(&[path.to_str().unwrap(), "--json"]);
        let object: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!((code, &object["error"]["code"]), (2, &"bad_file".into()), "{text}");
        assert!(stderr.contains(expected), "{text}: {stderr}");
    };
    check("[parameters\n", "bad.toml:1:");
    check("[parameters]\nA = []\n", "`A` has no values");
    check("constraints = ['A > 1']\n[parameters]\nA = [1]\n", "no point satisfies this constraint");
    check(
        "constraints = ['B > 1']\n[parameters]\nA = [1]\n",
        "constraint reads `B`, which is not a parameter",
    );
    check("[parameters]\nA = [1]\n[constraint]\n", "unknown key `constraint`");
    let (code, _, stderr) = evo_space(&["no_such_file.toml"]);
    assert_eq!(code, 2, "{stderr}");
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
    insta::assert_snapshot!(stable.split_once("ready in").unwrap().0, @r#"
    parameters, with values that no valid point has in parentheses
      A    2/4  (1) [2] 4 (16)
      B    3/4  [1] 2 4 (8)
      C      1  [x]

    constraints, with the share of all points that each refuses on its own
       43.75 %  A * B <= 8
       25.00 %  A > 1

    cartesian  16
    valid      5 (31.25 %)
    default    valid
    linked     1 group of 2 parameters; 4 diagram nodes
    "#);
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
fn one_thing_is_asked_at_a_time() {
    let check = |arguments: &str, expected: &str| {
        let words: Vec<&str> = arguments.split(' ').collect();
        let (code, stdout, stderr) = evo_space(&[&["tiles.json"], &words[..]].concat());
        assert_eq!((code, stdout.as_str(), stderr.as_str()), (2, "", expected), "{arguments}");
    };
    let two = "do not go together\nhint: ask one thing at a time, in two commands\n";
    check("--list --check TILE=1", &format!("error: `--check` and `--list` {two}"));
    check("--sample 3 --neighbors TILE=1", &format!("error: `--sample` and `--neighbors` {two}"));
    let belongs =
        |option: &str, to: &str| format!("error: `{option}` has no effect here\nhint: it belongs to {to}\n");
    check("--stratified", &belongs("--stratified", "`--sample`"));
    check("--rows 3", &belongs("--rows", "`--list` or `--neighbors`"));
    check("--sample 3 --rows 3", &belongs("--rows", "`--list` or `--neighbors`"));
    check("--neighbors --offset 3", &belongs("--offset", "`--list`"));
    check("--check TILE=1 --fix TILE=1", &belongs("--fix", "`--sample` or `--list`"));
    check("--format csv", &belongs("--format", "`--list`"));
    check("--list --kind hamming", &belongs("--kind", "`--neighbors`"));
    let lookup = "\nhint: `evo space tiles.json` lists the parameters of `tiles.json`\n";
    check("--list --fix TIL=1", &format!("error: there is no parameter `TIL`: did you mean `TILE`?{lookup}"));
    check("--sample 1 --fix 1", &format!("error: `1` does not name a parameter: write NAME=VALUE{lookup}"));
    check(
        "--neighbors TILE=7",
        &format!("error: `7` is not a value of `TILE`: allowed are 1, 2, 3, 4{lookup}"),
    );
    check("--list --fix TILE=1 --fix TILE=2", &format!("error: parameter `TILE` is given twice{lookup}"));
}

#[test]
fn the_help_names_every_option() {
    let (code, stdout, _) = evo_space(&["-h"]);
    assert_eq!(code, 0);
    insta::assert_snapshot!(stdout, @r#"
    Count, sample and explain a search space

    Usage: evo space [OPTIONS] [SPACE]

    Arguments:
      [SPACE]  Space file (TOML or JSON), or the name of an embedded space [default: the folder's only
               space file, or attention_simt]

    Options:
          --sample <N>                   Print N random valid configurations
          --seed <SEED>                  Seed of the sample [default: 1]
          --stratified                   With --sample: spread evenly over the canonical order
          --fix <NAME=VALUE>...          With --sample or --list: only configurations with these values
          --check <NAME=VALUE>...        Explain why this configuration is valid or not; missing values
                                         take their default
          --neighbors [<NAME=VALUE>...]  Print the valid neighbors of a configuration; missing values
                                         take their default
          --kind <KIND>                  With --neighbors: which points count as neighbors [default:
                                         hamming] [possible values: hamming, hamming-adjacent, adjacent,
                                         strictly-adjacent]
          --list                         Print every valid configuration, in canonical order
          --format <FORMAT>              With --list: the format of a row [default: csv] [possible
                                         values: csv, jsonl, text]
          --device <DEVICE>              Count what this device can launch: `host`, or an architecture
                                         such as `sm_90`
          --rows <N>                     With --list or --neighbors: print at most N
          --offset <N>                   With --list: skip the first N
          --limit <NAME=TIME,…>          Longest times, such as `space=30s`: space for opening the
                                         space, in processor time [10s]
          --allow-outside                Let the space file name files outside its own folder
          --json                         One JSON object on stdout
      -h, --help                         Print help (see more with '--help')
      -V, --version                      Print version

    Example: evo space search_spaces/gemm.toml --sample 5 --seed 1
    "#);
}
