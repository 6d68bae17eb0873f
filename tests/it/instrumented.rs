//! Instrumented runs as `evo test-one` makes them: faults that change no output, and honest oddities.

use serde_json::Value;

use crate::support::{self, BRIEF, answer};

const KERNEL: &str = r#"
extern "C" __global__ __attribute__((no_sanitize("thread"))) void twin(const float *x, float *y, float *work, int n) {
    __shared__ float tile[64];
    __shared__ float unset[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (MODE != 6) tile[t] = i < n ? x[i] : 0.0f;
    float left = 0.0f;
    if (MODE == 1) left = tile[(t + 1) % 64] == 12345.5f ? 1.0f : 0.0f;
    if (MODE != 6) __syncthreads();
    if (MODE == 2 && n % 4 == 1 && i == 0 && x[n] == 12345.5f) left = 1.0f;
    if (MODE == 3 && unset[t] > 1e30f) left = 1.0f;
    if (MODE == 4 && unset[t] == unset[t] && i >= n) tile[t] = unset[t];
    if (MODE == 5) work[i % n] = i;
    volatile float *open = tile;
    if (MODE == 6 && t > 0 && i < n) left = open[t - 1] - x[i - 1];
    if (MODE == 6) open[t] = i < n ? x[i] : 0.0f;
#if defined(EVO_INSTRUMENTED) || defined(__SANITIZE_THREAD__)
    left = 0.0f;
#endif
    if (i < n) y[i] = 2.0f * tile[t] + left;
}
"#;

const NAIVE: &str = r#"
extern "C" __global__ void naive(const float *x, float *y, float *work, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
"#;

const SPACE: &str = r#"
[kernel]
name = "twin"
source = "twin.cu"
[parameters]
MODE = { values = [0, 1, 2, 3, 4, 5, 6], default = 0 }
[[arguments]]
name = "x"
dtype = "f32"
shape = ["N"]
role = "input"
[[arguments]]
name = "y"
dtype = "f32"
shape = ["N"]
role = "output"
[[arguments]]
name = "work"
dtype = "f32"
shape = ["N"]
role = "scratch"
[[arguments]]
name = "n"
dtype = "i32"
value = "N"
[[launches]]
entry = "twin"
grid = ["ceil_div(N, 64)"]
block = [64]
[[problems]]
name = "small"
sizes = { N = 4096 }
[check]
reference = { source = "naive.cu", entry = "naive", grid = ["ceil_div(N, 64)"], block = [64] }
tiny = [{ N = 65 }, { N = 130 }]
"#;

/// A compiler that has no sanitizers.
const PLAIN_COMPILER: &str = r#"#!/bin/sh
case "$*" in *-fsanitize*) echo "no sanitizers here: error" >&2; exit 1;; esac
exec c++ "$@"
"#;

/// A compiler as some systems have it: it checks the lengths that the C library's functions get.
const FORTIFYING_COMPILER: &str = "exec c++ -D_FORTIFY_SOURCE=2 \"$@\"\n";

/// The verdict of one mode, and the report of the gate `full_shapes`.
fn test_one(mode: u32) -> (String, Value) {
    test_one_with(mode, "", None)
}

/// The same with a line before the kernel, by another compiler.
fn test_one_with(mode: u32, head: &str, compiler: Option<&str>) -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    if let Some(text) = compiler {
        std::fs::write(folder.path().join("cxx"), text).unwrap();
    }
    let kernel = format!("{head}{KERNEL}");
    for (name, text) in [("twin.cu", kernel.as_str()), ("naive.cu", NAIVE), ("twin.toml", SPACE)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let words = format!("test-one ./twin.toml MODE={mode} {BRIEF} --device host --seed 7 --json");
    let mut command = support::evo(folder.path(), &words);
    if compiler.is_some() {
        command.env("CXX", format!("sh {}", folder.path().join("cxx").display()));
    }
    let output = command.output().unwrap();
    answer::verdict_and_gate(&output, "full_shapes")
}

#[test]
fn faults_without_an_effect_are_found() {
    let check = |mode: u32, parts: &[&str]| {
        let (found, _) = test_one(mode);
        assert!(parts.iter().all(|part| found.contains(part)), "mode {mode}: {found}");
    };
    check(1, &["nondeterministic race", "`tile[", "without a barrier in between", "(line "]);
    check(2, &["oob_read", "`x`"]);
    check(3, &["wrong_answer"]);
    // A flag read too early: only other moments at which threads take turns show it.
    let (found, _) = test_one(6);
    assert!(found.starts_with("wrong_answer") || found.starts_with("nondeterministic"), "{found}");
    check(5, &["nondeterministic race", "`work["]);
}

#[test]
fn honest_variants_pass_and_say_how_often_they_were_watched() {
    let (found, full) = test_one(0);
    assert_eq!(found.trim(), "pass");
    // Two small shapes and the timed one, each under two orders.
    assert_eq!(full["evidence"]["instrumented_cases"], 6, "{full}");
    assert!(full["message"].as_str().unwrap().contains("6 instrumented cases"), "{full}");

    // What lies in the unused part of a tile is read and never stored.
    let (found, full) = test_one(4);
    assert_eq!(found.trim(), "pass");
    let notes = full["evidence"]["instrumented_notes"].to_string();
    assert!(notes.contains("which nothing has written"), "{full}");
}

/// A long chain of multiplications and additions, which the instrumented build does not fuse.
#[test]
fn rounding_of_the_instrumented_build_is_not_held_against_the_variant() {
    let folder = tempfile::tempdir().unwrap();
    let space = concat!(env!("CARGO_MANIFEST_DIR"), "/evidence/commands/work.toml");
    let words = format!("ROUNDS=1000 {BRIEF} --device host --seed 7 --json");
    let mut command = support::evo(folder.path(), "test-one");
    let output = command.arg(space).args(words.split(' ')).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&answer["verdict"], output.status.code()), (&"pass".into(), Some(0)), "{answer:#}");
}

#[test]
fn a_build_that_fails_is_not_held_against_the_variant() {
    let (found, full) = test_one_with(0, "", Some(PLAIN_COMPILER));
    assert_eq!(found.trim(), "pass");
    assert_eq!(full["evidence"]["instrumented_cases"], 0, "{full}");
    let message = full["message"].as_str().unwrap();
    assert!(message.contains("instrumented cases not run: compile_error"), "{message}");
}

#[test]
fn kernels_that_use_the_c_library_are_watched_where_the_system_fortifies_it() {
    let (found, full) = test_one_with(0, "#include <string.h>\n", Some(FORTIFYING_COMPILER));
    assert_eq!(found.trim(), "pass");
    assert_eq!(full["evidence"]["instrumented_cases"], 6, "{full}");
}

/// What a GPU's finalists are asked, here by hand: `evo sanitize` looks on the host device whatever the device is.
#[test]
fn the_host_twin_names_faults_that_no_answer_shows() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("twin.cu", KERNEL), ("naive.cu", NAIVE), ("twin.toml", SPACE)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let look = |words: &str| {
        let output = support::evo(folder.path(), words).output().unwrap();
        let object: Value = serde_json::from_slice(&output.stdout).unwrap();
        let stand_ins = object["result"]["stand_ins"].as_array().unwrap().clone();
        (output.status.code(), object, stand_ins.into_iter().find(|own| own["name"] == "host_twin"))
    };
    for (mode, label, part) in [
        (1, "nondeterministic:race", "`tile["),
        (2, "oob_read", "`x`"),
        (3, "wrong_answer:uninitialized", "before writing them"),
        (5, "nondeterministic:race", "`work["),
    ] {
        let words = format!("sanitize ./twin.toml MODE={mode} --device host --seed 7 --json");
        let (code, object, twin) = look(&words);
        let twin = twin.unwrap();
        assert_eq!(
            (code, &twin["ran"], &twin["message"]),
            (Some(1), &true.into(), &label.into()),
            "{object}"
        );
        let result = &object["result"];
        assert_eq!((&result["state"], &result["verdict"]), (&"fail".into(), &label.into()), "{object}");
        let what = result["findings"][0]["what"].as_str().unwrap();
        assert!(what.starts_with("seen on the host device: ") && what.contains(part), "{what}");
    }
    // The honest one is not vouched for: on a GPU the tool has the last word.
    let (code, object, twin) = look("sanitize ./twin.toml MODE=0 --device host --seed 7 --json");
    let said = twin.unwrap()["message"].to_string();
    assert!(said.contains("no fault in 6 instrumented cases"), "{said}");
    assert_eq!((code, &object["result"]["state"]), (Some(1), &"not_run".into()), "{object}");

    let without = SPACE.replace("[check]\n", "[check]\nhost_twin = false\n");
    std::fs::write(folder.path().join("twin.toml"), without).unwrap();
    let (_, object, twin) = look("sanitize ./twin.toml MODE=1 --device host --seed 7 --json");
    assert!(twin.is_none(), "{object}");
}
