//! `evo selftest alarms` as a program on the host device: a configuration of each kernel that ships.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support;

fn alarms(words: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
    command.current_dir(folder.path()).args(["selftest", "alarms", "--device", "host"]).args(words);
    command.env("EVO_CACHE_DIR", support::cache()).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn gates_and_plain_loops_agree_that_shipped_kernels_are_right() {
    let output = alarms(&["--count", "8", "--json"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {told}"));
    assert_eq!(output.status.code(), Some(0), "{told}{answer:#}");
    let spaces = answer["spaces"].as_array().unwrap();
    assert_eq!(spaces.len(), 8);
    for space in spaces {
        assert_eq!((&space["judged"], &space["right"]), (&1.into(), &1.into()), "{told}{space:#}");
        assert!(space["elements"].as_u64().unwrap() > 0, "{space:#}");
        // Moving data is exact, and the other kernels round.
        let worst = space["worst"].as_f64().unwrap();
        assert!(if space["space"] == "transpose" { worst == 0.0 } else { worst > 0.0 }, "{space:#}");
    }
}

#[test]
fn an_unknown_space_and_no_configuration_are_not_a_pass() {
    let output = alarms(&["--only", "nobody"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("the spaces are attention_simt, attention_mma, gemm")
    );
    assert_eq!(alarms(&["--count", "0"]).status.code(), Some(1));
}
