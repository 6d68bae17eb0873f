//! What a kernel keeps in its own variables from call to call.
//!
//! A variable that changes with every call of the same input (a count of calls, a clock) can make any later call
//! another one than those that were checked, and no number of calls tells otherwise. One that depends on the input
//! only (a table of earlier results, scratch) is allowed, but timed calls then start from the variables as they were
//! when the module was loaded, so that nothing kept from an earlier call saves work while it is timed.

use std::collections::BTreeSet;

use evo_device::device::VariableState;
use evo_protocol::device::DeviceError;
use evo_protocol::verdict::{Verdict, VerdictKind};
use serde_json::json;

use super::bench::Bench;
use super::element::Poison;
use super::run::RunSetting;

/// The variable of the host's headers that counts what is in use of the device heap.
const HEAP: &str = "evo_heap_in_use";

/// Calls of the same input. The first may fill tables; two differences after it are a habit.
const CALLS: usize = 4;

pub(super) fn changes_with_every_call(bench: &mut Bench<'_>) -> Result<Option<Verdict>, DeviceError> {
    let module = bench.prepared.module;
    if bench.judge.device.variables(module)?.is_empty() {
        return Ok(None);
    }
    let mut seen = Vec::new();
    for _ in 0..CALLS {
        bench.run(RunSetting::plain(Poison::B))?;
        seen.push(bench.judge.device.variables(module)?);
    }
    let pairs = seen.windows(2).skip(1).map(|pair| changed(&pair[0], &pair[1]));
    let Some(names) = pairs.reduce(|all, own| &all & &own).filter(|names| !names.is_empty()) else {
        return Ok(None);
    };
    if names.contains(HEAP) {
        return Ok(Some(leak(bench, "every call keeps")));
    }
    let list = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let message = format!(
        "{list} changes with every call of the same input, so no call tells what a later one does; reset it \
         before the kernel ends, or say allow_state = true under [check]"
    );
    let verdict = Verdict::new(VerdictKind::Stateful, message).with_cause("module_state");
    Ok(Some(bench.about(verdict.with("variables", json!(names)))))
}

fn leak(bench: &mut Bench<'_>, who: &str) -> Verdict {
    // What it keeps is gone for every kernel of this process.
    bench.judge.retire();
    let what = format!("{who} memory of the device heap: it calls `malloc` and does not `free` all of it");
    bench.about(Verdict::new(VerdictKind::Stateful, what).with_cause("memory_leak"))
}

pub(super) fn heap(bench: &mut Bench<'_>) -> Result<Option<u64>, DeviceError> {
    let variables = bench.judge.device.variables(bench.prepared.module)?;
    Ok(variables.into_iter().find(|own| own.name == HEAP).map(|own| own.hash))
}

/// A verdict if more of the heap is in use, or less, than before many calls of the same input: a kernel that keeps memory
/// in a few calls only.
pub(super) fn keeps_memory(
    bench: &mut Bench<'_>,
    before: Option<u64>,
) -> Result<Option<Verdict>, DeviceError> {
    let after = heap(bench)?;
    let keeps = before != after || bench.judge.device.heap_kept(bench.prepared.module)? > 0;
    Ok(keeps.then(|| leak(bench, "some of many calls keep")))
}

/// The module's variables are as loaded afterwards.
pub(super) fn is_kept(bench: &mut Bench<'_>) -> Result<bool, DeviceError> {
    let module = bench.prepared.module;
    if bench.judge.device.variables(module)?.is_empty() {
        return Ok(false);
    }
    bench.judge.device.restore_variables(module)?;
    fill_again(bench)?;
    let loaded = bench.judge.device.variables(module)?;
    bench.call()?;
    fill_again(bench)?;
    let kept = !changed(&loaded, &bench.judge.device.variables(module)?).is_empty();
    bench.judge.device.restore_variables(module)?;
    Ok(kept)
}

/// Arguments that lie in variables of the module as each call finds them, so that they do not count as what a call keeps.
fn fill_again(bench: &mut Bench<'_>) -> Result<(), DeviceError> {
    if bench.prepared.case.plan.buffers.iter().all(|own| own.symbol.is_none()) {
        return Ok(());
    }
    bench.fill(Poison::A)?;
    bench.prepared.fill_variables(bench.device())
}

fn changed(before: &[VariableState], after: &[VariableState]) -> BTreeSet<String> {
    let pairs = before.iter().zip(after).filter(|(before, after)| before.hash != after.hash);
    pairs.map(|(before, _)| before.name.clone()).collect()
}
