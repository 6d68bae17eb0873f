//! `evo invert`: kernels that are harmed on purpose, on the host device.

use std::fs;

use serde_json::Value;

use crate::support::{BRIEF, evo};

/// Little but barriers: two for each of `STEPS` steps.
const KERNEL: &str = include_str!("../data/kernels/sums/sums.cu");

const NAIVE: &str = include_str!("../data/kernels/sums/naive.cu");

const SPACE: &str = include_str!("../data/kernels/sums/space.toml");

fn folder(space: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let naive = NAIVE.replace("BLOCK", "32");
    for (name, text) in [("sums.toml", space), ("sums.cu", KERNEL), ("naive.cu", &naive)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn run(folder: &tempfile::TempDir, words: &str) -> (Option<i32>, Value, String) {
    let words = format!("invert ./sums.toml --device host --seed 3 {BRIEF} --json {words}");
    let output = evo(folder.path(), &words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap_or_default(), said)
}

fn row<'a>(rows: &'a Value, name: &str) -> &'a Value {
    let found = rows.as_array().unwrap().iter().find(|row| row["pathology"] == name);
    found.unwrap_or_else(|| panic!("there is no {name} in {rows:#}"))
}

#[test]
fn what_binds_a_kernel_comes_first_and_is_kept() {
    let folder = folder(SPACE);
    let (code, answer, said) =
        run(&folder, "--only barriers,entry_delay,register_cap,spin,another_kernel,no_barriers");
    assert_eq!(code, Some(0), "{answer:#} {said}");
    let rows = &answer["rows"];
    // A loop of 20,000 steps a thread dwarfs everything; sixteen barriers are most of the rest.
    assert_eq!(rows[0]["pathology"], "spin", "{rows:#}");
    assert_eq!(rows[0]["rank"], 1);
    assert!(rows[0]["slope_low"].as_f64().unwrap() > 1.0, "{rows:#}");
    assert_eq!(row(rows, "barriers")["happened"], true);
    assert!(row(rows, "barriers")["slope_low"].as_f64().unwrap() > 0.0, "{rows:#}");
    let on_gpus = row(rows, "register_cap");
    assert_eq!((&on_gpus["rank"], &on_gpus["happened"]), (&Value::Null, &Value::Null));
    assert_eq!(on_gpus["how_known"], "not run: only a GPU has it");
    // Nine steps are another answer: a verdict and no time.
    let wrong = &row(rows, "another_kernel")["doses"][0];
    assert!(wrong["verdict"].as_str().unwrap().starts_with("wrong_answer"), "{wrong}");
    assert!(wrong["ratio"].is_null() && row(rows, "another_kernel")["slope"].is_null());
    let lighter = row(rows, "no_barriers");
    assert!(lighter["doses"][0]["verdict"].as_str().unwrap().starts_with("wrong_answer"), "{lighter}");
    assert!(lighter["upper_bound_of_cure_ratio"].as_f64().unwrap() < 0.9, "{lighter}");
    assert!(lighter["slope"].is_null() && lighter["rank"].is_null());
    let kept: Value =
        serde_json::from_slice(&fs::read(folder.path().join(answer["file"].as_str().unwrap())).unwrap())
            .unwrap();
    assert_eq!(&kept, rows);
    let page = answer["file"].as_str().unwrap().replace(".json", ".md");
    let page = fs::read_to_string(folder.path().join(page)).unwrap();
    assert!(page.contains("| 1 | `spin` |") && page.contains("try next: spin less"), "{page}");
    // Nothing that a sweep, a board or a history would read.
    assert!(!folder.path().join("evidence/leaderboard.json").exists());
    let names: Vec<_> = fs::read_dir(folder.path().join("evidence/sums-host")).unwrap().flatten().collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn what_changes_nothing_says_so() {
    let quiet = SPACE.replace("define = { SLOW = 1 }", "define = { UNUSED = 1 }");
    let (code, answer, said) = run(&folder(&quiet), "--only spin");
    assert_eq!(code, Some(0), "{answer:#} {said}");
    let row = &answer["rows"][0];
    assert_eq!((&row["happened"], &row["slope"], &row["rank"]), (&false.into(), &Value::Null, &Value::Null));
    assert!(row["how_known"].as_str().unwrap().starts_with("no_effect"), "{row:#}");
}

/// A copy that violates a constraint is never built.
#[test]
fn what_was_refused_is_no_finding() {
    let narrow = SPACE.replace(
        "[[arguments]]\nname = \"x\"",
        "[[constraints]]\nrequire = \"STEPS == 8\"\n[[arguments]]\nname = \"x\"",
    );
    let (code, answer, said) = run(&folder(&narrow), "--only another_kernel");
    assert_eq!(code, Some(1), "{answer:#} {said}");
    let row = &answer["rows"][0];
    assert_eq!((&row["happened"], &row["doses"][0]["changed"]), (&Value::Null, &Value::Null));
    assert_eq!(row["how_known"], "not measured: rejected_constraint");
}

/// On the host device nobody counts registers.
#[test]
fn what_did_not_run_is_no_finding() {
    let (code, answer, said) = run(&folder(SPACE), "--only register_cap,l1_bypass");
    assert_eq!(code, Some(1), "{answer:#} {said}");
    assert_eq!((&answer["status"], &answer["result"]["not_run"][0]), (&"not_run".into(), &"invert".into()));
    let (code, answer, said) = run(&folder(SPACE), "--only register_cap --allow-not-run invert");
    assert_eq!(code, Some(0), "{answer:#} {said}");
}

#[test]
fn mistakes_are_found_before_anything_runs() {
    let wrong = self::folder(&SPACE.replace("STEPS = 9 }", "STEPS = 7 }"));
    let (code, answer, said) = run(&wrong, "");
    assert_eq!(code, Some(2), "{answer:#}");
    let told = format!("{answer}{said}");
    assert!(told.contains("7 is not a value of `STEPS`"), "{told}");
    assert!(!wrong.path().join("evidence").exists());
}
