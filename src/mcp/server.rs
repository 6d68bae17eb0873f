//! The server: reads messages until stdin ends, answers what is quick at once, and each call of a tool from a thread of
//! its own.

use std::io::{self, BufRead, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::arguments::GivenArguments;
use super::calls::RunningCalls;
use super::era::{self, Era};
use super::progress::CallProgress;
use super::run;
use super::tool::{McpTool, ToolSettings};
use super::tools::{self, TOOLS};
use super::wire::{
    self, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, McpMessage, PARSE_ERROR, WireError,
};
use crate::request::lines::{self, RequestLine};

/// Calls that run when stdin ends are asked to stop; this is how long the server waits for them.
const FAREWELL: Duration = Duration::from_secs(8);

/// What a client's program may tell its model about evo.
const INSTRUCTIONS: &str = "evo finds the fastest CUDA kernel variant that still gives correct results. A space (a TOML file \
    or an embedded one such as gemm) names parameters, inputs, a reference and problems. Usual order: preflight, describe, \
    evaluate at level quick, read feedback, change one thing, evaluate again; compare or evaluate at level confirm to take \
    the incumbent's place; tune to search parameters. A gate that did not run is not_run and never a pass. Times come only \
    from evo; what a candidate claims decides nothing.";

/// stdout, a message a line.
#[derive(Clone)]
struct Wire(Arc<Mutex<Box<dyn Write + Send>>>);

impl Wire {
    fn send(&self, message: &Value) -> io::Result<()> {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // JSON escapes every line end inside a text.
        writeln!(out, "{message}")?;
        out.flush()
    }
}

/// Serves until `input` ends or nobody reads `output`.
///
/// # Errors
/// `input` cannot be read, or `output` cannot be written.
pub fn serve(
    settings: &ToolSettings,
    mut input: impl BufRead,
    output: Box<dyn Write + Send>,
) -> io::Result<()> {
    let server = McpServer {
        settings: settings.clone(),
        calls: Arc::new(RunningCalls::default()),
        wire: Wire(Arc::new(Mutex::new(output))),
    };
    let mut number = 0;
    let ended = loop {
        let line = match lines::next(&mut input, &mut number) {
            Ok(Some((_, line))) => line,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        match server.take(line) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break Ok(()),
            Err(error) => break Err(error),
            Ok(()) => {}
        }
    };
    server.calls.stop_all(FAREWELL);
    ended
}

struct McpServer {
    settings: ToolSettings,
    calls: Arc<RunningCalls>,
    wire: Wire,
}

impl McpServer {
    fn take(&self, line: RequestLine) -> io::Result<()> {
        let text = match line {
            RequestLine::Text(text) => text,
            RequestLine::TooLong { bytes, id } => {
                let most = lines::REQUEST_MAX;
                let error = WireError::new(
                    INVALID_REQUEST,
                    format!("the line has {bytes} bytes, and at most {most} are read"),
                );
                return self.wire.send(&wire::failure(&id, error));
            }
            RequestLine::NotText { at, id } => {
                let error = WireError::new(PARSE_ERROR, format!("the line is not UTF-8 from byte {at} on"));
                return self.wire.send(&wire::failure(&id, error));
            }
        };
        match wire::read(&text) {
            Ok(McpMessage::Request { id, method, params }) => self.answer(id, &method, params),
            Ok(McpMessage::Notification { method, params }) => {
                if method == "notifications/cancelled"
                    && let Some(id) = params.get("requestId")
                {
                    self.calls.cancel(id);
                }
                Ok(())
            }
            Ok(McpMessage::Response) => Ok(()),
            Err((id, error)) => self.wire.send(&wire::failure(&id, error)),
        }
    }

    fn answer(&self, id: Value, method: &str, params: Map<String, Value>) -> io::Result<()> {
        let answered = era::of(&params).and_then(|era| match method {
            "initialize" => Ok(Some(initialized(&params))),
            "ping" => Ok(Some(json!({}))),
            "server/discover" => Ok(Some(discovered(era))),
            "tools/list" => Ok(Some(era.lasting(listed()))),
            "tools/call" => self.call(&id, era, &params).map(|()| None),
            _ => Err(WireError::new(METHOD_NOT_FOUND, format!("there is no method `{method}`"))),
        });
        match answered {
            Ok(Some(result)) => self.wire.send(&wire::result(&id, result)),
            Ok(None) => Ok(()),
            Err(error) => self.wire.send(&wire::failure(&id, error)),
        }
    }

    /// Begins a call of a tool; its thread answers it.
    fn call(&self, id: &Value, era: Era, params: &Map<String, Value>) -> Result<(), WireError> {
        let invalid = |text: String| WireError::new(INVALID_PARAMS, text);
        let Some(name) = params.get("name").and_then(Value::as_str) else {
            return Err(invalid("`name` has to be the name of a tool".to_string()));
        };
        let Some(tool) = TOOLS.iter().find(|tool| tool.name == name) else {
            let names: Vec<&str> = tools::names().collect();
            return Err(invalid(format!("there is no tool `{name}`; there are {}", names.join(", "))));
        };
        let running = self.calls.begin(id).map_err(|text| WireError::new(INVALID_REQUEST, text))?;
        // Mistakes in arguments are results, which a model reads and can mend; errors of the protocol are not shown to it.
        let command = GivenArguments::read(params.get("arguments"), tool.fields)
            .and_then(|given| (tool.command)(&given, &self.settings));
        let progress = CallProgress::of(params);
        let (wire, settings, id, output) =
            (self.wire.clone(), self.settings.clone(), id.clone(), tool.output);
        let thread = thread::Builder::new().name(format!("tool {name}"));
        let started = thread.spawn(move || {
            // A client that is gone hears nothing; the end of its stdin ends the server.
            let tell = |message: &Value| drop(wire.send(message));
            let result = match command {
                Err(text) => Some(run::failed(&text)),
                Ok(command) => run::run(&settings, &command, output, &running, progress, &tell),
            };
            if let Some(result) = result {
                tell(&wire::result(&id, era.result(result)));
            }
            // Answered before it leaves the list, for whose end the server waits.
            drop(running);
        });
        let failed = |error| WireError::new(INVALID_REQUEST, format!("no thread can be started: {error}"));
        started.map(drop).map_err(failed)
    }
}

fn listed() -> Value {
    json!({ "tools": TOOLS.iter().map(McpTool::listed).collect::<Vec<_>>() })
}

fn initialized(params: &Map<String, Value>) -> Value {
    json!({
        "protocolVersion": era::of_session(params.get("protocolVersion").and_then(Value::as_str)),
        "capabilities": { "tools": {} },
        "serverInfo": era::server_info(),
        "instructions": INSTRUCTIONS,
    })
}

fn discovered(era: Era) -> Value {
    era.lasting(json!({
        "supportedVersions": era::supported().collect::<Vec<_>>(),
        "capabilities": { "tools": {} },
        "instructions": INSTRUCTIONS,
    }))
}
