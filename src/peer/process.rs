//! A peer's process: started, asked, and ended, with a deadline for each question. A peer that is late, dies, or says
//! something that is not the protocol is killed with everything that it started. Our own wall clock bounds the times that it
//! reports from both sides.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use evo_protocol::measurement::TimingMode;
use evo_space::text::{printable, shortened};

use super::protocol::{PEER_VERSION, PeerAnswer, PeerImplementation, PeerProblem, PeerRequest};
use crate::kernel::spec::PeerSpec;
use crate::process::{CappedLog, Conversation, Death, DeathHow, ProcessGroup, RunMark, signal_name};

/// Bytes kept of what a peer prints on stderr, and letters of it and of its reasons that are shown.
const LOG_MAX: usize = 64 << 10;
const SHOWN: usize = 300;
/// A longer line is not the protocol: ten thousand samples take some 200 KB.
const LINE_MAX: usize = 1 << 20;
const IMPLEMENTATIONS_MAX: usize = 64;
/// Between the farewell and SIGKILL.
const GRACE: Duration = Duration::from_millis(500);

/// Why a peer gave no answer that counts.
#[derive(Clone, Debug, PartialEq)]
pub struct PeerFailure {
    pub reason: String,
    /// It says itself that it cannot.
    pub is_unable: bool,
}

impl From<String> for PeerFailure {
    fn from(reason: String) -> PeerFailure {
        PeerFailure { reason, is_unable: false }
    }
}

fn unable(reason: String) -> PeerFailure {
    PeerFailure { reason, is_unable: true }
}

/// After so many deaths a peer is not started again.
const DEATHS_MAX: u32 = 3;

/// A running peer. Dropping it kills its process group, and what it started in sessions of their own. The mark is dropped
/// after the kill of the group: a peer that goes on could start more.
type PeerProcess = (Conversation<PeerRequest, PeerAnswer>, RunMark);

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
    let mark = RunMark::put_on(&mut command);
    let log = CappedLog::of_end(LOG_MAX);
    let talk = Conversation::start(command, PEER_VERSION, ProcessGroup::default(), log)?;
    Ok((talk.with_line_max(LINE_MAX), mark))
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
    is_greeted: bool,
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
    pub fn start(peer: PeerSpec, timeout: Duration, device: &str) -> io::Result<PeerSeat> {
        let process = Some(start(&peer)?);
        Ok(PeerSeat {
            peer,
            timeout,
            device: device.to_string(),
            process,
            is_greeted: false,
            version: None,
            deaths: 0,
            death: String::new(),
            unable: None,
            until: None,
        })
    }

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
            true => Err(unable("it named no implementation of this problem".to_string())),
            false => Ok(found),
        }
    }

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
                claimed.add(&samples_ns, calls, wall_ns)?;
                Ok(samples_ns)
            }
            other => Err(self.strange("block", &other)),
        }
    }

    pub fn end(self) {
        if let Some((mut talk, _mark)) = self.process {
            talk.end(&PeerRequest::Shutdown, GRACE);
        }
    }

    fn ready(&mut self) -> Result<(), PeerFailure> {
        if let Some(why) = &self.unable {
            return Err(why.clone().into());
        }
        match &self.process {
            Some(_) if self.is_greeted => return Ok(()),
            Some(_) => {}
            None if self.deaths >= DEATHS_MAX => {
                return Err(format!("it died {} times, the last time: {}", self.deaths, self.death).into());
            }
            None => {
                let started =
                    start(&self.peer).map_err(|error| format!("it does not start again: {error}"))?;
                (self.process, self.is_greeted) = (Some(started), false);
            }
        }
        let unable = match self.ask(&PeerRequest::Hello { device: self.device.clone() }) {
            Ok(PeerAnswer::Ready { version, unable: None }) => {
                (self.version, self.is_greeted) = (version.as_deref().map(shown), true);
                return Ok(());
            }
            Ok(PeerAnswer::Ready { unable: Some(why), .. }) => shown(&why),
            Ok(other) => return Err(self.strange("hello", &other)),
            Err(failure) if failure.is_unable => failure.reason,
            Err(failure) => return Err(failure),
        };
        // It will not be able to do anything at the next problem either.
        (self.unable, self.process) = (Some(unable.clone()), None);
        Err(unable.into())
    }

    /// One question. A process that died is gone from here on.
    fn ask(&mut self, request: &PeerRequest) -> Result<PeerAnswer, PeerFailure> {
        // In whole tenths of a second, since people read it.
        let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Duration::from_millis((left.as_millis() / 100).max(1) as u64 * 100));
        let patience = left.map_or(self.timeout, |left| left.min(self.timeout));
        let Some((talk, _)) = &mut self.process else {
            return Err(format!("its process is gone: {}", self.death).into());
        };
        match talk.ask(request, patience) {
            Ok(PeerAnswer::Unable { reason }) => Err(unable(shown(&reason))),
            Ok(answer) => Ok(answer),
            Err(Death { how, log, .. }) => {
                let how = match how {
                    DeathHow::Deadline { limit } => format!("no answer within {} s", limit.as_secs_f64()),
                    DeathHow::Exit(status) => ending(status),
                    found => format!("it said something that is not the protocol: {found}"),
                };
                Err(self.died(last_words(shown(&how), &log.text())))
            }
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
        why.into()
    }
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

const SAMPLES_MAX: usize = 10_000;
/// A peer's clock and ours may differ by this share, and each sample by this much, nanoseconds.
const CLOCKS: f64 = 0.02;
const TICK_NS: f64 = 1_000.0;
/// A block is there to be timed: calls that fill less than this share of it are not what took the time. Honest peers
/// fill most of a block once they are warm; a busy machine costs a factor of a few.
const FILLED_LEAST: f64 = 0.02;

/// What is known of the times of one implementation in one mode.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClaimedTime {
    /// The largest share of a block's wall time that its samples added up to.
    filled: f64,
}

impl ClaimedTime {
    /// Takes the samples of a block (nanoseconds a call, each the mean of so many calls) that took `wall_ns`.
    pub fn add(&mut self, samples_ns: &[f64], calls: u32, wall_ns: f64) -> Result<(), String> {
        if samples_ns.is_empty() {
            return Err("it reported a block without samples".to_string());
        }
        if samples_ns.len() > SAMPLES_MAX {
            return Err(format!(
                "it reported {} samples, at most {SAMPLES_MAX} make a block",
                samples_ns.len()
            ));
        }
        if let Some(bad) = samples_ns.iter().find(|time| !(time.is_finite() && **time > 0.0)) {
            return Err(format!("it reported a sample of {bad} ns"));
        }
        if calls == 0 {
            return Err("it reported samples of 0 calls".to_string());
        }
        let claimed = samples_ns.iter().sum::<f64>() * f64::from(calls);
        let most = wall_ns * (1.0 + CLOCKS) + TICK_NS * samples_ns.len() as f64;
        if claimed > most {
            let (claimed, wall) = (claimed / 1e6, wall_ns / 1e6);
            return Err(format!(
                "it reported {claimed:.3} ms of samples for a block that took {wall:.3} ms by our clock"
            ));
        }
        self.filled = self.filled.max(claimed / wall_ns.max(1.0));
        Ok(())
    }

    /// Whether all blocks together can be true. A cold block spends its time on flushing caches, so nothing can be told
    /// from it; in other modes calls fill a block.
    pub fn conclude(&self, mode: TimingMode) -> Result<(), String> {
        if mode == TimingMode::Cold || self.filled >= FILLED_LEAST {
            return Ok(());
        }
        let share = 100.0 * self.filled;
        Err(format!(
            "its samples add up to {share:.4} % of the time that its blocks took by our clock, so they are not the \
             times of its calls"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(samples: &[f64], calls: u32, wall_ns: f64) -> Result<(), String> {
        ClaimedTime::default().add(samples, calls, wall_ns)
    }

    #[test]
    fn samples_cannot_add_up_to_more_than_the_block() {
        assert_eq!(add(&[1e6; 10], 1, 10.1e6), Ok(()));
        assert_eq!(add(&[1e4; 10], 100, 10.1e6), Ok(()));
        assert!(add(&[1e6; 10], 1, 9e6).unwrap_err().contains("10.000 ms of samples"));
        assert!(add(&[1e6; 10], 2, 10.1e6).is_err());
        for bad in [&[][..], &[f64::NAN], &[0.0], &[-1.0], &[f64::INFINITY], &[1.0; 10_001]] {
            assert!(add(bad, 1, 1e12).is_err(), "{bad:?}");
        }
        assert!(add(&[1.0], 0, 1e12).is_err());
    }

    #[test]
    fn samples_that_fill_nothing_are_not_the_times_of_calls() {
        let concluded = |mode, blocks: &[f64]| {
            let mut own = ClaimedTime::default();
            blocks.iter().for_each(|claimed| own.add(&[*claimed], 1, 20e6).unwrap());
            own.conclude(mode)
        };
        assert!(concluded(TimingMode::Hot, &[1.0, 20.0]).unwrap_err().contains("0.0001 %"));
        // One undisturbed block shows that the peer does time its calls.
        assert_eq!(concluded(TimingMode::Hot, &[100.0, 15e6]), Ok(()));
        assert!(concluded(TimingMode::Eager, &[1.0]).is_err());
        assert_eq!(concluded(TimingMode::Cold, &[1.0]), Ok(()));
        assert!(ClaimedTime::default().conclude(TimingMode::Hot).is_err(), "no block at all");
    }
}
