//! Questions after the comparison: why an answer is wrong, and whether a right one stays right.

use evo_device::device::SampleOrder;
use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::measurement::TimingMode;
use evo_protocol::verdict::{Cause, Verdict, VerdictKind};
use evo_protocol::worker::Phase;
use serde_json::json;

use super::bench::Bench;
use super::case::Case;
use super::element::{self, Poison};
use super::run::{self, Mismatch, PreparedCase, RunSetting};
use super::{disagree, inputs, workspace, wrong};

pub(super) const PROBE_ELEMENTS: u64 = 1 << 20;

/// Calls as they are when they are timed: nothing is filled in between, so a kernel that looks for its marks finds
/// them.
pub(super) fn called_again(bench: &mut Bench<'_>, hash: u64) -> Result<Option<Verdict>, DeviceError> {
    if bench.prepared.accumulates()
        || bench.prepared.launches.is_empty()
        || !bench.includes(GateCheck::Repeats)
    {
        return Ok(None);
    }
    let found = after_a_call(bench)?;
    if found == hash {
        return Ok(None);
    }
    if let Some(verdict) = workspace::not_reset(bench)? {
        return Ok(Some(verdict));
    }
    let plain = RunSetting::plain(Poison::B);
    if bench.hash_of_run(plain)? != hash || after_a_call(bench)? != found {
        return disagree::explain(bench, [(plain, found), (plain, hash)]).map(Some);
    }
    let what = "a call that finds what the call before has left gives another output";
    let verdict = Verdict::new(VerdictKind::Stateful, what).with_cause("earlier_call");
    Ok(Some(bench.about(verdict)))
}

/// The hash of what the second of two calls leaves, between which nothing is filled.
fn after_a_call(bench: &mut Bench<'_>) -> Result<u64, DeviceError> {
    let order = SampleOrder {
        rotation: std::slice::from_ref(&bench.prepared.launches),
        mode: TimingMode::Hot,
        samples: 2,
        batch: 1,
        untouched: true,
    };
    let name = bench.prepared.case.name();
    (bench.phase)(Phase::Launched, &name);
    bench.prepared.fill_variables(bench.device())?;
    bench.judge.device.sample(bench.prepared.module, order)?;
    bench.prepared.read_variables(bench.device())?;
    (bench.phase)(Phase::Checking, &name);
    bench.output_hash()
}

/// Why an answer is wrong, as far as cheap tests tell.
pub(super) fn explain(
    bench: &mut Bench<'_>,
    mismatch: &Mismatch,
    hash: Option<u64>,
) -> Result<Verdict, DeviceError> {
    let verdict = wrong::mismatch(bench.prepared, mismatch);
    // Without a hash of a right answer, a wrong one that stays wrong says nothing about the guard zones.
    if hash.is_some()
        && bench.prepared.case.elements() <= PROBE_ELEMENTS
        && let Some(outside) = reads_outside(bench, hash)?
        && outside.kind == VerdictKind::OobRead
    {
        return Ok(outside);
    }
    if verdict.has_cause(Cause::NanInf) {
        return Ok(verdict);
    }
    if hash.is_some()
        && let Some(unset) = depends_on_residue(bench)?
    {
        return Ok(unset);
    }
    name_constant(bench, mismatch.position, verdict)
}

/// A wrong answer that is the same in every run may follow what shared memory happens to hold. No mask, minimum,
/// maximum or comparison answers all these contents alike.
fn depends_on_residue(bench: &mut Bench<'_>) -> Result<Option<Verdict>, DeviceError> {
    if !bench.includes(GateCheck::SharedResidue) || bench.prepared.case.elements() > PROBE_ELEMENTS {
        return Ok(None);
    }
    let of = |poison| element::poison(DType::F32, poison);
    let mut first = None;
    for residue in [0, 1, of(Poison::D), of(Poison::B), of(Poison::C), of(Poison::A)] {
        let mut setting = RunSetting::plain(Poison::B);
        setting.conditions.residue = Some(residue);
        let run = (setting, bench.hash_of_run(setting)?);
        let before = *first.get_or_insert(run);
        if before.1 != run.1 {
            return disagree::explain(bench, [before, run]).map(Some);
        }
    }
    Ok(None)
}

fn name_constant(bench: &mut Bench<'_>, position: usize, verdict: Verdict) -> Result<Verdict, DeviceError> {
    let case = &bench.prepared.case;
    let random = case.plan.buffers.iter().any(inputs::varies);
    let named = bench.includes(GateCheck::NameConstant);
    if !named || case.family != inputs::Family::Normal || case.elements() > PROBE_ELEMENTS || !random {
        return Ok(verdict);
    }
    let values = bench.prepared.compared(bench.device(), position)?;
    if values.len() > 1 && values.iter().all(|value| *value == values[0]) {
        let message = format!("{}; every element is `{}`", verdict.message, values[0]);
        return Ok(Verdict { message, ..verdict }.with_cause(Cause::Constant));
    }
    let hash = bench.output_hash()?;
    let other = Case { seed_index: case.seed_index + 1, ..case.clone() };
    let other = bench.prepare(&other)?;
    let other_hash = bench.with(&other).hash_of_run(RunSetting::plain(Poison::B))?;
    let answer = |prepared: &PreparedCase| prepared.target(position).map(|target| target.hash);
    if answer(&other) != answer(bench.prepared) && other_hash == hash {
        let message = format!("{}; other inputs give the same output", verdict.message);
        return Ok(Verdict { message, ..verdict }.with_cause(Cause::Constant));
    }
    Ok(verdict)
}

/// Guard zones hold NaN, then huge values: an output that changes was computed from them.
pub(super) fn reads_outside(
    bench: &mut Bench<'_>,
    hash: Option<u64>,
) -> Result<Option<Verdict>, DeviceError> {
    let mut found = None;
    if !bench.includes(GateCheck::GuardContents) {
        return Ok(None);
    }
    for poison in [Poison::A, Poison::B] {
        bench.judge.device.arm_guards(element::poison(DType::F32, poison))?;
        bench.run(RunSetting::plain(Poison::B))?;
        // With other contents than usual, a write of the usual contents shows too.
        if let Some(verdict) = wrong::out_of_bounds(&run::guards(bench.device())?, &bench.prepared.case) {
            bench.judge.device.arm_guards(run::GUARD_PATTERN)?;
            return Ok(Some(verdict));
        }
        let changed = match hash {
            Some(hash) => bench.output_hash()? != hash,
            None => bench.mismatch()?.is_some(),
        };
        if changed {
            found = Some(poison);
            break;
        }
    }
    bench.judge.device.arm_guards(run::GUARD_PATTERN)?;
    let Some(poison) = found else { return Ok(None) };
    if let Some(hash) = hash {
        // Was it the guards, or chance? The same run with the usual guards, and both must come out as before when
        // they are repeated. What fills guards may leave its traces in shared memory, so that holds the same in all
        // runs.
        let usual = RunSetting::plain(Poison::B).on_ordinary_residue();
        let patterns = [run::GUARD_PATTERN, element::poison(DType::F32, poison)];
        let mut outputs = Vec::with_capacity(4);
        for pattern in patterns.into_iter().cycle().take(4) {
            bench.judge.device.arm_guards(pattern)?;
            outputs.push(bench.hash_of_run(usual)?);
        }
        bench.judge.device.arm_guards(run::GUARD_PATTERN)?;
        let [now, filled, again, filled_again] = outputs[..] else { unreachable!("four runs") };
        let guards_matter = now != filled && now == again && filled == filled_again;
        if !guards_matter {
            let first = RunSetting::plain(Poison::B);
            return disagree::explain(bench, [(first, hash), (usual, now)]).map(Some);
        }
    }
    let verdict = Verdict::new(VerdictKind::OobRead, "the output depends on what lies outside the buffers")
        .with("guard_pattern", json!(if poison == Poison::A { "nan" } else { "huge" }));
    Ok(Some(bench.about(verdict)))
}
