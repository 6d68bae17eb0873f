//! What the launch code of an export would launch, compared with evo's own plan: the generated C++ is compiled against a
//! runtime that writes launches down, and the generated Python prints its own.

use std::collections::BTreeMap;

use evo_protocol::dtype::DType;
use evo_protocol::plan::{ArgumentRef, LaunchPlan, ProblemPlan, ScalarPlan};
use evo_protocol::tensor_map::{OutsideFill, TENSOR_MAP_BYTES, TensorMap, TensorMapPlan};
use serde_json::json;

use crate::files::{ExportFile, render, uses_maps};
use crate::model::{ExportModel, PassedArgument, element_type};
use crate::translate::Exported;

/// The programs: `record.cpp` is compiled with `cuda_runtime.h` beside it, `record.py` runs as it is. Both lie in a folder
/// with the export's own files.
pub fn programs(model: &ExportModel, problems: &[BTreeMap<String, i64>]) -> Exported<Vec<ExportFile>> {
    let row = |sizes: &BTreeMap<String, i64>| {
        model.sizes.iter().map(|size| sizes.get(&size.name).copied().unwrap_or(0)).collect::<Vec<i64>>()
    };
    let problems: Vec<Vec<i64>> = problems.iter().map(row).collect();
    let bytes_of = |argument: &PassedArgument| match argument {
        PassedArgument::Buffer { .. } => 0,
        PassedArgument::Scalar { dtype, .. } => dtype.bytes(),
        PassedArgument::Literal(scalar) => scalar.dtype.bytes(),
        PassedArgument::TensorMap(_) => TENSOR_MAP_BYTES as u64,
    };
    let signature = |at: usize| {
        let mut launches = model.steps.iter().flat_map(|step| &step.launches);
        let first = launches.find(|launch| launch.entry == at);
        first.map(|launch| launch.arguments.iter().map(bytes_of).collect()).unwrap_or_default()
    };
    let signatures: Vec<Vec<u64>> = (0..model.entries.len()).map(signature).collect();
    let ns = format!("{}_export", model.ident);
    let context = json!({ "m": model, "ns": ns, "problems": problems, "signatures": signatures,
        "uses_maps": uses_maps(model) });
    let runtime = include_str!("../templates/record_runtime.hpp");
    let driver = include_str!("../templates/record_driver.hpp");
    let cpp = render("record.cpp", include_str!("../templates/record.cpp.j2"), &context)?;
    let python = render("record.py", include_str!("../templates/record.py.j2"), &context)?;
    Ok(vec![
        ExportFile::of("cuda_runtime.h", runtime, ""),
        ExportFile::of("cuda.h", driver, ""),
        ExportFile::of("record.cpp", cpp, ""),
        ExportFile::of("record.py", python, ""),
    ])
}

pub fn compare(model: &ExportModel, printed: &str, plans: &[ProblemPlan]) -> Result<(), String> {
    let mut problems = printed.split("problem\n");
    problems.next();
    for plan in plans {
        let Some(lines) = problems.next() else {
            return Err(format!("nothing was printed for the problem `{}`", plan.name));
        };
        let expected = expected(model, plan);
        let found: Vec<&str> = lines.lines().collect();
        let differs = |at: &usize| found.get(*at).copied() != Some(expected[*at].as_str());
        if let Some(at) = (0..expected.len()).find(differs) {
            let found = found.get(at).copied().unwrap_or("nothing");
            return Err(format!("in problem `{}`: `{found}` instead of `{}`", plan.name, expected[at]));
        }
        if let Some(more) = found.get(expected.len()) {
            return Err(format!("in problem `{}`: `{more}` too much", plan.name));
        }
    }
    let more = || "more problems were printed than there are".to_string();
    problems.next().map_or(Ok(()), |_| Err(more()))
}

fn expected(model: &ExportModel, plan: &ProblemPlan) -> Vec<String> {
    let bytes: Vec<String> = plan.buffers.iter().map(|buffer| buffer.bytes().to_string()).collect();
    let mut lines = vec![format!("bytes {}", bytes.join(" "))];
    lines.extend(plan.launches.iter().map(|launch_plan| launch(model, plan, launch_plan)));
    lines
}

fn launch(model: &ExportModel, plan: &ProblemPlan, launch: &LaunchPlan) -> String {
    let entry = model.entries.iter().position(|entry| entry.name == launch.entry);
    let mut words = vec!["launch".to_string(), entry.map_or("?".to_string(), |at| at.to_string())];
    let numbers = launch.grid.iter().chain(&launch.block).chain([&launch.shared_bytes]);
    words.extend(numbers.chain(&launch.cluster.unwrap_or([0; 3])).map(ToString::to_string));
    words.extend([launch.cooperative, launch.programmatic].map(|flag| u8::from(flag).to_string()));
    words.extend(launch.arguments.iter().map(|argument| match argument {
        ArgumentRef::Buffer(at) => format!("b{at}"),
        ArgumentRef::Scalar(at) => plan.scalars.get(*at).map_or("?".to_string(), scalar),
        ArgumentRef::Literal(at) => plan.literals.get(*at).map_or("?".to_string(), scalar),
        ArgumentRef::TensorMap(at) => plan.tensor_maps.get(*at).map_or("?".to_string(), tensor_map),
    }));
    words.join(" ")
}

fn tensor_map(plan: &TensorMapPlan) -> String {
    let TensorMap { dtype, dims, strides, extents, swizzle, fill } = &plan.map;
    let (_, data_type) = element_type(*dtype);
    let fill = u8::from(*fill == OutsideFill::Nan);
    let list = |all: &[i64]| all.iter().map(i64::to_string).collect::<Vec<_>>().join(",");
    let (dims, strides, extents) = (list(dims), list(strides), list(extents));
    format!("m{}:{data_type}:{dims}:{strides}:{extents}:{}:{fill}", plan.of, *swizzle as u32)
}

fn scalar(scalar: &ScalarPlan) -> String {
    let bytes = match scalar.dtype {
        DType::F32 => (scalar.value as f32).to_le_bytes().to_vec(),
        DType::F64 => scalar.value.to_le_bytes().to_vec(),
        dtype => {
            let all = scalar.integer.unwrap_or_default().to_le_bytes();
            all[..usize::try_from(dtype.bytes()).unwrap_or(8)].to_vec()
        }
    };
    format!("s{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}
