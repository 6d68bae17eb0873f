//! Questions after the comparison: why an answer is wrong, whether a right one stays right, and what two runs on the same
//! input that gave different outputs depend on.

use evo_device::device::SampleOrder;
use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::Role;
use evo_protocol::verdict::{Cause, Verdict, VerdictKind};
use evo_protocol::worker::Phase;

use super::bench::{Asked, Bench, Failure, found};
use super::case::Case;
use super::element::{self, Poison};
use super::run::{self, Mismatch, RunSetting};
use super::{inputs, kept, wrong};

pub(super) const PROBE_ELEMENTS: u64 = 1 << 20;

/// What a kernel that adds to its output lacks in the space file, such as a histogram, is said with its cause.
const OUTPUT_IS_READ: &str = "reads output (`{names}`) before writing it; if the kernel adds to what is there, give the \
                              argument role = \"inout\" and fill = { constant = 0 }";

/// A part of a setting, and what is wrong with a kernel whose output it changes alone.
struct SettingPart {
    give: fn(&mut RunSetting, RunSetting),
    /// Only where there are such buffers, which `what` may name.
    role: Option<Role>,
    kind: VerdictKind,
    cause: &'static str,
    what: &'static str,
}

/// The order of threads comes first: a thread that reads too early finds what memory held before, and the missing
/// barrier is the cause.
const PARTS: [SettingPart; 6] = [
    SettingPart {
        give: |setting, other| setting.conditions.order = other.conditions.order,
        role: None,
        kind: VerdictKind::Nondeterministic,
        cause: "race",
        what: "the output depends on the order in which threads run: a barrier or a fence is missing",
    },
    SettingPart {
        give: |setting, other| setting.conditions.residue = other.conditions.residue,
        role: None,
        kind: VerdictKind::WrongAnswer,
        cause: "uninitialized",
        what: "reads shared memory or local variables before writing them",
    },
    SettingPart {
        give: |setting, other| setting.scratch = other.scratch,
        role: Some(Role::Scratch),
        kind: VerdictKind::Nondeterministic,
        cause: "uninit_read",
        what: "reads workspace (`{names}`) before writing it",
    },
    SettingPart {
        give: |setting, other| setting.outputs = other.outputs,
        role: Some(Role::Output),
        kind: VerdictKind::Nondeterministic,
        cause: "uninit_read",
        what: OUTPUT_IS_READ,
    },
    SettingPart {
        give: |setting, other| setting.conditions.placement = other.conditions.placement,
        role: None,
        kind: VerdictKind::OobRead,
        cause: "placement",
        what: "the output depends on where a buffer lies in memory",
    },
    SettingPart {
        give: |setting, other| setting.conditions.clock = other.conditions.clock,
        role: None,
        kind: VerdictKind::Nondeterministic,
        cause: "clock",
        what: "the output depends on what the clock shows",
    },
];

/// Says what two runs that gave different outputs depend on. One part is changed at a time from the second setting to the
/// first; finally the module itself is loaded again.
pub(super) fn disagree(bench: &mut Bench<'_>, [first, second]: [(RunSetting, u64); 2]) -> Asked {
    let (from, base) = (first.0, second.0);
    // The same setting gives another output, so it does not depend on the setting: chance or state is left.
    if !bench.includes(GateCheck::NameDisagreement) || bench.hash_of_run(base)? != second.1 {
        return reloaded(bench);
    }
    for part in &PARTS {
        let names = part.role.map(|role| bench.names(|buffer| buffer.role == role));
        let mut changed = base;
        (part.give)(&mut changed, from);
        if changed == base || names == Some(None) {
            continue;
        }
        let other = bench.hash_of_run(changed)?;
        if other == second.1 {
            continue;
        }
        // Once more each way: a counter that the kernel keeps changes the output as well, and by itself.
        let back = bench.hash_of_run(base)? == second.1;
        if !back || bench.hash_of_run(changed)? != other {
            return reloaded(bench);
        }
        let what = part.what.replace("{names}", &names.flatten().unwrap_or_default());
        return Err(bench.refused(part.kind, part.cause, what));
    }
    // None changes the output alone, all together do.
    if from != base && bench.hash_of_run(from)? == first.1 {
        let what = "the output depends on memory that was not written and on the order of threads together";
        return Err(bench.refused(VerdictKind::Nondeterministic, "uninit_read", what));
    }
    reloaded(bench)
}

/// Launches after each reload: enough for state to show, cheap enough for a failing variant.
const SEQUENCE: usize = 24;

/// Runs the same sequence of launches twice, each on a freshly loaded module. Equal sequences whose
/// answers change on the way mean that the module keeps state; anything else is chance.
fn reloaded(bench: &mut Bench<'_>) -> Asked {
    let chance = "the same input gives different outputs";
    let chance = bench.refused(VerdictKind::Nondeterministic, "race", chance);
    if !bench.includes(GateCheck::NameState) {
        return Err(chance);
    }
    let (first, second) = (after_reload(bench)?, after_reload(bench)?);
    if first != second || first.iter().all(|answer| *answer == first[0]) {
        return Err(chance);
    }
    let what = "the output depends on earlier launches, in the same way after every load: on a variable of the \
                module, or on memory that is read before writing it";
    Err(bench.refused(VerdictKind::Stateful, "module_state", what))
}

fn after_reload(bench: &mut Bench<'_>) -> Result<Vec<u64>, DeviceError> {
    bench.judge.reload(bench.prepared.slot, &bench.prepared.case.plan)?;
    (0..SEQUENCE).map(|_| bench.hash_of_run(RunSetting::plain(Poison::B))).collect()
}

/// Calls as they are when they are timed: nothing is filled in between, so a kernel that looks for its marks finds
/// them.
pub(super) fn called_again(bench: &mut Bench<'_>, hash: u64) -> Asked {
    let prepared = bench.prepared;
    if prepared.accumulates() || prepared.launches.is_empty() || !bench.includes(GateCheck::Repeats) {
        return Ok(());
    }
    let again = after_a_call(bench)?;
    if again == hash {
        return Ok(());
    }
    kept::is_reset(bench)?;
    let plain = RunSetting::plain(Poison::B);
    if bench.hash_of_run(plain)? != hash || after_a_call(bench)? != again {
        return disagree(bench, [(plain, again), (plain, hash)]);
    }
    let what = "a call that finds what the call before has left gives another output";
    Err(bench.refused(VerdictKind::Stateful, "earlier_call", what))
}

/// The hash of what the second of two calls leaves, between which nothing is filled.
fn after_a_call(bench: &mut Bench<'_>) -> Result<u64, DeviceError> {
    let prepared = bench.prepared;
    let order = SampleOrder {
        rotation: std::slice::from_ref(&prepared.launches),
        mode: TimingMode::Hot,
        samples: 2,
        batch: 1,
        untouched: true,
    };
    let name = prepared.case.name();
    bench.judge.report(Phase::Launched, &name);
    prepared.fill_variables(bench.device())?;
    bench.device().sample(prepared.module, order)?;
    prepared.read_variables(bench.device())?;
    bench.judge.report(Phase::Checking, &name);
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
        && let Some(outside) = found(reads_outside(bench, hash))?
        && outside.kind == VerdictKind::OobRead
    {
        return Ok(*outside);
    }
    if verdict.has_cause(Cause::NanInf) {
        return Ok(verdict);
    }
    if hash.is_some()
        && let Some(unset) = found(depends_on_residue(bench))?
    {
        return Ok(*unset);
    }
    name_constant(bench, mismatch.output.position, verdict)
}

/// A wrong answer that is the same in every run may follow what shared memory happens to hold. No mask, minimum,
/// maximum or comparison answers all these contents alike.
fn depends_on_residue(bench: &mut Bench<'_>) -> Asked {
    if !bench.includes(GateCheck::SharedResidue) || bench.prepared.case.elements() > PROBE_ELEMENTS {
        return Ok(());
    }
    let of = |poison| element::poison(DType::F32, poison);
    let mut first = None;
    for residue in [0, 1, of(Poison::D), of(Poison::B), of(Poison::C), of(Poison::A)] {
        let mut setting = RunSetting::plain(Poison::B);
        setting.conditions.residue = Some(residue);
        let run = (setting, bench.hash_of_run(setting)?);
        let before = *first.get_or_insert(run);
        if before.1 != run.1 {
            return disagree(bench, [before, run]);
        }
    }
    Ok(())
}

fn name_constant(bench: &mut Bench<'_>, position: usize, verdict: Verdict) -> Result<Verdict, DeviceError> {
    let case = &bench.prepared.case;
    let random = case.plan.buffers.iter().any(inputs::varies);
    let named = bench.includes(GateCheck::NameConstant);
    if !named || case.family != inputs::Family::Normal || case.elements() > PROBE_ELEMENTS || !random {
        return Ok(verdict);
    }
    let constant = |verdict: Verdict, what: String| {
        let message = format!("{}; {what}", verdict.message);
        Verdict { message, ..verdict }.with_cause(Cause::Constant)
    };
    let values = bench.prepared.compared(bench.device(), position)?;
    if values.len() > 1 && values.iter().all(|value| *value == values[0]) {
        return Ok(constant(verdict, format!("every element is `{}`", values[0])));
    }
    let hash = bench.output_hash()?;
    let answer = bench.prepared.target(position).map(|target| target.hash);
    let other = Case { seed_index: case.seed_index + 1, ..case.clone() };
    let other = bench.judge.prepare_case(bench.prepared.slot, &other)?;
    let other_hash =
        Bench { judge: bench.judge, prepared: &other }.hash_of_run(RunSetting::plain(Poison::B))?;
    match other.target(position).map(|target| target.hash) != answer && other_hash == hash {
        true => Ok(constant(verdict, "other inputs give the same output".to_string())),
        false => Ok(verdict),
    }
}

/// Guard zones hold NaN, then huge values: an output that changes was computed from them.
pub(super) fn reads_outside(bench: &mut Bench<'_>, hash: Option<u64>) -> Asked {
    if !bench.includes(GateCheck::GuardContents) {
        return Ok(());
    }
    let mut changes_by = None;
    for poison in [Poison::A, Poison::B] {
        bench.device().arm_guards(element::poison(DType::F32, poison))?;
        bench.run(RunSetting::plain(Poison::B))?;
        // With other contents than usual, a write of the usual contents shows too.
        let held = bench.guards_hold();
        if matches!(held, Err(Failure::Kernel(_))) {
            bench.device().arm_guards(run::GUARD_PATTERN)?;
        }
        held?;
        let changed = match hash {
            Some(hash) => bench.output_hash()? != hash,
            None => bench.mismatch()?.is_some(),
        };
        if changed {
            changes_by = Some(poison);
            break;
        }
    }
    bench.device().arm_guards(run::GUARD_PATTERN)?;
    let Some(poison) = changes_by else { return Ok(()) };
    if let Some(hash) = hash {
        // Was it the guards, or chance? The same run with the usual guards, and both must come out as before when
        // they are repeated. What fills guards may leave its traces in shared memory, so that holds the same in all
        // runs.
        let usual = RunSetting::plain(Poison::B).on_ordinary_residue();
        let mut outputs = [0; 4];
        let patterns = [run::GUARD_PATTERN, element::poison(DType::F32, poison)];
        for (output, pattern) in outputs.iter_mut().zip(patterns.into_iter().cycle()) {
            bench.device().arm_guards(pattern)?;
            *output = bench.hash_of_run(usual)?;
        }
        bench.device().arm_guards(run::GUARD_PATTERN)?;
        let [now, filled, again, filled_again] = outputs;
        let guards_matter = now != filled && now == again && filled == filled_again;
        if !guards_matter {
            return disagree(bench, [(RunSetting::plain(Poison::B), hash), (usual, now)]);
        }
    }
    let verdict = Verdict::new(VerdictKind::OobRead, "the output depends on what lies outside the buffers")
        .with("guard_pattern", if poison == Poison::A { "nan" } else { "huge" });
    Err(bench.about(verdict).into())
}
