//! A call of a tool: its command, run to its end in a process of its own.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::calls::RunningCall;
use super::progress::CallProgress;
use super::tool::{ToolCommand, ToolOutput, ToolSettings};
use crate::process::{FollowedLine, FollowedProgram};

/// Bytes of a line of a command: its object is the longest.
const LINE_MAX: usize = 64 << 20;
/// How often a call looks whether it is wanted any longer.
const PULSE: Duration = Duration::from_millis(100);
/// What a command gets to end in order once it is asked to: its records are whole at any moment.
const GRACE: Duration = Duration::from_secs(5);

/// Runs a command. Absent where the call was asked to stop: such a call is not answered.
pub fn run(
    settings: &ToolSettings,
    command: &ToolCommand,
    output: ToolOutput,
    call: &RunningCall,
    mut progress: Option<CallProgress>,
    tell: &dyn Fn(&Value),
) -> Option<Value> {
    let mut line = Command::new(&settings.program);
    line.args(&command.words);
    let mut program = match FollowedProgram::start(line, LINE_MAX) {
        Ok(program) => program,
        Err(error) => return Some(failed(&format!("evo cannot be started: {error}"))),
    };
    let (mut object, mut asked) = (None, None::<Instant>);
    loop {
        match program.next(PULSE) {
            FollowedLine::Line(line) => match serde_json::from_slice::<Value>(&line) {
                Ok(own) if own.get("schema").is_some() => object = Some(own),
                Ok(event) => progress.iter_mut().for_each(|progress| progress.hear(&event)),
                Err(_) => {}
            },
            FollowedLine::Nothing => {}
            FollowedLine::End | FollowedLine::Overlong => break,
        }
        if call.is_stopped() && asked.is_none() {
            program.interrupt();
            asked = Some(Instant::now());
        }
        if asked.is_some_and(|asked| asked.elapsed() > GRACE) {
            break;
        }
        if let Some(message) = progress.as_mut().filter(|_| asked.is_none()).and_then(CallProgress::message) {
            tell(&message);
        }
    }
    let status = program.end();
    if call.is_stopped() {
        return None;
    }
    Some(match object {
        Some(object) => answered(object, output),
        None => {
            let status = status.map_or_else(|| "it was killed".to_string(), |status| status.to_string());
            failed(&format!("the command gave no answer ({status}): {}", program.log().text().trim()))
        }
    })
}

/// The result of a call whose command printed its object.
fn answered(object: Value, output: ToolOutput) -> Value {
    let text = object.to_string();
    let error = object.get("error").filter(|error| error.is_object());
    // A variant that fails is an answer. What has no answer is an error: that the program can mend the call.
    let is_error =
        error.is_some() && !matches!(object["status"].as_str(), Some("not_run" | "noisy" | "fail"));
    let mut result = json!({ "content": [{ "type": "text", "text": text }], "isError": is_error });
    if output.describes(&object) {
        result["structuredContent"] = object;
    }
    result
}

/// The result of a call that did not come to an object.
pub fn failed(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "isError": true })
}
