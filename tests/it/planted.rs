//! A sweep of a space in which some variants lie, and are fast because they do: the champion is that of the
//! same space without lies.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use evo::journal::reader;
use evo::journal::replay::History;
use evo_protocol::evaluation::Evaluation;
use evo_space::value::Value as Parameter;
use serde_json::Value;

use crate::support::{self, BRIEF};

/// What a sweep of the space found.
struct Swept {
    evaluations: Vec<Evaluation>,
    section: Value,
}

/// Sweeps the whole space, with lies or without.
fn sweep(lies: bool) -> Swept {
    let folder = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/planted");
    for name in ["planted.toml", "planted.cu.j2", "naive.cu"] {
        std::fs::copy(from.join(name), folder.path().join(name)).unwrap();
    }
    if lies {
        let path = folder.path().join("planted.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        let planted = text.replace("values = [0], default = 0", "values = [1], default = 1");
        assert_ne!(planted, text);
        std::fs::write(path, planted).unwrap();
    }
    let words = ["sweep", "planted.toml", "--device", "host", "--study", "s", "--strategy", "exhaustive"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
    command.current_dir(folder.path()).args(words).args(BRIEF.split(' '));
    command.args(["--finalists", "1", "--no-prior", "--seed", "7"]);
    let output = command.env("EVO_CACHE_DIR", support::cache()).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let journal = reader::read(&folder.path().join("evidence/s/journal.jsonl")).unwrap();
    let board = std::fs::read(folder.path().join("evidence/leaderboard.json")).unwrap();
    let board: Value = serde_json::from_slice(&board).unwrap();
    Swept { evaluations: History::replay(journal).evaluations, section: board["sections"][0].clone() }
}

/// The values of A, B and C: `LIES` is what differs between the spaces.
fn shape(evaluation: &Evaluation) -> [i64; 3] {
    ["A", "B", "C"].map(|name| evaluation.configuration.get(name).and_then(Parameter::as_int).unwrap())
}

fn shape_of_row(row: &Value) -> [i64; 3] {
    ["A", "B", "C"].map(|name| row["configuration"][name].as_i64().unwrap())
}

/// Whether the template plants a lie here.
fn lies([a, b, c]: [i64; 3]) -> bool {
    (a + b + c) % 5 == 2
}

#[test]
fn lies_in_a_space_do_not_change_its_champion() {
    let (clean, planted) = (sweep(false), sweep(true));
    assert_eq!((clean.evaluations.len(), planted.evaluations.len()), (18, 18));
    let honest = |one: &&Evaluation| matches!(one.verdict.kind.as_str(), "pass" | "too_slow");
    assert_eq!(clean.evaluations.iter().filter(honest).count(), 18);
    // The variant with the least work, by a factor of six.
    assert_eq!(shape_of_row(&clean.section["champion"]), [1, 0, 0]);
    assert_eq!(shape_of_row(&planted.section["champion"]), [1, 0, 0]);
    let liars: BTreeMap<[i64; 3], String> = planted
        .evaluations
        .iter()
        .filter(|one| lies(shape(one)))
        .map(|one| (shape(one), one.verdict.label()))
        .collect();
    assert_eq!(liars.len(), 5);
    // Each for what it is: a liar that gets away with it is faster than the champion.
    for (shape, label) in &liars {
        // What a liar remembers is gone while it is timed, and without that one of them has much to do.
        let named = ["wrong_answer", "oob_write", "timing_escape", "stateful", "too_slow"];
        assert!(named.iter().any(|kind| label.starts_with(kind)), "{shape:?}: {label}");
    }
    let kinds = liars.values().map(|label| label.split(':').next().unwrap()).collect::<Vec<_>>();
    assert!(kinds.contains(&"oob_write") && kinds.contains(&"wrong_answer"), "{liars:?}");
    let section = &planted.section;
    let rows = section["runners_up"].as_array().unwrap().iter();
    for row in rows.chain([&section["champion"], &section["baseline"]]) {
        assert!(!lies(shape_of_row(row)), "{row:#}");
    }
    for one in planted.evaluations.iter().filter(|one| !lies(shape(one))) {
        assert!(honest(&one), "{:?}: {}", shape(one), one.verdict.label());
    }
}
