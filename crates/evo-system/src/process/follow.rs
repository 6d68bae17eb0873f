//! A command of evo's own that another program is waiting for: its lines are read while it works.

use std::io;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::child::{ChildProcess, ProcessGroup};
use super::log::CappedLog;
use super::pipe::{Incoming, LinePipe};

/// A program that has closed its stdout is given this long to leave by itself, so that its status is known.
const EXIT_GRACE: Duration = Duration::from_secs(2);
const LOG_MAX: usize = 16 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FollowedLine {
    Line(Vec<u8>),
    Nothing,
    End,
    Overlong,
}

/// Its stdin is empty. Dropping it kills its group and reaps it.
#[derive(Debug)]
pub struct FollowedProgram {
    process: ChildProcess,
    pipe: LinePipe,
    group: ProcessGroup,
}

impl FollowedProgram {
    pub fn start(mut command: Command, line_max: usize) -> io::Result<FollowedProgram> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let group = ProcessGroup::default();
        let mut process = ChildProcess::start(command, group.clone())?;
        let (Some(stdin), Some(stdout), Some(stderr)) = process.take_pipes() else {
            return Err(io::Error::other("a pipe to the child is missing"));
        };
        let mut pipe = LinePipe::new((stdin, stdout, stderr), CappedLog::of_end(LOG_MAX))?;
        pipe.set_line_max(line_max);
        pipe.close();
        Ok(FollowedProgram { process, pipe, group })
    }

    pub fn next(&mut self, patience: Duration) -> FollowedLine {
        match self.pipe.receive(Instant::now() + patience) {
            Incoming::Line(line) => FollowedLine::Line(line),
            Incoming::End => FollowedLine::End,
            Incoming::Overlong => FollowedLine::Overlong,
            // Something that it started may hold its stdout open beyond its end.
            Incoming::Nothing if self.process.has_exited() && !self.pipe.has_input() => FollowedLine::End,
            Incoming::Nothing => FollowedLine::Nothing,
        }
    }

    pub fn interrupt(&self) {
        self.group.signal(Signal::INT);
    }

    pub fn log(&self) -> &CappedLog {
        &self.pipe.stderr.log
    }

    /// It may leave by itself for a moment, and is killed then. Its status where it left by itself.
    pub fn end(&mut self) -> Option<ExitStatus> {
        self.process.wait(Instant::now() + EXIT_GRACE);
        let by_itself = self.process.has_exited();
        let status = self.process.bury().status;
        self.pipe.stderr.read_rest();
        status.filter(|_| by_itself)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::signal::is_ignored;

    fn sh(script: &str) -> FollowedProgram {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        FollowedProgram::start(command, 100).unwrap()
    }

    fn next(program: &mut FollowedProgram) -> FollowedLine {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            match program.next(Duration::from_millis(20)) {
                FollowedLine::Nothing if Instant::now() < until => {}
                other => return other,
            }
        }
    }

    #[test]
    fn lines_come_one_by_one_and_the_status_last() {
        let mut program = sh("cat; echo one; echo said >&2; sleep 0.1; echo two; exit 3");
        assert_eq!(next(&mut program), FollowedLine::Line(b"one".to_vec()));
        assert_eq!(next(&mut program), FollowedLine::Line(b"two".to_vec()));
        assert_eq!(next(&mut program), FollowedLine::End);
        assert_eq!(program.end().and_then(|status| status.code()), Some(3));
        assert_eq!(program.log().text(), "said\n");
    }

    #[test]
    fn an_interrupt_is_a_request_and_the_end_is_not() {
        if is_ignored(libc::SIGINT) {
            // A shell cannot trap what was ignored when it began, as it is for jobs in the background.
            eprintln!("skipped: SIGINT is ignored here");
            return;
        }
        let mut polite = sh("trap 'echo left; exit 5' INT; echo up; sleep 600 & wait");
        assert_eq!(next(&mut polite), FollowedLine::Line(b"up".to_vec()));
        polite.interrupt();
        assert_eq!(next(&mut polite), FollowedLine::Line(b"left".to_vec()));
        assert_eq!(polite.end().and_then(|status| status.code()), Some(5));
        let mut deaf = sh("trap '' INT; echo up; exec sleep 600");
        assert_eq!(next(&mut deaf), FollowedLine::Line(b"up".to_vec()));
        deaf.interrupt();
        assert_eq!(deaf.end(), None);
    }

    #[test]
    fn a_line_without_an_end_is_given_up() {
        let mut program = sh("yes | tr -d '\\n'");
        assert_eq!(next(&mut program), FollowedLine::Overlong);
    }
}
