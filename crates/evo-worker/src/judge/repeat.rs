//! Same input, same output: back to back, with other workspace contents, and after other data.

use std::time::{Duration, Instant};

use evo_device::device::{BufferId, Placement, Tolerance};
use evo_protocol::check::GateCheck;
use evo_protocol::device::{DeviceError, DeviceKind};
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Gate, Verdict, VerdictKind};
use evo_protocol::worker::{CheckPlan, Depth, GateAnswer};
use evo_space::text::counted;

use super::bench::Bench;
use super::case::Case;
use super::element::{self, Poison};
use super::run::{PhaseSink, PreparedCase, RunSetting};
use super::state::Judge;
use super::{borrowed, deep, disagree, inputs, module_state, near, workspace, wrong};

/// Repetitions at quick depth; at full depth the space file decides.
const REPEATS_QUICK: u32 = 8;
/// Calls of one problem whose outputs are all looked at, and how long that may take: a contender's share of the
/// device costs more than a finalist's.
const RARE_CALLS: u32 = 2_000;
const RARE_FULL: Duration = Duration::from_millis(2);
/// All problems of a finalist share the time of a series, and each has at least this much.
const RARE_DEEP_MIN: Duration = Duration::from_millis(20);
const SMALL_ELEMENTS: u64 = 1 << 13;
/// Larger cases are not interleaved with other data: its answer would have to be computed as well.
const OTHER_ELEMENTS: u64 = 1 << 24;

pub(super) fn check(
    judge: &mut Judge,
    slot: u8,
    depth: Depth,
    plans: &[ProblemPlan],
    phase: &mut PhaseSink<'_>,
) -> Result<GateAnswer, DeviceError> {
    let check = judge.slot(slot)?.candidate.check.clone();
    let repeats = match depth {
        Depth::Quick => check.repeats.min(REPEATS_QUICK),
        Depth::Full | Depth::Deep => check.repeats,
    };
    if repeats < 2 || plans.is_empty() {
        let why = format!("nothing to repeat: {repeats} repetitions of {} problems", plans.len());
        return Ok(GateAnswer::not_run(Gate::Repeatability, why));
    }
    let rare = rare_limit(&check, depth, plans.len());
    let mut found = GateAnswer::begin(Gate::Repeatability);
    for (number, plan) in plans.iter().enumerate() {
        let case = Case::first(plan);
        found.report.cases += 1;
        let judged = check.checks.include(GateCheck::ModuleState) && !check.allow_state;
        let looks_at_state = judged && number == 0 && depth != Depth::Quick;
        let repeated = judge.prepare_case(slot, &case, phase).and_then(|prepared| {
            let bench = &mut Bench::new(judge, &prepared, phase);
            if looks_at_state && let Some(verdict) = module_state::changes_with_every_call(bench)? {
                return Ok(Some(verdict));
            }
            if (number, depth) == (0, Depth::Deep)
                && let Some(verdict) = workspace::changes_with_every_call(bench)?
            {
                return Ok(Some(verdict));
            }
            let heap = if looks_at_state { module_state::heap(bench)? } else { None };
            let found = match check.deterministic {
                true => bitwise(bench, (repeats, rare), depth)?,
                false => spread(bench, (repeats, rare), depth)?,
            };
            match found {
                None if looks_at_state => module_state::keeps_memory(bench, heap),
                found => Ok(found),
            }
        });
        let failure = repeated.unwrap_or_else(|error| {
            judge.note_error(&error);
            Some(wrong::from_error(&error, &case))
        });
        if let Some(failure) = failure {
            found.refuse(failure);
            return Ok(found);
        }
    }
    if depth == Depth::Deep && !passes_further(judge, slot, &plans[0], &check, &mut found, phase) {
        return Ok(found);
    }
    let agreement = match check.deterministic {
        true => "agree to the bit",
        false => "agree within a quarter of the tolerance",
    };
    found.report.message =
        format!("{repeats} runs of {} {agreement}", counted(found.report.cases, "problem"));
    found.report.evidence.insert("repeats", repeats);
    found.report.evidence.insert("bitwise", check.deterministic);
    Ok(found)
}

fn passes_further(
    judge: &mut Judge,
    slot: u8,
    plan: &ProblemPlan,
    check: &CheckPlan,
    found: &mut GateAnswer,
    phase: &mut PhaseSink<'_>,
) -> bool {
    if let Some(failure) = at_small_shape(judge, slot, check, phase) {
        found.refuse(failure);
        return false;
    }
    // Last, because a fault ends the worker.
    let case = Case::first(plan);
    let prepared = judge.prepare_case(slot, &case, phase);
    match prepared.and_then(|prepared| borrowed::check(&mut Bench::new(judge, &prepared, phase))) {
        Ok(0) => true,
        Ok(shown) => {
            found.report.evidence.insert("read_only_inputs", shown);
            true
        }
        Err(error) => {
            judge.note_error(&error);
            found.refuse(wrong::from_error(&error, &case));
            false
        }
    }
}

fn bitwise(
    bench: &mut Bench<'_>,
    (repeats, rare): (u32, Option<Duration>),
    depth: Depth,
) -> Result<Option<Verdict>, DeviceError> {
    let first = bench.hash_of_run(RunSetting::plain(Poison::B))?;
    let seed = bench.judge.slot(bench.prepared.slot)?.candidate.check.seed;
    // Neighboring repetitions run in opposite orders.
    let order = |repeat: u32| (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) & !1).wrapping_add(u64::from(repeat));
    // On a GPU a disturbed run takes two more kernels, and one such run is enough to compare with.
    let everywhere = bench.judge.device.info().kind == DeviceKind::Host;
    let disturbs = |repeat: u32| everywhere || repeat + 1 == repeats;
    let plain = RunSetting::plain(Poison::B);
    let repeated = bench.includes(GateCheck::Repeats);
    for repeat in (1..repeats).filter(|_| repeated) {
        let mut setting = plain;
        // The first half runs back to back, so that caches are hot and blocks are scheduled freely.
        let hot = repeat <= repeats / 2 && !bench.prepared.accumulates();
        if hot {
            bench.call()?;
        } else {
            // Poisons and orders alternate, so that a run that reads stale memory, or depends on who comes
            // first, differs from its neighbor.
            setting = match disturbs(repeat) {
                true => RunSetting::disturbed(poison(repeat), Some(order(repeat)), Placement::End),
                false => RunSetting::plain(poison(repeat)),
            };
            bench.run(setting)?;
        }
        let hash = bench.output_hash()?;
        if hash != first {
            let pair = [(setting, hash), (plain, first)];
            let verdict = match workspace::not_reset(bench)? {
                Some(verdict) => verdict,
                None => disagree::explain(bench, pair)?,
            };
            return Ok(Some(verdict.with("repeat", repeat).with("repeats", repeats)));
        }
    }
    if let Some(verdict) = rarely(bench, rare, |bench, calls| rarely_other(bench, first, calls))? {
        return Ok(Some(verdict));
    }
    if looks_near(bench.prepared, depth)
        && let Some(verdict) = near::check(bench, Some(first))?
    {
        return Ok(Some(verdict));
    }
    let other_data = bench.includes(GateCheck::OtherData)
        && depth != Depth::Quick
        && bench.prepared.case.elements() <= OTHER_ELEMENTS
        && bench.prepared.case.plan.buffers.iter().any(inputs::varies);
    if !other_data {
        return Ok(None);
    }
    let found = after_other_data(bench, first)?;
    if found.is_some() || depth != Depth::Deep || !bench.includes(GateCheck::AlikeData) {
        return Ok(found);
    }
    after_data_alike(bench)
}

fn looks_near(prepared: &PreparedCase, depth: Depth) -> bool {
    depth == Depth::Deep && prepared.checks.include(GateCheck::NearAnswers)
}

/// What goes wrong once in hundreds of calls does not show in ten. Every other call finds poison, because a call that
/// does nothing leaves a right answer right. `look` says what is wrong after so many calls.
fn rarely(
    bench: &mut Bench<'_>,
    rare: Option<Duration>,
    look: impl Fn(&mut Bench<'_>, u32) -> Result<Option<Verdict>, DeviceError>,
) -> Result<Option<Verdict>, DeviceError> {
    let Some(limit) = rare else { return Ok(None) };
    if bench.prepared.accumulates() || !bench.includes(GateCheck::RareRepeats) {
        return Ok(None);
    }
    let began = Instant::now();
    let mut calls = 0;
    while calls < RARE_CALLS && began.elapsed() < limit {
        if calls % 2 == 1 {
            bench.prepared.poison_outputs(bench.device(), poison(calls / 2))?;
        }
        bench.call()?;
        calls += 1;
        if let Some(verdict) = look(bench, calls)? {
            let named = workspace::not_reset(bench)?;
            return Ok(named.or_else(|| Some(verdict.with_cause("rare").with("calls", calls))));
        }
    }
    Ok(None)
}

/// Most calls of a small shape take microseconds, so that what is wrong once in hundreds of calls shows there also
/// where a call of the problem takes milliseconds.
fn at_small_shape(
    judge: &mut Judge,
    slot: u8,
    check: &CheckPlan,
    phase: &mut PhaseSink<'_>,
) -> Option<Verdict> {
    let size = |plan: &&ProblemPlan| Case::first(plan).elements();
    let tiny =
        judge.slot(slot).ok()?.tiny.iter().filter(|plan| size(plan) <= SMALL_ELEMENTS).max_by_key(size);
    let case = tiny.filter(|plan| plan.buffers.iter().any(inputs::varies)).map(Case::first)?;
    let rare = Some(deep::series(check));
    let repeated = judge.prepare_case(slot, &case, phase).and_then(|prepared| {
        let bench = &mut Bench::new(judge, &prepared, phase);
        let first = bench.hash_of_run(RunSetting::plain(Poison::B))?;
        rarely(bench, rare, |bench, calls| match check.deterministic {
            true => rarely_other(bench, first, calls),
            false => rarely_wrong(bench, calls),
        })
    });
    match repeated {
        Ok(found) => found,
        // A derived shape at which the task has no answer is nobody's fault.
        Err(error) if error.kind == VerdictKind::HarnessError && !error.sticky => None,
        Err(error) => {
            judge.note_error(&error);
            Some(wrong::from_error(&error, &case))
        }
    }
}

fn rarely_other(bench: &mut Bench<'_>, first: u64, calls: u32) -> Result<Option<Verdict>, DeviceError> {
    if bench.output_hash()? == first {
        return Ok(None);
    }
    let what = format!("call {calls} of the same input gives another output");
    Ok(Some(bench.about(Verdict::new(VerdictKind::Nondeterministic, what))))
}

/// The counterpart for kernels that may differ: every call right.
fn rarely_wrong(bench: &mut Bench<'_>, calls: u32) -> Result<Option<Verdict>, DeviceError> {
    let Some(wrong) = bench.wrong_answer()? else { return Ok(None) };
    let message = format!("call {calls} of the same input is wrong: {}", wrong.message);
    let symptom = wrong.label();
    let verdict = Verdict { kind: VerdictKind::Nondeterministic, message, ..wrong };
    Ok(Some(verdict.with("symptom", symptom)))
}

fn poison(repeat: u32) -> Poison {
    [Poison::A, Poison::B, Poison::C][repeat as usize % 3]
}

/// A, B, A on the same addresses: B must give its own answer, and A what it gave before.
fn after_other_data(bench: &mut Bench<'_>, first: u64) -> Result<Option<Verdict>, DeviceError> {
    let case = &bench.prepared.case;
    let other = bench.prepare(&Case { seed_index: case.seed_index + 1, ..case.clone() })?;
    let mut beside = bench.with(&other);
    let hash = beside.hash_of_run(RunSetting::plain(Poison::A))?;
    if let Some(wrong) = beside.wrong_answer()? {
        if hash != first {
            return Ok(Some(wrong));
        }
        let what = "new contents behind the same pointers give the old output";
        let verdict = Verdict::new(VerdictKind::Stateful, what).with_cause("cached_result");
        return Ok(Some(beside.about(verdict.with("symptom", wrong.label()))));
    }
    if bench.hash_of_run(RunSetting::plain(Poison::B))? != first {
        let what = "the output changes after a run on other data";
        let verdict = Verdict::new(VerdictKind::Stateful, what).with_cause("module_state");
        return Ok(Some(bench.about(verdict)));
    }
    Ok(None)
}

/// A call on contents of which most are those of the call before, at the same addresses. If its answer is wrong, and right
/// after a call on other contents, the kernel goes by a few elements.
fn after_data_alike(bench: &mut Bench<'_>) -> Result<Option<Verdict>, DeviceError> {
    let (own, case) = (RunSetting::plain(Poison::A), bench.prepared.case.clone());
    bench.run(own)?;
    let alike = Case { seed_index: case.seed_index + inputs::REARRANGED, ..case.clone() };
    let alike = bench.prepare(&alike)?;
    bench.with(&alike).run(own)?;
    let Some(wrong) = bench.with(&alike).wrong_answer()? else { return Ok(None) };
    let other = bench.prepare(&Case { seed_index: case.seed_index + 1, ..case })?;
    bench.with(&other).run(own)?;
    bench.with(&alike).run(own)?;
    if let Some(wrong) = bench.with(&alike).wrong_answer()? {
        return Ok(Some(wrong));
    }
    let what =
        "contents of which a quarter stands in another order than in the call before give a wrong output";
    let verdict = Verdict::new(VerdictKind::Stateful, what).with_cause("cached_result");
    Ok(Some(wrong::about(verdict.with("symptom", wrong.label()), &alike.case)))
}

/// For kernels that may differ (float atomics): every run right, and close to the first one.
fn spread(
    bench: &mut Bench<'_>,
    (repeats, rare): (u32, Option<Duration>),
    depth: Depth,
) -> Result<Option<Verdict>, DeviceError> {
    bench.run(RunSetting::plain(Poison::B))?;
    // The first run is kept as fp64, because `compare` takes an fp64 buffer as the expected side.
    let baselines = keep(bench)?;
    for repeat in 1..repeats {
        bench.run(RunSetting::plain(poison(repeat)))?;
        if let Some(wrong) = bench.wrong_answer()? {
            let verdict = Verdict { kind: VerdictKind::Nondeterministic, ..wrong.clone() };
            return Ok(Some(verdict.with_cause("spread").with("symptom", wrong.label())));
        }
        let targets = bench.prepared.set.targets.iter().zip(&baselines);
        let judged = bench.includes(GateCheck::RepeatSpread);
        for (target, baseline) in targets.filter(|_| judged) {
            let own = target.bounds.tolerance;
            let quarter = Tolerance { atol: own.atol / 4.0, rtol: own.rtol / 4.0 };
            let prepared = bench.prepared;
            let comparison = prepared.compare_with(bench.device(), target.position, *baseline, quarter)?;
            if comparison.mismatches > 0 {
                let what = format!(
                    "runs differ by up to {:.3e}, more than a quarter of the tolerance",
                    comparison.abs_error_max
                );
                let verdict = Verdict::new(VerdictKind::Nondeterministic, what)
                    .with_cause("spread")
                    .with("repeat", repeat)
                    .with("abs_error_max", wrong::number(comparison.abs_error_max));
                return Ok(Some(bench.about(verdict)));
            }
        }
    }
    match rarely(bench, rare, rarely_wrong)? {
        None if looks_near(bench.prepared, depth) => near::check(bench, None),
        found => Ok(found),
    }
}

fn rare_limit(check: &CheckPlan, depth: Depth, problems: usize) -> Option<Duration> {
    match depth {
        Depth::Quick => None,
        Depth::Full => Some(RARE_FULL),
        Depth::Deep => Some((deep::series(check) / problems.max(1) as u32).max(RARE_DEEP_MIN)),
    }
}

fn keep(bench: &mut Bench<'_>) -> Result<Vec<BufferId>, DeviceError> {
    let mut kept = Vec::new();
    for target in &bench.prepared.set.targets {
        let plan = &bench.prepared.case.plan.buffers[target.position];
        let values = element::f64_bytes(&bench.prepared.compared(bench.device(), target.position)?);
        let name = format!("{} (first run)", plan.name);
        let Judge { pool, device, .. } = &mut *bench.judge;
        let own = pool.working(device.as_mut(), &name, values.len() as u64)?;
        device.write(own, &values)?;
        kept.push(own);
    }
    Ok(kept)
}
