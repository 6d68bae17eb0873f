//! `evo serve --mcp`: evo's commands as the tools of a Model Context Protocol server on stdin and stdout.
//!
//! A call of a tool is a command of evo's own in a process of its own, with `--json`: same gates, same records, same
//! object. The server only translates, so a tool cannot say anything that the command does not say. It reads messages
//! until stdin ends, answers what is quick at once, and each call from a thread of its own.
//!
//! Messages are JSON-RPC 2.0, in two eras of the protocol. Up to 2025-11-25 a session begins with `initialize`; from
//! 2026-07-28 on there is no session, and each request carries its version. A client of either era is served, request by
//! request.
//! Source: the specification at <https://github.com/modelcontextprotocol/modelcontextprotocol>.

mod tools;

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use evo_system::lock;
use serde_json::{Map, Value, json};

use crate::process::{CappedLog, Incoming, ProcessGroup, RunningChild};
use crate::request::read::{self, RequestLine};
use tools::{TOOLS, Tool, ToolCommand};

pub use tools::{ToolSettings, names};

/// Calls at once. Commands that use a device wait for each other anyway.
const CALLS_MAX: usize = 16;
/// Bytes of a line of a command: its object is the longest.
const LINE_MAX: usize = 64 << 20;
/// How often a call looks whether it is wanted any longer.
const PULSE: Duration = Duration::from_millis(100);
/// A command that has closed its stdout is given this long to leave by itself, so that its status is known.
const EXIT_GRACE: Duration = Duration::from_secs(2);
/// What a command gets to end in order once it is asked to: its records are whole at any moment.
const GRACE: Duration = Duration::from_secs(5);
/// Calls that run when stdin ends are asked to stop; this is how long the server waits for them.
const FAREWELL: Duration = Duration::from_secs(8);
const PROGRESS_EVERY: Duration = Duration::from_secs(2);

/// What a client's program may tell its model about evo.
const INSTRUCTIONS: &str = "evo finds the fastest CUDA kernel variant that still gives correct results. A space (a TOML file \
    or an embedded one such as gemm) names parameters, inputs, a reference and problems. Usual order: preflight, describe, \
    evaluate at level quick, read feedback, change one thing, evaluate again; compare or evaluate at level confirm to take \
    the incumbent's place; tune to search parameters. A gate that did not run is not_run and never a pass. Times come only \
    from evo; what a candidate claims decides nothing.";

/// Serves until `input` ends or nobody reads `output`.
pub fn serve(
    settings: ToolSettings,
    input: impl BufRead + Send + 'static,
    output: Box<dyn Write + Send>,
) -> io::Result<()> {
    let server = Arc::new(McpServer { settings, calls: RunningCalls::default(), output: Mutex::new(output) });
    let mut ended = Ok(());
    for line in read::read_ahead(input)? {
        ended = line.and_then(|(_, line)| server.take(line));
        if ended.is_err() {
            break;
        }
    }
    server.calls.stop_all(FAREWELL);
    ended.or_else(|error| if error.kind() == io::ErrorKind::BrokenPipe { Ok(()) } else { Err(error) })
}

struct McpServer {
    settings: ToolSettings,
    calls: RunningCalls,
    output: Mutex<Box<dyn Write + Send>>,
}

impl McpServer {
    fn send(&self, message: &Value) -> io::Result<()> {
        let mut output = lock(&self.output);
        // JSON escapes every line end inside a text.
        writeln!(output, "{message}")?;
        output.flush()
    }

    fn take(self: &Arc<McpServer>, line: RequestLine) -> io::Result<()> {
        let message = line
            .map_err(|bad| {
                let code = if bad.is_too_long { INVALID_REQUEST } else { PARSE_ERROR };
                (bad.id, WireError::new(code, bad.message))
            })
            .and_then(|text| message_of(&text));
        let (id, answered) = match message {
            Ok(McpMessage { id: Some(id), method, params }) => {
                let answered = Era::of(&params).and_then(|era| self.answer(&id, era, &method, &params));
                (id, answered)
            }
            // Notifications, and answers to requests, of which this server makes none.
            Ok(McpMessage { method, params, .. }) => {
                if let ("notifications/cancelled", Some(id)) = (method.as_str(), params.get("requestId")) {
                    self.calls.cancel(id);
                }
                return Ok(());
            }
            Err((id, error)) => (id, Err(error)),
        };
        match answered.transpose() {
            Some(answered) => self.send(&response(&id, answered)),
            None => Ok(()),
        }
    }

    /// The result of a request; nothing for a call, whose thread answers it.
    fn answer(
        self: &Arc<McpServer>,
        id: &Value,
        era: Era,
        method: &str,
        params: &Map<String, Value>,
    ) -> Result<Option<Value>, WireError> {
        Ok(Some(match method {
            "initialize" => {
                let version = params.get("protocolVersion").and_then(Value::as_str);
                json!({
                    "protocolVersion": session_version(version),
                    "capabilities": { "tools": {} },
                    "serverInfo": server_info(),
                    "instructions": INSTRUCTIONS,
                })
            }
            "ping" => json!({}),
            "server/discover" => era.lasting(json!({
                "supportedVersions": versions(),
                "capabilities": { "tools": {} },
                "instructions": INSTRUCTIONS,
            })),
            "tools/list" => {
                era.lasting(json!({ "tools": TOOLS.iter().map(Tool::listed).collect::<Vec<_>>() }))
            }
            "tools/call" => return self.begin_call(id, era, params).map(|()| None),
            _ => return Err(WireError::new(METHOD_NOT_FOUND, format!("there is no method `{method}`"))),
        }))
    }

    fn begin_call(
        self: &Arc<McpServer>,
        id: &Value,
        era: Era,
        params: &Map<String, Value>,
    ) -> Result<(), WireError> {
        let invalid = |text: String| WireError::new(INVALID_PARAMS, text);
        let Some(name) = params.get("name").and_then(Value::as_str) else {
            return Err(invalid("`name` has to be the name of a tool".to_string()));
        };
        let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
            let names: Vec<&str> = names().collect();
            return Err(invalid(format!("there is no tool `{name}`; there are {}", names.join(", "))));
        };
        let stop = self.calls.begin(id).map_err(|text| WireError::new(INVALID_REQUEST, text))?;
        // Mistakes in arguments are results, which a model reads and can mend; errors of the protocol are not shown to it.
        let command = tool.command(params.get("arguments"), &self.settings);
        let progress = CallProgress::of(params);
        let (server, owned_id) = (self.clone(), id.clone());
        let started = thread::Builder::new().name(format!("tool {name}")).spawn(move || {
            let result = match command {
                Err(text) => Some(failed(&text)),
                Ok(command) => server.run(&command, &stop, progress),
            };
            if let Some(result) = result {
                // A client that is gone hears nothing; the end of its stdin ends the server.
                let _ = server.send(&response(&owned_id, Ok(era.result(result))));
            }
            // Answered before it leaves the list, for whose end the server waits.
            server.calls.end(&owned_id);
        });
        started.map(drop).map_err(|error| {
            self.calls.end(id);
            WireError::new(INVALID_REQUEST, format!("no thread can be started: {error}"))
        })
    }

    /// Runs a command to its end. Absent where the call was asked to stop: such a call is not answered.
    fn run(
        &self,
        command: &ToolCommand,
        stop: &AtomicBool,
        mut progress: Option<CallProgress>,
    ) -> Option<Value> {
        let mut line = Command::new(&self.settings.program);
        line.args(&command.words);
        let log = CappedLog::of_end(16 << 10);
        let mut program = match RunningChild::start(line, Stdio::null(), ProcessGroup::default(), log) {
            Ok(program) => program.with_line_max(LINE_MAX),
            Err(error) => return Some(failed(&format!("evo cannot be started: {error}"))),
        };
        let (mut object, mut stopped_at) = (None, None::<Instant>);
        loop {
            match program.receive(Instant::now() + PULSE) {
                Incoming::Line(line) => match serde_json::from_slice::<Value>(&line) {
                    Ok(value) if value.get("schema").is_some() => object = Some(value),
                    Ok(event) => progress.iter_mut().for_each(|progress| progress.hear(&event)),
                    Err(_) => {}
                },
                Incoming::Nothing => {}
                Incoming::End | Incoming::Overlong => break,
            }
            if stop.load(Ordering::SeqCst) && stopped_at.is_none() {
                program.interrupt();
                stopped_at = Some(Instant::now());
            }
            if stopped_at.is_some_and(|since| since.elapsed() > GRACE) {
                break;
            }
            let heard = progress.as_mut().filter(|_| stopped_at.is_none());
            if let Some(message) = heard.and_then(CallProgress::message) {
                let _ = self.send(&message);
            }
        }
        let status = program.end(EXIT_GRACE);
        if stop.load(Ordering::SeqCst) {
            return None;
        }
        Some(object.map_or_else(
            || {
                let status = status.map_or_else(|| "it was killed".to_string(), |status| status.to_string());
                let log = program.log().text();
                failed(&format!("the command gave no answer ({status}): {}", log.trim()))
            },
            answered,
        ))
    }
}

fn answered(object: Value) -> Value {
    // A variant that fails is an answer. What has no answer is an error: that the program can mend the call.
    let is_error = object["error"].is_object()
        && !matches!(object["status"].as_str(), Some("not_run" | "noisy" | "fail"));
    let content = json!([{ "type": "text", "text": object.to_string() }]);
    json!({ "content": content, "isError": is_error, "structuredContent": object })
}

fn failed(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "isError": true })
}

/// The calls that are under way: each can be asked to stop, by its request's id or with all others.
#[derive(Default)]
struct RunningCalls {
    stops: Mutex<BTreeMap<String, Arc<AtomicBool>>>,
    ended: Condvar,
}

impl RunningCalls {
    fn begin(&self, id: &Value) -> Result<Arc<AtomicBool>, String> {
        let mut stops = lock(&self.stops);
        if stops.contains_key(&id.to_string()) {
            return Err(format!("a call with the id {id} is under way"));
        }
        if stops.len() >= CALLS_MAX {
            return Err(format!("{CALLS_MAX} calls are under way: wait for one of them"));
        }
        let stop = Arc::default();
        stops.insert(id.to_string(), Arc::clone(&stop));
        Ok(stop)
    }

    fn end(&self, id: &Value) {
        lock(&self.stops).remove(&id.to_string());
        self.ended.notify_all();
    }

    fn cancel(&self, id: &Value) {
        if let Some(stop) = lock(&self.stops).get(&id.to_string()) {
            stop.store(true, Ordering::SeqCst);
        }
    }

    /// Asks all calls to stop, and waits until they have, or for as long as `patience`.
    fn stop_all(&self, patience: Duration) {
        let stops = lock(&self.stops);
        stops.values().for_each(|stop| stop.store(true, Ordering::SeqCst));
        // A poisoned lock stays usable, as everywhere here: the list is whole after each change.
        let _ = self.ended.wait_timeout_while(stops, patience, |stops| !stops.is_empty());
    }
}

/// What a client hears of a call that takes long: the seconds that have passed, and where the work stands.
struct CallProgress {
    token: Value,
    began: Instant,
    told: Instant,
    evaluations: u64,
    best_ns: Option<f64>,
}

impl CallProgress {
    fn of(params: &Map<String, Value>) -> Option<CallProgress> {
        let token = params.get("_meta")?.get("progressToken").filter(|token| is_id(token))?.clone();
        let began = Instant::now();
        Some(CallProgress { token, began, told: began, evaluations: 0, best_ns: None })
    }

    fn hear(&mut self, event: &Value) {
        self.evaluations += u64::from(event["event"] == "finished");
        let best = event["evaluation"]["objective_ns"].as_f64().filter(|_| event["best"] == true);
        self.best_ns = best.or(self.best_ns);
    }

    /// The next message, where it is time for one.
    fn message(&mut self) -> Option<Value> {
        if self.told.elapsed() < PROGRESS_EVERY {
            return None;
        }
        self.told = Instant::now();
        let best = self.best_ns.map_or(String::new(), |best| format!(", best {:.2} µs", best / 1e3));
        let text = match self.evaluations {
            0 => "running".to_string(),
            count => format!("{count} evaluations{best}"),
        };
        // Progress has to grow with every message; seconds do.
        let seconds = self.began.elapsed().as_secs_f64();
        let params = json!({ "progressToken": self.token, "progress": seconds, "message": text });
        Some(json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }))
    }
}

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
/// The protocol's own: the request names a revision that is not served.
const UNSUPPORTED_VERSION: i64 = -32022;

/// Revisions whose requests each carry their version, the newest first.
const MODERN: &[&str] = &["2026-07-28"];
/// Revisions with sessions, the newest first. 2025-03-26 is left out: its clients may send batches.
const LEGACY: &[&str] = &["2025-11-25", "2025-06-18", "2024-11-05"];

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// How long a client may keep what does not change while the program runs, milliseconds.
const KEPT_MS: u64 = 3_600_000;

#[derive(Clone, Debug, PartialEq)]
struct McpMessage {
    /// Absent in a notification and, here, in an answer.
    id: Option<Value>,
    method: String,
    params: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq)]
struct WireError {
    code: i64,
    message: String,
    data: Option<Value>,
}

impl WireError {
    fn new(code: i64, message: impl Into<String>) -> WireError {
        WireError { code, message: message.into(), data: None }
    }
}

/// Reads a line. An error comes with the request's id, or null where it has none that can be told.
fn message_of(text: &str) -> Result<McpMessage, (Value, WireError)> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        (Value::Null, WireError::new(PARSE_ERROR, format!("the line is not JSON: {error}")))
    })?;
    let Value::Object(mut fields) = value else {
        let text = "a message is a JSON object; batches are not served";
        return Err((Value::Null, WireError::new(INVALID_REQUEST, text)));
    };
    let id = fields.remove("id");
    let wrong = |text: &str| {
        let id = id.clone().filter(is_id).unwrap_or_default();
        Err((id, WireError::new(INVALID_REQUEST, text)))
    };
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return wrong("`jsonrpc` has to be \"2.0\"");
    }
    let method = match fields.remove("method") {
        Some(Value::String(method)) => method,
        Some(_) => return wrong("`method` has to be a text"),
        None if fields.contains_key("result") || fields.contains_key("error") => {
            return Ok(McpMessage { id: None, method: String::new(), params: Map::new() });
        }
        None => return wrong("the message has no `method`"),
    };
    if id.as_ref().is_some_and(|id| !is_id(id)) {
        return wrong("`id` has to be a text or an integer");
    }
    let params = match fields.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return wrong("`params` has to be an object"),
    };
    Ok(McpMessage { id, method, params })
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

fn response(id: &Value, answered: Result<Value, WireError>) -> Value {
    match answered {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(WireError { code, message, data }) => {
            let mut error = json!({ "code": code, "message": message });
            if let Some(data) = data {
                error["data"] = data;
            }
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        }
    }
}

fn versions() -> Vec<&'static str> {
    [MODERN, LEGACY].concat()
}

/// The revision of a session whose client asks for one: that one, or the newest with sessions.
fn session_version(asked: Option<&str>) -> &'static str {
    LEGACY.iter().find(|version| Some(**version) == asked).unwrap_or(&LEGACY[0])
}

fn server_info() -> Value {
    json!({ "name": "evo", "title": "evo", "version": env!("CARGO_PKG_VERSION") })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Era {
    Legacy,
    Modern,
}

impl Era {
    fn of(params: &Map<String, Value>) -> Result<Era, WireError> {
        let meta = params.get("_meta").and_then(Value::as_object);
        let Some(version) = meta.and_then(|meta| meta.get(VERSION)) else { return Ok(Era::Legacy) };
        let Some(version) = version.as_str() else {
            return Err(WireError::new(INVALID_PARAMS, format!("`_meta.{VERSION}` has to be a text")));
        };
        if !MODERN.contains(&version) {
            let data = Some(json!({ "supported": versions(), "requested": version }));
            return Err(WireError {
                data,
                ..WireError::new(UNSUPPORTED_VERSION, "Unsupported protocol version")
            });
        }
        match meta.and_then(|meta| meta.get(CAPABILITIES)) {
            Some(Value::Object(_)) => Ok(Era::Modern),
            _ => Err(WireError::new(INVALID_PARAMS, format!("`_meta.{CAPABILITIES}` has to be an object"))),
        }
    }

    fn result(self, mut result: Value) -> Value {
        if self == Era::Modern {
            result["resultType"] = "complete".into();
            result["_meta"] = json!({ SERVER: server_info() });
        }
        result
    }

    /// The same for a result that stays the same while the program runs.
    fn lasting(self, mut result: Value) -> Value {
        if self == Era::Modern {
            result["ttlMs"] = KEPT_MS.into();
            result["cacheScope"] = "public".into();
        }
        self.result(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_room_are_stopped_by_their_id_and_leave_the_list() {
        let calls = RunningCalls::default();
        let (number, text) = (calls.begin(&1.into()).unwrap(), calls.begin(&"1".into()).unwrap());
        assert!(calls.begin(&1.into()).unwrap_err().contains("with the id 1"));
        calls.cancel(&1.into());
        calls.cancel(&"nobody".into());
        assert_eq!((number.load(Ordering::SeqCst), text.load(Ordering::SeqCst)), (true, false));
        calls.end(&1.into());
        (2..=CALLS_MAX).for_each(|id| drop(calls.begin(&id.into()).unwrap()));
        assert!(calls.begin(&"late".into()).unwrap_err().contains("wait for one"));
        calls.stop_all(Duration::from_millis(1));
        assert!(lock(&calls.stops).values().all(|stop| stop.load(Ordering::SeqCst)));
    }

    #[test]
    fn who_asks_hears_where_the_search_stands() {
        let of = |token: Value| {
            CallProgress::of(json!({ "_meta": { "progressToken": token } }).as_object().unwrap())
        };
        assert!(of(Value::Null).is_none() && CallProgress::of(&Map::new()).is_none());
        let mut progress = of(json!(4)).unwrap();
        let found = json!({ "event": "finished", "best": true, "evaluation": { "objective_ns": 1500.0 } });
        [found, json!({ "event": "finished", "best": false })].iter().for_each(|event| progress.hear(event));
        assert_eq!(progress.message(), None);
        progress.told -= PROGRESS_EVERY;
        let message = progress.message().unwrap();
        assert_eq!(message["params"]["message"], "2 evaluations, best 1.50 µs");
        assert_eq!((&message["params"]["progressToken"], progress.message()), (&json!(4), None));
    }

    #[test]
    fn messages_are_told_apart_and_what_is_none_is_answered_where_it_has_an_id() {
        let request = message_of(r#"{"jsonrpc": "2.0", "id": "a", "method": "ping"}"#).unwrap();
        assert_eq!((request.id, request.method.as_str()), (Some("a".into()), "ping"));
        let notification = message_of(r#"{"jsonrpc": "2.0", "method": "x", "params": {"a": 1}}"#).unwrap();
        assert_eq!((notification.id, &notification.params["a"]), (None, &1.into()));
        assert_eq!(message_of(r#"{"jsonrpc": "2.0", "id": 1, "result": {}}"#).unwrap().id, None);
        for (text, id, code) in [
            ("3", Value::Null, INVALID_REQUEST),
            (r#"{"id": 7, "method": "ping"}"#, 7.into(), INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#, Value::Null, INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}"#, Value::Null, INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}"#, 1.into(), INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": 1}"#, 1.into(), INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": 4}"#, 1.into(), INVALID_REQUEST),
        ] {
            let (told, error) = message_of(text).unwrap_err();
            assert_eq!((told, error.code), (id, code), "{text}");
        }
    }

    #[test]
    fn a_request_says_its_era_and_hears_which_are_served() {
        let of = |meta: Value| Era::of(json!({ "_meta": meta }).as_object().unwrap());
        assert_eq!(Era::of(&Map::new()), Ok(Era::Legacy));
        assert_eq!(of(json!({ "progressToken": 1 })), Ok(Era::Legacy));
        assert_eq!(of(json!({ VERSION: "2026-07-28", CAPABILITIES: {} })), Ok(Era::Modern));
        assert_eq!(of(json!({ VERSION: "2026-07-28" })).unwrap_err().code, INVALID_PARAMS);
        assert_eq!(of(json!({ VERSION: 3 })).unwrap_err().code, INVALID_PARAMS);
        assert_eq!([Some("2025-03-26"), None].map(session_version), ["2025-11-25"; 2]);
        assert_eq!(Era::Legacy.lasting(json!({ "tools": [] })), json!({ "tools": [] }));
        let modern = Era::Modern.lasting(json!({ "tools": [] }));
        assert_eq!([&modern["resultType"], &modern["cacheScope"]], ["complete", "public"]);
    }
}
