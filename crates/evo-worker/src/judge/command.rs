//! A reference by command: a program of the task's gets a case and evo's inputs as `.npy` files, and writes the
//! expected outputs.
//!
//! It has a deadline, a process group of its own and a capped log, and nothing that it does counts against a variant.
//! No process of a variant is there while it runs (`foresight`), and its files are removed before one is. Its answers
//! stay in the cache, which a variant without fences could read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::BufferPlan;
use evo_protocol::worker::{CommandReference, Phase};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::case::Case;
use super::element::{self, compared_as};
use super::naive::{NaiveAnswers, NaiveReference};
use super::npy::{self, task_error};
use super::reference::max_abs;
use super::run::Reporter;
use super::wrong;
use evo_system::process::{
    self, CappedLog, Conversation, DeathHow, ProcessGroup, RunLimits, RunMark, signal_name,
};
use evo_system::scratch::ScratchPlace;

const VERSION: u32 = 1;
const LOG_MAX: usize = 64 << 10;
const SAID_SHOWN: usize = 400;
const LOG_LINES: usize = 8;
const LINE_SHOWN: usize = 160;
/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// How far two answers of a command to the same inputs may be apart, as a share of the largest element: threads may add
/// in another order. The second is for answers in f32.
const APART: f64 = 1e-9;
const APART_SINGLE: f64 = 2e-6;

/// Marks a failure of the command itself: a task that leaves a case unanswered is something else.
const EVIDENCE: &str = "reference_command";

#[derive(Debug, Serialize)]
struct CommandCase<'a> {
    schema: &'static str,
    version: u32,
    /// Problem, seed and input family, for messages.
    case: &'a str,
    problem: &'a str,
    sizes: &'a BTreeMap<String, i64>,
    scalars: BTreeMap<&'a str, Value>,
    /// Those that the space file names; absent where it names none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    parameters: &'a BTreeMap<String, evo_space::value::Value>,
    inputs: BTreeMap<&'a str, CommandArray>,
    outputs: BTreeMap<&'a str, CommandArray>,
}

#[derive(Debug, Serialize)]
struct CommandArray {
    path: PathBuf,
    dtype: &'static str,
    shape: Vec<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ServeAnswer {
    Done,
    Failed(String),
}

#[derive(Debug)]
struct ServingProgram {
    talk: Conversation<Value, ServeAnswer>,
    // Dropped last: what the program left elsewhere ends after it.
    _mark: RunMark,
}

#[derive(Debug)]
pub(super) struct CommandDesk {
    place: ScratchPlace,
    running: Option<(CommandReference, ServingProgram)>,
}

impl CommandDesk {
    pub(super) fn new(cache: &Path) -> CommandDesk {
        CommandDesk { place: ScratchPlace::new(cache.join("reference")), running: None }
    }

    pub(super) fn rest(&mut self) {
        self.running = None;
    }

    fn ask(&mut self, own: &CommandReference, request: &Value) -> Result<(), String> {
        let known = self.running.take().filter(|(other, _)| other == own);
        let mut serving = match known {
            Some((_, serving)) => serving,
            None => {
                let log = CappedLog::of_end(LOG_MAX);
                let mut command = command(own);
                let mark = RunMark::put_on(&mut command);
                let started = Conversation::start(command, VERSION, ProcessGroup::default(), log);
                ServingProgram { talk: started.map_err(|error| not_started(own, &error))?, _mark: mark }
            }
        };
        match serving.talk.ask(request, Duration::from_millis(own.timeout_ms)) {
            Ok(ServeAnswer::Done) => {
                self.running = Some((own.clone(), serving));
                Ok(())
            }
            Ok(ServeAnswer::Failed(why)) => {
                let shown: String = why.chars().take(SAID_SHOWN).collect();
                Err(format!("it says `{shown}`{}", tail(serving.talk.log())))
            }
            Err(death) => {
                let how = match &death.how {
                    DeathHow::Deadline { .. } => late(own),
                    DeathHow::Exit(status) => ending(Some(*status)),
                    found => {
                        format!(
                            "it says {found}, and an answer is {{\"v\":{VERSION},\"id\":N,\"body\":\"done\"}}"
                        )
                    }
                };
                Err(format!("{how}{}", tail(&death.log)))
            }
        }
    }
}

fn command(own: &CommandReference) -> Command {
    let (program, arguments) = own.command.split_first().map_or(("", &[][..]), |(first, rest)| (first, rest));
    // With a slash it lies in the folder; without one it is looked for in `PATH`.
    let program = if program.contains('/') { own.folder.join(program) } else { PathBuf::from(program) };
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&own.folder);
    command
}

fn not_started(own: &CommandReference, error: &io::Error) -> String {
    let program = own.command.first().map(String::as_str).unwrap_or_default();
    format!("`{program}` cannot be started in `{}`: {error}", own.folder.display())
}

fn late(own: &CommandReference) -> String {
    format!("it took longer than {} s", own.timeout_ms as f64 / 1e3)
}

/// Runs the command for this request alone.
fn run(own: &CommandReference, folder: &Path, request: &Value) -> Result<(), String> {
    let path = folder.join("request.json");
    let written = std::fs::write(&path, format!("{request}\n")).and_then(|()| File::open(&path));
    let stdin = written.map_err(|error| format!("cannot write its request: {error}"))?;
    let timeout = Duration::from_millis(own.timeout_ms);
    let limits = RunLimits { grace: GRACE, output_bytes: LOG_MAX, ..RunLimits::new(timeout) };
    let ended = process::run_reading(command(own), Stdio::from(stdin), &limits);
    let ended = ended.map_err(|error| not_started(own, &error))?;
    if ended.succeeded() {
        return Ok(());
    }
    let how = if ended.timed_out { late(own) } else { ending(ended.status) };
    let log = if ended.stderr.total() > 0 { &ended.stderr } else { &ended.stdout };
    Err(format!("{how}{}", tail(log)))
}

fn ending(status: Option<ExitStatus>) -> String {
    match status.map(|status| (status.code(), status.signal())) {
        Some((Some(code), _)) => format!("it ended with exit code {code}"),
        Some((None, Some(signal))) => format!("it was killed by {}", signal_name(signal)),
        _ => "it cannot be reaped".to_string(),
    }
}

fn tail(log: &CappedLog) -> String {
    // Of a short log everything is at its start.
    let text = log.text();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
    let cut = |line: &&str| line.chars().take(LINE_SHOWN).collect::<String>();
    last.iter().map(|line| format!("\n  | {}", cut(line))).collect()
}

pub(super) fn is_failure(error: &DeviceError) -> bool {
    error.evidence.contains_key(EVIDENCE)
}

pub(super) struct CommandRunner<'a> {
    pub desk: &'a mut CommandDesk,
    pub reference: &'a CommandReference,
    pub case: &'a Case,
    pub reporter: &'a mut Reporter,
}

impl NaiveReference for CommandRunner<'_> {
    fn answers(&mut self, inputs: &[Vec<u8>]) -> Result<NaiveAnswers, DeviceError> {
        let answers = self.whole_answers(inputs)?.into_iter();
        Ok(answers.map(|(at, values)| (at, self.case.plan.buffers[at].compared(values))).collect())
    }
}

impl CommandRunner<'_> {
    fn whole_answers(&mut self, inputs: &[Vec<u8>]) -> Result<NaiveAnswers, DeviceError> {
        (self.reporter)(Phase::Preparing, &self.case.name());
        self.answer(inputs).map_err(|why| self.failure(&why))
    }

    /// The judge never takes it for a case without an answer.
    fn failure(&self, why: &str) -> DeviceError {
        let (words, case) = (self.reference.command.join(" "), self.case.name());
        let mut error = task_error(format!("the reference command `{words}` failed for `{case}`: {why}"));
        error.evidence.insert(EVIDENCE.into(), json!(words));
        error
    }

    pub fn agrees_with_itself(&mut self, inputs: &[Vec<u8>]) -> Result<(), DeviceError> {
        let (first, second) = (self.whole_answers(inputs)?, self.whole_answers(inputs)?);
        let share = if self.reference.single { APART_SINGLE } else { APART };
        for ((position, one), (_, other)) in first.iter().zip(&second) {
            let largest = max_abs(one);
            let same = |a: f64, b: f64| {
                a.to_bits() == b.to_bits() || (a - b).abs() <= share * largest || a.is_nan() && b.is_nan()
            };
            if let Some(at) = (0..one.len().min(other.len())).find(|at| !same(one[*at], other[*at])) {
                let name = &self.case.plan.buffers[*position].name;
                let why = format!(
                    "asked the same twice, it answers {:e} and {:e} in `{name}`[{at}]; a reference gives one answer (fix its \
                     seeds)",
                    one[at], other[at]
                );
                return Err(self.failure(&why));
            }
        }
        Ok(())
    }

    fn answer(&mut self, inputs: &[Vec<u8>]) -> Result<NaiveAnswers, String> {
        self.desk.place.sweep();
        let scratch =
            self.desk.place.folder().map_err(|error| format!("no folder for its files: {error}"))?;
        let request = self.request(scratch.path(), inputs)?;
        match self.reference.serve {
            true => self.desk.ask(self.reference, &request)?,
            false => run(self.reference, scratch.path(), &request)?,
        }
        let mut answers = Vec::new();
        for (position, buffer) in self.case.plan.buffers.iter().enumerate() {
            if buffer.role.is_answer() {
                let values = self.output(&output_path(scratch.path(), buffer), buffer);
                let values =
                    values.map_err(|why| format!("output `{}` cannot be used: {why}", buffer.name))?;
                answers.push((position, values));
            }
        }
        Ok(answers)
    }

    fn request(&self, folder: &Path, inputs: &[Vec<u8>]) -> Result<Value, String> {
        let plan = &self.case.plan;
        let failed = |error: io::Error| format!("its inputs cannot be written: {error}");
        for name in ["inputs", "outputs"] {
            std::fs::create_dir(folder.join(name)).map_err(failed)?;
        }
        let mut given = BTreeMap::new();
        let mut wanted = BTreeMap::new();
        for (buffer, bytes) in plan.buffers.iter().zip(inputs) {
            if buffer.role.is_read() {
                let path = folder.join("inputs").join(format!("{}.npy", buffer.name));
                // An empty buffer is passed to kernels as one element, which is nothing here.
                let length = (buffer.elements() * buffer.dtype.bytes()) as usize;
                let bytes = bytes.get(..length).unwrap_or(bytes);
                npy::write(&path, buffer.dtype, &buffer.shape, bytes).map_err(failed)?;
                let dtype = buffer.dtype.npy();
                given.insert(&*buffer.name, CommandArray { path, dtype, shape: buffer.shape.clone() });
            }
            if buffer.role.is_answer() {
                let path = output_path(folder, buffer);
                let dtype = self.answered_as(buffer.dtype).npy();
                wanted.insert(&*buffer.name, CommandArray { path, dtype, shape: buffer.shape.clone() });
            }
        }
        let scalars = plan.scalars.iter().map(|own| {
            let value = own.integer.map_or_else(|| wrong::number(own.value), |integer| json!(integer));
            (&*own.name, value)
        });
        let case = CommandCase {
            schema: "evo.reference",
            version: VERSION,
            case: &self.case.name(),
            problem: &plan.name,
            sizes: &plan.sizes,
            scalars: scalars.collect(),
            parameters: &plan.reference_parameters,
            inputs: given,
            outputs: wanted,
        };
        serde_json::to_value(case).map_err(|error| error.to_string())
    }

    fn answered_as(&self, dtype: DType) -> DType {
        match (dtype.is_float(), self.reference.single) {
            (false, _) => dtype,
            (true, false) => DType::F64,
            (true, true) => DType::F32,
        }
    }

    fn output(&self, path: &Path, buffer: &BufferPlan) -> Result<Vec<f64>, String> {
        let dtype = self.answered_as(buffer.dtype);
        let bytes = npy::read_exactly(path, dtype, &buffer.shape)?;
        let words = if dtype.is_float() { dtype } else { compared_as(dtype) };
        Ok(element::widen(&bytes, words))
    }
}

fn output_path(folder: &Path, buffer: &BufferPlan) -> PathBuf {
    folder.join("outputs").join(format!("{}.npy", buffer.name))
}
