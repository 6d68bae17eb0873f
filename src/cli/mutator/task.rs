//! What a mutator learns of a space: everything that the author of a kernel needs, and nothing of how it is checked.

use std::collections::BTreeMap;
use std::time::Duration;

use evo_protocol::device::DeviceInfo;
use evo_protocol::mutator::{
    MUTATOR_LINE_MAX, MUTATOR_SOURCE_MAX, MutatorArgument, MutatorCaps, MutatorLaunch, MutatorParameter,
    MutatorSizes, MutatorTask,
};
use evo_space::expr::Expr;
use evo_space::space::SearchSpace;
use serde_json::{Value, json};

use crate::kernel::spec::{ArgumentSpec, KernelSpec, LaunchSpec, SourceKind};
use crate::mutator::edits::regions;

/// The task of a kernel on a device.
///
/// # Errors
/// The marks of the source's regions do not fit.
pub fn task(
    kernel: &KernelSpec,
    space: &SearchSpace,
    problems: &[String],
    device: &DeviceInfo,
    proposals: usize,
    deadline: Duration,
) -> Result<MutatorTask, String> {
    let regions = regions(&kernel.source.text)?;
    let timed = kernel.problems.iter().filter(|own| own.timed && problems.contains(&own.name));
    let sizes = |sizes: &BTreeMap<String, evo_space::value::Value>| {
        sizes.iter().map(|(name, value)| (name.clone(), json!(value))).collect()
    };
    Ok(MutatorTask {
        kernel: kernel.name.clone(),
        source_kind: kind(kernel).to_string(),
        source: kernel.source.text.clone(),
        regions: regions.into_iter().map(|own| own.name).collect(),
        arguments: kernel.arguments.iter().map(argument).collect(),
        launches: kernel.launches.iter().map(launch).collect(),
        parameters: space
            .parameters()
            .iter()
            .map(|own| MutatorParameter {
                name: own.name.to_string(),
                values: own.values.iter().map(|value| json!(value)).collect(),
                default: json!(own.default_value()),
            })
            .collect(),
        problems: timed
            .map(|own| MutatorSizes { name: own.name.clone(), sizes: sizes(&own.sizes) })
            .collect(),
        device: DeviceInfo { uuid: String::new(), ..device.clone() },
        caps: MutatorCaps {
            line_bytes: MUTATOR_LINE_MAX,
            source_bytes: MUTATOR_SOURCE_MAX,
            proposals,
            deadline_s: deadline.as_secs_f64(),
        },
    })
}

/// `cuda` or `template`.
pub fn kind(kernel: &KernelSpec) -> &'static str {
    match kernel.source.kind {
        SourceKind::Template => "template",
        SourceKind::Plain | SourceKind::Given => "cuda",
    }
}

fn argument(own: &ArgumentSpec) -> MutatorArgument {
    let (kind, dtype, role, shape) = match own {
        ArgumentSpec::Buffer(buffer) => {
            let role = serde_json::to_value(buffer.role).ok();
            let role = role.and_then(|role| role.as_str().map(String::from));
            ("buffer", Some(buffer.dtype), role, texts(&buffer.shape))
        }
        ArgumentSpec::Scalar(scalar) => ("scalar", Some(scalar.dtype), None, Vec::new()),
        ArgumentSpec::TensorMap(_) => ("tensor_map", None, None, Vec::new()),
    };
    MutatorArgument {
        name: own.name().to_string(),
        kind: kind.to_string(),
        dtype: dtype.map(|own| own.as_str().to_string()),
        role,
        shape,
    }
}

fn launch(own: &LaunchSpec) -> MutatorLaunch {
    MutatorLaunch {
        entry: own.entry.clone(),
        grid: texts(&own.grid),
        block: texts(&own.block),
        shared_bytes: own.shared_bytes.as_ref().map(|own| own.text().to_string()),
    }
}

fn texts(all: &[Expr]) -> Vec<String> {
    all.iter().map(|own| own.text().to_string()).collect()
}

/// A small task of evo's own, for `evo mutator check`.
pub fn example(proposals: usize, deadline: Duration) -> Result<MutatorTask, serde_json::Error> {
    let device: Value = json!({
        "kind": "host", "name": "example", "arch": "host", "uuid": "", "driver": "", "multiprocessors": 1,
        "limits": evo_device::host::limits(), "l2_bytes": 1 << 20, "memory_bytes": 1 << 30,
        "bandwidth": null, "flops_f32": null, "flops_f16": null,
    });
    Ok(MutatorTask {
        kernel: "scale".into(),
        source_kind: "cuda".into(),
        source: EXAMPLE.into(),
        regions: vec!["body".into()],
        arguments: vec![
            buffer("x", "input"),
            buffer("y", "output"),
            MutatorArgument {
                name: "n".into(),
                kind: "scalar".into(),
                dtype: Some("i32".into()),
                role: None,
                shape: Vec::new(),
            },
        ],
        launches: vec![MutatorLaunch {
            entry: "scale".into(),
            grid: vec!["ceil_div(N, BLOCK)".into()],
            block: vec!["BLOCK".into()],
            shared_bytes: None,
        }],
        parameters: vec![MutatorParameter {
            name: "BLOCK".into(),
            values: vec![json!(64), json!(128)],
            default: json!(64),
        }],
        problems: vec![MutatorSizes { name: "p".into(), sizes: [("N".to_string(), json!(4096))].into() }],
        device: serde_json::from_value(device)?,
        caps: MutatorCaps {
            line_bytes: MUTATOR_LINE_MAX,
            source_bytes: MUTATOR_SOURCE_MAX,
            proposals,
            deadline_s: deadline.as_secs_f64(),
        },
    })
}

fn buffer(name: &str, role: &str) -> MutatorArgument {
    MutatorArgument {
        name: name.into(),
        kind: "buffer".into(),
        dtype: Some("f32".into()),
        role: Some(role.into()),
        shape: vec!["N".into()],
    }
}

/// The source of the example task.
pub const EXAMPLE: &str = r#"extern "C" __global__ void scale(const float* x, float* y, int n) {
    int at = blockIdx.x * BLOCK + threadIdx.x;
    // evo: begin body
    if (at < n) y[at] = 2.0f * x[at];
    // evo: end body
}
"#;
