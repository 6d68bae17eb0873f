//! Tests that cannot run here say so. The line goes to stderr itself, because the test harness keeps the
//! output of `eprintln!` of passing tests to itself.

use std::io::Write as _;

/// Says that the test at work is skipped for want of something.
pub fn skipped(missing: &str) {
    let thread = std::thread::current();
    let _ = writeln!(std::io::stderr(), "skipped: {}: {missing}", thread.name().unwrap_or("a test"));
}
