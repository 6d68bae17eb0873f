//! `evo mcp`: the protocol line by line, and a whole conversation with the official client library.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::processes::wait;
use crate::support::stage::Stage;
use crate::{python, support};

/// The official client library, as it was when this was written.
const CLIENT: &str = "mcp==2.3.0";

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

fn stage() -> Stage {
    Stage::of("examples/agent_loop")
}

struct ServedProcess {
    process: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Value>,
}

impl ServedProcess {
    fn start(folder: &Path) -> ServedProcess {
        let mut command = support::evo(folder, "serve --mcp --device host --out kept");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in stdout.lines() {
                let value = serde_json::from_str(&line.unwrap()).expect("each line is a message");
                if sender.send(value).is_err() {
                    return;
                }
            }
        });
        let stdin = process.stdin.take();
        ServedProcess { process, stdin, lines }
    }

    fn send(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn ask(&mut self, message: Value) -> Value {
        self.send(&message.to_string());
        self.next()
    }

    fn next(&self) -> Value {
        self.lines.recv_timeout(PATIENCE).expect("an answer")
    }

    /// Closes stdin: the exit code, once it has left.
    fn leave(mut self) -> Option<i32> {
        drop(self.stdin.take());
        self.process.wait().unwrap().code()
    }
}

fn request(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

fn call(id: u64, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({ "name": tool, "arguments": arguments }))
}

#[test]
fn a_session_begins_with_its_revision_and_ends_with_stdin() {
    let stage = stage();
    let mut server = ServedProcess::start(stage.path());
    let asked = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t" } });
    let begun = server.ask(request(1, "initialize", asked));
    assert_eq!(begun["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(begun["result"]["serverInfo"]["name"], "evo");
    server.send(r#"{"jsonrpc": "2.0", "method": "notifications/initialized"}"#);
    assert_eq!(server.ask(request(2, "ping", json!({})))["result"], json!({}));
    let listed = server.ask(request(3, "tools/list", json!({})));
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool["name"] == "evaluate"), "{listed}");
    assert!(listed["result"].get("resultType").is_none());
    assert_eq!(server.leave(), Some(0));
    let status = support::evo(stage.path(), "serve --mcp rows.toml").stdin(Stdio::null()).status();
    assert_eq!(status.unwrap().code(), Some(2), "the client names the space");
}

#[test]
fn requests_that_carry_their_revision_need_no_session() {
    let stage = stage();
    let mut server = ServedProcess::start(stage.path());
    let meta = |version: &str| {
        json!({ "_meta": {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        } })
    };
    let found = server.ask(request(1, "server/discover", meta("2026-07-28")));
    assert_eq!(found["result"]["resultType"], "complete");
    assert_eq!(found["result"]["supportedVersions"][0], "2026-07-28");
    let other = &server.ask(request(2, "tools/list", meta("1999-01-01")))["error"];
    assert_eq!(other["code"], -32022);
    assert_eq!([&other["data"]["requested"], &other["data"]["supported"][0]], ["1999-01-01", "2026-07-28"]);
    assert_eq!(server.leave(), Some(0));
}

#[test]
fn whatever_comes_in_is_answered_and_the_server_goes_on() {
    let stage = stage();
    let mut server = ServedProcess::start(stage.path());
    let code = |server: &mut ServedProcess, line: &str| {
        server.send(line);
        let answer = server.next();
        assert!(line.contains("\"id\"") || answer["id"].is_null(), "{answer}");
        answer["error"]["code"].as_i64()
    };
    assert_eq!(code(&mut server, "{"), Some(-32700));
    assert_eq!(code(&mut server, "[]"), Some(-32600));
    assert_eq!(code(&mut server, &"x".repeat(2 << 20)), Some(-32600));
    assert_eq!(code(&mut server, r#"{"jsonrpc": "2.0", "id": 1, "method": "nothing"}"#), Some(-32601));
    assert_eq!(code(&mut server, &call(2, "nothing", json!({})).to_string()), Some(-32602));
    assert_eq!(code(&mut server, &request(3, "tools/call", json!({ "name": 7 })).to_string()), Some(-32602));
    // Answers, and cancellations of what is not there, are not answered.
    server.send(r#"{"jsonrpc": "2.0", "id": 1, "result": {}}"#);
    server
        .send(r#"{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "none"}}"#);
    let mistake = server.ask(call(4, "describe", json!({ "spaec": "rows.toml" })));
    assert_eq!(mistake["result"]["isError"], true);
    assert_eq!(mistake["result"]["content"][0]["text"], "unknown argument `spaec`: did you mean `space`?");
    assert_eq!(server.leave(), Some(0));
}

#[test]
fn a_program_names_no_space_outside_of_the_folder() {
    let stage = stage();
    let below = stage.path().join("below");
    fs::create_dir(&below).unwrap();
    let mut server = ServedProcess::start(&below);
    for (id, space) in ["../rows.toml", "/etc/passwd", "--help"].into_iter().enumerate() {
        let refused = server.ask(call(id as u64, "evaluate", json!({ "space": space })));
        assert_eq!(refused["result"]["isError"], true, "{refused}");
        assert!(refused["result"]["content"][0]["text"].as_str().unwrap().contains("below this folder"));
    }
    assert_eq!(server.leave(), Some(0));
}

#[test]
fn a_cancelled_call_is_not_answered_and_leaves_no_process() {
    let stage = stage();
    let mut server = ServedProcess::start(stage.path());
    let tune = json!({ "name": "tune", "arguments": { "space": "rows.toml", "budget": "10m" }, "_meta": { "progressToken": "p" } });
    let heard = server.ask(request(1, "tools/call", tune));
    assert_eq!(heard["method"], "notifications/progress", "{heard}");
    let journal = || fs::read_dir(stage.path().join("kept")).into_iter().flatten().count();
    // A busy machine tells of its progress long before there is a study, which is kept.
    wait("a study", || journal() > 0);
    server.send(r#"{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}"#);
    // Messages that were under way may still come, an answer to the call may not.
    server.send(&request(2, "ping", json!({})).to_string());
    while server.next()["id"] != 2 {}
    assert!(journal() > 0, "the study is kept");
    assert_eq!(server.leave(), Some(0));
}

#[track_caller]
fn converse(mode: &str) {
    let Some(library) = python::peer(CLIENT) else { return };
    let stage = stage();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/mcp/client.py");
    let output = Command::new("python3")
        .arg(script)
        .arg(env!("CARGO_BIN_EXE_evo"))
        .arg(stage.path())
        .arg(mode)
        .env("PYTHONPATH", library)
        .env("EVO_CACHE_DIR", support::cache())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let expected = [
        "tools preflight describe render compile evaluate compare tune profile leaderboard summary explain",
        "explain False hang",
        "good False pass tiny",
        "wrong False wrong_answer",
        "mistake True unknown argument `spaec`: did you mean `space`?",
        "progress grows True",
    ];
    for line in expected {
        assert!(said.lines().any(|own| own == line), "no line `{line}` in\n{said}");
    }
    assert!(said.contains("describe False ") && said.contains("missing True "), "{said}");
}

#[test]
fn the_official_client_library_understands_a_session() {
    converse("legacy");
}

#[test]
fn the_official_client_library_understands_requests_without_one() {
    converse("2026-07-28");
}
