//! Outputs that are compared in part, in any order or by their sum: honest kernels, lying ones, and what evo says is not
//! checked.

use std::fs;

use evo::kernel::load::load_file;
use serde_json::Value;

use crate::support::{BRIEF, evo};

/// A padded matrix whose columns behind `COLUMNS` nothing defines, and every other row of it.
const PADDED: &str = r#"[kernel]
name = "double"
source = "kernel.cu"
[parameters]
LIE = [0, 1, 2, 3]
PAD = [3, 0]
[[arguments]]
name = "x"
dtype = "f32"
shape = ["ROWS", "COLUMNS"]
role = "input"
[[arguments]]
name = "y"
dtype = "f32"
shape = ["ROWS", "COLUMNS + PAD"]
role = "output"
check = { region = ["0:ROWS", "0:COLUMNS"] }
[[arguments]]
name = "columns"
dtype = "i32"
value = "COLUMNS"
[[arguments]]
name = "stride"
dtype = "i32"
value = "COLUMNS + PAD"
[[launches]]
entry = "twice"
grid = "ROWS"
block = 32
[[problems]]
name = "padded"
sizes = { ROWS = 20, COLUMNS = 50 }
[check]
seeds = 2
repeats = 3
tiny = [{ ROWS = 1, COLUMNS = 1 }, { ROWS = 3, COLUMNS = 33 }]
reference = { source = "naive.cu", entry = "naive", grid = "ROWS", block = 1 }
"#;

/// What lies behind the columns depends on the block that comes there first, and on the clock.
const TWICE: &str = r#"extern "C" __global__ void twice(const float* x, float* y, int columns, int stride) {
    float* row = y + blockIdx.x * stride;
    for (int i = threadIdx.x; i < columns - (LIE == 1 && columns == 50); i += 32) row[i] = 2.0f * x[blockIdx.x * columns + i];
    if (LIE == 2 && threadIdx.x == 0) row[columns - 1] = 0.5f;
    if (LIE == 3 && threadIdx.x == 0 && blockIdx.x == gridDim.x - 1) row[stride] = 1.0f;
    if (threadIdx.x == 0 && columns < stride) row[columns] = (float)clock();
}
"#;

const NAIVE_TWICE: &str = r#"extern "C" __global__ void naive(const float* x, float* y, int columns, int stride) {
    for (int i = 0; i < columns; ++i) y[blockIdx.x * stride + i] = 2.0f * x[blockIdx.x * columns + i];
}
"#;

/// Positive elements, in whatever order blocks come; places behind them keep what they hold.
const COMPACT: &str = r#"[kernel]
name = "compact"
source = "kernel.cu"
[parameters]
LIE = [0, 1, 2]
BLOCK = [32, 64]
[[arguments]]
name = "x"
dtype = "i32"
shape = ["N"]
role = "input"
fill = { uniform = [-100, 100] }
[[arguments]]
name = "y"
dtype = "i32"
shape = ["N"]
role = "output"
fill = { constant = -1 }
check = { compare = "sorted" }
[[arguments]]
name = "count"
dtype = "i32"
shape = [1]
role = "output"
fill = { constant = 0 }
[[arguments]]
name = "n"
dtype = "i32"
value = "N"
[[launches]]
entry = "compact"
grid = "ceil_div(N, BLOCK)"
block = "BLOCK"
[[problems]]
name = "line"
sizes = { N = 900 }
[check]
seeds = 2
repeats = 3
tiny = [{ N = 1 }, { N = 67 }]
reference = { source = "naive.cu", entry = "naive", grid = 1, block = 1 }
"#;

const ANY_ORDER: &str = r#"extern "C" __global__ void compact(const int* x, int* y, int* count, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n && x[i] > 0) {
        int at = atomicAdd(count, 1);
        y[at] = LIE == 1 && x[i] == 7 ? 8 : LIE == 2 && at == 200 ? y[0] : x[i];
    }
}
"#;

const NAIVE_ORDER: &str = r#"extern "C" __global__ void naive(const int* x, int* y, int* count, int n) {
    int found = 0;
    for (int i = 0; i < n; ++i) if (x[i] > 0) y[found++] = x[i];
    count[0] = found;
}
"#;

/// A sum for each block, of which there are as many as the configuration says.
const PARTIAL: &str = r#"[kernel]
name = "partial"
source = "kernel.cu"
[parameters]
LIE = [0, 1]
BLOCKS = [5, 8]
[[arguments]]
name = "x"
dtype = "f32"
shape = ["N"]
role = "input"
[[arguments]]
name = "y"
dtype = "f32"
shape = ["BLOCKS"]
role = "output"
fill = { constant = 0 }
check = { compare = "sum" }
[[arguments]]
name = "n"
dtype = "i32"
value = "N"
[[launches]]
entry = "partial"
grid = "BLOCKS"
block = 32
[[problems]]
name = "line"
sizes = { N = 900 }
[check]
seeds = 2
repeats = 3
tiny = [{ N = 1 }, { N = 67 }]
reference = { source = "naive.cu", entry = "naive", grid = 1, block = 1 }
"#;

const PARTIAL_SUMS: &str = r#"extern "C" __global__ void partial(const float* x, float* y, int n) {
    __shared__ float parts[32];
    float sum = 0.0f;
    for (int i = blockIdx.x * 32 + threadIdx.x; i < n - (LIE == 1 && n > 800); i += 32 * gridDim.x) sum += x[i];
    parts[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int t = 1; t < 32; ++t) sum += parts[t];
        y[blockIdx.x] = sum;
    }
}
"#;

const NAIVE_PARTIAL: &str = r#"extern "C" __global__ void naive(const REAL* x, REAL* y, int n) {
    REAL sum = 0;
    for (int i = 0; i < n; ++i) sum += x[i];
    y[0] = sum;
}
"#;

fn folder(files: [&str; 3]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in ["space.toml", "kernel.cu", "naive.cu"].into_iter().zip(files) {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn answer(files: [&str; 3], values: &str) -> Value {
    let folder = folder(files);
    let words = format!("test-one ./space.toml {values} --device host --seed 3 {BRIEF} --json");
    let output = evo(folder.path(), &words).output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

#[track_caller]
fn check(files: [&str; 3], values: &str, expected: &str) -> Value {
    let answer = answer(files, values);
    let verdict = answer["result"]["verdict"].as_str().unwrap_or_default();
    assert!(verdict.starts_with(expected), "{values}: {answer}");
    answer
}

/// What the gate of the full shapes says of the outputs.
fn said(answer: &Value) -> &Value {
    let gates = answer["gates"].as_array().unwrap();
    let gate = gates.iter().find(|own| own["gate"] == "full_shapes").unwrap();
    &gate["evidence"]["compared_in_part"]
}

#[test]
fn elements_outside_of_the_region_are_free() {
    let files = [PADDED, TWICE, NAIVE_TWICE];
    let passed = check(files, "LIE=0", "pass");
    assert_eq!(said(&passed)["padded"]["y"], "in 1000 of 1060 elements");
    check(files, "LIE=0 PAD=0", "pass");
    check(files, "LIE=1", "wrong_answer:unwritten");
    let wrong = check(files, "LIE=2", "wrong_answer");
    assert!(wrong.to_string().contains("first at [0, 0]"), "{wrong}");
    check(files, "LIE=3", "oob_write");
}

#[test]
fn without_the_region_the_same_kernel_is_refused() {
    let whole = PADDED.replace("check = { region = [\"0:ROWS\", \"0:COLUMNS\"] }\n", "");
    let refused = answer([&whole, TWICE, NAIVE_TWICE], "LIE=0");
    assert_ne!(refused["result"]["verdict"], "pass");
}

#[test]
fn a_region_may_have_steps() {
    let stepped = PADDED.replace("0:ROWS", "::2").replace("LIE = [0, 1, 2, 3]", "LIE = [0, 4]");
    let skips = TWICE.replace(
        "    float* row",
        "    if (LIE == 4 && blockIdx.x == 2) return;\n    if (blockIdx.x % 2) return;\n    float* row",
    );
    let passed = check([&stepped, &skips, NAIVE_TWICE], "LIE=0", "pass");
    assert_eq!(said(&passed)["padded"]["y"], "in 500 of 1060 elements");
    check([&stepped, &skips, NAIVE_TWICE], "LIE=4", "wrong_answer:unwritten");
}

#[test]
fn the_order_of_elements_is_free_where_the_file_says_so() {
    let files = [COMPACT, ANY_ORDER, NAIVE_ORDER];
    let passed = check(files, "LIE=0", "pass");
    let words = "in ascending order, so not the places of its elements";
    assert_eq!(said(&passed)["line"]["y"], words);
    let wrong = check(files, "LIE=1", "wrong_answer");
    assert!(wrong["result"]["message"].as_str().unwrap().contains("`y`, in ascending order: "), "{wrong}");
    // An element that stands there twice has taken the place of another one.
    check(files, "LIE=2", "");
    assert_ne!(answer(files, "LIE=2")["result"]["verdict"], "pass");
    let placed = COMPACT.replace("check = { compare = \"sorted\" }\n", "");
    assert_ne!(answer([&placed, ANY_ORDER, NAIVE_ORDER], "LIE=0")["result"]["verdict"], "pass");
}

#[test]
fn parts_of_a_sum_are_compared_by_what_they_add_up_to() {
    let files = [PARTIAL, PARTIAL_SUMS, NAIVE_PARTIAL];
    let passed = check(files, "LIE=0", "pass");
    assert_eq!(said(&passed)["line"]["y"], "by its sum, so not its elements");
    check(files, "LIE=0 BLOCKS=8", "pass");
    let wrong = check(files, "LIE=1", "wrong_answer");
    assert!(wrong["result"]["message"].as_str().unwrap().contains("`y`, its sum: "), "{wrong}");
}

#[test]
fn the_board_says_what_is_not_checked() {
    let folder = folder([COMPACT, ANY_ORDER, NAIVE_ORDER]);
    let sweep =
        format!("sweep ./space.toml --strategy exhaustive --device host --seed 3 --finalists 1 {BRIEF}");
    assert!(evo(folder.path(), &sweep).output().unwrap().status.success());
    let board = evo(folder.path(), "leaderboard").output().unwrap();
    let board = String::from_utf8(board.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    let words = "`y` is compared in ascending order: which place holds which element is not checked";
    assert!(board.contains(words), "{board}");
    let file = fs::read_to_string(folder.path().join("evidence/leaderboard.json")).unwrap();
    assert!(file.contains(words), "{file}");
}

fn message(check: &str) -> String {
    let space = PADDED.replace("{ region = [\"0:ROWS\", \"0:COLUMNS\"] }", check);
    let folder = folder([&space, TWICE, NAIVE_TWICE]);
    let path = folder.path().join("space.toml");
    let shown = load_file(&path).map_or_else(|error| error.to_string(), |_| "no error".to_string());
    shown.replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn mistakes_in_a_view_have_a_place_and_a_way_out() {
    insta::assert_snapshot!(message("{ region = [\"0:ROWS\"] }"), @r#"
    error: `region` of `check` of argument `y` has 1 ranges, and `shape` has 2 extents
      --> space.toml:17:20
       |
    17 | check = { region = ["0:ROWS"] }
       |                    ^^^^^^^^^^
       |
       = hint: one range for each extent, outermost first; ":" is all of it
    "#);
    insta::assert_snapshot!(message("{ region = [\"0:ROWS\", \"COLUMNS\"] }"), @r#"
    error: `region` of `check` of argument `y` has `COLUMNS`, which is not a range
      --> space.toml:17:31
       |
    17 | check = { region = ["0:ROWS", "COLUMNS"] }
       |                               ^^^^^^^^^
       |
       = hint: as in Python: "0:N", "1:N-1", "::2", ":" for all of it
    "#);
    insta::assert_snapshot!(message("{ region = [\"0:ROWS\", \"0:COLUMS\"] }"), @r#"
    error: `region` of `check` of argument `y`: unknown name `COLUMS`
      --> space.toml:17:34
       |
    17 | check = { region = ["0:ROWS", "0:COLUMS"] }
       |                                  ^^^^^^
       |
       = hint: did you mean `COLUMNS`?
    "#);
    insta::assert_snapshot!(message("{ region = [\"0:ROWS\", \"0:COLUMNS + 9\"] }"), @r#"
    error: region[1] of `check` of argument `y` is 0:59, and the extent is 53, in problem `padded`
      --> space.toml:17:9
       |
    17 | check = { region = ["0:ROWS", "0:COLUMNS + 9"] }
       |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = hint: this is the default configuration: LIE=0 PAD=3
    "#);
    insta::assert_snapshot!(message("{ region = [\"0:ROWS\", \"9:9\"] }"), @r#"
    error: region[1] of `check` of argument `y` is 9:9, which is empty: nothing would be compared, in problem `padded`
      --> space.toml:17:9
       |
    17 | check = { region = ["0:ROWS", "9:9"] }
       |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
       |
       = hint: this is the default configuration: LIE=0 PAD=3
    "#);
    insta::assert_snapshot!(message("{}"), @r#"
    error: `check` of argument `y` says nothing: every element is compared
      --> space.toml:17:9
       |
    17 | check = {}
       |         ^^
       |
       = hint: one of: region = ["0:N"], compare = "sorted", compare = "sum"
    "#);
}

#[test]
fn mistakes_in_what_is_compared_have_a_place_and_a_way_out() {
    insta::assert_snapshot!(message("{ compare = \"sort\" }"), @r#"
    error: `compare` of `check` of argument `y` is `sort`, which is unknown
      --> space.toml:17:21
       |
    17 | check = { compare = "sort" }
       |                     ^^^^^^
       |
       = hint: one of: elements, sorted, sum
    "#);
    insta::assert_snapshot!(message("{ compare = \"sorted\", axis = 2 }"), @r#"
    error: `axis` of `check` of argument `y` is 2, and `shape` has 2 extents
      --> space.toml:17:38
       |
    17 | check = { compare = "sorted", axis = 2 }
       |                                      ^
       |
       = hint: 0 is the outermost axis, 1 the innermost
    "#);
    insta::assert_snapshot!(message("{ region = [\":\", \":\"], axis = 0 }"), @r#"
    error: `axis` of `check` of argument `y` has a meaning with compare = "sorted" and "sum" only
      --> space.toml:17:39
       |
    17 | check = { region = [":", ":"], axis = 0 }
       |                                       ^
       |
       = hint: the axis along which elements are sorted or added up
    "#);
    let long = PADDED.replace(
        "dtype = \"f32\"\nshape = [\"ROWS\", \"COLUMNS + PAD\"]",
        "dtype = \"i64\"\nshape = [\"ROWS\", \"COLUMNS + PAD\"]",
    );
    let long = long.replace("{ region = [\"0:ROWS\", \"0:COLUMNS\"] }", "{ compare = \"sum\" }");
    let input = PADDED.replacen("role = \"input\"\n", "role = \"input\"\ncheck = { compare = \"sum\" }\n", 1);
    for (space, expected) in [
        (long, "`compare` of `check` of argument `y` needs elements of at most 32 bits"),
        (input, "`check` of argument `x` has a meaning for role = \"output\" and \"inout\" only"),
    ] {
        let folder = folder([&space, TWICE, NAIVE_TWICE]);
        let shown = load_file(&folder.path().join("space.toml")).unwrap_err().to_string();
        assert!(shown.contains(expected), "{shown}");
    }
}
