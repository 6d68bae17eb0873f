//! Built-in references as kernels of the device: they agree with the plain functions, a wrong one is found, and they
//! judge a variant as the plain functions do. The host device compiles and runs the same kernels as a GPU does.

use std::path::PathBuf;

use evo::compile::toolbox::Toolbox;
use evo::compile::{FarmOptions, own_kernels};
use evo::supervise::job::Standing;
use evo::supervise::lane::{Lane, LaneLimits, LaneOptions};
use evo::worker::judge::agreement::{Agreement, compare_references};
use evo::worker::judge::on_device;
use evo_device::host::HostDevice;
use evo_protocol::binary::KernelSource;
use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::{Gate, GateState, VerdictKind};
use evo_protocol::worker::ReferenceKernels;
use evo_space::value::Value;

use crate::lane::job_of;
use crate::skip::is_full;
use crate::toolchain;

/// The kernels of one reference, or of all, as a file, with a text of theirs replaced.
fn compiled(name: Option<&str>, (from, to): (&str, &str), cache: &tempfile::TempDir) -> PathBuf {
    let source = on_device::source(name).unwrap();
    assert!(source.contains(from), "{from}");
    let source = KernelSource::plain("references.cu", source.replace(from, to), on_device::entries(name));
    own_kernels(&farm(DeviceKind::Host, "host", toolchain::host_toolbox(), cache), source).unwrap()
}

fn farm(kind: DeviceKind, arch: &str, toolbox: Toolbox, cache: &tempfile::TempDir) -> FarmOptions {
    FarmOptions { toolbox, cache: cache.path().to_path_buf(), ..FarmOptions::new(kind, arch) }
}

fn agreement(name: &str, from: &str, to: &str) -> Vec<Agreement> {
    let cache = tempfile::tempdir().unwrap();
    let image = std::fs::read(compiled(Some(name), (from, to), &cache)).unwrap();
    compare_references(Box::new(HostDevice::open().unwrap()), &image, Some(name), 5).unwrap()
}

#[test]
fn a_kernel_that_is_wrong_is_found() {
    if !is_full("kernels") {
        return;
    }
    let check = |kernel: &str, from: &str, to: &str| {
        let rows = agreement(kernel, from, to);
        assert!(
            rows.iter().any(|row| row.difference.is_some()),
            "`{to}` for `{from}` is not found: {rows:?}"
        );
    };
    let rmsnorm = ("row_sum(square) / (double)columns + 1e-6)", "row_sum(square) / (double)columns + 1e-5)");
    check("rmsnorm", rmsnorm.0, rmsnorm.1);
    check("gemm", "tile.right[p][own_column + 16 * j];", "tile.right[p][own_column + 16 * j] * 1.000001f;");
    // Only the trusted computation, whose error decides how far a kernel may be off.
    check(
        "softmax",
        "rounded(expf(x.single(start + i) - most) / total, type)",
        "expf(x.single(start + i) - most) / total",
    );
}

fn options(kernels: ReferenceKernels, cache: &tempfile::TempDir) -> LaneOptions {
    LaneOptions {
        command: Some(vec![env!("CARGO_BIN_EXE_evo").into(), "worker".into()]),
        device: "host".into(),
        cache: cache.path().join("expected"),
        support_cubin: None,
        reference_kernels: Some(kernels),
        leased: false,
    }
}

fn lane(kernels: ReferenceKernels, cache: &tempfile::TempDir) -> Lane {
    Lane::start_with(options(kernels, cache), LaneLimits::default()).unwrap()
}

fn rmsnorm(vector: i64) -> evo::supervise::job::Job {
    let numbers = [("THREADS_PER_ROW", 256), ("ROWS_PER_BLOCK", 1), ("VEC", vector), ("CACHED", 2)];
    let mut values: Vec<(&str, Value)> = numbers.map(|(name, value)| (name, Value::Int(value))).to_vec();
    values.push(("cache", Value::text("registers")));
    job_of("rmsnorm", &values, false)
}

#[test]
fn a_variant_is_judged_by_answers_of_the_device() {
    let cache = tempfile::tempdir().unwrap();
    let path = compiled(Some("rmsnorm"), ("", ""), &cache);
    let mut lane = lane(ReferenceKernels { name: "rmsnorm".into(), path }, &cache);
    for vector in [8, 4] {
        let judged = lane.evaluate(&rmsnorm(vector), &Standing::default());
        assert!(judged.verdict.is_pass(), "{judged:#?}");
        let full = judged.gates.iter().find(|report| report.gate == Gate::FullShapes).unwrap();
        assert_eq!(full.state, GateState::Pass);
        assert!(full.cases > 5, "{full:?}");
    }
}

#[test]
fn a_reference_on_which_both_do_not_agree_is_nobodys_verdict() {
    let cache = tempfile::tempdir().unwrap();
    let path = compiled(Some("rmsnorm"), ("(double)columns + 1e-6)", "(double)columns + 1e-2)"), &cache);
    let mut lane = lane(ReferenceKernels { name: "rmsnorm".into(), path }, &cache);
    let judged = lane.evaluate(&rmsnorm(8), &Standing::default());
    assert_eq!(judged.verdict.kind, VerdictKind::HarnessError, "{judged:#?}");
    assert!(judged.verdict.message.contains("do not agree"), "{}", judged.verdict.message);
}

/// A space with a reference of its own at a size that the device answers.
struct LargeSpace {
    arguments: &'static str,
    kernel: &'static str,
    reference: &'static str,
    /// What is replaced in the kernel to make it wrong.
    mistake: (&'static str, &'static str),
}

const LARGE: [LargeSpace; 4] = [
    // In two precisions.
    LargeSpace {
        arguments: "x f32 R,C input; gamma f32 C input; y f32 R,C output",
        kernel: "float sum = 0, square = 0;
            for (int i = 0; i < columns; ++i) sum += x[row * columns + i];
            for (int i = 0; i < columns; ++i) {
                float d = x[row * columns + i] - sum / columns;
                square += d * d;
            }
            for (int i = 0; i < columns; ++i) {
                float d = x[row * columns + i] - sum / columns;
                y[row * columns + i] = d * rsqrtf(square / columns + 1e-5f) * gamma[i] + 0.0f;
            }",
        reference: "REAL sum = 0, square = 0;
            for (int i = 0; i < columns; ++i) sum += x[row * columns + i];
            for (int i = 0; i < columns; ++i) {
                REAL d = x[row * columns + i] - sum / columns;
                square += d * d;
            }
            for (int i = 0; i < columns; ++i) {
                REAL d = x[row * columns + i] - sum / columns;
                y[row * columns + i] = d / sqrt(square / columns + REAL(1e-5f)) * gamma[i];
            }",
        mistake: ("+ 0.0f", "+ (i == 1000 ? 1e-3f : 0.0f)"),
    },
    // In the kernel's own types alone: a half that is rounded, and few sums.
    LargeSpace {
        arguments: "x f32 R,C input; h f16 R,C output; s f32 R output",
        kernel: "float sum = 0;
            for (int i = 0; i < columns; ++i) {
                sum += x[row * columns + i] * x[row * columns + i];
                h[row * columns + i] = __float2half(0.5f * x[row * columns + i] + 0.0f);
            }
            s[row] = sum;",
        reference: "float sum = 0;
            for (int i = 0; i < columns; ++i) {
                sum += x[row * columns + i] * x[row * columns + i];
                h[row * columns + i] = __float2half(0.5f * x[row * columns + i]);
            }
            s[row] = sum;",
        mistake: ("+ 0.0f", "+ (i == 1000 ? 0.1f : 0.0f)"),
    },
    // Integers that rounding decides here and there.
    LargeSpace {
        arguments: "x f32 R,C input; bin i32 R,C output",
        kernel: "for (int i = 0; i < columns; ++i) {
                bin[row * columns + i] = (int)floorf(x[row * columns + i] * 7.3f) + 0;
            }",
        reference: "for (int i = 0; i < columns; ++i) {
                bin[row * columns + i] = (int)floor(x[row * columns + i] * REAL(7.3f));
            }",
        mistake: ("+ 0;", "+ (i % 256 == 7);"),
    },
    // In place.
    LargeSpace {
        arguments: "x f32 R,C input; y f32 R,C inout",
        kernel: "for (int i = 0; i < columns; ++i) y[row * columns + i] += 0.37f * x[row * columns + i];",
        reference: "for (int i = 0; i < columns; ++i) {
                y[row * columns + i] += REAL(0.37f) * x[row * columns + i];
            }",
        mistake: ("0.37f", "(i % 64 == 5 ? 0.3701f : 0.37f)"),
    },
];

impl LargeSpace {
    /// The job of its only kernel, or of a wrong one.
    fn job(&self, is_wrong: bool) -> evo::supervise::job::Job {
        let folder = tempfile::tempdir().unwrap();
        let (mut file, mut kernel, mut reference) = (String::new(), String::new(), String::new());
        for argument in self.arguments.split("; ") {
            let [name, dtype, shape, role] =
                argument.split(' ').collect::<Vec<_>>().try_into().unwrap_or_default();
            let shape = shape.replace(',', "\", \"");
            file += &format!(
                "[[arguments]]\nname = \"{name}\"\ndtype = \"{dtype}\"\nshape = [\"{shape}\"]\nrole = \"{role}\"\n"
            );
            let constness = if role == "input" { "const " } else { "" };
            let own = match dtype {
                "f16" => "__half",
                "i32" => "int",
                _ => "float",
            };
            let wide = if own == "float" && self.reference.contains("REAL") { "REAL" } else { own };
            kernel += &format!("{constness}{own}* {name}, ");
            reference += &format!("{constness}{wide}* {name}, ");
        }
        let body = |code: &str| {
            format!(
                "int rows, int columns) {{ int row = blockIdx.x * 32 + threadIdx.x; if (row < rows) {{ {code} }} }}\n"
            )
        };
        let (from, to) = if is_wrong { self.mistake } else { ("", "") };
        assert!(self.kernel.contains(from));
        let kernel = format!(
            "#include <cuda_fp16.h>\nextern \"C\" __global__ void k({kernel}{}",
            body(&self.kernel.replacen(from, to, 1))
        );
        let reference = format!(
            "#include <cuda_fp16.h>\nextern \"C\" __global__ void naive({reference}{}",
            body(self.reference)
        );
        let file = format!(
            "[kernel]\nname = \"large\"\nsource = \"k.cu\"\n[parameters]\nN = {{ values = [1] }}\n{file}\
             [[arguments]]\nname = \"rows\"\ndtype = \"i32\"\nvalue = \"R\"\n\
             [[arguments]]\nname = \"columns\"\ndtype = \"i32\"\nvalue = \"C\"\n\
             [[launches]]\nentry = \"k\"\ngrid = \"ceil_div(R, 32)\"\nblock = 32\n\
             [[problems]]\nname = \"large\"\nsizes = {{ R = 600, C = 1024 }}\n\
             [check]\ntiny = [{{ R = 2, C = 1100 }}]\nreference = {{ source = \"naive.cu\", entry = \"naive\", \
             grid = \"ceil_div(R, 32)\", block = 32 }}\n"
        );
        for (name, text) in [("space.toml", file), ("k.cu", kernel), ("naive.cu", reference)] {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        job_of(folder.path().join("space.toml").to_str().unwrap(), &[("N", Value::Int(1))], false)
    }
}

#[test]
fn a_reference_of_ones_own_judges_large_shapes_on_the_device_as_on_the_processor() {
    if !is_full("kernels") {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let path = compiled(Some(on_device::OWN), ("", ""), &cache);
    let on_device = options(ReferenceKernels { name: on_device::OWN.into(), path }, &cache);
    let on_processor = LaneOptions { reference_kernels: None, ..on_device.clone() };
    let limits =
        || LaneLimits { sampling_max: Some(std::time::Duration::from_millis(100)), ..LaneLimits::default() };
    let mut lanes = [on_device, on_processor].map(|options| Lane::start_with(options, limits()).unwrap());
    for space in &LARGE {
        let job = space.job(false);
        let right = lanes.each_mut().map(|lane| lane.evaluate(&job, &Standing::default()));
        let full = right.each_ref().map(|judged| {
            assert!(judged.verdict.is_pass(), "{judged:#?}");
            judged.gates.iter().find(|report| report.gate == Gate::FullShapes).unwrap()
        });
        assert_eq!((full[0].cases, &full[0].evidence), (full[1].cases, &full[1].evidence));
        let job = space.job(true);
        let wrong = lanes.each_mut().map(|lane| lane.evaluate(&job, &Standing::default()).verdict);
        assert_eq!(wrong[0].kind, VerdictKind::WrongAnswer, "{:#?}", wrong[0]);
        assert_eq!((wrong[0].kind, &wrong[0].cause), (wrong[1].kind, &wrong[1].cause));
    }
}

#[test]
fn inputs_that_are_drawn_otherwise_are_nobodys_verdict() {
    if !is_full("kernels") {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    let path = compiled(Some(on_device::OWN), ("round < 4", "round < 3"), &cache);
    let mut lane = lane(ReferenceKernels { name: on_device::OWN.into(), path }, &cache);
    let judged = lane.evaluate(&LARGE[0].job(false), &Standing::default());
    assert_eq!(judged.verdict.kind, VerdictKind::HarnessError, "{judged:#?}");
    assert!(judged.verdict.message.contains("`x` is drawn otherwise"), "{}", judged.verdict.message);
}

#[test]
fn they_compile_for_gpus() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let cache = tempfile::tempdir().unwrap();
    for (name, arch) in
        [(None, "sm_90a"), (None, "sm_75"), (Some("gemm"), "sm_80"), (Some(on_device::OWN), "sm_100a")]
    {
        let text = on_device::source(name).unwrap();
        let source = KernelSource::plain("references.cu", text, on_device::entries(name));
        own_kernels(&farm(DeviceKind::Cuda, arch, toolchain::toolbox(), &cache), source)
            .unwrap_or_else(|error| panic!("{name:?} for {arch}: {error}"));
    }
    assert!(on_device::source(Some("convolution")).is_none());
}
