//! The public search spaces of other tuners: exact counts and the exact sets.

use std::path::{Path, PathBuf};

use evo::space::diagnostic::Diagnostics;
use evo::space::space::SearchSpace;
use evo::space::{document, load};

/// The folder with other tuners' spaces, if it lies beside the checkout; says so if not.
fn shared_spaces() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let folder = std::env::var_os("EVO_SHARED").map_or_else(beside, PathBuf::from).join("spaces");
    if !folder.is_dir() {
        eprintln!("skipped: no ../shared (looked for {})", folder.display());
        return None;
    }
    Some(folder)
}

fn open(path: &Path) -> SearchSpace {
    let text = std::fs::read_to_string(path).unwrap();
    let mut diagnostics = Diagnostics::default();
    let space =
        document::parse(&text, &mut diagnostics).and_then(|root| load::read_space(&root, &mut diagnostics));
    space.unwrap_or_else(|| panic!("{}", diagnostics.render(&path.display().to_string(), &text)))
}

#[derive(serde::Deserialize)]
struct Expected {
    expected_cartesian: Box<serde_json::value::RawValue>,
    expected_valid: Box<serde_json::value::RawValue>,
    rank_sum: String,
}

#[test]
fn shared_spaces_have_exactly_the_expected_points() {
    let Some(folder) = shared_spaces() else { return };
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    assert!(files.len() >= 12, "only {} space files", files.len());
    for path in files {
        let expected: Expected = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let start = std::time::Instant::now();
        let space = open(&path);
        eprintln!("{}: {:.3} s", path.display(), start.elapsed().as_secs_f64());
        assert_eq!(space.cartesian().to_string(), expected.expected_cartesian.get(), "{}", path.display());
        assert_eq!(space.valid().to_string(), expected.expected_valid.get(), "{}", path.display());
        assert_eq!(space.rank_sum().to_string(), expected.rank_sum, "{}", path.display());
        check_indices(&space);
    }
}

/// Index → point → index on the first, the last and evenly spread points; iteration agrees.
fn check_indices(space: &SearchSpace) {
    let count = space.count();
    let spread = (0..1000).map(|step| count / 1000 * step).chain([count - 1]);
    for index in spread {
        let genome = space.genome_at(index).unwrap();
        assert!(space.contains(&genome) && space.violations(&genome).is_empty());
        assert_eq!(space.index_of(&genome), Some(index));
    }
    assert_eq!(space.genome_at(count), None);
    for (index, genome) in space.iter().take(1000).enumerate() {
        assert_eq!(space.index_of(&genome), Some(index as u128));
    }
}

/// Runs `evo space` in the tests' data folder: exit code, stdout, stderr.
fn evo_space(arguments: &[&str]) -> (i32, String, String) {
    let mut command = assert_cmd::Command::cargo_bin("evo").unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let output = command.current_dir(folder).arg("space").args(arguments).output().unwrap();
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
        assert_eq!((code, stdout.as_str()), (2, ""), "{text}");
        assert!(stderr.contains(expected), "{text}: {stderr}");
    };
    check("[parameters\n", "bad.toml:1:");
    check("[parameters]\nA = []\n", "`A` has no values");
    check("constraints = ['A > 1']\n[parameters]\nA = [1]\n", "no point satisfies this constraint");
    check("constraints = ['B > 1']\n[parameters]\nA = [1]\n", "constraint reads `B`, which is no parameter");
    check("[parameters]\nA = [1]\n[constraint]\n", "unknown key `constraint`");
    let (code, _, stderr) = evo_space(&["no_such_file.toml"]);
    assert_eq!(code, 2, "{stderr}");
}
