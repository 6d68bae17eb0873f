//! `evo sweep --per-problem` on the host device: what it says, what it keeps, and that a resumed study goes on with it.

use std::fs;
use std::path::Path;

use evo::journal::reader;
use evo::journal::replay::History;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::scale::stage_with;
use crate::support::{self, BRIEF};

/// `y = 2 x`, with work that one problem needs and the other does not: `SHORT` steps where there are few elements, and
/// `LONG` where there are many.
const SOURCE: &str = include_str!("../data/kernels/scale_two/scale.cu");

const HEAD: &str = include_str!("../data/kernels/scale_two/head.toml");

/// The command's object, its stderr and the study's summary.
fn sweep(root: &Path, words: &str) -> (Value, String, Value) {
    let line = format!("sweep scale.toml --device host --study s {BRIEF} --json {words}");
    let output = support::evo(root, &line).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}: {stderr}");
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    let object: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    let study = fs::read(root.join("evidence/s/study.json")).unwrap();
    (object, stdout + &stderr, serde_json::from_slice(&study).unwrap())
}

/// What the journal says that evaluations were proposed for.
fn aims(root: &Path) -> Vec<Option<String>> {
    let journal = reader::read(&root.join("evidence/s/journal.jsonl")).unwrap();
    History::replay(journal).evaluations.into_iter().map(|one| one.aimed_at).collect()
}

fn stage() -> TempDir {
    stage_with("scale.cu", SOURCE, HEAD)
}

#[test]
fn each_problem_is_searched_for_and_a_resumed_study_goes_on_so() {
    let stage = stage();
    let root = stage.path();
    let words = "--per-problem --strategy evolve --seed 3 --no-prior";
    let (object, said, study) = sweep(root, &format!("{words} --finalists 1 --budget 14"));
    assert!(said.contains("the search is for the best configuration of each of 2 problems"), "{said}");
    assert_eq!(study["header"]["per_problem"], true);
    let ends = object["per_problem"].as_array().unwrap();
    let names: Vec<&str> = ends.iter().map(|one| one["problem"].as_str().unwrap()).collect();
    assert_eq!(names, ["small", "large"]);
    let aimed = |object: &Value| -> u64 {
        object["per_problem"].as_array().unwrap().iter().map(|one| one["aimed_at"].as_u64().unwrap()).sum()
    };
    assert!(aimed(&object) > 0, "{object}");
    for end in ends {
        // The work of a problem follows from one parameter alone: the others are not near.
        let name = if end["problem"] == "small" { "SHORT" } else { "LONG" };
        assert!(end["best"]["configuration"][name].as_i64().unwrap() <= 400, "{end}");
    }
    let before = aims(root);
    assert_eq!(before.iter().flatten().count() as u64, aimed(&object));
    // The journal keeps it: nobody asks for it again.
    let (object, _, study) = sweep(root, "--resume --finalists 0 --budget 20");
    assert_eq!(
        (object["evaluations"].as_u64(), study["header"]["per_problem"].as_bool()),
        (Some(20), Some(true))
    );
    assert!(aimed(&object) > before.iter().flatten().count() as u64, "{object}");
    // For people, a line.
    let line = "sweep scale.toml --device host --study s --finalists 0 --resume --budget 20 --verbose";
    let output = support::evo(root, line).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("per problem: `small` "), "{text}");
}

#[test]
fn where_it_changes_nothing_it_says_so() {
    let stage = stage();
    let check = |words: &str, why: &str| {
        let (object, said, study) =
            sweep(stage.path(), &format!("--per-problem --finalists 0 --seed 1 --budget 6 {words}"));
        let told = format!("`--per-problem` changes nothing: {why}");
        assert!(said.contains(&told), "{words}: {said}");
        assert!(object.get("per_problem").is_none() && study["header"].get("per_problem").is_none());
        fs::remove_dir_all(stage.path().join("evidence")).unwrap();
    };
    check("--strategy evolve --problem small", "`small` is the only timed problem");
    check("--strategy exhaustive", "`exhaustive` evaluates every configuration on every problem");
}

#[test]
fn a_study_of_the_mean_says_that_it_changes() {
    let stage = stage();
    let (_, _, study) = sweep(stage.path(), "--strategy evolve --finalists 0 --seed 1 --budget 6");
    assert!(study["header"].get("per_problem").is_none());
    let words = "--strategy evolve --resume --per-problem --finalists 0 --budget 9";
    let (_, said, study) = sweep(stage.path(), words);
    assert!(
        said.contains("was searched for the least mean before; from now on for the best of each"),
        "{said}"
    );
    assert_eq!(study["header"]["per_problem"], true);
}
