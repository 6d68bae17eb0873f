//! An answer in time, whatever the candidate does. The lane ends in order when the time is over; this thread is for
//! whatever keeps it from doing so.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use evo_protocol::envelope::{EnvelopeError, ErrorCode};
use evo_protocol::verdict::VerdictKind;
use serde_json::Value;

use crate::cli::call::Call;
use crate::cli::exit_code::ExitCode;
use crate::cli::guard;
use crate::journal::record::now;
use crate::request::answer::{AnswerHead, without_verdict};
use crate::request::emit::{EmitForm, emitted};

/// What an orderly end gets beyond the limit.
const GRACE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);

/// Writes each answer once: the one that judged it, or the watch.
#[derive(Clone)]
pub struct AnswerWriter {
    call: Call,
    emit: Option<EmitForm>,
    open: Arc<Mutex<Option<OpenRequest>>>,
    /// One answer is all there is: the process ends with it.
    is_single: bool,
}

/// The request that is being answered.
struct OpenRequest {
    head: AnswerHead,
    limit: Duration,
    until: Instant,
}

impl AnswerWriter {
    /// Starts the watch.
    pub fn start(call: &Call, emit: Option<EmitForm>, is_single: bool) -> io::Result<AnswerWriter> {
        let writer = AnswerWriter { call: call.clone(), emit, open: Arc::default(), is_single };
        let own = writer.clone();
        std::thread::Builder::new().name("answers".into()).spawn(move || own.watch())?;
        Ok(writer)
    }

    /// Says which request is being answered now, and by when.
    pub fn begin(&self, head: &AnswerHead, limit: Duration) {
        let until = Instant::now() + limit;
        *self.lock() = Some(OpenRequest { head: head.clone(), limit, until });
    }

    /// Writes the answer, unless the watch has done so. An error means that nobody reads any more.
    pub fn answer(&self, answer: &Value, kernel: &str) -> io::Result<()> {
        match self.lock().take() {
            Some(_) => self.write(answer, kernel),
            None => Ok(()),
        }
    }

    /// Writes an answer to what was never begun.
    ///
    /// # Errors
    /// As `answer`.
    pub fn write(&self, answer: &Value, kernel: &str) -> io::Result<()> {
        match self.emit {
            Some(form) => self.call.line_now(&emitted(form, answer, kernel, &now())),
            None => self.call.line_now(answer),
        }
    }

    fn watch(&self) {
        loop {
            std::thread::sleep(PAUSE);
            let mut open = self.lock();
            let Some(late) = open.take_if(|own| Instant::now() >= own.until + GRACE) else { continue };
            drop(open);
            let answer = out_of_time(&late.head, late.limit);
            let written = self.write(&answer, "unknown");
            if self.is_single {
                guard::leave(if written.is_ok() { ExitCode::Done } else { ExitCode::Harness });
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<OpenRequest>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer where the time was over before there was a verdict.
pub fn out_of_time(head: &AnswerHead, limit: Duration) -> Value {
    let error = EnvelopeError {
        code: ErrorCode::TimedOut,
        message: format!("the limit of {} s for the whole request is used up", limit.as_secs_f64()),
        hint: Some("allow more with `limits.total_s` and `--time-limit`".into()),
        place: None,
    };
    without_verdict(head, "harness_error", Some(VerdictKind::Interrupted), &error)
}
