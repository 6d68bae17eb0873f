//! Peers over a whole run: greeted once, started again after a death, and given up after several.

use std::io;
use std::time::Instant;

use evo_protocol::measurement::TimingMode;

use crate::peer::{ClaimedTime, PeerCommand, PeerFailure, PeerImplementation, PeerProblem, PeerProcess};

/// After so many deaths a peer is not started again.
const DEATHS_MAX: u32 = 3;

/// A peer that takes part.
#[derive(Debug)]
pub struct PeerSeat {
    command: PeerCommand,
    device: String,
    /// Absent after a death, until the next problem.
    process: Option<PeerProcess>,
    is_greeted: bool,
    version: Option<String>,
    deaths: u32,
    /// Why it can do nothing here, or how it died last.
    why: String,
    is_unable: bool,
    /// When answers are too late.
    until: Option<Instant>,
}

impl PeerSeat {
    /// Starts a peer's process; it is asked nothing yet.
    pub fn start(command: PeerCommand, device: &str) -> io::Result<PeerSeat> {
        let process = PeerProcess::start(&command)?;
        Ok(PeerSeat {
            command,
            device: device.to_string(),
            process: Some(process),
            is_greeted: false,
            version: None,
            deaths: 0,
            why: String::new(),
            is_unable: false,
            until: None,
        })
    }

    /// As rows name it.
    pub fn name(&self) -> &str {
        &self.command.name
    }

    /// What it said of itself.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// From now on no answer counts that comes later than this.
    pub fn answer_by(&mut self, until: Option<Instant>) {
        self.until = until;
    }

    /// Hands it a problem.
    pub fn prepare(&mut self, problem: &PeerProblem) -> Result<Vec<PeerImplementation>, PeerFailure> {
        self.ready()?;
        self.watched(|process| process.prepare(problem))
    }

    /// Has it write its outputs.
    ///
    /// # Errors
    /// As `prepare`.
    pub fn output(&mut self, implementation: &str) -> Result<(), PeerFailure> {
        self.watched(|process| process.output(implementation))
    }

    /// Has it time a block; nanoseconds a call.
    ///
    /// # Errors
    /// As `prepare`, or its times cannot be true.
    pub fn block(
        &mut self,
        implementation: &str,
        mode: TimingMode,
        ms: f64,
        claimed: &mut ClaimedTime,
    ) -> Result<Vec<f64>, PeerFailure> {
        self.watched(|process| process.block(implementation, mode, ms, claimed))
    }

    pub fn end(self) {
        if let Some(process) = self.process {
            process.shutdown();
        }
    }

    /// A greeted process.
    fn ready(&mut self) -> Result<(), PeerFailure> {
        if self.is_unable {
            return Err(PeerFailure::Dead(self.why.clone()));
        }
        if self.process.is_none() {
            if self.deaths >= DEATHS_MAX {
                let why = format!("it died {} times, the last time: {}", self.deaths, self.why);
                return Err(PeerFailure::Dead(why));
            }
            let started = PeerProcess::start(&self.command);
            let failed = |error: io::Error| PeerFailure::Dead(format!("it does not start again: {error}"));
            self.process = Some(started.map_err(failed)?);
            self.is_greeted = false;
        }
        if self.is_greeted {
            return Ok(());
        }
        let device = self.device.clone();
        match self.watched(|process| process.hello(&device)) {
            Ok(version) => {
                self.version = version;
                self.is_greeted = true;
                Ok(())
            }
            // It will not be able to do anything at the next problem either.
            Err(PeerFailure::Unable(why)) => {
                self.is_unable = true;
                self.why = why.clone();
                self.process = None;
                Err(PeerFailure::Dead(why))
            }
            Err(failure) => Err(failure),
        }
    }

    /// Asks the process; one that died is gone from here on.
    fn watched<T>(
        &mut self,
        ask: impl FnOnce(&mut PeerProcess) -> Result<T, PeerFailure>,
    ) -> Result<T, PeerFailure> {
        let Some(process) = &mut self.process else {
            return Err(PeerFailure::Dead(format!("its process is gone: {}", self.why)));
        };
        process.answer_by(self.until);
        let answer = ask(process);
        if let Err(PeerFailure::Dead(why)) = &answer {
            self.why.clone_from(why);
            self.deaths += 1;
            self.process = None;
        }
        answer
    }
}
