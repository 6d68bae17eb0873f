//! What a command hands over when it is done: how it ended and, with `--json`, the fields of its object.

use std::collections::BTreeMap;

use evo_protocol::envelope::EnvelopeStatus;
use evo_protocol::known::told;
use serde::Serialize;
use serde_json::{Value, json};

use super::{CliError, ExitCode};

#[derive(Debug)]
pub struct Answer {
    pub exit: ExitCode,
    pub status: EnvelopeStatus,
    /// Why the command did not do all that it was asked to do. It decides exit code and status.
    pub error: Option<CliError>,
    /// The text of a JSON object: the command's own fields.
    pub own: String,
    pub result: Option<Value>,
    pub allowed_not_run: Vec<String>,
    /// Why own fields are null, by dotted path.
    pub reasons: BTreeMap<String, String>,
}

impl Answer {
    /// An answer whose type has the command's own fields, and its gist as `result`; the status follows from the exit code.
    pub fn of(exit: ExitCode, answer: &impl Serialize) -> Answer {
        let (mut own, reasons) = told(answer);
        let result = own.as_object_mut().and_then(|fields| fields.shift_remove("result"));
        Answer { own: own.to_string(), result, reasons, ..Answer::from(exit) }
    }

    pub fn with(self, fields: &impl Serialize) -> Answer {
        let Answer { own, result, reasons, .. } = Answer::of(self.exit, fields);
        Answer { own, result, reasons, ..self }
    }

    /// An answer with its object's text, which may hold integers of any size.
    pub fn text(exit: ExitCode, own: String) -> Answer {
        Answer { own, ..Answer::from(exit) }
    }
}

impl From<ExitCode> for Answer {
    fn from(exit: ExitCode) -> Answer {
        Answer {
            exit,
            status: status_of(exit),
            error: None,
            own: json!({}).to_string(),
            result: None,
            allowed_not_run: Vec::new(),
            reasons: BTreeMap::new(),
        }
    }
}

pub fn status_of(exit: ExitCode) -> EnvelopeStatus {
    match exit {
        ExitCode::Done => EnvelopeStatus::Pass,
        ExitCode::Failed => EnvelopeStatus::Fail,
        ExitCode::Usage | ExitCode::DeviceLost | ExitCode::Harness => EnvelopeStatus::Error,
        ExitCode::Interrupted => EnvelopeStatus::Interrupted,
    }
}
