//! `evo export` as a program, on the host device with a small kernel: what is written, what is refused, and that the
//! exported source and launch code are what evo itself runs.

use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::support::answer::{self, judged};
use crate::support::{self, BRIEF};
use crate::sweep::{KERNEL, NAIVE, SPACE};
use crate::{json_schema, python};

const SEED: &str = "--device host --seed 1 --json";

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("scale.toml", SPACE), ("scale.cu", KERNEL), ("naive.cu", NAIVE)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn run(folder: &Path, words: &str) -> Output {
    support::evo(folder, &format!("export {words} {SEED} {BRIEF}")).output().unwrap()
}

/// The answer of a call that ended so; every null has a reason.
#[track_caller]
fn ended(folder: &Path, words: &str, code: i32, status: &str) -> Value {
    let object = judged("export", words, &run(folder, words), code, status);
    if object["error"].is_null() {
        answer::hold_nulls(&object);
    }
    object
}

#[track_caller]
fn refused(folder: &Path, words: &str, expected: &str) {
    let object = ended(folder, words, 2, "error");
    let message = object["error"]["message"].as_str().unwrap();
    assert!(message.contains(expected), "`{words}`: {object}");
    assert!(!folder.join("out").exists(), "`{words}` wrote something");
}

#[test]
fn an_exported_source_is_a_candidate_that_launches_as_the_space_does() {
    let folder = folder();
    let found = ended(folder.path(), "scale.toml 64 2 --to out --format cu,dispatch,cu --verify", 2, "error");
    // One variant has nothing to choose.
    assert!(found["error"]["message"].as_str().unwrap().contains("`dispatch` cannot be written"), "{found}");
    let found = ended(folder.path(), "scale.toml 64 2 --to out --format cu --verify", 0, "pass");
    let row = &found["result"]["verified"][0];
    assert_eq!(
        (&row["format"], &row["problem"], &row["status"]),
        (&"cu".into(), &"small".into(), &"pass".into()),
        "{found}"
    );
    assert!(row["ratio"].as_f64().unwrap() > 0.0);
    assert_eq!(found["result"]["judged"], "now");
    let out = folder.path().join("out");
    let text = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    let kernel = text("kernel.cu");
    assert!(kernel.contains("#define BLOCK 64\n#define VEC 2\n"), "{kernel}");
    assert!(!kernel.contains("evo_variant_hash") && !kernel.contains("#line"), "{kernel}");
    let manifest: Value = serde_json::from_str(&text("manifest.json")).unwrap();
    assert_eq!(json_schema::fault(&answer::schema("export-manifest"), &manifest), None, "{manifest}");
    assert_eq!(manifest["configuration"]["BLOCK"], 64);
    assert!(manifest["reasons"]["numbers"].is_string(), "{manifest}");
    let mut names: Vec<&String> = manifest["files"].as_object().unwrap().keys().collect();
    names.sort();
    assert_eq!(names, ["README.md", "exact.hpp", "kernel.cu", "launch.hpp"]);
    // The command line that is told does the same again.
    let repro = found["repro"].as_str().unwrap();
    assert!(
        repro.starts_with("evo export scale.toml") && repro.contains("--to out --format cu --verify"),
        "{repro}"
    );
}

#[test]
fn all_formats_say_which_of_them_are_missing_here() {
    let folder = folder();
    let found = ended(folder.path(), "scale.toml --to out", 0, "pass");
    let formats = found["result"]["formats"].as_array().unwrap();
    let written: Vec<&str> = formats
        .iter()
        .filter(|own| own["written"] == true)
        .map(|own| own["format"].as_str().unwrap())
        .collect();
    assert_eq!(written, ["cu", "torch"], "{found}");
    let cubin = formats.iter().find(|own| own["format"] == "cubin").unwrap();
    assert!(cubin["reason"].as_str().unwrap().contains("name one with `--arch`"), "{cubin}");
    assert!(folder.path().join("out/torch_ext/binding.cpp").exists());
}

#[test]
fn a_specialized_kernel_is_several_variants_with_a_table() {
    let folder = folder();
    let words = "attention_mma --to out --format cu,dispatch --unchecked";
    let found = ended(folder.path(), words, 0, "pass");
    let variants: Vec<&str> = found["result"]["variants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|own| own["folder"].as_str().unwrap())
        .collect();
    assert_eq!(variants, ["causal_0", "causal_1"], "{found}");
    assert_eq!(found["result"]["judged"], "unchecked");
    let out = folder.path().join("out");
    assert!(out.join("causal_1/evo/ptx.cuh").exists());
    let table: Value = serde_json::from_str(&fs::read_to_string(out.join("dispatch.json")).unwrap()).unwrap();
    assert_eq!(table["rule"][0]["when"], "CAUSAL == 0");
    assert_eq!(table["rule"][1]["variant"], "causal_1");
    // One problem needs one binary.
    let one = "attention_mma --to one --format cu --unchecked --problem host_b1h2_s64";
    let found = ended(folder.path(), one, 0, "pass");
    assert_eq!(found["result"]["variants"][0]["folder"], "");
    assert!(folder.path().join("one/kernel.cu").exists());
}

#[test]
fn a_source_for_one_set_of_constants_is_asked_about_no_other() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["mask.cu.j2", "naive.cu", "mask.toml"] {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/kernels/specialize").join(name);
        fs::copy(data, folder.path().join(name)).unwrap();
    }
    let path = folder.path().join("mask.toml");
    let shapes =
        "[check]\ntiny = [{ R = 3, MASKED = 0 }, { R = 3, MASKED = 1 }, { R = 5, C = 40, MASKED = 1 }]\n";
    let text = fs::read_to_string(&path).unwrap().replace("[check]\n", shapes);
    fs::write(&path, text).unwrap();
    let words = "mask.toml --to out --format cu --verify";
    let found = ended(folder.path(), words, 0, "pass");
    let verified = found["result"]["verified"].as_array().unwrap();
    let of =
        |name: &str| verified.iter().filter(|own| own["problem"] == name && own["status"] == "pass").count();
    assert_eq!((of("plain"), of("masked")), (1, 1), "{found:#}");
}

#[test]
fn what_fails_a_gate_is_not_exported() {
    let folder = folder();
    let found = ended(folder.path(), "scale.toml 32 1 3 --to out --format cu", 1, "fail");
    assert!(found["reasons"]["result.judged"].as_str().unwrap().contains("wrong_answer"), "{found}");
    assert!(!folder.path().join("out").exists());
    ended(folder.path(), "scale.toml 32 1 3 --to out --format cu --unchecked", 0, "pass");
}

#[test]
fn mistakes_have_a_way_out_and_write_nothing() {
    let folder = folder();
    let path = folder.path();
    refused(path, "scale.toml --to out --format torch_op", "did you mean `torch-op`?");
    refused(path, "scale.toml --to out --format torch-op", "cannot be written: no architecture is known");
    refused(path, "scale.toml --to out --arch sm_5", "unknown target `sm_5`");
    refused(path, "scale.toml @champion --to out", "there is no study of `scale`");
    refused(path, "scale.toml 64 3 --to out", "`3`");
    refused(path, "scale.toml --to scale.cu", "is not a folder");
    fs::create_dir(path.join("full")).unwrap();
    fs::write(path.join("full/notes.txt"), "mine").unwrap();
    refused(path, "scale.toml --to full --format cu", "has notes.txt");
    ended(path, "scale.toml --to full --format cu --force", 0, "pass");
    assert_eq!(fs::read_to_string(path.join("full/notes.txt")).unwrap(), "mine");
    assert!(path.join("full/launch.hpp").exists());
    let text = SPACE.replacen("role = \"input\"", "role = \"input\"\nsymbol = \"d_x\"", 1);
    fs::write(path.join("symbol.toml"), text.replace("scale.cu", "symbol.cu")).unwrap();
    let source = KERNEL.replace("const float *x, ", "");
    fs::write(path.join("symbol.cu"), format!("__device__ float d_x[1];\n#define x d_x\n{source}")).unwrap();
    refused(path, "symbol.toml --to out --unchecked --format cu", "lies in the variable `d_x`");
}

/// The invented recording, searched whole: a study without a device.
fn recorded_study(folder: &Path) {
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/stencil__invented.json");
    let words =
        format!("sweep --device replay:{} --study s --budget 40 --seed 1 --no-prior", recording.display());
    let output = support::evo(folder, &words).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn results_are_read_back_as_the_same_study() {
    let folder = folder();
    let path = folder.path();
    recorded_study(path);
    let words = "export s --to results --format t4,kernel-tuner,optuna,csv --json";
    let found = judged("export", words, &support::evo(path, words).output().unwrap(), 0, "pass");
    answer::hold_nulls(&found);
    let read = |name: &str| fs::read_to_string(path.join("results").join(name)).unwrap();
    let t4: Value = serde_json::from_str(&read("t4-results.json")).unwrap();
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
        fs::copy(path.join("results").join(name), path.join("stencil__again.json")).unwrap();
        let words =
            "sweep --device replay:stencil__again.json --out again --study a --seed 1 --no-prior --json";
        let output = support::evo(path, words).output().unwrap();
        let last = String::from_utf8_lossy(&output.stdout).lines().last().map(String::from).unwrap();
        let object: Value = serde_json::from_str(&last).unwrap();
        assert_eq!(object["passed"], passed, "{name}: {last}");
        fs::remove_dir_all(path.join("again")).unwrap();
    }
    // A line each: the study, then its trials.
    let lines = read("optuna-journal.log").lines().count();
    assert_eq!(lines, rows.len() + 1);
    assert!(read("results.csv").lines().count() > rows.len());
    let mixed = support::evo(path, "export s --to other --format t4,cu --json").output().unwrap();
    judged("export", "t4,cu", &mixed, 2, "error");
    let none = support::evo(path, "export none --to other --format t4 --json").output().unwrap();
    judged("export", "none", &none, 2, "error");
    assert!(!path.join("other").exists());
}

#[track_caller]
fn printed(packages: &Path, folder: &Path, program: &str) -> String {
    let mut command = std::process::Command::new("python3");
    command.args(["-c", program]).current_dir(folder).env("PYTHONPATH", packages);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

#[test]
fn optuna_opens_our_journal() {
    let Some(packages) = python::peer("optuna==5.0.0") else { return };
    let folder = folder();
    recorded_study(folder.path());
    let words = "export s --to results --format optuna,t4 --json";
    judged("export", words, &support::evo(folder.path(), words).output().unwrap(), 0, "pass");
    let program = "import json, optuna\n\
        from optuna.storages import JournalStorage\n\
        from optuna.storages.journal import JournalFileBackend\n\
        study = optuna.load_study(study_name='s', storage=JournalStorage(JournalFileBackend('results/optuna-journal.log')))\n\
        rows = json.load(open('results/t4-results.json'))['results']\n\
        best = min((r for r in rows if r['invalidity'] == 'correct'), key=lambda r: r['measurements'][0]['value'])\n\
        assert study.best_params == best['configuration'], (study.best_params, best)\n\
        print(len(study.trials) == len(rows), study.best_value == best['measurements'][0]['value'])";
    assert_eq!(printed(&packages, folder.path(), program), "True True");
}
