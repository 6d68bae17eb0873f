//! Two runs on the same input gave different outputs: what did the second one depend on?

use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceError;
use evo_protocol::plan::Role;
use evo_protocol::verdict::{Cause, Verdict, VerdictKind};

use super::bench::Bench;
use super::element::Poison;
use super::run::{PreparedCase, RunSetting};
use super::wrong;

/// One thing is changed at a time from the second setting to the first; finally the module itself is loaded again.
pub(super) fn explain(
    bench: &mut Bench<'_>,
    [first, second]: [(RunSetting, u64); 2],
) -> Result<Verdict, DeviceError> {
    let (from, base) = (first.0, second.0);
    if !bench.includes(GateCheck::NameDisagreement) {
        return reloaded(bench);
    }
    // The same setting gave another output, so it does not depend on the setting: chance or state is left.
    if bench.hash_of_run(base)? != second.1 {
        return reloaded(bench);
    }
    for step in STEPS {
        let changed = step.apply(base, from);
        if changed == base || !applies(step, bench.prepared) {
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
        return Ok(step.verdict(bench.prepared));
    }
    // None changes the output alone, all together do.
    if from != base && bench.hash_of_run(from)? == first.1 {
        let what = "the output depends on memory that was not written and on the order of threads together";
        return Ok(verdict(bench.prepared, VerdictKind::Nondeterministic, "uninit_read", what));
    }
    reloaded(bench)
}

/// What a kernel that adds to its output lacks in the space file, such as a histogram.
pub(super) const ACCUMULATES_HINT: &str =
    "; if the kernel adds to what is there, give the argument role = \"inout\" and fill = { constant = 0 }";

#[derive(Clone, Copy, Debug, PartialEq)]
enum SettingPart {
    Scratch,
    Outputs,
    Residue,
    Order,
    Placement,
    Clock,
}

/// The order of threads comes first: a thread that reads too early finds what memory held before, and the missing
/// barrier is the cause.
const STEPS: [SettingPart; 6] = [
    SettingPart::Order,
    SettingPart::Residue,
    SettingPart::Scratch,
    SettingPart::Outputs,
    SettingPart::Placement,
    SettingPart::Clock,
];

impl SettingPart {
    fn apply(self, base: RunSetting, other: RunSetting) -> RunSetting {
        let mut changed = base;
        match self {
            SettingPart::Scratch => changed.scratch = other.scratch,
            SettingPart::Outputs => changed.outputs = other.outputs,
            SettingPart::Residue => changed.conditions.residue = other.conditions.residue,
            SettingPart::Order => changed.conditions.order = other.conditions.order,
            SettingPart::Placement => changed.conditions.placement = other.conditions.placement,
            SettingPart::Clock => changed.conditions.clock = other.conditions.clock,
        }
        changed
    }

    fn verdict(self, prepared: &PreparedCase) -> Verdict {
        let names = |role| buffers(prepared, role).join("`, `");
        let uninit = "uninit_read";
        match self {
            SettingPart::Scratch => {
                let what = format!("reads workspace (`{}`) before writing it", names(Role::Scratch));
                verdict(prepared, VerdictKind::Nondeterministic, uninit, &what)
            }
            SettingPart::Outputs => {
                let what =
                    format!("reads output (`{}`) before writing it{ACCUMULATES_HINT}", names(Role::Output));
                verdict(prepared, VerdictKind::Nondeterministic, uninit, &what)
            }
            SettingPart::Residue => {
                let what = "reads shared memory or local variables before writing them";
                verdict(prepared, VerdictKind::WrongAnswer, Cause::Uninitialized.as_str(), what)
            }
            SettingPart::Order => {
                let what = "the output depends on the order in which threads run: a barrier or a fence is \
                            missing";
                verdict(prepared, VerdictKind::Nondeterministic, "race", what)
            }
            SettingPart::Placement => {
                let what = "the output depends on where a buffer lies in memory";
                verdict(prepared, VerdictKind::OobRead, "placement", what)
            }
            SettingPart::Clock => {
                let what = "the output depends on what the clock shows";
                verdict(prepared, VerdictKind::Nondeterministic, "clock", what)
            }
        }
    }
}

fn applies(step: SettingPart, prepared: &PreparedCase) -> bool {
    step != SettingPart::Scratch || !buffers(prepared, Role::Scratch).is_empty()
}

/// Launches after each reload: enough for state to show, cheap enough for a failing variant.
const SEQUENCE: usize = 24;

/// Runs the same sequence of launches twice, each on a freshly loaded module. Equal sequences whose
/// answers change on the way mean that the module keeps state; anything else is chance.
fn reloaded(bench: &mut Bench<'_>) -> Result<Verdict, DeviceError> {
    let what = "the same input gives different outputs";
    let chance = verdict(bench.prepared, VerdictKind::Nondeterministic, "race", what);
    if !bench.includes(GateCheck::NameState) {
        return Ok(chance);
    }
    let first = sequence(bench)?;
    let second = sequence(bench)?;
    if first == second && first.iter().any(|answer| *answer != first[0]) {
        let what = "the output depends on earlier launches, in the same way after every load: on a variable of the \
                    module, or on memory that is read before writing it";
        return Ok(verdict(bench.prepared, VerdictKind::Stateful, "module_state", what));
    }
    Ok(chance)
}

fn sequence(bench: &mut Bench<'_>) -> Result<Vec<u64>, DeviceError> {
    bench.judge.reload(bench.prepared.slot, &bench.prepared.case.plan)?;
    (0..SEQUENCE).map(|_| bench.hash_of_run(RunSetting::plain(Poison::B))).collect()
}

fn buffers(prepared: &PreparedCase, role: Role) -> Vec<&str> {
    let own = prepared.case.plan.buffers.iter().filter(|buffer| buffer.role == role);
    own.map(|buffer| buffer.name.as_str()).collect()
}

fn verdict(prepared: &PreparedCase, kind: VerdictKind, cause: &str, what: &str) -> Verdict {
    wrong::about(Verdict::new(kind, what).with_cause(cause), &prepared.case)
}
