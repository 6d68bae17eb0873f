//! References that see parameters: the right answer of a transposed output is another one than of a plain one.

use std::fs;
use std::path::Path;

use evo::kernel::load::load_file;
use serde_json::Value;

use crate::skip::has_programs;
use crate::support::{BRIEF, evo};

const SPACE: &str = r#"[kernel]
name = "scale"
source = "scale.cu"
[parameters]
COLUMNS_FIRST = [0, 1]
[[arguments]]
name = "x"
dtype = "f32"
shape = ["ROWS", "COLUMNS"]
role = "input"
[[arguments]]
name = "y"
dtype = "f32"
shape = ["ROWS * COLUMNS"]
role = "output"
[[arguments]]
name = "columns"
dtype = "i32"
value = "COLUMNS"
[[launches]]
entry = "scale"
grid = "ROWS"
block = 32
[[problems]]
name = "small"
sizes = { ROWS = 9, COLUMNS = 50 }
[check]
seeds = 1
repeats = 2
families = ["normal"]
tiny = [{ ROWS = 1, COLUMNS = 3 }, { ROWS = 3, COLUMNS = 40 }]
reference = REFERENCE
"#;

const KERNEL: &str = r#"extern "C" __global__ void scale(const float* x, float* y, int columns) {
    for (int j = threadIdx.x; j < columns; j += blockDim.x) {
        int at = COLUMNS_FIRST ? j * gridDim.x + blockIdx.x : blockIdx.x * columns + j;
        y[at] = 3.0f * x[blockIdx.x * columns + j];
    }
}
"#;

const NAIVE: &str = r#"extern "C" __global__ void naive(const float* x, float* y, int columns) {
    for (int j = 0; j < columns; ++j) {
        int at = COLUMNS_FIRST ? j * gridDim.x + blockIdx.x : blockIdx.x * columns + j;
        y[at] = 3.0f * x[blockIdx.x * columns + j];
    }
}
"#;

const PROGRAM: &str = r#"import array, json, struct, sys
case = json.load(sys.stdin)
def body(path):
    data = open(path, "rb").read()
    return data[10 + struct.unpack("<H", data[8:10])[0]:]
rows, columns = case["inputs"]["x"]["shape"]
x = array.array("f", body(case["inputs"]["x"]["path"]))
y = array.array("d", [0.0] * (rows * columns))
for i in range(rows):
    for j in range(columns):
        first = case["parameters"]["COLUMNS_FIRST"]
        y[j * rows + i if first else i * columns + j] = 3.0 * x[i * columns + j]
head = ("{'descr': '<f8', 'fortran_order': False, 'shape': (%d,), }" % len(y)).ljust(117) + "\n"
with open(case["outputs"]["y"]["path"], "wb") as out:
    out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + y.tobytes())
"#;

const BY_KERNEL: &str = "{ source = \"naive.cu\", entry = \"naive\", grid = \"ROWS\", block = 1, \
                         parameters = [\"COLUMNS_FIRST\"] }";
const BY_COMMAND: &str = "{ command = [\"python3\", \"ref.py\"], parameters = [\"COLUMNS_FIRST\"] }";

fn folder(reference: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let space = SPACE.replace("REFERENCE", reference);
    for (name, text) in
        [("scale.toml", &*space), ("scale.cu", KERNEL), ("naive.cu", NAIVE), ("ref.py", PROGRAM)]
    {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// The verdict of a variant.
fn verdict(folder: &Path, value: u8) -> String {
    let words = format!("test-one ./scale.toml {value} --device host --seed 3 {BRIEF} --json");
    let output = evo(folder, &words).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    format!("{}: {}", answer["result"]["verdict"], answer["result"]["message"])
}

#[track_caller]
fn check(reference: &str) {
    let folder = folder(reference);
    let [plain, transposed] = [0, 1].map(|value| verdict(folder.path(), value));
    assert!(plain.starts_with("\"pass\""), "{plain}");
    assert!(transposed.starts_with("\"pass\""), "{transposed}");
    // Each is held to its own answer: what gives the plain one to both is wrong for the other.
    fs::write(folder.path().join("scale.cu"), KERNEL.replace("COLUMNS_FIRST ?", "0 ?")).unwrap();
    let transposed = verdict(folder.path(), 1);
    assert!(transposed.starts_with("\"wrong_answer"), "{transposed}");
}

#[test]
fn a_reference_kernel_sees_the_parameters_that_it_names() {
    check(BY_KERNEL);
}

#[test]
fn a_command_is_told_them() {
    if has_programs(&["python3"], "the reference of this test") {
        check(BY_COMMAND);
    }
}

#[test]
fn mistakes_in_their_names_have_places() {
    let message = |space: &str| {
        let folder = folder(BY_KERNEL);
        let path = folder.path().join("scale.toml");
        fs::write(&path, space).unwrap();
        load_file(&path).map_or_else(|error| error.to_string(), |_| "no error".to_string())
    };
    let space = SPACE.replace("REFERENCE", BY_KERNEL);
    assert_eq!(message(&space), "no error");
    let named = |name: &str| message(&space.replace("[\"COLUMNS_FIRST\"] }", &format!("[{name}] }}")));
    for (name, expected) in [
        ("\"COLUMNS_FIST\"", "COLUMNS_FIRST"),
        ("\"ROWS\"", "`ROWS`"),
        ("\"COLUMNS_FIRST\", \"COLUMNS_FIRST\"", "twice"),
        ("3", "parameters"),
    ] {
        let own = named(name);
        assert!(own.contains(expected) && own.contains("scale.toml:"), "{name}: {own}");
    }
    let own = message(&space.replace("[0, 1]", "[\"rows\", \"columns\"]"));
    assert!(own.contains("may be `rows`, which is not an `int` of C"), "{own}");
}
