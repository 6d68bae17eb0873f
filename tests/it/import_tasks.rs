//! Tasks of other benchmarks: what is written opens and is judged, a kernel written for it passes and a wrong one does not.
//! What evo does not have is refused: that is told by sessions.
//!
//! Most tests run the tasks' Python with a stand-in for PyTorch; those of PyTorch itself say so where it is missing.

use std::process::Command;

use serde_json::{Value, json};

use crate::json_schema::fault;
use crate::skip::{has_programs, skipped};
use crate::support::BRIEF;
use crate::support::answer::{self, ended, holds};
use crate::support::kernels::data;
use crate::support::stage::{Ran, Stage};

/// Where no element is written.
const EMPTY: &str = "    // ";

/// The tasks, where there is Python that reads them and finds a package.
fn stage(package: Option<&str>) -> Option<Stage> {
    let has = |name: &str| {
        let found = Command::new("python3").args(["-c", &format!("import {name}")]).output();
        let found = found.is_ok_and(|own| own.status.success());
        if !found {
            skipped(&format!("Python has no `{name}`"));
        }
        found
    };
    let is_ready = has_programs(&["python3"], "the reference of a task") && package.is_none_or(has);
    is_ready.then(|| Stage::of("tests/data/tasks"))
}

/// evo whose Python has the stand-in for PyTorch.
fn run(stage: &Stage, words: &str) -> Ran {
    let mut command = stage.evo(words);
    command.env("PYTHONPATH", data("fake_torch")).env("PYTHONDONTWRITEBYTECODE", "1");
    Ran::of(words, &command.output().unwrap())
}

fn imported(stage: &Stage, words: &str) -> Value {
    let object = ended(&run(stage, &format!("import {words} --json")), "0", "pass", true);
    holds(&object, &json!({ "result.opens": true }));
    assert_eq!(fault(&answer::schema("import"), &object), None);
    object
}

/// What a task's kernel comes to at a level.
#[track_caller]
fn judged(stage: &Stage, task: &str, level: &str, verdict: &str) -> Value {
    let words = format!("test-one {task}/space.toml {BRIEF} --level {level} --device host --seed 1 --json");
    let (code, status) = if verdict == "pass" { ("0", "pass") } else { ("1", "fail") };
    let object = ended(&run(stage, &words), code, status, true);
    holds(&object, &json!({ "verdict": verdict }));
    object
}

/// Puts a body in the place of the skeleton's comments.
fn write_body(stage: &Stage, task: &str, body: &str) {
    let name = format!("{task}/kernel.cu");
    let text = stage.read(&name);
    let at = text.rfind(EMPTY).unwrap();
    let end = at + text[at..].find('\n').unwrap();
    stage.write(&name, &format!("{}{body}{}", &text[..at], &text[end..]));
}

/// The skeleton is a wrong answer, a right kernel passes by evo's gates and by the task's own rule, and a wrong one does not.
fn walk(stage: &Stage, task: &str, right: &str, wrong: &str) {
    judged(stage, task, "tiny", "wrong_answer");
    let empty = stage.read(&format!("{task}/kernel.cu"));
    write_body(stage, task, right);
    for problem in judged(stage, task, "full", "pass")["parity"].as_array().unwrap() {
        holds(problem, &json!({ "task": { "matched_ratio": 1.0, "within": true } }));
    }
    stage.write(&format!("{task}/kernel.cu"), &empty);
    write_body(stage, task, wrong);
    judged(stage, task, "quick", "wrong_answer");
}

const ROWS: &str = "    y[i] = __float2half(__half2float(x[i]) * __half2float(weight[i % K]) * scale);";

#[test]
fn a_task_of_flashinfer_bench_is_judged() {
    let Some(stage) = stage(None) else { return };
    holds(&imported(&stage, "flashinfer flashinfer"), &json!({ "result.entry": "rows_k24_kernel" }));
    let space = stage.read("rows_k24/space.toml");
    assert!(space.contains("name = \"9d1b5e04-51c3-4f0f-8f7e-6f0e7a1c2d02\""), "{space}");
    walk(&stage, "rows_k24", ROWS, &ROWS.replace("scale", "0.5f"));
    // One workload alone, by its definition's own file.
    let words = "flashinfer flashinfer/definitions/rows/rows_k24.json --to one --workload \
                 3f0c7a52-8a52-4c8e-9a51-0b2b6b6d1c01";
    imported(&stage, words);
    let space = stage.read("one/space.toml");
    assert!(space.contains("value = \"0.5\"") && space.matches("[[problems]]").count() == 1, "{space}");
}

#[test]
fn a_task_of_sol_execbench_is_judged_and_its_rule_told() {
    let Some(stage) = stage(None) else { return };
    imported(&stage, "sol sol");
    walk(
        &stage,
        "halves",
        "    sum[i] = left[i] + right[i];\n    product[i] = left[i] * right[i];",
        "    sum[i] = left[i] + right[i];\n    product[i] = left[i] * left[i];",
    );
    // What the task lets pass, evo's gates do not: the task's verdict stands beside.
    let (wrong, loose) = ("product[i] = left[i] * left[i];", "product[i] = left[i] * right[i] * 1.01f;");
    stage.edit("halves/kernel.cu", wrong, loose);
    stage.edit("halves/space.toml", "[check]\n", "[check]\ntiny = \"none\"\n");
    let refused = judged(&stage, "halves", "full", "wrong_answer");
    holds(&refused, &json!({ "parity.0.task.within": true }));
    let shown = run(&stage, &format!("test-one halves/space.toml {BRIEF} --device host --seed 1"));
    shown.says(&["by the task's own rule it passes (100.00 % of the elements match)"]);
}

const SUM: &str = "    float sum = linear_bias[i % 10];\n    for (int k = 0; k < 12; ++k) sum += x[i / 10 * 12 + k] * \
                   linear_weight[i % 10 * 12 + k];\n";

#[test]
fn a_module_of_kernelbench_is_judged() {
    let Some(stage) = stage(None) else { return };
    imported(&stage, "kernelbench kernelbench/linear_relu.py");
    let space = stage.read("linear_relu/space.toml");
    assert!(space.contains("shape = [\"rows\", 12]") && space.contains("sizes = { rows = 17 }"), "{space}");
    let right = format!("{SUM}    out[i] = sum <= 0.0f ? 0.0f : sum;");
    // It keeps a NaN, as it should, and makes one of -Inf.
    let wrong = format!("{SUM}    out[i] = sum > 0.0f ? sum : sum * 0.0f;");
    walk(&stage, "linear_relu", &right, &wrong);
}

/// With PyTorch itself, two problems from a file to a verdict.
#[test]
fn modules_run_with_pytorch_itself() {
    let Some(stage) = stage(Some("torch")) else { return };
    stage.answers("import kernelbench kernelbench", 0, "pass");
    let judged = |task: &str, code: i32, status: &str, expected: Value| {
        let words = format!("test-one {task}/space.toml {BRIEF} --device host --seed 1");
        holds(&stage.answers(&words, code, status), &expected);
    };
    write_body(&stage, "linear_relu", &format!("{SUM}    out[i] = sum <= 0.0f ? 0.0f : sum;"));
    let softmax = |row: &str| {
        format!(
            "    const float* row = x + {row};\n    float largest = row[0], sum = 0.0f;\n    for (int k = 1; k < n1; ++k) \
             largest = fmaxf(largest, row[k]);\n    for (int k = 0; k < n1; ++k) sum += expf(row[k] - largest);\n    \
             out[i] = expf(x[i] - largest) / sum;"
        )
    };
    let empty = stage.read("softmax/kernel.cu");
    write_body(&stage, "softmax", &softmax("i / n1 * n1"));
    for task in ["linear_relu", "softmax"] {
        judged(task, 0, "pass", json!({ "verdict": "pass", "parity.0.task.within": true }));
    }
    stage.write("softmax/kernel.cu", &empty);
    write_body(&stage, "softmax", &softmax("0"));
    judged("softmax", 1, "fail", json!({ "verdict": "wrong_answer" }));
}

/// What FlashInfer-Bench itself says about our traces of its task.
#[test]
fn flashinfer_bench_takes_our_traces() {
    let Some(stage) = stage(Some("flashinfer_bench.data")) else { return };
    imported(&stage, "flashinfer flashinfer");
    write_body(&stage, "rows_k24", ROWS);
    let kernel = stage.read("rows_k24/kernel.cu");
    let ask = |content: &str| {
        let candidate = json!({ "kind": "cuda", "sources": [{ "content": content }] });
        let request = json!({ "id": "a", "candidate": candidate, "baseline": "default", "level": "full" });
        stage.write("request.json", &request.to_string());
        let words = format!(
            "evaluate rows_k24/space.toml --request request.json --emit trace {BRIEF} --device host --seed 1"
        );
        stage.write("traces.json", &stage.run(&words).out);
        let check = "import json, sys\nfrom flashinfer_bench.data import Definition, Trace\n\
                     own = Definition.model_validate_json(open(sys.argv[1]).read())\n\
                     traces = [Trace.model_validate(one) for one in json.load(open('traces.json'))['traces']]\n\
                     assert traces and all(one.definition == own.name for one in traces)\n\
                     print([one.evaluation.status.value for one in traces], [one.workload.uuid for one in traces])\n";
        let definition = data("tasks/flashinfer/definitions/rows/rows_k24.json");
        let mut python = Command::new("python3");
        python.current_dir(stage.path()).args(["-c", check]).arg(definition);
        Ran::of("python3", &python.output().unwrap()).ends(0).out
    };
    let told = ask(&kernel);
    assert!(told.contains("9d1b5e04-51c3-4f0f-8f7e-6f0e7a1c2d02"), "{told}");
    assert!(told.contains("PASSED") && !told.contains("INCORRECT"), "{told}");
    let told = ask(&kernel.replace("* scale", "* 3.0f"));
    assert!(told.contains("INCORRECT_NUMERICAL"), "{told}");
}
