//! `evo serve --mcp`: evo's commands as the tools of a Model Context Protocol server on stdin and stdout.
//!
//! A call of a tool is a command of evo's own in a process of its own, with `--json`: same gates, same records, same
//! object. The server only translates, so a tool cannot say anything that the command does not say. It reads messages
//! until stdin ends, answers what is quick at once, and each call from a thread of its own.
//! Source: the specification at <https://github.com/modelcontextprotocol/modelcontextprotocol>.

mod tools;
mod wire;

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
use crate::request::lines::{self, RequestLine};
use tools::{TOOLS, Tool, ToolCommand};
use wire::{Era, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, McpMessage, PARSE_ERROR, WireError};

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
/// How often a client hears of progress.
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
    for line in lines::read_ahead(input)? {
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
            .and_then(|text| wire::read(&text));
        let (id, answered) = match message {
            Ok(McpMessage::Request { id, method, params }) => {
                let answered = Era::of(&params).and_then(|era| self.answer(&id, era, &method, &params));
                (id, answered)
            }
            Ok(McpMessage::Notification { method, params }) => {
                if let ("notifications/cancelled", Some(id)) = (method.as_str(), params.get("requestId")) {
                    self.calls.cancel(id);
                }
                return Ok(());
            }
            Ok(McpMessage::Response) => return Ok(()),
            Err((id, error)) => (id, Err(error)),
        };
        match answered.transpose() {
            Some(answered) => self.send(&wire::response(&id, answered)),
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
                    "protocolVersion": wire::session_version(version),
                    "capabilities": { "tools": {} },
                    "serverInfo": wire::server_info(),
                    "instructions": INSTRUCTIONS,
                })
            }
            "ping" => json!({}),
            "server/discover" => era.lasting(json!({
                "supportedVersions": wire::versions(),
                "capabilities": { "tools": {} },
                "instructions": INSTRUCTIONS,
            })),
            "tools/list" => era.lasting(
                json!({ "tools": TOOLS.iter().map(|tool| tool.listed(&self.settings)).collect::<Vec<_>>() }),
            ),
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
                Ok(command) => server.run(tool, &command, &stop, progress),
            };
            if let Some(result) = result {
                // A client that is gone hears nothing; the end of its stdin ends the server.
                let _ = server.send(&wire::response(&owned_id, Ok(era.result(result))));
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
        tool: &Tool,
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
            |object| answered(tool, object),
        ))
    }
}

fn answered(tool: &Tool, object: Value) -> Value {
    // A variant that fails is an answer. What has no answer is an error: that the program can mend the call.
    let is_error = object["error"].is_object()
        && !matches!(object["status"].as_str(), Some("not_run" | "noisy" | "fail"));
    let content = json!([{ "type": "text", "text": object.to_string() }]);
    let mut result = json!({ "content": content, "isError": is_error });
    if tool.describes(&object) {
        result["structuredContent"] = object;
    }
    result
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
    stage: String,
}

impl CallProgress {
    fn of(params: &Map<String, Value>) -> Option<CallProgress> {
        let token = params.get("_meta")?.get("progressToken").filter(|token| wire::is_id(token))?.clone();
        let (began, stage) = (Instant::now(), "running".to_string());
        Some(CallProgress { token, began, told: began, evaluations: 0, best_ns: None, stage })
    }

    fn hear(&mut self, event: &Value) {
        match event["event"].as_str() {
            Some("finished") => {
                self.evaluations += 1;
                if event["best"] == true {
                    self.best_ns = event["evaluation"]["objective_ns"].as_f64().or(self.best_ns);
                }
                self.stage = "searching".to_string();
            }
            Some("confirming") => {
                self.stage = format!("confirming finalist {} of {}", event["finalist"], event["of"]);
            }
            _ => {}
        }
    }

    /// The next message, where it is time for one.
    fn message(&mut self) -> Option<Value> {
        if self.told.elapsed() < PROGRESS_EVERY {
            return None;
        }
        self.told = Instant::now();
        let mut text = self.stage.clone();
        if self.evaluations > 0 {
            text += &format!(", {} evaluations", self.evaluations);
        }
        if let Some(best) = self.best_ns {
            text += &format!(", best {:.2} µs", best / 1e3);
        }
        // Progress has to grow with every message; seconds do.
        let seconds = self.began.elapsed().as_secs_f64();
        let params = json!({ "progressToken": self.token, "progress": seconds, "message": text });
        Some(json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }))
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
        progress
            .hear(&json!({ "event": "finished", "best": true, "evaluation": { "objective_ns": 1500.0 } }));
        progress.hear(&json!({ "event": "finished", "best": false, "evaluation": {} }));
        progress.hear(&json!({ "event": "confirming", "finalist": 1, "of": 3 }));
        assert_eq!(progress.message(), None);
        progress.told -= PROGRESS_EVERY;
        let message = progress.message().unwrap();
        assert_eq!(message["params"]["message"], "confirming finalist 1 of 3, 2 evaluations, best 1.50 µs");
        assert_eq!((&message["params"]["progressToken"], progress.message()), (&json!(4), None));
    }
}
