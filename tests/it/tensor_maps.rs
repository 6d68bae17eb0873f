//! Tensor maps as arguments: what files say, what plans hold, what is refused, and a kernel that reads through one.

use std::fs;
use std::path::{Path, PathBuf};

use evo::kernel::load::load_file;
use evo::kernel::resolve::resolve;
use evo::kernel::spec::{KernelSpec, SpaceFile};
use evo_protocol::plan::{ArgumentRef, ProblemPlan};
use evo_protocol::verdict::Verdict;
use evo_space::genome::Configuration;
use evo_space::value::Value;
use serde_json::json;

use crate::support::{BRIEF, evo};
use crate::toolchain;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/row_sum_map");

/// The space file with some texts replaced, beside its sources.
fn folder(changes: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["row_sum.cu", "naive.cu"] {
        fs::copy(Path::new(FOLDER).join(name), folder.path().join(name)).unwrap();
    }
    let mut text = fs::read_to_string(Path::new(FOLDER).join("row_sum.toml")).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "the file has no {from:?}");
        text = text.replacen(from, to, 1);
    }
    let path = folder.path().join("space.toml");
    fs::write(&path, text).unwrap();
    (folder, path)
}

fn load(changes: &[(&str, &str)]) -> SpaceFile {
    let (_folder, path) = folder(changes);
    load_file(&path).unwrap_or_else(|error| panic!("{error}"))
}

/// The message for the changed file.
fn message(changes: &[(&str, &str)]) -> String {
    let (folder, path) = folder(changes);
    let shown = load_file(&path).map_or_else(|error| error.to_string(), |_| "no error".to_string());
    shown.replace(&format!("{}/", folder.path().display()), "")
}

fn kernel(file: &SpaceFile) -> &KernelSpec {
    file.kernel.as_ref().unwrap()
}

fn plan(file: &SpaceFile, changes: &[(&str, Value)]) -> Result<ProblemPlan, Box<Verdict>> {
    let default = file.space.configuration(&file.space.default_genome());
    let value = |name: &str, own: &Value| {
        changes
            .iter()
            .find(|(other, _)| *other == name)
            .map_or_else(|| own.clone(), |(_, value)| value.clone())
    };
    let values = default.iter().map(|(name, own)| (name.into(), value(name, own))).collect();
    let kernel = kernel(file);
    resolve(kernel, &Configuration::new(values), &kernel.problems[0])
}

#[test]
fn a_plan_holds_the_maps_that_launches_receive() {
    let own = plan(&load(&[]), &[]).unwrap();
    let maps = serde_json::to_value(&own.tensor_maps).unwrap();
    let map = json!({"dtype": "f32", "dims": [104, 300], "strides": [416], "box": [32, 32], "swizzle": "128B",
        "fill": "zero"});
    assert_eq!(maps, json!([{"name": "x_map", "of": 0, "map": map}]));
    let (map, buffer, scalar) = (ArgumentRef::TensorMap, ArgumentRef::Buffer, ArgumentRef::Scalar);
    assert_eq!(own.launches[0].arguments, [map(0), buffer(1), scalar(0), scalar(1)]);
    // A reference kernel works on plain arrays.
    assert_eq!(own.reference_launches[0].arguments, [buffer(0), buffer(1), scalar(0), scalar(1)]);
    // Strides in elements; a swizzle by word; a map of a launch that is left out has no place in the plan.
    let view = [
        ("box = [\"BOX_COLUMNS\"", "strides = [\"2 * COLUMNS\"]\nfill = \"nan\"\nbox = [\"BOX_COLUMNS\""),
        ("dims = [\"COLUMNS\", \"ROWS\"]", "dims = [\"COLUMNS\", \"ROWS // 2\"]"),
        ("swizzle = \"SPAN\"", "swizzle = \"'none' if SPAN == 0 else '128B'\""),
    ];
    let own =
        serde_json::to_value(&plan(&load(&view), &[("SPAN", Value::Int(0))]).unwrap().tensor_maps).unwrap();
    let map = json!({"dtype": "f32", "dims": [104, 150], "strides": [832], "box": [32, 32], "swizzle": "none",
        "fill": "nan"});
    assert_eq!(own[0]["map"], map);
    let unused = [("entry = \"row_sum\"\n", "entry = \"row_sum\"\nwhen = \"ROWS > 1000\"\n")];
    let none = plan(&load(&unused), &[("BOX_ROWS", Value::Int(512))]).unwrap();
    assert!(none.tensor_maps.is_empty() && none.launches.is_empty());
    assert!(!serde_json::to_string(&none).unwrap().contains("tensor_maps"));
}

#[test]
fn a_map_that_breaks_a_rule_is_refused_at_its_expression() {
    let file = load(&[]);
    let refused = |changes: &[(&str, Value)]| *plan(&file, changes).unwrap_err();
    let verdict = refused(&[("BOX_ROWS", Value::Int(512))]);
    assert_eq!(verdict.label(), "static_reject:tensor_map");
    assert_eq!(
        verdict.message,
        "box[1] of argument `x_map` = `BOX_ROWS` is 512: a box of a tensor map has 1 to 256 elements in each \
         dimension, in problem `matrix`"
    );
    assert_eq!(verdict.evidence.get("place"), Some(&"box[1] of argument `x_map`".into()));
    let verdict = refused(&[("SPAN", Value::Int(64))]);
    assert!(
        verdict.message.contains("128 bytes): with swizzle `64B` the inner dimension has at most 64"),
        "{verdict:?}"
    );
    let verdict = refused(&[("SPAN", Value::Int(96))]);
    assert_eq!(verdict.label(), "static_reject:expression");
    assert!(verdict.message.contains("is 96, expected one of none, 32B, 64B, 128B, or the span in bytes"));
}

#[test]
fn mistakes_in_a_file_have_a_place_and_a_way_out() {
    let changes = [
        ("of = \"x\"", "of = \"z\""),
        ("box = [\"BOX_COLUMNS\", \"BOX_ROWS\"]", "boxes = [\"BOX_COLUMNS\"]"),
    ];
    insta::assert_snapshot!(message(&changes), @r#"
    error: argument `x_map` has no `box`
      --> space.toml:11:1
       |
    11 | [[arguments]]
       | ^^^^^^^^^^^^^
       |
       = hint: add box = ["64", "BLOCK"], in elements, one entry for each of `dims`

    error: unknown key `boxes` in argument `x_map`
      --> space.toml:16:1
       |
    16 | boxes = ["BOX_COLUMNS"]
       | ^^^^^
       |
       = hint: known keys: name, kind, of, dims, strides, box, swizzle, fill
    "#);
    let changes = [("of = \"x\"", "of = \"rows\"")];
    insta::assert_snapshot!(message(&changes), @r#"
    error: `of` of argument `x_map`: no buffer argument is called `rows`
      --> space.toml:14:6
       |
    14 | of = "rows"
       |      ^^^^^^
       |
       = hint: buffers: x, y
    "#);
    let changes = [
        ("dims = [\"COLUMNS\", \"ROWS\"]", "dims = [\"COLUMNS\", \"ROW\"]\nstrides = []"),
        ("swizzle = \"SPAN\"", "swizzle = \"128\u{e9}\""),
        ("kind = \"tensor_map\"", "fill = \"ones\"\nkind = \"tensor_map\""),
        ("name = \"y\"\n", "name = \"y\"\nkind = \"buffer\"\n"),
    ];
    insta::assert_snapshot!(message(&changes), @r#"
    error: `fill` of argument `x_map` is `ones`, which is unknown
      --> space.toml:13:8
       |
    13 | fill = "ones"
       |        ^^^^^^
       |
       = hint: one of: zero, nan

    error: `dims` of argument `x_map`: unknown name `ROW`
      --> space.toml:16:21
       |
    16 | dims = ["COLUMNS", "ROW"]
       |                     ^^^
       |
       = hint: did you mean `ROWS`?

    error: `swizzle` of argument `x_map` is `128é`, which is unknown
      --> space.toml:19:11
       |
    19 | swizzle = "128é"
       |           ^^^^^^
       |
       = hint: did you mean `128B`?

    error: `kind` of argument `y` is not `tensor_map`
      --> space.toml:29:8
       |
    29 | kind = "buffer"
       |        ^^^^^^^^
       |
       = hint: an argument without `kind` is a buffer, or a scalar if it has `value`
    "#);
    // The default configuration breaks a rule: the caret stands at the expression.
    let changes = [("dims = [\"COLUMNS\", \"ROWS\"]", "dims = [\"COLUMNS - 1\", \"ROWS\"]")];
    insta::assert_snapshot!(message(&changes), @r#"
    error: dims[0] of argument `x_map` = `COLUMNS - 1` makes the dense stride of dimension 1 103 elements of `f32` (412 bytes): strides of a tensor map are positive multiples of 16 bytes below 2^40, in problem `matrix`
      --> space.toml:15:9
       |
    15 | dims = ["COLUMNS - 1", "ROWS"]
       |         ^^^^^^^^^^^^^
       |
       = hint: this is the default configuration: BOX_ROWS=32 BOX_COLUMNS=32 SPAN=128
    "#);
    let changes = [
        (
            "dtype = \"f32\"\nshape = [\"ROWS\", \"COLUMNS\"]",
            "dtype = \"i32\"\nshape = [\"ROWS\", \"COLUMNS\"]",
        ),
        ("swizzle = \"SPAN\"", "swizzle = \"128B\"\nfill = \"nan\""),
    ];
    insta::assert_snapshot!(message(&changes), @r#"
    error: `fill` of argument `x_map` is `nan`, and `i32` has none
      --> space.toml:18:8
       |
    18 | fill = "nan"
       |        ^^^^^
       |
       = hint: fill = "zero"
    "#);
}

#[test]
fn a_kernel_reads_through_its_map_at_every_shape_and_place() {
    let (folder, _) = folder(&[]);
    for (configuration, words) in [
        ("64 16 64", vec!["verdict: pass", "instrumented cases"]),
        ("32 32 0", vec!["verdict: pass"]),
        ("32 32 64", vec!["verdict: static_reject:tensor_map", "with swizzle `64B`"]),
    ] {
        let words_of = format!("test-one space.toml {configuration} --device host --seed 3 {BRIEF}");
        let output = evo(folder.path(), &words_of).output().unwrap();
        let shown =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(words.iter().all(|word| shown.contains(word)), "{configuration}: {shown}");
    }
}

#[test]
fn a_source_that_takes_another_kind_is_refused_with_both_lists() {
    let (folder, _) = folder(&[]);
    let source = fs::read_to_string(Path::new(FOLDER).join("row_sum.cu")).unwrap();
    let pointer = source.replace("const __grid_constant__ tensor_map map", "const tensor_map* map");
    fs::write(folder.path().join("mine.cu"), pointer).unwrap();
    let output = evo(folder.path(), "render space.toml --source mine.cu").output().unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{shown}");
    assert!(shown.contains("x_map: tensor map of x") && shown.contains("const tensor_map *map"), "{shown}");
    let output = evo(folder.path(), "render space.toml --source row_sum.cu").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn nvrtc_compiles_the_same_source_for_sm_90a_and_older_targets_are_refused() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let (folder, _) = folder(&[]);
    let run = |arch: &str| {
        let mut command = evo(folder.path(), &format!("compile space.toml --all --arch {arch}"));
        command.env("EVO_NVRTC_DIR", toolchain::nvrtc_dir());
        let output = command.output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    // 12 of 18 keep a box within 256 rows; of these, one pair of columns and span does not go together.
    let shown = run("sm_90a");
    assert!(shown.contains("18 variants for sm_90a by nvrtc"), "{shown}");
    assert!(shown.contains("10 fit, 8 static_reject:tensor_map"), "{shown}");
    // Without the instructions an older target compiles it, and has no maps all the same.
    let plain = "struct alignas(64) tensor_map { char bytes[128]; };\nextern \"C\" __global__ void row_sum(const \
                 __grid_constant__ tensor_map map, float* y, int rows, int columns) {}";
    fs::write(folder.path().join("row_sum.cu"), plain).unwrap();
    let shown = run("sm_89");
    assert!(shown.contains("0 fit, 18 static_reject:tensor_map"), "{shown}");
    assert!(shown.contains("which `sm_89` does not have: sm_90 is the first with them"), "{shown}");
}
