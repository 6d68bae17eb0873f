//! `evo evaluate` by requests on the host device: one answer a request whatever it holds, and nothing in it that a
//! candidate's author must not know.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::json_schema;
use crate::support::BRIEF;
use crate::support::answer::{self, holds};
use crate::support::processes::send;
use crate::support::stage::Stage;

const SOURCE: &str = include_str!("../data/kernels/scale_request/scale.cu");

fn source(value: &str) -> String {
    SOURCE.replace("VALUE", value)
}

/// One problem is timed, and one is only checked.
fn stage() -> Stage {
    let stage = Stage::of("scale_request");
    stage.write("scale.cu", &source("2.0f * x[at]"));
    stage
}

fn evo(stage: &Stage, words: &str) -> Command {
    let mut command = stage.evo(&format!("evaluate {words} {BRIEF} --device host --seed 424242"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn start(stage: &Stage, words: &str, input: &[u8]) -> Child {
    let mut child = evo(stage, words).spawn().unwrap();
    // evo may end before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input);
    child
}

fn run(stage: &Stage, words: &str, input: &[u8]) -> Output {
    start(stage, words, input).wait_with_output().unwrap()
}

/// The answers, each of which its schema allows, and the exit code.
#[track_caller]
fn answers(stage: &Stage, words: &str, input: &[u8]) -> (Vec<Value>, Option<i32>) {
    let output = run(stage, words, input);
    let text = String::from_utf8(output.stdout).unwrap();
    let schema = answer::schema("evaluate-answer");
    let read = |line: &str| {
        let answer: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(json_schema::fault(&schema, &answer), None, "{answer}");
        for (name, value) in answer.as_object().unwrap() {
            let is_told = ["id", "error"].contains(&name.as_str()) || answer["reasons"][name].is_string();
            assert!(!value.is_null() || is_told, "no reason for `{name}`: {answer}");
        }
        // A failure has no number.
        assert!(answer["verdict"] == "pass" || answer["scores"].is_null() && answer["performance"].is_null());
        answer
    };
    (text.lines().map(read).collect(), output.status.code())
}

fn asks(id: impl Into<Value>, text: &str, more: Value) -> Value {
    let mut request =
        json!({ "id": id.into(), "candidate": { "kind": "cuda", "sources": [{ "content": text }] } });
    more.as_object().unwrap().iter().for_each(|(name, value)| request[name] = value.clone());
    request
}

fn lines(requests: &[Value]) -> Vec<u8> {
    requests.iter().map(|one| format!("{one}\n")).collect::<String>().into_bytes()
}

fn word<'v>(answer: &'v Value, name: &str) -> &'v str {
    answer[name].as_str().unwrap_or_default()
}

#[test]
fn each_level_goes_as_far_as_it_says() {
    let stage = stage();
    let good = source("fmaf(x[at], 1.5f, 0.5f * x[at])");
    let levels = ["compile", "tiny", "quick", "full", "confirm"];
    let requests: Vec<Value> = levels
        .iter()
        .map(|level| asks(*level, &good, json!({ "level": level, "tag": { "g": 1 } })))
        .collect();
    let (told, code) = answers(&stage, "scale.toml --stdin", &lines(&requests));
    assert_eq!((told.len(), code), (5, Some(0)));
    for (at, (answer, level)) in told.iter().zip(levels).enumerate() {
        let (is_timed, is_confirmed) = (at >= 2, level == "confirm");
        let timed = if is_timed { "is number" } else { "is absent" };
        let expected = json!({
            "id": level, "verdict": "pass", "level_reached": level, "line": at + 1, "tag.g": 1, "not_run": [],
            "performance.objective_ns": timed, "scores.combined_score": timed,
        });
        holds(answer, &expected);
        assert_eq!(answer["gates"]["honesty"] == "pass", is_timed, "{answer}");
        assert_eq!(answer["gates"]["confirmation"] == "pass", is_confirmed, "{answer}");
        assert_eq!(answer["acceptance"].is_object(), is_confirmed, "{answer}");
    }
    assert_eq!(told[4]["performance"]["speedup"]["method"], "paired");
    let history = stage.read("evidence/scale-host/iterations.jsonl");
    assert_eq!(history.lines().count(), 1, "only what was compared is kept");
    // No request can go beyond `--quick`.
    let (told, _) = answers(&stage, "scale.toml --serve --quick", &lines(&requests[4..]));
    holds(&told[0], &json!({ "level": "quick", "accepted": false }));
}

#[test]
fn an_agent_learns_nothing_of_the_run() {
    let stage = stage();
    let hidden = source("n > 50000 ? x[at] : 2.0f * x[at]");
    let talks = source("2.0f * x[at]; if (at == 3) printf(\"leak %f\\n\", x[at])");
    let wrong_and_talks = source("x[at]; if (at == 3) printf(\"leak %f\\n\", x[at])");
    let hangs = source("1; while (at >= 0) at = at + 0 * (int)clock()");
    let quick = || json!({ "level": "quick" });
    let requests = [
        asks("hidden", &hidden, quick()),
        asks("talks", &talks, quick()),
        asks("wrong", &wrong_and_talks, quick()),
        asks("hangs", &hangs, quick()),
        asks("compile", &source("#"), quick()),
        asks("includes", &format!("#include \"../scale.toml\"\n{}", source("1")), quick()),
        asks("passwd", &format!("#include \"/etc/passwd\"\n{}", source("1")), quick()),
        asks("naive", &format!("#include \"naive.cu\"\n{}", source("1")), quick()),
        asks("entry", "int x;", quick()),
        asks("task", &hidden, json!({ "task": { "space": "other.toml" } })),
        asks("owner", &hidden, json!({ "level": "quick", "visibility": "owner" })),
    ];
    let words = "scale.toml --serve --visibility agent --limit device=5s";
    let (told, _) = answers(&stage, words, &lines(&requests));
    let root = stage.path().display().to_string();
    // The seed, the shape and the name of what is only checked, the small shapes' names, our folders, what was printed.
    for secret in
        ["424242", "54321", "hidden_shape", "tiny:", root.as_str(), "/cache", "leak", "2.0f * x[at];"]
    {
        let line = told.iter().find(|answer| answer.to_string().contains(secret));
        assert_eq!(line, None, "`{secret}`");
    }
    // The command line's word holds against the request's.
    let expected = json!({
        "hidden.verdict": "wrong_answer", "hidden.evidence.gate": "full_shapes", "talks.verdict": "pass",
        "hangs.verdict": "hang", "compile.verdict": "compile_error", "compile.feedback.hints.0.line": 4,
        "includes.verdict": "static_reject", "includes.cause": "include", "passwd.verdict": "static_reject",
        "passwd.cause": "include", "entry.status": "rejected", "task.status": "rejected",
        "owner.id": "owner", "owner.provenance.seed": null, "owner.repro": null, "naive.id": "naive",
        "naive.verdict": "!~ pass",
    });
    holds(&told.into(), &expected);
    let (told, _) = answers(&stage, "scale.toml --serve", &lines(&requests[10..]));
    assert_eq!(told[0]["provenance"]["seed"], 424_242);
    assert!(told[0]["message"].as_str().unwrap().contains("hidden_shape"), "{}", told[0]);
}

#[test]
fn bad_lines_are_answered_and_the_next_one_is_judged() {
    let stage = stage();
    let good = asks(9, &source("x[at] + x[at]"), json!({ "level": "compile" })).to_string();
    let long = format!("{{\"id\": \"long\", \"candidate\": \"{}\"}}", "x".repeat(10 << 20));
    let bad: [(&[u8], Value); 10] = [
        (b"garbage", Value::Null),
        (b"{\"id\": 5, \"candidate\": [", json!(5)),
        (b"{\"id\": {\"a\": 1}, \"candidate\": {\"kind\": \"configuration\"}}", Value::Null),
        (b"{\"id\": 1, \"id\": 2}", json!(1)),
        (b"{\"id\": \"utf\", \"x\": \"\xff\"}", json!("utf")),
        (long.as_bytes(), json!("long")),
        (b"{\"candidate\": {\"kind\": \"cubin\"}}", Value::Null),
        (b"[]", Value::Null),
        (
            b"{\"id\": 3, \"candidate\": {\"kind\": \"configuration\", \"configuration\": {\"WORK\": 7}}}",
            json!(3),
        ),
        (b"{\"id\": 4, \"task\": {\"dir\": \"x\"}, \"candidate\": {\"kind\": \"configuration\"}}", json!(4)),
    ];
    let mut input = Vec::new();
    for (line, _) in &bad {
        input.extend([line, &b"\n"[..], good.as_bytes(), b"\n"].concat());
    }
    // Half a line at the end.
    input.extend(b"{\"id\": \"half\"");
    let (told, code) = answers(&stage, "scale.toml --serve", &input);
    assert_eq!((told.len(), code), (21, Some(0)));
    for (pair, (line, id)) in told.chunks(2).zip(&bad) {
        let shown = String::from_utf8_lossy(&line[..line.len().min(80)]);
        assert_eq!((&pair[0]["id"], word(&pair[0], "status")), (id, "rejected"), "{shown}: {}", pair[0]);
        assert_eq!(pair[0]["error"]["code"], "usage", "{shown}");
        assert_eq!((&pair[1]["id"], word(&pair[1], "verdict")), (&9.into(), "pass"), "after {shown}");
    }
    assert_eq!(word(&told[20], "status"), "rejected");
}

#[test]
fn one_request_comes_from_a_file_or_from_stdin() {
    let stage = stage();
    let request =
        asks("one", &source("x[at] + x[at]"), json!({ "task": { "space": "scale.toml" }, "level": "tiny" }));
    stage.write("r.json", &format!("{request:#}"));
    let (told, code) = answers(&stage, "--request r.json", b"");
    assert_eq!((word(&told[0], "verdict"), code, told.len()), ("pass", Some(0), 1));
    let wrong = asks("w", &source("x[at]"), json!({ "task": { "space": "scale.toml" }, "level": "tiny" }));
    let (told, code) = answers(&stage, "--request -", wrong.to_string().as_bytes());
    // An answer was given, whatever it says.
    assert_eq!((word(&told[0], "verdict"), code), ("wrong_answer", Some(0)));
    let (told, code) = answers(&stage, "--request -", b"{\"id\": 8, \"level\": 1}");
    assert_eq!(code, Some(2));
    holds(&told[0], &json!({ "id": 8, "error.place.column": 20 }));
    for space in ["../scale.toml", "/etc/passwd", "scale.cu", "missing.toml"] {
        let request = asks(1, "int x;", json!({ "task": { "space": space } }));
        let (told, code) = answers(&stage, "--request -", request.to_string().as_bytes());
        assert_eq!((word(&told[0], "status"), code), ("rejected", Some(2)), "{space}");
        assert!(!told[0].to_string().contains("root:"), "{space}");
    }
    let fifo = Command::new("mkfifo").arg(stage.at("fifo")).status().unwrap();
    assert!(fifo.success());
    for words in ["--request fifo", "--request .", "--request missing"] {
        let output = run(&stage, words, b"");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "`{words}`: {told}");
        assert!(output.stdout.is_empty() && told.contains("cannot read the request"), "`{words}`: {told}");
    }
    // With `--json` there is one object all the same: the answer, or why there is none.
    let (told, code) = answers(&stage, "--request r.json --json", b"");
    assert_eq!((word(&told[0], "verdict"), code, told.len()), ("pass", Some(0), 1));
    let output = run(&stage, "--request missing --json", b"");
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &object["error"]["code"]), (Some(2), &"bad_file".into()), "{object}");
    for words in [
        "scale.toml --quick",
        "scale.toml --emit trace",
        "scale.toml 80 --serve",
        "--serve --stdin",
        "--request r.json --serve",
        "scale.toml --serve --source scale.cu",
        "--serve --json",
    ] {
        let output = run(&stage, words, b"");
        assert_eq!(output.status.code(), Some(2), "`{words}`: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn a_limit_cuts_off_one_request_and_not_the_next() {
    let stage = stage();
    let hangs = source("1; while (at >= 0) at = at + 0 * (int)clock()");
    let requests = [
        asks("late", &hangs, json!({ "limits": { "total_s": 3 } })),
        asks("next", &source("x[at] + x[at]"), json!({ "level": "tiny" })),
    ];
    let (told, code) = answers(&stage, "scale.toml --stdin", &lines(&requests));
    holds(&told[0], &json!({ "status": "harness_error", "verdict": "interrupted" }));
    assert_eq!((word(&told[1], "verdict"), code), ("pass", Some(0)), "{}", told[1]);
}

#[test]
fn errors_of_a_template_have_no_line() {
    let stage = stage();
    let text = "<% for i in range(3) %>\n// <{ i }>\n<% endfor %>\nextern \"C\" __global__ void scale(const float* x, \
                float* y, int n) {\n    int bad = <{ WORK }>;\n    int worse = ;\n}\n";
    let request = json!({ "id": 1, "candidate": { "kind": "template", "sources": [{ "content": text }] } });
    let (told, _) = answers(&stage, "scale.toml --stdin", &lines(&[request]));
    holds(&told[0], &json!({ "verdict": "compile_error", "feedback.hints.0.line": null }));
}

#[test]
fn answers_take_the_forms_of_other_programs() {
    let stage = stage();
    let requests = [
        asks("good", &source("x[at] + x[at]"), json!({ "level": "quick" })),
        asks("wrong", &source("x[at]"), json!({ "level": "quick" })),
    ];
    let told = |form: &str, expected: Value| {
        let output = run(&stage, &format!("scale.toml --stdin --emit {form}"), &lines(&requests));
        let text = String::from_utf8(output.stdout).unwrap();
        let all: Value = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
        holds(&all, &json!({ "0.id": "good", "1.id": "wrong" }));
        holds(&all, &expected);
    };
    let status = "traces.0.evaluation.status";
    told("trace", json!({ format!("0.{status}"): "PASSED", format!("1.{status}"): "INCORRECT_NUMERICAL" }));
    let expected = json!({
        "0.runtime": "> 0", "0.correctness": true, "1.runtime": -1.0, "1.compiled": true, "1.correctness": false,
    });
    told("kernelbench", expected);
    told("openevolve", json!({ "0.metrics.combined_score": "is number", "1.metrics": {} }));
    told("shinka", json!({ "0.correct.correct": true, "1.metrics.combined_score": null }));
}

#[test]
fn an_end_from_outside_keeps_the_answers_that_were_given() {
    let stage = stage();
    let mut child = evo(&stage, "scale.toml --serve").spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let good = asks(1, &source("x[at] + x[at]"), json!({ "level": "tiny" }));
    let hangs = asks(2, &source("1; while (at >= 0) at = at + 0 * (int)clock()"), json!({}));
    input.write_all(&lines(&[good.clone(), hangs])).unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut text = String::new();
    output.read_line(&mut text).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["id"], 1);
    send(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(5));
    // A reader that leaves ends the stream.
    let mut child = evo(&stage, "scale.toml --serve").spawn().unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    input.write_all(&lines(&[good])).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn two_streams_take_turns_on_one_folder() {
    let stage = stage();
    let request = |id: u64| asks(id, &source("x[at] + x[at]"), json!({ "level": "confirm" }));
    let children = [1, 2].map(|id| start(&stage, "scale.toml --serve", &lines(&[request(id)])));
    let mut numbers: Vec<u64> = children
        .into_iter()
        .map(|child| {
            let output = child.wait_with_output().unwrap();
            let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
            answer["acceptance"]["number"].as_u64().unwrap_or_else(|| panic!("{answer}"))
        })
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2]);
}
