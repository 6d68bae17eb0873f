//! Tasks of other benchmarks: what is written opens and is judged, a kernel written for it passes and a wrong one does not,
//! and what evo does not have is refused with nothing written.
//!
//! Most tests run the tasks' Python with a stand-in for PyTorch; those of PyTorch itself say so where it is missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::json_schema::fault;
use crate::skip::{has_programs, skipped};
use crate::support::{self, BRIEF, answer};

/// Where no element is written.
const EMPTY: &str = "    // ";

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

fn has_python() -> bool {
    has_programs(&["python3"], "the reference of a task")
}

/// Whether Python finds a package; says that the test is skipped where it does not.
fn has_package(name: &str) -> bool {
    let found = Command::new("python3").args(["-c", &format!("import {name}")]).output();
    let found = found.is_ok_and(|own| own.status.success());
    if !found {
        skipped(&format!("Python has no `{name}`"));
    }
    found
}

/// evo whose Python has the stand-in for PyTorch.
fn evo(folder: &Path, words: &str) -> Output {
    let mut command = support::evo(folder, words);
    command.env("PYTHONPATH", data("fake_torch")).env("PYTHONDONTWRITEBYTECODE", "1");
    command.output().unwrap()
}

fn object(output: &Output) -> (i32, Value) {
    let object = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{error}: {}", String::from_utf8_lossy(&output.stderr));
    });
    (output.status.code().unwrap(), object)
}

fn imported(folder: &Path, words: &str) -> Value {
    let (code, object) = object(&evo(folder, &format!("import {words} --json")));
    assert_eq!((code, &object["result"]["opens"]), (0, &true.into()), "{object:#}");
    assert_eq!(fault(&answer::schema("import"), &object), None);
    object
}

fn judged(folder: &Path, task: &str) -> (i32, Value) {
    object(&evo(folder, &format!("test-one {task}/space.toml {BRIEF} --device host --seed 1 --json")))
}

/// Puts a body in the place of the skeleton's comments.
fn write_body(folder: &Path, task: &str, body: &str) {
    let path = folder.join(task).join("kernel.cu");
    let text = fs::read_to_string(&path).unwrap();
    let at = text.rfind(EMPTY).unwrap();
    let end = at + text[at..].find('\n').unwrap();
    fs::write(path, format!("{}{body}{}", &text[..at], &text[end..])).unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn stage() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy(&data("tasks"), &folder.path().join("tasks"));
    folder
}

/// The same where there is Python to read the tasks.
fn with_python() -> Option<tempfile::TempDir> {
    has_python().then(stage)
}

/// The skeleton is a wrong answer, a right kernel passes by evo's gates and by the task's own rule, and a wrong one does not.
fn walk(folder: &Path, task: &str, right: &str, wrong: &str) {
    let (code, skeleton) = judged(folder, task);
    assert_eq!((code, &skeleton["verdict"]), (1, &"wrong_answer".into()), "{skeleton:#}");
    let kernel = folder.join(task).join("kernel.cu");
    let empty = fs::read_to_string(&kernel).unwrap();
    write_body(folder, task, right);
    let (code, passed) = judged(folder, task);
    assert_eq!((code, &passed["verdict"]), (0, &"pass".into()), "{passed:#}");
    for problem in passed["parity"].as_array().unwrap() {
        assert_eq!(problem["task"], serde_json::json!({ "matched_ratio": 1.0, "within": true }), "{problem}");
    }
    fs::write(&kernel, empty).unwrap();
    write_body(folder, task, wrong);
    let (code, refused) = judged(folder, task);
    assert_eq!((code, &refused["verdict"]), (1, &"wrong_answer".into()), "{refused:#}");
}

#[test]
fn a_task_of_flashinfer_bench_is_judged() {
    let Some(folder) = with_python() else { return };
    let folder = folder.path();
    let object = imported(folder, "flashinfer tasks/flashinfer");
    assert_eq!(object["result"]["entry"], "rows_k24_kernel");
    let space = fs::read_to_string(folder.join("rows_k24/space.toml")).unwrap();
    assert!(space.contains("name = \"9d1b5e04-51c3-4f0f-8f7e-6f0e7a1c2d02\""), "{space}");
    walk(
        folder,
        "rows_k24",
        "    y[i] = __float2half(__half2float(x[i]) * __half2float(weight[i % K]) * scale);",
        "    y[i] = __float2half(__half2float(x[i]) * __half2float(weight[i % K]) * 0.5f);",
    );
    // One workload alone, by its definition's own file.
    let words = "flashinfer tasks/flashinfer/definitions/rows/rows_k24.json --to one --workload \
                 3f0c7a52-8a52-4c8e-9a51-0b2b6b6d1c01";
    imported(folder, words);
    let space = fs::read_to_string(folder.join("one/space.toml")).unwrap();
    assert!(space.contains("value = \"0.5\"") && space.matches("[[problems]]").count() == 1, "{space}");
}

#[test]
fn a_task_of_sol_execbench_is_judged_and_its_rule_told() {
    let Some(folder) = with_python() else { return };
    let folder = folder.path();
    imported(folder, "sol tasks/sol");
    walk(
        folder,
        "halves",
        "    sum[i] = left[i] + right[i];\n    product[i] = left[i] * right[i];",
        "    sum[i] = left[i] + right[i];\n    product[i] = left[i] * left[i];",
    );
    // What the task lets pass, evo's gates do not: the task's verdict stands beside.
    let kernel = folder.join("halves/kernel.cu");
    let text = fs::read_to_string(&kernel).unwrap();
    let loose = "product[i] = left[i] * right[i] * 1.01f;";
    fs::write(&kernel, text.replace("product[i] = left[i] * left[i];", loose)).unwrap();
    let space = folder.join("halves/space.toml");
    let text = fs::read_to_string(&space).unwrap();
    fs::write(&space, text.replace("[check]\n", "[check]\ntiny = \"none\"\n")).unwrap();
    let (code, refused) = judged(folder, "halves");
    assert_eq!((code, &refused["verdict"]), (1, &"wrong_answer".into()), "{refused:#}");
    assert_eq!(refused["parity"][0]["task"]["within"], true, "{refused:#}");
    let shown = evo(folder, &format!("test-one halves/space.toml {BRIEF} --device host --seed 1"));
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("by the task's own rule it passes (100.00 % of the elements match)"), "{shown}");
}

#[test]
fn a_module_of_kernelbench_is_judged() {
    let Some(folder) = with_python() else { return };
    let folder = folder.path();
    imported(folder, "kernelbench tasks/kernelbench/linear_relu.py");
    let space = fs::read_to_string(folder.join("linear_relu/space.toml")).unwrap();
    assert!(space.contains("shape = [\"rows\", 12]") && space.contains("sizes = { rows = 17 }"), "{space}");
    let sum = "    float sum = linear_bias[i % 10];\n    for (int k = 0; k < 12; ++k) sum += x[i / 10 * 12 + k] * \
               linear_weight[i % 10 * 12 + k];\n";
    let right = format!("{sum}    out[i] = sum <= 0.0f ? 0.0f : sum;");
    // It keeps a NaN, as it should, and makes one of -Inf.
    walk(folder, "linear_relu", &right, &format!("{sum}    out[i] = sum > 0.0f ? sum : sum * 0.0f;"));
}

/// With PyTorch itself, two problems from a file to a verdict.
#[test]
fn modules_run_with_pytorch_itself() {
    if !has_python() || !has_package("torch") {
        return;
    }
    let folder = stage();
    let folder = folder.path();
    let run = |words: &str| object(&support::evo(folder, words).output().unwrap());
    let (code, object) = run("import kernelbench tasks/kernelbench --json");
    assert_eq!(code, 0, "{object:#}");
    write_body(
        folder,
        "linear_relu",
        "    float sum = linear_bias[i % 10];\n    for (int k = 0; k < 12; ++k) sum += x[i / 10 * 12 + k] * \
         linear_weight[i % 10 * 12 + k];\n    out[i] = sum <= 0.0f ? 0.0f : sum;",
    );
    let softmax = |row: &str| {
        format!(
            "    const float* row = x + {row};\n    float largest = row[0], sum = 0.0f;\n    for (int k = 1; k < n1; ++k) \
             largest = fmaxf(largest, row[k]);\n    for (int k = 0; k < n1; ++k) sum += expf(row[k] - largest);\n    \
             out[i] = expf(x[i] - largest) / sum;"
        )
    };
    let empty = fs::read_to_string(folder.join("softmax/kernel.cu")).unwrap();
    write_body(folder, "softmax", &softmax("i / n1 * n1"));
    for task in ["linear_relu", "softmax"] {
        let (code, object) =
            run(&format!("test-one {task}/space.toml {BRIEF} --device host --seed 1 --json"));
        assert_eq!((code, &object["verdict"]), (0, &"pass".into()), "{task}: {object:#}");
        assert_eq!(object["parity"][0]["task"]["within"], true, "{task}: {object:#}");
    }
    fs::write(folder.join("softmax/kernel.cu"), empty).unwrap();
    write_body(folder, "softmax", &softmax("0"));
    let (code, object) = run(&format!("test-one softmax/space.toml {BRIEF} --device host --seed 1 --json"));
    assert_eq!((code, &object["verdict"]), (1, &"wrong_answer".into()), "{object:#}");
}

#[test]
fn what_cannot_be_taken_over_is_refused_and_nothing_is_written() {
    let folder = stage();
    let folder = folder.path();
    let before = || fs::read_dir(folder).unwrap().count();
    let refused = |words: &str, part: &str, hint: &str| {
        let count = before();
        let (code, object) = object(&evo(folder, &format!("import {words} --json")));
        let error = &object["error"];
        assert_eq!(code, 2, "{words}: {object}");
        assert!(error["message"].as_str().unwrap().contains(part), "{words}: {error}");
        assert!(error["hint"].as_str().unwrap().contains(hint), "{words}: {error}");
        assert_eq!(before(), count, "{words} wrote something");
    };
    let edited = |from: &str, to: &str| {
        let path = folder.join("tasks/flashinfer/definitions/rows/rows_k24.json");
        let text = fs::read_to_string(data("tasks/flashinfer/definitions/rows/rows_k24.json")).unwrap();
        assert!(text.contains(from), "{from}");
        fs::write(path, text.replace(from, to)).unwrap();
    };
    edited("\"reference\"", "\"source\"");
    refused("flashinfer tasks/flashinfer", "it has no `reference`", "def run(");
    edited("\"dtype\": \"float32\"", "\"dtype\": \"float8_e5m2\"");
    refused("flashinfer tasks/flashinfer", "inputs.scale.dtype: the type `float8_e5m2`", "evo has float64");
    edited("\"value\": 24", "\"value\": -24");
    refused("flashinfer tasks/flashinfer", "axes.K.value: it is not a whole number from 0", "-24");
    edited("rows_k24", "rows_k25");
    refused("flashinfer tasks/flashinfer", "none is of `rows_k25`", "");
    edited("rows_k24", "rows_k24");
    refused("flashinfer tasks/flashinfer --task other", "no task `other`", "rows_k24");
    refused("flashinfer tasks/flashinfer --workload other", "none is of `rows_k24`", "there are 3f0c7a52");
    refused("flashinfer tasks/kernelbench", "has no task of FlashInfer-Bench", "definitions/");
    refused("flashinfer tasks/flashinfer --force", "--force", "--to");
    refused("flashinfer tasks/flashinfer --to tasks", "`tasks` is there", "--to");
    refused("sol nowhere", "cannot read `nowhere`", "check the path");
    refused("t1 nowhere.json --task a", "neither tasks nor workloads", "--task");
    fs::remove_file(folder.join("tasks/sol/halves/workload.jsonl")).unwrap();
    refused("sol tasks/sol", "has no workloads", "workload.jsonl");
    fs::remove_file(folder.join("tasks/sol/halves/reference.py")).unwrap();
    refused("sol tasks/sol", "it has no `reference`", "def run(");
}

#[test]
fn python_files_that_fail_are_named_and_ended() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let good = fs::read_to_string(data("tasks/kernelbench/linear_relu.py")).unwrap();
    let refused = |text: &str, words: &str, part: &str, hint: &str| {
        fs::write(folder.join("own.py"), text).unwrap();
        let (code, object) =
            object(&evo(folder, &format!("import kernelbench own.py --to made {words} --json")));
        let error = &object["error"];
        assert_eq!(code, 2, "{object}");
        assert!(error["message"].as_str().unwrap().contains(part), "no `{part}`: {error}");
        assert!(error["hint"].as_str().unwrap().contains(hint), "no `{hint}`: {error}");
        assert!(!folder.join("made").exists());
    };
    let with = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replace(from, to)
    };
    refused(&with("def get_init_inputs", "def inputs"), "", "it has no `get_init_inputs`", "KernelBench");
    refused("import nowhere\n", "", "No module named 'nowhere'", "run it with this Python");
    refused("import time\ntime.sleep(1000)\n", "--limit python=1s", "within 1 s", "--limit python=TIME");
    refused("import os\nos._exit(9)\n", "", "its Python process failed", "this Python");
    refused("import os\nos.write(1, b'x' * 5000000)\nos._exit(0)\n", "", "it is not JSON", "");
    let number = with("return torch.relu(self.linear(x))", "return 3");
    refused(&number, "", "Model.forward, output 0: a `int` is not supported", "in a tuple");
    let dropout =
        with("nn.Linear(inner, outer)", "nn.Linear(inner, outer)\n        self.drop = nn.Dropout()");
    refused(&dropout, "", "Model.drop: a random `Dropout` in training mode", "p = 0");
    let hidden =
        with("nn.Linear(inner, outer)", "nn.Linear(inner, outer)\n        self.mask = torch.rand(3)");
    refused(&hidden, "", "Model.mask: a tensor that is neither", "register_buffer");
    refused(
        &with("[torch.rand(rows, inner)]", "[torch.rand(rows, inner), 'a']"),
        "",
        "Model.forward: it does not run",
        "this Python",
    );
    let missing = support::evo(folder, "import kernelbench own.py --to made --json")
        .env("PYTHONPATH", data("tasks"))
        .env("PYTHONNOUSERSITE", "1")
        .env("EVO_PYTHON", "/nonexistent/python3")
        .output()
        .unwrap();
    let (code, object) = object(&missing);
    assert_eq!((code, &object["error"]["code"]), (2, &"tool_missing".into()), "{object}");
}

/// What FlashInfer-Bench itself says about our traces of its task.
#[test]
fn flashinfer_bench_takes_our_traces() {
    if !has_python() || !has_package("flashinfer_bench.data") {
        return;
    }
    let folder = stage();
    let folder = folder.path();
    imported(folder, "flashinfer tasks/flashinfer");
    write_body(
        folder,
        "rows_k24",
        "    y[i] = __float2half(__half2float(x[i]) * __half2float(weight[i % K]) * scale);",
    );
    let kernel = fs::read_to_string(folder.join("rows_k24/kernel.cu")).unwrap();
    let ask = |content: &str| {
        let candidate = serde_json::json!({ "kind": "cuda", "sources": [{ "content": content }] });
        let request =
            serde_json::json!({ "id": "a", "candidate": candidate, "baseline": "default", "level": "full" });
        fs::write(folder.join("request.json"), request.to_string()).unwrap();
        let words = format!(
            "evaluate rows_k24/space.toml --request request.json --emit trace {BRIEF} --device host --seed 1"
        );
        let output = support::evo(folder, &words).output().unwrap();
        fs::write(folder.join("traces.json"), &output.stdout).unwrap();
        let check = "import json, sys\nfrom flashinfer_bench.data import Definition, Trace\n\
                     own = Definition.model_validate_json(open(sys.argv[1]).read())\n\
                     traces = [Trace.model_validate(one) for one in json.load(open('traces.json'))['traces']]\n\
                     assert traces and all(one.definition == own.name for one in traces)\n\
                     print([one.evaluation.status.value for one in traces], [one.workload.uuid for one in traces])\n";
        let definition = data("tasks/flashinfer/definitions/rows/rows_k24.json");
        let output =
            Command::new("python3").current_dir(folder).args(["-c", check]).arg(definition).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let told = ask(&kernel);
    assert!(told.contains("9d1b5e04-51c3-4f0f-8f7e-6f0e7a1c2d02"), "{told}");
    assert!(told.contains("PASSED") && !told.contains("INCORRECT"), "{told}");
    let told = ask(&kernel.replace("* scale", "* 3.0f"));
    assert!(told.contains("INCORRECT_NUMERICAL"), "{told}");
}
