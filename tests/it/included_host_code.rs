//! Headers with the helpers of a host program: `<stdio.h>`, checks of calls, functions that allocate.

use std::fs;

use evo_protocol::verdict::Verdict;

use crate::compile::{Bench, source};
use crate::support::{BRIEF, evo};
use crate::toolchain;

const UTILS: &str = r#"#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#include <cuda_runtime.h>
#include "detail/random.h"

inline void cuda_check(cudaError_t status, const char* file, int line) {
    if (status != cudaSuccess) {
        fprintf(stderr, "%s:%d: %s\n", file, line, cudaGetErrorString(status));
        exit(EXIT_FAILURE);
    }
}
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))

template <class T> __host__ __device__ T ceil_div(T a, T b) { return (a + b - 1) / b; }
// Nothing is written on it, and a kernel calls it.
constexpr int tile() { return 64; }
__device__ inline float twice(float x) { return x + x; }
static float average(const std::vector<float>& all) { return all.empty() ? 0 : all[0]; }
"#;

/// Found beside `utils.h` alone.
const RANDOM: &str = r#"#include "seed.h"
static float* make_random(size_t n) {
    float* x = (float*)malloc(n * sizeof(float));
    for (size_t i = 0; i < n; i++) x[i] = (rand() + SEED) / (float)RAND_MAX;
    return x;
}
"#;

const KERNEL: &str = r#"#include "utils.h"
#include "utils.h"
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * tile() + threadIdx.x;
    if (i < n) y[i] = twice(x[i]);
}
int main() {
    float *x = make_random(100), *d, *e;
    cudaCheck(cudaMalloc(&d, 400));
    cudaCheck(cudaMalloc(&e, 400));
    scale<<<ceil_div(100, tile()), tile()>>>(d, e, 100);
    printf("%f\n", x[0]);
}
"#;

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("detail")).unwrap();
    for (name, text) in
        [("utils.h", UTILS), ("detail/random.h", RANDOM), ("detail/seed.h", "#define SEED 1\n")]
    {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn compiled(bench: &Bench, text: &str) -> Result<(), Verdict> {
    let folder = folder();
    let mut own = source("a", text, "scale");
    own.options.push(format!("-I{}", folder.path().display()));
    bench.compile(own).map(drop).map_err(|verdict| *verdict)
}

#[test]
fn host_code_of_headers_is_left_out_on_the_host_device() {
    compiled(&Bench::host(), KERNEL).unwrap();
}

#[test]
fn host_code_of_headers_is_left_out_under_nvrtc() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    compiled(&Bench::cuda("sm_80"), KERNEL).unwrap();
}

#[test]
fn what_a_kernel_misses_of_a_header_is_named_with_its_place() {
    // Under another name, so that no call is seen.
    let misses = KERNEL.replace("twice(x[i])", "PASTE(aver, age)(x[i])");
    let verdict = compiled(&Bench::host(), &format!("#define PASTE(a, b) a##b\n{misses}")).unwrap_err();
    let hint = "hint: host code is left out: `average` (utils.h:20); mark";
    assert!(verdict.message.contains(hint), "{}", verdict.message);
    // Errors stand where the files have them.
    let wrong = KERNEL.replace("twice(x[i])", "thrice(x[i])");
    let verdict = compiled(&Bench::host(), &wrong).unwrap_err();
    let line =
        source("a", &wrong, "scale").text.lines().position(|line| line.contains("thrice")).unwrap() + 1;
    assert!(verdict.message.contains(&format!("test.cu:{line}:")), "{line}: {}", verdict.message);
}

const SPACE: &str = r#"kernel = { name = "scale", source = "k.cu" }
arguments = [
    { name = "x", dtype = "f32", shape = ["N"], role = "input" },
    { name = "y", dtype = "f32", shape = ["N"], role = "output" },
    { name = "n", dtype = "i32", value = "N" },
]
launches = [{ entry = "scale", grid = "ceil_div(N, 64)", block = 64 }]
problems = [{ name = "p", sizes = { N = 1000 } }]
[parameters]
FACTOR = [2, 3]
[check]
reference = { source = "naive.cu", entry = "naive", grid = "ceil_div(N, 64)", block = 64 }
"#;

#[test]
fn an_edit_of_such_a_header_is_judged_anew() {
    let folder = folder();
    let naive = "#include \"utils.h\"\nextern \"C\" __global__ void naive(const float* x, float* y, int n) {\n    \
                 int i = blockIdx.x * blockDim.x + threadIdx.x;\n    if (i < n) y[i] = ceil_div(4, 2) * x[i];\n}\n";
    for (name, text) in [("space.toml", SPACE), ("k.cu", KERNEL), ("naive.cu", naive)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let verdict = || {
        let words = format!("test-one ./space.toml FACTOR=2 --device host --seed 3 {BRIEF} --json");
        let output = evo(folder.path(), &words).output().unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        answer["result"]["verdict"].as_str().unwrap_or_default().to_string()
    };
    assert_eq!(verdict(), "pass");
    fs::write(folder.path().join("utils.h"), UTILS.replace("return x + x;", "return x + x + x;")).unwrap();
    assert!(verdict().starts_with("wrong_answer"), "{}", verdict());
}

#[test]
fn a_kernel_that_takes_a_texture_is_refused_in_one_line() {
    let folder = folder();
    let kernel = "extern \"C\" __global__ void scale(cudaTextureObject_t image, float* y, int n) {\n    \
                  if (threadIdx.x < n) y[threadIdx.x] = tex1Dfetch<float>(image, threadIdx.x);\n}\n";
    for (name, text) in [("space.toml", SPACE), ("k.cu", kernel), ("naive.cu", kernel)] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let path = folder.path().join("space.toml");
    let shown = evo::kernel::load::load_file(&path).unwrap_err().to_string();
    insta::assert_snapshot!(shown.replace(&format!("{}/", folder.path().display()), ""), @r#"
    error: `scale` takes a texture or a surface, `cudaTextureObject_t image`, which evo cannot pass
     --> space.toml:7:23
      |
    7 | launches = [{ entry = "scale", grid = "ceil_div(N, 64)", block = 64 }]
      |                       ^^^^^^^
      |
      = hint: pass the data as a buffer: `__ldg` reads it through the same cache
    "#);
}
