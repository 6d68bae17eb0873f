//! `y = 2 x`: a kernel whose variants differ by far in time, so that no machine's noise reaches the difference.

use std::fs;

use tempfile::TempDir;

/// After `WORK` steps that change nothing; wrong where `FAULT` is 1, endless where it is 2.
pub const SOURCE: &str = include_str!("../../data/kernels/scale_slow/scale.cu");

/// Its reference.
pub const NAIVE: &str = include_str!("../../data/kernels/scale_slow/naive.cu");

/// All of its space file but the arguments.
pub const HEAD: &str = include_str!("../../data/kernels/scale_slow/head.toml");

/// The arguments of a kernel from a vector to another one, in a space file.
const VECTORS: &str = include_str!("../../data/kernels/scale_slow/vectors.toml");

/// A space file with this head, and the arguments of a kernel from a vector to another one.
pub fn space(head: &str) -> String {
    format!("{head}\n{VECTORS}")
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
