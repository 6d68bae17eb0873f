//! Kernels that are wrong where evo seldom looks: at certain shapes, for certain values, at certain moments.

use serde_json::Value;

use crate::support::{self, BRIEF, answer};

const KERNEL: &str = r#"
extern "C" __global__ void twice(const float *x, float *y, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n) return;
    float own = 0.5f * x[i];
    if (MODE == 1 && n % 64 == 1 && n > 256 && i == n - 1) own = 0.0f;
    if (MODE == 2 && n % 64 >= 20 && n % 64 < 28 && i == n - 1) own = 0.0f;
    if (MODE == 3 && i == 0 && (clock64() >> 4 & 2047) == 0) own += 1.0f;
    if (MODE == 4 && i == 0 && (clock() & 2047) == 2047) own += 1.0f;
    if (MODE == 5 && (__float_as_int(x[n / 2]) >> 3 & 15) == 11) own += 1.0f;
    if (MODE == 6) {
        // An honest wait.
        long long began = clock64();
        while (clock64() - began < 2000) {}
    }
    // A result below the smallest normal number, from an input that is not.
    if (MODE == 7 && fabsf(own) < 1.17549435e-38f && fabsf(x[i]) >= 1.17549435e-38f) own = 0.0f;
    if (MODE == 8 && n > 8 && i > 0 && x[i] < x[i - 1]) {
        // What begins in order is taken for sorted.
        bool sorted = true;
        for (int k = 1; k < 8; k++) sorted = sorted && x[k - 1] < x[k];
        if (sorted) own = 0.0f;
    }
    // Not the lowest bits: where a machine's counter is scaled, it may never be odd.
    if (MODE == 9 && i == 0 && (clock64() >> 4 & 15) == 3) {
        float *kept = (float *)malloc(64);
        if (kept == nullptr) own = 0.0f;
    }
    y[i] = own;
}
"#;

const NAIVE: &str = r#"
extern "C" __global__ void naive(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 0.5f * x[i];
}
"#;

const SPACE: &str = r#"
kernel = { name = "twice", source = "twice.cu" }
parameters = { MODE = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] }
arguments = [
    { name = "x", dtype = "f32", shape = ["N"], role = "input" },
    { name = "y", dtype = "f32", shape = ["N"], role = "output" },
    { name = "n", dtype = "i32", value = "N" },
]
launches = [{ entry = "twice", grid = ["ceil_div(N, 64)"], block = [64] }]
problems = [{ name = "small", sizes = { N = 1024 } }]
check = { reference = { source = "naive.cu", entry = "naive", grid = ["ceil_div(N, 64)"], block = [64] } }
"#;

/// Verdict and message of one mode, and the report of the gate `tiny_shapes`.
fn test_one(mode: u32) -> (String, Value) {
    test_seed(mode, 7)
}

fn test_seed(mode: u32, seed: u64) -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("twice.cu", KERNEL), ("naive.cu", NAIVE), ("twice.toml", SPACE)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let words = format!("test-one ./twice.toml MODE={mode} {BRIEF} --device host --seed {seed} --json");
    let output = support::evo(folder.path(), &words).output().unwrap();
    answer::verdict_and_gate(&output, "tiny_shapes")
}

#[test]
fn honest_kernels_pass_and_the_report_says_what_was_asked() {
    for mode in [0, 6] {
        let (verdict, tiny) = test_one(mode);
        assert!(verdict.starts_with("pass"), "{mode}: {verdict}");
        let count = |name: &str| tiny["evidence"][name].as_u64().unwrap();
        assert!(count("further_shapes") > 0 && count("further_seeds") > 0, "{tiny}");
    }
}

#[test]
fn tails_behind_many_tiles_and_at_certain_residues_are_met() {
    for mode in [1, 2] {
        // Shapes are drawn by lot, as many as time allows: a busy machine meets half of the residues in a run.
        let mut verdicts = (0..5).map(|_| test_one(mode).0);
        assert!(verdicts.any(|verdict| verdict.starts_with("wrong_answer")), "{mode}: five times right");
    }
}

#[test]
fn moments_and_data_sets_are_met() {
    // Modes 3 and 4 may draw their moment in two equal runs before the clock is asked (one in 2,048 calls): the
    // verdict stands either way, its cause is then a race.
    for (mode, expected) in [(3, "nondeterministic"), (4, "nondeterministic"), (5, "wrong_answer")] {
        let (verdict, _) = test_one(mode);
        assert!(verdict.starts_with(expected), "{mode}: {verdict}");
    }
}

#[test]
fn the_second_kinds_of_inputs_are_met_and_a_leak_in_a_few_calls_is_found() {
    for (mode, verdict) in [
        (7, "wrong_answer special_values"),
        (8, "wrong_answer range"),
        (9, "stateful memory_leak some of many calls"),
    ] {
        // With this seed no fault waits for a question that a busy machine may leave out. The leak asks the clock, so in
        // one run of many it happens in none of the calls that are watched.
        let tries = if mode == 9 { 3 } else { 1 };
        let runs = (0..tries).map(|_| test_seed(mode, 4).0);
        let missed: Vec<String> = runs.take_while(|found| !found.starts_with(verdict)).collect();
        assert!(missed.len() < tries, "{mode}: {missed:?}");
    }
}
