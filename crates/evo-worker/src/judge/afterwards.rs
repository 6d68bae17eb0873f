//! Questions after the comparison: why an answer is wrong, and whether a right one stays right.

use evo_device::device::SampleOrder;
use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::measurement::TimingMode;
use evo_protocol::verdict::{Cause, Verdict, VerdictKind};
use evo_protocol::worker::Phase;
use serde_json::json;

use super::case::Case;
use super::element::{self, Poison};
use super::run::{self, Mismatch, PhaseSink, PreparedCase, RunSetting};
use super::state::Judge;
use super::{disagree, inputs, workspace, wrong};

pub(super) const PROBE_ELEMENTS: u64 = 1 << 20;

/// Calls as they are when they are timed: nothing is filled in between, so a kernel that looks for its marks finds
/// them.
pub(super) fn called_again(
    judge: &mut Judge,
    prepared: &PreparedCase,
    hash: u64,
    phase: &mut PhaseSink<'_>,
) -> Result<Option<Verdict>, DeviceError> {
    if prepared.accumulates() || prepared.launches.is_empty() || !prepared.checks.include(GateCheck::Repeats)
    {
        return Ok(None);
    }
    let found = after_a_call(judge, prepared, phase)?;
    if found == hash {
        return Ok(None);
    }
    if let Some(verdict) = workspace::not_reset(judge, prepared, phase)? {
        return Ok(Some(verdict));
    }
    let plain = RunSetting::plain(Poison::B);
    prepared.run(judge.device.as_mut(), &mut judge.pool, plain, phase)?;
    let first = prepared.output_hash(judge.device.as_mut())?;
    if first != hash || after_a_call(judge, prepared, phase)? != found {
        return disagree::explain(judge, prepared, [(plain, found), (plain, hash)], phase).map(Some);
    }
    let what = "a call that finds what the call before has left gives another output";
    let verdict = Verdict::new(VerdictKind::Stateful, what).with_cause("earlier_call");
    Ok(Some(wrong::about(verdict, &prepared.case)))
}

/// The hash of what the second of two calls leaves, between which nothing is filled.
fn after_a_call(
    judge: &mut Judge,
    prepared: &PreparedCase,
    phase: &mut PhaseSink<'_>,
) -> Result<u64, DeviceError> {
    let order = SampleOrder {
        rotation: std::slice::from_ref(&prepared.launches),
        mode: TimingMode::Hot,
        samples: 2,
        batch: 1,
        untouched: true,
    };
    let name = prepared.case.name();
    phase(Phase::Launched, &name);
    prepared.fill_variables(judge.device.as_mut())?;
    judge.device.sample(prepared.module, order)?;
    prepared.read_variables(judge.device.as_mut())?;
    phase(Phase::Checking, &name);
    prepared.output_hash(judge.device.as_mut())
}

/// Why an answer is wrong, as far as cheap tests tell.
pub(super) fn explain(
    judge: &mut Judge,
    prepared: &PreparedCase,
    mismatch: &Mismatch,
    hash: Option<u64>,
    phase: &mut PhaseSink<'_>,
) -> Result<Verdict, DeviceError> {
    let verdict = wrong::mismatch(prepared, mismatch);
    // Without a hash of a right answer, a wrong one that stays wrong says nothing about the guard zones.
    if hash.is_some()
        && prepared.case.elements() <= PROBE_ELEMENTS
        && let Some(outside) = reads_outside(judge, prepared, hash, phase)?
        && outside.kind == VerdictKind::OobRead
    {
        return Ok(outside);
    }
    if verdict.has_cause(Cause::NanInf) {
        return Ok(verdict);
    }
    if hash.is_some()
        && let Some(unset) = depends_on_residue(judge, prepared, phase)?
    {
        return Ok(unset);
    }
    name_constant(judge, prepared, mismatch.position, verdict, phase)
}

/// A wrong answer that is the same in every run may follow what shared memory happens to hold. No mask, minimum,
/// maximum or comparison answers all these contents alike.
fn depends_on_residue(
    judge: &mut Judge,
    prepared: &PreparedCase,
    phase: &mut PhaseSink<'_>,
) -> Result<Option<Verdict>, DeviceError> {
    if !prepared.checks.include(GateCheck::SharedResidue) || prepared.case.elements() > PROBE_ELEMENTS {
        return Ok(None);
    }
    let of = |poison| element::poison(DType::F32, poison);
    let mut first = None;
    for residue in [0, 1, of(Poison::D), of(Poison::B), of(Poison::C), of(Poison::A)] {
        let mut setting = RunSetting::plain(Poison::B);
        setting.conditions.residue = Some(residue);
        prepared.run(judge.device.as_mut(), &mut judge.pool, setting, phase)?;
        let run = (setting, prepared.output_hash(judge.device.as_mut())?);
        let before = *first.get_or_insert(run);
        if before.1 != run.1 {
            return disagree::explain(judge, prepared, [before, run], phase).map(Some);
        }
    }
    Ok(None)
}

fn name_constant(
    judge: &mut Judge,
    prepared: &PreparedCase,
    position: usize,
    verdict: Verdict,
    phase: &mut PhaseSink<'_>,
) -> Result<Verdict, DeviceError> {
    let case = &prepared.case;
    let random = case.plan.buffers.iter().any(inputs::varies);
    let named = prepared.checks.include(GateCheck::NameConstant);
    if !named || case.family != inputs::Family::Normal || case.elements() > PROBE_ELEMENTS || !random {
        return Ok(verdict);
    }
    let values = prepared.compared(judge.device.as_mut(), position)?;
    if values.len() > 1 && values.iter().all(|value| *value == values[0]) {
        let message = format!("{}; every element is `{}`", verdict.message, values[0]);
        return Ok(Verdict { message, ..verdict }.with_cause(Cause::Constant));
    }
    let hash = prepared.output_hash(judge.device.as_mut())?;
    let other = Case { seed_index: case.seed_index + 1, ..case.clone() };
    let other = judge.prepare_case(prepared.slot, &other, phase)?;
    other.run(judge.device.as_mut(), &mut judge.pool, RunSetting::plain(Poison::B), phase)?;
    let differs = other.target(position).map(|own| own.hash) != prepared.target(position).map(|own| own.hash);
    if differs && other.output_hash(judge.device.as_mut())? == hash {
        let message = format!("{}; other inputs give the same output", verdict.message);
        return Ok(Verdict { message, ..verdict }.with_cause(Cause::Constant));
    }
    Ok(verdict)
}

/// Guard zones hold NaN, then huge values: an output that changes was computed from them.
pub(super) fn reads_outside(
    judge: &mut Judge,
    prepared: &PreparedCase,
    hash: Option<u64>,
    phase: &mut PhaseSink<'_>,
) -> Result<Option<Verdict>, DeviceError> {
    let mut found = None;
    if !prepared.checks.include(GateCheck::GuardContents) {
        return Ok(None);
    }
    for poison in [Poison::A, Poison::B] {
        judge.device.arm_guards(element::poison(DType::F32, poison))?;
        prepared.run(judge.device.as_mut(), &mut judge.pool, RunSetting::plain(Poison::B), phase)?;
        // With other contents than usual, a write of the usual contents shows too.
        if let Some(verdict) = wrong::out_of_bounds(&run::guards(judge.device.as_mut())?, &prepared.case) {
            judge.device.arm_guards(run::GUARD_PATTERN)?;
            return Ok(Some(verdict));
        }
        let changed = match hash {
            Some(hash) => prepared.output_hash(judge.device.as_mut())? != hash,
            None => {
                let comparisons = prepared.compare(judge.device.as_mut())?;
                prepared.mismatch(&comparisons).is_some()
            }
        };
        if changed {
            found = Some(poison);
            break;
        }
    }
    judge.device.arm_guards(run::GUARD_PATTERN)?;
    let Some(poison) = found else { return Ok(None) };
    if let Some(hash) = hash {
        // Was it the guards, or chance? The same run with the usual guards, and both must come out as before when
        // they are repeated. What fills guards may leave its traces in shared memory, so that holds the same in all
        // runs.
        let usual = RunSetting::plain(Poison::B).on_ordinary_residue();
        let patterns = [run::GUARD_PATTERN, element::poison(DType::F32, poison)];
        let mut outputs = Vec::with_capacity(4);
        for pattern in patterns.into_iter().cycle().take(4) {
            judge.device.arm_guards(pattern)?;
            prepared.run(judge.device.as_mut(), &mut judge.pool, usual, phase)?;
            outputs.push(prepared.output_hash(judge.device.as_mut())?);
        }
        judge.device.arm_guards(run::GUARD_PATTERN)?;
        let [now, filled, again, filled_again] = outputs[..] else { unreachable!("four runs") };
        let guards_matter = now != filled && now == again && filled == filled_again;
        if !guards_matter {
            let first = RunSetting::plain(Poison::B);
            return disagree::explain(judge, prepared, [(first, hash), (usual, now)], phase).map(Some);
        }
    }
    let verdict = Verdict::new(VerdictKind::OobRead, "the output depends on what lies outside the buffers")
        .with("guard_pattern", json!(if poison == Poison::A { "nan" } else { "huge" }));
    Ok(Some(wrong::about(verdict, &prepared.case)))
}
