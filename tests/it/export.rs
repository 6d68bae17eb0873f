//! What others read of an export: the manifest, and a study in other programs' forms. The rest is told by sessions.

use std::fs;
use std::process::Command;

use crate::support::answer;
use crate::support::stage::Stage;
use crate::{json_schema, python};

#[test]
fn the_manifest_keeps_to_its_schema() {
    let stage = Stage::of("scale");
    stage.answers("export scale.toml 64 2 --to out --format cu --unchecked --device host", 0, "pass");
    let manifest = stage.json("out/manifest.json");
    assert_eq!(json_schema::fault(&answer::schema("export-manifest"), &manifest), None, "{manifest}");
}

/// The invented recording, searched whole: a study without a device, exported.
fn recorded_study(formats: &str) -> Stage {
    let stage = Stage::empty();
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/stencil__invented.json");
    stage
        .run(&format!("sweep --device replay:{recording} --study s --budget 40 --seed 1 --no-prior"))
        .ends(0);
    stage.answers(&format!("export s --to results --format {formats}"), 0, "pass");
    stage
}

#[test]
fn results_are_read_back_as_the_same_study() {
    let stage = recorded_study("t4,kernel-tuner,optuna,csv");
    let t4 = stage.json("results/t4-results.json");
    let rows = t4["results"].as_array().unwrap();
    for row in rows {
        let is_right = row["invalidity"] == "correct";
        assert_eq!(row["correctness"], if is_right { 1.0 } else { 0.0 }, "{row}");
        assert_eq!(row["times"]["compilation"], row["times"]["compilation_time"], "{row}");
    }
    let passed = rows.iter().filter(|own| own["invalidity"] == "correct").count();
    assert!(passed > 0 && passed < rows.len(), "{passed} of {}", rows.len());
    // evo's own readers of both forms see as many, and as many that passed.
    for name in ["t4-results.json", "kernel-tuner-cache.json"] {
        fs::copy(stage.at("results").join(name), stage.at("stencil__again.json")).unwrap();
        let words =
            "sweep --device replay:stencil__again.json --out again --study a --seed 1 --no-prior --json";
        assert_eq!(stage.run(words).object()["passed"], passed, "{name}");
        fs::remove_dir_all(stage.at("again")).unwrap();
    }
    // A line each: the study, then its trials.
    assert_eq!(stage.read("results/optuna-journal.log").lines().count(), rows.len() + 1);
    assert!(stage.read("results/results.csv").lines().count() > rows.len());
    stage.answers("export s --to other --format t4,cu", 2, "error");
    stage.answers("export none --to other --format t4", 2, "error");
    assert!(!stage.at("other").exists());
}

#[test]
fn optuna_opens_our_journal() {
    let Some(packages) = python::peer("optuna==5.0.0") else { return };
    let stage = recorded_study("optuna,t4");
    let program = "import json, optuna\n\
        from optuna.storages import JournalStorage\n\
        from optuna.storages.journal import JournalFileBackend\n\
        study = optuna.load_study(study_name='s', storage=JournalStorage(JournalFileBackend('results/optuna-journal.log')))\n\
        rows = json.load(open('results/t4-results.json'))['results']\n\
        best = min((r for r in rows if r['invalidity'] == 'correct'), key=lambda r: r['measurements'][0]['value'])\n\
        assert study.best_params == best['configuration'], (study.best_params, best)\n\
        assert len(study.trials) == len(rows) and study.best_value == best['measurements'][0]['value']";
    let mut command = Command::new("python3");
    command.args(["-c", program]).current_dir(stage.path()).env("PYTHONPATH", packages);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
