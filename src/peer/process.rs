//! A peer's process: started, asked, and ended, with a deadline for each question. A peer that is late, dies, or says
//! something that is not the protocol is killed with everything that it started.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use evo_protocol::measurement::TimingMode;
use evo_space::text::{printable, shortened};

use super::claims::ClaimedTime;
use super::protocol::{PEER_VERSION, PeerAnswer, PeerImplementation, PeerProblem, PeerRequest};
use crate::kernel::spec::PeerSpec;
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
    pub fn reason(&self) -> &str {
        match self {
            PeerFailure::Unable(why) | PeerFailure::Implausible(why) | PeerFailure::Dead(why) => why,
        }
    }
}

/// After so many deaths a peer is not started again.
const DEATHS_MAX: u32 = 3;

/// A running peer. Dropping it kills its process group, and what it started in sessions of their own.
#[derive(Debug)]
struct PeerProcess {
    talk: Conversation<PeerRequest, PeerAnswer>,
    is_greeted: bool,
    // Below the conversation, so that it is dropped after the kill of the group: a peer that goes on could start more.
    _mark: RunMark,
}

impl PeerProcess {
    /// A program with a slash lies in the peer's folder, which is our own where it has none.
    fn start(peer: &PeerSpec) -> io::Result<PeerProcess> {
        let Some((program, arguments)) = peer.command.split_first() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "its command is empty"));
        };
        let is_own = peer.folder.as_os_str().is_empty();
        let folder = std::path::absolute(if is_own { Path::new(".") } else { &peer.folder })?;
        let program = if program.contains('/') { folder.join(program) } else { PathBuf::from(program) };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder);
        let log = CappedLog::of_end(LOG_MAX);
        let mark = RunMark::put_on(&mut command);
        let talk = Conversation::start(command, PEER_VERSION, ProcessGroup::default(), log)?;
        Ok(PeerProcess { talk: talk.with_line_max(LINE_MAX), is_greeted: false, _mark: mark })
    }
}

/// A peer over a whole run: greeted once, started again after a death, and given up after several.
#[derive(Debug)]
pub struct PeerSeat {
    peer: PeerSpec,
    /// How long it may take to answer one question.
    timeout: Duration,
    device: String,
    /// Absent after a death, until the next problem.
    process: Option<PeerProcess>,
    version: Option<String>,
    deaths: u32,
    /// How it died last.
    death: String,
    /// Why it can do nothing here.
    unable: Option<String>,
    /// When answers are too late, however much time one may take.
    until: Option<Instant>,
}

impl PeerSeat {
    /// Starts a peer's process; it is asked nothing yet.
    pub fn start(peer: PeerSpec, timeout: Duration, device: &str) -> io::Result<PeerSeat> {
        let process = PeerProcess::start(&peer)?;
        Ok(PeerSeat {
            peer,
            timeout,
            device: device.to_string(),
            process: Some(process),
            version: None,
            deaths: 0,
            death: String::new(),
            unable: None,
            until: None,
        })
    }

    /// As rows name it.
    pub fn name(&self) -> &str {
        &self.peer.name
    }

    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// From now on no answer counts that comes later than this.
    pub fn answer_by(&mut self, until: Option<Instant>) {
        self.until = until;
    }

    /// Hands it a problem; what it can do of it.
    pub fn prepare(&mut self, problem: &PeerProblem) -> Result<Vec<PeerImplementation>, PeerFailure> {
        self.ready()?;
        let mut found = match self.ask(&PeerRequest::Prepare(Box::new(problem.clone())))? {
            PeerAnswer::Prepared { implementations } => implementations,
            other => return Err(self.strange("prepare", &other)),
        };
        for implementation in &mut found {
            implementation.name = shown(&implementation.name);
            implementation.version = implementation.version.as_deref().map(shown);
            implementation.unable = implementation.unable.as_deref().map(shown);
        }
        let names: BTreeSet<&str> = found.iter().map(|implementation| implementation.name.as_str()).collect();
        if names.len() < found.len() || found.len() > IMPLEMENTATIONS_MAX {
            let why = format!("it named {} implementations, some of them twice or too many", found.len());
            return Err(self.died(why));
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

    /// Asks it to end, and ends it.
    pub fn end(self) {
        if let Some(mut process) = self.process {
            process.talk.shutdown(&PeerRequest::Shutdown, GRACE);
        }
    }

    /// A greeted process.
    fn ready(&mut self) -> Result<(), PeerFailure> {
        if let Some(why) = &self.unable {
            return Err(PeerFailure::Dead(why.clone()));
        }
        match &self.process {
            Some(process) if process.is_greeted => return Ok(()),
            Some(_) => {}
            None if self.deaths >= DEATHS_MAX => {
                let why = format!("it died {} times, the last time: {}", self.deaths, self.death);
                return Err(PeerFailure::Dead(why));
            }
            None => {
                let started = PeerProcess::start(&self.peer);
                let failed = |error| PeerFailure::Dead(format!("it does not start again: {error}"));
                self.process = Some(started.map_err(failed)?);
            }
        }
        let unable = match self.ask(&PeerRequest::Hello { device: self.device.clone() }) {
            Ok(PeerAnswer::Ready { version, unable: None }) => {
                self.version = version.as_deref().map(shown);
                if let Some(process) = &mut self.process {
                    process.is_greeted = true;
                }
                return Ok(());
            }
            Ok(PeerAnswer::Ready { unable: Some(why), .. }) => shown(&why),
            Ok(other) => return Err(self.strange("hello", &other)),
            Err(PeerFailure::Unable(why)) => why,
            Err(failure) => return Err(failure),
        };
        // It will not be able to do anything at the next problem either.
        (self.unable, self.process) = (Some(unable.clone()), None);
        Err(PeerFailure::Dead(unable))
    }

    /// One question. A process that died is gone from here on.
    fn ask(&mut self, request: &PeerRequest) -> Result<PeerAnswer, PeerFailure> {
        // In whole tenths of a second, since people read it.
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Duration::from_millis((left.as_millis() / 100).max(1) as u64 * 100));
        let patience = left.map_or(self.timeout, |left| left.min(self.timeout));
        let Some(process) = &mut self.process else {
            return Err(PeerFailure::Dead(format!("its process is gone: {}", self.death)));
        };
        match process.talk.ask(request, patience) {
            Ok(PeerAnswer::Unable { reason }) => Err(PeerFailure::Unable(shown(&reason))),
            Ok(answer) => Ok(answer),
            Err(death) => Err(self.died(epitaph(&death))),
        }
    }

    /// An answer to another question than was asked.
    fn strange(&mut self, question: &str, answer: &PeerAnswer) -> PeerFailure {
        let answer = shown(&format!("{answer:?}"));
        self.died(format!("it answered `{question}` with {answer}"))
    }

    /// Ends the process, with everything that it started.
    fn died(&mut self, why: String) -> PeerFailure {
        self.process = None;
        self.deaths += 1;
        self.death.clone_from(&why);
        PeerFailure::Dead(why)
    }
}

fn epitaph(death: &ProcessDeath) -> String {
    let how = match &death.cause {
        DeathCause::Deadline { limit } => format!("no answer within {} s", limit.as_secs_f64()),
        DeathCause::Exit(status) => ending(*status),
        DeathCause::Protocol { found } => format!("it said something that is not the protocol: {found}"),
    };
    last_words(shown(&how), &death.log.text())
}

/// How a program ended, with the last line of what it printed on stderr.
pub fn last_words(how: String, stderr: &str) -> String {
    match stderr.lines().rev().find(|line| !line.trim().is_empty()) {
        Some(line) => format!("{how} (last words: {})", shown(line)),
        None => how,
    }
}

pub fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("its process ended with exit code {code}"),
        (None, Some(signal)) => format!("its process was killed by {}", signal_name(signal)),
        (None, None) => "its process ended".to_string(),
    }
}

/// What a foreign program said, in one short line.
pub fn shown(text: &str) -> String {
    printable(&shortened(text.trim(), SHOWN)).into_owned()
}
