//! A peer's process: started, asked, and ended, with a deadline for each question. A peer that is late, dies, or says
//! something that is not the protocol is killed with everything that it started.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use evo_protocol::measurement::TimingMode;
use evo_space::text::{printable, shortened};

use super::claims::ClaimedTime;
use super::protocol::{PEER_VERSION, PeerAnswer, PeerImplementation, PeerProblem, PeerRequest};
use crate::process::{CappedLog, Conversation, DeathCause, ProcessDeath, ProcessGroup, RunMark, signal_name};

/// Bytes kept of what a peer prints on stderr, and letters of it and of its reasons that are shown.
const LOG_MAX: usize = 64 << 10;
const SHOWN: usize = 300;
/// A longer line is not the protocol: ten thousand samples take some 200 KB.
const LINE_MAX: usize = 1 << 20;
/// Implementations of one problem.
const IMPLEMENTATIONS_MAX: usize = 64;
/// Between the farewell and SIGKILL.
const GRACE: Duration = Duration::from_millis(500);

/// How a peer is started.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerCommand {
    /// As rows name it.
    pub name: String,
    /// Program and arguments; a program with a slash lies in the folder.
    pub command: Vec<String>,
    /// Where it runs; our own folder where absent.
    pub folder: Option<PathBuf>,
    /// How long it may take to answer one question.
    pub timeout: Duration,
}

/// Why a peer gave no answer that counts.
#[derive(Clone, Debug, PartialEq)]
pub enum PeerFailure {
    /// It says itself that it cannot; its process goes on.
    Unable(String),
    /// Its times cannot be true; its process goes on.
    Implausible(String),
    /// Its process is gone.
    Dead(String),
}

impl PeerFailure {
    /// The reason in words.
    pub fn reason(&self) -> &str {
        match self {
            PeerFailure::Unable(why) | PeerFailure::Implausible(why) | PeerFailure::Dead(why) => why,
        }
    }
}

/// A running peer. Dropping it kills its process group, and what it started in sessions of their own.
#[derive(Debug)]
pub struct PeerProcess {
    talk: Conversation<PeerRequest, PeerAnswer>,
    timeout: Duration,
    /// When answers are too late, however much time one may take.
    until: Option<Instant>,
    // Below the conversation, so that it is dropped after the kill of the group: a peer that goes on could start more.
    _mark: RunMark,
}

impl PeerProcess {
    /// Starts a peer, without asking it anything.
    pub fn start(own: &PeerCommand) -> io::Result<PeerProcess> {
        let Some((program, arguments)) = own.command.split_first() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "its command is empty"));
        };
        let program = match &own.folder {
            Some(folder) if program.contains('/') => folder.join(program),
            _ => PathBuf::from(program),
        };
        let mut command = Command::new(program);
        command.args(arguments);
        if let Some(folder) = &own.folder {
            command.current_dir(folder);
        }
        let log = CappedLog::of_end(LOG_MAX);
        let mark = RunMark::put_on(&mut command);
        let talk = Conversation::start(command, PEER_VERSION, ProcessGroup::default(), log)?;
        Ok(PeerProcess { talk: talk.with_line_max(LINE_MAX), timeout: own.timeout, until: None, _mark: mark })
    }

    /// Greets it; its version, where it says one.
    pub fn hello(&mut self, device: &str) -> Result<Option<String>, PeerFailure> {
        match self.ask(&PeerRequest::Hello { device: device.to_string() })? {
            PeerAnswer::Ready { unable: Some(why), .. } => Err(PeerFailure::Unable(shown(&why))),
            PeerAnswer::Ready { version, .. } => Ok(version.map(|own| shown(&own))),
            other => Err(self.strange("hello", &other)),
        }
    }

    /// Hands it a problem; what it can do of it.
    pub fn prepare(&mut self, problem: &PeerProblem) -> Result<Vec<PeerImplementation>, PeerFailure> {
        let mut found = match self.ask(&PeerRequest::Prepare(Box::new(problem.clone())))? {
            PeerAnswer::Prepared { implementations } => implementations,
            other => return Err(self.strange("prepare", &other)),
        };
        for own in &mut found {
            own.name = shown(&own.name);
            own.version = own.version.as_deref().map(shown);
            own.unable = own.unable.as_deref().map(shown);
        }
        let twice = |at: usize| found[..at].iter().any(|other| other.name == found[at].name);
        if (0..found.len()).any(twice) || found.len() > IMPLEMENTATIONS_MAX {
            let why = format!("it named {} implementations, some of them twice or too many", found.len());
            self.talk.bury();
            return Err(PeerFailure::Dead(why));
        }
        match found.is_empty() {
            true => Err(PeerFailure::Unable("it named no implementation of this problem".to_string())),
            false => Ok(found),
        }
    }

    /// Has it write its outputs.
    pub fn output(&mut self, implementation: &str) -> Result<(), PeerFailure> {
        let implementation = implementation.to_string();
        match self.ask(&PeerRequest::Output { implementation })? {
            PeerAnswer::Written => Ok(()),
            other => Err(self.strange("output", &other)),
        }
    }

    /// Has it time one block of about so many milliseconds; nanoseconds a call. `claimed` remembers what our own clock
    /// says of it.
    pub fn block(
        &mut self,
        implementation: &str,
        mode: TimingMode,
        ms: f64,
        claimed: &mut ClaimedTime,
    ) -> Result<Vec<f64>, PeerFailure> {
        let implementation = implementation.to_string();
        let began = Instant::now();
        let answer = self.ask(&PeerRequest::Block { implementation, mode, ms })?;
        let wall_ns = began.elapsed().as_secs_f64() * 1e9;
        match answer {
            PeerAnswer::Samples { samples_ns, calls } => {
                claimed.add(&samples_ns, calls, wall_ns).map_err(PeerFailure::Implausible)?;
                Ok(samples_ns)
            }
            other => Err(self.strange("block", &other)),
        }
    }

    /// From now on no answer counts that comes later than this.
    pub fn answer_by(&mut self, until: Option<Instant>) {
        self.until = until;
    }

    /// Asks it to end, and ends it.
    pub fn shutdown(mut self) {
        self.talk.shutdown(&PeerRequest::Shutdown, GRACE);
    }

    fn ask(&mut self, request: &PeerRequest) -> Result<PeerAnswer, PeerFailure> {
        match self.talk.ask(request, self.patience()) {
            Ok(PeerAnswer::Unable { reason }) => Err(PeerFailure::Unable(shown(&reason))),
            Ok(answer) => Ok(answer),
            Err(death) => Err(PeerFailure::Dead(self.epitaph(&death))),
        }
    }

    /// How long the next answer may take, in whole tenths of a second, since people read it.
    fn patience(&self) -> Duration {
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Duration::from_millis((left.as_millis() / 100).max(1) as u64 * 100));
        left.map_or(self.timeout, |left| left.min(self.timeout))
    }

    /// An answer to another question than was asked.
    fn strange(&mut self, question: &str, answer: &PeerAnswer) -> PeerFailure {
        let said = shown(&format!("{answer:?}"));
        self.talk.bury();
        PeerFailure::Dead(format!("it answered `{question}` with {said}"))
    }

    fn epitaph(&self, death: &ProcessDeath) -> String {
        let how = match &death.cause {
            DeathCause::Deadline { limit } => format!("no answer within {} s", limit.as_secs_f64()),
            DeathCause::Exit(status) => ending(*status),
            DeathCause::Protocol { found } => format!("it said something that is not the protocol: {found}"),
        };
        let text = death.log.text();
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        let how = shown(&how);
        last.map_or(how.clone(), |line| format!("{how} (last words: {})", shown(line)))
    }
}

fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("its process ended with exit code {code}"),
        (None, Some(signal)) => format!("its process was killed by {}", signal_name(signal)),
        (None, None) => "its process ended".to_string(),
    }
}

fn shown(text: &str) -> String {
    printable(&shortened(text.trim(), SHOWN)).into_owned()
}
