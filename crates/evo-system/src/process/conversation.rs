//! Requests with deadlines to a child, one JSON object a line, and an account of its death.
//!
//! After a death the whole process group has been killed and the child reaped, or it is known that it cannot be.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use evo_protocol::device::DeviceError;
use evo_protocol::worker::{Frame, Phase};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::child::{Incoming, PULSE, ProcessGroup, RunningChild};
use super::log::CappedLog;
use super::signal::signal_name;
use super::waits::ProcessorWaits;

/// How many times its limit a child has that waits for a processor: with fifteen programs on two processors it runs for less
/// than a seventh of the time, and what is honest would be late.
pub const PATIENCE: u32 = 6;

/// A child that closed its stdout is given this long to leave by itself, so that its status is known.
const EXIT_GRACE: Duration = Duration::from_millis(500);
/// From this share of the limit on, or from `COUNTED_FROM` if that is earlier, what a silent child waits for a
/// processor is counted: short answers, which are most, pay nothing.
const COUNTED_SHARE: u32 = 4;
const COUNTED_FROM: Duration = Duration::from_secs(1);
const FOUND_MAX: usize = 120;

/// Why a child gave no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum DeathHow {
    Deadline {
        limit: Duration,
    },
    /// By itself, or by a signal that was not ours.
    Exit(ExitStatus),
    Protocol(String),
    /// The connection to a child under a lease ended, or brought no sign of life. What the launcher at this end of it
    /// says may come late and may be wrong.
    Cut(String),
    /// It asked for a binary that is gone.
    Missing(String),
    /// Its own fault handler spoke.
    Fault {
        error: Box<DeviceError>,
    },
}

impl fmt::Display for DeathHow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeathHow::Deadline { limit } => write!(formatter, "no answer within {} ms", limit.as_millis()),
            DeathHow::Exit(status) => match status.signal() {
                Some(signal) => write!(formatter, "killed by {}", signal_name(signal)),
                None => write!(formatter, "exited with {} before it answered", status.code().unwrap_or(-1)),
            },
            DeathHow::Protocol(text) | DeathHow::Cut(text) | DeathHow::Missing(text) => {
                formatter.write_str(text)
            }
            DeathHow::Fault { error } => formatter.write_str(&error.message),
        }
    }
}

/// What is known of a child's end, from here to the record of it.
#[derive(Clone, Debug)]
pub struct Death {
    pub how: DeathHow,
    /// What it had last said that it is at in this request, and where.
    pub phase: Option<Phase>,
    pub place: String,
    /// Since the request or that word, until it was found dead or given up.
    pub elapsed: Duration,
    /// Of that, how much longer than its limit it had, because it waited for a processor.
    pub waited: Duration,
    pub log: CappedLog,
    /// Largest resident size of the child or of a process that it waited for, bytes.
    pub memory_peak: u64,
}

/// Dropping it kills the child's group and reaps it.
#[derive(Debug)]
pub struct Conversation<Q, R> {
    child: RunningChild,
    version: u32,
    last_id: u64,
    lease: Option<Lease>,
    /// Limits count from here.
    pub since: Instant,
    pub phase: Option<Phase>,
    place: String,
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
        command: Command,
        version: u32,
        group: ProcessGroup,
        log: CappedLog,
    ) -> io::Result<Conversation<Q, R>> {
        let child = RunningChild::start(command, Stdio::piped(), group, log)?;
        let (since, place, types) = (Instant::now(), String::new(), PhantomData);
        Ok(Conversation { child, version, last_id: 0, lease: None, since, phase: None, place, types })
    }

    #[must_use]
    pub fn with_line_max(self, line_max: usize) -> Conversation<Q, R> {
        Conversation { child: self.child.with_line_max(line_max), ..self }
    }

    /// The child gives signs of life and puts `nonce` into its frames. Frames of another lease, and those that come
    /// twice or late, are dropped.
    #[must_use]
    pub fn under_lease(self, nonce: String, silence: Duration) -> Conversation<Q, R> {
        Conversation { lease: Some(Lease { nonce, silence, heard: None }), ..self }
    }

    pub fn log(&self) -> &CappedLog {
        self.child.log()
    }

    pub fn clear_log(&mut self) {
        // What is still in the pipe belongs to an earlier request too.
        self.child.read_rest();
        self.child.log.clear();
    }

    /// Without waiting. At most one request may be open.
    pub fn begin(&mut self, request: &Q) -> Result<(), Death> {
        self.last_id += 1;
        self.enter(None, String::new());
        if let Some(lease) = &mut self.lease {
            // Signs of life, and what came late: nothing that is there now can answer this request.
            self.child.discard_lines();
            lease.heard = lease.heard.map(|_| Instant::now());
        } else if self.child.has_input() {
            // Unread input belongs to no request: the child is out of step, and later answers could not be
            // matched.
            return Err(self.break_off("an answer nobody asked for"));
        }
        self.send(request)
    }

    pub fn send(&mut self, body: &Q) -> Result<(), Death> {
        match serde_json::to_vec(&Frame { v: self.version, id: self.last_id, lease: None, body }) {
            Ok(line) => self.child.send(&line),
            Err(error) => return Err(self.break_off(error.to_string())),
        }
        Ok(())
    }

    /// From here on the child is at this, and limits count from now.
    pub fn enter(&mut self, phase: Option<Phase>, place: String) {
        (self.since, self.phase, self.place) = (Instant::now(), phase, place);
    }

    pub fn ask(&mut self, request: &Q, limit: Duration) -> Result<R, Death> {
        self.ask_patiently(request, limit, 1)
    }

    /// What the child waited for a processor comes on top of its limit, up to `patience` times the limit in all.
    pub fn ask_patiently(&mut self, request: &Q, limit: Duration, patience: u32) -> Result<R, Death> {
        self.begin(request)?;
        let frame = self.next(limit, self.since + limit * patience)?;
        self.check_number(frame)
    }

    /// The frame may have any number. What the child waited for a processor comes on top of its limit, but `latest`
    /// stands.
    pub fn next(&mut self, limit: Duration, latest: Instant) -> Result<Frame<R>, Death> {
        loop {
            let line = self.next_line(limit, latest)?;
            let frame: Frame<R> = serde_json::from_slice(&line).map_err(|_| {
                let start = String::from_utf8_lossy(&line[..line.len().min(FOUND_MAX)]);
                self.break_off(format!("`{start}`"))
            })?;
            // Last words of a fault handler, which knows no lease, have none.
            let is_stale = self.lease.as_ref().is_some_and(|lease| {
                frame.lease.as_ref().is_some_and(|nonce| *nonce != lease.nonce) || frame.id < self.last_id
            });
            if !is_stale {
                return Ok(frame);
            }
        }
    }

    pub fn check_number(&mut self, frame: Frame<R>) -> Result<R, Death> {
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
        self.child.has_input() && self.child.lines().any(answers) || self.child.has_exited()
    }

    pub fn break_off(&mut self, found: impl Into<String>) -> Death {
        self.die(DeathHow::Protocol(found.into()))
    }

    pub fn dismiss(&mut self, farewell: &Q) {
        let frame = Frame { v: self.version, id: self.last_id + 1, lease: None, body: farewell };
        if let Ok(line) = serde_json::to_vec(&frame) {
            self.child.send(&line);
        }
        // The end of stdin ends a worker that waits for its next request, even if it misses the farewell.
        self.child.close_stdin();
    }

    /// Its status, if the child ends within `grace`; it is killed then.
    pub fn end(&mut self, farewell: &Q, grace: Duration) -> Option<ExitStatus> {
        self.dismiss(farewell);
        self.child.end(grace)
    }

    /// Whether it is gone.
    pub fn kill(&mut self) -> bool {
        self.child.kill().status.is_some()
    }

    fn next_line(&mut self, limit: Duration, latest: Instant) -> Result<Vec<u8>, Death> {
        let counted_from = self.since + COUNTED_FROM.min(limit / COUNTED_SHARE);
        let mut waits = None;
        let mut waited = Duration::ZERO;
        loop {
            let until = (self.since + limit + waited).min(latest);
            if waits.is_none() && until < latest && Instant::now() >= counted_from {
                waits = Some(ProcessorWaits::begin(self.child.id()));
            }
            match self.child.receive(until.min(Instant::now() + PULSE)) {
                Incoming::Line(line) => {
                    if let Some(lease) = &mut self.lease {
                        lease.heard = Some(Instant::now());
                    }
                    return Ok(line);
                }
                Incoming::End => return Err(self.found_dead()),
                Incoming::Overlong => return Err(self.break_off("a line longer than a message may be")),
                Incoming::Nothing => {}
            }
            let silence = self
                .lease
                .as_ref()
                .filter(|lease| lease.heard.is_some_and(|heard| heard.elapsed() >= lease.silence));
            if let Some(Lease { silence, .. }) = silence {
                let what = format!("no sign of life for {} s", silence.as_secs_f64());
                return Err(self.die(DeathHow::Cut(what)));
            }
            if Instant::now() >= until {
                let before = waited;
                waited = waits.as_ref().map_or(waited, ProcessorWaits::longest).max(waited);
                if waited - before < PULSE || until >= latest {
                    return Err(Death { waited, ..self.die(DeathHow::Deadline { limit }) });
                }
            }
        }
    }

    fn found_dead(&mut self) -> Death {
        let status = self.child.end(EXIT_GRACE);
        let how = match (status, &self.lease) {
            (Some(status), None) => DeathHow::Exit(status),
            (None, None) => DeathHow::Protocol("it closed its stdout and went on running".into()),
            (None, Some(_)) => DeathHow::Cut("the connection to it ended".into()),
            (Some(status), Some(_)) => behind_launcher(status),
        };
        self.die(how)
    }

    pub fn die(&mut self, how: DeathHow) -> Death {
        let elapsed = self.since.elapsed();
        let memory_peak = self.child.kill().memory_peak;
        // After the kill, when nothing more can be added: the log is complete.
        self.child.read_rest();
        let (log, place) = (self.child.log().clone(), self.place.clone());
        Death { how, phase: self.phase, place, elapsed, waited: Duration::ZERO, log, memory_peak }
    }
}

/// Shells and `srun` say 128 and the signal's number. A launcher may call the loss of its node a success, and any other
/// status may be its own: that of `ssh` without a connection, or of a bridge whose cluster is gone.
fn behind_launcher(status: ExitStatus) -> DeathHow {
    let launcher = match (status.signal(), status.code()) {
        (Some(_), _) => return DeathHow::Exit(status),
        (None, Some(code @ 129..=159)) => return DeathHow::Exit(ExitStatus::from_raw(code - 128)),
        (None, None | Some(0)) => String::new(),
        (None, Some(code)) => format!(", and its launcher exited with {code}"),
    };
    DeathHow::Cut(format!("the connection to it ended{launcher}"))
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

    fn cause(script: &str) -> DeathHow {
        let mut child = start(script);
        let death = child.ask(&"hello".to_string(), PATIENT).unwrap_err();
        assert!(child.kill(), "{script}");
        death.how
    }

    fn found(text: &str) -> DeathHow {
        DeathHow::Protocol(text.to_string())
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
        assert!(echo.end(&"bye".to_string(), PATIENT).is_some_and(|status| status.success()));
    }

    #[test]
    fn each_way_to_end_is_told_apart() {
        let exit = |wait_status| DeathHow::Exit(ExitStatus::from_raw(wait_status));
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
        assert_eq!(death.how, DeathHow::Deadline { limit });
        // A child that floods its stderr keeps nobody from the deadline, and dies with its last words kept.
        let death = start("echo first >&2; yes >&2").ask(&String::new(), limit).unwrap_err();
        assert_eq!(death.how, DeathHow::Deadline { limit });
        assert!(death.log.text().starts_with("first\n") && death.log.truncated());
        // Patience is for who waits for a processor: a sleeper does not, and would end in another way a minute later.
        let death = start("sleep 60").ask_patiently(&String::new(), limit, 1_000).unwrap_err();
        assert_eq!(death.how, DeathHow::Deadline { limit });
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
        let how = |script: &str| leased(script).ask(&"hello".to_string(), PATIENT).unwrap_err().how;
        let cut = |what: &str| DeathHow::Cut(what.to_string());
        let word = "echo '{\"v\":1,\"id\":0,\"lease\":\"now\",\"body\":\"alive\"}'";
        // What comes before the request is forgotten: a worker says nothing before it is greeted.
        assert_eq!(how(&format!("read line; {word}; sleep 60")), cut("no sign of life for 0.25 s"));
        // Whatever a launcher says of it.
        let gone = "the connection to it ended";
        assert_eq!(how("read line; exit 0"), cut(gone));
        assert_eq!(how("exec >&-; sleep 60"), cut(gone));
        assert_eq!(how("read line; exit 3"), cut(&format!("{gone}, and its launcher exited with 3")));
        let killed = DeathHow::Exit(ExitStatus::from_raw(libc::SIGKILL));
        assert_eq!(how("read line; sh -c 'kill -KILL $$'; exit $?"), killed);
    }
}
