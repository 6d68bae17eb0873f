//! Names a divergent barrier: which threads wait where, and which have returned.

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::VerdictKind;
use serde_json::{Value, json};

use super::warp::{WaitPoint, barrier, operation};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadState {
    /// At a barrier of the block.
    Barrier(WaitPoint),
    /// The place's mask is the barrier's number.
    Named { place: WaitPoint, arrived: u32, expected: u32 },
    /// In a warp operation that waits for other lanes.
    Warp(WaitPoint),
    /// The place's mask is the phase's parity.
    Phase(WaitPoint, PhaseAwaited),
    /// At the barrier of the block's cluster.
    Cluster { place: WaitPoint, arrived: u32, expected: u32 },
    /// Returned from the kernel.
    Returned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseAwaited {
    /// The barrier's place in dynamic shared memory; less than 0 in static shared memory.
    pub offset: i64,
    pub phase: u32,
    pub arrived: u32,
    pub count: u32,
    /// Bytes of the copies that were issued, and how many are expected.
    pub bytes: (u64, u64),
}

impl PhaseAwaited {
    fn text(self) -> String {
        let place = match self.offset {
            ..0 => "in static shared memory".to_string(),
            offset => format!("at byte {offset} of shared memory"),
        };
        let Self { phase, arrived, count, bytes: (copied, expected), .. } = self;
        let mut text = format!("barrier {place}, phase {phase}: {arrived} of {count} arrivals");
        if copied != 0 || expected != 0 {
            text.push_str(&format!(", {copied} of {expected} bytes"));
        }
        text
    }
}

impl ThreadState {
    fn call(self) -> &'static str {
        match self {
            ThreadState::Barrier(place) => {
                barrier::NAMES.get(place.kind as usize).copied().unwrap_or("barrier")
            }
            ThreadState::Warp(place)
            | ThreadState::Named { place, .. }
            | ThreadState::Cluster { place, .. }
            | ThreadState::Phase(place, _) => {
                operation::NAMES.get(place.kind as usize).copied().unwrap_or("warp operation")
            }
            ThreadState::Returned => "return",
        }
    }

    fn text(self, single: bool) -> String {
        let (wait, have) = if single { ("waits", "has") } else { ("wait", "have") };
        match self {
            ThreadState::Barrier(place) => format!("{wait} at line {} (`{}`)", place.line, self.call()),
            ThreadState::Warp(place) => {
                format!("{wait} at line {} (`{}`, mask 0x{:08x})", place.line, self.call(), place.mask)
            }
            ThreadState::Named { place, arrived, expected } => format!(
                "{wait} at line {} (`{}`, barrier {}, {arrived} of {expected} threads)",
                place.line,
                self.call(),
                place.mask
            ),
            ThreadState::Phase(place, awaited) => format!(
                "{wait} at line {} (`{}` for parity {}, {})",
                place.line,
                self.call(),
                place.mask,
                awaited.text()
            ),
            ThreadState::Cluster { place, arrived, expected } => format!(
                "{wait} at line {} (`{}`, barrier of the cluster: {arrived} of {expected} threads)",
                place.line,
                self.call()
            ),
            ThreadState::Returned => format!("{have} returned"),
        }
    }

    fn evidence(self, threads: String) -> Value {
        match self {
            ThreadState::Barrier(place) => {
                json!({"threads": threads, "line": place.line, "call": self.call()})
            }
            ThreadState::Warp(place) => json!({
                "threads": threads, "line": place.line, "call": self.call(), "mask": format!("0x{:08x}", place.mask),
            }),
            ThreadState::Named { place, arrived, expected } => json!({
                "threads": threads, "line": place.line, "call": self.call(), "barrier": place.mask,
                "arrived": arrived, "expected": expected,
            }),
            ThreadState::Phase(place, awaited) => json!({
                "threads": threads, "line": place.line, "call": self.call(), "parity": place.mask,
                "barrier": awaited.offset, "phase": awaited.phase, "arrived": awaited.arrived,
                "expected": awaited.count, "bytes": awaited.bytes.0, "bytes_expected": awaited.bytes.1,
            }),
            ThreadState::Cluster { place, arrived, expected } => json!({
                "threads": threads, "line": place.line, "call": self.call(), "arrived": arrived, "expected": expected,
            }),
            ThreadState::Returned => json!({"threads": threads, "call": "return"}),
        }
    }
}

/// `standings` is by linear thread number.
pub fn describe(block: [u32; 3], standings: &[ThreadState]) -> DeviceError {
    let mut groups: Vec<(ThreadState, Vec<usize>)> = Vec::new();
    for (thread, standing) in standings.iter().enumerate() {
        match groups.iter_mut().find(|(known, _)| known == standing) {
            Some((_, threads)) => threads.push(thread),
            None => groups.push((*standing, vec![thread])),
        }
    }
    // Those who wait come first: their lines are what a person looks for.
    groups.sort_by_key(|(standing, threads)| (*standing == ThreadState::Returned, threads[0]));
    let phrase = |(standing, threads): &(ThreadState, Vec<usize>)| {
        format!("{} {}", ranges(threads), standing.text(threads.len() == 1))
    };
    let text: Vec<String> = groups.iter().map(phrase).collect();
    let [x, y, z] = block;
    let message = format!("{} (block {x},{y},{z})", text.join(", "));
    let of_block = |standing: &ThreadState| !matches!(standing, ThreadState::Warp(_) | ThreadState::Returned);
    let warp_only = !groups.iter().any(|(standing, _)| of_block(standing));
    let mut error = DeviceError::plain(VerdictKind::DivergentBarrier, message).with_cause(if warp_only {
        "warp"
    } else {
        "block"
    });
    let standings = groups.iter().map(|(standing, threads)| standing.evidence(ranges(threads))).collect();
    error.evidence.insert("standings".to_string(), Value::Array(standings));
    error.evidence.insert("block".to_string(), json!(block));
    error
}

pub fn describe_cluster(blocks: usize, stuck: &[([u32; 3], Vec<ThreadState>)]) -> DeviceError {
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
    error.evidence.insert("cluster".to_string(), Value::Array(others));
    error
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
    fn ranges_and_places_are_named() {
        let at = |line| ThreadState::Barrier(WaitPoint { kind: barrier::SYNC, line, mask: 0 });
        let mut standings = vec![ThreadState::Returned; 4];
        standings.extend([at(41); 2]);
        standings.extend([at(57); 1]);
        standings.push(ThreadState::Warp(WaitPoint { kind: operation::SHUFFLE_XOR, line: 9, mask: 0xf }));
        let error = describe([1, 0, 0], &standings);
        assert_eq!(
            error.message,
            "threads 4-5 wait at line 41 (`__syncthreads`), thread 6 waits at line 57 (`__syncthreads`), \
             thread 7 waits at line 9 (`__shfl_xor_sync`, mask 0x0000000f), threads 0-3 have returned (block 1,0,0)"
        );
        assert_eq!(error.kind, VerdictKind::DivergentBarrier);
    }

    #[test]
    fn each_block_of_a_cluster_is_named() {
        let place = WaitPoint { kind: operation::CLUSTER, line: 9, mask: 0 };
        let at = ThreadState::Cluster { place, arrived: 3, expected: 4 };
        let other = ThreadState::Barrier(WaitPoint { kind: barrier::SYNC, line: 7, mask: 0 });
        let error = describe_cluster(3, &[([0; 3], vec![at, at]), ([1, 0, 0], vec![other, at])]);
        assert_eq!(
            error.message,
            "threads 0-1 wait at line 9 (`evo::cluster_wait`, barrier of the cluster: 3 of 4 threads) (block 0,0,0); \
             thread 0 waits at line 7 (`__syncthreads`), thread 1 waits at line 9 (`evo::cluster_wait`, barrier of \
             the cluster: 3 of 4 threads) (block 1,0,0) (cluster of 3 blocks, 1 ended)"
        );
        let alone = ([4, 0, 0], vec![other; 2]);
        assert_eq!(
            describe_cluster(1, std::slice::from_ref(&alone)).message,
            describe(alone.0, &alone.1).message
        );
    }

    #[test]
    fn scattered_threads_are_capped() {
        let threads: Vec<usize> = (0..40).step_by(2).collect();
        assert_eq!(ranges(&threads), "threads 0, 2, 4, 6, 8, 10, 12, 14, … (20 in all)");
    }
}
