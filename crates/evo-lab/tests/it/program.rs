//! The `evo-lab` program, run on this repository's recordings.

use std::path::{Path, PathBuf};

/// A recording in the data folder that the workspace's tests share.
pub const RECORDING: &str = "stencil__invented.json";

/// The data folder that the workspace's tests share.
pub fn shared_data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data")
}

/// A file of the laboratory's own test data.
pub fn own_data(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name).display().to_string()
}

/// Runs `evo-lab bench-search` in the shared data folder: exit code, stdout, stderr.
pub fn bench_search(arguments: &[&str]) -> (i32, String, String) {
    let mut command = assert_cmd::Command::cargo_bin("evo-lab").unwrap();
    let command = command.current_dir(shared_data()).arg("bench-search");
    let output = command.args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}
