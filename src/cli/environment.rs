//! The conditions of a run outside the device: platform, commit, command line.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use evo_protocol::leaderboard::Environment;

/// A repository on a slow disk must not hold a sweep up.
const GIT_PATIENCE: Duration = Duration::from_secs(2);

/// Looks around.
pub fn look() -> Environment {
    let commit = git(&["rev-parse", "HEAD"]).map(|text| text.trim().to_string());
    let status = git(&["status", "--porcelain", "--untracked-files=no"]);
    Environment {
        platform: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
        git_dirty: commit.as_ref().and(status).map(|text| !text.trim().is_empty()),
        git_commit: commit.filter(|text| !text.is_empty()),
        command: command(),
    }
}

/// The command line; the program by its file name, because its folder on this machine tells nobody anything.
fn command() -> Vec<String> {
    let mut words: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    if let Some(program) = words.first_mut()
        && let Some(name) = Path::new(program.as_str()).file_name()
    {
        *program = name.to_string_lossy().into_owned();
    }
    words
}

/// The output of a git command that only reads; `None` where there is no repository, no git, or no
/// answer in time.
fn git(arguments: &[&str]) -> Option<String> {
    let mut child = Command::new("git")
        // evo only reads the git tree, and `git status` would otherwise refresh the index.
        .args(["--no-optional-locks"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdout = child.stdout.take()?;
    // Read beside the wait below: a long status would fill the pipe and git would never end.
    let reader = std::thread::Builder::new().spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).ok().map(|_| text)
    });
    let Ok(reader) = reader else {
        let _ = child.kill();
        let _ = child.wait();
        return None;
    };
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return reader.join().ok()?,
            Ok(None) if began.elapsed() < GIT_PATIENCE => std::thread::sleep(Duration::from_millis(5)),
            Ok(Some(_)) | Err(_) => return None,
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}
