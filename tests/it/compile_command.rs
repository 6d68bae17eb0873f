//! `evo compile`: the table, the objects and the exit codes, without a device.

use serde_json::{Value, json};

use crate::support::answer::holds;
use crate::support::stage::{Ran, Stage};
use crate::toolchain;

/// One parameter of the space breaks the source, one asks for too much shared memory, the others are good.
fn run(stage: &Stage, words: &str) -> Ran {
    let mut command = stage.evo(&format!("compile stage.toml {words}"));
    command.env("EVO_CACHE_DIR", stage.at("cache"));
    if let Ok(folder) = toolchain::nvrtc() {
        command.env("EVO_NVRTC_DIR", folder);
    }
    Ran::of(words, &command.output().unwrap())
}

#[test]
fn all_variants_are_listed_in_order_with_their_verdicts() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let ran = run(&Stage::of("stage"), "--all --arch sm_89 --json").ends(0);
    let objects: Value = ran.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
    // 90 KiB of dynamic and 12 KiB of static memory each fit an sm_89, and together do not.
    let expected = json!({
        "last.schema": "evo.compile", "last.variants": 10, "0.entries.0.shared_static_bytes": 12_288,
        "0.entries.0.shared_dynamic_bytes": 1024, "0.entries.0.threads": 64, "0.entries.0.threads_max": 64,
    });
    holds(&objects, &expected);
    let shown = |object: &Value| {
        let value = |name: &str| object["configuration"][name].to_string();
        let kind = object["verdict"]["kind"].as_str().unwrap_or("fits");
        format!("{} {} {} {kind}", value("BLOCK"), value("KIB"), value("BROKEN"))
    };
    let seen: Vec<String> = objects.as_array().unwrap()[..10].iter().map(shown).collect();
    let of_block = |block: u32| {
        ["1 0 fits", "1 1 compile_error", "40 0 fits", "90 0 static_reject", "120 0 static_reject"]
            .map(|rest| format!("{block} {rest}"))
    };
    assert_eq!(seen, [of_block(64), of_block(128)].concat());
    ran.says(&["10 variants for sm_89 by nvrtc", "4 fit, 2 compile_error, 4 static_reject:smem"]);
}

#[test]
fn a_single_failure_is_the_exit_code_and_names_the_line() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let stage = Stage::of("stage");
    let told = ["compile_error", "stage.cu(3): catastrophic error"];
    run(&stage, "BROKEN=1 --arch sm_80").ends(1).says(&told);
    run(&stage, "64 40 1 --arch sm_80").ends(1).says(&["rejected_constraint", "one trouble at a time"]);
    run(&stage, "128 --arch sm_80").ends(0);
}

#[test]
fn the_host_compiler_serves_too_and_a_second_run_comes_from_the_cache() {
    let stage = Stage::of("stage");
    let words = "--sample 4 --seed 3 --arch host";
    let first = run(&stage, words).ends(0).says(&["4 variants for host by"]);
    let second = run(&stage, words).says(&["\n0 compiled and"]);
    assert_eq!(first.out, second.out);
}
