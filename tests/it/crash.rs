//! `evo selftest crash` as a program, at a small count.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support;

/// Kills in this test; the command by itself makes 200.
const COUNT: &str = "12";

/// Kills at moments of this seed; how many were in time.
fn killed_with(seed: u64) -> u64 {
    let output = Command::new(env!("CARGO_BIN_EXE_evo"))
        .args(["selftest", "crash", "--json", "--seed", &seed.to_string(), "--count", COUNT])
        .env("EVO_CACHE_DIR", support::cache())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!(
        (output.status.code(), &result["passed"]),
        (Some(0), &Value::from(true)),
        "{result:#}\n{said}"
    );
    assert_eq!((&result["variants"], &result["count"]), (&Value::from(12), &Value::from(12)));
    result["killed"].as_object().unwrap().values().filter_map(Value::as_u64).sum()
}

#[test]
fn killed_and_resumed_sweeps_come_to_the_same_verdicts() {
    // A failing seed is printed, and `EVO_SEED` repeats it.
    let first: u64 = std::env::var("EVO_SEED").map_or(20_260, |seed| seed.parse().unwrap());
    let mut killed = 0;
    // On a machine where nothing else runs many moments come too late.
    for seed in (first..).step_by(100).take(4) {
        killed += killed_with(seed);
        if killed >= 4 {
            return;
        }
    }
    panic!("only {killed} kills were in time");
}
