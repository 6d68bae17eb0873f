//! Built-in references as kernels of the device: they agree with the plain functions, a wrong one is found, and they
//! judge a variant as the plain functions do. The host device compiles and runs the same kernels as a GPU does.

use std::path::PathBuf;
use std::process::Command;

use evo::compile::support::{OwnKernels, kernels_with};
use evo::supervise::job::Standing;
use evo::supervise::lane::{Lane, LaneLimits, LaneOptions};
use evo::worker::judge::agreement::{Agreement, compare_references};
use evo::worker::judge::on_device;
use evo_device::host::HostDevice;
use evo_protocol::device::DeviceKind;
use evo_protocol::verdict::{Gate, GateState, VerdictKind};
use evo_protocol::worker::ReferenceKernels;
use evo_space::value::Value;
use serde_json::{Value as Json, json};

use crate::lane::job_of;
use crate::support;
use crate::toolchain;

const NAMES: [&str; 6] = ["attention", "gemm", "reduction", "rmsnorm", "softmax", "transpose"];

/// The kernels of one reference, or of all, as a file, with a text of theirs replaced.
fn compiled(name: Option<&str>, (from, to): (&str, &str), cache: &tempfile::TempDir) -> PathBuf {
    let source = on_device::source(name).unwrap();
    assert!(source.contains(from), "{from}");
    let own = OwnKernels {
        file_name: "references.cu",
        text: source.replace(from, to),
        entries: on_device::entries(name),
    };
    kernels_with(&toolchain::host_toolbox(), DeviceKind::Host, "host", own, cache.path()).unwrap()
}

fn agreement(name: &str, from: &str, to: &str) -> Vec<Agreement> {
    let cache = tempfile::tempdir().unwrap();
    let image = std::fs::read(compiled(Some(name), (from, to), &cache)).unwrap();
    compare_references(&mut HostDevice::open().unwrap(), &image, Some(name), 5).unwrap()
}

#[test]
fn the_self_test_finds_no_difference() {
    let output = Command::new(env!("CARGO_BIN_EXE_evo"))
        .env("EVO_CACHE_DIR", support::cache())
        .args(["selftest", "references", "--device", "host", "--seed", "7", "--json"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stdout));
    let answer: Json = serde_json::from_slice(&output.stdout).unwrap();
    let checks = answer["checks"].as_array().unwrap();
    for name in NAMES {
        let own = |check: &&Json| check["name"].as_str().is_some_and(|own| own.starts_with(name));
        assert!(checks.iter().filter(own).count() >= 9, "{name}: {checks:?}");
    }
    for name in ["draw bell f32", "draw range i64", "convert f16", "measure"] {
        assert!(checks.iter().any(|check| check["name"] == json!(name)), "{name}: {checks:?}");
    }
    assert!(checks.iter().all(|check| check["passed"] == json!(true)), "{checks:?}");
}

#[test]
fn a_kernel_that_is_wrong_is_found() {
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

/// A layer normalization with a reference of its own at a size that the device answers, with a text of its source replaced.
fn layer_norm((from, to): (&str, &str), folder: &tempfile::TempDir) -> evo::supervise::job::Job {
    let peers = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/benches/throughput_peers"));
    let text = |name: &str| std::fs::read_to_string(peers.join(name)).unwrap();
    let small = "sizes = { R = 96, C = 512 }";
    assert!(text("layer_norm.toml").contains(small) && text("layer_norm.cu").contains(from));
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    write("layer_norm.toml", text("layer_norm.toml").replace(small, "sizes = { R = 600, C = 1024 }"));
    write("layer_norm.cu", text("layer_norm.cu").replace(from, to));
    write("layer_norm_naive.cu", text("layer_norm_naive.cu"));
    let values = [("THREADS", 64), ("VEC", 4), ("CACHED", 0)].map(|(name, value)| (name, Value::Int(value)));
    job_of(folder.path().join("layer_norm.toml").to_str().unwrap(), &values, false)
}

#[test]
fn a_reference_of_ones_own_judges_large_shapes_on_the_device_as_on_the_processor() {
    let cache = tempfile::tempdir().unwrap();
    let kernels = || {
        let path = compiled(Some(on_device::OWN), ("", ""), &cache);
        ReferenceKernels { name: on_device::OWN.into(), path }
    };
    let on_processor = LaneOptions { reference_kernels: None, ..options(kernels(), &cache) };
    let mut lanes = [lane(kernels(), &cache), Lane::start_with(on_processor, LaneLimits::default()).unwrap()];
    let mut judge = |change: (&str, &str)| {
        let folder = tempfile::tempdir().unwrap();
        let job = layer_norm(change, &folder);
        lanes.each_mut().map(|lane| lane.evaluate(&job, &Standing::default()))
    };
    let right = judge(("", ""));
    let full = right.each_ref().map(|judged| {
        assert!(judged.verdict.is_pass(), "{judged:#?}");
        judged.gates.iter().find(|report| report.gate == Gate::FullShapes).unwrap()
    });
    assert_eq!(full[0].cases, full[1].cases);
    assert_eq!(full[0].evidence, full[1].evidence);
    // One column in a thousand is off by a thousandth.
    let wrong = judge((
        "* factor * gamma[at + e] + beta[at + e]",
        "* factor * gamma[at + e] + beta[at + e] + (at + e == 1000 ? 1e-3f : 0.0f)",
    ));
    let [on_device, on_processor] = wrong.map(|judged| judged.verdict);
    assert_eq!(on_device.kind, VerdictKind::WrongAnswer, "{on_device:#?}");
    assert_eq!((on_device.kind, on_device.cause), (on_processor.kind, on_processor.cause));
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
        let own = OwnKernels {
            file_name: "references.cu",
            text: on_device::source(name).unwrap(),
            entries: on_device::entries(name),
        };
        kernels_with(&toolchain::toolbox(), DeviceKind::Cuda, arch, own, cache.path())
            .unwrap_or_else(|error| panic!("{name:?} for {arch}: {error}"));
    }
    assert!(on_device::source(Some("convolution")).is_none());
}
