//! Right answers at tiny and full shapes: two poisons, guards, mutation, comparison.

use std::time::{Duration, Instant};

use evo_device::device::Comparison;
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Cause, Gate, GateState, Verdict, VerdictKind};
use evo_protocol::worker::{CheckPlan, Depth, GateAnswer, ReferencePlan};
use serde_json::json;

use super::case::{self, Case};
use super::element::{self, Poison};
use super::run::{self, Mismatch, PhaseSink, PreparedCase};
use super::state::Judge;
use super::wrong::{self, CaseResult};
use super::{disagree, inputs};

/// After a wrong answer this many further cases are run, to learn what the failing ones share.
const CASES_AFTER_FAILURE: usize = 12;
/// And for no longer than this.
const TIME_AFTER_FAILURE: Duration = Duration::from_secs(1);
/// A failing kernel is examined further only where that is cheap.
const PROBE_ELEMENTS: u64 = 1 << 20;

/// What one case showed.
struct Seen {
    failure: Option<Verdict>,
    /// Largest ‖error‖ / ‖answer‖ of its outputs.
    relative_norm: f64,
}

/// Runs every case of every plan; the first failure that is not a wrong answer ends it.
pub(super) fn check(
    judge: &mut Judge,
    slot: u8,
    gate: Gate,
    depth: Depth,
    plans: &[ProblemPlan],
    phase: &mut PhaseSink<'_>,
) -> Result<GateAnswer, DeviceError> {
    let check = judge.slot(slot)?.candidate.check.clone();
    let mut found = GateAnswer::begin(gate);
    let (cases, skipped) = cases_with_reference(&check, plans, depth)?;
    let mut worst = 0.0f64;
    let mut failed_at: Option<(Instant, usize)> = None;
    for (number, case) in cases.iter().enumerate() {
        if failed_at.is_some_and(|(at, first)| {
            at.elapsed() > TIME_AFTER_FAILURE || number - first > CASES_AFTER_FAILURE
        }) {
            break;
        }
        found.report.cases += 1;
        let seen = match run_case(judge, slot, case, depth, phase) {
            Ok(seen) => seen,
            Err(error) => {
                judge.note_error(&error);
                // The wrong answer came first and stays the verdict, whatever crashes later.
                if failed_at.is_none() {
                    found.refuse(wrong::from_error(&error, Some(case)));
                    return Ok(found);
                }
                break;
            }
        };
        worst = worst.max(seen.relative_norm);
        let stop = seen.failure.as_ref().is_some_and(|own| own.kind != VerdictKind::WrongAnswer);
        if seen.failure.is_some() && failed_at.is_none() {
            failed_at = Some((Instant::now(), number));
        }
        let result = CaseResult::of(case, seen.failure.clone());
        if let Some(own) = judge.slots.get_mut(&slot) {
            own.history.push(result);
        }
        if let Some(failure) = seen.failure.filter(|_| stop) {
            found.refuse(failure);
            return Ok(found);
        }
    }
    found.report.evidence.insert("relative_norm_max", wrong::number(worst));
    found.report.message = format!("{} cases right", found.report.cases);
    if skipped > 0 {
        found.report.evidence.insert("problems_without_reference", skipped);
        if found.report.cases == 0 {
            found.report.state = GateState::NotRun;
        }
        found.report.message =
            format!("{}; {skipped} problems have no matching reference file", found.report.message);
    }
    if failed_at.is_some() {
        if let Some(verdict) = wrong::classify(&judge.slot(slot)?.history) {
            found.refuse(only_large(judge, slot, gate, verdict));
        }
    } else if found.report.cases == 0 && skipped == 0 {
        return Ok(GateAnswer::not_run(gate, "no problem to check"));
    }
    Ok(found)
}

/// The cases of all plans that the reference can answer, and how many plans it cannot.
fn cases_with_reference(
    check: &CheckPlan,
    plans: &[ProblemPlan],
    depth: Depth,
) -> Result<(Vec<Case>, usize), DeviceError> {
    let mut cases = Vec::new();
    let mut skipped = 0;
    for plan in plans {
        if fits_reference(&check.reference, plan) {
            cases.extend(case::cases(check, plan, depth)?);
        } else {
            skipped += 1;
        }
    }
    Ok((cases, skipped))
}

/// Files of answers are made for one shape.
fn fits_reference(reference: &ReferencePlan, plan: &ProblemPlan) -> bool {
    let ReferencePlan::Npy { outputs } = reference else { return true };
    let shape = |path: &std::path::Path| {
        let file = std::fs::File::open(path).ok()?;
        Some(super::npy_header::NpyHeader::read(file).ok()?.shape)
    };
    outputs.iter().all(|(name, path)| {
        let own = plan.buffers.iter().find(|buffer| buffer.name == *name);
        // A file that cannot be read is not skipped: computing the answers will report what is wrong with it.
        match (own, shape(path)) {
            (Some(own), Some(shape)) => own.shape == shape,
            _ => true,
        }
    })
}

/// Everything small is right and everything large is grossly wrong: the kernel tells sizes apart.
fn only_large(judge: &Judge, slot: u8, gate: Gate, verdict: Verdict) -> Verdict {
    if gate != Gate::FullShapes || !verdict.has_cause(Cause::Value) {
        return verdict;
    }
    let Ok(own) = judge.slot(slot) else { return verdict };
    let largest = own.history.iter().filter(|r| r.failure.is_none()).map(|r| r.elements).max();
    let smallest = own.history.iter().filter(|r| r.failure.is_some()).map(|r| r.elements).min();
    match (largest, smallest) {
        (Some(right), Some(wrong)) if right < wrong => {
            verdict.with("symptom", Cause::Value.as_str()).with_cause(Cause::TimedShape)
        }
        _ => verdict,
    }
}

fn run_case(
    judge: &mut Judge,
    slot: u8,
    case: &Case,
    depth: Depth,
    phase: &mut PhaseSink<'_>,
) -> Result<Seen, DeviceError> {
    let prepared = judge.prepare_case(slot, case, phase)?;
    let seen = attempt(judge, &prepared, depth, phase)?;
    let suspicious = seen
        .failure
        .as_ref()
        .is_some_and(|own| matches!(own.kind, VerdictKind::WrongAnswer | VerdictKind::InputMutated));
    if !suspicious {
        return Ok(seen);
    }
    let mutated = seen.failure.as_ref().is_some_and(|own| own.kind == VerdictKind::InputMutated);
    let intact = prepared.set_intact(judge.device.as_mut())?;
    if intact && !mutated {
        return Ok(seen);
    }
    // An earlier variant may have written here past all guards, so the case runs again on fresh data.
    if !intact {
        let key = prepared.set.key.clone();
        judge.pool.drop_set(judge.device.as_mut(), &key);
    }
    let fresh = judge.prepare_case(slot, case, phase)?;
    attempt(judge, &fresh, depth, phase)
}

fn attempt(
    judge: &mut Judge,
    prepared: &PreparedCase,
    depth: Depth,
    phase: &mut PhaseSink<'_>,
) -> Result<Seen, DeviceError> {
    let deterministic = judge.slot(prepared.slot)?.candidate.check.deterministic;
    let case = &prepared.case;
    let failed = |verdict: Verdict| Ok(Seen { failure: Some(verdict), relative_norm: 0.0 });

    // Two runs with different poisons. An element that is never written shows the poison of each run, and
    // stale contents that happen to be right do not survive either.
    prepared.run(judge.device.as_mut(), &mut judge.pool, (Poison::A, Poison::A), phase)?;
    if let Some(verdict) = wrong::out_of_bounds(&run::guards(judge.device.as_mut())?, case) {
        return failed(verdict);
    }
    // Counted before the second run fills the outputs again.
    let first_poisoned = prepared.poisoned(judge.device.as_mut(), Poison::A)?;
    let first_hash = prepared.output_hash(judge.device.as_mut())?;
    let first = match deterministic {
        true => Vec::new(),
        false => prepared.compare(judge.device.as_mut())?,
    };

    prepared.run(judge.device.as_mut(), &mut judge.pool, (Poison::B, Poison::B), phase)?;
    // Damage outside the outputs is looked for first: after a stray write no other finding is reliable.
    if let Some(verdict) = wrong::out_of_bounds(&run::guards(judge.device.as_mut())?, case) {
        return failed(verdict);
    }
    if let Some(position) = prepared.mutated(judge.device.as_mut(), &mut judge.pool)? {
        return failed(input_mutated(prepared, position));
    }
    let second_poisoned = prepared.poisoned(judge.device.as_mut(), Poison::B)?;
    let second_hash = prepared.output_hash(judge.device.as_mut())?;
    let disagree = first_hash != second_hash;
    // Before the disagreement is examined, because unwritten elements are its simplest cause.
    if let Some(verdict) = unwritten(prepared, &first_poisoned, &second_poisoned, disagree) {
        return failed(verdict);
    }
    if disagree && deterministic {
        return failed(disagree::explain(judge, prepared, (first_hash, second_hash), phase)?);
    }
    let second = prepared.compare(judge.device.as_mut())?;
    let relative_norm = largest_norm(&first).max(largest_norm(&second));
    let mismatch = prepared.mismatch(&second).or_else(|| prepared.mismatch(&first));
    let hash = deterministic.then_some(second_hash);
    let failure = match mismatch {
        Some(mismatch) => Some(explain(judge, prepared, &mismatch, hash, phase)?),
        // Once for each problem: whether a kernel reads outside depends on the shape more than on the values.
        None if depth == Depth::Full && case.seed_index == 0 && case.family == inputs::Family::Normal => {
            reads_outside(judge, prepared, hash, phase)?
        }
        None => None,
    };
    Ok(Seen { failure, relative_norm })
}

fn largest_norm(comparisons: &[(usize, Comparison)]) -> f64 {
    comparisons.iter().fold(0.0, |most, (_, own)| own.relative_norm().max(most))
}

fn input_mutated(prepared: &PreparedCase, position: usize) -> Verdict {
    let name = prepared.case.plan.buffers[position].name.clone();
    let verdict = Verdict::new(VerdictKind::InputMutated, format!("input `{name}` is changed"));
    wrong::about(verdict.with("buffer", name), &prepared.case)
}

/// An element that holds the first poison after the first run and the second after the second. Either
/// alone may be an honest integer; NaN is never honest, and outputs that agree cannot hold both.
fn unwritten(
    prepared: &PreparedCase,
    first: &[(usize, u64)],
    second: &[(usize, u64)],
    disagree: bool,
) -> Option<Verdict> {
    let mut pairs = first.iter().zip(second);
    let ((position, _), (_, count)) =
        pairs.find(|((_, first), (_, second))| *first > 0 && *second > 0 && disagree)?;
    Some(wrong::unwritten(prepared, &prepared.case.plan.buffers[*position], *count))
}

/// Why an answer is wrong, as far as cheap tests tell. NaN needs no explanation; an output that follows
/// the guard zones was read from them; an output without variety is constant.
fn explain(
    judge: &mut Judge,
    prepared: &PreparedCase,
    mismatch: &Mismatch,
    hash: Option<u64>,
    phase: &mut PhaseSink<'_>,
) -> Result<Verdict, DeviceError> {
    let verdict = wrong::mismatch(prepared, mismatch);
    if prepared.case.elements() <= PROBE_ELEMENTS
        && let Some(outside) = reads_outside(judge, prepared, hash, phase)?
        && outside.kind == VerdictKind::OobRead
    {
        return Ok(outside);
    }
    if verdict.has_cause(Cause::NanInf) {
        return Ok(verdict);
    }
    name_constant(judge, prepared, mismatch.position, verdict, phase)
}

/// Calls a wrong output constant if all its elements are equal, or if other inputs give the same.
fn name_constant(
    judge: &mut Judge,
    prepared: &PreparedCase,
    position: usize,
    verdict: Verdict,
    phase: &mut PhaseSink<'_>,
) -> Result<Verdict, DeviceError> {
    let case = &prepared.case;
    let plan = &case.plan.buffers[position];
    let random = case.plan.buffers.iter().any(inputs::varies);
    if case.family != inputs::Family::Normal || case.elements() > PROBE_ELEMENTS || !random {
        return Ok(verdict);
    }
    let values = element::widen(&judge.device.read(prepared.buffers[position])?, plan.dtype);
    if values.len() > 1 && values.iter().all(|value| *value == values[0]) {
        let message = format!("{}; every element is `{}`", verdict.message, values[0]);
        return Ok(Verdict { message, ..verdict }.with_cause(Cause::Constant));
    }
    let hash = prepared.output_hash(judge.device.as_mut())?;
    let other = Case { seed_index: case.seed_index + 1, ..case.clone() };
    let other = judge.prepare_case(prepared.slot, &other, phase)?;
    other.run(judge.device.as_mut(), &mut judge.pool, (Poison::B, Poison::B), phase)?;
    let differs = other.target(position).map(|own| own.hash) != prepared.target(position).map(|own| own.hash);
    if differs && other.output_hash(judge.device.as_mut())? == hash {
        let message = format!("{}; other inputs give the same output", verdict.message);
        return Ok(Verdict { message, ..verdict }.with_cause(Cause::Constant));
    }
    Ok(verdict)
}

/// Guard zones hold NaN, then huge values: an output that changes was computed from them. Without a
/// hash to compare with (a kernel that may differ from run to run) the output must stay right.
fn reads_outside(
    judge: &mut Judge,
    prepared: &PreparedCase,
    hash: Option<u64>,
    phase: &mut PhaseSink<'_>,
) -> Result<Option<Verdict>, DeviceError> {
    let mut found = None;
    for poison in [Poison::A, Poison::B] {
        judge.device.arm_guards(element::poison(DType::F32, poison))?;
        prepared.run(judge.device.as_mut(), &mut judge.pool, (Poison::B, Poison::B), phase)?;
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
        // The same run with the usual guards: do the guards matter, or was it chance?
        prepared.run(judge.device.as_mut(), &mut judge.pool, (Poison::B, Poison::B), phase)?;
        let now = prepared.output_hash(judge.device.as_mut())?;
        let guards_matter = {
            judge.device.arm_guards(element::poison(DType::F32, poison))?;
            prepared.run(judge.device.as_mut(), &mut judge.pool, (Poison::B, Poison::B), phase)?;
            let again = prepared.output_hash(judge.device.as_mut())?;
            judge.device.arm_guards(run::GUARD_PATTERN)?;
            again != now
        };
        if !guards_matter {
            return disagree::explain(judge, prepared, (hash, now), phase).map(Some);
        }
    }
    let verdict = Verdict::new(VerdictKind::OobRead, "the output depends on what lies outside the buffers")
        .with("guard_pattern", json!(if poison == Poison::A { "nan" } else { "huge" }));
    Ok(Some(wrong::about(verdict, &prepared.case)))
}

/// What timed calls left behind.
pub(super) fn check_timed(
    judge: &mut Judge,
    prepared: &PreparedCase,
) -> Result<Option<Verdict>, DeviceError> {
    let case = &prepared.case;
    if prepared.accumulates() {
        // A batch of calls has accumulated, so its output has no known answer. One fresh run still shows
        // whether the kernel works now.
        prepared.run(judge.device.as_mut(), &mut judge.pool, (Poison::A, Poison::A), &mut |_, _| {})?;
    }
    if let Some(verdict) = wrong::out_of_bounds(&run::guards(judge.device.as_mut())?, case) {
        return Ok(Some(verdict));
    }
    if let Some(position) = prepared.mutated(judge.device.as_mut(), &mut judge.pool)? {
        return Ok(Some(input_mutated(prepared, position)));
    }
    let poisoned = prepared.poisoned(judge.device.as_mut(), Poison::A)?;
    // Floats only: the poison is a NaN there, which is never right, while an integer may equal it.
    let left = poisoned
        .into_iter()
        .find(|(position, count)| *count > 0 && case.plan.buffers[*position].dtype.is_float());
    let symptom = match left {
        Some((position, count)) => Some(wrong::unwritten(prepared, &case.plan.buffers[position], count)),
        None => {
            let comparisons = prepared.compare(judge.device.as_mut())?;
            prepared.mismatch(&comparisons).map(|own| wrong::mismatch(prepared, &own))
        }
    };
    let Some(symptom) = symptom else { return Ok(None) };
    let mut verdict = symptom.clone();
    verdict.kind = VerdictKind::TimingEscape;
    verdict.message = format!("right when checked, wrong when timed: {}", symptom.message);
    let verdict = verdict.with("symptom", symptom.label()).with_cause("phase_dependent");
    Ok(Some(verdict))
}
