//! Requests with deadlines to a child, one JSON object a line, and an account of its death.
//!
//! After a death the whole process group has been killed and the child reaped, or it is known that it cannot be.

use std::io;
use std::marker::PhantomData;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use evo_protocol::worker::Frame;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::child::{ChildProcess, ProcessGroup};
use super::log::CappedLog;
use super::pipe::{Incoming, LinePipe};
use super::waits::ProcessorWaits;

/// How many times its limit a child has that waits for a processor: with fifteen programs on two processors it runs for less
/// than a seventh of the time, and what is honest would be late.
pub const PATIENCE: u32 = 6;

/// A child that closed its stdout is given this long to leave by itself, so that its status is known.
const EXIT_GRACE: Duration = Duration::from_millis(500);
/// How often a silent child is checked for being alive (a grandchild may hold its stdout open).
const PULSE: Duration = Duration::from_millis(50);
/// From this share of the limit on, or from `COUNTED_FROM` if that is earlier, what a silent child waits for a
/// processor is counted: short answers, which are most, pay nothing.
const COUNTED_SHARE: u32 = 4;
const COUNTED_FROM: Duration = Duration::from_secs(1);
const FOUND_MAX: usize = 120;

/// Why a child gave no answer. `Exit`: by itself, or by a signal that was not ours.
#[derive(Clone, Debug, PartialEq)]
pub enum DeathCause {
    Deadline { limit: Duration },
    Exit(ExitStatus),
    Protocol { found: String },
}

#[derive(Clone, Debug)]
pub struct ProcessDeath {
    pub cause: DeathCause,
    /// When it was found dead or given up.
    pub at: Instant,
    pub log: CappedLog,
    /// How much longer than its limit it had, because it waited for a processor.
    pub waited: Duration,
    /// Largest resident size of the child or of a process that it waited for, bytes.
    pub memory_peak: u64,
    pub reaped: bool,
    /// Whether the connection to a child under a lease ended, or brought no sign of life. What the launcher at this end
    /// of it says may come late and may be wrong.
    pub is_cut: bool,
}

/// Dropping it kills the child's group and reaps it. What gives a `bool` at its end says whether it is gone.
#[derive(Debug)]
pub struct Conversation<Q, R> {
    process: ChildProcess,
    pipe: LinePipe,
    version: u32,
    last_id: u64,
    lease: Option<Lease>,
    types: PhantomData<fn(Q) -> R>,
}

#[derive(Debug)]
struct Lease {
    nonce: String,
    silence: Duration,
    /// When it last said something while we listened; absent before its first word.
    heard: Option<Instant>,
}

impl<Q: Serialize, R: DeserializeOwned> Conversation<Q, R> {
    /// `version` is the protocol's. `log` takes the child's stderr; from here on `group` can end it.
    pub fn start(
        mut command: Command,
        version: u32,
        group: ProcessGroup,
        log: CappedLog,
    ) -> io::Result<Conversation<Q, R>> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = ChildProcess::start(command, group)?;
        let (Some(stdin), Some(stdout), Some(stderr)) = process.take_pipes() else {
            return Err(io::Error::other("a pipe to the child is missing"));
        };
        let pipe = LinePipe::new((stdin, stdout, stderr), log)?;
        Ok(Conversation { process, pipe, version, last_id: 0, lease: None, types: PhantomData })
    }

    #[must_use]
    pub fn with_line_max(mut self, line_max: usize) -> Conversation<Q, R> {
        self.pipe.set_line_max(line_max);
        self
    }

    /// The child gives signs of life and puts `nonce` into its frames. Frames of another lease, and those that come
    /// twice or late, are dropped.
    #[must_use]
    pub fn under_lease(mut self, nonce: String, silence: Duration) -> Conversation<Q, R> {
        self.lease = Some(Lease { nonce, silence, heard: None });
        self
    }

    pub fn log(&self) -> &CappedLog {
        &self.pipe.stderr.log
    }

    pub fn clear_log(&mut self) {
        // What is still in the pipe belongs to an earlier request too.
        self.pipe.stderr.read_rest();
        self.pipe.stderr.log.clear();
    }

    /// Without waiting. At most one request may be open.
    pub fn begin(&mut self, request: &Q) -> Result<(), ProcessDeath> {
        self.last_id += 1;
        if let Some(lease) = &mut self.lease {
            // Signs of life, and what came late: nothing that is there now can answer this request.
            self.pipe.discard_lines();
            lease.heard = lease.heard.map(|_| Instant::now());
            return self.send(request);
        }
        // Unread input belongs to no request: the child is out of step, and later answers could not be
        // matched.
        if self.pipe.has_input() {
            return Err(self.break_off("an answer nobody asked for"));
        }
        self.send(request)
    }

    pub fn send(&mut self, body: &Q) -> Result<(), ProcessDeath> {
        match serde_json::to_vec(&Frame { v: self.version, id: self.last_id, lease: None, body }) {
            Ok(line) => self.pipe.send(&line),
            Err(error) => return Err(self.break_off(error.to_string())),
        }
        Ok(())
    }

    pub fn ask(&mut self, request: &Q, limit: Duration) -> Result<R, ProcessDeath> {
        self.begin(request)?;
        let frame = self.next(Instant::now(), limit)?;
        self.check_number(frame)
    }

    /// What the child waited for a processor comes on top of its limit, up to `patience` times the limit in all.
    pub fn ask_patiently(&mut self, request: &Q, limit: Duration, patience: u32) -> Result<R, ProcessDeath> {
        self.begin(request)?;
        let begun = Instant::now();
        let frame = self.next_patiently(begun, limit, begun + limit * patience)?;
        self.check_number(frame)
    }

    /// The frame may have any number, and must come within `limit` of `since`.
    pub fn next(&mut self, since: Instant, limit: Duration) -> Result<Frame<R>, ProcessDeath> {
        self.next_patiently(since, limit, since + limit)
    }

    /// What the child waited for a processor comes on top of its limit, but `latest` stands.
    pub fn next_patiently(
        &mut self,
        since: Instant,
        limit: Duration,
        latest: Instant,
    ) -> Result<Frame<R>, ProcessDeath> {
        loop {
            let line = self.next_line(since, limit, latest)?;
            let frame: Frame<R> = serde_json::from_slice(&line).map_err(|_| {
                let start = String::from_utf8_lossy(&line[..line.len().min(FOUND_MAX)]);
                self.break_off(format!("`{start}`"))
            })?;
            if !self.is_stale(&frame) {
                return Ok(frame);
            }
        }
    }

    fn is_stale(&self, frame: &Frame<R>) -> bool {
        let Some(lease) = &self.lease else { return false };
        // Last words of a fault handler, which knows no lease, have none.
        frame.lease.as_ref().is_some_and(|nonce| *nonce != lease.nonce) || frame.id < self.last_id
    }

    pub fn check_number(&mut self, frame: Frame<R>) -> Result<R, ProcessDeath> {
        if frame.v == self.version && frame.id == self.last_id {
            return Ok(frame.body);
        }
        let (version, id) = (self.version, self.last_id);
        let found = format!("version {} and answer {} instead of {version} and {id}", frame.v, frame.id);
        Err(self.break_off(found))
    }

    /// Can be read without waiting, or never will be.
    pub fn has_answer(&mut self, is_answer: impl Fn(&R) -> bool) -> bool {
        let answers = |line: &[u8]| {
            // An unreadable line ends the wait as well, because reading it is an error and not a phase.
            serde_json::from_slice::<Frame<R>>(line).map_or(true, |frame| is_answer(&frame.body))
        };
        self.pipe.has_input() && self.pipe.lines().any(answers) || self.process.has_exited()
    }

    pub fn break_off(&mut self, found: impl Into<String>) -> ProcessDeath {
        self.end(DeathCause::Protocol { found: found.into() })
    }

    pub fn shutdown(&mut self, farewell: &Q, grace: Duration) -> bool {
        self.dismiss(farewell);
        self.wait_for_end(grace)
    }

    pub fn dismiss(&mut self, farewell: &Q) {
        let frame = Frame { v: self.version, id: self.last_id + 1, lease: None, body: farewell };
        if let Ok(line) = serde_json::to_vec(&frame) {
            self.pipe.send(&line);
        }
        // The end of stdin ends a worker that waits for its next request, even if it misses the farewell.
        self.pipe.close();
    }

    pub fn wait_for_end(&mut self, grace: Duration) -> bool {
        self.process.wait(Instant::now() + grace);
        self.bury()
    }

    /// The status, if the child ends within `grace`; it is gone in either case.
    pub fn status_within(&mut self, grace: Duration) -> Option<ExitStatus> {
        self.process.wait(Instant::now() + grace);
        // Asked before the kill, after which every end looks like a death by SIGKILL.
        let by_itself = self.process.has_exited();
        let status = self.process.bury().status;
        self.pipe.stderr.read_rest();
        status.filter(|_| by_itself)
    }

    pub fn bury(&mut self) -> bool {
        self.process.bury().status.is_some()
    }

    fn next_line(
        &mut self,
        since: Instant,
        limit: Duration,
        latest: Instant,
    ) -> Result<Vec<u8>, ProcessDeath> {
        let counted_from = since + COUNTED_FROM.min(limit / COUNTED_SHARE);
        let mut waits = None;
        let mut waited = Duration::ZERO;
        loop {
            let until = (since + limit + waited).min(latest);
            if waits.is_none() && until < latest && Instant::now() >= counted_from {
                waits = Some(ProcessorWaits::begin(self.process.id()));
            }
            match self.pipe.receive(until.min(Instant::now() + PULSE)) {
                Incoming::Line(line) => {
                    if let Some(lease) = &mut self.lease {
                        lease.heard = Some(Instant::now());
                    }
                    return Ok(line);
                }
                Incoming::End => return Err(self.found_dead()),
                Incoming::Nothing if self.silent_for().is_some() => {
                    let limit = self.silent_for().unwrap_or_default();
                    return Err(self.cut(format!("no sign of life for {} s", limit.as_secs_f64())));
                }
                Incoming::Overlong => return Err(self.break_off("a line longer than a message may be")),
                // A grandchild may keep stdout open after the child's end. What the child wrote before still
                // counts.
                Incoming::Nothing if self.process.has_exited() && !self.pipe.has_input() => {
                    return Err(self.found_dead());
                }
                Incoming::Nothing if Instant::now() >= until => {
                    let before = waited;
                    waited = waits.as_ref().map_or(waited, ProcessorWaits::longest).max(waited);
                    if waited - before < PULSE || until >= latest {
                        return Err(ProcessDeath { waited, ..self.end(DeathCause::Deadline { limit }) });
                    }
                }
                Incoming::Nothing => {}
            }
        }
    }

    fn silent_for(&self) -> Option<Duration> {
        let lease = self.lease.as_ref()?;
        (lease.heard?.elapsed() >= lease.silence).then_some(lease.silence)
    }

    fn found_dead(&mut self) -> ProcessDeath {
        self.process.wait(Instant::now() + EXIT_GRACE);
        // Asked before `bury`, whose kill would make every end look like a death by SIGKILL.
        let by_itself = self.process.has_exited();
        match self.process.bury().status {
            Some(status) if by_itself && self.lease.is_some() => match behind_launcher(status) {
                status if status.signal().is_some() => self.end(DeathCause::Exit(status)),
                // A launcher may call the loss of its node a success, and any other status may be its own: that of
                // `ssh` without a connection, or of a bridge whose cluster is gone.
                status => {
                    let code = status.code().filter(|code| *code != 0);
                    let code = code.map(|code| format!(", and its launcher exited with {code}"));
                    self.cut(format!("the connection to it ended{}", code.unwrap_or_default()))
                }
            },
            Some(status) if by_itself => self.end(DeathCause::Exit(status)),
            _ if self.lease.is_some() => self.cut("the connection to it ended".to_string()),
            _ => self.break_off("it closed its stdout and went on running"),
        }
    }

    fn cut(&mut self, found: String) -> ProcessDeath {
        ProcessDeath { is_cut: true, ..self.end(DeathCause::Protocol { found }) }
    }

    fn end(&mut self, cause: DeathCause) -> ProcessDeath {
        let at = Instant::now();
        let remains = self.process.bury();
        // After the kill, when nothing more can be added: the log is complete.
        self.pipe.stderr.read_rest();
        let log = self.pipe.stderr.log.clone();
        let (memory_peak, reaped) = (remains.memory_peak, remains.status.is_some());
        ProcessDeath { cause, at, log, waited: Duration::ZERO, memory_peak, reaped, is_cut: false }
    }
}

/// Shells and `srun` say 128 and the signal's number.
fn behind_launcher(status: ExitStatus) -> ExitStatus {
    match status.code() {
        Some(code @ 129..=159) => ExitStatus::from_raw(code - 128),
        _ => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENT: Duration = Duration::from_secs(60);

    fn start(script: &str) -> Conversation<String, String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Conversation::start(command, 1, ProcessGroup::default(), CappedLog::new(1000)).unwrap()
    }

    fn cause(script: &str) -> DeathCause {
        let death = start(script).ask(&"hello".to_string(), PATIENT).unwrap_err();
        assert!(death.reaped, "{script}");
        death.cause
    }

    fn found(text: &str) -> DeathCause {
        DeathCause::Protocol { found: text.to_string() }
    }

    #[test]
    fn answers_come_back_and_stderr_is_kept_apart() {
        let mut echo = start("while read line; do echo noise >&2; echo \"$line\"; done");
        for word in ["one", "two"] {
            assert_eq!(echo.ask(&word.to_string(), PATIENT).unwrap(), word);
        }
        assert_eq!(echo.log().text(), "noise\nnoise\n");
        echo.clear_log();
        assert_eq!(echo.log().total(), 0);
        assert!(echo.shutdown(&"bye".to_string(), PATIENT));
    }

    #[test]
    fn each_way_to_end_is_told_apart() {
        let exit = |wait_status| DeathCause::Exit(ExitStatus::from_raw(wait_status));
        assert_eq!(cause("read line; exit 3"), exit(3 << 8));
        assert_eq!(cause("read line; kill -SEGV $$"), exit(libc::SIGSEGV));
        // A grandchild in another group holds stdout open beyond its parent's end.
        assert_eq!(cause("setsid sleep 3 & exit 4"), exit(4 << 8));
        assert_eq!(cause("exec >&-; sleep 60"), found("it closed its stdout and went on running"));
        assert_eq!(cause("read line; echo words; sleep 60"), found("`words`"));
        let long = "a line longer than a message may be";
        assert_eq!(cause("read line; yes x | tr -d '\\n'; sleep 60"), found(long));
        assert_eq!(cause("read line; head -c 300000 /dev/zero | tr '\\0' x; echo; sleep 60"), found(long));
        let other = "version 1 and answer 9 instead of 1 and 1";
        assert_eq!(cause("read line; echo '{\"v\":1,\"id\":9,\"body\":\"x\"}'; sleep 60"), found(other));
    }

    #[test]
    fn a_child_that_neither_reads_nor_writes_meets_its_deadline() {
        // More than any pipe holds.
        let request = "x".repeat(8 << 20);
        let limit = Duration::from_millis(200);
        let death = start("sleep 60").ask(&request, limit).unwrap_err();
        assert_eq!(death.cause, DeathCause::Deadline { limit });
        // A child that floods its stderr keeps nobody from the deadline, and dies with its last words kept.
        let death = start("echo first >&2; yes >&2").ask(&String::new(), limit).unwrap_err();
        assert_eq!(death.cause, DeathCause::Deadline { limit });
        assert!(death.log.text().starts_with("first\n") && death.log.truncated());
        // Patience is for who waits for a processor: a sleeper does not, and would end in another way a minute later.
        let death = start("sleep 60").ask_patiently(&String::new(), limit, 1_000).unwrap_err();
        assert_eq!(death.cause, DeathCause::Deadline { limit });
    }

    fn leased(script: &str) -> Conversation<String, String> {
        start(script).under_lease("now".into(), Duration::from_millis(250))
    }

    #[test]
    fn under_a_lease_old_frames_are_dropped_and_signs_of_life_are_no_answer() {
        let frame = |id: u32, lease: &str, body: &str| {
            format!("echo '{{\"v\":1,\"id\":{id},\"lease\":\"{lease}\",\"body\":\"{body}\"}}'")
        };
        let lines = [
            "read line".to_string(),
            frame(1, "before", "of another lease"),
            frame(1, "now", "one"),
            frame(1, "now", "one"),
            "read line".into(),
            frame(1, "now", "one, late"),
            frame(2, "now", "two"),
            "sleep 60".into(),
        ];
        let mut child = leased(&lines.join("\n"));
        for word in ["one", "two"] {
            assert_eq!(child.ask(&"hello".to_string(), PATIENT).unwrap(), word);
        }
    }

    #[test]
    fn a_silent_lane_and_a_lane_that_is_gone_are_told_apart() {
        let cut = |script: &str| {
            let death = leased(script).ask(&"hello".to_string(), PATIENT).unwrap_err();
            (death.is_cut, death.cause)
        };
        let word = "echo '{\"v\":1,\"id\":0,\"lease\":\"now\",\"body\":\"alive\"}'";
        // What comes before the request is forgotten: a worker says nothing before it is greeted.
        assert_eq!(cut(&format!("read line; {word}; sleep 60")), (true, found("no sign of life for 0.25 s")));
        // Whatever a launcher says of it.
        let gone = (true, found("the connection to it ended"));
        assert_eq!(cut("read line; exit 0"), gone);
        assert_eq!(cut("exec >&-; sleep 60"), gone);
        let exit = |raw| (false, DeathCause::Exit(ExitStatus::from_raw(raw)));
        let own = (true, found("the connection to it ended, and its launcher exited with 3"));
        assert_eq!(cut("read line; exit 3"), own);
        assert_eq!(cut("read line; sh -c 'kill -KILL $$'; exit $?"), exit(libc::SIGKILL));
    }
}
