//! What a kernel keeps in its workspace from call to call.
//!
//! A kernel may leave anything there, but a word that is another one after every call of the same input counts calls
//! or remembers them, and no number of calls tells what a later one does. Threads that come in another order leave
//! other words too. So both must hold: the words of several calls in a row are all different, and a second series
//! that begins with the same contents leaves the same ones again.

use evo_device::device::BufferId;
use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceError;
use evo_protocol::plan::Role;
use evo_protocol::verdict::{Verdict, VerdictKind};

use super::bench::Bench;
use super::element::{self, Poison};
use super::run;

/// Calls of a series: eight words that chance draws from few are not all different, and not the same again.
const CALLS: usize = 8;
/// Larger workspaces are not looked at: each call of a series reads them once.
const BYTES_MAX: u64 = 1 << 26;
/// So many words that change are followed. A kernel that counts in more of them counts in these too.
const WORDS_MAX: usize = 1 << 16;

struct WorkspaceWord {
    at: usize,
    seen: Vec<u32>,
}

pub(super) fn changes_with_every_call(bench: &mut Bench<'_>) -> Result<Option<Verdict>, DeviceError> {
    if !bench.includes(GateCheck::WorkspaceState) {
        return Ok(None);
    }
    let plans = bench.prepared.case.plan.buffers.iter().zip(bench.prepared.buffers.clone());
    let looked_at = plans.filter(|(plan, _)| {
        plan.role == Role::Scratch && run::starts_as(plan).is_none() && plan.bytes() <= BYTES_MAX
    });
    for (plan, buffer) in looked_at {
        let Some(at) = counted(bench, buffer)? else { continue };
        let name = &plan.name;
        let message = format!(
            "`{name}` changes with every call of the same input ({} bytes from its start), so no call tells what a later \
             one does; write to it before reading it, or say what it begins with: fill = {{ constant = 0 }}",
            4 * at
        );
        let verdict = Verdict::new(VerdictKind::Stateful, message).with_cause("workspace");
        return Ok(Some(bench.about(verdict.with("buffer", name.clone()))));
    }
    Ok(None)
}

/// Timed calls and programs that use the kernel do not fill a workspace again.
pub(super) fn not_reset(bench: &mut Bench<'_>) -> Result<Option<Verdict>, DeviceError> {
    let prepared = bench.prepared;
    let scratch = |constant: bool| {
        let plans = prepared.case.plan.buffers.iter().zip(prepared.buffers.iter().copied());
        plans
            .filter(move |(plan, _)| plan.role == Role::Scratch && run::starts_as(plan).is_some() == constant)
    };
    let mut is_right = |filled: bool| {
        let (device, pool) = (bench.judge.device.as_mut(), &mut bench.judge.pool);
        prepared.restore(device, pool)?;
        prepared.poison_outputs(device, Poison::A)?;
        match filled {
            true => prepared.poison_scratch(device, Poison::A)?,
            false => scratch(false)
                .try_for_each(|(plan, buffer)| device.fill(buffer, element::poison(plan.dtype, Poison::A)))?,
        }
        bench.call()?;
        Ok::<bool, DeviceError>(bench.mismatch()?.is_none())
    };
    if scratch(true).next().is_none() || !is_right(true)? || is_right(false)? || !is_right(true)? {
        return Ok(None);
    }
    let names: Vec<&str> = scratch(true).map(|(plan, _)| plan.name.as_str()).collect();
    let name = names.join("`, `");
    let message = format!(
        "`{name}` is filled once, before the first call, and a call does not leave it as it was, so the next one is \
         wrong: set it back before the kernel ends"
    );
    let verdict = Verdict::new(VerdictKind::Stateful, message).with_cause("scratch_not_reset");
    Ok(Some(bench.about(verdict.with("buffer", name))))
}

/// The first word that changes with every call, in both series alike.
fn counted(bench: &mut Bench<'_>, buffer: BufferId) -> Result<Option<usize>, DeviceError> {
    // The first call may leave what all later ones leave, so differences begin with the second.
    let first = call_again(bench, buffer, true)?;
    let second = call_again(bench, buffer, false)?;
    let pairs = first.chunks_exact(4).zip(second.chunks_exact(4)).enumerate();
    let changed = pairs.filter(|(_, (before, after))| before != after).take(WORDS_MAX);
    let mut words: Vec<WorkspaceWord> =
        changed.map(|(at, _)| WorkspaceWord { at, seen: vec![word_at(&second, at)] }).collect();
    drop((first, second));
    for _ in 1..CALLS {
        if words.is_empty() {
            return Ok(None);
        }
        let contents = call_again(bench, buffer, false)?;
        words.iter_mut().for_each(|word| word.seen.push(word_at(&contents, word.at)));
        words.retain(|word| is_new(&word.seen));
    }
    for call in 0..=CALLS {
        let contents = call_again(bench, buffer, call == 0)?;
        words.retain(|word| call == 0 || word_at(&contents, word.at) == word.seen[call - 1]);
        if words.is_empty() {
            return Ok(None);
        }
    }
    Ok(words.first().map(|word| word.at))
}

fn call_again(bench: &mut Bench<'_>, buffer: BufferId, anew: bool) -> Result<Vec<u8>, DeviceError> {
    let (device, pool) = (bench.judge.device.as_mut(), &mut bench.judge.pool);
    bench.prepared.restore(device, pool)?;
    bench.prepared.poison_outputs(device, Poison::A)?;
    if anew {
        // A number like any other: a sum with a huge one or with NaN stays as it is.
        bench.prepared.poison_scratch(device, Poison::D)?;
    }
    bench.call()?;
    bench.judge.device.read(buffer)
}

fn is_new(seen: &[u32]) -> bool {
    seen.split_last().is_none_or(|(last, before)| !before.contains(last))
}

fn word_at(contents: &[u8], at: usize) -> u32 {
    let bytes = contents.get(4 * at..4 * at + 4).and_then(|own| own.try_into().ok());
    bytes.map_or(0, u32::from_le_bytes)
}
