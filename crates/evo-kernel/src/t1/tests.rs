//! Both dialects, and what is refused.

use serde_json::{Value, json};

use super::*;

fn ktt() -> Value {
    json!({
        "ConfigurationSpace": {
            "TuningParameters": [
                { "Name": "BX", "Type": "uint", "Values": "[32, 64]" },
                { "Name": "SOA", "Type": "bool", "Values": "[False, True]" },
            ],
            "Conditions": [{ "Parameters": ["BX", "SOA"], "Expression": "BX > 32 || SOA == 0" }],
        },
        "General": { "OutputFormat": "JSON" },
        "KernelSpecification": {
            "Language": "CUDA", "KernelName": "add", "KernelFile": "add.cu", "SharedMemory": 0,
            "CompilerOptions": ["-use_fast_math", ""],
            "GlobalSize": { "X": "4096 // BX" }, "LocalSize": { "X": "BX" },
            "Arguments": [
                { "Name": "x", "Type": "float4", "Size": 1024, "FillType": "Random", "FillValue": 20.0,
                  "AccessType": "ReadOnly", "MemoryType": "Vector" },
                { "Name": "y", "Type": "float", "Size": 4096, "FillType": "Constant", "FillValue": 0.0,
                  "AccessType": "WriteOnly", "MemoryType": "Vector" },
                { "Name": "n", "Type": "int32", "FillValue": 4096, "MemoryType": "Scalar" },
                { "Name": "a", "Type": "float", "FillValue": 3, "MemoryType": "Scalar" },
            ],
        },
    })
}

#[track_caller]
fn has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.contains(line), "no `{line}` in\n{text}");
    }
}

#[test]
fn the_dialect_of_ktt() {
    let drawn = space_of(&ktt().to_string(), "add").unwrap();
    has(
        &drawn.space,
        &[
            "options = [\"--use_fast_math\"]",
            "BX = { values = [32, 64], default = 32 }",
            "SOA = { values = [false, true], default = false }",
            "require = \"BX > 32  or  SOA == 0\"",
            "name = \"x\"\ndtype = \"f32\"\nshape = [\"4 * (1024)\"]\nrole = \"input\"\nfill = { uniform = [0.0, 20.0] }",
            "name = \"n\"\ndtype = \"i32\"\nvalue = 4096",
            "name = \"a\"\ndtype = \"f32\"\nvalue = 3.0",
            "grid = [\"4096 // BX\", \"1\", \"1\"]\nblock = [\"BX\", \"1\", \"1\"]",
            "grid = [\"4096 // 32\", \"1\", \"1\"]",
        ],
    );
    let (name, text) = drawn.reference.unwrap();
    assert_eq!(name, "add_reference.cu");
    assert!(text.ends_with("#define BX 32\n#define SOA 0\n#include \"add.cu\"\n"), "{text}");
    let mut threads = ktt();
    threads["KernelSpecification"]["GlobalSizeType"] = "OpenCL".into();
    has(
        &space_of(&threads.to_string(), "add").unwrap().space,
        &["grid = [\"ceil_div(4096 // BX, BX)\", \"ceil_div(1, 1)\""],
    );
}

#[test]
fn the_dialect_of_kernel_tuner() {
    let mut file = ktt();
    let kernel = &mut file["KernelSpecification"];
    kernel["ProblemSize"] = json!([4096, 64]);
    kernel["GridDivX"] = json!(["BX", "SOA"]);
    kernel["Arguments"][1] = json!({ "Name": "y", "Type": "float", "Size": "ProblemSize[0]+max(BX)-1", "Output": 1,
        "FillType": "Constant", "FillValue": 0, "MemoryType": "Vector" });
    kernel["Arguments"][0]["MemType"] = "Constant".into();
    file["ConfigurationSpace"]["TuningParameters"][0]["Default"] = 64.into();
    let drawn = space_of(&file.to_string(), "add").unwrap();
    has(
        &drawn.space,
        &[
            "default = 64",
            "grid = [\"ceil_div(4096, BX * SOA)\", \"ceil_div(64, 1)\", \"1\"]",
            "shape = [\"4096+64-1\"]\nrole = \"output\"",
            "symbol = \"x\"",
        ],
    );
}

#[test]
fn what_has_no_counterpart_is_refused_by_name_and_place() {
    let refused = |change: &dyn Fn(&mut Value), expected: &str| {
        let mut file = ktt();
        change(&mut file);
        let error = space_of(&file.to_string(), "add").unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(!error.hint.is_empty());
    };
    let argument = "KernelSpecification.Arguments[0]";
    refused(
        &|own| own["KernelSpecification"]["Language"] = "OpenCL".into(),
        "KernelSpecification.Language: `OpenCL` is not supported",
    );
    refused(
        &|own| own["KernelSpecification"]["Arguments"][0]["FillType"] = "Generator".into(),
        &format!("{argument}.FillType: `Generator` is not supported"),
    );
    refused(
        &|own| own["KernelSpecification"]["Arguments"][0]["Type"] = "custom".into(),
        &format!("{argument}.Type: the type `custom` is not supported"),
    );
    refused(
        &|own| own["KernelSpecification"]["Arguments"][0]["MemoryType"] = "Local".into(),
        &format!("{argument}.MemoryType: `Local` is not supported"),
    );
    refused(
        &|own| own["ConfigurationSpace"]["TuningParameters"][0]["Values"] = "[2**i for i in range(3)]".into(),
        "ConfigurationSpace.TuningParameters[0].Values: `[2**i for i in range(3)]` is not supported",
    );
    refused(
        &|own| own["KernelSpecification"]["KernelFile"] = Value::Null,
        "KernelSpecification: it has no `KernelFile`",
    );
    refused(&|own| *own = json!([]), "the file: it has no `ConfigurationSpace`");
    assert!(space_of("{", "add").unwrap_err().to_string().starts_with("line 1, column 1: it is not JSON"));
}
