//! Mistakes of new users: missing tools, odd paths, impossible numbers, places that cannot be written. Each
//! ends with exit code 2, a message that names place and cause, and nothing written. A disk that becomes full
//! is not a mistake of the user's command: exit code 4.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::exhausted::on_small_disk;
use crate::support::{self, BRIEF};

const BLUR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/box_blur");

/// A folder with the example, in a folder whose name has a blank.
fn bench() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("my kernels");
    std::fs::create_dir(&folder).unwrap();
    for name in ["blur.toml", "blur.cu", "naive.cu"] {
        std::fs::copy(Path::new(BLUR).join(name), folder.join(name)).unwrap();
    }
    root
}

fn evo(root: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
    command.current_dir(root).env("EVO_CACHE_DIR", support::cache()).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Exit code 2, these words on one screen of stderr, nothing on stdout, no evidence.
fn refused(root: &Path, output: &Output, expected: &str) {
    ended(root, output, 2, expected);
}

/// The same with another exit code.
fn ended(root: &Path, output: &Output, code: i32, expected: &str) {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(message.contains(expected), "no `{expected}` in: {message}");
    assert!(message.starts_with("error: ") && message.lines().count() < 25, "{message}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    assert!(!root.join("evidence").exists(), "something was written: {message}");
}

#[test]
fn a_missing_compiler_is_named_by_every_command_that_needs_one() {
    let root = bench();
    let commands: [&[&str]; 4] = [
        &["sweep", "my kernels/blur.toml", "--device", "host"],
        &["test-one", "my kernels/blur.toml", "--device", "host"],
        &["compile", "my kernels/blur.toml", "--arch", "host"],
        &["selftest", "device", "--device", "host"],
    ];
    for words in commands {
        let output = evo(root.path()).args(words).env("CXX", "/nonexistent/c++").output().unwrap();
        refused(root.path(), &output, "no C++ compiler found; tried:\n  /nonexistent/c++ ($CXX)\nhint: ");
    }
}

#[test]
fn a_cache_that_cannot_be_written_says_why() {
    let root = bench();
    std::fs::write(root.path().join("file"), "").unwrap();
    for command in ["sweep", "test-one"] {
        let words = [command, "my kernels/blur.toml", "--device", "host"];
        let output = evo(root.path()).args(words).env("EVO_CACHE_DIR", "file").output().unwrap();
        refused(root.path(), &output, "cannot write the compile cache `");
        refused(root.path(), &output, "/file`: Not a directory\nhint: ");
    }
}

#[test]
fn a_board_that_cannot_be_read_is_the_users_to_mend() {
    let root = bench();
    std::fs::create_dir_all(root.path().join("board/leaderboard.json")).unwrap();
    let output = evo(root.path()).args(["leaderboard", "--out", "board"]).output().unwrap();
    refused(root.path(), &output, "`board/leaderboard.json` is a folder, not a file");
    let output = evo(root.path()).args(["leaderboard", "--rebuild", "--out", "board"]).output().unwrap();
    refused(root.path(), &output, "no study under `board` has a journal\nhint: ");
}

#[test]
fn a_full_stdout_is_an_error_and_a_closed_one_is_none() {
    let root = bench();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let words = ["render", "my kernels/blur.toml"];
    let output = evo(root.path()).args(words).stdout(full).stderr(Stdio::piped()).output().unwrap();
    ended(root.path(), &output, 4, "cannot write to stdout: No space left on device");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = evo(root.path()).args(words).stdout(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

/// A sweep of 200 recorded configurations into a disk of so many bytes.
fn sweep_on_small_disk(root: &Path, bytes: u32) -> Option<Output> {
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/stencil__invented.json");
    let sweep = "exec \"$0\" sweep --device replay:$RECORDING --out disk/evidence --budget 200";
    let mut command = on_small_disk(root, bytes, sweep)?;
    Some(command.env("RECORDING", recording).output().unwrap())
}

#[test]
fn a_disk_that_becomes_full_is_not_wrong_usage() {
    let root = tempfile::tempdir().unwrap();
    let Some(output) = sweep_on_small_disk(root.path(), 64 << 10) else { return };
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{message}");
    let expected = "error: no space left on the device that holds `disk/evidence/";
    assert!(message.contains(expected), "{message}");
    assert!(message.contains("\nhint: everything before this record is safe; make room"), "{message}");
}

#[test]
fn odd_folder_names_work_and_the_repeat_command_is_quoted() {
    let root = bench();
    let out = OsString::from_vec(b"out \xff".to_vec());
    let words = ["sweep", "my kernels/blur.toml", "--device", "host", "--budget", "1", "--finalists", "0"];
    let mut sweep = evo(root.path());
    let output = sweep.args(words).args(BRIEF.split(' ')).arg("--out").arg(&out).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(root.path().join(&out).join("box_blur-host/journal.jsonl").exists());
    let words = ["test-one", "my kernels/blur.toml", "64", "--device", "host"];
    let output = evo(root.path()).args(words).args(BRIEF.split(' ')).output().unwrap();
    let again = "again: evo test-one 'my kernels/blur.toml' 64 ";
    assert!(text(&output.stdout).contains(again), "{}", text(&output.stdout));
}
