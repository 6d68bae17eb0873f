//! Tests that cannot run here say so. The line goes to stderr itself, because the test harness keeps the
//! output of `eprintln!` of passing tests to itself.

use std::io::Write as _;
use std::process::Command;

/// Says that the test at work is skipped for want of something.
pub fn skipped(missing: &str) {
    let thread = std::thread::current();
    let _ = writeln!(std::io::stderr(), "skipped: {}: {missing}", thread.name().unwrap_or("a test"));
}

/// Whether `.ci/full` runs this part of the tests that take minutes; elsewhere says that the test is skipped.
pub fn is_full(part: &str) -> bool {
    let is_asked = std::env::var("EVO_TEST_FULL").is_ok_and(|asked| asked == part);
    if !is_asked {
        skipped(&format!("it takes minutes; `.ci/full {part}` runs it"));
    }
    is_asked
}

/// Whether there are the programs that a test needs; says that it is skipped where one is missing.
pub fn has_programs(names: &[&str], what: &str) -> bool {
    let is_missing =
        |name: &&&str| !Command::new(name).arg("--version").output().is_ok_and(|own| own.status.success());
    let missing: Vec<&str> = names.iter().filter(is_missing).copied().collect();
    if !missing.is_empty() {
        skipped(&format!("there is no {}, which {what} needs", missing.join(" and no ")));
    }
    missing.is_empty()
}
