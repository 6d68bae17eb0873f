//! `y = 2 x`: a kernel whose variants differ by far in time, so that no machine's noise reaches the difference.

use std::fs;

use tempfile::TempDir;

/// After `WORK` steps that change nothing; wrong where `FAULT` is 1, endless where it is 2.
pub const SOURCE: &str = r#"
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int at = blockIdx.x * 64 + threadIdx.x;
    if (FAULT == 2) while (at >= 0) at = at + 0 * (int)clock();
    if (at >= n) return;
    volatile float value = x[at];
    for (int step = 0; step < WORK; ++step) value = value + 0.0f;
    y[at] = FAULT == 1 ? value : 2.0f * value;
}
"#;

/// Its reference.
pub const NAIVE: &str = r#"
extern "C" __global__ void naive(const float* x, float* y, int n) {
    for (int at = 0; at < n; ++at) y[at] = 2.0f * x[at];
}
"#;

/// All of its space file but the arguments.
pub const HEAD: &str = concat!(
    r#"
[parameters]
WORK = { values = [1, 80, 500], default = 80 }
FAULT = { values = [0, 1, 2], default = 0 }
"#,
    scale_kernel!("64"),
    scale_problem!("p", "2000"),
    scale_check!()
);

/// A space file with this head, and the arguments of a kernel from a vector to another one.
pub fn space(head: &str) -> String {
    format!("{head}\n{}", vectors!())
}

/// A folder with the kernel.
pub fn stage() -> TempDir {
    stage_with("scale.cu", SOURCE, HEAD)
}

/// A folder with `scale.toml` of another head, its kernel under this name, and the reference.
pub fn stage_with(kernel: &str, source: &str, head: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write(kernel, source);
    write("naive.cu", NAIVE);
    write("scale.toml", &space(head));
    folder
}
