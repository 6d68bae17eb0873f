//! Tasks of our own through the readers and writers, without running anything.

use std::collections::BTreeMap;

use super::model::{NameBook, label};
use super::{TaskForm, definition, folder, module, workloads};

const DEFINITION: &str = r#"{
  "name": "scaled_rows", "op_type": "rows", "description": "Rows times a number.",
  "axes": { "M": { "type": "var" }, "K": { "type": "const", "value": 48 }, "H": { "type": "expr", "expression": "K // 2" } },
  "inputs": { "x": { "shape": ["M", "K"], "dtype": "float16" }, "w": { "shape": ["H"], "dtype": "float32" },
    "scale": { "shape": null, "dtype": "float32" } },
  "outputs": { "y": { "shape": ["M", "H"], "dtype": "float16" } },
  "reference": "def run(x, w, scale):\n    return x[:, :24] * w * scale\n"
}"#;

const LINE: &str = r#"{"definition":"scaled_rows","workload":{"uuid":"a-1","axes":{"M":5},"inputs":{"x":{"type":"random"},"w":{"type":"random"},"scale":{"type":"scalar","value":0.5}}}}"#;

#[track_caller]
fn refused(text: &str, lines: &str, place: &str, what: &str) {
    let error = definition(text, TaskForm::Sol, None).and_then(|own| workloads(own, lines, &[])).unwrap_err();
    assert!(error.place == place && error.what.contains(what), "{error}");
    assert!(!error.hint.is_empty());
}

#[test]
fn a_definition_becomes_a_space_file() {
    let other = LINE.replace("a-1", "b").replace(":5", ":7").replace("0.5", "2");
    let lines = format!("{LINE}\n\n{other}\n{LINE}\n");
    let task = definition(DEFINITION, TaskForm::FlashInfer, None).unwrap();
    let task = workloads(task, &lines, &[]).unwrap();
    let files = folder(&task);
    let space = &files.space;
    for part in [
        "name = \"scaled_rows\"",
        "shape = [\"M\", 48]",
        "shape = [24]",
        "value = \"0.5 if scale_case == 0 else 2\"",
        "sizes = { M = 5, scale_case = 0 }",
        "sizes = { M = 7, scale_case = 1 }",
        "name = \"a-1\"",
        "ceil_div(M * 24, BLOCK)",
        "task = { atol = 0.01, rtol = 0.01, matched = 1.0 }",
        "dtype = \"float64\"",
    ] {
        assert!(space.contains(part), "no `{part}` in:\n{space}");
    }
    let kernel = &files.beside[0].1;
    for part in ["const __half* __restrict__ x", "float scale", "__half* __restrict__ y", "int M", "K = 48;"]
    {
        assert!(kernel.contains(part), "no `{part}` in:\n{kernel}");
    }
    let reference = &files.beside[1].1;
    assert!(reference.contains("(\"x\", \"x\", \"float16\", 2),"), "{reference}");
    let only = definition(DEFINITION, TaskForm::Sol, None).unwrap();
    assert_eq!(workloads(only, &lines, &["b".to_string()]).unwrap().workloads.len(), 1);
}

#[test]
fn what_has_no_counterpart_is_refused_by_its_place() {
    let rows: BTreeMap<String, Vec<[String; 4]>> = toml::from_str(include_str!("refused.toml")).unwrap();
    for [from, to, place, what] in &rows["edits"] {
        assert!(DEFINITION.contains(from) || LINE.contains(from), "{from}");
        refused(&DEFINITION.replace(from, to), &LINE.replace(from, to), place, what);
    }
    refused(DEFINITION, "{", "line 1, column 1", "not JSON");
    refused(DEFINITION, &LINE.replace("scaled_rows", "other"), "the workloads", "none is of `scaled_rows`");
    refused("[", "", "line 1, column 1", "not JSON");
}

#[test]
fn a_workload_s_tolerance_is_the_strictest() {
    let task = definition(DEFINITION, TaskForm::Sol, None).unwrap();
    assert_eq!(task.tolerance.matched, 0.99);
    let with = |uuid: &str, own: &str| {
        LINE.replace("a-1", uuid).replace("\"axes\"", &format!("\"tolerance\":{own},\"axes\""))
    };
    let lines = format!(
        "{}\n{}\n",
        with("a", "{\"max_atol\":0.1,\"max_rtol\":0.001,\"required_matched_ratio\":0.5}"),
        with("b", "{\"max_atol\":0.2,\"max_rtol\":0.0001}")
    );
    let rule = workloads(task, &lines, &[]).unwrap().tolerance;
    assert_eq!((rule.atol, rule.rtol, rule.matched), (0.1, 0.0001, 0.99));
}

#[test]
fn a_module_becomes_a_space_file() {
    let answer = r#"{"name":"norm","axes":{"rows":{"type":"var"}},"inputs":{"x":{"dtype":"float32","shape":["rows",48]},
      "eps":{"dtype":"float32"}},"weights":{"bn.running_var":{"dtype":"float32","shape":[48]}},
      "outputs":{"out":{"dtype":"float32","shape":["rows",48]}},"description":"Text.",
      "workload":{"axes":{"rows":33},"inputs":{"x":{"type":"random"},"eps":{"type":"scalar","value":0.5}}}}"#;
    let task = module(answer, "class Model: ...\n").unwrap();
    let files = folder(&task);
    for part in
        ["name = \"bn_running_var\"", "fill = { uniform = [0.5, 1.5] }", "value = \"0.5\"", "rows = 33"]
    {
        assert!(files.space.contains(part), "no `{part}` in:\n{}", files.space);
    }
    let reference = &files.beside[1].1;
    assert!(reference.contains("(\"bn.running_var\", \"bn_running_var\", \"float32\", 1),"), "{reference}");
    let refused = r#"{"refused":{"place":"Model.drop","what":"no","hint":"h"}}"#;
    let error = module(refused, "").unwrap_err();
    assert_eq!((error.place.as_str(), error.what.as_str()), ("Model.drop", "no"));
    // The file can print what it likes; its words may be missing.
    for silent in [r#"{"refused":{}}"#, r#"{"refused":1}"#, r#"{"refused":{"place":"","what":""}}"#] {
        let error = module(silent, "").unwrap_err();
        let said = "the answer of the Python process: it refuses the file without a reason";
        assert_eq!(error.to_string(), said, "{silent}");
        assert!(!error.hint.is_empty());
    }
    assert!(module("{}", "").is_err() && module("", "").is_err());
    let odd = r#"{"name":"m","axes":{},"inputs":{"x":{"dtype":["rows",48]}}}"#;
    assert_eq!(module(odd, "").unwrap_err().to_string(), "inputs.x.dtype: it is not a text");
}

#[test]
fn names_are_identifiers_and_differ() {
    let mut book = NameBook::new();
    let names = ["linear.weight", "linear_weight", "default", "i", ""].map(|name| book.take(name));
    assert_eq!(names, ["linear_weight", "linear_weight_", "default_", "i_", "x"]);
    assert_eq!(label("../a b", "w"), "_a_b");
    assert_eq!(label("...", "w"), "w");
}
