//! `evo sweep`, `test-one` and `leaderboard` as programs, on the host device with a small kernel.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use evo::journal::reader;
use evo::journal::replay::History;
use serde_json::Value;

use crate::json_schema;
use crate::support::{self, BRIEF, answer};

pub const KERNEL: &str = include_str!("../data/kernels/scale/scale.cu");

pub const NAIVE: &str = include_str!("../data/kernels/scale/naive.cu");

pub const SPACE: &str = include_str!("../data/kernels/scale/space.toml");

/// A folder with the kernel, and the command to run in it.
pub struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    pub fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("scale.toml", SPACE), ("scale.cu", KERNEL), ("naive.cu", NAIVE)] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Bench { folder }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn command(&self, words: &str) -> Command {
        support::evo(self.path(), words)
    }

    pub fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    /// `sweep scale.toml --device host` with more words, in study `s`.
    pub fn sweep(&self, words: &str) -> Output {
        self.run(&sweep(words))
    }

    pub fn start(&self, words: &str) -> Child {
        self.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    pub fn verdicts(&self) -> BTreeMap<String, String> {
        let journal = reader::read(&self.path().join("evidence/s/journal.jsonl")).unwrap();
        let history = History::replay(journal);
        let pair = |one: &evo_protocol::evaluation::Evaluation| {
            (one.configuration.to_string(), one.verdict.kind.to_string())
        };
        let verdicts: BTreeMap<String, String> = history.evaluations.iter().map(pair).collect();
        assert_eq!(verdicts.len(), history.evaluations.len(), "a configuration was evaluated twice");
        verdicts
    }

    /// Waits until the journal holds this many evaluations.
    pub fn wait_for(&self, evaluations: usize, child: &mut Child) {
        let path = self.path().join("evidence/s/journal.jsonl");
        let patience = Instant::now() + Duration::from_secs(120);
        while Instant::now() < patience {
            let count =
                std::fs::read_to_string(&path).unwrap_or_default().matches("\"kind\":\"evaluation\"").count();
            if count >= evaluations || child.try_wait().unwrap().is_some() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("no {evaluations} evaluations in two minutes");
    }
}

/// `sweep scale.toml --device host` with more words, in study `s`.
pub fn sweep(words: &str) -> String {
    format!("sweep scale.toml --device host --study s {BRIEF} {words}")
}

/// What the space's ten valid points must give.
pub fn expected() -> BTreeMap<String, String> {
    let mut expected = BTreeMap::new();
    for (block, vec) in [(32, 1), (32, 2), (32, 4), (64, 1), (64, 2)] {
        for (factor, verdict) in [(2, "pass"), (3, "wrong_answer")] {
            expected.insert(format!("BLOCK={block} VEC={vec} FACTOR={factor}"), verdict.to_string());
        }
    }
    expected
}

/// Pass and too slow are both answers of a correct variant; which one depends on the clock.
pub fn right_or_wrong(verdicts: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let merge = |verdict: String| if verdict == "too_slow" { "pass".to_string() } else { verdict };
    verdicts.into_iter().map(|(name, verdict)| (name, merge(verdict))).collect()
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_sweep_ends_with_a_ranked_table_and_a_leaderboard() {
    let bench = Bench::new();
    let output = bench.sweep("--finalists 1");
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(right_or_wrong(bench.verdicts()), expected());
    let table = text(&output.stdout);
    assert!(
        table.starts_with("scale on ")
            && table.contains("\nexport   evo export scale.toml @champion --study "),
        "{table}"
    );
    let verbose = text(&bench.sweep("--resume --finalists 0 --verbose").stdout);
    assert!(verbose.contains("\nmore: `evo explain wrong_answer:"), "{verbose}");
    let board: Value =
        serde_json::from_slice(&std::fs::read(bench.path().join("evidence/leaderboard.json")).unwrap())
            .unwrap();
    assert_eq!(board["sections"][0]["champion"]["configuration"]["FACTOR"], 2);
    assert_eq!(board["sections"][0]["champion"]["gates"]["full_shapes"], "pass");
    for file in ["study.json", "gen-000.json", "results.csv"] {
        assert!(bench.path().join("evidence/s").join(file).exists(), "{file}");
    }
    let journal = std::fs::read_to_string(bench.path().join("evidence/s/journal.jsonl")).unwrap();
    assert!(journal.contains("each sampled for 100 ms at most, as asked for"), "{journal}");
    let study: Value =
        serde_json::from_slice(&std::fs::read(bench.path().join("evidence/s/study.json")).unwrap()).unwrap();
    assert_eq!(study["header"]["verdict_version"], evo_protocol::verdict::VERDICT_VERSION);
    let run = &study["runs"][0];
    assert!(run["device_at_start"].is_object() && run["device_at_end"].is_object(), "{run:#}");
    let shown = bench.run("leaderboard --json");
    let shown = answer::judged("leaderboard", "leaderboard", &shown, 0, "pass");
    assert!(board.as_object().unwrap().iter().all(|(name, value)| shown[name] == *value), "{shown}");
    assert_eq!((&board["version"], &board["sections"][0]["kernel"]), (&2.into(), &"scale".into()));
    let schema = answer::schema("leaderboard-file");
    assert_eq!(json_schema::fault(&schema, &board), None, "{board}");
    assert_eq!(json_schema::unlisted(&schema, &schema, &board, "leaderboard"), None);
    let shown = bench.run("leaderboard");
    assert!(shown.status.success() && text(&shown.stdout).contains("scale on "));
    std::fs::remove_file(bench.path().join("evidence/leaderboard.json")).unwrap();
    let rebuilt = bench.run("leaderboard --rebuild --json");
    let rebuilt: Value = serde_json::from_slice(&rebuilt.stdout).unwrap();
    assert_eq!(rebuilt["sections"], board["sections"]);
    // The same study again is refused, another file under its name even more so.
    let again = bench.sweep("");
    assert_eq!(again.status.code(), Some(2));
    assert!(text(&again.stderr).contains("has a journal already"), "{}", text(&again.stderr));
    std::fs::write(bench.path().join("scale.toml"), SPACE.replace("[32, 64]", "[32, 64, 96]")).unwrap();
    // Going on with it is not.
    let edited = bench.sweep("--resume --finalists 0 --budget 1");
    assert!(edited.status.success(), "{}", text(&edited.stderr));
    assert!(text(&edited.stderr).contains("parameter `BLOCK`: new 96"), "{}", text(&edited.stderr));
}

/// The host device has no compute-sanitizer: guard pages and barrier detection stand in, which is not a pass.
#[test]
fn what_the_device_cannot_launch_is_not_tried() {
    let bench = Bench::new();
    let space = SPACE.replace("[32, 64], default = 32", "[2048, 32], default = 2048");
    let space = space.replace("BLOCK * VEC <= 128", "BLOCK * VEC != 64");
    std::fs::write(bench.path().join("scale.toml"), space).unwrap();
    let output = bench.sweep("--finalists 0");
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    let verdicts = bench.verdicts();
    assert_eq!(verdicts.len(), 4, "{verdicts:?}");
    assert!(verdicts.keys().all(|name| name.starts_with("BLOCK=32 ")), "{verdicts:?}");
    let said = "6 of 10 valid points are not tried: beyond the device's limit on threads of a block, in launch `scale`";
    let stderr = text(&output.stderr);
    assert_eq!(stderr.matches(said).count(), 1, "{stderr}");
    assert!(stderr.contains("takes its place: BLOCK=32 instead of 2048"), "{stderr}");
    // What a person edits is without the device: the study goes on elsewhere and after an update.
    let study: Value =
        serde_json::from_slice(&std::fs::read(bench.path().join("evidence/s/study.json")).unwrap()).unwrap();
    assert_eq!(study["header"]["valid"], "4");
    assert_eq!(study["header"]["definition"]["constraints"].as_array().unwrap().len(), 1);
    let on = bench.sweep("--resume --finalists 0 --json");
    let last = text(&on.stdout);
    let last: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    assert_eq!((&last["device_limits"]["excluded"], &last["evaluations_this_run"]), (&"6".into(), &0.into()));
    assert_eq!(bench.verdicts().len(), 4);
}

#[test]
fn a_sanitizer_that_is_demanded_and_absent_confirms_nothing() {
    let last = |bench: &Bench, more: &str| {
        let fixed = "sweep scale.toml --device host --finalists 1 --json --budget 4";
        let output = bench.run(&format!("{fixed} {BRIEF} {more}"));
        let object: Value = serde_json::from_str(text(&output.stdout).lines().last().unwrap()).unwrap();
        (output.status.code(), object, text(&output.stdout))
    };
    let bench = Bench::new();
    let (code, usual, _) = last(&bench, "--study usual");
    assert_eq!((code, &usual["sanitized"]), (Some(0), &Value::Null), "{usual}");
    let champion = &usual["section"]["champion"];
    assert_eq!(
        (&champion["gates"]["sanitize"], &champion["sanitizer"]["state"]),
        (&"not_run".into(), &"not_run".into())
    );
    assert!(champion["sanitizer"]["message"].as_str().unwrap().contains("guard pages"), "{champion}");
    let (code, demanded, said) = last(&bench, "--study demanded --sanitize finalists");
    assert_eq!((code, &demanded["status"], &demanded["section"]), (Some(1), &"not_run".into(), &Value::Null));
    assert!(demanded["sanitized"]["unanswered"].as_u64().unwrap() > 0, "{demanded}");
    assert!(said.contains("warning: compute-sanitizer is demanded, so nothing will be confirmed"), "{said}");
    let rebuilt = bench.run("leaderboard --rebuild --json");
    let rebuilt: Value = serde_json::from_slice(&rebuilt.stdout).unwrap();
    assert_eq!(rebuilt["sections"][0]["study"]["name"], "usual");
    // A space file can demand it too, and nobody can leave it out then.
    let required = SPACE.replace("[check]", "[check]\nsanitize = \"required\"");
    std::fs::write(bench.path().join("scale.toml"), required).unwrap();
    let (code, required, _) = last(&bench, "--study required");
    assert_eq!((code, &required["status"]), (Some(1), &"not_run".into()), "{required}");
    let (code, refused, _) = last(&bench, "--study off --sanitize off");
    assert_eq!((code, &refused["error"]["code"]), (Some(2), &"usage".into()), "{refused}");
}

#[test]
fn a_sweep_in_which_nothing_passes_fails_and_says_why() {
    let bench = Bench::new();
    let wrong =
        SPACE.replace("FACTOR = { values = [2, 3], default = 2", "FACTOR = { values = [3], default = 3");
    std::fs::write(bench.path().join("scale.toml"), wrong).unwrap();
    let output = bench.sweep("--seed 7");
    let (page, talk) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{page}{talk}");
    assert!(page.contains("nothing passed; the first failure of each verdict:\n  wrong_answer"), "{page}");
    // Compilers that run side by side may finish in any order, so any of the variants may be the first.
    let again =
        page.lines().find_map(|line| line.trim().strip_prefix("again: evo test-one scale.toml BLOCK="));
    assert!(again.is_some_and(|rest| rest.ends_with(" FACTOR=3 --device host --seed 7")), "{page}");
    let told = "note: the default configuration `BLOCK=32 VEC=1 FACTOR=3` failed: wrong_answer";
    assert_eq!((talk.matches(told).count(), page.matches("the default").count()), (1, 0), "{page}{talk}");

    let output = bench.run("sweep scale.toml --device host --json --no-prior");
    assert_eq!(output.status.code(), Some(1));
    let result: Value = serde_json::from_str(text(&output.stdout).lines().last().unwrap()).unwrap();
    assert_eq!(result["passed"], 0);
    assert_eq!(result["failures"][0]["verdict"], "wrong_answer");
    assert_eq!(result["failures"][0]["first"]["configuration"]["FACTOR"], 3);
    let repro = result["failures"][0]["repro"].as_str().unwrap();
    assert!(repro.starts_with("evo test-one scale.toml BLOCK="), "{repro}");
    assert_eq!(result["default_failure"]["verdict"], "wrong_answer");
}

#[test]
fn seeds_are_random_and_a_named_one_repeats_a_run() {
    let bench = Bench::new();
    let header = |study: &str| -> Value {
        let path = bench.path().join("evidence").join(study).join("study.json");
        serde_json::from_slice::<Value>(&std::fs::read(path).unwrap()).unwrap()["header"].clone()
    };
    let swept = |study: &str, more: &str| {
        let fixed = "sweep scale.toml --device host --finalists 0 --budget 1";
        let output = bench.run(&format!("{fixed} --study {study} {more}"));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let seed = header(study)["seed"].as_u64().unwrap();
        assert!(text(&output.stderr).contains(&format!(", seed {seed}\n")), "{}", text(&output.stderr));
        seed
    };
    let (a, b) = (swept("a", ""), swept("b", ""));
    assert_ne!(a, b);
    assert_eq!(swept("a", "--resume"), a, "a resumed study keeps its seed");
    assert_eq!(swept("c", "--seed 5"), 5);
    let seeds = ["", "--seed 5"].map(|more| {
        let output = text(&bench.run(&format!("test-one scale.toml --device host {more}")).stdout);
        output.lines().next().unwrap().rsplit_once(", seed ").unwrap().1.parse::<u64>().unwrap()
    });
    assert!(seeds[0] != a && seeds[0] != b && seeds[1] == 5, "{seeds:?}");
}

#[test]
fn a_later_and_shorter_study_leaves_the_champion_and_a_rebuild_agrees() {
    let bench = Bench::new();
    let board = |words: &str| -> Value {
        serde_json::from_slice(&bench.run(&format!("leaderboard --json {words}")).stdout).unwrap()
    };
    let swept = |words: &str| {
        let fixed = "sweep scale.toml --device host --no-prior --seed 1";
        let output = bench.run(&format!("{fixed} {BRIEF} {words}"));
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    swept("--study long --finalists 2");
    let first = board("")["sections"].clone();
    assert_eq!(first[0]["history"].as_array().unwrap().len(), 1);
    // Only the default configuration is evaluated; where it is the champion itself, it stays so.
    let page = swept("--study short --finalists 1 --budget 1");
    let line = page.lines().find(|line| line.starts_with("champion ")).unwrap_or_else(|| panic!("{page}"));
    assert!(line.contains("study `long`") && line.contains(" µs"), "{page}");
    assert!(page.ends_with("\nexport   evo export scale.toml @champion --study short --to app\n"), "{page}");
    assert_eq!(board("")["sections"], first);
    assert_eq!(board("--rebuild")["sections"], first);
}

#[test]
fn kill_9_and_resume_give_the_same_verdicts() {
    let bench = Bench::new();
    for evaluations in [1, 4, 7] {
        let mut child = bench.start(&sweep("--resume=or-begin --finalists 0"));
        bench.wait_for(evaluations, &mut child);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let before = bench.verdicts();
    let output = bench.sweep("--resume --finalists 0");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let after = bench.verdicts();
    assert_eq!(right_or_wrong(after.clone()), expected());
    assert!(before.iter().all(|(name, verdict)| after[name] == *verdict), "a verdict was lost or changed");
}

#[test]
fn a_second_sweep_into_the_same_study_is_refused() {
    let bench = Bench::new();
    let mut first = bench.start(&sweep("--finalists 0"));
    bench.wait_for(1, &mut first);
    let second = bench.sweep("--resume");
    let message = text(&second.stderr);
    let holder = first.id();
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(second.status.code(), Some(2), "{message}");
    assert!(message.contains(&format!("in use by process {holder}")), "{message}");
}

#[test]
fn ctrl_c_ends_in_order_with_exit_code_5() {
    let bench = Bench::new();
    let mut child = bench.start(&sweep("--finalists 0"));
    bench.wait_for(1, &mut child);
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let journal = std::fs::read_to_string(bench.path().join("evidence/s/journal.jsonl")).unwrap();
    assert!(journal.lines().last().unwrap().contains("\"reason\":\"interrupted\""), "{journal}");
    let output = bench.sweep("--resume --finalists 0");
    assert!(output.status.success());
    assert_eq!(right_or_wrong(bench.verdicts()), expected());
}

#[test]
fn test_one_names_the_outcome() {
    let bench = Bench::new();
    let check = |values: &str, verdict: &str, code: i32| {
        let output =
            bench.run(&format!("test-one scale.toml --device host --seed 7 {BRIEF} --json {values}"));
        let value: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}{}", text(&output.stdout), text(&output.stderr)));
        assert_eq!(
            (value["verdict"].as_str(), output.status.code()),
            (Some(verdict), Some(code)),
            "{value:#}"
        );
        value
    };
    let passed = check("64 2", "pass", 0);
    assert_eq!(passed["configuration"]["BLOCK"], 64);
    let states = passed["gates"].as_array().unwrap().iter().map(|gate| gate["state"].as_str().unwrap());
    let states: Vec<&str> = states.collect();
    assert_eq!(states[..8], ["pass"; 8], "{passed:#}");
    check("FACTOR=3", "wrong_answer", 1);
    let rejected = check("64 4", "rejected_constraint", 1);
    assert!(rejected["message"].as_str().unwrap().contains("the test wants an invalid corner"), "{rejected}");
}
