//! One request, in a file or on stdin.

use std::io::{self, Read};
use std::path::Path;

use evo_protocol::envelope::ErrorPlace;
use serde_json::Value;

use super::judge::{self, Answered};
use super::session::RequestSession;
use super::watch::AnswerWriter;
use crate::cli::answer::Answer;
use crate::cli::call::Call;
use crate::cli::error::CliError;
use crate::cli::evaluate::EvaluateArgs;
use crate::cli::exit_code::ExitCode;
use crate::regular;
use crate::request::answer::{AnswerHead, refused};
use crate::request::ask::RequestError;
use crate::request::lines::{REQUEST_MAX, RequestLine, whole};
use crate::request::read;

/// Answers the request in `file`, or on stdin for `-`.
pub fn run(arguments: &EvaluateArgs, file: &Path, call: &Call) -> Result<Answer, CliError> {
    let line = bytes(file)?;
    let mut session = RequestSession::begin(arguments)?;
    let failed = |error: io::Error| CliError::harness(format!("cannot answer: {error}"));
    let writer = AnswerWriter::start(call, arguments.requests.emit, true).map_err(failed)?;
    let Answered { answer, kernel, exit } = answered(&mut session, line, None, &writer);
    writer.answer(&answer, &kernel).map_err(failed)?;
    // With `--json` too the answer is the one object; only an end without an answer has the usual one.
    call.settle(false);
    Ok(Answer::from(exit))
}

/// The answer to a line of a stream or a whole file.
pub fn answered(
    session: &mut RequestSession<'_>,
    line: RequestLine,
    number: Option<u64>,
    writer: &AnswerWriter,
) -> Answered {
    let most = session.arguments.time_limit;
    let bad = |error: RequestError| {
        let mut answer = refused(&error, number);
        answer["message"] = answer["error"]["message"].clone();
        writer.begin(&AnswerHead { id: error.id, line: number, tag: None }, most);
        Answered { answer, kernel: String::new(), exit: ExitCode::Usage }
    };
    let mistake = |id: Value, message: String, hint: &str| RequestError {
        id,
        message,
        hint: Some(hint.to_string()),
        place: None,
        visibility: None,
    };
    let text = match line {
        RequestLine::Text(text) => text,
        RequestLine::TooLong { bytes, id } => {
            let message = format!("the request has {bytes} bytes, and at most {REQUEST_MAX} are read");
            return bad(mistake(id, message, "a request holds one source"));
        }
        RequestLine::NotText { at, id } => {
            let message = format!("the request is not UTF-8 from byte {at} on");
            return bad(mistake(id, message, "JSON is a text in UTF-8"));
        }
    };
    match read::request(&text) {
        Err(error) => bad(*error),
        Ok(request) => {
            let head = AnswerHead { id: request.id.clone(), line: number, tag: request.tag.clone() };
            let (limit, _) = session.bounds(&request);
            writer.begin(&head, limit);
            judge::answer(session, &request, &head)
        }
    }
}

/// The bytes of a request, no more than one may have.
fn bytes(file: &Path) -> Result<RequestLine, CliError> {
    let unreadable = |error: io::Error| {
        let place = ErrorPlace { file: file.display().to_string(), line: None, column: None };
        CliError::usage(format!("cannot read the request `{}`: {error}", file.display()))
            .with_code(evo_protocol::envelope::ErrorCode::BadFile)
            .with_hint("name a regular file, or `-` for stdin")
            .at(place)
    };
    let (mut kept, mut rest) = (Vec::new(), 0);
    let mut input: Box<dyn Read> = match file.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(regular::open(file).map_err(unreadable)?),
    };
    let most = REQUEST_MAX as u64 + 1;
    input.by_ref().take(most).read_to_end(&mut kept).map_err(unreadable)?;
    if kept.len() > REQUEST_MAX {
        rest = io::copy(&mut input, &mut io::sink()).map_err(unreadable)?;
    }
    let bytes = kept.len() + usize::try_from(rest).unwrap_or(usize::MAX - kept.len());
    Ok(whole(kept, bytes))
}
