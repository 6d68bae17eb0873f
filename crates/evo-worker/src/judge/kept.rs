//! What a kernel keeps from call to call, in variables of its module or in its workspace.
//!
//! A variable that changes with every call of the same input (a count of calls, a clock) can make any later call
//! another one than those that were checked, and no number of calls tells otherwise. One that depends on the input
//! only (a table of earlier results, scratch) is allowed, but timed calls then start from the variables as they were
//! when the module was loaded, so that nothing kept from an earlier call saves work while it is timed.
//!
//! In its workspace a kernel may leave anything, but a word that is another one after every call of the same input is a
//! count likewise. Threads that come in another order leave other words too. So both must hold: the words of several
//! calls in a row are all different, and a second series that begins with the same contents leaves the same ones again.

use std::collections::BTreeSet;

use evo_device::device::{BufferId, VariableState};
use evo_protocol::device::DeviceError;
use evo_protocol::plan::{BufferPlan, Role};
use evo_protocol::verdict::VerdictKind;
use serde_json::json;

use super::bench::{Asked, Bench, Failure};
use super::element::{self, Poison};
use super::run::{RunSetting, starts_as};

/// The variable of the host's headers that counts what is in use of the device heap.
const HEAP: &str = "evo_heap_in_use";

/// Calls of the same input. The first may fill tables; two differences after it are a habit.
const CALLS: usize = 4;

/// Calls of a series: eight words that chance draws from few are not all different, and not the same again.
const WORKSPACE_CALLS: usize = 8;
/// Larger workspaces are not looked at: each call of a series reads them once.
const BYTES_MAX: u64 = 1 << 26;
/// So many words that change are followed. A kernel that counts in more of them counts in these too.
const WORDS_MAX: usize = 1 << 16;

/// Fails if a variable changes with every call; what of the device heap is in use then.
pub(super) fn variable_changes(bench: &mut Bench<'_>) -> Result<Option<u64>, Failure> {
    let module = bench.prepared.module;
    if bench.device().variables(module)?.is_empty() {
        return Ok(None);
    }
    let mut states = Vec::new();
    for _ in 0..CALLS {
        bench.run(RunSetting::plain(Poison::B))?;
        states.push(bench.device().variables(module)?);
    }
    let pairs = states.windows(2).skip(1).map(|pair| changed(&pair[0], &pair[1]));
    let names = pairs.reduce(|all, names| &all & &names).unwrap_or_default();
    if names.is_empty() {
        return Ok(states.pop().and_then(heap));
    }
    if names.contains(HEAP) {
        return Err(leak(bench, "every call keeps"));
    }
    let list = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let what = format!(
        "{list} changes with every call of the same input, so no call tells what a later one does; reset it \
         before the kernel ends, or say allow_state = true under [check]"
    );
    Err(bench.refused(VerdictKind::Stateful, "module_state", what).with("variables", json!(names)))
}

fn leak(bench: &mut Bench<'_>, who: &str) -> Failure {
    // What it keeps is gone for every kernel of this process.
    bench.judge.sticky = true;
    let what = format!("{who} memory of the device heap: it calls `malloc` and does not `free` all of it");
    bench.refused(VerdictKind::Stateful, "memory_leak", what)
}

fn heap(variables: Vec<VariableState>) -> Option<u64> {
    variables.into_iter().find(|variable| variable.name == HEAP).map(|variable| variable.hash)
}

/// Fails if more of the heap is in use, or less, than before many calls of the same input: a kernel that keeps memory in
/// a few calls only.
pub(super) fn memory_stays(bench: &mut Bench<'_>, before: Option<u64>) -> Asked {
    let module = bench.prepared.module;
    let after = heap(bench.device().variables(module)?);
    if before != after || bench.device().heap_kept(module)? > 0 {
        return Err(leak(bench, "some of many calls keep"));
    }
    Ok(())
}

/// Whether a call leaves something in the module's variables, which are as loaded afterwards.
pub(super) fn is_kept(bench: &mut Bench<'_>) -> Result<bool, DeviceError> {
    let module = bench.prepared.module;
    if bench.device().variables(module)?.is_empty() {
        return Ok(false);
    }
    bench.device().restore_variables(module)?;
    fill_again(bench)?;
    let loaded = bench.device().variables(module)?;
    bench.call()?;
    fill_again(bench)?;
    let kept = !changed(&loaded, &bench.device().variables(module)?).is_empty();
    bench.device().restore_variables(module)?;
    Ok(kept)
}

/// Arguments that lie in variables of the module as each call finds them, so that they do not count as what a call keeps.
fn fill_again(bench: &mut Bench<'_>) -> Result<(), DeviceError> {
    if bench.prepared.case.plan.buffers.iter().all(|buffer| buffer.symbol.is_none()) {
        return Ok(());
    }
    bench.fill(Poison::A)?;
    bench.prepared.fill_variables(bench.device())
}

fn changed(before: &[VariableState], after: &[VariableState]) -> BTreeSet<String> {
    let pairs = before.iter().zip(after).filter(|(before, after)| before.hash != after.hash);
    pairs.map(|(before, _)| before.name.clone()).collect()
}

pub(super) fn workspace_changes(bench: &mut Bench<'_>) -> Asked {
    let looked_at = bench.prepared.named_buffers().filter(|(plan, _)| {
        plan.role == Role::Scratch && starts_as(plan).is_none() && plan.bytes() <= BYTES_MAX
    });
    for (plan, buffer) in looked_at {
        let Some(at) = counted(bench, buffer)? else { continue };
        let name = &plan.name;
        let what = format!(
            "`{name}` changes with every call of the same input ({} bytes from its start), so no call tells what a later \
             one does; write to it before reading it, or say what it begins with: fill = {{ constant = 0 }}",
            4 * at
        );
        return Err(bench.refused(VerdictKind::Stateful, "workspace", what).with("buffer", name.clone()));
    }
    Ok(())
}

/// Fails if a workspace that begins with a constant is wrong as a call has left it: timed calls and programs that use
/// the kernel do not fill it again.
pub(super) fn is_reset(bench: &mut Bench<'_>) -> Asked {
    let constant = |plan: &BufferPlan| plan.role == Role::Scratch && starts_as(plan).is_some();
    let Some(names) = bench.names(constant) else { return Ok(()) };
    let mut is_right = |filled: bool| {
        match filled {
            true => bench.fill(Poison::A)?,
            false => {
                bench.prepared.restore(&mut bench.judge.pool)?;
                bench.prepared.poison(bench.device(), Role::Output, Poison::A)?;
                let poison = |dtype| element::poison(dtype, Poison::A);
                bench.prepared.fill_scratch(bench.device(), poison)?;
            }
        }
        bench.call()?;
        Ok::<bool, DeviceError>(bench.mismatch()?.is_none())
    };
    if !is_right(true)? || is_right(false)? || !is_right(true)? {
        return Ok(());
    }
    let what = format!(
        "`{names}` is filled once, before the first call, and a call does not leave it as it was, so the next one is \
         wrong: set it back before the kernel ends"
    );
    Err(bench.refused(VerdictKind::Stateful, "scratch_not_reset", what).with("buffer", names))
}

/// The first word that changes with every call, in both series alike.
fn counted(bench: &mut Bench<'_>, buffer: BufferId) -> Result<Option<usize>, DeviceError> {
    // The first call may leave what all later ones leave, so differences begin with the second.
    let first = words_after_call(bench, buffer, true)?;
    let second = words_after_call(bench, buffer, false)?;
    let changed = (0..first.len()).filter(|at| first[*at] != second[*at]).take(WORDS_MAX);
    let mut words: Vec<(usize, Vec<u32>)> = changed.map(|at| (at, vec![second[at]])).collect();
    drop((first, second));
    for _ in 1..WORKSPACE_CALLS {
        if words.is_empty() {
            return Ok(None);
        }
        let contents = words_after_call(bench, buffer, false)?;
        words.retain_mut(|(at, values)| {
            let is_new = !values.contains(&contents[*at]);
            values.push(contents[*at]);
            is_new
        });
    }
    for call in 0..=WORKSPACE_CALLS {
        let contents = words_after_call(bench, buffer, call == 0)?;
        words.retain(|(at, values)| call == 0 || contents[*at] == values[call - 1]);
        if words.is_empty() {
            return Ok(None);
        }
    }
    Ok(words.first().map(|(at, _)| *at))
}

fn words_after_call(bench: &mut Bench<'_>, buffer: BufferId, anew: bool) -> Result<Vec<u32>, DeviceError> {
    bench.prepared.restore(&mut bench.judge.pool)?;
    bench.prepared.poison(bench.device(), Role::Output, Poison::A)?;
    if anew {
        // A number like any other: a sum with a huge one or with NaN stays as it is.
        bench.prepared.poison(bench.device(), Role::Scratch, Poison::D)?;
    }
    bench.call()?;
    let contents = bench.device().read(buffer)?;
    let words = contents.chunks_exact(4).map(|word| word.try_into().map_or(0, u32::from_le_bytes));
    Ok(words.collect())
}
