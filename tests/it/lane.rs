//! The whole way through the real worker on the host device: broken variants between good ones.

use std::sync::OnceLock;
use std::time::Duration;

use evo::compile::{FarmOptions, compile_one};
use evo::engine::ports::{DeepOrder, JobOrder, Recipe};
use evo::engine::recipe::{KernelRecipe, problems_on};
use evo::kernel::catalog;
use evo::kernel::render::{render_reference, render_single_reference};
use evo::supervise::cascade::objective;
use evo::supervise::deadline::Deadlines;
use evo::supervise::job::{Job, Judgement, Standing};
use evo::supervise::lane::{Lane, LaneLimits, LaneOptions};
use evo::timing::paired::compare;
use evo_protocol::binary::{Binary, KernelSource};
use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::RecoveryLevel;
use evo_protocol::leaderboard::PairedDecision;
use evo_protocol::measurement::TimingMode;
use evo_protocol::verdict::{Gate, GateState, VerdictKind};
use evo_space::genome::Configuration;
use evo_space::value::Value;

use crate::toolchain;

/// Compiled variants are shared by the tests of this file.
fn cache() -> &'static tempfile::TempDir {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().unwrap())
}

fn compile(source: KernelSource) -> Binary {
    let options = FarmOptions {
        jobs: 1,
        cache: cache().path().join("compiled"),
        toolbox: toolchain::host_toolbox(),
        ..FarmOptions::new(DeviceKind::Host, "host")
    };
    compile_one(&options, source).unwrap().unwrap()
}

/// A host device whose worker has this command.
pub fn options(command: Vec<String>) -> LaneOptions {
    LaneOptions {
        command: Some(command),
        device: "host".into(),
        cache: cache().path().join("expected"),
        support_cubin: None,
        reference_kernels: None,
        leased: false,
    }
}

pub fn own_worker() -> Vec<String> {
    vec![env!("CARGO_BIN_EXE_evo").into(), "worker".into()]
}

pub fn lane() -> Lane {
    let options = options(own_worker());
    let deadlines = Deadlines::tiny(DeviceKind::Host).with_launched(Duration::from_secs(2));
    let sampling_max = Some(Duration::from_millis(100));
    let limits = LaneLimits { deadlines: Some(deadlines), sampling_max, ..LaneLimits::default() };
    Lane::start_with(options, limits).unwrap()
}

/// The job for a variant of the space of broken kernels.
pub fn fault(name: &str) -> Job {
    job_of("faults", &[("FAULT", Value::text(name)), ("THREADS", Value::Int(128))], false)
}

/// The job for a variant that is right and does its work `rounds` times.
fn rounds(rounds: i64) -> Job {
    let space = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/rounds/rounds.toml");
    job_of(space, &[("ROUNDS", Value::Int(rounds))], false)
}

pub fn job_of(space: &str, values: &[(&str, Value)], deep: bool) -> Job {
    let file = catalog::open(space).unwrap();
    let kernel = file.kernel.as_ref().unwrap();
    let pairs = values.iter().map(|(name, value)| ((*name).into(), value.clone()));
    let configuration = Configuration::new(pairs.collect());
    let reference = render_reference(kernel).map(|source| (compile(source.clone()), source.entries));
    let problems = problems_on(kernel, DeviceKind::Host);
    let single = render_single_reference(kernel).map(compile);
    let recipe = KernelRecipe::new(kernel, evo_device::host::limits(), &problems, reference, 1);
    let recipe = recipe.with_single(single.as_ref());
    let prepared = recipe.prepare(&configuration).unwrap();
    let binaries: Vec<Binary> = prepared.sources.iter().cloned().map(compile).collect();
    let variant_hash = configuration.hash();
    let order = JobOrder {
        number: 1,
        label: configuration.to_string(),
        variant_hash,
        deep: deep.then_some(DeepOrder::ALONE),
    };
    recipe.job(&prepared, &binaries, order).unwrap()
}

fn state(result: &Judgement, gate: Gate) -> GateState {
    result.gates.iter().find(|report| report.gate == gate).unwrap().state
}

fn standing(result: &Judgement, job: &Job) -> Standing {
    let hot = result.measurements.iter().filter(|one| one.mode == TimingMode::Hot);
    let problems = hot.map(|one| (one.problem.clone(), one.p50_ns)).collect();
    Standing::new(problems, objective(&result.measurements, &job.timed, TimingMode::Hot).unwrap())
}

#[test]
fn broken_variants_between_good_ones() {
    let mut lane = lane();
    let good = fault("none");
    let first = lane.evaluate(&good, &Standing::default());
    assert!(first.verdict.is_pass(), "{first:#?}");
    assert!(first.gates.iter().all(|report| report.state == GateState::Pass), "{:#?}", first.gates);
    for (name, expected) in [
        ("drop", VerdictKind::WrongAnswer),
        ("trap", VerdictKind::CrashTrap),
        ("barrier", VerdictKind::DivergentBarrier),
        ("spin", VerdictKind::Hang),
        ("illegal_address", VerdictKind::CrashIllegalAddress),
    ] {
        let bad = lane.evaluate(&fault(name), &Standing::default());
        assert_eq!(bad.verdict.kind, expected, "{name}: {bad:#?}");
        assert_eq!(state(&bad, Gate::TinyShapes), GateState::Fail, "{name}: {:#?}", bad.gates);
        if name == "spin" {
            assert_eq!(bad.verdict.evidence.get("phase"), Some(&"launched".into()));
            assert_eq!(bad.recovery.unwrap().level, RecoveryLevel::R2);
        }
        // A neighbor may look slower on a busy machine, but never wrong.
        let again = lane.evaluate(&good, &Standing::default());
        assert!(again.verdict.is_pass(), "after {name}: {again:#?}");
    }
}

#[test]
fn a_slow_but_right_variant_is_measured_and_left_behind() {
    let mut lane = lane();
    let good = rounds(1);
    let first = lane.evaluate(&good, &Standing::default());
    assert!(first.verdict.is_pass(), "{first:#?}");
    let best = standing(&first, &good);
    let slow = lane.evaluate(&rounds(40), &best);
    assert_eq!(slow.verdict.kind, VerdictKind::TooSlow, "{slow:#?}");
    assert!(slow.objective_ns.unwrap() > best.objective_ns.unwrap());
    assert_eq!(slow.measurements.len(), 1);
    assert!(slow.recovery.is_none());
    assert_eq!(state(&slow, Gate::FullShapes), GateState::Pass);
    assert_eq!(state(&slow, Gate::Timing), GateState::Fail);
    assert_eq!(state(&slow, Gate::Repeatability), GateState::NotRun);
}

#[test]
fn a_deep_job_is_measured_in_every_mode() {
    let mut lane = lane();
    let deep = job_of("faults", &[("FAULT", Value::text("none")), ("THREADS", Value::Int(128))], true);
    let result = lane.evaluate(&deep, &Standing::default());
    assert!(result.verdict.is_pass(), "{result:#?}");
    let modes: Vec<TimingMode> = result.measurements.iter().map(|one| one.mode).collect();
    assert_eq!(modes, [TimingMode::Hot, TimingMode::Cold, TimingMode::Eager]);
    for measurement in &result.measurements {
        assert!(measurement.ci_low_ns <= measurement.p50_ns && measurement.p50_ns <= measurement.ci_high_ns);
        assert!(measurement.p50_ns > 0.0);
    }
}

#[test]
fn a_much_slower_rival_loses_the_paired_comparison() {
    let mut lane = lane();
    let (quick, slow) = (rounds(1), rounds(40));
    let ratios: Vec<Vec<f64>> =
        (0..2).map(|_| lane.pair(&slow, &quick, &[0], 3).unwrap().remove(0).log_ratios).collect();
    let comparison = compare(&ratios, 0.01, 1);
    assert_eq!(comparison.decision, PairedDecision::Faster, "{comparison:?} {ratios:?}");
    let noise = lane.noise_floor(&quick, 1).unwrap();
    assert!(noise.floor.is_finite());
}
