//! Headers beside a kernel and in the folders that a space names: for kernel and reference, on the host and for NVRTC.

use std::fs;
use std::path::Path;

use evo::kernel::load::load_file;

use crate::support::{BRIEF, evo};
use crate::toolchain;

const SPACE: &str = concat!(
    r#"[kernel]
name = "scale"
source = "kernels/scale.cu"
include_dirs = ["common"]
[[launches]]
entry = "scale"
grid = "ceil_div(N, BLOCK)"
block = "BLOCK"
[parameters]
BLOCK = [32, 64]
"#,
    vectors!(),
    r#"[[problems]]
name = "small"
sizes = { N = 4000 }
[check]
seeds = 1
repeats = 2
tiny = [{ N = 1 }, { N = 33 }]
reference = { source = "naive/naive.cu", entry = "naive", grid = 1, block = 1 }
"#
);

const KERNEL: &str = r#"#include "own.cuh"
#include <factor.cuh>
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) y[i] = own_factor() * COMMON_FACTOR * x[i];
}
"#;

const NAIVE: &str = r#"#include "same.cuh"
#include "factor.cuh"
extern "C" __global__ void naive(const float* x, float* y, int n) {
    for (int i = 0; i < n; ++i) y[i] = SAME * COMMON_FACTOR * x[i];
}
"#;

/// A space in a folder below the one in which evo runs, so that nothing is found because of where evo runs.
fn bench() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("space/scale.toml", SPACE),
        ("space/kernels/scale.cu", KERNEL),
        ("space/kernels/own.cuh", "__device__ inline float own_factor() { return 3.0f; }\n"),
        ("space/common/factor.cuh", "#define COMMON_FACTOR 0.5f\n"),
        ("space/naive/naive.cu", NAIVE),
        ("space/naive/same.cuh", "#define SAME 3.0f\n"),
    ] {
        let path = root.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

fn verdict(root: &Path) -> String {
    let words = format!("test-one space/scale.toml --device host --seed 3 {BRIEF} --json");
    let output = evo(root, &words).output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    format!("{} {}", answer["result"]["verdict"], answer["result"]["message"])
}

fn message(change: &str) -> String {
    let root = bench();
    let path = root.path().join("space/scale.toml");
    fs::write(&path, SPACE.replace("[\"common\"]", change)).unwrap();
    let shown = load_file(&path).map_or_else(|error| error.to_string(), |_| "no error".to_string());
    shown.replace(&format!("{}/", root.path().display()), "")
}

#[test]
fn kernel_and_reference_find_their_headers_on_the_host() {
    let root = bench();
    assert!(verdict(root.path()).starts_with("\"pass\""), "{}", verdict(root.path()));
    // The headers belong to what is judged: a wrong one is a wrong kernel, in the same cache.
    fs::write(
        root.path().join("space/kernels/own.cuh"),
        "__device__ inline float own_factor() { return 2.0f; }\n",
    )
    .unwrap();
    assert!(verdict(root.path()).starts_with("\"wrong_answer"), "{}", verdict(root.path()));
}

#[test]
fn nvrtc_finds_them_too() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let root = bench();
    let mut command = evo(root.path(), "compile space/scale.toml --arch sm_90 --json");
    let output = command.env("EVO_NVRTC_DIR", toolchain::nvrtc_dir()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_source_that_includes_nothing_of_its_folder_gets_no_option() {
    let root = bench();
    let path = root.path().join("space/scale.toml");
    fs::write(&path, SPACE.replace("include_dirs = [\"common\"]\n", "")).unwrap();
    let options = || {
        let file = load_file(&path).unwrap_or_else(|error| panic!("{error}"));
        let all = &file.kernel.as_ref().unwrap().options;
        let below = format!("{}/space/", root.path().display());
        all.iter().map(|own| own.text.replace(&below, "")).collect::<Vec<_>>()
    };
    assert_eq!(options(), ["-Ikernels", "-Inaive"]);
    fs::write(root.path().join("space/kernels/scale.cu"), KERNEL.replace("\"own.cuh\"", "<math.h>")).unwrap();
    assert_eq!(options(), ["-Inaive"]);
}

#[test]
fn folders_that_cannot_be_used_have_a_place_and_a_way_out() {
    insta::assert_snapshot!(message("[\"commno\"]"), @r#"
    error: `include_dirs` of `kernel`: there is no folder `commno`
     --> space/scale.toml:4:17
      |
    4 | include_dirs = ["commno"]
      |                 ^^^^^^^^
      |
      = hint: looked for `space/commno`; folders are relative to the space file
    "#);
    insta::assert_snapshot!(message("[\"common\", \"..\"]"), @r#"
    error: `include_dirs` of `kernel`: `..` is outside the folder of the space file
     --> space/scale.toml:4:27
      |
    4 | include_dirs = ["common", ".."]
      |                           ^^^^
      |
      = hint: copy the headers beside the space file, or pass `--allow-outside` if you trust the space
    "#);
    insta::assert_snapshot!(message("\"common\""), @r#"
    error: `include_dirs` of `kernel` is a text, expected a list of folders
     --> space/scale.toml:4:16
      |
    4 | include_dirs = "common"
      |                ^^^^^^^^
    "#);
}
