//! Arguments that lie in variables of the module, through every gate: honest kernels and lying ones.

use std::fs;

use evo::kernel::load::load_file;
use evo::kernel::resolve::resolve;
use evo_protocol::plan::{ArgumentRef, ProblemPlan};
use serde_json::Value;

use crate::support::{BRIEF, evo};

/// A convolution with its taps in constant memory and a result in a variable that is larger than it.
const KERNEL: &str = r#"namespace taps { __constant__ float d_filter[16]; }
__device__ float d_sums[4];
extern "C" __global__ void convolve(const float* x, float* y, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) {
        float sum = 0.0f;
        for (int tap = 0; tap < 5; ++tap) sum += (i + tap < n ? x[i + tap] : 0.0f) * taps::d_filter[tap];
        y[i] = sum;
    }
    if (i == 0) {
        double all = 0.0;
        for (int tap = 0; tap < 5; ++tap) all += taps::d_filter[tap];
        d_sums[0] = all;
        d_sums[1] = all * x[0];
    }
}
"#;

/// The same by pointers alone.
const NAIVE: &str = r#"extern "C" __global__ void naive(const float* x, float* y, const float* filter, float* sums, int n) {
    for (int i = 0; i < n; ++i) {
        double sum = 0.0;
        for (int tap = 0; tap < 5; ++tap) sum += (i + tap < n ? (double)x[i + tap] : 0.0) * filter[tap];
        y[i] = sum;
    }
    double all = 0.0;
    for (int tap = 0; tap < 5; ++tap) all += filter[tap];
    sums[0] = all;
    sums[1] = all * x[0];
}
"#;

/// The same with variables of its own.
const OWN_VARIABLES: &str = r#"__constant__ float d_filter[5];
__device__ float d_sums[2];
extern "C" __global__ void naive(const float* x, float* y, int n) {
    for (int i = 0; i < n; ++i) {
        double sum = 0.0;
        for (int tap = 0; tap < 5; ++tap) sum += (i + tap < n ? (double)x[i + tap] : 0.0) * d_filter[tap];
        y[i] = sum;
    }
    double all = 0.0;
    for (int tap = 0; tap < 5; ++tap) all += d_filter[tap];
    d_sums[0] = all;
    d_sums[1] = all * x[0];
}
"#;

const SPACE: &str = r#"[kernel]
name = "convolve"
source = "convolve.cu"
[parameters]
BLOCK = [64, 128]
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
name = "filter"
dtype = "f32"
shape = [5]
role = "input"
symbol = "taps::d_filter"
[[arguments]]
name = "sums"
dtype = "f32"
shape = [2]
role = "output"
symbol = "d_sums"
[[arguments]]
name = "n"
dtype = "i32"
value = "N"
[[launches]]
entry = "convolve"
grid = "ceil_div(N, BLOCK)"
block = "BLOCK"
[[problems]]
name = "line"
sizes = { N = 3000 }
[check]
seeds = 2
repeats = 2
tiny = [{ N = 1 }, { N = 67 }]
reference = { source = "naive.cu", entry = "naive", grid = 1, block = 1 }
"#;

struct Files<'a> {
    space: &'a str,
    kernel: &'a str,
    naive: &'a str,
}

const HONEST: Files<'static> = Files { space: SPACE, kernel: KERNEL, naive: NAIVE };

fn folder(files: &Files<'_>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in
        [("convolve.toml", files.space), ("convolve.cu", files.kernel), ("naive.cu", files.naive)]
    {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "there is no {from:?}");
    text.replacen(from, to, 1)
}

/// The verdict of the default configuration: its label and its message.
fn verdict(files: &Files<'_>) -> (String, String) {
    let folder = folder(files);
    let words = format!("test-one ./convolve.toml --device host --seed 3 {BRIEF} --json");
    let output = evo(folder.path(), &words).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let answer: Value = serde_json::from_str(&text)
        .unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    let text = |key: &str| answer["result"][key].as_str().unwrap_or_default().to_string();
    (text("verdict"), text("message"))
}

#[track_caller]
fn check(files: &Files<'_>, expected: &str) -> String {
    let (label, message) = verdict(files);
    assert_eq!(label, expected, "{message}");
    message
}

fn message(space: &str) -> String {
    let folder = folder(&Files { space, ..HONEST });
    let path = folder.path().join("convolve.toml");
    let shown = load_file(&path).map_or_else(|error| error.to_string(), |_| "no error".to_string());
    shown.replace(&format!("{}/", folder.path().display()), "")
}

fn plan(files: &Files<'_>) -> ProblemPlan {
    let folder = folder(files);
    let file = load_file(&folder.path().join("convolve.toml")).unwrap_or_else(|error| panic!("{error}"));
    let kernel = file.kernel.as_ref().unwrap();
    resolve(kernel, &file.space.configuration(&file.space.default_genome()), &kernel.problems[0]).unwrap()
}

#[test]
fn an_honest_kernel_passes_every_gate() {
    check(&HONEST, "pass");
    // A reference with variables of the same names gets the data there.
    check(&Files { naive: OWN_VARIABLES, ..HONEST }, "pass");
}

#[test]
fn plans_pass_pointers_and_fill_variables() {
    let (buffer, scalar) = (ArgumentRef::Buffer, ArgumentRef::Scalar);
    let own = plan(&HONEST);
    assert_eq!(own.launches[0].arguments, [buffer(0), buffer(1), scalar(0)]);
    assert_eq!(own.buffers[2].symbol.as_deref(), Some("taps::d_filter"));
    let all = [buffer(0), buffer(1), buffer(2), buffer(3), scalar(0)];
    assert_eq!(own.reference_launches[0].arguments, all);
    assert!(own.reference_variables.is_empty());
    let own = plan(&Files { naive: OWN_VARIABLES, ..HONEST });
    assert_eq!(own.reference_launches[0].arguments, [buffer(0), buffer(1), scalar(0)]);
    assert_eq!(own.reference_variables, [2, 3]);
    // What a launch of the reference is given lies in no variable of its module.
    let listed = changed(SPACE, "block = 1 }", "block = 1, arguments = [\"x\", \"y\", \"filter\", \"n\"] }");
    let naive = changed(OWN_VARIABLES, "int n)", "const float* filter, int n)");
    let own = plan(&Files { space: &listed, naive: &naive, ..HONEST });
    assert_eq!(own.reference_launches[0].arguments, [buffer(0), buffer(1), buffer(2), scalar(0)]);
    assert_eq!(own.reference_variables, [3]);
}

#[test]
fn kernels_that_lie_about_variables_are_caught() {
    let lying = |from: &str, to: &str| changed(KERNEL, from, to);
    let ignores = lying("* taps::d_filter[tap];\n        y", "* 0.5f;\n        y");
    assert!(verdict(&Files { kernel: &ignores, ..HONEST }).0.starts_with("wrong_answer"));
    let leaves = lying("d_sums[1] = all * x[0];", "");
    assert!(verdict(&Files { kernel: &leaves, ..HONEST }).0.starts_with("wrong_answer"));
    let behind = lying("d_sums[0] = all;", "d_sums[0] = all; d_sums[2] = 1.0f;");
    let message = check(&Files { kernel: &behind, ..HONEST }, "oob_write:symbol");
    assert!(message.contains("writes behind the 8 bytes of `sums` in the variable `d_sums`"), "{message}");
    let changes = lying("__constant__ float", "__device__ float");
    let changes = changed(&changes, "d_sums[0] = all;", "d_sums[0] = all; taps::d_filter[4] = 0.25f;");
    let found = verdict(&Files { kernel: &changes, ..HONEST });
    assert!(found.0.starts_with("input_mutated"), "{found:?}");
}

#[test]
fn work_that_is_kept_beside_an_argument_is_seen_when_it_is_timed() {
    // The first call works; later ones find a mark in a variable of their own and leave the answer as it stands.
    let from = "extern \"C\" __global__ void convolve(const float* x, float* y, int n) {\n";
    let to = format!(
        "namespace mine {{ __device__ float d_sums[2]; }}\n{from}    if (mine::d_sums[0] == x[0] && mine::d_sums[1] == x[n - 1] \
         && y[0] == y[0]) return;\n    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) {{ mine::d_sums[0] = x[0]; \
         mine::d_sums[1] = x[n - 1]; }}\n"
    );
    let keeps = changed(KERNEL, from, &to);
    let found = verdict(&Files { kernel: &keeps, ..HONEST });
    assert_ne!(found.0, "pass", "{found:?}");
}

#[test]
fn a_variable_that_is_missing_or_too_small_is_named() {
    let missing = changed(SPACE, "d_sums", "d_sum");
    let message_of = |space: &str| check(&Files { space, ..HONEST }, "launch_fail:symbol");
    let own = message_of(&missing);
    assert!(own.contains("no variable `d_sum`: it has") && own.contains("`d_sums`"), "{own}");
    let small = changed(SPACE, "shape = [5]", "shape = [17]");
    let own = message_of(&small);
    assert!(own.contains("the variable `taps::d_filter` has 64 bytes, the argument has 68"), "{own}");
}

#[test]
fn mistakes_in_a_file_have_a_place_and_a_way_out() {
    let passed = changed(
        SPACE,
        "block = \"BLOCK\"\n",
        "block = \"BLOCK\"\narguments = [\"x\", \"y\", \"filter\", \"n\"]\n",
    );
    insta::assert_snapshot!(message(&passed), @r#"
    error: launch `convolve` passes `filter`, which lies in the variable `taps::d_filter`
      --> convolve.toml:36:24
       |
    36 | arguments = ["x", "y", "filter", "n"]
       |                        ^^^^^^^^
       |
       = hint: leave it out here: evo copies it into the variable before each call
    "#);
    insta::assert_snapshot!(message(&changed(SPACE, "\"d_sums\"", "\"d sums\"")), @r#"
    error: `symbol` of argument `sums` is `d sums`, which is not the name of a variable
      --> convolve.toml:27:10
       |
    27 | symbol = "d sums"
       |          ^^^^^^^^
       |
       = hint: the name of a __constant__ or __device__ variable: "d_filter", "ns::d_filter"
    "#);
    insta::assert_snapshot!(message(&changed(SPACE, "value = \"N\"", "value = \"N\"\nsymbol = \"d_n\"")), @r#"
    error: `symbol` of argument `n` has no meaning for a scalar
      --> convolve.toml:32:10
       |
    32 | symbol = "d_n"
       |          ^^^^^
       |
       = hint: an argument with `value` is a scalar
    "#);
}
