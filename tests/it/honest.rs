//! Kernels that are right and unusual, and kernels that are wrong only at their tails, through `evo test-one`
//! on the host device.

use serde_json::Value;

use crate::support::{BRIEF, evo};

/// The sum of a vector, times a factor, in any of several ways.
const SUM: &str = r#"
kernel = { name = "sum", source = "sum.cu" }
parameters = { THREADS = [1] }
arguments = [
    { name = "x", dtype = "f32", shape = ["N"], role = "input", fill = { uniform = [0.9, 1.1] } },
    { name = "out", dtype = "f32", shape = [1], role = "output" },
    { name = "factor", dtype = "f32", value = 0.1 },
    { name = "n", dtype = "i32", value = "N" },
]
launches = [{ entry = "sum", grid = 1, block = "THREADS" }]
problems = [{ name = "p", sizes = { N = 3000000 } }]
check = { tiny = [{ N = 1 }, { N = 77 }], seeds = 1, repeats = 2, reference = { source = "naive.cu", entry = "naive", grid = 1, block = 1 } }
"#;

const SUM_SOURCE: &str = r#"
extern "C" __global__ void sum(const float* x, float* out, float factor, int n) {
    double total = 0.0;
    for (int i = 0; i < n; ++i) total += x[i];
    out[0] = (float)(factor * total);
}
"#;

const SUM_NAIVE: &str = r#"
#ifndef REAL
#define REAL float
#endif
extern "C" __global__ void naive(const REAL* x, REAL* out, REAL factor, int n) {
    REAL total = 0;
    for (int i = 0; i < n; ++i) total += x[i];
    out[0] = factor * total;
}
"#;

/// `y = 2 x`, which is wrong or right at tails.
const SCALE: &str = r#"
kernel = { name = "scale", source = "scale.cu" }
parameters = { BLOCK = [64], FAULT = [0, 1] }
arguments = [
    { name = "x", dtype = "f32", shape = ["N"], role = "input" },
    { name = "y", dtype = "f32", shape = ["N"], role = "output" },
    { name = "n", dtype = "i32", value = "N" },
]
launches = [{ entry = "scale", grid = "ceil_div(N, BLOCK)", block = "BLOCK", when = "N > 0" }]
problems = [{ name = "p", sizes = { N = 4096 } }, { name = "empty", sizes = { N = 0 }, timed = false }]
check = { seeds = 1, repeats = 2, reference = { source = "naive.cu", entry = "naive", grid = "ceil_div(N, 64)", block = 64 } }
"#;

const SCALE_SOURCE: &str = r#"
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) y[i] = (FAULT && i >= n / BLOCK * BLOCK) ? x[i] : 2.0f * x[i];
}
"#;

const SCALE_NAIVE: &str = r#"
extern "C" __global__ void naive(const REAL* x, REAL* y, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"#;

/// `test-one` of a file with some texts replaced.
fn judge(files: [(&str, &str); 3], changes: &[(&str, &str)], values: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let [(space, text), sources @ ..] = files;
    let mut text = text.to_string();
    for (from, to) in changes {
        assert!(text.contains(from), "no {from:?}");
        text = text.replace(from, to);
    }
    std::fs::write(folder.path().join(space), text).unwrap();
    for (name, source) in sources {
        std::fs::write(folder.path().join(name), source).unwrap();
    }
    let words = format!("test-one {space} {BRIEF} --device host --seed 7 --json");
    let output = evo(folder.path(), &words).args(values).output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn label(answer: &Value) -> String {
    let verdict = answer["verdict"].as_str().unwrap();
    answer["cause"].as_str().map_or(verdict.to_string(), |cause| format!("{verdict}:{cause}"))
}

fn gate<'a>(answer: &'a Value, name: &str) -> &'a Value {
    answer["gates"].as_array().unwrap().iter().find(|gate| gate["gate"] == name).unwrap()
}

/// Three million additions in single precision lose digits that the kernel keeps.
#[test]
fn a_reference_in_double_precision_judges_a_precise_kernel() {
    let files = [("sum.toml", SUM), ("sum.cu", SUM_SOURCE), ("naive.cu", SUM_NAIVE)];
    let precise = judge(files, &[], &[]);
    assert_eq!(label(&precise), "pass", "{precise:#}");
}

#[test]
fn derived_shapes_find_a_wrong_tail_and_sizes_of_0_are_legal() {
    let files = [("scale.toml", SCALE), ("scale.cu", SCALE_SOURCE), ("naive.cu", SCALE_NAIVE)];
    let good = judge(files, &[], &["FAULT=0"]);
    assert_eq!(label(&good), "pass", "{good:#}");
    assert_eq!(gate(&good, "tiny_shapes")["state"], "pass");
    let bad = judge(files, &[], &["FAULT=1"]);
    assert_eq!(bad["verdict"], "wrong_answer", "{bad:#}");
    assert_eq!(gate(&bad, "tiny_shapes")["state"], "fail");
    assert!(bad["evidence"]["hint"].as_str().unwrap().contains("multiple_of"), "{bad:#}");
    // The file says that there are whole tiles only; then nothing else may be tried.
    let declared = judge(files, &[("check = {", "check = { multiple_of = { N = \"BLOCK\" },")], &["FAULT=1"]);
    assert_eq!(label(&declared), "pass", "{declared:#}");
    let none = judge(files, &[("check = {", "check = { tiny = \"none\",")], &["FAULT=1"]);
    assert_eq!(label(&none), "pass", "{none:#}");
    let tiny = gate(&none, "tiny_shapes");
    assert_eq!((&tiny["state"], &tiny["evidence"]["tails"]), (&"not_run".into(), &"not_checked".into()));
}

/// What `test-one` says of a failure leads to its explanation.
#[test]
fn a_failure_names_the_command_that_explains_it() {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("scale.toml", SCALE), ("scale.cu", SCALE_SOURCE), ("naive.cu", SCALE_NAIVE)] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let evo = |words: &[&str]| {
        let output = evo(folder.path(), "").args(words).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = evo(&["test-one", "scale.toml", "FAULT=1", "--device", "host", "--seed", "7"]);
    let label = shown.split("more: `evo explain ").nth(1).unwrap_or_else(|| panic!("{shown}"));
    let label = label.split('`').next().unwrap();
    assert!(label.starts_with("wrong_answer:"), "{label}");
    let explained = evo(&["explain", label]);
    assert!(explained.starts_with(&format!("{label}\n\nCause: ")), "{explained}");
    let object: Value = serde_json::from_str(&evo(&["explain", label, "--json"])).unwrap();
    assert_eq!((&object["verdict"], &object["class"]), (&"wrong_answer".into(), &"wrong".into()));
    assert!(object["next"].as_str().unwrap().contains("multiple_of"));
}

#[test]
fn a_problem_that_no_memory_holds_is_refused_before_it_is_allocated() {
    let files = [("scale.toml", SCALE), ("scale.cu", SCALE_SOURCE), ("naive.cu", SCALE_NAIVE)];
    let scratch = "{ name = \"n\", dtype = \"i32\", value = \"N\" },\n    { name = \"work\", dtype = \"f32\", shape = [\"100000000 * N\"], role = \"scratch\" },";
    let source = SCALE_SOURCE.replace("int n)", "int n, float* work)");
    assert_ne!(source, SCALE_SOURCE);
    let with_work = [files[0], ("scale.cu", &source), files[2]];
    let huge = judge(with_work, &[("{ name = \"n\", dtype = \"i32\", value = \"N\" },", scratch)], &[]);
    assert_eq!(label(&huge), "static_reject:memory", "{huge:#}");
    let message = huge["message"].as_str().unwrap();
    assert!(
        message.starts_with("the buffers of problem `p` need 1.64 TB, of which `work` takes 1.64 TB"),
        "{message}"
    );
    assert_eq!(huge["evidence"]["argument"], "work");
    // A refusal names the file's own problem, not a small shape.
    let threads = judge(files, &[("block = \"BLOCK\"", "block = 2048")], &[]);
    assert_eq!(label(&threads), "static_reject:threads", "{threads:#}");
    assert_eq!(threads["evidence"]["problem"], "p");
}

/// Rows of `N` elements that lie `LD` apart, which is right where `LD` is at least `N`.
const STRIDED: &str = r#"
kernel = { name = "strided", source = "strided.cu" }
parameters = { BLOCK = [64] }
arguments = [
    { name = "x", dtype = "f32", shape = ["M", "LD"], role = "input" },
    { name = "y", dtype = "f32", shape = ["M", "N"], role = "output" },
    { name = "m", dtype = "i32", value = "M" },
    { name = "n", dtype = "i32", value = "N" },
    { name = "ld", dtype = "i32", value = "LD" },
]
launches = [{ entry = "strided", grid = "ceil_div(M * N, BLOCK)", block = "BLOCK" }]
problems = [{ name = "p", sizes = { M = 50, N = 100, LD = 128 } }]
check = { seeds = 1, repeats = 2, reference = { source = "naive.cu", entry = "naive", grid = "ceil_div(M * N, 64)", block = 64 } }
"#;

const STRIDED_SOURCE: &str = r#"
extern "C" __global__ void strided(const float* x, float* y, int m, int n, int ld) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < m * n) y[i] = 2.0f * x[i / n * ld + i % n];
}
"#;

const STRIDED_NAIVE: &str = r#"
extern "C" __global__ void naive(const REAL* x, REAL* y, int m, int n, int ld) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < m * n) y[i] = 2 * x[i / n * ld + i % n];
}
"#;

/// A derived shape with `LD` below `N` is beyond the reference as well.
#[test]
fn a_derived_shape_that_the_reference_does_not_take_is_left_out() {
    let files = [("strided.toml", STRIDED), ("strided.cu", STRIDED_SOURCE), ("naive.cu", STRIDED_NAIVE)];
    let answer = judge(files, &[], &[]);
    assert_eq!(label(&answer), "pass", "{answer:#}");
    let tiny = gate(&answer, "tiny_shapes");
    assert!(tiny["message"].as_str().unwrap().contains("the reference does not take "), "{tiny:#}");
    assert!(!tiny["evidence"]["shapes_not_taken"].as_array().unwrap().is_empty(), "{tiny:#}");
}

/// The source is not at fault where the host device lacks a part of CUDA.
#[test]
fn what_the_host_device_lacks_is_said() {
    let lacking =
        "#include <cuda_fp4.h>\nextern \"C\" __global__ void scale(const float* x, float* y, int n) {}\n";
    let files = [("scale.toml", SCALE), ("scale.cu", lacking), ("naive.cu", SCALE_NAIVE)];
    let answer = judge(files, &[], &["FAULT=0"]);
    assert_eq!(label(&answer), "compile_error:host_lacks", "{answer:#}");
    assert_eq!(answer["message"], "scale.cu:1:10: the host device lacks `cuda_fp4.h`; on CUDA this compiles");
    let piped = SCALE_SOURCE.replace("extern", "#include <cuda_pipeline.h>\nextern").replace(
        "if (i < n) y[i] =",
        "__shared__ float kept[BLOCK];\n    if (i < n) __pipeline_memcpy_async(&kept[threadIdx.x], &x[i], 4);\n    \
         __pipeline_commit();\n    __pipeline_wait_prior(0);\n    x = kept - (i - (int)threadIdx.x);\n    if (i < n) y[i] =",
    );
    let files = [("scale.toml", SCALE), ("scale.cu", piped.as_str()), ("naive.cu", SCALE_NAIVE)];
    let answer = judge(files, &[], &["FAULT=0"]);
    assert_eq!(label(&answer), "pass", "{answer:#}");
}

/// A batch of one in every problem, of which the kernel is told.
const BATCHED: &str = r#"
kernel = { name = "batched", source = "batched.cu" }
parameters = { BLOCK = [64], FAULT = [0, 1] }
arguments = [
    { name = "x", dtype = "f32", shape = ["B", "N"], role = "input" },
    { name = "y", dtype = "f32", shape = ["B", "N"], role = "output" },
    { name = "n", dtype = "i32", value = "N" },
]
launches = [{ entry = "batched", grid = ["ceil_div(N, BLOCK)", "B"], block = "BLOCK" }]
problems = [{ name = "p", sizes = { B = 1, N = 500 } }, { name = "q", sizes = { B = 1, N = 777 }, timed = false }]
check = { seeds = 1, repeats = 2, reference = { source = "naive.cu", entry = "naive", grid = ["ceil_div(N, 64)", "B"], block = 64 } }
"#;

const BATCHED_SOURCE: &str = r#"
extern "C" __global__ void batched(const float* x, float* y, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x, b = blockIdx.y;
    if (i < n) y[b * n + i] = 2.0f * x[(FAULT ? 0 : b * n) + i];
}
"#;

const BATCHED_NAIVE: &str = r#"
extern "C" __global__ void naive(const REAL* x, REAL* y, int n) {
    int i = blockIdx.x * 64 + threadIdx.x, b = blockIdx.y;
    if (i < n) y[b * n + i] = 2 * x[b * n + i];
}
"#;

#[test]
fn a_batch_of_one_does_not_hide_a_stride_that_is_ignored() {
    let files = [("batched.toml", BATCHED), ("batched.cu", BATCHED_SOURCE), ("naive.cu", BATCHED_NAIVE)];
    assert_eq!(label(&judge(files, &[], &["FAULT=0"])), "pass");
    let bad = judge(files, &[], &["FAULT=1"]);
    assert_eq!(bad["verdict"], "wrong_answer", "{bad:#}");
    assert_eq!(bad["evidence"]["sizes"]["B"], 3, "{bad:#}");
}

/// Transforms of 8 complex numbers by butterflies, which never multiply half of them by a zero that the sum has.
const TRANSFORM: &str = r#"
kernel = { name = "transform", source = "transform.cu" }
parameters = { FAULT = [0, 1] }
arguments = [
    { name = "x", dtype = "f32", shape = ["ROWS", "16"], role = "input" },
    { name = "y", dtype = "f32", shape = ["ROWS", "16"], role = "output" },
]
launches = [{ entry = "transform", grid = "ROWS", block = 4 }]
problems = [{ name = "p", sizes = { ROWS = 40 } }]
check = { seeds = 2, repeats = 2, reference = { source = "naive.cu", entry = "naive", grid = "ROWS", block = 8 } }
"#;

const TRANSFORM_SOURCE: &str = r#"
extern "C" __global__ void transform(const float2* x, float2* y) {
    __shared__ float2 own[8];
    const int order[8] = {0, 4, 2, 6, 1, 5, 3, 7};
    for (int i = threadIdx.x; i < 8; i += 4) {
        float2 value = x[8 * blockIdx.x + order[i]];
        // A special number that is taken for zero.
        if (FAULT && !isfinite(value.x)) value.x = 0;
        own[i] = value;
    }
    for (int half = 1; half < 8; half *= 2) {
        __syncthreads();
        int step = threadIdx.x % half, low = threadIdx.x / half * 2 * half + step;
        float sine, cosine;
        sincosf(-3.14159265f * step / half, &sine, &cosine);
        float2 even = own[low], odd = own[low + half];
        float2 turned = {odd.x * cosine - odd.y * sine, odd.x * sine + odd.y * cosine};
        own[low] = {even.x + turned.x, even.y + turned.y};
        own[low + half] = {even.x - turned.x, even.y - turned.y};
    }
    __syncthreads();
    for (int i = threadIdx.x; i < 8; i += 4) y[8 * blockIdx.x + i] = own[i];
}
"#;

const TRANSFORM_NAIVE: &str = r#"
#ifndef REAL
#define REAL float
#endif
extern "C" __global__ void naive(const REAL* x, REAL* y) {
    const REAL* row = x + 16 * blockIdx.x;
    REAL real = 0, imaginary = 0;
    for (int j = 0; j < 8; ++j) {
        REAL angle = (REAL)-0.78539816339744831 * (j * threadIdx.x % 8);
        real += row[2 * j] * cos(angle) - row[2 * j + 1] * sin(angle);
        imaginary += row[2 * j] * sin(angle) + row[2 * j + 1] * cos(angle);
    }
    y[16 * blockIdx.x + 2 * threadIdx.x] = real;
    y[16 * blockIdx.x + 2 * threadIdx.x + 1] = imaginary;
}
"#;

#[test]
fn a_factor_of_zero_beside_an_infinity_excuses_nobody_else() {
    let files =
        [("transform.toml", TRANSFORM), ("transform.cu", TRANSFORM_SOURCE), ("naive.cu", TRANSFORM_NAIVE)];
    let right = judge(files, &[], &["FAULT=0"]);
    assert_eq!(label(&right), "pass", "{right:#}");
    let wrong = judge(files, &[], &["FAULT=1"]);
    assert_eq!(label(&wrong), "wrong_answer:special_values", "{wrong:#}");
}
