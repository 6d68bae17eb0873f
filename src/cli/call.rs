//! One call of a command: what is known of it, its stdout, its end, and what it hands over when it is done. Each thread that
//! may end the call holds one: signals and the limit of the whole command end it from outside. Either leaves the call's one
//! object, and no worker: the end of this process ends the processes that it started.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evo_protocol::envelope::{CommandEnvelope, EnvelopeStatus, LimitName};
use evo_protocol::known::told;
use evo_protocol::schema;
use evo_space::text::{printable, quote};
use evo_system::lock;
use serde::Serialize;
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::error::CliErrorKind;
use super::{CliError, ExitCode, Result, output};
use crate::process::{is_ignored, signal_name};
use crate::report::envelope;

/// A watching thread waits this long for another one that writes; a reader that does not read must not hold up an end.
const WRITER_PATIENCE: Duration = Duration::from_secs(2);

/// One call of a command. Clones are the same call.
#[derive(Clone, Debug)]
pub struct Call(Arc<CallState>);

#[derive(Debug)]
struct CallState {
    began: Instant,
    /// As the words look at first, and then as the command line says.
    is_json: AtomicBool,
    /// Of the command line, behind the program's name.
    words: Vec<String>,
    /// As much of its object as is known.
    facts: Mutex<CommandEnvelope>,
    /// What the object of a call that is cut off has all the same.
    so_far: Mutex<Option<Answer>>,
    out: Mutex<JsonOut>,
    /// The engine watches for signals itself, so that a sweep ends in order.
    is_watched: AtomicBool,
}

impl Call {
    /// A call that begins now. `words` are those of the command line behind the program's name.
    pub fn begin(command: &str, words: &[String], is_json: bool) -> Call {
        let repro = line(words.iter().map(String::as_str));
        let facts = CommandEnvelope { schema: format!("evo.{command}"), repro, ..CommandEnvelope::default() };
        Call(Arc::new(CallState {
            began: Instant::now(),
            is_json: AtomicBool::new(is_json),
            words: words.to_vec(),
            facts: Mutex::new(facts),
            so_far: Mutex::default(),
            out: Mutex::new(JsonOut::new()),
            is_watched: AtomicBool::new(false),
        }))
    }

    pub fn is_json(&self) -> bool {
        self.0.is_json.load(Ordering::SeqCst)
    }

    pub fn settle(&self, is_json: bool) {
        self.0.is_json.store(is_json, Ordering::SeqCst);
    }

    pub fn know(&self, change: impl FnOnce(&mut CommandEnvelope)) {
        change(&mut lock(&self.0.facts));
    }

    pub fn facts(&self) -> CommandEnvelope {
        lock(&self.0.facts).clone()
    }

    pub fn know_so_far(&self, answer: Answer) {
        *lock(&self.0.so_far) = Some(answer);
    }

    pub fn hit(&self, limit: LimitName) {
        self.know(|facts| {
            if let Some(limits) = &mut facts.limits {
                limits.hit = Some(limit);
            }
        });
    }

    /// The command line that repeats the call, with what evo chose where the user left it open: the device, and the
    /// seed that was drawn.
    pub fn chose(&self, device: Option<&str>, seed: u64) -> String {
        let words: Vec<&str> = self.0.words.iter().map(String::as_str).collect();
        // Behind `--` nothing is an option.
        let (options, rest) =
            words.split_at(words.iter().position(|word| *word == "--").unwrap_or(words.len()));
        let is_given = |name: &str, word: &str| {
            word.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        };
        let mut kept = options.to_vec();
        if device.is_some() {
            if let Some(at) = kept.windows(2).position(|pair| pair == ["--device", "auto"]) {
                kept.drain(at..at + 2);
            }
            kept.retain(|word| *word != "--device=auto");
        }
        let is_left_open = |name: &str| !kept.iter().any(|word| is_given(name, word));
        let device = device.filter(|_| is_left_open("--device")).map(|device| ["--device", device]);
        let drawn = seed.to_string();
        let seed = is_left_open("--seed").then_some(["--seed", drawn.as_str()]);
        kept.extend(device.into_iter().chain(seed).flatten());
        let repro = line(kept.into_iter().chain(rest.iter().copied()));
        self.know(|facts| facts.repro.clone_from(&repro));
        repro
    }

    /// Data for people; with `--json` the call's object has it.
    pub fn show(&self, text: &str) -> Result<()> {
        if self.is_json() { Ok(()) } else { output::stdout(text) }
    }

    pub fn line(&self, value: &Value) -> io::Result<()> {
        self.write(format!("{}\n", printable(&value.to_string())).as_bytes())
    }

    /// The same, and nothing is held back.
    pub fn line_now(&self, value: &Value) -> io::Result<()> {
        let mut out = lock(&self.0.out);
        out.write(format!("{}\n", printable(&value.to_string())).as_bytes())?;
        out.flush()
    }

    pub fn write(&self, text: &[u8]) -> io::Result<()> {
        lock(&self.0.out).write(text)
    }

    /// Leaves signals to somebody else for as long as `true` holds.
    pub fn leave_signals(&self, to_others: bool) {
        self.0.is_watched.store(to_others, Ordering::SeqCst);
    }

    pub fn is_watched(&self) -> bool {
        self.0.is_watched.load(Ordering::SeqCst)
    }

    /// Runs a command. A panic becomes an error, so that it leaves an object as every other end does.
    pub fn run(&self, command: impl FnOnce() -> Result<Answer>) -> Result<Answer> {
        // Nothing that the command has half changed is looked at afterwards but this call, whose locks bear it.
        panic::catch_unwind(AssertUnwindSafe(command)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            Err(CliError::harness(format!("evo panicked: {text}"))
                .with_hint("this is a bug in evo: please report it with the command line and the text above"))
        })
    }

    /// Tells programs how the command ended; people have been told.
    pub fn finish_quietly(&self, error: CliError) -> ExitCode {
        self.end(&mut lock(&self.0.out), Answer::failed(error))
    }

    /// Tells people and programs how the command ended; its exit code.
    pub fn finish(&self, result: Result<Answer>) -> ExitCode {
        let answer = result.unwrap_or_else(Answer::failed);
        if let Some(error) = &answer.error {
            let text = error.to_string();
            // The errors of a space file come rendered, each with `error:` in front.
            let prefix = if text.starts_with("error") { "" } else { "error: " };
            output::say(&format!("{prefix}{text}"));
        }
        if !self.is_json() {
            return answer.exit;
        }
        self.end(&mut lock(&self.0.out), answer)
    }

    /// Ends the call from a thread that watches it, whatever the others do. `None` where the command has just ended by
    /// itself.
    pub fn end_now(&self, error: CliError) -> Option<ExitCode> {
        // Only by who holds the writer, who is the one that ends the call.
        let answer = |error| {
            let so_far = lock(&self.0.so_far).take();
            so_far.unwrap_or_else(|| Answer::from(ExitCode::Done)).despite(error)
        };
        let since = Instant::now();
        loop {
            match self.0.out.try_lock() {
                Ok(out) if out.has_ended => return None,
                Ok(mut out) if self.is_json() => return Some(self.end(&mut out, answer(error))),
                Ok(_) => return Some(answer(error).exit),
                Err(_) if since.elapsed() > WRITER_PATIENCE => return Some(answer(error).exit),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn end(&self, out: &mut JsonOut, answer: Answer) -> ExitCode {
        let Answer { exit, status, error, own, result, allowed_not_run, reasons } = answer;
        let facts = self.facts();
        let mut object = CommandEnvelope {
            version: schema::version(facts.schema.trim_start_matches("evo.")),
            status,
            exit_code: exit as u8,
            error: error.map(|error| error.envelope()),
            elapsed_ms: self.0.began.elapsed().as_secs_f64() * 1e3,
            result,
            allowed_not_run,
            reasons,
            ..facts
        };
        envelope::explain_nulls(&mut object);
        match out.end(&object, &own) {
            Ok(()) => exit,
            Err(error) => {
                output::say(&format!("error: cannot write to stdout: {error}"));
                ExitCode::Harness
            }
        }
    }
}

impl Answer {
    pub fn failed(error: CliError) -> Answer {
        Answer::from(ExitCode::Done).despite(error)
    }

    /// The same answer of a command that did not do all that it was asked to do.
    pub fn despite(mut self, error: CliError) -> Answer {
        self.exit = error.exit_code();
        self.status = match error.kind {
            CliErrorKind::Limit | CliErrorKind::Tool => EnvelopeStatus::NotRun,
            _ => status_of(self.exit),
        };
        self.error = Some(error);
        self
    }
}

fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words = words.into_iter().map(quote);
    std::iter::once("evo".into()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Bytes that are held back at most.
const BUFFER: usize = 1 << 16;

/// Lines are held back for no longer than this: often enough for a person, seldom enough for a fast stream.
const PATIENCE: Duration = Duration::from_millis(100);

/// stdout of a command with `--json`: lines of a stream, then one object; or one object alone. Whoever ends it, the
/// command itself or the thread that watches for signals, it ends once, and never in the middle of a line.
#[derive(Debug)]
struct JsonOut {
    has_ended: bool,
    /// Whole lines that are not written yet.
    pending: Vec<u8>,
    flushed: Instant,
    is_gone: bool,
}

impl JsonOut {
    fn new() -> JsonOut {
        JsonOut { has_ended: false, pending: Vec::new(), flushed: Instant::now(), is_gone: false }
    }

    /// Writes whole lines; soon, not at once.
    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        if self.has_ended {
            return Ok(());
        }
        self.pending.extend_from_slice(text);
        if self.pending.len() >= BUFFER || self.flushed.elapsed() > PATIENCE { self.flush() } else { Ok(()) }
    }

    /// Writes the object, unless one is out already. A reader that has left is not an error.
    fn end(&mut self, facts: &CommandEnvelope, own: &str) -> io::Result<()> {
        if std::mem::replace(&mut self.has_ended, true) {
            return Ok(());
        }
        let text = envelope::object(facts, own)?;
        self.pending.extend_from_slice(printable(&text).as_bytes());
        self.pending.push(b'\n');
        match self.flush() {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushed = Instant::now();
        let pending = std::mem::take(&mut self.pending);
        if self.is_gone {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut stdout = io::stdout().lock();
        let written = stdout.write_all(&pending).and_then(|()| stdout.flush());
        self.is_gone = written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        written
    }
}

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

/// Whoever watches for signals instead ends in order; after the first and the second one the call ends this much later,
/// whatever still runs.
const IN_ORDER: [Duration; 2] = [Duration::from_millis(4500), Duration::from_millis(1500)];

/// Ends the call at Ctrl-C, SIGTERM and the end of the terminal, at once for as long as nobody else watches for them.
pub fn watch_signals(call: &Call) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    // A file that may not grow (`ulimit -f`) is then an error of the write, as a full disk is.
    signal_hook::flag::register(libc::SIGXFSZ, Arc::new(AtomicBool::new(false)))?;
    // Under `nohup` the end of the terminal is not ours to hear of.
    if !is_ignored(SIGHUP) {
        signals.add_signal(SIGHUP)?;
    }
    let call = call.clone();
    let thread = std::thread::Builder::new().name("interrupts".into());
    thread.spawn(move || {
        let (mut ended, mut asked) = (false, 0);
        for signal in signals.forever() {
            let error = CliError::interrupted(format!("interrupted by {}", signal_name(signal)));
            if call.is_watched() {
                if let Some(within) = IN_ORDER.get(asked).copied() {
                    asked += 1;
                    let call = call.clone();
                    // Without a thread the other's order is all there is.
                    let _ = std::thread::Builder::new().name("late".into()).spawn(move || {
                        std::thread::sleep(within);
                        end(&call, error.with_hint("the same command with `--resume` continues"));
                    });
                }
                continue;
            }
            if ended {
                // The command is done and does not get away.
                let _ = signal_hook::low_level::emulate_default_handler(signal);
            }
            end(&call, error);
            ended = true;
        }
    })?;
    Ok(())
}

/// Ends the call when it has lasted that long, as `flag` says. `grace` is what a command gets that ends in order by itself.
pub fn limit_total(call: &Call, limit: Duration, flag: &'static str, grace: Duration) -> io::Result<()> {
    let call = call.clone();
    std::thread::Builder::new().name("limit".into()).spawn(move || {
        std::thread::sleep(limit.saturating_add(grace));
        call.hit(LimitName::Total);
        end(&call, total_is_over(limit).with_hint(format!("allow more with `{flag}`")));
    })?;
    Ok(())
}

pub fn total_is_over(limit: Duration) -> CliError {
    CliError::limit(format!("the limit of {} s for the whole command is used up", limit.as_secs_f64()))
}

fn end(call: &Call, error: CliError) {
    let said = format!("error: {error}");
    if let Some(exit) = call.end_now(error) {
        output::say(&said);
        leave(exit);
    }
}

/// Ends the process. Workers and compilers get SIGKILL with it.
#[expect(clippy::exit, reason = "the command's own thread waits for something that may never come")]
pub fn leave(exit: ExitCode) {
    std::process::exit(exit as i32);
}

#[cfg(test)]
mod tests {
    use evo_protocol::envelope::ErrorCode;

    use super::*;

    #[test]
    fn a_panic_is_an_error_of_evos_own() {
        let call = Call::begin("space", &["space".into()], false);
        let error = call.run(|| panic!("index {}", 7)).unwrap_err();
        assert_eq!((error.exit_code(), error.code()), (ExitCode::Harness, ErrorCode::Internal));
        assert!(error.to_string().contains("evo panicked: index 7"), "{error}");
        assert_eq!(call.finish(Err(error)), ExitCode::Harness);
    }

    #[test]
    fn the_line_that_repeats_a_call_is_quoted() {
        for (words, device, expected) in [
            (&["space", "a b.toml", "--sample", "3"][..], None, "evo space 'a b.toml' --sample 3 --seed 7"),
            (
                &["test", "gemm", "--device", "auto", "--seed=7", "--json"],
                Some("cuda:0"),
                "evo test gemm --seed=7 --json --device cuda:0",
            ),
            (
                &["sweep", "--device=host", "--", "softmax"],
                Some("host"),
                "evo sweep --device=host --seed 7 -- softmax",
            ),
            (&["--device=auto"], None, "evo --device=auto --seed 7"),
        ] {
            let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
            let call = Call::begin("test", &words, true);
            assert_eq!(call.chose(device, 7), expected);
            assert_eq!(call.facts().repro, expected);
        }
    }
}
