//! Sizes as macros: of a plain source, which is compiled for each set of them, and of its reference, which is compiled once.

use std::fs;

use evo::kernel::load::load_file;

use crate::support::{BRIEF, evo};

const SPACE: &str = r#"[kernel]
name = "blur"
source = "blur.cu"
specialize = ["WIDTH", "RADIUS"]
[parameters]
BLOCK = [32, 64]
[[arguments]]
name = "x"
dtype = "f32"
shape = ["ROWS", "WIDTH"]
role = "input"
[[arguments]]
name = "y"
dtype = "f32"
shape = ["ROWS", "WIDTH"]
role = "output"
[[launches]]
entry = "blur"
grid = "ROWS"
block = "BLOCK"
[[problems]]
name = "wide"
sizes = { ROWS = 40, WIDTH = 96, RADIUS = 2 }
[[problems]]
name = "narrow"
sizes = { ROWS = 3, WIDTH = 17, RADIUS = 1 }
timed = false
[check]
seeds = 1
repeats = 2
tiny = [{ ROWS = 1, WIDTH = "BLOCK + 1" }, { ROWS = 2, WIDTH = 5 }]
reference = { source = "naive.cu", entry = "naive", grid = "ROWS", block = 1, sizes = ["WIDTH", "RADIUS"] }
"#;

/// Its sizes are extents of an array and a bound of an unrolled loop, so they have to be constants.
const KERNEL: &str = r#"#if RADIUS < 1
#error "no radius"
#endif
extern "C" __global__ void blur(const float* x, float* y) {
    __shared__ float row[WIDTH + 2 * RADIUS];
    const float* own = x + blockIdx.x * WIDTH;
    for (int i = threadIdx.x; i < WIDTH + 2 * RADIUS; i += BLOCK) {
        int at = i - RADIUS;
        row[i] = at >= 0 && at < WIDTH ? own[at] : 0.0f;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < WIDTH; i += BLOCK) {
        float sum = 0.0f;
        #pragma unroll
        for (int k = 0; k <= 2 * RADIUS; ++k) sum += row[i + k];
        y[blockIdx.x * WIDTH + i] = sum;
    }
}
"#;

const NAIVE: &str = r#"extern "C" __global__ void naive(const float* x, float* y) {
    const float* own = x + blockIdx.x * WIDTH;
    for (int i = 0; i < WIDTH; ++i) {
        double sum = 0.0;
        for (int at = max(i - RADIUS, 0); at <= min(i + RADIUS, WIDTH - 1); ++at) sum += own[at];
        y[blockIdx.x * WIDTH + i] = sum;
    }
}
"#;

fn folder(space: &str, kernel: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("blur.toml", space), ("blur.cu", kernel), ("naive.cu", NAIVE)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn verdict(kernel: &str) -> String {
    let folder = folder(SPACE, kernel);
    let words = format!("test-one ./blur.toml --device host --seed 3 {BRIEF} --json");
    let output = evo(folder.path(), &words).output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    format!("{} {}", answer["result"]["verdict"], answer["result"]["message"])
}

fn message(from: &str, to: &str) -> String {
    assert!(SPACE.contains(from), "there is no {from:?}");
    let folder = folder(&SPACE.replacen(from, to, 1), KERNEL);
    let shown = load_file(&folder.path().join("blur.toml"))
        .map_or_else(|error| error.to_string(), |_| "no error".to_string());
    shown.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn kernel_and_reference_read_sizes_by_name() {
    let own = verdict(KERNEL);
    assert!(own.starts_with("\"pass\""), "{own}");
}

#[test]
fn a_kernel_that_is_right_for_one_set_of_sizes_is_caught() {
    let narrow = KERNEL.replace("k <= 2 * RADIUS", "k <= 2 * RADIUS - (WIDTH == 17)");
    let own = verdict(&narrow);
    assert!(own.starts_with("\"wrong_answer"), "{own}");
}

#[test]
fn sizes_of_a_reference_are_sizes_of_every_problem() {
    insta::assert_snapshot!(message("sizes = [\"WIDTH\", \"RADIUS\"]", "sizes = [\"WITDH\"]"), @r#"
    error: `sizes` of `reference` of `check`: unknown name `WITDH`
      --> blur.toml:32:88
       |
    32 | reference = { source = "naive.cu", entry = "naive", grid = "ROWS", block = 1, sizes = ["WITDH"] }
       |                                                                                        ^^^^^^^
       |
       = hint: did you mean `WIDTH`?
    "#);
    insta::assert_snapshot!(message("sizes = [\"WIDTH\", \"RADIUS\"]", "sizes = [\"BLOCK\"]"), @r#"
    error: `sizes` of `reference` of `check`: unknown name `BLOCK`
      --> blur.toml:32:88
       |
    32 | reference = { source = "naive.cu", entry = "naive", grid = "ROWS", block = 1, sizes = ["BLOCK"] }
       |                                                                                        ^^^^^^^
       |
       = hint: known names: RADIUS, ROWS, WIDTH
    "#);
}
