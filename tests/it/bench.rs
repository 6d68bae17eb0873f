//! `evo bench` on the host device with real kernels and fake peers. What peers are, say and do differs by far, so that
//! nothing that is asserted depends on how quiet the machine is.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::json_schema;
use crate::skip::{has_programs, is_full};
use crate::support::BRIEF;
use crate::support::answer::{self, ended, holds};
use crate::support::processes::{send, wait, wait_for_ends};
use crate::support::stage::{Ran, Stage};

const PEER: &str = include_str!("../data/peers/fake_peer.py");

/// The kernel and the fake peer, where there is Python for it.
fn stage() -> Option<Stage> {
    let stage = has_python().then(|| Stage::of("scale_bench"))?;
    stage.write("peer.py", PEER);
    Some(stage)
}

fn has_python() -> bool {
    has_programs(&["python3"], "the peer of this test")
}

/// A benchmark file with one peer that behaves so, and answers within so many seconds.
fn with_peer(stage: &Stage, how: &str, seconds: u32) {
    let text = format!(
        "space = \"scale.toml\"\ncandidates = [\"WORK=1\"]\nmodes = [\"hot\"]\nproblems = [\"small\"]\n\
         [[peers]]\nname = \"fake\"\ncommand = [\"python3\", \"peer.py\", \"{how}\", \"state\"]\ntimeout_s = {seconds}\n"
    );
    stage.write("b.toml", &text);
}

fn words(words: &str) -> String {
    format!("bench {words} {BRIEF} --device host --seed 1 --rounds 3 --json")
}

/// The one object, in whose rows what is absent has a reason, and nothing else has.
#[track_caller]
fn check(stage: &Stage, more: &str, code: i32, status: &str) -> Value {
    held(&stage.run(&words(more)), code, status)
}

#[track_caller]
fn held(ran: &Ran, code: i32, status: &str) -> Value {
    let object = ended(ran, &code.to_string(), status, true);
    for row in object["rows"].as_array().into_iter().flatten() {
        for (name, value) in row.as_object().unwrap() {
            let reason = &row["reasons"][name];
            let is_empty = name == "modes" && value.as_object().unwrap().is_empty();
            assert_eq!(value.is_null() || is_empty, reason.is_string(), "{name} of {row}: {ran}");
        }
    }
    object
}

#[track_caller]
fn row<'a>(object: &'a Value, implementation: &str, problem: &str) -> &'a Value {
    let rows = object["rows"].as_array().unwrap();
    let found = rows.iter().find(|row| row["implementation"] == implementation && row["problem"] == problem);
    found.unwrap_or_else(|| panic!("no row of {implementation} on {problem}: {object}"))
}

const TWO: &str = "space = \"scale.toml\"\nname = \"two\"\nmodes = [\"hot\", \"cold\", \"eager\"]\n\
                   candidates = [\"WORK=1\", { name = \"slow\", words = \"WORK=500\" },\n\
                   { name = \"wrong\", words = \"FAULT=1\" }, { name = \"forbidden\", words = \"WORK=500 FAULT=1\" }]\n\
                   [[problems]]\nname = \"a\"\nsizes = { N = 500 }\ncanonical = true\n\
                   [[problems]]\nname = \"b\"\nsizes = { N = [1000, 2000] }\n\
                   [[peers]]\nname = \"fake\"\ncommand = [\"python3\", \"peer.py\", \"two\"]\n";

#[test]
fn candidates_and_a_peer_over_shapes() {
    let Some(stage) = stage() else { return };
    stage.write("b.toml", TWO);
    let object = check(&stage, "b.toml", 1, "fail");
    let of = |implementation: &str, problem: &str, expected: Value| {
        holds(row(&object, implementation, problem), &expected);
    };
    let expected = json!({
        "status": "pass", "correct": true, "sizes.N": 500, "modes": "# 3", "modes.cold": "is object",
        "modes.eager": "is object", "modes.hot": "is object", "ratio_to_best_peer": "< 0.5", "ratio_high": "< 1",
    });
    of("WORK=1", "a", expected);
    let fast = row(&object, "WORK=1", "b_N2000")["modes"]["hot"]["p50_ns"].as_f64().unwrap();
    of("slow", "b_N2000", json!({ "modes.hot.p50_ns": format!("> {}", 2.0 * fast) }));
    // It is wrong there alone.
    of("wrong", "b_N1000", json!({ "status": "pass" }));
    of("wrong", "a", json!({ "status": "fail", "correct": false, "modes": "# 0", "max_abs_error": "> 0" }));
    of("forbidden", "a", json!({ "status": "skipped", "reason": "~ FAULT == 0" }));
    of("fake/other", "b_N2000", json!({ "status": "skipped", "reason": "needs a newer card" }));
    // Together: where it was right, and the fastest of each problem behind all candidates.
    let expected = json!({
        "summary.*.implementation": ["WORK=1", "slow", "wrong", null], "summary.0.problems": 3, "summary.0.of": 3,
        "summary.0.ratio": "< 0.5", "summary.2.problems": 2, "summary.2.of": 3,
    });
    holds(&object, &expected);
    assert!(object["summary"][3]["ratio"].as_f64() <= object["summary"][0]["ratio"].as_f64(), "{object}");
    // The files say the same, and a second run has a folder of its own.
    let folder = object["folder"].as_str().unwrap();
    for name in ["bench.json", "bench.csv", "bench.md", "comparison.md", "environment.json"] {
        assert!(stage.at(folder).join(name).is_file(), "{name}");
    }
    let kept = stage.json(&format!("{folder}/bench.json"));
    assert_eq!((&kept["rows"], &kept["status"]), (&object["rows"], &"fail".into()));
    assert_eq!(json_schema::fault(&answer::schema("bench-file"), &kept), None, "{kept}");
    let lines = stage.read(&format!("{folder}/bench.csv")).lines().count();
    assert_eq!(lines, object["rows"].as_array().unwrap().len() + 1);
    // Only what is canonical, and there nothing is wrong.
    let quick = check(&stage, "b.toml WORK=1 --quick", 0, "pass");
    holds(&quick, &json!({ "rows": "# 3" }));
    assert_ne!(quick["folder"], object["folder"]);
    let again = kept["command"].as_str().unwrap();
    assert!(again.starts_with("evo bench b.toml ") && again.contains("--rounds 3"), "{again}");
}

#[test]
fn a_portfolio_is_its_members() {
    let stage = Stage::of("scale_bench");
    let none = check(&stage, "scale.toml --candidate @portfolio", 2, "error");
    holds(&none, &json!({ "error.message": "~ no study of `scale`" }));
    stage.run(&format!("sweep scale.toml --device host --seed 1 --finalists 1 --budget 4 {BRIEF}")).ends(0);
    let words = "scale.toml --candidate @portfolio --candidate WORK=500 --mode hot";
    let seen = check(&stage, words, 0, "pass");
    let section = stage.json("evidence/leaderboard.json")["sections"][0].clone();
    let champion = format!("@{}", section["champion"]["number"]);
    holds(&seen, &json!({ "implementations.0.name": champion, "implementations.last.name": "WORK=500" }));
    let best = section["portfolio"]["best"].as_array().expect("a portfolio");
    assert_eq!(best.len(), 2, "one for each timed problem: {best:?}");
    for best in best {
        let name = format!("implementations.@{}.name", best["number"]);
        holds(&seen, &json!({ name: "is text" }));
    }
}

/// Each way in which a peer may fail: its status, a part of its reason, and whether its answer counts as right.
const BAD: &[(&str, &str, &str, Option<bool>)] = &[
    ("wrong", "fail", "wrong_answer", Some(false)),
    ("nan", "fail", "wrong_answer", Some(false)),
    ("by_heart", "fail", "wrong_answer", Some(false)),
    ("nothing", "fail", "it was not written", Some(false)),
    ("shape", "fail", "its shape is", Some(false)),
    ("dtype", "fail", "its data type is `f64`", Some(false)),
    ("fifo", "fail", "cannot be used", Some(false)),
    ("too_long", "not_run", "by our clock", Some(true)),
    ("too_short", "not_run", "not the times of its calls", Some(true)),
    ("negative", "not_run", "a sample of -1 ns", Some(true)),
    ("no_samples", "not_run", "a block without samples", Some(true)),
    ("garbage_output", "not_run", "hello, this is not JSON", None),
    ("long_output", "not_run", "a line longer than a message may be", None),
    ("other_answer", "not_run", "it answered `output` with", None),
    ("die_output", "not_run", "killed by SIGKILL (last words: no more memory)", None),
    ("exit_output", "not_run", "exit code 7 (last words: gave up)", None),
    ("die_block", "not_run", "killed by SIGKILL", Some(true)),
];

#[test]
fn a_bad_peer_is_a_row_with_its_reason_and_never_the_bar() {
    let Some(stage) = stage() else { return };
    for (how, status, reason, correct) in BAD {
        with_peer(&stage, how, 20);
        let object = check(&stage, "b.toml --quick", 1, "not_run");
        let peer = json!({
            "status": status, "correct": correct, "reason": format!("~ {reason}"), "modes": "# 0",
        });
        holds(row(&object, "fake/double", "small"), &peer);
        let own = json!({ "status": "pass", "ratio_to_best_peer": null, "modes.hot.p50_ns": "> 0" });
        holds(row(&object, "WORK=1", "small"), &own);
    }
    // What is missing may be allowed by name, and the object says so.
    with_peer(&stage, "die_output", 20);
    let allowed = check(&stage, "b.toml --allow-not-run fake", 0, "pass");
    holds(&allowed, &json!({ "allowed_not_run.0": "fake" }));
}

/// Peers that never come to name an implementation.
const SILENT: &[(&str, &str, &str)] = &[
    ("unable", "not_run", "it has no library"),
    ("exit_hello", "not_run", "exit code 7"),
    ("garbage_hello", "not_run", "not the protocol"),
    ("number", "not_run", "answer 2 instead of"),
    ("long_prepare", "not_run", "a line longer"),
    ("nobody", "skipped", "named no implementation"),
    ("twice", "not_run", "twice"),
    ("unable_prepare", "skipped", "not this shape"),
];

#[test]
fn a_peer_that_names_nothing_is_a_row_too() {
    let Some(stage) = stage() else { return };
    for (how, status, reason) in SILENT {
        with_peer(&stage, how, 20);
        let object = check(&stage, "b.toml --quick", 1, "not_run");
        let peer = row(&object, "fake", "small");
        holds(peer, &json!({ "status": status, "reason": format!("~ {reason}") }));
        holds(row(&object, "WORK=1", "small"), &json!({ "status": "pass" }));
    }
    // Starting slowly is not a fault.
    with_peer(&stage, "slow_start", 20);
    let object = check(&stage, "b.toml", 0, "pass");
    holds(row(&object, "WORK=1", "small"), &json!({ "ratio_to_best_peer": "is number" }));
}

#[test]
fn a_peer_that_hangs_is_ended_with_everything_that_it_started() {
    let Some(stage) = stage() else { return };
    for how in ["hang_output", "hang_block"] {
        with_peer(&stage, how, 3);
        let object = check(&stage, "b.toml", 1, "not_run");
        holds(row(&object, "fake/double", "small"), &json!({ "reason": "~ no answer within 3 s" }));
        wait_for_ends(&stage.read("state"));
    }
}

/// A quick run ends in a minute, and its own candidates are timed, whatever a peer does.
#[test]
fn a_peer_that_hangs_leaves_a_quick_run_its_time() {
    let Some(stage) = is_full("long").then(stage).flatten() else { return };
    with_peer(&stage, "hang_output", 600);
    let began = Instant::now();
    let object = check(&stage, "b.toml --quick", 1, "not_run");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    holds(row(&object, "WORK=1", "small"), &json!({ "status": "pass" }));
    holds(row(&object, "fake/double", "small"), &json!({ "reason": "~ no answer within" }));
}

/// What a peer leaves in a session of its own ends with it, and with evo, however that ends.
#[test]
fn a_daemon_of_a_peer_does_not_outlive_it() {
    let Some(stage) = stage() else { return };
    with_peer(&stage, "daemon", 20);
    check(&stage, "b.toml", 0, "pass");
    wait_for_ends(&stage.read("state"));
    with_peer(&stage, "daemon_hangs", 600);
    for signal in [Signal::INT, Signal::KILL] {
        fs::remove_file(stage.at("state")).unwrap();
        let mut command = stage.evo(&words("b.toml"));
        let mut evo = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait("a daemon", || {
            assert!(evo.try_wait().unwrap().is_none(), "no daemon was started");
            stage.at("state").exists()
        });
        send(&evo, signal);
        evo.wait().unwrap();
        wait_for_ends(&stage.read("state"));
    }
}

#[test]
fn without_torch_its_rows_say_why_and_nothing_passes() {
    let python = Command::new("python3").args(["-c", "import torch"]).output();
    if !has_python() || python.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: this machine has torch");
        return;
    }
    let stage = Stage::of("scale_bench");
    let object = check(&stage, "scale.toml --peer torch --problem small --mode hot", 1, "not_run");
    let torch = json!({ "status": "not_run", "reason": "~ torch cannot be imported" });
    holds(row(&object, "torch", "small"), &torch);
    // Without any Python the command itself is wrong.
    let words = words("scale.toml --peer torch");
    let mut none = stage.evo(&words);
    let output = none.env("PATH", "/nonexistent").env("EVO_PYTHON", "/nonexistent/python3").output().unwrap();
    holds(&held(&Ran::of(&words, &output), 2, "error"), &json!({ "error.code": "tool_missing" }));
}

#[test]
fn the_shipped_peer_without_libraries_computes_every_operator() {
    let Some(stage) = stage() else { return };
    for (space, sizes) in [
        ("softmax", "ROWS = [3], COLS = [17]"),
        ("rmsnorm", "ROWS = [3], COLS = [17]"),
        ("transpose", "ROWS = [5], COLS = [7]"),
        ("gemm", "M = [5], N = [6], K = [7]"),
        ("reduction", "N = [333]"),
        ("attention_simt", "B = [1], HQ = [2], HKV = [1], SQ = [5], SKV = [9], CAUSAL = [0, 1]"),
    ] {
        let text = format!(
            "space = \"{space}\"\ncandidates = [\"@baseline\"]\n[[problems]]\nname = \"p\"\nsizes = {{ {sizes} }}\n"
        );
        stage.write("b.toml", &text);
        let object = check(&stage, "b.toml --quick --peer python", 0, "pass");
        for row in object["rows"].as_array().unwrap() {
            holds(row, &json!({ "status": "pass", "correct": true }));
        }
        holds(&object, &json!({ "rows": "#> 1" }));
    }
}

/// An eager call takes the host far longer than a short kernel takes the GPU: a graph of as many calls as fill a sample
/// eagerly would hold one or two, and be timed with its own launch. A cold call is queued while the GPU still fills its
/// caches: else the host's 90 us for the call would be timed.
#[test]
fn the_shipped_peer_fills_a_sample_with_calls_of_a_graph_and_queues_cold_ones_in_time() {
    if !has_python() {
        return;
    }
    // 200 us of a kernel of 10 us, of which the trial sees a little more: its share of the replay is in it.
    for (mode, expected) in [("hot", "20"), ("cold", "1")] {
        let text = timed_by_shipped_peer(mode);
        let (calls, slowest) = text.trim().split_once(' ').unwrap();
        assert_eq!(calls, expected, "{mode}: {text}");
        assert!(slowest.parse::<f64>().unwrap() < 11_000.0, "{mode}: {text}");
    }
}

/// How many calls of a kernel of 10 us the peer that ships puts in a sample, and its slowest, in nanoseconds for a call.
fn timed_by_shipped_peer(mode: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let told = format!(
        "import evo_peer, torch
samples, calls = evo_peer.TorchBackend('cuda').time_block(torch.kernel, '{mode}', 1)
print(calls, max(samples))"
    );
    let folders = env::join_paths([root.join("python"), root.join("tests/data/peers")]).unwrap();
    let mut python = Command::new("python3");
    python.args(["-c", &told]).env("PYTHONPATH", folders).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = python.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_interrupt_leaves_what_was_finished() {
    let Some(stage) = stage() else { return };
    // The second problem never ends by itself.
    let waits =
        "task = body\n            if body[\"problem\"] == \"large\" and block.done: time.sleep(600)\n";
    stage.edit("peer.py", "task = body\n", waits);
    stage.edit("peer.py", "def block(body):\n", "def block(body):\n    block.done = True\n");
    stage.edit("peer.py", "def main():\n", "block.done = False\n\n\ndef main():\n");
    with_peer(&stage, "fine", 600);
    stage.edit("b.toml", "problems = [\"small\"]\n", "");
    let words = words("b.toml");
    let mut command = stage.evo(&words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let kept = || -> Option<Value> {
        let device = fs::read_dir(stage.at("evidence/bench")).ok()?.next()?.ok()?.path();
        let run =
            fs::read_dir(device).ok()?.flatten().map(|entry| entry.path()).find(|path| path.is_dir())?;
        serde_json::from_str(&fs::read_to_string(run.join("bench.json")).ok()?).ok()
    };
    wait("two rows", || kept().is_some_and(|own| own["rows"].as_array().is_some_and(|own| own.len() == 2)));
    holds(&kept().unwrap(), &json!({ "status": "unfinished" }));
    send(&child, Signal::INT);
    let object = held(&Ran::of(&words, &child.wait_with_output().unwrap()), 5, "interrupted");
    assert!(stage.at(object["folder"].as_str().unwrap()).join("bench.json").is_file());
    holds(&kept().unwrap(), &json!({ "rows.0.status": "pass" }));
}
