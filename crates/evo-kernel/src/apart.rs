//! Renders templates of others in a process of its own. Fuel bounds how long a template runs, and not what it builds:
//! forty instructions that double a text ask for a terabyte. The engine of templates cannot be told to stop at a size,
//! so the process has little memory, and its end is the template's fault where it asked for more.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evo_space::genome::Configuration;
use serde::{Deserialize, Serialize};

use super::template::{self, TemplateError};
use evo_system::process::{
    self, CappedLog, Conversation, Death, DeathHow, Orphaned, ParentLink, ProcessGroup, ResourceLimits,
};

const VERSION: u32 = 1;

/// What the process may write to: the longest source, a few copies of it on its way here, and what a template keeps
/// in variables.
const MEMORY_MAX: u64 = 96 << 20;

/// A template runs out of fuel after a second or two, unless its texts are large.
const DEADLINE: Duration = Duration::from_secs(20);

/// The longest source as JSON, each letter of it escaped.
const ANSWER_MAX: usize = 6 * template::RENDERED_MAX + 4096;

#[derive(Clone, Debug, Default)]
pub enum Renderer {
    /// In this process: templates that ship with evo, and programs without workers.
    #[default]
    Here,
    Apart(Arc<RenderProcess>),
}

#[derive(Debug, Default)]
pub struct RenderProcess(Mutex<Option<Talk>>);

type Talk = Conversation<RenderOrder, RenderAnswer>;

#[derive(Debug, Serialize, Deserialize)]
struct RenderOrder {
    path: PathBuf,
    text: String,
    task: RenderTask,
}

#[derive(Debug, Serialize, Deserialize)]
enum RenderTask {
    Render(Configuration),
    /// Look for what is wrong with it; these names are known. Texts of constants are put together already here.
    Check(Vec<String>),
}

/// What was rendered; nothing of a template that is sound.
type RenderAnswer = Result<String, Vec<TemplateError>>;

pub type Rendered<T> = Result<T, RenderFailure>;

#[derive(Debug)]
pub enum RenderFailure {
    Template(TemplateError),
    /// The machine's: the process cannot be started, or was killed.
    Machine(String),
}

impl Renderer {
    pub fn render(&self, path: &Path, text: &str, configuration: &Configuration) -> Rendered<String> {
        let answer = self.answer(path, text, RenderTask::Render(configuration.clone()))?;
        let no_reason =
            || RenderFailure::Machine("the process that renders templates gives no reason".into());
        answer.map_err(|errors| errors.into_iter().next().map_or_else(no_reason, RenderFailure::Template))
    }

    pub fn check(&self, path: &Path, text: &str, known: &[&str]) -> Rendered<Vec<TemplateError>> {
        let known = known.iter().map(ToString::to_string).collect();
        let answer = self.answer(path, text, RenderTask::Check(known))?;
        Ok(answer.err().unwrap_or_default())
    }

    fn answer(&self, path: &Path, text: &str, task: RenderTask) -> Rendered<RenderAnswer> {
        let order = RenderOrder { path: path.to_path_buf(), text: text.to_string(), task };
        match self {
            Renderer::Here => Ok(order.follow()),
            Renderer::Apart(process) => process.answer(&order),
        }
    }
}

impl RenderOrder {
    fn follow(&self) -> RenderAnswer {
        match &self.task {
            RenderTask::Render(configuration) => {
                template::render(&self.path, &self.text, configuration).map_err(|error| vec![error])
            }
            RenderTask::Check(known) => {
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                let errors = template::check(&self.path, &self.text, &known);
                if errors.is_empty() { Ok(String::new()) } else { Err(errors) }
            }
        }
    }
}

impl RenderProcess {
    fn answer(&self, order: &RenderOrder) -> Rendered<RenderAnswer> {
        // A process that somebody killed is started once more.
        match self.ask(order) {
            Err(RenderFailure::Machine(_)) => self.ask(order),
            answered => answered,
        }
    }

    fn ask(&self, order: &RenderOrder) -> Rendered<RenderAnswer> {
        let mut talk = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut running = talk.take().map_or_else(start, Ok).map_err(|error| {
            RenderFailure::Machine(format!("cannot start the process that renders templates: {error}"))
        })?;
        let answer = running.ask(order, DEADLINE).map_err(|death| blame(order, &death))?;
        // Back only after an answer: whoever is dead is not asked again.
        *talk = Some(running);
        Ok(answer)
    }
}

fn start() -> io::Result<Talk> {
    let mut command = Command::new(process::worker_program()?);
    // A backtrace would read the whole program's debug information when memory is used up.
    command.args(["worker", "--render"]).env("RUST_BACKTRACE", "0");
    process::limit(&mut command, ResourceLimits { data_bytes: MEMORY_MAX, ..ResourceLimits::default() });
    let talk = Conversation::start(command, VERSION, ProcessGroup::default(), CappedLog::of_end(4096))?;
    Ok(talk.with_line_max(ANSWER_MAX))
}

fn blame(order: &RenderOrder, death: &Death) -> RenderFailure {
    let template = |message: String, hint: &str| {
        RenderFailure::Template(TemplateError::of(&template::file_name(&order.path), message, hint))
    };
    let grows = "look for a text or a list that grows in a loop";
    let signal = match &death.how {
        DeathHow::Deadline { limit } => {
            let message = format!("the template takes longer than {} s to render", limit.as_secs());
            return template(message, grows);
        }
        DeathHow::Exit(status) => status.signal(),
        found => {
            return RenderFailure::Machine(format!("the process that renders templates says {found}"));
        }
    };
    match signal {
        Some(libc::SIGABRT) if death.log.text().contains(OUT_OF_MEMORY) => {
            template(format!("rendering needs more than {} MiB of memory", MEMORY_MAX >> 20), grows)
        }
        Some(signal) if process::is_fault(signal) => {
            let message = format!("rendering ends with {}", process::signal_name(signal));
            template(message, "look for macros that call each other")
        }
        other => {
            let how = other.map_or_else(
                || "ended early".into(),
                |signal| format!("was killed by {}", process::signal_name(signal)),
            );
            RenderFailure::Machine(format!("the process that renders templates {how}"))
        }
    }
}

/// How Rust says that there is no memory, before it aborts.
const OUT_OF_MEMORY: &str = "memory allocation of";

pub fn serve() -> io::Result<()> {
    ParentLink::take_over(VERSION, Orphaned::Exits)?.serve(|order: RenderOrder| Some(order.follow()))
}

#[cfg(test)]
mod tests {
    use std::process::ExitStatus;

    use super::*;

    fn said(how: DeathHow, printed: &str) -> (bool, String) {
        let mut log = CappedLog::of_end(1000);
        log.push(printed.as_bytes());
        let (elapsed, waited, memory_peak) = (Duration::ZERO, Duration::ZERO, 0);
        let death = Death { how, phase: None, place: String::new(), elapsed, waited, log, memory_peak };
        let task = RenderTask::Check(Vec::new());
        let order = RenderOrder { path: "k.cu.j2".into(), text: String::new(), task };
        match blame(&order, &death) {
            RenderFailure::Template(error) => (true, error.to_string()),
            RenderFailure::Machine(message) => (false, message),
        }
    }

    #[test]
    fn only_what_a_template_does_is_held_against_it() {
        let ended = |status| DeathHow::Exit(ExitStatus::from_raw(status));
        let check = |cause, printed, expected: (bool, &str)| {
            assert_eq!(said(cause, printed), (expected.0, expected.1.to_string()));
        };
        let aborted = ended(libc::SIGABRT);
        let memory = "memory allocation of 1099511627776 bytes failed\n";
        check(aborted.clone(), memory, (true, "k.cu.j2: rendering needs more than 96 MiB of memory"));
        let stack = "thread 'main' has overflowed its stack";
        check(aborted, stack, (true, "k.cu.j2: rendering ends with SIGABRT"));
        let late = DeathHow::Deadline { limit: DEADLINE };
        check(late, "", (true, "k.cu.j2: the template takes longer than 20 s to render"));
        let killed = "the process that renders templates was killed by SIGKILL";
        check(ended(libc::SIGKILL), "", (false, killed));
        check(ended(1 << 8), "", (false, "the process that renders templates ended early"));
    }
}
