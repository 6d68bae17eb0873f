//! `evo bench` on the host device with real kernels and fake peers. What peers are, say and do differs by far, so that
//! nothing that is asserted depends on how quiet the machine is.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::json_schema;
use crate::skip::has_programs;
use crate::support::scale::stage_with;
use crate::support::{self, BRIEF, answer};

/// `y = 2 x`, after `WORK` steps that change nothing.
const SOURCE: &str = include_str!("../data/kernels/scale_bench/scale.cu");

const HEAD: &str = include_str!("../data/kernels/scale_bench/head.toml");

const PEER: &str = include_str!("../data/peers/fake_peer.py");

fn stage() -> TempDir {
    let folder = stage_with("scale.cu", SOURCE, HEAD);
    fs::write(folder.path().join("peer.py"), PEER).unwrap();
    folder
}

/// The same where there is Python for a peer.
fn with_python() -> Option<TempDir> {
    has_python().then(stage)
}

fn has_python() -> bool {
    has_programs(&["python3"], "the peer of this test")
}

/// A benchmark file with one peer that behaves so.
fn with_peer(root: &Path, how: &str, more: &str) {
    let text = format!(
        "space = \"scale.toml\"\ncandidates = [\"WORK=1\"]\nmodes = [\"hot\"]\nproblems = [\"small\"]\n{more}\n\
         [[peers]]\nname = \"fake\"\ncommand = [\"python3\", \"peer.py\", \"{how}\", \"state\"]\ntimeout_s = 20\n"
    );
    fs::write(root.join("b.toml"), text).unwrap();
}

fn evo(root: &Path, words: &str) -> Command {
    support::evo(root, &format!("bench {words} {BRIEF} --device host --seed 1 --rounds 3 --json"))
}

/// The one object, in whose rows what is absent has a reason, and nothing else has.
#[track_caller]
fn object(words: &str, stdout: &[u8]) -> Value {
    let object = answer::object("bench", words, stdout);
    for row in object["rows"].as_array().into_iter().flatten() {
        for (name, value) in row.as_object().unwrap() {
            let reason = &row["reasons"][name];
            let is_empty = name == "modes" && value.as_object().unwrap().is_empty();
            assert_eq!(value.is_null() || is_empty, reason.is_string(), "`{words}`: {name} of {row}");
        }
    }
    object
}

#[track_caller]
fn check(root: &Path, words: &str, code: i32, status: &str) -> Value {
    let output = evo(root, words).output().unwrap();
    answer::judged("bench", words, &output, code, status);
    object(words, &output.stdout)
}

#[track_caller]
fn row<'a>(object: &'a Value, implementation: &str, problem: &str) -> &'a Value {
    let rows = object["rows"].as_array().unwrap();
    let found = rows.iter().find(|row| row["implementation"] == implementation && row["problem"] == problem);
    found.unwrap_or_else(|| panic!("no row of {implementation} on {problem}: {object}"))
}

#[test]
fn candidates_and_a_peer_over_shapes() {
    let Some(stage) = with_python() else { return };
    let root = stage.path();
    let text = "space = \"scale.toml\"\nname = \"two\"\nmodes = [\"hot\", \"cold\", \"eager\"]\n\
                candidates = [\"WORK=1\", { name = \"slow\", words = \"WORK=500\" },\n\
                { name = \"wrong\", words = \"FAULT=1\" }, { name = \"forbidden\", words = \"WORK=500 FAULT=1\" }]\n\
                [[problems]]\nname = \"a\"\nsizes = { N = 500 }\ncanonical = true\n\
                [[problems]]\nname = \"b\"\nsizes = { N = [1000, 2000] }\n\
                [[peers]]\nname = \"fake\"\ncommand = [\"python3\", \"peer.py\", \"two\"]\n";
    fs::write(root.join("b.toml"), text).unwrap();
    let object = check(root, "b.toml", 1, "fail");
    let fast = row(&object, "WORK=1", "a");
    assert_eq!((&fast["status"], &fast["correct"]), (&"pass".into(), &true.into()));
    assert_eq!(fast["sizes"]["N"], 500);
    let modes: Vec<&String> = fast["modes"].as_object().unwrap().keys().collect();
    assert_eq!(modes, ["cold", "eager", "hot"]);
    let faster = fast["ratio_to_best_peer"].as_f64().unwrap();
    assert!(faster < 0.5 && fast["ratio_high"].as_f64().unwrap() < 1.0, "{fast}");
    let slow = row(&object, "slow", "b_N2000")["modes"]["hot"]["p50_ns"].as_f64().unwrap();
    let fast_there = row(&object, "WORK=1", "b_N2000")["modes"]["hot"]["p50_ns"].as_f64().unwrap();
    assert!(slow > 2.0 * fast_there, "{slow} and {fast_there}");
    // It is wrong there alone.
    assert_eq!(row(&object, "wrong", "b_N1000")["status"], "pass");
    let wrong = row(&object, "wrong", "a");
    assert_eq!((&wrong["status"], &wrong["correct"]), (&"fail".into(), &false.into()), "{wrong}");
    assert!(wrong["modes"].as_object().unwrap().is_empty() && wrong["max_abs_error"].as_f64() > Some(0.0));
    let forbidden = row(&object, "forbidden", "a");
    assert_eq!(forbidden["status"], "skipped", "{forbidden}");
    assert!(forbidden["reason"].as_str().unwrap().contains("FAULT == 0"), "{forbidden}");
    let other = row(&object, "fake/other", "b_N2000");
    assert_eq!((&other["status"], &other["reason"]), (&"skipped".into(), &"needs a newer card".into()));
    // Together: where it was right, and the fastest of each problem behind all candidates.
    let means = object["summary"].as_array().unwrap();
    let names: Vec<&Value> = means.iter().map(|mean| &mean["implementation"]).collect();
    assert_eq!(names, [&Value::from("WORK=1"), &"slow".into(), &"wrong".into(), &Value::Null], "{means:?}");
    assert_eq!((&means[0]["problems"], &means[0]["of"]), (&3.into(), &3.into()), "{means:?}");
    assert_eq!((&means[2]["problems"], &means[2]["of"]), (&2.into(), &3.into()), "{means:?}");
    assert!(
        means[0]["ratio"].as_f64() < Some(0.5) && means[3]["ratio"].as_f64() <= means[0]["ratio"].as_f64()
    );
    // The files say the same, and a second run has a folder of its own.
    let folder = root.join(object["folder"].as_str().unwrap());
    for name in ["bench.json", "bench.csv", "bench.md", "comparison.md", "environment.json"] {
        assert!(folder.join(name).is_file(), "{name}");
    }
    let kept: Value = serde_json::from_str(&fs::read_to_string(folder.join("bench.json")).unwrap()).unwrap();
    assert_eq!((&kept["rows"], &kept["status"]), (&object["rows"], &"fail".into()));
    assert_eq!(json_schema::fault(&answer::schema("bench-file"), &kept), None, "{kept}");
    let lines = fs::read_to_string(folder.join("bench.csv")).unwrap().lines().count();
    assert_eq!(lines, object["rows"].as_array().unwrap().len() + 1);
    // Only what is canonical, and there nothing is wrong.
    let quick = check(root, "b.toml WORK=1 --quick", 0, "pass");
    assert_eq!(quick["rows"].as_array().unwrap().len(), 3, "{quick}");
    assert_ne!(quick["folder"], object["folder"]);
    let again = kept["command"].as_str().unwrap();
    assert!(again.starts_with("evo bench b.toml ") && again.contains("--rounds 3"), "{again}");
}

#[test]
fn a_portfolio_is_its_members() {
    let stage = stage();
    let root = stage.path();
    let none = check(root, "scale.toml --candidate @portfolio", 2, "error");
    assert!(none["error"]["message"].as_str().unwrap().contains("no study of `scale`"), "{none}");
    let words = format!("sweep scale.toml --device host --seed 1 --finalists 1 --budget 4 {BRIEF}");
    let swept = support::evo(root, &words).output().unwrap();
    assert!(swept.status.success(), "{}", String::from_utf8_lossy(&swept.stderr));
    let seen = check(root, "scale.toml --candidate @portfolio --candidate WORK=500 --mode hot", 0, "pass");
    let names: Vec<&str> =
        seen["implementations"].as_array().unwrap().iter().map(|own| own["name"].as_str().unwrap()).collect();
    let board = fs::read_to_string(root.join("evidence/leaderboard.json")).unwrap();
    let board: Value = serde_json::from_str(&board).unwrap();
    let champion = format!("@{}", board["sections"][0]["champion"]["number"]);
    assert_eq!((names[0], names[names.len() - 1]), (champion.as_str(), "WORK=500"), "{names:?}");
    let best = board["sections"][0]["portfolio"]["best"].as_array().expect("a portfolio");
    assert_eq!(best.len(), 2, "one for each timed problem: {best:?}");
    for best in best {
        assert!(names.contains(&format!("@{}", best["number"]).as_str()), "{names:?} and {best}");
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
    let Some(stage) = with_python() else { return };
    let root = stage.path();
    for (how, status, reason, correct) in BAD {
        with_peer(root, how, "");
        let object = check(root, "b.toml", 1, "not_run");
        let peer = row(&object, "fake/double", "small");
        assert_eq!(
            (&peer["status"], &peer["correct"]),
            (&(*status).into(), &Value::from(*correct)),
            "{how}: {peer}"
        );
        let said = peer["reason"].as_str().unwrap();
        assert!(said.contains(reason), "{how}: no `{reason}` in: {said}");
        assert!(peer["modes"].as_object().unwrap().is_empty(), "{how}: {peer}");
        let own = row(&object, "WORK=1", "small");
        assert_eq!(
            (&own["status"], &own["ratio_to_best_peer"]),
            (&"pass".into(), &Value::Null),
            "{how}: {own}"
        );
        assert!(own["modes"]["hot"]["p50_ns"].as_f64() > Some(0.0), "{how}: {own}");
    }
    // What is missing may be allowed by name, and the object says so.
    with_peer(root, "die_output", "");
    let allowed = check(root, "b.toml --allow-not-run fake", 0, "pass");
    assert_eq!(allowed["allowed_not_run"][0], "fake", "{allowed}");
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
    let Some(stage) = with_python() else { return };
    let root = stage.path();
    for (how, status, reason) in SILENT {
        with_peer(root, how, "");
        let object = check(root, "b.toml", 1, "not_run");
        let peer = row(&object, "fake", "small");
        assert_eq!(peer["status"], *status, "{how}: {peer}");
        assert!(peer["reason"].as_str().unwrap().contains(reason), "{how}: {peer}");
        assert_eq!(row(&object, "WORK=1", "small")["status"], "pass", "{how}");
    }
    // Starting slowly is not a fault.
    with_peer(root, "slow_start", "");
    let object = check(root, "b.toml", 0, "pass");
    assert!(row(&object, "WORK=1", "small")["ratio_to_best_peer"].as_f64().is_some(), "{object}");
}

fn is_gone(pid: i32) -> bool {
    let until = Instant::now() + Duration::from_secs(20);
    let pid = Pid::from_raw(pid).unwrap();
    while Instant::now() < until {
        let state = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        // A zombie that nobody has reaped runs no more.
        if test_kill_process(pid).is_err() || state.contains(") Z ") {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn a_peer_that_hangs_is_ended_with_everything_that_it_started() {
    let Some(stage) = with_python() else { return };
    let root = stage.path();
    for how in ["hang_output", "hang_block"] {
        with_peer(root, how, "");
        let text = fs::read_to_string(root.join("b.toml")).unwrap();
        fs::write(root.join("b.toml"), text.replace("timeout_s = 20", "timeout_s = 3")).unwrap();
        let object = check(root, "b.toml", 1, "not_run");
        let peer = row(&object, "fake/double", "small");
        assert!(peer["reason"].as_str().unwrap().contains("no answer within 3 s"), "{how}: {peer}");
        let child: i32 = fs::read_to_string(root.join("state")).unwrap().parse().unwrap();
        assert!(is_gone(child), "{how}: the child of the peer is still there");
    }
}

/// A quick run ends in a minute, and its own candidates are timed, whatever a peer does.
#[test]
fn a_peer_that_hangs_leaves_a_quick_run_its_time() {
    let Some(stage) = with_python() else { return };
    let root = stage.path();
    with_peer(root, "hang_output", "");
    let text = fs::read_to_string(root.join("b.toml")).unwrap();
    fs::write(root.join("b.toml"), text.replace("timeout_s = 20", "timeout_s = 600")).unwrap();
    let began = Instant::now();
    let object = check(root, "b.toml --quick", 1, "not_run");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert_eq!(row(&object, "WORK=1", "small")["status"], "pass", "{object}");
    let peer = row(&object, "fake/double", "small");
    assert!(peer["reason"].as_str().unwrap().contains("no answer within"), "{peer}");
}

/// What a peer leaves in a session of its own ends with it, and with evo, however that ends.
#[test]
fn a_daemon_of_a_peer_does_not_outlive_it() {
    let Some(stage) = with_python() else { return };
    let root = stage.path();
    let daemon = || fs::read_to_string(root.join("state")).ok().and_then(|pid| pid.parse::<i32>().ok());
    with_peer(root, "daemon", "");
    check(root, "b.toml", 0, "pass");
    assert!(is_gone(daemon().unwrap()), "after a regular end");
    with_peer(root, "daemon_hangs", "");
    let text = fs::read_to_string(root.join("b.toml")).unwrap();
    fs::write(root.join("b.toml"), text.replace("timeout_s = 20", "timeout_s = 600")).unwrap();
    for signal in [Signal::INT, Signal::KILL] {
        fs::remove_file(root.join("state")).unwrap();
        let mut evo = evo(root, "b.toml").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(120);
        while daemon().is_none() {
            assert!(Instant::now() < until && evo.try_wait().unwrap().is_none(), "no daemon was started");
            std::thread::sleep(Duration::from_millis(20));
        }
        kill_process(Pid::from_child(&evo), signal).unwrap();
        evo.wait().unwrap();
        assert!(is_gone(daemon().unwrap()), "after {signal:?}");
    }
}

#[test]
fn what_cannot_begin_is_exit_2_and_leaves_nothing() {
    let stage = stage();
    let root = stage.path();
    let head = "space = \"scale.toml\"\n";
    let sizes = (0..10_001).map(|value| value.to_string()).collect::<Vec<_>>().join(",");
    let shapes = |sizes: &str| format!("{head}[[problems]]\nname = \"a\"\nsizes = {{ {sizes} }}\n");
    let files = [
        (format!("{head}[[peers]]\nname = \"p\"\ncommand = [\"./none\"]\n"), "does not start", Some(4)),
        (format!("{head}[[peers]]\nname = \"p\"\n"), "has no `command`", Some(2)),
        (shapes("N = []"), "expected a whole number", Some(4)),
        (shapes(&format!("N = [{sizes}]")), "more than 10000 shapes", None),
        (shapes("M = 1"), "the space takes `N`", Some(4)),
        (shapes("WORK = 1, N = 1"), "is both a parameter and a size", Some(4)),
        (format!("{head}problems = [\"smal\"]\n"), "did you mean `small`?", Some(2)),
        (format!("{head}modes = [\"warm\"]\n"), "`warm` is not a mode", Some(2)),
        (format!("{head}candidates = [\"WORK=7\"]\n"), "WORK", None),
        (format!("{head}candidates = [\"WORK=1\", \"WORK=1\"]\n"), "two candidates are called", None),
        ("space = \"nowhere.toml\"\n".to_string(), "nowhere.toml", None),
    ];
    for (text, expected, line) in files {
        fs::write(root.join("b.toml"), &text).unwrap();
        let object = check(root, "b.toml", 2, "error");
        let error = object["error"].to_string();
        assert!(error.contains(expected), "no `{expected}` in {error}");
        if let Some(line) = line {
            assert_eq!(object["error"]["place"]["line"], line, "{error}");
        }
        assert!(!root.join("evidence").exists(), "{expected}");
    }
    for (words, expected) in [
        ("scale.toml --peer torsch", "did you mean `torch`?"),
        ("scale.toml --problem lage", "did you mean `large`?"),
        ("scale.toml --allow-not-run nobody", "nothing that runs here"),
        ("nowhere", "no space `nowhere` here"),
        (".", "it is a folder, not a file"),
    ] {
        let object = check(root, words, 2, "error");
        assert!(object["error"].to_string().contains(expected), "`{words}`: {object}");
    }
    assert!(!root.join("evidence").exists());
}

/// A problem that only commands with its name run, here and in the commands that judge.
#[test]
fn what_is_there_on_request_is_left_out() {
    let stage = stage();
    let root = stage.path();
    let text = fs::read_to_string(root.join("scale.toml")).unwrap();
    let asked = text.replace("name = \"large\"", "name = \"large\"\non_request = true");
    assert_ne!(asked, text);
    fs::write(root.join("scale.toml"), asked).unwrap();
    let benched = |words: &str| {
        let object = check(root, words, 0, "pass");
        let rows = object["rows"].as_array().unwrap();
        rows.iter().map(|row| row["problem"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(benched("scale.toml --mode hot --candidate WORK=1"), ["small"]);
    assert_eq!(benched("scale.toml --mode hot --candidate WORK=1 --problem large"), ["large"]);
    let file =
        "space = \"scale.toml\"\ncandidates = [\"WORK=1\"]\nmodes = [\"hot\"]\nproblems = [\"large\"]\n";
    fs::write(root.join("b.toml"), file).unwrap();
    assert_eq!(benched("b.toml"), ["large"]);
    let judged = |more: &str| {
        let words = format!("test-one scale.toml WORK=1 {BRIEF} --device host --seed 1 --json {more}");
        let output = support::evo(root, &words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(!judged("").contains("\"large\""));
    assert!(judged("--problem large").contains("\"large\""));
}

#[test]
fn without_torch_its_rows_say_why_and_nothing_passes() {
    let python = Command::new("python3").args(["-c", "import torch"]).output();
    if !has_python() || python.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: this machine has torch");
        return;
    }
    let stage = stage();
    let root = stage.path();
    let object = check(root, "scale.toml --peer torch --problem small --mode hot", 1, "not_run");
    let torch = row(&object, "torch", "small");
    assert_eq!(torch["status"], "not_run");
    assert!(torch["reason"].as_str().unwrap().contains("torch cannot be imported"), "{torch}");
    // Without any Python the command itself is wrong.
    let mut none = evo(root, "scale.toml --peer torch");
    let output = none.env("PATH", "/nonexistent").env("EVO_PYTHON", "/nonexistent/python3").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["error"]["code"], "tool_missing", "{object}");
}

#[test]
fn the_shipped_peer_without_libraries_computes_every_operator() {
    let Some(stage) = with_python() else { return };
    let root = stage.path();
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
        fs::write(root.join("b.toml"), text).unwrap();
        let object = check(root, "b.toml --quick --peer python", 0, "pass");
        for row in object["rows"].as_array().unwrap() {
            assert_eq!((&row["status"], &row["correct"]), (&"pass".into(), &true.into()), "{space}: {row}");
        }
        assert!(object["rows"].as_array().unwrap().len() >= 2, "{space}: {object}");
    }
}

/// An eager call takes the host far longer than a short kernel takes the GPU: a graph of as many calls as fill a sample
/// eagerly would hold one or two, and be timed with its own launch.
#[test]
fn the_shipped_peer_fills_a_sample_with_calls_of_a_graph() {
    if !has_python() {
        return;
    }
    let text = timed_by_shipped_peer("hot");
    let (calls, slowest) = text.trim().split_once(' ').unwrap();
    // 200 us of a kernel of 10 us, of which the trial sees a little more: its share of the replay is in it.
    assert_eq!(calls, "20", "{text}");
    assert!(slowest.parse::<f64>().unwrap() < 11_000.0, "{text}");
}

/// A cold call is queued while the GPU still fills its caches: else the host's 90 us for the call would be timed.
#[test]
fn the_shipped_peer_queues_cold_calls_before_the_gpu_is_idle() {
    if !has_python() {
        return;
    }
    let text = timed_by_shipped_peer("cold");
    let (calls, slowest) = text.trim().split_once(' ').unwrap();
    assert_eq!(calls, "1", "{text}");
    assert!(slowest.parse::<f64>().unwrap() < 11_000.0, "{text}");
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
    let Some(stage) = with_python() else { return };
    let root = stage.path();
    // The second problem never ends by itself.
    let peer = PEER.replace(
        "task = body\n",
        "task = body\n            if body[\"problem\"] == \"large\" and block.done: time.sleep(600)\n",
    );
    let peer = peer.replace("def block(body):\n", "def block(body):\n    block.done = True\n");
    let peer = peer.replace("def main():\n", "block.done = False\n\n\ndef main():\n");
    fs::write(root.join("peer.py"), peer).unwrap();
    with_peer(root, "fine", "");
    let text = fs::read_to_string(root.join("b.toml")).unwrap();
    fs::write(root.join("b.toml"), text.replace("problems = [\"small\"]\n", "").replace("= 20", "= 600"))
        .unwrap();
    let mut command = evo(root, "b.toml");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(300);
    let kept = loop {
        assert!(Instant::now() < until, "no row was kept");
        std::thread::sleep(Duration::from_millis(50));
        let Some(path) = bench_json(root) else { continue };
        let Ok(kept) = serde_json::from_str::<Value>(&fs::read_to_string(path).unwrap()) else { continue };
        if kept["rows"].as_array().is_some_and(|rows| rows.len() == 2) {
            break kept;
        }
    };
    assert_eq!(kept["status"], "unfinished", "{kept}");
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let object = object("interrupted", &output.stdout);
    let seen = (output.status.code(), object["status"].as_str(), object["exit_code"].as_i64());
    assert_eq!(seen, (Some(5), Some("interrupted"), Some(5)), "{object}");
    assert!(root.join(object["folder"].as_str().unwrap()).join("bench.json").is_file());
    let rows: Value = serde_json::from_str(&fs::read_to_string(bench_json(root).unwrap()).unwrap()).unwrap();
    assert_eq!(rows["rows"][0]["status"], "pass", "{rows}");
}

fn bench_json(root: &Path) -> Option<PathBuf> {
    let device = fs::read_dir(root.join("evidence/bench")).ok()?.next()?.ok()?.path();
    let run = fs::read_dir(device).ok()?.flatten().map(|entry| entry.path()).find(|path| path.is_dir())?;
    Some(run.join("bench.json")).filter(|path| path.is_file())
}
