//! Errors by which a kernel ends its launch without a fault: traps, assertions, and barriers to which not all come, with
//! which threads wait where and which have returned.

use std::io;

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::VerdictKind;
use serde_json::{Value, json};

use super::fiber::ThreadRecord;
use super::warp::{WaitPoint, barrier, operation};

/// `EVO_STOP_…` of the header.
const TRAP: i32 = 0;
const ASSERT: i32 = 1;
pub const ILLEGAL: i32 = 3;

pub fn stopped(record: &ThreadRecord, kind: i32, line: i32, text: &str) -> DeviceError {
    let ([tx, ty, tz], [bx, by, bz]) = (record.thread, record.block);
    let place = format!("line {line}, thread {tx},{ty},{tz} of block {bx},{by},{bz}");
    let (kind, message) = match kind {
        TRAP => (VerdictKind::CrashTrap, format!("trap at {place}")),
        ASSERT => (VerdictKind::CrashAssert, format!("assertion `{text}` fails at {place}")),
        ILLEGAL => (VerdictKind::CrashIllegalInstruction, format!("{text} at {place}")),
        _ => (VerdictKind::CrashMisaligned, format!("{text} at {place}")),
    };
    let error = DeviceError::plain(kind, message).with("line", line);
    error.with("thread", record.thread).with("block", record.block)
}

pub fn no_memory(what: &str, error: &io::Error) -> DeviceError {
    DeviceError::plain(VerdictKind::OutOfMemory, format!("no memory for {what}: {error}"))
}

/// Where a thread waits and for what; none if it has returned from the kernel.
pub type Standing = Option<(WaitPoint, Awaited)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Awaited {
    /// A barrier of the block.
    Barrier,
    /// The place's mask is the barrier's number.
    Named { arrived: u32, expected: u32 },
    /// Other lanes, in a warp operation.
    Warp,
    /// The place's mask is the phase's parity.
    Phase {
        /// The barrier's place in dynamic shared memory; less than 0 in static shared memory.
        offset: i64,
        phase: u32,
        arrived: u32,
        expected: u32,
        /// Of the copies that were issued, and how many are expected.
        bytes: (u64, u64),
    },
    /// The barrier of the block's cluster.
    Cluster { arrived: u32, expected: u32 },
}

/// What is said behind the call, and what is evidence beside the line and the call.
fn details(place: WaitPoint, awaited: Awaited) -> (String, Value) {
    let number = place.mask;
    match awaited {
        Awaited::Barrier => (String::new(), json!({})),
        Awaited::Warp => {
            let mask = format!("0x{number:08x}");
            (format!(", mask {mask}"), json!({"mask": mask}))
        }
        Awaited::Named { arrived, expected } => (
            format!(", barrier {number}, {arrived} of {expected} threads"),
            json!({"barrier": number, "arrived": arrived, "expected": expected}),
        ),
        Awaited::Phase { offset, phase, arrived, expected, bytes: (copied, bytes) } => {
            let place = match offset {
                ..0 => "in static shared memory".to_string(),
                offset => format!("at byte {offset} of shared memory"),
            };
            let mut text = format!(
                " for parity {number}, barrier {place}, phase {phase}: {arrived} of {expected} arrivals"
            );
            if copied != 0 || bytes != 0 {
                text.push_str(&format!(", {copied} of {bytes} bytes"));
            }
            let evidence = json!({
                "parity": number, "barrier": offset, "phase": phase, "arrived": arrived, "expected": expected,
                "bytes": copied, "bytes_expected": bytes,
            });
            (text, evidence)
        }
        Awaited::Cluster { arrived, expected } => (
            format!(", barrier of the cluster: {arrived} of {expected} threads"),
            json!({"arrived": arrived, "expected": expected}),
        ),
    }
}

/// The text and the evidence of threads with one standing.
fn describe_group((standing, threads): &(Standing, Vec<usize>)) -> (String, Value) {
    let (wait, have) = if threads.len() == 1 { ("waits", "has") } else { ("wait", "have") };
    let threads = ranges(threads);
    let Some((place, awaited)) = *standing else {
        return (format!("{threads} {have} returned"), json!({"threads": threads, "call": "return"}));
    };
    let names = if awaited == Awaited::Barrier { barrier::NAMES } else { operation::NAMES };
    let (line, call) = (place.line, names.get(place.kind as usize).copied().unwrap_or("barrier"));
    let (details, more) = details(place, awaited);
    let mut evidence = json!({"threads": threads, "line": line, "call": call});
    for (name, value) in more.as_object().into_iter().flatten() {
        evidence[name] = value.clone();
    }
    (format!("{threads} {wait} at line {line} (`{call}`{details})"), evidence)
}

/// `standings` is by linear thread number.
fn describe(block: [u32; 3], standings: &[Standing]) -> DeviceError {
    let mut groups: Vec<(Standing, Vec<usize>)> = Vec::new();
    for (thread, standing) in standings.iter().enumerate() {
        match groups.iter_mut().find(|(known, _)| known == standing) {
            Some((_, threads)) => threads.push(thread),
            None => groups.push((*standing, vec![thread])),
        }
    }
    // Those who wait come first: their lines are what a person looks for.
    groups.sort_by_key(|(standing, threads)| (standing.is_none(), threads[0]));
    let (texts, standings): (Vec<String>, Vec<Value>) = groups.iter().map(describe_group).unzip();
    let [x, y, z] = block;
    let message = format!("{} (block {x},{y},{z})", texts.join(", "));
    let of_block = |standing: Standing| standing.is_some_and(|(_, awaited)| awaited != Awaited::Warp);
    let cause = if groups.iter().any(|(standing, _)| of_block(*standing)) { "block" } else { "warp" };
    let error = DeviceError::plain(VerdictKind::DivergentBarrier, message).with_cause(cause);
    error.with("standings", standings).with("block", block)
}

/// Nobody of a cluster of so many blocks can go on; `stuck` are those that have not ended.
pub fn stuck(blocks: usize, stuck: &[([u32; 3], Vec<Standing>)]) -> DeviceError {
    let mut errors: Vec<DeviceError> =
        stuck.iter().map(|(block, standings)| describe(*block, standings)).collect();
    if blocks == 1 || errors.is_empty() {
        return errors.pop().unwrap_or_else(|| describe([0; 3], &[]));
    }
    let texts: Vec<String> = errors.iter().map(|error| error.message.clone()).collect();
    let of_block = |error: &DeviceError| error.cause.as_deref() == Some("block");
    let first = errors.iter().position(of_block).unwrap_or(0);
    let others: Vec<Value> = errors
        .iter()
        .map(|error| {
            json!({"block": error.evidence.get("block"), "standings": error.evidence.get("standings")})
        })
        .collect();
    let mut error = errors.swap_remove(first);
    error.message =
        format!("{} (cluster of {blocks} blocks, {} ended)", texts.join("; "), blocks - stuck.len());
    error.with("cluster", others)
}

/// `thread 3`, `threads 0-63, 96-127`; at most eight ranges.
fn ranges(threads: &[usize]) -> String {
    let mut pieces: Vec<(usize, usize)> = Vec::new();
    for &thread in threads {
        match pieces.last_mut() {
            Some((_, last)) if *last + 1 == thread => *last = thread,
            _ => pieces.push((thread, thread)),
        }
    }
    let one = |&(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    let mut text = pieces.iter().take(8).map(one).collect::<Vec<_>>().join(", ");
    if pieces.len() > 8 {
        text.push_str(&format!(", … ({} in all)", threads.len()));
    }
    if threads.len() == 1 { format!("thread {text}") } else { format!("threads {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattered_threads_are_capped() {
        let threads: Vec<usize> = (0..40).step_by(2).collect();
        assert_eq!(ranges(&threads), "threads 0, 2, 4, 6, 8, 10, 12, 14, … (20 in all)");
    }
}
