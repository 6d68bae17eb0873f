//! `evo selftest crash` as a program, at a small count.

use std::process::{Command, Stdio};

use serde_json::Value;

/// Kills in this test; the command by itself makes 200.
const COUNT: &str = "12";

#[test]
fn killed_and_resumed_sweeps_come_to_the_same_verdicts() {
    // Another seed in each build is another test; a failing one is printed, and `EVO_SEED` repeats it.
    let seed = std::env::var("EVO_SEED").unwrap_or_else(|_| "20260".to_string());
    let output = Command::new(env!("CARGO_BIN_EXE_evo"))
        .args(["selftest", "crash", "--json", "--seed", &seed, "--count", COUNT])
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
    let killed = result["killed"].as_object().unwrap();
    assert!(killed.values().filter_map(Value::as_u64).sum::<u64>() >= 4, "{result:#}");
}
