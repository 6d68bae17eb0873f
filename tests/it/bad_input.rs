//! Places that cannot be written, and odd ones that can. A disk that becomes full is not a mistake of the user's command:
//! exit code 4. What else new users get wrong is told by a session.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;

use crate::exhausted::on_small_disk;
use crate::support::BRIEF;
use crate::support::stage::{Ran, Stage};

#[test]
fn a_full_stdout_is_an_error_and_a_closed_one_is_none() {
    let stage = Stage::of("examples/box_blur");
    let words = "render blur.toml";
    let full = File::options().write(true).open("/dev/full").unwrap();
    let ran = Ran::of(words, &stage.evo(words).stdout(full).output().unwrap()).ends(4);
    ran.says(&["error: cannot write to stdout: No space left on device"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    Ran::of(words, &stage.evo(words).stdout(writer).output().unwrap()).ends(0);
}

/// A sweep of 200 recorded configurations into a disk of 64 KiB.
#[test]
fn a_disk_that_becomes_full_is_not_wrong_usage() {
    let root = tempfile::tempdir().unwrap();
    let recording = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/stencil__invented.json");
    let sweep = "exec \"$0\" sweep --device replay:$RECORDING --out disk/evidence --budget 200";
    let Some(mut command) = on_small_disk(root.path(), 64 << 10, sweep) else { return };
    let ran = Ran::of(sweep, &command.env("RECORDING", recording).output().unwrap()).ends(4);
    ran.says(&[
        "error: no space left on the device that holds `disk/evidence/",
        "\nhint: everything before this record is safe; make room",
    ]);
}

#[test]
fn odd_folder_names_work() {
    let stage = Stage::of("examples/box_blur");
    let out = OsString::from_vec(b"out \xff".to_vec());
    let words = format!("sweep blur.toml --device host --budget 1 --finalists 0 {BRIEF}");
    Ran::of(&words, &stage.evo(&words).arg("--out").arg(&out).output().unwrap()).ends(0);
    assert!(stage.path().join(&out).join("box_blur-host/journal.jsonl").exists());
}
