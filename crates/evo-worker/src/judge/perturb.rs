//! Inputs on which a reference runs again: with other last bits, or all of them multiplied.

use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, Fill, ProblemPlan};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

use super::{element, inputs};

const CHUNK: usize = 1 << 16;
/// One half in so many is nudged.
const RARE: u32 = 256;

/// What a run of the reference is given. Runs of a kind have numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RunInputs {
    /// The case's own.
    Same,
    /// Their last bits are drawn anew.
    Nudged(u32),
    /// Their last four bits are, which is the error of a few operations in f32.
    Jiggled(u32),
    Scaled(f64),
}

/// What becomes of one buffer. Bits are drawn anew from the seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    Unchanged,
    Nudged(u64),
    Scaled(f64),
    /// Values stay in a range whose end is left out.
    Jiggled {
        seed: u64,
        low: f64,
        high: f64,
    },
}

impl RunInputs {
    /// Only what a kernel reads as floating-point numbers changes; an index stays an index.
    pub fn change(self, position: usize, buffer: &BufferPlan) -> Change {
        let is_free = matches!(buffer.fill, Fill::Unrestricted | Fill::Normal { .. });
        let seed = |run: u32| u64::from(run) << 32 | position as u64;
        let (low, high) = match buffer.fill {
            Fill::Uniform { low, high, .. } => (low, high),
            _ => (f64::NEG_INFINITY, f64::INFINITY),
        };
        match self {
            _ if !inputs::varies(buffer) || !buffer.dtype.is_float() => Change::Unchanged,
            RunInputs::Nudged(run) if is_free => Change::Nudged(seed(run)),
            RunInputs::Jiggled(run) => Change::Jiggled { seed: seed(run), low, high },
            RunInputs::Scaled(factor) if is_free => Change::Scaled(factor),
            _ => Change::Unchanged,
        }
    }

    pub fn of(self, plan: &ProblemPlan, bytes: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let turn = self.turn(plan);
        let list = |((position, buffer), bytes): ((usize, &BufferPlan), &Vec<u8>)| {
            let half = turn.filter(|(own, _)| *own == position).map(|(_, half)| half);
            self.change(position, buffer).apply(bytes, buffer.dtype, half)
        };
        plan.buffers.iter().enumerate().zip(bytes).map(list).collect()
    }

    /// A case may have so few halves that none of them is drawn, and its answer may cancel too: then each has its turn.
    /// Which buffer's, and which of its elements.
    fn turn(self, plan: &ProblemPlan) -> Option<(usize, usize)> {
        let (RunInputs::Nudged(run) | RunInputs::Jiggled(run)) = self else { return None };
        let changes = |(position, buffer): &(usize, &BufferPlan)| {
            is_half(buffer.dtype) && self.change(*position, buffer) != Change::Unchanged
        };
        let halves = plan.buffers.iter().enumerate().filter(changes);
        let places =
            halves.flat_map(|(own, buffer)| (0..buffer.elements() as usize).map(move |half| (own, half)));
        let few: Vec<(usize, usize)> = places.take(RARE as usize + 1).collect();
        let is_few = (1..=RARE as usize).contains(&few.len());
        is_few.then(|| few[run as usize % few.len()])
    }
}

impl Change {
    /// `turn`: the half that changes in any case.
    pub fn apply(self, bytes: &[u8], dtype: DType, turn: Option<usize>) -> Vec<u8> {
        match self {
            Change::Unchanged => bytes.to_vec(),
            Change::Scaled(factor) => {
                let mut values = element::widen(bytes, dtype);
                values.par_iter_mut().with_min_len(CHUNK).for_each(|value| *value *= factor);
                element::narrow(&values, dtype)
            }
            Change::Jiggled { seed, low, high } => {
                let changed = match is_half(dtype) {
                    true => nudge_halves(bytes, seed, turn),
                    // A zero stays what it is: its last bits are subnormal numbers.
                    false => drawn_anew(bytes, dtype, seed, |dice, element| {
                        if element.iter().any(|byte| *byte != 0) {
                            element[0] ^= (dice >> 28) as u8;
                        }
                    }),
                };
                if low.is_finite() { within(low, high, dtype, bytes, changed) } else { changed }
            }
            Change::Nudged(seed) if is_half(dtype) => nudge_halves(bytes, seed, turn),
            // The exponent and the sign stay: flipping the lowest bit never leaves the binade.
            Change::Nudged(seed) => {
                drawn_anew(bytes, dtype, seed, |dice, element| element[0] ^= (dice >> 31) as u8)
            }
        }
    }
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::Bf16)
}

/// A half has so few bits that its last one is an error larger than that of any arithmetic, so only one in `RARE`
/// changes.
fn nudge_halves(bytes: &[u8], seed: u64, turn: Option<usize>) -> Vec<u8> {
    let mut out = drawn_anew(bytes, DType::F16, seed, |dice, element| {
        if dice.is_multiple_of(RARE) {
            element[0] ^= (dice >> 31) as u8 | 1;
        }
    });
    if let Some(half) = turn {
        out[2 * half] = bytes[2 * half] ^ 1;
    }
    out
}

/// Every chunk draws from a stream of its own, so that what comes out does not depend on the number of threads.
fn drawn_anew(bytes: &[u8], dtype: DType, seed: u64, change: impl Fn(u32, &mut [u8]) + Sync) -> Vec<u8> {
    let size = dtype.bytes() as usize;
    let mut out = bytes.to_vec();
    out.par_chunks_mut(CHUNK * size).enumerate().for_each(|(chunk, out)| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(chunk as u64);
        out.chunks_exact_mut(size).for_each(|element| change(random.next_u32(), element));
    });
    out
}

/// The changed values where they stay in the range, and the others as they were.
fn within(low: f64, high: f64, dtype: DType, bytes: &[u8], mut changed: Vec<u8>) -> Vec<u8> {
    let size = dtype.bytes() as usize;
    for (index, value) in element::widen(&changed, dtype).iter().enumerate() {
        if !(low..high).contains(value) {
            let at = index * size..(index + 1) * size;
            changed[at.clone()].copy_from_slice(&bytes[at]);
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use evo_protocol::plan::Role;

    use super::*;
    use crate::judge::reference::testing::{buffer, plan};

    #[test]
    fn each_of_a_few_halves_has_its_turn_and_one_beside_many_has_not() {
        let changed = |counts: [u64; 2]| -> [usize; 2] {
            let lists = [0, 1].map(|at| buffer(["a", "x"][at], DType::F16, &[counts[at]], Role::Input));
            let (plan, bytes) =
                (plan("p", &[], lists.into()), counts.map(|count| vec![0x11; 2 * count as usize]));
            let runs = (0..6).map(|run| RunInputs::Nudged(run).of(&plan, &bytes));
            let differs = |at: usize| runs.clone().filter(|lists| lists[at] != bytes[at]).count();
            [differs(0), differs(1)]
        };
        assert_eq!(changed([1, 2]), [2, 4]);
        assert_eq!(changed([0, 1]), [0, 6]);
        assert_eq!(changed([1, 9000]), [0, 6]);
    }

    #[test]
    fn bits_drawn_in_chunks_are_those_of_their_place() {
        let bytes = vec![0x11u8; 4 * (2 * CHUNK + 5)];
        let nudge = |bytes: &[u8]| Change::Nudged(7).apply(bytes, DType::F32, None);
        let all = nudge(&bytes);
        assert_eq!(nudge(&bytes[..4 * CHUNK]), all[..4 * CHUNK]);
        assert_eq!(nudge(&bytes[..4 * CHUNK + 12]), all[..4 * CHUNK + 12]);
        assert_ne!(all[..4 * CHUNK], all[4 * CHUNK..8 * CHUNK], "each chunk has its own");
    }
}
