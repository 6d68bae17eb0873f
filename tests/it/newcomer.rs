//! What a first sweep prints; other first steps are sessions (`sessions.rs`).

use std::collections::BTreeSet;

use serde_json::Value;

use crate::json_schema::{fault, unlisted};
use crate::support::BRIEF;
use crate::support::answer;
use crate::support::stage::{Ran, Stage};

fn swept(stage: &Stage, words: &str) -> Ran {
    stage.run(&format!("sweep scale.toml --device host {BRIEF} {words}")).ends(0)
}

#[test]
fn preflight_for_a_gpu_prints_its_table_without_one() {
    // A machine with a GPU has the table as well.
    let ran = Stage::of("scale_new").run("preflight --device cuda");
    ran.says(&[" gpu  ", " nvrtc  ", "for `--device cuda`\n"]);
}

#[test]
fn events_and_study_keep_to_their_schemas() {
    let stage = Stage::of("scale_new");
    let ran = swept(&stage, "--json");
    let lines: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (result, events) = lines.split_last().unwrap();
    assert_eq!(result["schema"], "evo.sweep");
    let (event, study) = (answer::schema("sweep-event"), answer::schema("study"));
    let mut seen = BTreeSet::new();
    for line in events {
        assert_eq!(fault(&event, line), None, "{line}");
        let name = line["event"].as_str().unwrap();
        let own = event["oneOf"].as_array().unwrap();
        let own = own.iter().find(|own| own["properties"]["event"]["const"] == name).unwrap();
        assert_eq!(unlisted(&event, own, line, name), None);
        seen.insert(name);
    }
    for name in ["started", "evaluating", "finished", "confirming", "stopped"] {
        assert!(seen.contains(name), "no `{name}` in {seen:?}");
    }
    let file = stage.json("evidence/scale-host/study.json");
    assert_eq!(fault(&study, &file), None);
    assert_eq!(unlisted(&study, &study, &file, "study"), None);
}

#[test]
fn the_end_of_a_sweep_says_what_won_or_that_nothing_was_confirmed() {
    let stage = Stage::of("scale_new");
    let unconfirmed = swept(&stage, "--finalists 0").out;
    let title = unconfirmed.lines().next().unwrap();
    assert!(title.starts_with("scale on ") && title.ends_with(" · p"), "{unconfirmed}");
    assert!(
        unconfirmed.contains("\nnot confirmed: ") && unconfirmed.contains(" (screened)\n"),
        "{unconfirmed}"
    );
    let last = unconfirmed.lines().last().unwrap();
    let again =
        "confirm  evo sweep scale.toml --device host --limit sampling=100ms --study scale-host --resume";
    assert_eq!(last, again, "{unconfirmed}");
    let board = stage.json("evidence/leaderboard.json");
    assert_eq!(board["sections"].as_array().unwrap().len(), 0, "only confirmed results enter it");
    // More finalists than variants are counted as they are.
    let ran = stage.run(&format!("{} --finalists 9999999", last.split_once("evo ").unwrap().1));
    assert!(ran.err.contains("1 of 1") && !ran.err.contains("999999"), "{ran}");
    let confirmed = &ran.out;
    let is_answer = |line: &str| {
        line.starts_with("winner   BLOCK=") || line.starts_with("no variant is certainly faster")
    };
    assert!(confirmed.lines().any(is_answer) && confirmed.contains("\ntime     "), "{confirmed}");
    assert!(confirmed.contains("\nnote     times of this processor, not of a GPU"), "{confirmed}");
    assert!(confirmed.lines().count() <= 24, "{confirmed}");
    // The history of a space file is that of its kernel.
    for words in ["history scale.toml", "summary scale.toml"] {
        stage.run(words).ends(0).says(&["scale on "]);
    }
    // The command is there and takes what is shown.
    stage.run(confirmed.lines().last().unwrap().split_once("evo ").unwrap().1).ends(0);
    for made in ["app/manifest.json", "evidence/scale-host/report.html"] {
        assert!(stage.at(made).is_file(), "no `{made}`");
    }
}

#[test]
fn logs_have_plain_lines_and_colors_only_on_request() {
    let stage = Stage::of("scale_new");
    let sweep = |set: &[(&str, &str)]| {
        let mut command =
            stage.evo(&format!("sweep scale.toml --device host --finalists 0 --seed 1 {BRIEF}"));
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").envs(set.iter().copied());
        Ran::of("sweep", &command.output().unwrap())
    };
    let Ran { out, err, .. } = sweep(&[]);
    assert!(!out.contains('\u{1b}') && !err.contains('\u{1b}') && !err.contains('\r'), "{out}{err}");
    assert!(sweep(&[("CLICOLOR_FORCE", "1")]).out.starts_with("\u{1b}[1mscale on "));
    assert!(!sweep(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]).out.contains('\u{1b}'));
}
