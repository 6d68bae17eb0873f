//! Two runs on the same input gave different outputs: what did the second one depend on?

use evo_protocol::device::DeviceError;
use evo_protocol::plan::Role;
use evo_protocol::verdict::{Verdict, VerdictKind};

use super::element::Poison;
use super::run::{PhaseSink, PreparedCase};
use super::state::Judge;
use super::wrong;

/// Names the cause. `hashes` are the outputs with poison A and with poison B everywhere. One thing is
/// changed at a time: nothing, the workspace, the outputs; finally the module itself is loaded again.
pub(super) fn explain(
    judge: &mut Judge,
    prepared: &PreparedCase,
    hashes: (u64, u64),
    phase: &mut PhaseSink<'_>,
) -> Result<Verdict, DeviceError> {
    let mut run = |outputs, scratch| ask(judge, prepared, (outputs, scratch), phase);
    let again = run(Poison::B, Poison::B)?;
    // The same poisons gave another output, so it does not depend on them: chance or state is left.
    if again != hashes.1 {
        return reloaded(judge, prepared, phase);
    }
    let has_scratch = prepared.case.plan.buffers.iter().any(|buffer| buffer.role == Role::Scratch);
    if has_scratch && run(Poison::B, Poison::A)? != hashes.1 {
        let names: Vec<&str> = buffers(prepared, Role::Scratch);
        let what = format!("reads workspace (`{}`) before writing it", names.join("`, `"));
        return Ok(verdict(prepared, VerdictKind::Nondeterministic, "uninit_read", &what));
    }
    if run(Poison::A, Poison::B)? != hashes.1 {
        let names = buffers(prepared, Role::Output);
        let what = format!("reads output (`{}`) before writing it", names.join("`, `"));
        return Ok(verdict(prepared, VerdictKind::Nondeterministic, "uninit_read", &what));
    }
    // Neither changes the output alone, both together do.
    if run(Poison::A, Poison::A)? == hashes.0 {
        let what = "reads both workspace and output before writing them";
        return Ok(verdict(prepared, VerdictKind::Nondeterministic, "uninit_read", what));
    }
    reloaded(judge, prepared, phase)
}

/// Launches after each reload: enough for state to show, cheap enough for a failing variant.
const SEQUENCE: usize = 24;

/// Runs the same sequence of launches twice, each on a freshly loaded module. Equal sequences whose
/// answers change on the way mean that the module keeps state; anything else is chance.
fn reloaded(
    judge: &mut Judge,
    prepared: &PreparedCase,
    phase: &mut PhaseSink<'_>,
) -> Result<Verdict, DeviceError> {
    let first = sequence(judge, prepared, phase)?;
    let second = sequence(judge, prepared, phase)?;
    if first == second && first.iter().any(|answer| *answer != first[0]) {
        let what = "the output depends on earlier launches, in the same way after every load";
        return Ok(verdict(prepared, VerdictKind::Stateful, "module_state", what));
    }
    let what = "the same input gives different outputs";
    Ok(verdict(prepared, VerdictKind::Nondeterministic, "race", what))
}

fn sequence(
    judge: &mut Judge,
    prepared: &PreparedCase,
    phase: &mut PhaseSink<'_>,
) -> Result<Vec<u64>, DeviceError> {
    let module = judge.reload(prepared.slot)?;
    let fresh = PreparedCase {
        slot: prepared.slot,
        module,
        launches: prepared.launches.clone(),
        case: prepared.case.clone(),
        buffers: prepared.buffers.clone(),
        set: prepared.set.clone(),
    };
    (0..SEQUENCE).map(|_| ask(judge, &fresh, (Poison::B, Poison::B), phase)).collect()
}

fn ask(
    judge: &mut Judge,
    prepared: &PreparedCase,
    poisons: (Poison, Poison),
    phase: &mut PhaseSink<'_>,
) -> Result<u64, DeviceError> {
    prepared.run(judge.device.as_mut(), &mut judge.pool, poisons, phase)?;
    prepared.output_hash(judge.device.as_mut())
}

fn buffers(prepared: &PreparedCase, role: Role) -> Vec<&str> {
    let own = prepared.case.plan.buffers.iter().filter(|buffer| buffer.role == role);
    own.map(|buffer| buffer.name.as_str()).collect()
}

fn verdict(prepared: &PreparedCase, kind: VerdictKind, cause: &str, what: &str) -> Verdict {
    wrong::about(Verdict::new(kind, what).with_cause(cause), &prepared.case)
}
