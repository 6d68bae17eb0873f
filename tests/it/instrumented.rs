//! What instrumented runs on the host device are asked beyond rows of verdicts (`judged.rs`): rounding, and by hand.

use serde_json::Value;

use crate::support::kernels::Kernel;
use crate::support::{self, BRIEF};

/// A long chain of multiplications and additions, which the instrumented build does not fuse.
#[test]
fn rounding_of_the_instrumented_build_is_not_held_against_the_variant() {
    let folder = tempfile::tempdir().unwrap();
    let space = concat!(env!("CARGO_MANIFEST_DIR"), "/evidence/commands/work.toml");
    let words = format!("ROUNDS=1000 {BRIEF} --device host --seed 7 --json");
    let mut command = support::evo(folder.path(), "test-one");
    let output = command.arg(space).args(words.split(' ')).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["verdict"], output.status.code()), (&"pass".into(), Some(0)), "{answer:#}");
}

/// What a GPU's finalists are asked, here by hand: `evo sanitize` looks on the host device whatever the device is.
#[test]
fn the_host_twin_names_faults_that_no_answer_shows() {
    let kernel = Kernel::copy("twin");
    let look = |words: &str| {
        let words = format!("sanitize own/space.toml {words} --device host --seed 7 --json");
        let output = kernel.evo(&words).output().unwrap();
        let object: Value = serde_json::from_slice(&output.stdout).unwrap();
        let stand_ins = object["result"]["stand_ins"].as_array().unwrap().clone();
        (output.status.code(), object, stand_ins.into_iter().find(|own| own["name"] == "host_twin"))
    };
    for (mode, label, part) in [
        (1, "nondeterministic:race", "`tile["),
        (2, "oob_read", "`x`"),
        (3, "wrong_answer:uninitialized", "before writing them"),
        (5, "nondeterministic:race", "`work["),
    ] {
        let (code, object, twin) = look(&format!("MODE={mode}"));
        let twin = twin.unwrap();
        assert_eq!(
            (code, &twin["ran"], &twin["message"]),
            (Some(1), &true.into(), &label.into()),
            "{object}"
        );
        let result = &object["result"];
        assert_eq!((&result["state"], &result["verdict"]), (&"fail".into(), &label.into()), "{object}");
        let what = result["findings"][0]["what"].as_str().unwrap();
        assert!(what.starts_with("seen on the host device: ") && what.contains(part), "{what}");
    }
    // The honest one is not vouched for: on a GPU the tool has the last word.
    let (code, object, twin) = look("MODE=0");
    let said = twin.unwrap()["message"].to_string();
    assert!(said.contains("no fault in 6 instrumented cases"), "{said}");
    assert_eq!((code, &object["result"]["state"]), (Some(1), &"not_run".into()), "{object}");

    kernel.edit("space.toml", "[check]\n", "[check]\nhost_twin = false\n");
    let (_, object, twin) = look("MODE=1");
    assert!(twin.is_none(), "{object}");
}
