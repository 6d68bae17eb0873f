//! Weighted sums of rows: an honest kernel that is compensated and keeps halves in static shared memory, and kernels that
//! are wrong where two sizes are equal or one operand is zero.

use serde_json::Value;

use crate::support::{BRIEF, evo};

const SPACE: &str = r#"
kernel = { name = "weigh", source = "weigh.cu" }
parameters = { MODE = [0, 1, 2] }
arguments = [
    { name = "x", dtype = "f32", shape = ["M", "N"], role = "input" },
    { name = "w", dtype = "f32", shape = ["N"], role = "input" },
    { name = "y", dtype = "f32", shape = ["M"], role = "inout" },
    { name = "m", dtype = "i32", value = "M" },
    { name = "n", dtype = "i32", value = "N" },
]
launches = [{ entry = "weigh", grid = "ceil_div(M, 32)", block = 32 }]
problems = [{ name = "p", sizes = { M = 70, N = 50 } }]
check = { seeds = 1, repeats = 2, reference = { source = "naive.cu", entry = "naive", grid = "ceil_div(M, 32)", block = 32 } }
"#;

const SOURCE: &str = r#"
#include <cuda_fp16.h>
extern "C" __global__ void weigh(const float* x, const float* w, float* y, int m, int n) {
    __shared__ half ones[32];
    int t = threadIdx.x, row = blockIdx.x * 32 + t;
    ones[t] = __float2half(1.0f);
    __syncthreads();
    if (row >= m) return;
    float sum = 0.0f, lost = 0.0f;
    for (int i = 0; i < n; i++) {
        float term = x[row * n + i] * w[i] - lost, next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    sum *= __half2float(ones[31 - t]);
    if (MODE == 1 && m == n && row == m - 1) sum += x[0];
    y[row] = MODE == 2 && sum == 0.0f ? 0.0f : sum + y[row];
}
"#;

const NAIVE: &str = r#"
extern "C" __global__ void naive(const REAL* x, const REAL* w, REAL* y, int m, int n) {
    int row = blockIdx.x * 32 + threadIdx.x;
    if (row >= m) return;
    REAL sum = 0;
    for (int i = 0; i < n; i++) sum += x[row * n + i] * w[i];
    y[row] += sum;
}
"#;

fn judge(mode: u32) -> Value {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("weigh.toml", SPACE), ("weigh.cu", SOURCE), ("naive.cu", NAIVE)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let words = format!("test-one weigh.toml MODE={mode} {BRIEF} --device host --seed 7 --json");
    let output = evo(folder.path(), &words).output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// A compensated sum of infinities is NaN, and the compiler gives arrays of halves a flag of its own.
#[test]
fn a_compensated_sum_with_halves_in_shared_memory_is_honest() {
    let answer = judge(0);
    assert_eq!(answer["verdict"], "pass", "{answer:#}");
    let full = answer["gates"].as_array().unwrap().iter().find(|gate| gate["gate"] == "full_shapes").unwrap();
    assert!(full["evidence"]["instrumented_cases"].as_u64().unwrap() > 2, "{full:#}");
}

#[test]
fn equal_sizes_and_an_operand_of_zeros_are_met() {
    let square = judge(1);
    assert_eq!(square["verdict"], "wrong_answer", "{square:#}");
    assert_eq!(square["evidence"]["sizes"]["M"], square["evidence"]["sizes"]["N"], "{square:#}");
    let zero = judge(2);
    assert_eq!(zero["verdict"], "wrong_answer", "{zero:#}");
    // Whole numbers may add up to 0 too, and may come first.
    let message = zero["message"].as_str().unwrap();
    assert!(zero["evidence"]["family"] == "mixed" || message.contains("`mixed`"), "{zero:#}");
}
