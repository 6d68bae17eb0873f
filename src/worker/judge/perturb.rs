//! What a reference kernel's own error is, seen from outside.
//!
//! A user's reference computes in its own precision, and in one order of many. How far its answer is from the
//! exact one cannot be read off the answer. So it runs again on inputs that differ in the last bit, at random:
//! that draws all its rounding errors anew, and the distance between both answers shows how large they are,
//! together with what the inputs' own rounding means for the answer (a sum that cancels, a badly conditioned
//! case). This error is the reference's and the case's, so it is not charged to a variant.

use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{Fill, ProblemPlan, Role};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::reference::{ReferenceAnswer, rms};

/// Runs the user's naive kernel on these inputs (by buffer position): outputs by buffer position.
pub type NaiveKernel<'a> = dyn FnMut(&[Vec<u8>]) -> Result<Vec<(usize, Vec<f64>)>, DeviceError> + 'a;

/// Runs on changed inputs: few outputs make one difference a matter of luck.
const RUNS_FEW: u32 = 4;
const RUNS: u32 = 1;
const FEW: usize = 1024;
/// Errors are independent between the reference and a variant, and a variant may take a worse order.
const FACTOR: f64 = 3.0;
/// No more than this share of the answer is ever put down to rounding: a reference that jumps (a comparison, an
/// argmax) must not open the gate.
const SHARE_MAX: f64 = 0.01;

/// Fills in the noise of floating-point answers.
pub fn estimate_noise(
    plan: &ProblemPlan,
    bytes: &[Vec<u8>],
    answers: &mut [ReferenceAnswer],
    naive: &mut NaiveKernel<'_>,
) -> Result<(), DeviceError> {
    let float = |answer: &&mut ReferenceAnswer| plan.buffers[answer.buffer].dtype.is_float();
    let smallest = answers.iter_mut().filter(float).map(|answer| answer.expected.len()).min();
    let Some(smallest) = smallest else { return Ok(()) };
    for run in 0..if smallest < FEW { RUNS_FEW } else { RUNS } {
        let nudged: Vec<Vec<u8>> = (plan.buffers.iter().zip(bytes).enumerate())
            .map(|(position, (buffer, bytes))| {
                // A declared range, a constant or a file is meant as it is: an index must stay an index.
                let free = matches!(buffer.fill, Fill::Unrestricted | Fill::Normal { .. });
                let read = matches!(buffer.role, Role::Input | Role::Inout);
                let seed = u64::from(run) << 32 | position as u64;
                if free && read { nudge(bytes, buffer.dtype, seed) } else { bytes.clone() }
            })
            .collect();
        for (buffer, values) in naive(&nudged)? {
            if let Some(answer) = answers.iter_mut().filter(float).find(|own| own.buffer == buffer) {
                add(answer, &values);
            }
        }
    }
    Ok(())
}

/// Widens an answer's noise by its distance from another run.
fn add(answer: &mut ReferenceAnswer, other: &[f64]) {
    let pairs = answer.expected.iter().zip(other).map(|(own, other)| (own - other).abs());
    let mut distances: Vec<f64> = pairs.filter(|distance| distance.is_finite()).collect();
    if distances.is_empty() {
        return;
    }
    // The one element in a thousand that jumps says nothing about the others.
    let place = (distances.len() - 1) * 999 / 1000;
    let (below, limit, _) = distances.select_nth_unstable_by(place, f64::total_cmp);
    let limit = *limit;
    let mut usual = below.to_vec();
    usual.push(limit);
    let finite: Vec<f64> = answer.expected.iter().copied().filter(|value| value.is_finite()).collect();
    // A single sum may cancel to less than its error, so few outputs have no such limit.
    let most = if answer.expected.len() < FEW { f64::INFINITY } else { SHARE_MAX * rms(&finite) };
    answer.noise.rms = answer.noise.rms.max((FACTOR * rms(&usual)).min(most));
    answer.noise.max = answer.noise.max.max((2.0 * FACTOR * limit).min(most));
}

/// The values with their last bit changed, up or down. A half has so few bits that its last one is an error
/// larger than that of any arithmetic, so only one in 256 changes.
fn nudge(bytes: &[u8], dtype: DType, seed: u64) -> Vec<u8> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut out = bytes.to_vec();
    let rare = matches!(dtype, DType::F16 | DType::Bf16);
    if !dtype.is_float() {
        return out;
    }
    for element in out.chunks_exact_mut(dtype.bytes() as usize) {
        let dice = random.next_u32();
        // The exponent and the sign stay: flipping the lowest bit never leaves the binade.
        if !rare || dice.is_multiple_of(256) {
            element[0] ^= (dice >> 31) as u8 | u8::from(rare);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::judge::element;
    use crate::worker::judge::reference::testing::{buffer, plan};

    /// Sums in f32, one after the other, as a naive kernel does.
    fn chain(bytes: &[Vec<u8>]) -> f64 {
        let values = element::widen(&bytes[0], DType::F32);
        f64::from(values.iter().fold(0.0f32, |sum, value| sum + *value as f32))
    }

    #[test]
    fn the_error_of_a_long_chain_is_found_without_knowing_the_kernel() {
        let count = 1 << 20;
        let buffers =
            vec![buffer("x", DType::F32, &[count], Role::Input), buffer("y", DType::F32, &[1], Role::Output)];
        let mut own = plan("p", &[], buffers);
        own.buffers[0].fill = Fill::Unrestricted;
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let values: Vec<f64> =
            (0..count).map(|_| f64::from(random.next_u32()) / 2f64.powi(31) - 1.0).collect();
        let bytes = vec![element::narrow(&values, DType::F32), Vec::new()];
        let exact: f64 = element::widen(&bytes[0], DType::F32).iter().sum();
        let expected = vec![chain(&bytes)];
        let error = (expected[0] - exact).abs();
        let mut answers = [ReferenceAnswer { buffer: 1, expected, ..ReferenceAnswer::default() }];
        let mut naive = |bytes: &[Vec<u8>]| Ok(vec![(1, vec![chain(bytes)])]);
        estimate_noise(&own, &bytes, &mut answers, &mut naive).unwrap();
        let noise = answers[0].noise.max;
        assert!(noise > error && noise < 1e4 * error, "{noise} beside {error}");
    }

    #[test]
    fn a_reference_that_jumps_does_not_open_the_gate() {
        let buffers = vec![
            buffer("x", DType::F32, &[4096], Role::Input),
            buffer("y", DType::F32, &[4096], Role::Output),
        ];
        let own = plan("p", &[], buffers);
        let mut answers =
            [ReferenceAnswer { buffer: 1, expected: vec![1.0; 4096], ..ReferenceAnswer::default() }];
        let mut naive = |_: &[Vec<u8>]| Ok(vec![(1, vec![-1.0; 4096])]);
        estimate_noise(&own, &[vec![0; 4 * 4096], Vec::new()], &mut answers, &mut naive).unwrap();
        assert!(answers[0].noise.max <= 0.01, "{:?}", answers[0].noise);
    }
}
