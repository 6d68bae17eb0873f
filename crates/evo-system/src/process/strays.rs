//! What a tool leaves running outside of its process group, such as a daemon in a session of its own, has inherited
//! its environment, where a mark tells whose it is, unless it was removed on purpose.
//!
//! A process that is killed, or leaves at Ctrl-C, drops no mark. So the first mark starts a *keeper*: a process that
//! does nothing but wait for the end of this one and then kills whatever carries its marks.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::SystemTime;
use std::{env, fs};

use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open, pidfd_send_signal};

use crate::lock;

const VARIABLE: &str = "EVO_TOOL_RUN";

/// Looks at all processes until none is left: one that forks meanwhile is found the next time.
const ROUNDS: usize = 100;

/// Dropping it kills what is left of the marked command and all that it started.
#[derive(Debug)]
pub struct RunMark(String);

impl RunMark {
    pub fn put_on(command: &mut Command) -> RunMark {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        // A machine that starts no more processes has no keeper either; the next mark tries again.
        let _ = start_keeper();
        // Relaxed: the numbers need only differ.
        let mark = format!("{}{}", own_prefix(), RUNS.fetch_add(1, Ordering::Relaxed));
        // evo may itself be what a tool of another evo runs.
        let mut all = env::var_os(VARIABLE).unwrap_or_default();
        if !all.is_empty() {
            all.push(",");
        }
        all.push(&mark);
        command.env(VARIABLE, all);
        RunMark(mark)
    }

    fn kill(&self) -> usize {
        kill_marked(&|mark| mark == self.0.as_bytes())
    }
}

impl Drop for RunMark {
    fn drop(&mut self) {
        kill_until_none(|| self.kill());
    }
}

/// The program becomes a keeper with these arguments and the marks' common part behind them. Without this call, as in
/// programs that use evo as a library, nobody ends what is left of tools when this process is gone.
pub fn keep_with(program: PathBuf, arguments: &[&str]) {
    let words = arguments.iter().map(ToString::to_string).collect();
    // A second call changes nothing: the keeper may be there already.
    let _ = KEEPER.set((program, words));
}

/// Waits for the end of stdin, which is that of its parent. An error, and nothing killed, where `prefix` is not what
/// marks begin with.
pub fn serve_keeper(prefix: &str) -> io::Result<()> {
    let is_own = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = prefix.split('-').collect();
    if !matches!(parts[..], [pid, time, ""] if is_own(pid) && is_own(time)) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{prefix}` is not what marks begin with"),
        ));
    }
    // What its parent says, nothing at all, does not matter; its end does.
    let _ = io::copy(&mut io::stdin().lock().by_ref(), &mut io::sink());
    kill_until_none(|| kill_marked(&|mark| mark.starts_with(prefix.as_bytes())));
    Ok(())
}

static KEEPER: OnceLock<(PathBuf, Vec<String>)> = OnceLock::new();

/// A time in it tells it from an earlier process with the same number.
fn own_prefix() -> &'static str {
    static PREFIX: OnceLock<String> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        format!("{}-{}-", getpid().as_raw_nonzero(), time.as_nanos())
    })
}

fn start_keeper() -> io::Result<()> {
    /// Closed by the end of this process, however it comes; no other process has this end of the pipe.
    static LINK: Mutex<Option<ChildStdin>> = Mutex::new(None);
    let Some((program, arguments)) = KEEPER.get() else { return Ok(()) };
    let mut link = lock(&LINK);
    if link.is_none() {
        let mut command = Command::new(program);
        command.args(arguments).arg(own_prefix()).current_dir("/").stdin(Stdio::piped());
        // Without the output of this process, whose readers would wait for the keeper too; and in a group of its own, which
        // Ctrl-C and a kill of this one do not reach. It does not ask to die with its parent.
        *link = command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn()?.stdin;
    }
    Ok(())
}

fn kill_until_none(kill: impl Fn() -> usize) {
    for _ in 0..ROUNDS {
        if kill() == 0 {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

fn kill_marked(is_meant: &dyn Fn(&[u8]) -> bool) -> usize {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw).filter(|pid| kill_one(*pid, is_meant)).count()
}

fn kill_one(pid: Pid, is_meant: &dyn Fn(&[u8]) -> bool) -> bool {
    // Opened before the mark is read, so that the signal goes to the process that had it.
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    let environment = fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
    let variables = environment.split(|byte| *byte == 0);
    let mut marks = variables
        .filter_map(|variable| variable.strip_prefix(VARIABLE.as_bytes())?.strip_prefix(b"="))
        .flat_map(|value| value.split(|byte| *byte == b','));
    marks.any(is_meant) && pidfd_send_signal(&process, Signal::KILL).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_left_its_group_and_session_is_found_by_its_mark() {
        let mut command = Command::new("sh");
        command.args(["-c", "setsid sh -c 'setsid sleep 601 & sleep 601' > /dev/null 2>&1 & exit 0"]);
        let (mark, other) = (RunMark::put_on(&mut command), RunMark::put_on(&mut Command::new("true")));
        assert!(command.status().unwrap().success());
        // The first of them to appear.
        while mark.kill() == 0 {
            std::thread::yield_now();
        }
        assert_eq!(other.kill(), 0, "another run's");
        drop(mark);
    }

    #[test]
    fn a_keeper_is_told_what_marks_begin_with_or_does_nothing() {
        for prefix in ["", "-", "--", "12-", "12-34", "12--", "-34-", "a-1-", "1-2-3-", "1-2-3"] {
            assert_eq!(serve_keeper(prefix).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{prefix}");
        }
    }
}
