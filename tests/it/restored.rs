//! Inputs that a kernel may destroy: restored before each call, and no part of the answer.

use std::fs;

use evo::kernel::load::load_file;
use serde_json::Value;

use crate::support::{BRIEF, evo};

const SPACE: &str = r#"[kernel]
name = "row_max"
source = "row_max.cu"
[parameters]
BLOCK = [32, 64]
[[arguments]]
name = "x"
dtype = "f32"
shape = ["ROWS", "COLUMNS"]
role = "inout"
restore = true
[[arguments]]
name = "y"
dtype = "f32"
shape = ["ROWS"]
role = "output"
[[arguments]]
name = "columns"
dtype = "i32"
value = "COLUMNS"
[[launches]]
entry = "row_max"
grid = "ROWS"
block = "BLOCK"
[[problems]]
name = "rows"
sizes = { ROWS = 20, COLUMNS = 200 }
[check]
seeds = 1
repeats = 2
tiny = [{ ROWS = 1, COLUMNS = 1 }, { ROWS = 2, COLUMNS = 67 }]
reference = { source = "naive.cu", entry = "naive", grid = "ROWS", block = 1 }
"#;

/// Folds a row onto itself.
const KERNEL: &str = r#"extern "C" __global__ void row_max(float* x, float* y, int columns) {
    float* row = x + blockIdx.x * columns;
    for (int left = columns; left > 1; left = (left + 1) / 2) {
        for (int i = threadIdx.x; i + (left + 1) / 2 < left; i += BLOCK) {
            float other = row[i + (left + 1) / 2];
            if (!(row[i] >= other) && row[i] == row[i]) row[i] = other;
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = row[0];
}
"#;

/// It leaves the input alone.
const NAIVE: &str = r#"extern "C" __global__ void naive(const float* x, float* y, int columns) {
    float most = x[blockIdx.x * columns];
    for (int i = 1; i < columns; ++i) {
        float own = x[blockIdx.x * columns + i];
        if (!(most >= own) && most == most) most = own;
    }
    y[blockIdx.x] = most;
}
"#;

fn folder(space: &str, kernel: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("row_max.toml", space), ("row_max.cu", kernel), ("naive.cu", NAIVE)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "there is no {from:?}");
    text.replacen(from, to, 1)
}

fn verdict(space: &str, kernel: &str) -> String {
    let folder = folder(space, kernel);
    let words = format!("test-one ./row_max.toml --device host --seed 3 {BRIEF} --json");
    let output = evo(folder.path(), &words).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let text = |key: &str| answer["result"][key].as_str().unwrap_or_default().to_string();
    format!("{}: {}", text("verdict"), text("message"))
}

#[test]
fn an_input_may_be_destroyed_where_the_file_says_so() {
    let special = changed(SPACE, "[check]\n", "[check]\nspecial_values = \"ignore\"\n");
    let own = verdict(&special, KERNEL);
    assert!(own.starts_with("pass:"), "{own}");
    // Without the word it is a part of the answer, which the reference leaves as it was.
    let own = verdict(&changed(&special, "restore = true\n", ""), KERNEL);
    assert!(own.starts_with("wrong_answer") && own.contains("`x`"), "{own}");
    let own = verdict(&changed(&special, "role = \"inout\"\nrestore = true\n", "role = \"input\"\n"), KERNEL);
    assert!(own.starts_with("input_mutated"), "{own}");
}

#[test]
fn lying_kernels_are_caught() {
    let half = changed(KERNEL, "int left = columns;", "int left = columns > 128 ? 128 : columns;");
    let own = verdict(SPACE, &half);
    assert!(own.starts_with("wrong_answer"), "{own}");
    let behind = changed(KERNEL, "if (threadIdx.x == 0) y", "if (threadIdx.x == 0) row[columns] = 0.0f, y");
    let own = verdict(SPACE, &behind);
    assert!(!own.starts_with("pass"), "{own}");
}

#[test]
fn only_an_inout_argument_is_restored() {
    let folder =
        folder(&changed(SPACE, "role = \"output\"\n", "role = \"output\"\nrestore = true\n"), KERNEL);
    let shown = load_file(&folder.path().join("row_max.toml")).unwrap_err().to_string();
    insta::assert_snapshot!(shown.replace(&format!("{}/", folder.path().display()), ""), @r#"
    error: `restore` of argument `y` has a meaning for role = "inout" only
      --> row_max.toml:17:11
       |
    17 | restore = true
       |           ^^^^
       |
       = hint: it is for an input that the kernel may overwrite: role = "inout", restore = true
    "#);
}
