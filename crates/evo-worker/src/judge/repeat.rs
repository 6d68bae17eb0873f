//! Same input, same output: back to back, with other workspace contents, after other data, and on outputs that nearly hold
//! the answer.

use std::time::{Duration, Instant};

use evo_device::device::{Placement, Tolerance};
use evo_protocol::check::GateCheck;
use evo_protocol::device::{DeviceError, DeviceKind};
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, ProblemPlan, Role};
use evo_protocol::verdict::{Gate, Verdict, VerdictKind};
use evo_protocol::worker::{Depth, GateAnswer};
use evo_space::text::counted;

use super::bench::{Asked, Bench, Failure, GateRun};
use super::case::Case;
use super::element::{self, Poison};
use super::run::{RunSetting, starts_as};
use super::{afterwards, deep, inputs, kept, wrong};

/// Where a check asks.
#[derive(Clone, Copy, PartialEq)]
enum At {
    FirstProblem,
    EachProblem,
    /// Most calls of a small shape take microseconds, so that what is wrong once in hundreds of calls shows there also
    /// where a call of the problem takes milliseconds.
    SmallShape,
    /// At the first problem once more, because a fault ends the worker.
    Last,
}

struct Check {
    name: GateCheck,
    depths: &'static [Depth],
    at: At,
    ask: fn(&mut Bench<'_>, &mut Repeated) -> Asked,
}

const ALL: &[Depth] = &[Depth::Quick, Depth::Full, Depth::Deep];
const CONTENDERS: &[Depth] = &[Depth::Full, Depth::Deep];
const FINALISTS: &[Depth] = &[Depth::Deep];

/// In the order in which they are asked at a problem.
const CHECKS: [Check; 10] = {
    use At::*;
    use GateCheck::*;
    [
        Check {
            name: ModuleState,
            depths: CONTENDERS,
            at: FirstProblem,
            ask: |bench, repeated| kept::variable_changes(bench).map(|heap| repeated.heap = heap),
        },
        Check {
            name: WorkspaceState,
            depths: FINALISTS,
            at: FirstProblem,
            ask: |bench, _| kept::workspace_changes(bench),
        },
        Check { name: Repeats, depths: ALL, at: EachProblem, ask: repeats },
        Check { name: RareRepeats, depths: CONTENDERS, at: EachProblem, ask: many_repeats },
        Check { name: NearAnswers, depths: FINALISTS, at: EachProblem, ask: near_answers },
        Check { name: OtherData, depths: CONTENDERS, at: EachProblem, ask: after_other_data },
        Check { name: AlikeData, depths: FINALISTS, at: EachProblem, ask: after_data_alike },
        Check {
            name: ModuleState,
            depths: CONTENDERS,
            at: FirstProblem,
            ask: |bench, repeated| kept::memory_stays(bench, repeated.heap),
        },
        Check { name: RareRepeats, depths: FINALISTS, at: SmallShape, ask: many_repeats },
        Check { name: ReadOnlyInputs, depths: FINALISTS, at: Last, ask: read_only_inputs },
    ]
};

/// What checks at one case share.
struct Repeated {
    repeats: u32,
    deterministic: bool,
    /// How long calls may be repeated to find what is rarely wrong.
    series: Duration,
    /// The hash of the output, where it is the same after every call.
    first: Option<u64>,
    heap: Option<u64>,
    shown: usize,
}

impl Repeated {
    fn first(&mut self, bench: &mut Bench<'_>) -> Result<u64, DeviceError> {
        match self.first {
            Some(first) => Ok(first),
            None => Ok(*self.first.insert(bench.hash_of_run(PLAIN)?)),
        }
    }
}

const PLAIN: RunSetting = RunSetting::plain(Poison::B);
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
const NEAR_BYTES_MAX: u64 = 64 << 20;
const SHOWN_BYTES_MAX: u64 = 1 << 30;

pub(super) fn check(run: &mut GateRun<'_>) -> Result<(), DeviceError> {
    let (check, depth, plans) = (run.check.clone(), run.depth, run.plans);
    let repeats = if depth == Depth::Quick { check.repeats.min(REPEATS_QUICK) } else { check.repeats };
    if repeats < 2 || plans.is_empty() {
        let why = format!("nothing to repeat: {repeats} repetitions of {} problems", plans.len());
        run.found = GateAnswer::not_run(Gate::Repeatability, why);
        return Ok(());
    }
    let of_problem = match depth {
        Depth::Quick | Depth::Full => RARE_FULL,
        Depth::Deep => (deep::series(&check) / plans.len() as u32).max(RARE_DEEP_MIN),
    };
    let (first, rest) = ((Case::first(&plans[0]), &[At::FirstProblem, At::EachProblem][..]), &plans[1..]);
    let rest = rest.iter().map(|plan| (Case::first(plan), &[At::EachProblem][..]));
    let small = small_shape(run).map(|case| (case, &[At::SmallShape][..]));
    let last = (Case::first(&plans[0]), &[At::Last][..]);
    for (case, places) in [first].into_iter().chain(rest).chain(small).chain([last]) {
        let is_small = places.contains(&At::SmallShape);
        let is_problem = places.contains(&At::EachProblem);
        let may = |name| name != GateCheck::ModuleState || !check.allow_state;
        let asks =
            |own: &&Check| own.depths.contains(&depth) && check.checks.include(own.name) && may(own.name);
        let mut asked = CHECKS.iter().filter(|own| places.contains(&own.at)).filter(asks).peekable();
        run.found.report.cases += u32::from(is_problem);
        if asked.peek().is_none() {
            continue;
        }
        let mut repeated = Repeated {
            repeats,
            deterministic: check.deterministic,
            series: if is_small { deep::series(&check) } else { of_problem },
            first: None,
            heap: None,
            shown: 0,
        };
        let ask = |bench: &mut Bench<'_>| asked.try_for_each(|own| (own.ask)(bench, &mut repeated));
        match run.judge.at(run.slot, &case, ask) {
            Ok(()) => {}
            // A derived shape at which the task has no answer is nobody's fault.
            Err(Failure::Machine(error))
                if is_small && error.kind == VerdictKind::HarnessError && !error.sticky => {}
            Err(failure) => {
                run.refuse(failure, &case);
                return Ok(());
            }
        }
        if repeated.shown > 0 {
            run.found.report.evidence.insert("read_only_inputs", repeated.shown);
        }
    }
    let agreement = match check.deterministic {
        true => "agree to the bit",
        false => "agree within a quarter of the tolerance",
    };
    let report = &mut run.found.report;
    report.message = format!("{repeats} runs of {} {agreement}", counted(report.cases, "problem"));
    report.evidence.insert("repeats", repeats);
    report.evidence.insert("bitwise", check.deterministic);
    Ok(())
}

fn small_shape(run: &GateRun<'_>) -> Option<Case> {
    let size = |plan: &&ProblemPlan| Case::first(plan).elements();
    let tiny = run.judge.slots.get(&run.slot)?.tiny.iter();
    let largest = tiny.filter(|plan| size(plan) <= SMALL_ELEMENTS).max_by_key(size)?;
    largest.buffers.iter().any(inputs::varies).then(|| Case::first(largest))
}

fn poison(repeat: u32) -> Poison {
    [Poison::A, Poison::B, Poison::C][repeat as usize % 3]
}

fn repeats(bench: &mut Bench<'_>, repeated: &mut Repeated) -> Asked {
    if !repeated.deterministic {
        return close(bench, repeated.repeats);
    }
    let (first, repeats) = (repeated.first(bench)?, repeated.repeats);
    let seed = bench.check()?.seed;
    // Neighboring repetitions run in opposite orders.
    let order = |repeat: u32| (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) & !1).wrapping_add(u64::from(repeat));
    // On a GPU a disturbed run takes two more kernels, and one such run is enough to compare with.
    let everywhere = bench.device().info().kind == DeviceKind::Host;
    for repeat in 1..repeats {
        // The first half runs back to back, so that caches are hot and blocks are scheduled freely. Then poisons and
        // orders alternate, so that a run that reads stale memory, or depends on who comes first, differs from its
        // neighbor.
        let hot = repeat <= repeats / 2 && !bench.prepared.accumulates();
        let setting = match (hot, everywhere || repeat + 1 == repeats) {
            (true, _) => PLAIN,
            (false, true) => RunSetting::disturbed(poison(repeat), Some(order(repeat)), Placement::End),
            (false, false) => RunSetting::plain(poison(repeat)),
        };
        if hot {
            bench.call()?
        } else {
            bench.run(setting)?
        }
        let hash = bench.output_hash()?;
        if hash != first {
            let why = kept::is_reset(bench)
                .and_then(|()| afterwards::disagree(bench, [(setting, hash), (PLAIN, first)]));
            return why.map_err(|failure| failure.with("repeat", repeat).with("repeats", repeats));
        }
    }
    Ok(())
}

/// For kernels that may differ (float atomics): every run right, and close to the first one.
fn close(bench: &mut Bench<'_>, repeats: u32) -> Asked {
    bench.run(PLAIN)?;
    // The first run is kept as fp64, because `compare` takes an fp64 buffer as the expected side.
    let mut baselines = Vec::new();
    for (plan, target) in bench.prepared.targets() {
        let values = element::f64_bytes(&bench.prepared.compared(bench.device(), target.position)?);
        let name = format!("{} (first run)", plan.name);
        let buffer = bench.judge.pool.working(&name, values.len() as u64)?;
        bench.device().write(buffer, &values)?;
        baselines.push(buffer);
    }
    for repeat in 1..repeats {
        bench.run(RunSetting::plain(poison(repeat)))?;
        if let Some(wrong) = bench.wrong_answer()? {
            let symptom = wrong.label();
            let verdict = Verdict { kind: VerdictKind::Nondeterministic, ..wrong };
            return Err(verdict.with_cause("spread").with("symptom", symptom).into());
        }
        let judged = bench.includes(GateCheck::RepeatSpread);
        let prepared = bench.prepared;
        for (target, baseline) in prepared.set.targets.iter().zip(&baselines).filter(|_| judged) {
            let Tolerance { atol, rtol } = target.bounds.tolerance;
            let quarter = Tolerance { atol: atol / 4.0, rtol: rtol / 4.0 };
            let comparison = prepared.compare_with(bench.device(), target.position, *baseline, quarter)?;
            if comparison.mismatches > 0 {
                let error = comparison.abs_error_max;
                let what = format!("runs differ by up to {error:.3e}, more than a quarter of the tolerance");
                let refused = bench.refused(VerdictKind::Nondeterministic, "spread", what);
                return Err(refused.with("repeat", repeat).with("abs_error_max", wrong::number(error)));
            }
        }
    }
    Ok(())
}

/// What goes wrong once in hundreds of calls does not show in ten. Every other call finds poison, because a call that
/// does nothing leaves a right answer right.
fn many_repeats(bench: &mut Bench<'_>, repeated: &mut Repeated) -> Asked {
    if bench.prepared.accumulates() {
        return Ok(());
    }
    match repeated.deterministic {
        true => _ = repeated.first(bench)?,
        // The first call must not find what another case has left in its buffers.
        false => bench.run(PLAIN)?,
    }
    let began = Instant::now();
    let mut calls = 0;
    while calls < RARE_CALLS && began.elapsed() < repeated.series {
        if calls % 2 == 1 {
            bench.prepared.poison(bench.device(), Role::Output, poison(calls / 2))?;
        }
        bench.call()?;
        calls += 1;
        if let Some(verdict) = wrong_call(bench, repeated.first, calls)? {
            kept::is_reset(bench)?;
            return Err(verdict.with_cause("rare").with("calls", calls).into());
        }
    }
    Ok(())
}

fn wrong_call(bench: &mut Bench<'_>, first: Option<u64>, calls: u32) -> Result<Option<Verdict>, DeviceError> {
    if let Some(first) = first {
        let what = format!("call {calls} of the same input gives another output");
        let other = bench.output_hash()? != first;
        return Ok(other.then(|| bench.about(Verdict::new(VerdictKind::Nondeterministic, what))));
    }
    let Some(wrong) = bench.wrong_answer()? else { return Ok(None) };
    let message = format!("call {calls} of the same input is wrong: {}", wrong.message);
    let symptom = wrong.label();
    Ok(Some(Verdict { kind: VerdictKind::Nondeterministic, message, ..wrong }.with("symptom", symptom)))
}

/// A kernel may leave an element as it is where that is close to what it would write. No poison is close to an answer,
/// and an output that holds the answer of an earlier call on the same input holds the right one. So this is a call on
/// outputs that hold their own answer with one of its low bits changed, in every element another one; and one in which
/// a sixteenth is changed, for kernels that look at a few elements and write nothing where these are right.
fn near_answers(bench: &mut Bench<'_>, repeated: &mut Repeated) -> Asked {
    let prepared = bench.prepared;
    let is_written = |plan: &BufferPlan| plan.role == Role::Output && starts_as(plan).is_none();
    let outputs = prepared.named_buffers().filter(|(plan, _)| is_written(plan));
    let bytes: u64 = outputs.clone().map(|(plan, _)| plan.bytes()).sum();
    if bytes > NEAR_BYTES_MAX || prepared.accumulates() || prepared.launches.is_empty() {
        return Ok(());
    }
    let first = if repeated.deterministic { Some(repeated.first(bench)?) } else { None };
    let seed = bench.check()?.seed;
    for share in [1, 16] {
        bench.run(PLAIN)?;
        for (plan, buffer) in outputs.clone() {
            let mut held = bench.device().read(buffer)?;
            let (size, count) = (plan.dtype.bytes(), plan.elements());
            let changed = count.div_ceil(share);
            let start = seed % (count - changed + 1);
            nearly(&mut held[(start * size) as usize..((start + changed) * size) as usize], plan.dtype);
            bench.device().write(buffer, &held)?;
        }
        bench.call()?;
        let (is_right, symptom) = match first {
            Some(first) => (bench.output_hash()? == first, None),
            None => {
                let symptom = bench.wrong_answer()?.map(|wrong| wrong.message);
                (symptom.is_none(), symptom)
            }
        };
        if !is_right {
            let what =
                "reads an output before writing it: where it nearly holds the answer, it is left as it is";
            let refused = bench.refused(VerdictKind::Nondeterministic, "uninit_read", what);
            return Err(match symptom {
                Some(symptom) => refused.with("symptom", symptom),
                None => refused,
            });
        }
    }
    Ok(())
}

/// Changes one of the low bits of each element, so that it is off by a part of itself between an eighth and the last bit.
fn nearly(bytes: &mut [u8], dtype: DType) {
    let bits = match dtype {
        DType::F16 => 8,
        DType::Bf16 => 5,
        DType::F32 => 21,
        DType::F64 => 50,
        _ => 4 * dtype.bytes(),
    };
    for (index, element) in bytes.chunks_exact_mut(dtype.bytes() as usize).enumerate() {
        // Not in step with any tile.
        let bit = ((index as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33) % bits;
        element[(bit / 8) as usize] ^= 1 << (bit % 8);
    }
}

/// The case on other data, where a kernel's memory of data can be told.
fn on_other_data(bench: &Bench<'_>, repeated: &Repeated, seeds: u32) -> Option<Case> {
    let case = &bench.prepared.case;
    let asks = repeated.deterministic
        && bench.includes(GateCheck::OtherData)
        && case.elements() <= OTHER_ELEMENTS
        && case.plan.buffers.iter().any(inputs::varies);
    asks.then(|| Case { seed_index: case.seed_index + seeds, ..case.clone() })
}

/// A, B, A on the same addresses: B must give its own answer, and A what it gave before.
fn after_other_data(bench: &mut Bench<'_>, repeated: &mut Repeated) -> Asked {
    let prepared = bench.prepared;
    let Some(other) = on_other_data(bench, repeated, 1) else { return Ok(()) };
    let first = repeated.first(bench)?;
    bench.judge.at(prepared.slot, &other, |beside| {
        let hash = beside.hash_of_run(RunSetting::plain(Poison::A))?;
        let Some(wrong) = beside.wrong_answer()? else { return Ok(()) };
        if hash != first {
            return Err(wrong.into());
        }
        let what = "new contents behind the same pointers give the old output";
        let refused = beside.refused(VerdictKind::Stateful, "cached_result", what);
        Err(refused.with("symptom", wrong.label()))
    })?;
    if bench.hash_of_run(PLAIN)? != first {
        let what = "the output changes after a run on other data";
        return Err(bench.refused(VerdictKind::Stateful, "module_state", what));
    }
    Ok(())
}

/// A call on contents of which most are those of the call before, at the same addresses. If its answer is wrong, and right
/// after a call on other contents, the kernel goes by a few elements.
fn after_data_alike(bench: &mut Bench<'_>, repeated: &mut Repeated) -> Asked {
    let (setting, slot) = (RunSetting::plain(Poison::A), bench.prepared.slot);
    let Some(alike) = on_other_data(bench, repeated, inputs::REARRANGED) else { return Ok(()) };
    let Some(other) = on_other_data(bench, repeated, 1) else { return Ok(()) };
    let wrong_after = |bench: &mut Bench<'_>| {
        bench.run(setting)?;
        bench.wrong_answer().map_err(Failure::from)
    };
    bench.run(setting)?;
    let Some(wrong) = bench.judge.at(slot, &alike, wrong_after)? else { return Ok(()) };
    bench.judge.at(slot, &other, |bench| Ok(bench.run(setting)?))?;
    bench.judge.at(slot, &alike, |bench| {
        if let Some(wrong) = wrong_after(bench)? {
            return Err(wrong.into());
        }
        let what =
            "contents of which a quarter stands in another order than in the call before give a wrong output";
        let refused = bench.refused(VerdictKind::Stateful, "cached_result", what);
        Err(refused.with("symptom", wrong.label()))
    })
}

/// Inputs that a kernel uses as workspace and puts back before it ends.
///
/// Devices that can protect a buffer in place do so in every run; on the others there is a call for each input, with a
/// copy of it in its place that cannot be written. A fault of such a call is `input_mutated`: the calls before it, on the
/// same contents, had none.
fn read_only_inputs(bench: &mut Bench<'_>, repeated: &mut Repeated) -> Asked {
    let prepared = bench.prepared;
    if prepared.launches.is_empty() {
        return Ok(());
    }
    for (plan, buffer) in prepared.named_buffers() {
        let is_shown = plan.role == Role::Input && plan.symbol.is_none();
        if !is_shown || !(1..=SHOWN_BYTES_MAX).contains(&plan.bytes()) {
            continue;
        }
        bench.fill(Poison::A)?;
        if !bench.device().show_read_only(&[buffer])? {
            break;
        }
        let called = bench.call();
        // Whatever came of it: the next variant's launches use the same buffers.
        let hidden = bench.device().show_read_only(&[]);
        called.map_err(|error| borrowed(error, &plan.name))?;
        hidden?;
        repeated.shown += 1;
    }
    Ok(())
}

fn borrowed(error: DeviceError, name: &str) -> DeviceError {
    if error.kind != VerdictKind::CrashIllegalAddress {
        return error;
    }
    let message = format!(
        "input `{name}` is written to and put back: where it can be read only, the kernel faults ({})",
        error.message
    );
    DeviceError { kind: VerdictKind::InputMutated, message, ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_changes_and_stays_close() {
        for dtype in [DType::F16, DType::Bf16, DType::F32, DType::F64] {
            let values: Vec<f64> = (1..200).map(f64::from).collect();
            let mut bytes = element::narrow(&values, dtype);
            nearly(&mut bytes, dtype);
            let other = element::widen(&bytes, dtype);
            let distances = values.iter().zip(&other).map(|(value, other)| (value - other).abs() / value);
            assert!(distances.clone().all(|off| off > 0.0 && off <= 0.25), "{dtype:?}");
            assert!(distances.fold(1.0, f64::min) <= 2f64.powi(-5), "{dtype:?}");
        }
        let mut bytes = vec![7u8; 64];
        nearly(&mut bytes, DType::I32);
        assert!(bytes.chunks(4).all(|word| word != [7; 4] && word[2..] == [7; 2]));
    }

    #[test]
    fn only_a_fault_of_the_address_is_a_write() {
        let fault = |kind| DeviceError { sticky: true, ..DeviceError::plain(kind, "why") };
        let write = borrowed(fault(VerdictKind::CrashIllegalAddress), "x");
        assert_eq!((write.kind, write.sticky), (VerdictKind::InputMutated, true));
        assert!(write.message.contains("`x`") && write.message.contains("why"), "{}", write.message);
        let other = fault(VerdictKind::Hang);
        assert_eq!(borrowed(other.clone(), "x"), other);
    }
}
