//! Inputs that the task derives from inputs before anything is timed: an honest kernel, lying ones, and a preparation that
//! is wrong itself.

use std::fs;

use evo::kernel::load::load_file;
use evo::kernel::resolve::resolve;
use serde_json::Value;

use crate::support::{BRIEF, evo};

const SPACE: &str = r#"[kernel]
name = "gemv"
source = "gemv.cu"
[parameters]
BLOCK = [32, 64]
PAD = { values = [0, 1], default = 1 }
[[arguments]]
name = "w"
dtype = "f32"
shape = ["M", "N"]
role = "input"
[[arguments]]
name = "columns"
dtype = "f32"
shape = ["N", "M + PAD"]
role = "input"
fill = { prepared = true }
[[arguments]]
name = "x"
dtype = "f32"
shape = ["N"]
role = "input"
[[arguments]]
name = "y"
dtype = "f32"
shape = ["M"]
role = "output"
[[arguments]]
name = "m"
dtype = "i32"
value = "M"
[[arguments]]
name = "n"
dtype = "i32"
value = "N"
[prepare]
source = "layout.cu"
entry = "transpose"
grid = "ceil_div(N, 32)"
block = 32
arguments = ["w", "columns", "m", "n", { value = "M + PAD", dtype = "i32" }]
[[launches]]
entry = "gemv"
grid = "ceil_div(M, BLOCK)"
block = "BLOCK"
arguments = ["columns", "x", "y", "m", "n"]
[[problems]]
name = "matrix"
sizes = { M = 150, N = 40 }
[check]
seeds = 2
repeats = 2
tiny = [{ M = 1, N = 1 }, { M = 33, N = 5 }]
reference = { source = "naive.cu", entry = "naive", grid = "M", block = 1 }
"#;

const KERNEL: &str = r#"extern "C" __global__ void gemv(const float* columns, const float* x, float* y, int m, int n) {
    int row = blockIdx.x * BLOCK + threadIdx.x;
    if (row >= m) return;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) sum += columns[k * (m + PAD) + row] * x[k];
    y[row] = sum;
}
"#;

const LAYOUT: &str = r#"extern "C" __global__ void transpose(const float* w, float* columns, int m, int n, int stride) {
    int k = blockIdx.x * 32 + threadIdx.x;
    if (k >= n) return;
    for (int row = 0; row < m; ++row) columns[k * stride + row] = w[row * n + k];
}
"#;

/// It takes what was drawn, and nothing that was prepared.
const NAIVE: &str = r#"extern "C" __global__ void naive(const float* w, const float* x, float* y, int m, int n) {
    double sum = 0.0;
    for (int k = 0; k < n; ++k) sum += (double)w[blockIdx.x * n + k] * x[k];
    y[blockIdx.x] = sum;
}
"#;

struct Files<'a> {
    space: &'a str,
    kernel: &'a str,
    layout: &'a str,
}

const HONEST: Files<'static> = Files { space: SPACE, kernel: KERNEL, layout: LAYOUT };

fn folder(files: &Files<'_>) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let Files { space, kernel, layout } = files;
    for (name, text) in
        [("gemv.toml", *space), ("gemv.cu", *kernel), ("layout.cu", *layout), ("naive.cu", NAIVE)]
    {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "there is no {from:?}");
    text.replacen(from, to, 1)
}

fn verdict(files: &Files<'_>) -> String {
    let folder = folder(files);
    let words = format!("test-one ./gemv.toml --device host --seed 3 {BRIEF} --json");
    let output = evo(folder.path(), &words).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let text = |key: &str| answer["result"][key].as_str().unwrap_or_default().to_string();
    format!("{}: {} {}", text("verdict"), text("message"), answer["error"]["message"])
}

fn message(from: &str, to: &str) -> String {
    let folder = folder(&Files { space: &changed(SPACE, from, to), ..HONEST });
    let shown = load_file(&folder.path().join("gemv.toml"))
        .map_or_else(|error| error.to_string(), |_| "no error".to_string());
    shown.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn an_honest_kernel_passes_every_gate() {
    let own = verdict(&HONEST);
    assert!(own.starts_with("pass:"), "{own}");
    // The layout is as the configuration asks for, because the file says so.
    let dense = changed(SPACE, "default = 1", "default = 0");
    let own = verdict(&Files { space: &dense, ..HONEST });
    assert!(own.starts_with("pass:"), "{own}");
}

#[test]
fn a_plan_gives_the_reference_what_was_drawn() {
    let folder = folder(&HONEST);
    let file = load_file(&folder.path().join("gemv.toml")).unwrap_or_else(|error| panic!("{error}"));
    let kernel = file.kernel.as_ref().unwrap();
    let configuration = file.space.configuration(&file.space.default_genome());
    let own = resolve(kernel, &configuration, &kernel.problems[0]).unwrap();
    let buffers = |arguments: &[evo_protocol::plan::ArgumentRef]| serde_json::to_string(arguments).unwrap();
    assert_eq!(
        buffers(&own.prepare_launches[0].arguments),
        r#"[{"buffer":0},{"buffer":1},{"scalar":0},{"scalar":1},{"literal":0}]"#
    );
    assert_eq!(own.literals[0].integer, Some(151));
    assert_eq!(
        buffers(&own.reference_launches[0].arguments),
        r#"[{"buffer":0},{"buffer":2},{"buffer":3},{"scalar":0},{"scalar":1}]"#
    );
}

#[test]
fn lying_kernels_are_caught() {
    let wrong = changed(KERNEL, "sum += columns", "sum += (k == 3 ? 0.5f : 1.0f) * columns");
    let own = verdict(&Files { kernel: &wrong, ..HONEST });
    assert!(own.starts_with("wrong_answer"), "{own}");
    let writes = changed(
        KERNEL,
        "    y[row] = sum;",
        "    y[row] = sum;\n    if (row == 0) ((float*)columns)[0] = 0.0f;",
    );
    let own = verdict(&Files { kernel: &writes, ..HONEST });
    assert!(own.starts_with("input_mutated"), "{own}");
    // A result that is kept for inputs that were seen before.
    let cached = changed(KERNEL, "extern", "__device__ float first, last;\nextern");
    let cached = changed(
        &cached,
        "    float sum = 0.0f;\n",
        "    if (first == columns[0] && last == x[n - 1]) return;\n    if (row == m - 1) { first = columns[0]; last = x[n - 1]; }\n    float sum = 0.0f;\n",
    );
    let own = verdict(&Files { kernel: &cached, ..HONEST });
    assert!(!own.starts_with("pass") && !own.starts_with("harness"), "{own}");
}

#[test]
fn a_preparation_that_is_wrong_is_the_tasks_fault() {
    let changes =
        changed(LAYOUT, "columns[k * stride + row] =", "((float*)w)[0] = 0.0f, columns[k * stride + row] =");
    let own = verdict(&Files { layout: &changes, ..HONEST });
    assert!(own.contains("harness_error:task") && own.contains("the preparing kernel changes `w`"), "{own}");
    let outside = changed(LAYOUT, "row < m; ++row", "row < m + 40; ++row");
    let own = verdict(&Files { layout: &outside, ..HONEST });
    assert!(own.contains("harness_error:task") && own.contains("behind the end of `w"), "{own}");
    let own = verdict(&Files { layout: "not a kernel", ..HONEST });
    assert!(own.contains("the preparing kernel of `gemv` does not compile"), "{own}");
}

#[test]
fn mistakes_in_a_file_have_a_place_and_a_way_out() {
    insta::assert_snapshot!(message("fill = { prepared = true }\n", ""), @r#"
    error: [prepare] prepares no argument
      --> gemv.toml:35:1
       |
    35 | [prepare]
       | ^^^^^^^^^
       |
       = hint: give the input that the launches write fill = { prepared = true }
    "#);
    insta::assert_snapshot!(message("arguments = [\"w\", \"columns\", \"m\"", "arguments = [\"w\", \"y\", \"m\""), @r#"
    error: `arguments` of `prepare`: no argument is called `y`
      --> gemv.toml:41:19
       |
    41 | arguments = ["w", "y", "m", "n", { value = "M + PAD", dtype = "i32" }]
       |                   ^^^
       |
       = hint: did you mean `w`?
    "#);
    insta::assert_snapshot!(message("source = \"layout.cu\"\n", ""), @r#"
    error: `prepare` has no `source`
      --> gemv.toml:36:1
       |
    36 | [prepare]
       | ^^^^^^^^^
       |
       = hint: add source = "prepare.cu", a file of its own
    "#);
}
