//! A stream of requests, a line each: one device and its worker answer them one after the other, and what a candidate
//! does to the worker is its verdict and nobody else's.

use std::io::{self, BufReader};
use std::sync::mpsc::{Receiver, sync_channel};

use super::judge::Answered;
use super::once::answered;
use super::ready::compile_ahead;
use super::session::RequestSession;
use super::watch::AnswerWriter;
use crate::cli::answer::Answer;
use crate::cli::call::Call;
use crate::cli::error::CliError;
use crate::cli::evaluate::EvaluateArgs;
use crate::cli::exit_code::ExitCode;
use crate::request::lines::{self, RequestLine};

/// Lines that are read before their turn.
const AHEAD: usize = 4;
const BUFFER: usize = 1 << 16;

type Incoming = io::Result<(u64, RequestLine)>;

/// Answers requests until stdin ends or nobody reads the answers.
pub fn run(arguments: &EvaluateArgs, call: &Call) -> Result<Answer, CliError> {
    let mut session = RequestSession::begin(arguments)?;
    let failed = |error: io::Error| CliError::harness(format!("cannot serve: {error}"));
    let writer = AnswerWriter::start(call, arguments.requests.emit, false).map_err(failed)?;
    let incoming = read_lines().map_err(failed)?;
    let mut next = None;
    loop {
        let Some(line) = next.take().or_else(|| incoming.recv().ok()) else { break };
        let (number, line) =
            line.map_err(|error| CliError::harness(format!("cannot read stdin: {error}")))?;
        // The compilers would have nothing to do while the device judges.
        next = incoming.try_recv().ok();
        if let Some(Ok((_, RequestLine::Text(text)))) = &next {
            compile_ahead(&session, text);
        }
        let Answered { answer, kernel, exit } = answered(&mut session, line, Some(number), &writer);
        match writer.answer(&answer, &kernel) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            written => written.map_err(failed)?,
        }
        if exit == ExitCode::DeviceLost {
            let text = "the device is lost; requests that were not answered have no verdict";
            return Err(CliError::device(text));
        }
    }
    Ok(Answer::from(ExitCode::Done))
}

/// Reads stdin in a thread of its own, so that the next request is there when its turn comes.
fn read_lines() -> io::Result<Receiver<Incoming>> {
    let (sender, receiver) = sync_channel(AHEAD);
    std::thread::Builder::new().name("requests".into()).spawn(move || {
        let mut input = BufReader::with_capacity(BUFFER, io::stdin());
        let mut number = 0;
        while let Some(line) = lines::next(&mut input, &mut number).transpose() {
            let is_end = line.is_err();
            if sender.send(line).is_err() || is_end {
                return;
            }
        }
    })?;
    Ok(receiver)
}
