//! `evo invert`: kernels that are harmed on purpose, on the host device.

use std::fs;
use std::path::Path;

use evo::journal::own_folder::OwnFolder;
use evo::journal::reader::{JOURNAL, read};
use evo::journal::replay::History;

use serde_json::Value;

use crate::support::{BRIEF, evo};

/// Little but barriers: two for each of `STEPS` steps.
const KERNEL: &str = r#"extern "C" __global__ void sums(const float* x, float* y, int n) {
    __shared__ float part[BLOCK];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0.0f;
#ifndef LIGHT
    for (int k = 0; k < STEPS; ++k) {
        __syncthreads();
        float other = part[(threadIdx.x + 1) % BLOCK];
        __syncthreads();
        part[threadIdx.x] = 0.5f * (part[threadIdx.x] + other);
    }
#endif
#ifdef SLOW
    for (volatile int k = 0; k < 20000; k = k + 1) {}
#endif
    if (i < n) y[i] = part[threadIdx.x];
}
"#;

const NAIVE: &str = r#"extern "C" __global__ void naive(const float* x, float* y, int n) {
    for (int b = 0; b < n; b += BLOCK) {
        double part[BLOCK], next[BLOCK];
        for (int t = 0; t < BLOCK; ++t) part[t] = b + t < n ? x[b + t] : 0.0f;
        for (int k = 0; k < 8; ++k) {
            for (int t = 0; t < BLOCK; ++t) next[t] = 0.5 * (part[t] + part[(t + 1) % BLOCK]);
            for (int t = 0; t < BLOCK; ++t) part[t] = next[t];
        }
        for (int t = 0; t < BLOCK; ++t) if (b + t < n) y[b + t] = part[t];
    }
}
"#;

const SPACE: &str = r#"[kernel]
name = "sums"
source = "sums.cu"
[parameters]
BLOCK = [32]
STEPS = { values = [8, 9], default = 8 }
[[arguments]]
name = "x"
dtype = "f32"
shape = ["N"]
role = "input"
[[arguments]]
name = "y"
dtype = "f32"
shape = ["N"]
role = "output"
[[arguments]]
name = "n"
dtype = "i32"
value = "N"
[[launches]]
entry = "sums"
grid = "ceil_div(N, BLOCK)"
block = "BLOCK"
[[problems]]
name = "p"
sizes = { N = 512 }
[check]
seeds = 1
repeats = 2
[check.reference]
source = "naive.cu"
launches = [{ entry = "naive", grid = 1, block = 1 }]
[[diagnose]]
name = "spin"
resource = "the time of each thread"
doses = [{ define = { SLOW = 1 } }]
try_next = "spin less"
[[diagnose]]
name = "another_kernel"
resource = "right answers"
doses = [{ set = { STEPS = 9 } }]
[[diagnose]]
name = "no_barriers"
resource = "barriers"
lightens = true
doses = [{ define = { LIGHT = 1 } }]
"#;

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
    assert_eq!(kept[0]["doses"][0]["diagnostic"], true, "{kept:#}");
    // No study has begun, so no journal is begun either, and that is said.
    assert!(answer["journal"].is_null(), "{answer:#}");
    let why = answer["reasons"]["journal"].as_str().unwrap();
    assert!(why.starts_with("no study has begun in"), "{why}");
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
    let folder = folder(SPACE);
    let (code, _, said) = run(&folder, "--only bariers");
    assert_eq!(code, Some(2));
    assert!(said.contains("did you mean `barriers`?") || said.is_empty(), "{said}");
    let (code, answer, _) = run(&folder, "--only spin --problem p --problem p");
    assert_eq!(code, Some(2), "{answer:#}");
    let wrong = self::folder(&SPACE.replace("STEPS = 9 }", "STEPS = 7 }"));
    let (code, answer, said) = run(&wrong, "");
    assert_eq!(code, Some(2), "{answer:#}");
    let told = format!("{answer}{said}");
    assert!(told.contains("7 is not a value of `STEPS`"), "{told}");
    assert!(!wrong.path().join("evidence").exists());
}

/// The object of a command; its exit code.
fn object(folder: &Path, words: &str) -> (Option<i32>, Value, String) {
    let output = evo(folder, words).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = told.lines().last().unwrap_or_default();
    (output.status.code(), serde_json::from_str(last).unwrap_or_default(), said)
}

fn history(folder: &Path) -> History {
    History::replay(read(&folder.join("evidence/sums-host").join(JOURNAL)).unwrap())
}

/// The page's section on harmed variants, if it has one.
fn shown(page: &str) -> Option<&str> {
    page.split_once("Harmed on purpose").map(|(_, rest)| rest.split("</section>").next().unwrap())
}

/// A study of which a lightened copy is much faster and right as well, so that whatever could take it as a result would
/// rank it first. Gives the folder, the study's history before copies were harmed, and the lightened copy.
fn harmed_study() -> (tempfile::TempDir, History, Value) {
    // Steps that do not change what comes out: without them every gate is passed too.
    let idle = KERNEL.replace(
        "part[threadIdx.x] = 0.5f * (part[threadIdx.x] + other);",
        "if (other > 3e38f && other < 2e38f) part[threadIdx.x] = other;",
    );
    let space = SPACE
        .replace("values = [8, 9], default = 8", "values = [8, 16], default = 16")
        .replace("doses = [{ set = { STEPS = 9 } }]", "doses = [{ set = { STEPS = 8 } }]");
    let own = folder(&space);
    let root = own.path();
    fs::write(root.join("sums.cu"), idle).unwrap();
    let naive = "extern \"C\" __global__ void naive(const float* x, float* y, int n) {\n    \
                 for (int i = 0; i < n; ++i) y[i] = x[i];\n}\n";
    fs::write(root.join("naive.cu"), naive).unwrap();
    let (code, _, said) = object(root, &format!("{SWEEP} --seed 3 --finalists 1"));
    assert_eq!(code, Some(0), "{said}");
    let before = history(root);
    let words = "invert ./sums.toml @champion --device host --seed 3 --json --only spin,no_barriers";
    let (code, answer, said) = object(root, &format!("{words} {BRIEF}"));
    assert_eq!(code, Some(0), "{answer:#} {said}");
    assert_eq!(answer["journal"], "evidence/sums-host/journal.jsonl", "{answer:#}");
    let light = row(&answer["rows"], "no_barriers")["doses"][0].clone();
    assert_eq!((&light["verdict"], &light["diagnostic"]), (&"pass".into(), &true.into()), "{light}");
    assert!(light["ratio"].as_f64().unwrap() < 0.8, "{light}");
    (own, before, light)
}

const SWEEP: &str = "sweep ./sums.toml --device host --limit-sampling 100ms --json";

#[test]
fn a_journal_and_reports_show_harmed_copies() {
    let (own, before, _) = harmed_study();
    let root = own.path();
    let after = history(root);
    let names: Vec<_> = after.diagnostics.iter().map(|own| own.pathology.as_str()).collect();
    assert_eq!(names, ["spin", "no_barriers"]);
    assert_eq!(after.evaluations, before.evaluations);
    assert_eq!(after.confirmations, before.confirmations);
    let journal = fs::read_to_string(root.join("evidence/sums-host/journal.jsonl")).unwrap();
    assert_eq!(journal.matches("\"kind\":\"diagnostic\"").count(), 2);
    // By type: a line that claims to be a result is none.
    for kind in ["evaluation", "confirmation", "not_final", "sanitized"] {
        let forged = journal.lines().find(|line| line.contains("\"kind\":\"diagnostic\"")).unwrap();
        let record: Value = serde_json::from_str(forged).unwrap();
        let mut record = record["record"].clone();
        record["kind"] = kind.into();
        assert!(serde_json::from_value::<evo::journal::record::JournalRecord>(record).is_err(), "{kind}");
    }
    let (code, _, said) = object(root, "report sums-host --json");
    assert_eq!(code, Some(0), "{said}");
    let log = fs::read_to_string(root.join("evidence/sums-host/report.md")).unwrap();
    assert!(log.contains("Invert: harmed copies") && log.contains("`no_barriers` (lightened)"), "{log}");
    let page = fs::read_to_string(root.join("evidence/sums-host/report.html")).unwrap();
    assert!(shown(&page).is_some_and(|own| own.contains("no_barriers") && own.contains("diagnostic")));
    let summary = fs::read_to_string(root.join("evidence/sums-host/final_summary.md")).unwrap();
    assert!(!summary.contains("no_barriers"), "{summary}");
}

#[test]
fn no_board_prior_seed_gate_or_export_takes_a_harmed_copy() {
    let (own, _, light) = harmed_study();
    let root = own.path();
    let board = fs::read(root.join("evidence/leaderboard.json")).unwrap();
    let results = fs::read(root.join("evidence/sums-host/results.csv")).unwrap();
    // The board, made again from the journals.
    let champion = |board: &[u8]| {
        let board: Value = serde_json::from_slice(board).unwrap();
        board["sections"][0]["champion"].clone()
    };
    let (code, _, said) = object(root, "leaderboard --rebuild --json");
    assert_eq!(code, Some(0), "{said}");
    let rebuilt = fs::read(root.join("evidence/leaderboard.json")).unwrap();
    assert!(champion(&board).is_object());
    assert_eq!(champion(&rebuilt), champion(&board));
    // Names, and with them gate and export: what a harmed copy is called names nothing.
    let hash = light["code_hash"].as_str().unwrap();
    for words in [
        format!("test-one ./sums.toml @{hash} --device host"),
        format!("export ./sums.toml @{hash} --to app --device host"),
        format!("gate ./sums.toml --init --candidate @{hash} --device host"),
    ] {
        let (code, answer, said) = object(root, &format!("{words} --json"));
        assert_eq!(code, Some(2), "{words}: {answer:#} {said}");
    }
    assert!(!root.join("app").exists() && !root.join("evo-baseline.json").exists());
    let (code, _, said) = object(root, "export sums-host --format csv --to rows --json");
    assert_eq!(code, Some(0), "{said}");
    let files = fs::read_dir(root.join("rows")).unwrap();
    let rows: String = files.map(|own| fs::read_to_string(own.unwrap().path()).unwrap()).collect();
    assert!(rows.contains("STEPS") && !rows.contains("no_barriers") && !rows.contains(hash), "{rows}");
    // Resumed, there is nothing left to evaluate, and the views are as they were.
    let diagnostics = history(root).diagnostics;
    let (code, _, said) = object(root, &format!("{SWEEP} --resume --finalists 0"));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(fs::read(root.join("evidence/sums-host/results.csv")).unwrap(), results);
    assert_eq!(history(root).diagnostics, diagnostics);
    priors_and_seeds_are_the_same(root, hash);
}

/// A replay of the study, with the study as its prior: what it proposes and finds must not depend on harmed copies.
fn priors_and_seeds_are_the_same(root: &Path, hash: &str) {
    let place = root.join("evidence/sums-host");
    let journal = fs::read_to_string(place.join(JOURNAL)).unwrap();
    let without = root.join("without");
    fs::create_dir(&without).unwrap();
    let kept: Vec<&str> = journal.lines().filter(|line| !line.contains("\"diagnostic\"")).collect();
    fs::write(without.join(JOURNAL), kept.join("\n") + "\n").unwrap();
    let found = |study: &str, out: &str| {
        let words = format!(
            "sweep --device replay:{study} --prior {study} --seed 7 --gen 1 --pop 4 --out {out} --json"
        );
        let (code, answer, said) = object(root, &words);
        assert_eq!(code, Some(0), "{answer:#} {said}");
        let folder = OwnFolder::open(&root.join(out)).unwrap();
        let names = folder.names().unwrap();
        let study = names.iter().find(|name| folder.place(name).is_dir()).unwrap();
        let history = History::replay(read(&folder.place(study).join(JOURNAL)).unwrap());
        let told = |own: &evo_protocol::evaluation::Evaluation| {
            (own.configuration.to_string(), own.origin.clone(), own.objective_ns)
        };
        history.evaluations.iter().map(told).collect::<Vec<_>>()
    };
    let with = found("evidence/sums-host", "one");
    assert!(!with.is_empty() && !format!("{with:?}").contains(hash));
    assert_eq!(with, found("without", "other"));
}
