//! `evo gate` on the host device, with kernels whose variants differ by far and thresholds that no machine's noise
//! reaches. The rule itself is tested on samples (`timing::regression`).

use std::fs;
use std::os::unix::fs::DirBuilderExt;

use evo_space::genome::ContentHash;
use serde_json::{Value, json};

use crate::skip::has_programs;
use crate::support::BRIEF;
use crate::support::answer::{self, ended, holds};
use crate::support::stage::{Ran, Stage};

/// No machine is so loud; `WORK=500` is slower by more than that.
const LOUD: &str = "--threshold 100% --device host";

#[track_caller]
fn check(stage: &Stage, words: &str, code: i32, status: &str) -> Value {
    stage.answers(&format!("gate {words} {BRIEF}"), code, status)
}

fn baseline(stage: &Stage) -> Value {
    stage.json("evo-baseline.json")
}

/// A stage with a baseline.
fn with_baseline(stage: Stage) -> Stage {
    check(&stage, "scale.toml --init --device host", 0, "pass");
    stage
}

/// The hash of a baseline's source, which its author may change with it.
fn rehash(own: &mut Value, from: &str, to: &str) -> String {
    let source = own["source"].as_str().unwrap().replace(from, to);
    own["source_hash"] = ContentHash::of(source.as_bytes()).as_str().into();
    own["source"] = source.into();
    own.to_string()
}

#[test]
fn a_baseline_whose_source_is_wrong_or_lacks_the_entry_is_no_rival() {
    let stage = with_baseline(Stage::of("scale_slow"));
    let wrong = rehash(&mut baseline(&stage), "2.0f * value", "3.0f * value");
    let other = rehash(&mut baseline(&stage), "void scale(", "void other(");
    stage.write("evo-baseline.json", &wrong);
    let why = "~ the baseline does not pass its gates";
    holds(&check(&stage, LOUD, 1, "not_run"), &json!({ "result.why": why }));
    stage.write("evo-baseline.json", &other);
    let refused = check(&stage, "scale.toml --device host", 2, "error");
    holds(&refused, &json!({ "error.code": "usage", "error": "~ has no entry `scale`" }));
}

/// A kernel whose pace changes every few milliseconds, by up to ten times: no round tells 2 % from that.
#[test]
fn what_the_noise_hides_is_noisy_and_never_a_pass() {
    let stage = Stage::of("scale_slow");
    // Once a call; in the condition it would be asked in every step.
    let pace = "const int pace = (int)(((unsigned)(clock64() >> 25) * 2654435761u) >> 22)";
    stage.edit("scale.cu", "    for (int step = 0;", &format!("    {pace};\n    for (int step = 0;"));
    stage.edit("scale.cu", "step < WORK", "step < WORK + pace");
    check(&stage, "scale.toml --init --device host", 0, "pass");
    let before = baseline(&stage);
    let words = format!("gate --device host --update {BRIEF} --json");
    let mut command = stage.evo(&words);
    command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", stage.at("summary.md"));
    let ran = Ran::of(&words, &command.output().unwrap()).says(&["::warning"]);
    let noisy = ended(&ran, "1", "noisy", true);
    let row = &noisy["result"]["problems"][0];
    holds(row, &json!({ "decision": "noisy", "correct": true, "rounds": 3 }));
    assert!(row["floor"].as_f64().unwrap() > 0.02 || row["ratio_low"].as_f64().unwrap() < 0.98, "{row}");
    assert_eq!((&noisy["result"]["updated"], baseline(&stage)), (&false.into(), before));
    assert!(stage.read("summary.md").contains("noisy"));
}

/// A peer takes 1 ms for each call by the clock: `WORK=1` is faster by far, and nothing is 100 times as fast as that.
#[test]
fn a_candidate_has_to_be_faster_than_peers() {
    if !has_programs(&["python3"], "the peer of this test") {
        return;
    }
    let stage = Stage::of("scale_slow");
    stage.write("peer.py", include_str!("../data/peers/fake_peer.py"));
    // Of its own, because the test looks into it.
    fs::DirBuilder::new().mode(0o700).create(stage.at("cache")).unwrap();
    let check = |words: &str, code: i32, status: &str| {
        let words = format!("gate {words} --seed 1 {BRIEF} --json");
        let output = stage.evo(&words).env("EVO_CACHE_DIR", stage.at("cache")).output().unwrap();
        ended(&Ran::of(&words, &output), &code.to_string(), status, true)
    };
    let peer = |(name, how): (&str, &str)| {
        format!("[[peers]]\nname = \"{name}\"\ncommand = [\"python3\", \"peer.py\", \"{how}\", \"state\"]\n")
    };
    let peers =
        [("fake", "well"), ("wrong", "wrong"), ("dead", "die_block"), ("false", "too_short")].map(peer);
    let space = stage.read("scale.toml");
    let with = |goals: &str| {
        let goals = format!("{space}\n{}\n[goals]\nfaster_than = [{goals}]\n", peers.concat());
        stage.write("scale.toml", &goals);
    };
    with("{ peer = \"fake\" }");
    check("scale.toml --init --device host --candidate WORK=500", 0, "pass");
    let met = check(&format!("{LOUD} --goals --candidate WORK=1"), 0, "pass");
    holds(&met, &json!({ "result.goals.0.state": "met" }));
    with(
        "{ peer = \"fake\", by = \"10000%\" }, { peer = \"fake\", problems = 2 }, { peer = \"wrong\" }, \
         { peer = \"dead\" }, { peer = \"false\" }",
    );
    let words = format!("{LOUD} --goals --candidate WORK=500 --allow-not-run faster_than");
    let goals = json!({
        "result.goals.*.state": ["unmet", "not_run", "not_run", "not_run", "not_run"],
        "result.goals.0.why": "~ `p`", "result.goals.1.why": "~ asks for 2 problems",
        "result.goals.2.why": "~ wrong_answer", "result.goals.3.why": "~ SIGKILL",
        "result.goals.4.why": "~ by our clock",
    });
    holds(&check(&words, 1, "fail"), &goals);
    let left: Vec<_> = fs::read_dir(stage.at("cache/peers")).unwrap().collect();
    assert!(left.is_empty(), "files of peers are left: {left:?}");
    // Minutes of work would come before anybody heard of a name that nobody has.
    with("{ peer = \"fke\" }");
    let error = check(&format!("{LOUD} --goals --candidate WORK=1"), 2, "error")["error"].to_string();
    assert!(error.contains("names the peer `fke`") && error.contains("did you mean `fake`?"), "{error}");
}

#[test]
fn github_reads_annotations_and_a_table() {
    let stage = with_baseline(Stage::of("scale_slow").scripted());
    let run = |words: &str, summary: &str| {
        let words = format!("gate {LOUD} {BRIEF} --candidate WORK=500 {words}");
        let mut command = stage.evo(&words);
        command.env("GITHUB_ACTIONS", "true").env("GITHUB_STEP_SUMMARY", stage.at(summary));
        Ran::of(&words, &command.output().unwrap()).ends(1)
    };
    let text = run("", "summary.md").out;
    let line = stage.read("scale.toml").lines().position(|line| line == "name = \"p\"").unwrap() + 1;
    let expected = format!("::error file=scale.toml,line={line},title=evo gate%3A p regression::slower by ");
    assert!(text.starts_with(&expected), "{text}");
    assert!(text.lines().next().unwrap().contains(" %25 ("), "{text}");
    assert!(stage.read("summary.md").starts_with("## evo gate: scale"));
    // One object on stdout; a page that cannot be written changes nothing.
    let ran = run("--json", "missing/summary.md").says(&["::error file=", "warning: cannot append"]);
    ended(&ran, "1", "fail", true);
    // Nobody reads stderr, and stdout still has its object.
    let words = format!("gate {LOUD} --candidate FAULT=1 --format github --json");
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    ended(&Ran::of(&words, &stage.evo(&words).stderr(full).output().unwrap()), "1", "fail", true);
    assert!(!run("--format text", "summary.md").out.contains("::error"));
}

#[test]
fn an_end_from_outside_leaves_one_object_and_the_baseline() {
    let stage = with_baseline(Stage::of("scale_slow").scripted());
    let before = baseline(&stage);
    let words = "gate --device host --candidate FAULT=2 --update";
    stage.answers(&format!("{words} --limit total=3s"), 1, "not_run");
    let lock = "evidence/scale-host/iterations.lock";
    answer::interrupted_at_work(&stage, &format!("{words} --json"), lock);
    assert_eq!(baseline(&stage), before);
}
