//! Requests in JSON instead of words and flags, a line each or a single one in a file: one device and its worker answer them
//! one after the other, and what a candidate does to the worker is its verdict and nobody else's. `judge` takes a request
//! from its task to its verdict, or says what may be known of its task, and `answer` makes the answer.
//!
//! An answer comes in time, whatever the candidate does. The lane ends in order when the time is over; a thread of its
//! own is for whatever keeps it from doing so.

pub mod answer;
mod judge;

use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evo_system::lock;
use serde_json::Value;

use crate::cli::evaluate::EvaluateArgs;
use crate::cli::{Answer, Call, CliError, ExitCode, Result, call, words};
use crate::journal::record::now;
use crate::regular;
use crate::request::emit::{EmitForm, emitted};
use crate::request::read::{self, REQUEST_MAX, RequestLine};
use answer::{AnswerHead, refused};
use judge::{Answered, RequestSession, out_of_time};

/// What an orderly end gets beyond the limit.
const GRACE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

/// Refuses flags that need requests where none are taken, and a candidate in words where they are.
pub fn check(arguments: &EvaluateArgs) -> Result<()> {
    let (one, requests) = (&arguments.one, &arguments.requests);
    let first =
        |given: &[(bool, &'static str)]| given.iter().find(|(is_given, _)| *is_given).map(|(_, what)| *what);
    if !requests.are_taken() {
        let alone = [
            (requests.quick, "--quick"),
            (requests.visibility.is_some(), "--visibility"),
            (requests.emit.is_some(), "--emit"),
        ];
        return match first(&alone) {
            Some(flag) => Err(CliError::usage(format!("`{flag}` is about requests, and none are taken"))
                .with_hint("add `--request FILE`, `--serve` or `--stdin`")),
            None => Ok(()),
        };
    }
    let beside = [
        (!words::named_space(&one.words).values.is_empty(), "values on the command line"),
        (one.candidate.is_given(), "`--config`, `--source` or `--launch`"),
        (arguments.against.is_some(), "`--against`"),
        (one.run.json && requests.request.is_none(), "`--json`"),
        (arguments.sanitize, "`--sanitize`, which is not served there,"),
        (arguments.profile, "`--profile`, for which a request has `feedback.profile`,"),
    ];
    match first(&beside) {
        Some(what) => Err(CliError::usage(format!("requests and {what} at once"))
            .with_hint("a request names its candidate and its baseline, and every answer is JSON")),
        None => Ok(()),
    }
}

/// The request of `--request`, or those on stdin until it ends or nobody reads the answers.
pub fn run(arguments: &EvaluateArgs, call: &Call) -> Result<Answer> {
    let failed = |error: io::Error| CliError::harness(format!("cannot serve: {error}"));
    let single = arguments.requests.request.as_deref().map(line_of).transpose()?;
    let mut session = RequestSession::begin(arguments)?;
    let writer = AnswerWriter::start(call, arguments.requests.emit, single.is_some()).map_err(failed)?;
    if let Some(line) = single {
        let answered = answered(&mut session, line, None, &writer);
        writer.answer(&answered).map_err(failed)?;
        // With `--json` too the answer is the one object; only an end without an answer has the usual one.
        call.settle(false);
        return Ok(Answer::from(answered.exit));
    }
    let incoming = read::read_ahead(BufReader::new(io::stdin())).map_err(failed)?;
    let mut next = None;
    while let Some(line) = next.take().or_else(|| incoming.recv().ok()) {
        let (number, line) =
            line.map_err(|error| CliError::harness(format!("cannot read stdin: {error}")))?;
        // The compilers would have nothing to do while the device judges.
        next = incoming.try_recv().ok();
        if let Some(Ok((_, Ok(text)))) = &next {
            session.compile_ahead(text);
        }
        let answered = answered(&mut session, line, Some(number), &writer);
        match writer.answer(&answered) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => break,
            written => written.map_err(failed)?,
        }
        if answered.exit == ExitCode::DeviceLost {
            let text = "the device is lost; requests that were not answered have no verdict";
            return Err(CliError::device(text));
        }
    }
    Ok(Answer::from(ExitCode::Done))
}

fn answered(
    session: &mut RequestSession<'_>,
    line: RequestLine,
    number: Option<u64>,
    writer: &AnswerWriter,
) -> Answered {
    match line.and_then(|text| read::request(&text)) {
        Err(error) => {
            let head = AnswerHead { id: error.id.clone(), line: number, tag: None };
            writer.begin(&head, session.arguments.time_limit);
            Answered { answer: refused(&error, head), kernel: String::new(), exit: ExitCode::Usage }
        }
        Ok(request) => {
            let head = AnswerHead { id: request.id.clone(), line: number, tag: request.tag.clone() };
            writer.begin(&head, session.bounds(&request).0);
            session.answer(&request, &head)
        }
    }
}

/// A request in a file or on stdin, of which no more is kept than one may have.
fn line_of(file: &Path) -> Result<RequestLine> {
    let unreadable = |error: io::Error| {
        CliError::bad_file(format!("cannot read the request `{}`: {error}", file.display()), file)
            .with_hint("name a regular file, or `-` for stdin")
    };
    let mut input: Box<dyn Read> = match file.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(regular::open(file).map_err(unreadable)?),
    };
    let mut kept = Vec::new();
    input.by_ref().take(REQUEST_MAX as u64 + 1).read_to_end(&mut kept).map_err(unreadable)?;
    let rest = io::copy(&mut input, &mut io::sink()).map_err(unreadable)?;
    let bytes = kept.len().saturating_add(usize::try_from(rest).unwrap_or(usize::MAX));
    Ok(read::whole(kept, bytes))
}

/// Writes each answer once: the one that judged it, or the watch.
#[derive(Clone)]
struct AnswerWriter {
    call: Call,
    emit: Option<EmitForm>,
    open: Arc<Mutex<Option<OpenRequest>>>,
    /// One answer is all there is: the process ends with it.
    is_single: bool,
}

struct OpenRequest {
    head: AnswerHead,
    limit: Duration,
    until: Instant,
}

impl AnswerWriter {
    fn start(call: &Call, emit: Option<EmitForm>, is_single: bool) -> io::Result<AnswerWriter> {
        let writer = AnswerWriter { call: call.clone(), emit, open: Arc::default(), is_single };
        let watch = writer.clone();
        std::thread::Builder::new().name("answers".into()).spawn(move || watch.watch())?;
        Ok(writer)
    }

    /// Says which request is being answered now, and by when.
    fn begin(&self, head: &AnswerHead, limit: Duration) {
        let until = Instant::now() + limit;
        *lock(&self.open) = Some(OpenRequest { head: head.clone(), limit, until });
    }

    /// Writes the answer, unless the watch has done so. An error means that nobody reads any more.
    fn answer(&self, answered: &Answered) -> io::Result<()> {
        match lock(&self.open).take() {
            Some(_) => self.write(&answered.answer, &answered.kernel),
            None => Ok(()),
        }
    }

    fn write(&self, answer: &Value, kernel: &str) -> io::Result<()> {
        match self.emit {
            Some(form) => {
                let object = emitted(form, answer, kernel, &now());
                self.call.line_now(&object.map_err(|error| io::Error::other(error.to_string()))?)
            }
            None => self.call.line_now(answer),
        }
    }

    fn watch(&self) {
        loop {
            std::thread::sleep(PAUSE);
            let late = lock(&self.open).take_if(|open| Instant::now() >= open.until + GRACE);
            let Some(late) = late else { continue };
            let written = self.write(&out_of_time(&late.head, late.limit), "unknown");
            if self.is_single {
                call::leave(if written.is_ok() { ExitCode::Done } else { ExitCode::Harness });
            }
        }
    }
}
