//! Mutators as programs: the example that mends a planted mistake, from the sweep to the source that won, and fakes that
//! are late, babble, lie or die.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use evo::mutator::process::{MutatorFault, MutatorProgram};
use evo::mutator::records::{MutatorEvent, MutatorRecords, last_run};
use evo_protocol::mutator::{MutatorOperator, MutatorOrder};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::json_schema;
use crate::skip::has_programs;
use crate::support::{DECISIVE, answer, cache};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/mutator");
const FAKE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/mutators/fake.py");

fn stage() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["rows.toml", "rows.cu", "naive.cu", "mutate.py"] {
        fs::copy(Path::new(EXAMPLE).join(name), folder.path().join(name)).unwrap();
    }
    folder
}

fn evo(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
    command.current_dir(folder).args(words).env("EVO_CACHE_DIR", cache()).stdin(Stdio::null());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The last object on stdout, which its schema allows.
#[track_caller]
fn object(output: &Output, command: &str) -> Value {
    let told = text(&output.stdout);
    let last = told.lines().last().unwrap_or_else(|| panic!("{}", text(&output.stderr)));
    let own: Value = serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {last}"));
    assert_eq!(json_schema::fault(&answer::schema(command), &own), None, "{own}");
    own
}

fn is_skipped() -> bool {
    !has_programs(&["python3"], "mutators are Python programs here")
}

#[test]
fn the_example_finds_the_planted_mistake_and_its_cure_is_confirmed() {
    if is_skipped() {
        return;
    }
    let folder = stage();
    let root = folder.path();
    let words =
        ["sweep", "rows.toml", "--device", "host", "--gen", "1", "--pop", "3", "--seed", "5", "--json"];
    let mutator = format!("--finalists 1 --mutator-proposals 3 --mutator-rounds 2 {DECISIVE}");
    let mutator: Vec<&str> =
        ["--mutator", "python3 mutate.py"].into_iter().chain(mutator.split(' ')).collect();
    let output = evo(root, &[&words[..], &mutator].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let own = object(&output, "sweep")["mutator"].clone();
    let rows = own["proposals"].as_array().unwrap();
    let verdict = |name: &str| {
        rows.iter().find(|row| row["name"] == name).map(|row| row["verdict"].as_str().unwrap().to_string())
    };
    assert_eq!(verdict("every other element").as_deref(), Some("wrong_answer"), "{own}");
    assert_eq!(verdict("once per block").as_deref(), Some("pass"), "{own}");
    let winner = &own["winner"];
    assert_eq!(winner["name"], "once per block", "{own}");
    assert!(winner["speedup"].as_f64().unwrap() > 2.0, "{own}");

    // The winner is the incumbent, with its source, and every other command takes that.
    let number = winner["number"].as_u64().unwrap();
    let at = format!("@{number}");
    let output = evo(root, &["restore", "rows.toml", &at, "--to", "won", "--device", "host"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let source = fs::read_to_string(root.join("won/kernel.cu")).unwrap();
    assert!(source.contains("__shared__ float parts[BLOCK]"), "{source}");
    let lines = fs::read_to_string(root.join("evidence/scale_rows-host/iterations.jsonl")).unwrap();
    assert!(lines.contains("add up their row together"), "the thought is the hypothesis: {lines}");

    // The exchange is whole, and holds nothing that a candidate's author must not know.
    let own = evo::journal::own_folder::OwnFolder::open(&root.join("evidence/scale_rows-host")).unwrap();
    let run = last_run(&own).unwrap();
    assert!(run.notes.is_empty() && matches!(run.events.last(), Some(MutatorEvent::Ended { .. })));
    let sent: String = run
        .events
        .iter()
        .filter_map(|event| match event {
            MutatorEvent::Sent(message) => Some(message.to_string()),
            _ => None,
        })
        .collect();
    let here = root.display().to_string();
    for secret in ["\"seed\"", "atol", "rtol", "naive", "expected_output", here.as_str()] {
        assert!(!sent.contains(secret), "{secret}: {sent}");
    }

    // The same without the program.
    fs::remove_file(root.join("mutate.py")).unwrap();
    let before = fs::read(root.join("evidence/scale_rows-host/mutators.jsonl")).unwrap();
    let file = "evidence/scale_rows-host/mutators.jsonl";
    let output = evo(root, &["mutator", "replay", file, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    let rows = object(&output, "mutator")["rows"].clone();
    assert_eq!(rows.as_array().unwrap().len(), 3, "{rows}");
    assert_eq!(fs::read(root.join(file)).unwrap(), before, "a replay records nothing");
    let after = fs::read_to_string(root.join("evidence/scale_rows-host/iterations.jsonl")).unwrap();
    assert_eq!(after, lines);
}

#[test]
fn a_mutator_that_is_given_up_costs_its_rounds_and_no_sweep() {
    if is_skipped() {
        return;
    }
    let folder = stage();
    let mutator = format!("python3 {FAKE} dies");
    let words = ["sweep", "rows.toml", "--device", "host", "--gen", "1", "--pop", "1", "--json"];
    let output = evo(folder.path(), &[&words[..], &["--finalists", "0", "--mutator", &mutator]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let own = object(&output, "sweep")["mutator"].clone();
    assert!(own["ended"].as_str().unwrap().starts_with("it was given up after 3 strikes"), "{own}");
    assert!(own["winner"].is_null() && own["proposals"] == json!([]), "{own}");
    let told = text(&output.stderr);
    assert!(
        told.contains("strike 3 of 3: its process ended with exit code 3 (last words: out of ideas)"),
        "{told}"
    );
}

#[test]
fn what_does_not_start_leaves_nothing_behind() {
    let folder = stage();
    let check = |words: &[&str], part: &str| {
        let output = evo(folder.path(), words);
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains(part) && told.lines().count() < 20, "{told}");
        assert!(!folder.path().join("evidence").exists());
    };
    let sweep = ["sweep", "rows.toml", "--device", "host", "--mutator"];
    check(&[&sweep[..], &["nothing-of-this-name --fast"]].concat(), "does not start");
    check(&[&sweep[..], &["'open"]].concat(), "is not closed");
    check(&[&sweep[..], &[""]].concat(), "it names no program");
    check(&[&sweep[..], &["cat", "--budget", "10s", "--mutator-time", "10s"]].concat(), "leaves no time");
    check(&[&sweep[..2], &["--mutator-rounds", "2"]].concat(), "--mutator");
    check(&["mutator", "check", "nothing-of-this-name"], "does not start");
    check(&["mutator", "replay", "rows.toml"], "is not called `mutators.jsonl`");
    check(&["mutator", "replay", "nowhere/mutators.jsonl"], "nowhere");
    fs::write(folder.path().join("mutators.jsonl"), "no line of ours\n").unwrap();
    check(&["mutator", "replay", "mutators.jsonl"], "it holds no run of a mutator");
    let broken = fs::read_to_string(folder.path().join("rows.cu")).unwrap().replace("// evo: end body", "");
    fs::write(folder.path().join("rows.cu"), broken).unwrap();
    check(&[&sweep[..], &["cat"]].concat(), "region `body` has no end");
}

/// The answers of `evo mutator check` by case, and its exit code.
fn checked(command: &str, timeout: &str) -> (Vec<(String, String)>, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let output = evo(folder.path(), &["mutator", "check", command, "--timeout", timeout, "--json"]);
    let own = object(&output, "mutator");
    let word = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_string();
    let rows = own["rows"].as_array().unwrap();
    (rows.iter().map(|row| (word(row, "name"), word(row, "status"))).collect(), output.status.code())
}

#[test]
fn the_conformance_suite_tells_good_programs_from_bad_ones() {
    if is_skipped() {
        return;
    }
    for good in [format!("python3 {EXAMPLE}/mutate.py"), format!("python3 {FAKE} echo")] {
        let (rows, code) = checked(&good, "20s");
        assert!(rows.iter().all(|(_, status)| status == "pass") && rows.len() >= 7, "{good}: {rows:?}");
        assert_eq!(code, Some(0));
    }
    for (mode, case) in [
        ("garbage", "proposals"),
        ("long", "proposals"),
        ("dies", "proposals"),
        ("flood", "proposals"),
        ("slow", "proposals"),
        ("silent", "ready"),
        ("duplicate", "unknown_types"),
    ] {
        let timeout = if ["slow", "silent"].contains(&mode) { "2s" } else { "20s" };
        let (rows, code) = checked(&format!("python3 {FAKE} {mode}"), timeout);
        let failed: Vec<&str> =
            rows.iter().filter(|(_, status)| status == "fail").map(|(name, _)| name.as_str()).collect();
        assert_eq!((failed.as_slice(), code), (&[case][..], Some(1)), "{mode}: {rows:?}");
    }
}

/// What a question to a fake comes to.
fn asked(mode: &str, limit: Duration) -> MutatorFault {
    let words = ["python3", FAKE, mode].map(String::from);
    let mut program = MutatorProgram::start(&words).unwrap();
    let order = MutatorOrder {
        n: 1,
        deadline_s: 1.0,
        budget_left_s: 1.0,
        operator: MutatorOperator::Init,
        parents: Vec::new(),
        failures: Vec::new(),
        archive: Vec::new(),
        knows: None,
    };
    let mut records = MutatorRecords::default();
    program.ask(1, &order, limit, &mut records).unwrap_err()
}

#[test]
fn a_late_program_is_killed_and_no_longer_waited_for() {
    if is_skipped() {
        return;
    }
    let began = Instant::now();
    let fault = asked("silent", Duration::from_millis(700));
    assert_eq!((fault.why.as_str(), fault.is_dead), ("no answer within 0.7 s", true));
    assert!(began.elapsed() < Duration::from_secs(20));
}

/// The example's space with 96 points, all of them other machine code.
fn large_stage() -> TempDir {
    let folder = stage();
    let edit = |name: &str, from: &str, to: &str| {
        let path = folder.path().join(name);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{name}: {text}");
        fs::write(path, text.replace(from, to)).unwrap();
    };
    let blocks: Vec<String> = (1..=32).map(|own| (own * 32).to_string()).collect();
    edit(
        "rows.toml",
        "BLOCK = [64, 32, 128]",
        &format!("BLOCK = {{ values = [{}], default = 64 }}\nSHIFT = [0, 1, 2]", blocks.join(", ")),
    );
    edit(
        "rows.cu",
        "// evo: begin body",
        "volatile int shift = SHIFT;\n    (void)shift;\n    // evo: begin body",
    );
    folder
}

const LONG: [&str; 12] =
    ["sweep", "rows.toml", "--device", "host", "--gen", "9", "--pop", "4", "--seed", "5", "--finalists", "0"];

/// The messages that evo sent in the last run.
fn sent(root: &Path) -> Vec<Value> {
    let own = evo::journal::own_folder::OwnFolder::open(&root.join("evidence/scale_rows-host")).unwrap();
    let events = last_run(&own).map_or(Vec::new(), |run| run.events);
    let message = |event| match event {
        MutatorEvent::Sent(message) => Some(message),
        _ => None,
    };
    events.into_iter().filter_map(message).collect()
}

/// The mutator answers once the search has evaluated more variants, which it would never do if thinking held the device.
#[test]
fn a_search_goes_on_while_a_mutator_thinks() {
    if is_skipped() {
        return;
    }
    let folder = large_stage();
    let root = folder.path();
    let mutator = format!("python3 {FAKE} watches evidence/scale_rows-host/journal.jsonl");
    let words = ["--json", "--mutator-rounds", "1", "--mutator", &mutator];
    let output = evo(root, &[&LONG[..], &words].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let own = object(&output, "sweep");
    let mutator = &own["mutator"];
    assert_eq!(mutator["proposals"][0]["name"], "the search went on", "{mutator:#}");
    assert_eq!((&mutator["rounds"], &mutator["asked_beside"]), (&json!(1), &json!(1)), "{mutator:#}");
    // Not one evaluation less than without a mutator.
    assert_eq!(own["evaluations"], 36, "{own:#}");

    // It was told what the search knew by then.
    let asked = sent(root).into_iter().find(|message| message["type"] == "propose").unwrap();
    let knows = &asked["knows"];
    let evaluations = knows["evaluations"].as_u64().unwrap();
    assert!((20..36).contains(&evaluations), "{knows:#}");
    assert!(knows["importance"].as_array().is_some_and(|own| !own.is_empty()), "{knows:#}");
    let expected = knows["expected"].as_array().unwrap();
    assert!(!expected.is_empty() && expected.len() <= 10, "{knows:#}");
    for own in expected {
        let ns = |name: &str| own[name].as_f64().unwrap();
        assert!(ns("low_ns") <= ns("objective_ns") && ns("objective_ns") <= ns("high_ns"), "{own}");
        assert!(own["configuration"]["BLOCK"].is_i64(), "{own}");
    }
}

/// A kernel that only spins, for a number of steps that the last point of the space alone leaves out. What the mutator
/// proposes is much faster than all points before that one.
fn spinning_stage() -> TempDir {
    let folder = stage();
    let kernel = "extern \"C\" __global__ void scale_rows(const float* x, float* y, int columns) {
    const float* row = x + blockIdx.x * columns;
    // evo: begin body
    for (volatile int k = 0; k < SPIN; k = k + 1) {}
    // evo: end body
    float sum = 0.0f;
    for (int i = 0; i < columns; ++i) sum += row[i] * row[i];
    for (int at = threadIdx.x; at < columns; at += BLOCK) {
        y[blockIdx.x * columns + at] = row[at] / sqrtf(sum / columns + 1e-6f);
    }
}
";
    fs::write(folder.path().join("rows.cu"), kernel).unwrap();
    let spins: Vec<String> = (20_000..20_040).chain([0]).map(|own| own.to_string()).collect();
    let path = folder.path().join("rows.toml");
    let space = fs::read_to_string(&path).unwrap();
    let space = space.replace("C = 1024", "C = 64");
    let parameters = format!("BLOCK = [32]\nSPIN = {{ values = [{}], default = 20000 }}", spins.join(", "));
    let edited = space.replace("BLOCK = [64, 32, 128]", &parameters);
    assert!(edited.contains("SPIN"), "{edited}");
    fs::write(path, edited).unwrap();
    folder
}

/// What is accepted beside the best that a running search had found is not the best source once that search has ended.
#[test]
fn a_champion_that_the_search_finds_later_takes_its_place_again() {
    if is_skipped() {
        return;
    }
    let folder = spinning_stage();
    let root = folder.path();
    let mutator = format!("python3 {FAKE} middling");
    let words =
        ["sweep", "rows.toml", "--device", "host", "--strategy", "exhaustive", "--seed", "5", "--json"];
    let rounds = ["--finalists", "1", "--mutator-rounds", "1", "--mutator", &mutator];
    let rounds = [&rounds[..], &DECISIVE.split(' ').collect::<Vec<_>>()].concat();
    let output = evo(root, &[&words[..], &rounds].concat());
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{told}");
    let own = object(&output, "sweep");
    let winner = &own["mutator"]["winner"];
    assert_eq!((&winner["name"], &winner["accepted"]), (&json!("spin less"), &json!(true)), "{own:#}");
    assert!(winner["speedup"].as_f64().unwrap() > 2.0, "{winner:#}");
    assert_eq!(winner["overtaken"], true, "{winner:#}");
    assert!(winner["speedup_beside_champion"].as_f64().unwrap() < 0.5, "{winner:#}");
    // What further commands compare with is the champion again.
    let incumbent = fs::read(root.join("evidence/scale_rows-host/incumbent.json")).unwrap();
    let incumbent: Value = serde_json::from_slice(&incumbent).unwrap();
    assert!(incumbent.to_string().contains("\"SPIN\":0"), "{incumbent:#}");
}

/// Ctrl-C ends the search in order, and nobody waits for a mutator that thinks for ten minutes.
#[test]
fn a_search_that_is_interrupted_takes_its_mutator_along() {
    if is_skipped() {
        return;
    }
    let folder = large_stage();
    let root = folder.path();
    let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
    command.current_dir(root).args(LONG).env("EVO_CACHE_DIR", cache());
    command.args(["--json", "--mutator", &format!("python3 {FAKE} slow")]);
    // Files, because nobody reads pipes before the end.
    let place = |name: &str| root.join(name);
    let file = |name: &str| fs::File::create(place(name)).unwrap();
    let mut child =
        command.stdin(Stdio::null()).stdout(file("out.txt")).stderr(file("err.txt")).spawn().unwrap();
    let path = root.join("evidence/scale_rows-host/mutators.jsonl");
    let began = Instant::now();
    while !(path.exists() && sent(root).iter().any(|message| message["type"] == "propose")) {
        assert!(began.elapsed() < Duration::from_secs(180), "it was not asked");
        std::thread::sleep(Duration::from_millis(50));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let killed = Instant::now();
    let status = child.wait().unwrap();
    let [stdout, stderr] = ["out.txt", "err.txt"].map(|name| fs::read(place(name)).unwrap());
    let output = Output { status, stdout, stderr };
    assert!(killed.elapsed() < Duration::from_secs(60), "it waited for the mutator");
    let told = text(&output.stderr);
    let own = object(&output, "sweep");
    if output.status.code() == Some(0) {
        // The search was over before the signal came.
        return;
    }
    assert_eq!(output.status.code(), Some(5), "{told}");
    assert_eq!(own["mutator"]["status"], "not_run", "{own:#}");
    assert!(!told.contains("strike"), "{told}");
}
