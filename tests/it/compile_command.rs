//! `evo compile`: the table, the objects and the exit codes, without a device.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

use crate::toolchain;

/// One parameter breaks the source, one asks for too much shared memory, the others are good.
const SPACE: &str = include_str!("../data/kernels/stage/space.toml");

const SOURCE: &str = include_str!("../data/kernels/stage/stage.cu");

fn space() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("stage.toml"), SPACE).unwrap();
    fs::write(folder.path().join("stage.cu"), SOURCE).unwrap();
    fs::write(folder.path().join("naive.cu"), "extern \"C\" __global__ void stage(float* x) {}").unwrap();
    folder
}

/// Runs the command in `folder` with a cache of its own; exit code, stdout, stderr.
fn run(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
    command.current_dir(folder).env("EVO_CACHE_DIR", folder.join("cache")).arg("compile").args(arguments);
    if !arguments.contains(&"host")
        && let Ok(folder) = toolchain::nvrtc()
    {
        command.env("EVO_NVRTC_DIR", folder);
    }
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn all_variants_are_listed_in_order_with_their_verdicts() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let folder = space();
    let (code, stdout, stderr) = run(folder.path(), &["stage.toml", "--all", "--arch", "sm_89", "--json"]);
    assert_eq!(code, 0, "{stderr}");
    let mut objects: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let last = objects.pop().unwrap();
    assert_eq!((&last["schema"], &last["variants"]), (&"evo.compile".into(), &10.into()));
    let seen: Vec<String> = objects
        .iter()
        .map(|object| {
            let value = |name: &str| object["configuration"][name].to_string();
            let kind = object["verdict"]["kind"].as_str().unwrap_or("fits");
            format!("{} {} {} {kind}", value("BLOCK"), value("KIB"), value("BROKEN"))
        })
        .collect();
    // 90 KiB of dynamic and 12 KiB of static memory each fit an sm_89, and together do not.
    let of_block = |block: u32| {
        ["1 0 fits", "1 1 compile_error", "40 0 fits", "90 0 static_reject", "120 0 static_reject"]
            .map(|rest| format!("{block} {rest}"))
    };
    assert_eq!(seen, [of_block(64), of_block(128)].concat());
    let entry = &objects[0]["entries"][0];
    assert_eq!(
        (&entry["shared_static_bytes"], &entry["shared_dynamic_bytes"]),
        (&12_288.into(), &1024.into())
    );
    assert_eq!((&entry["threads"], &entry["threads_max"]), (&64.into(), &64.into()));
    assert!(stderr.contains("10 variants for sm_89 by nvrtc"), "{stderr}");
    assert!(stderr.contains("4 fit, 2 compile_error, 4 static_reject:smem"), "{stderr}");
}

#[test]
fn a_single_failure_is_the_exit_code_and_names_the_line() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let folder = space();
    let (code, stdout, _) = run(folder.path(), &["stage.toml", "BROKEN=1", "--arch", "sm_80"]);
    assert_eq!(code, 1);
    assert!(
        stdout.contains("compile_error") && stdout.contains("stage.cu(3): catastrophic error"),
        "{stdout}"
    );
    let (code, stdout, _) = run(folder.path(), &["stage.toml", "64", "40", "1", "--arch", "sm_80"]);
    assert_eq!(code, 1);
    assert!(stdout.contains("rejected_constraint") && stdout.contains("one trouble at a time"), "{stdout}");
    let (code, stdout, _) = run(folder.path(), &["stage.toml", "128", "--arch", "sm_80"]);
    assert_eq!(code, 0, "{stdout}");
}

#[test]
fn the_host_compiler_serves_too_and_a_second_run_comes_from_the_cache() {
    let folder = space();
    let arguments = ["stage.toml", "--sample", "4", "--seed", "3", "--arch", "host"];
    let (code, first, stderr) = run(folder.path(), &arguments);
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("4 variants for host by"), "{stderr}");
    let (_, second, stderr) = run(folder.path(), &arguments);
    assert_eq!(first, second);
    assert!(stderr.contains("\n0 compiled and"), "{stderr}");
}
