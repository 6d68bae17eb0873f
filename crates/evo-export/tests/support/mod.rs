//! Programs that tests run.

use std::path::Path;
use std::process::Command;

/// Whether a program is there; says that the test is skipped where it is not.
pub fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|own| own.status.success());
    if !found {
        eprintln!("SKIPPED: there is no `{program}`");
    }
    found
}

#[track_caller]
pub fn printed(folder: &Path, words: &str) -> String {
    let mut words = words.split(' ');
    let program = words.next().unwrap();
    let program = if program.starts_with("./") { folder.join(program) } else { program.into() };
    let output = Command::new(program).args(words).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
