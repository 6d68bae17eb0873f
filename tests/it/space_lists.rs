//! `evo space --list` and `--neighbors` as a whole program: what is written, and how long writing ends.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::space_command::{evo_space, evo_space_on};

/// Twenty parameters of ten values, with one link: far too many points and neighbors to list.
fn vast() -> String {
    let parameters: Vec<String> =
        (0..20).map(|at| format!("P{at} = {{ values = [0,1,2,3,4,5,6,7,8,9], default = 5 }}")).collect();
    format!("constraints = ['P0 != P19 or P0 == 5']\n[parameters]\n{}\n", parameters.join("\n"))
}

#[test]
fn lists_are_csv_json_lines_or_words() {
    let list = |arguments: &[&str]| {
        let (code, stdout, stderr) = evo_space(&[&["tiles.json", "--list"], arguments].concat());
        assert_eq!((code, stderr.as_str()), (0, ""));
        stdout
    };
    insta::assert_snapshot!(list(&["--rows", "4"]));
    insta::assert_snapshot!(list(&["--format", "jsonl", "--offset", "27"]));
    insta::assert_snapshot!(list(&["--format", "text", "--fix", "TILE=3", "LAYOUT=col"]), @"BLOCK=64 TILE=3 LAYOUT=col UNROLL=1");
    assert_eq!(list(&[]).lines().count(), 1 + 29);
    assert_eq!(list(&["--offset", "29"]), "BLOCK,TILE,LAYOUT,UNROLL\n");
    assert_eq!(list(&["--rows", "0", "--format", "text"]), "");
}

#[test]
fn listed_values_are_as_written_and_quoted() {
    let text = "[parameters]\nA = ['a,b', 'say \"x\"', '']\n\"B\" = [4.0, true, -1]\n";
    let (_, stdout, _) = evo_space_on(text, &["--list", "--rows", "7"]);
    assert_eq!(
        stdout,
        "A,B\n\"a,b\",4.0\n\"a,b\",true\n\"a,b\",-1\n\"say \"\"x\"\"\",4.0\n\"say \"\"x\"\"\",true\n\
         \"say \"\"x\"\"\",-1\n\"\",4.0\n"
    );
    let mut reader = csv::Reader::from_reader(stdout.as_bytes());
    assert_eq!(&reader.records().nth(6).unwrap().unwrap()[0], "");
    let (_, stdout, _) = evo_space_on(text, &["--list", "--format", "jsonl", "--offset", "3", "--rows", "2"]);
    assert_eq!(stdout, "{\"A\":\"say \\\"x\\\"\",\"B\":4.0}\n{\"A\":\"say \\\"x\\\"\",\"B\":true}\n");
}

#[test]
fn neighbors_are_lines_or_one_object() {
    let neighbors = |arguments: &[&str]| {
        let (code, stdout, stderr) = evo_space(&[&["tiles.json", "--neighbors"], arguments].concat());
        assert_eq!(code, 0);
        (stdout, stderr)
    };
    insta::assert_snapshot!(neighbors(&["BLOCK=64", "TILE=4"]).0);
    insta::assert_snapshot!(neighbors(&["BLOCK=64", "TILE=4", "--kind", "hamming-adjacent"]).0);
    insta::assert_snapshot!(neighbors(&["BLOCK=64", "TILE=4", "--kind", "strictly-adjacent"]).0);
    let (points, note) = neighbors(&["TILE=3", "UNROLL=2", "--rows", "1"]);
    assert_eq!(points, "BLOCK=32 TILE=2 LAYOUT=row UNROLL=2\n");
    assert_eq!(note, "note: the configuration itself is not valid; `evo space --check` says why\n");
    // Without values it is about the defaults.
    let (json, _) = neighbors(&["--json", "--kind", "adjacent", "--rows", "2"]);
    let object: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(object["valid"], 29);
    let neighbors = &object["neighbors"];
    assert_eq!((&neighbors["kind"], &neighbors["of"]["BLOCK"]), (&"adjacent".into(), &32.into()));
    assert_eq!((neighbors["points"].as_array().unwrap().len(), &neighbors["count"]), (2, &11.into()));
}

/// The first bytes of an endless answer; then the reader leaves, and evo has to end well.
#[track_caller]
fn check_head(arguments: &[&str], first: &str, note: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("vast.toml");
    std::fs::write(&path, vast()).unwrap();
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("evo"));
    command.arg("space").arg(&path).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut read = vec![0; first.len()];
    child.stdout.take().unwrap().read_exact(&mut read).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(read).unwrap(), first);
    assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), note));
}

#[test]
fn a_reader_may_leave_at_any_time() {
    check_head(
        &["--list"],
        "P0,P1,P2",
        "note: 91,000,000,000,000,000,000 rows come; `--rows N` prints the first N\n",
    );
    check_head(
        &["--list", "--format", "text", "--offset", "90000000000000000000"],
        "P0=9 P1=8 P2=8 P3=8 P4=8",
        "note: 1,000,000,000,000,000,000 rows come; `--rows N` prints the first N\n",
    );
    let note = "note: 2,711,943,422 neighbors come; `--rows N` prints the first N\n";
    check_head(&["--neighbors", "--kind", "strictly-adjacent"], "P0=4 P1=4", note);
    let note = "note: `--json` holds the first 100,000; without it all come\n";
    check_head(&["--neighbors", "--kind", "adjacent", "--json"], "{\"schema\":", note);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_an_error() {
    for arguments in [&["--list"][..], &["--neighbors"], &["--sample", "3"], &["--json"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("evo"));
        command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data"));
        command.args(["space", "tiles.json"]).args(arguments).stdout(full).stderr(Stdio::piped());
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("error: cannot write to stdout: "), "{arguments:?}: {stderr}");
    }
}
