//! What a reference kernel's own error is, seen from outside.
//!
//! A user's reference computes in its own precision, and in one order of many. How far its answer is from the
//! exact one cannot be read off the answer. So it runs again on inputs that differ in the last bit, at random:
//! that draws all its rounding errors anew, and the distance between both answers shows how large they are,
//! together with what the inputs' own rounding means for the answer (a sum that cancels, a badly conditioned
//! case). This error is the reference's and the case's, so it is not charged to a variant.
//!
//! Equal or sorted terms round the same way again and again, and the last bits of the inputs change nothing about
//! that. There the reference also runs on inputs scaled by 1 + h, 1 + 2h, …: of a smooth function the second
//! differences are of the order h², so whatever is left beyond that is the reference's own rounding.

use std::ops::Range;

use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, Fill, ProblemPlan};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

use super::bounds::{FEW, SHARE_MAX};
use super::element;
use super::inputs::{self, Family};
use super::naive::{AskedCase, NaiveAnswers};
use super::reference::{Noise, ReferenceAnswer, finite_sums, rms};

const CHUNK: usize = 1 << 16;
/// Runs on changed inputs: few outputs make one difference a matter of luck.
const RUNS_FEW: u32 = 4;
const RUNS: u32 = 1;
/// And more of them where some elements are far less certain than the others: one run may meet such an element by luck.
pub const RUNS_AGAIN: Range<u32> = RUNS_FEW..RUNS_FEW + 6;
/// And for integers, which jump or do not: of two candidates either may win twice in a row.
pub const RUNS_WHOLE: u32 = 6;
/// No more than this share of integers is ever put down to rounding.
pub const JUMPS_MAX: f64 = 0.05;
/// With fewer outputs the least certain one counts like the others.
const TINY: usize = 32;
/// Errors are independent between the reference and a variant, and a variant may take a worse order.
const FACTOR: f64 = 3.0;
/// The same for inputs other than plain ones, of which many are badly conditioned: a running mean of rows that lie far
/// from zero has six times the error of a sum.
const FACTOR_STRESS: f64 = 6.0;
/// The step h: its square is far below what f32 tolerances allow, and it changes all low bits.
const STEP: f64 = 1.0 / 512.0;
/// Scaled runs; the largest of their second differences counts, because any one of them may be small by chance.
const STEPS: u32 = 5;
/// From this share on an answer is mostly noise.
const NOISE_SHARE: f64 = 0.05;
/// Bytes of a run up to which several are asked for at once: above, a run takes much longer than a message.
const TOGETHER_BYTES: usize = 1 << 16;

pub fn estimate_noise(case: &mut AskedCase<'_>, answers: &mut [ReferenceAnswer]) -> Result<(), DeviceError> {
    count_jumps(case, answers)?;
    let (plan, family) = (case.plan, case.family);
    let float = |answer: &&mut ReferenceAnswer| plan.buffers[answer.buffer].dtype.is_float();
    let smallest = answers.iter_mut().filter(float).map(|answer| answer.expected.len()).min();
    let Some(smallest) = smallest else { return Ok(()) };
    case.each_answer(nudged_runs(smallest), nudged, |answered| {
        for (buffer, values) in answered {
            if let Some(answer) = answers.iter_mut().filter(float).find(|own| own.buffer == buffer) {
                let distances = distances(&answer.expected, &values);
                widen(&mut answer.distances, &distances);
                add(answer, family, &finite(distances));
            }
        }
    })?;
    if rounds_alike(family) && answers.iter().all(|own| own.single.is_none()) {
        add_second_differences(case, answers)?;
    }
    Ok(())
}

/// The runs on changed inputs where the smallest answer has so many elements.
pub fn nudged_runs(smallest: usize) -> Range<u32> {
    0..if smallest < FEW { RUNS_FEW } else { RUNS }
}

/// Whether second differences say more. Of a reference in two precisions they do not: what it rounds away in double
/// precision is nothing to a kernel, and `single_precision` shows the rest.
pub fn rounds_alike(family: Family) -> bool {
    matches!(family, Family::Constant | Family::Ramp | Family::Mixed)
}

pub fn scales() -> impl Iterator<Item = f64> {
    (1..=STEPS).map(|step| 1.0 + f64::from(step) * STEP)
}

pub fn nudge_seed(run: u32, position: usize) -> u64 {
    u64::from(run) << 32 | position as u64
}

impl AskedCase<'_> {
    /// The answers to changed inputs, in order.
    fn each_answer<R>(
        &mut self,
        runs: impl Iterator<Item = R>,
        change: impl Fn(&ProblemPlan, &[Vec<u8>], R) -> Vec<Vec<u8>>,
        mut take: impl FnMut(NaiveAnswers),
    ) -> Result<(), DeviceError> {
        let inputs = runs.map(|run| change(self.plan, self.bytes, run));
        let bytes: usize = self.bytes.iter().map(Vec::len).sum();
        if bytes <= TOGETHER_BYTES {
            self.naive.answers_each(&inputs.collect::<Vec<_>>())?.into_iter().for_each(take);
            return Ok(());
        }
        for own in inputs {
            take(self.naive.answers(&own)?);
        }
        Ok(())
    }
}

pub fn nudged(plan: &ProblemPlan, bytes: &[Vec<u8>], run: u32) -> Vec<Vec<u8>> {
    changed(plan, bytes, is_free, |position, buffer, bytes| {
        nudge(bytes, buffer.dtype, nudge_seed(run, position))
    })
}

pub fn scaled(plan: &ProblemPlan, bytes: &[Vec<u8>], factor: f64) -> Vec<Vec<u8>> {
    changed(plan, bytes, is_free, |_, buffer, bytes| {
        let mut values = element::widen(bytes, buffer.dtype);
        values.par_iter_mut().with_min_len(CHUNK).for_each(|value| *value *= factor);
        element::narrow(&values, buffer.dtype)
    })
}

pub fn nudge_again(case: &mut AskedCase<'_>, answers: &mut [ReferenceAnswer]) -> Result<(), DeviceError> {
    case.each_answer(RUNS_AGAIN, nudged, |answered| {
        for (buffer, values) in answered {
            for answer in answers.iter_mut().filter(|own| own.buffer == buffer) {
                widen(&mut answer.distances, &distances(&answer.expected, &values));
            }
        }
    })
}

pub fn distances(left: &[f64], right: &[f64]) -> Vec<f64> {
    let pairs = left.par_iter().with_min_len(CHUNK).zip(right);
    pairs.map(|(left, right)| (left - right).abs()).collect()
}

pub fn finite(values: Vec<f64>) -> Vec<f64> {
    match values.par_iter().with_min_len(CHUNK).all(|value| value.is_finite()) {
        true => values,
        false => values.into_iter().filter(|value| value.is_finite()).collect(),
    }
}

/// Elementwise the larger of two lists, the first of which may be missing yet.
pub fn widen(largest: &mut Vec<f64>, more: &[f64]) {
    if largest.is_empty() {
        *largest = more.to_vec();
        return;
    }
    let pairs = largest.par_iter_mut().with_min_len(CHUNK).zip(more);
    pairs.for_each(|(largest, more)| *largest = largest.max(*more));
}

fn add_second_differences(
    case: &mut AskedCase<'_>,
    answers: &mut [ReferenceAnswer],
) -> Result<(), DeviceError> {
    let mut runs = Vec::new();
    case.each_answer(scales(), scaled, |own| runs.push(own))?;
    for answer in answers.iter_mut().filter(|own| case.plan.buffers[own.buffer].dtype.is_float()) {
        let of = |run: &Vec<(usize, Vec<f64>)>| {
            run.iter().find(|own| own.0 == answer.buffer).map(|own| own.1.clone())
        };
        let scaled: Vec<Vec<f64>> = runs.iter().filter_map(of).collect();
        let largest = largest_bend(&answer.expected, &scaled);
        add(answer, case.family, &finite(largest));
    }
    Ok(())
}

/// The largest second difference of each element over an answer and those of scaled runs.
pub fn largest_bend(expected: &Vec<f64>, scaled: &[Vec<f64>]) -> Vec<f64> {
    let all: Vec<&Vec<f64>> = std::iter::once(expected).chain(scaled).collect();
    let at = |list: &Vec<f64>, index: usize| list.get(index).copied().unwrap_or(0.0);
    let largest_at = |index: usize| {
        let differences = all.windows(3).map(|three| {
            let [first, second, third] = [0, 1, 2].map(|place| at(three[place], index));
            (first - 2.0 * second + third).abs()
        });
        differences.fold(0.0, f64::max)
    };
    (0..expected.len()).into_par_iter().with_min_len(CHUNK).map(largest_at).collect()
}

/// Integers that follow from a comparison which rounding decides: the nearest of two centers at one distance, the bin
/// of a value at its border. They change when all inputs change in their last bits.
fn count_jumps(case: &mut AskedCase<'_>, answers: &mut [ReferenceAnswer]) -> Result<(), DeviceError> {
    let plan = case.plan;
    let whole = |answer: &ReferenceAnswer| !plan.buffers[answer.buffer].dtype.is_float();
    let real = |buffer: &BufferPlan| buffer.dtype.is_float() && inputs::varies(buffer);
    if !answers.iter().any(whole) || !plan.buffers.iter().any(real) {
        return Ok(());
    }
    let mut jumped: Vec<Vec<bool>> = answers.iter().map(|own| vec![false; own.expected.len()]).collect();
    case.each_answer(0..RUNS_WHOLE, jiggled, |answered| {
        for (buffer, values) in answered {
            for (answer, jumped) in answers.iter().zip(&mut jumped).filter(|(own, _)| own.buffer == buffer) {
                for ((own, other), jumped) in answer.expected.iter().zip(&values).zip(jumped) {
                    *jumped |= own != other;
                }
            }
        }
    })?;
    for (answer, jumped) in answers.iter_mut().zip(jumped).filter(|(own, _)| whole(own)) {
        let count = jumped.into_iter().filter(|own| *own).count() as u64;
        note_jumps(answer, count, answer.expected.len());
    }
    Ok(())
}

/// The inputs whose last four bits are drawn anew.
pub fn jiggled(plan: &ProblemPlan, bytes: &[Vec<u8>], run: u32) -> Vec<Vec<u8>> {
    changed(plan, bytes, inputs::varies, |position, buffer, bytes| {
        within(buffer, bytes, jiggle(bytes, buffer.dtype, nudge_seed(run, position)))
    })
}

pub fn note_jumps(answer: &mut ReferenceAnswer, count: u64, elements: usize) {
    // An answer of which more than a part jumps follows the bits of its inputs, a hash for example.
    // Of a few one may jump all the same.
    let many = count as f64 > (JUMPS_MAX * elements as f64).max(1.0);
    answer.jumps = if many { 0 } else { count };
    answer.follows_bits = many;
}

/// The values of the second list where they stay in the range that the file declares, and the first elsewhere.
fn within(buffer: &BufferPlan, bytes: &[u8], mut changed: Vec<u8>) -> Vec<u8> {
    let Fill::Uniform { low, high, .. } = buffer.fill else { return changed };
    let size = buffer.dtype.bytes() as usize;
    let values = element::widen(&changed, buffer.dtype);
    for (index, value) in values.iter().enumerate() {
        if !(low..high).contains(value) {
            let at = index * size..(index + 1) * size;
            changed[at.clone()].copy_from_slice(&bytes[at]);
        }
    }
    changed
}

pub fn is_free(buffer: &BufferPlan) -> bool {
    matches!(buffer.fill, Fill::Unrestricted | Fill::Normal { .. })
}

/// Only what a kernel reads as floating-point numbers; an index stays an index.
fn changed(
    plan: &ProblemPlan,
    bytes: &[Vec<u8>],
    chosen: fn(&BufferPlan) -> bool,
    change: impl Fn(usize, &BufferPlan, &[u8]) -> Vec<u8>,
) -> Vec<Vec<u8>> {
    let one = |(position, (buffer, bytes)): (usize, (&BufferPlan, &Vec<u8>))| {
        let read = buffer.role.is_read();
        match chosen(buffer) && read && buffer.dtype.is_float() {
            true => change(position, buffer, bytes),
            false => bytes.clone(),
        }
    };
    plan.buffers.iter().zip(bytes).enumerate().map(one).collect()
}

pub fn add(answer: &mut ReferenceAnswer, family: Family, distances: &[f64]) {
    if !distances.is_empty() {
        let usual = usual_size(distances, usual_place(distances.len(), family));
        answer.noise.widen(answer.expected.len(), rms(&answer.expected), family, usual);
    }
}

impl Noise {
    pub fn widen(&mut self, elements: usize, answer_rms: f64, family: Family, usual: UsualSize) {
        let factor = if family == Family::Normal { FACTOR } else { FACTOR_STRESS };
        // What other families ask is left out where the answer is mostly noise, so nothing has to be capped there. And a
        // single sum may cancel to less than its error, so few outputs have no such limit.
        let capped = family == Family::Normal && elements >= FEW;
        let most = if capped { SHARE_MAX * answer_rms } else { f64::INFINITY };
        self.rms = self.rms.max((factor * usual.rms).min(most));
        self.max = self.max.max((2.0 * factor * usual.limit).min(most));
        // The size of a few errors says little about the next few.
        if elements < FEW {
            self.rms = self.rms.max(self.max);
        }
    }

    /// Whether so much of an answer of this root mean square is rounding that it tells nothing about a kernel.
    pub fn is_most_of(&self, answer_rms: f64, dtype: DType) -> bool {
        // The last bit of a zero is a subnormal number, which is not noise to speak of.
        let normal = element::precision(dtype).map_or(0.0, |own| own.smallest / (2.0 * own.unit));
        self.rms > NOISE_SHARE * answer_rms + normal
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsualSize {
    /// The largest that counts.
    pub limit: f64,
    /// Root mean square of it and the smaller ones.
    pub rms: f64,
}

/// The size of finite values up to the one at this place in their order, on all cores.
pub fn usual_size(values: &[f64], place: usize) -> UsualSize {
    let count = values.len() - place;
    let largest_of = |chunk: &[f64]| {
        let mut own = chunk.to_vec();
        let left_out = own.len().saturating_sub(count);
        if left_out > 0 {
            own.select_nth_unstable_by(left_out, f64::total_cmp);
        }
        own.split_off(left_out)
    };
    let parts: Vec<Vec<f64>> = values.par_chunks(CHUNK).map(largest_of).collect();
    let mut largest = parts.concat();
    let at = largest.len() - count;
    let limit = *largest.select_nth_unstable_by(at, f64::total_cmp).1;
    let [square, smaller] =
        finite_sums(values, |value| if value < limit { [value * value, 1.0] } else { [0.0; 2] });
    // Those that equal the limit count as far as the place.
    let counted = (place + 1) as f64;
    UsualSize { limit, rms: ((square + (counted - smaller) * limit * limit) / counted).sqrt() }
}

/// The one element in a thousand that jumps says nothing about the others. Of few elements none is left out, because
/// each may be a sum that cancels; but of a plain answer that is not tiny one is, since a reference that jumps must
/// not open the gate for everything else.
pub fn usual_place(count: usize, family: Family) -> usize {
    let thousandths = (count - 1) * 999;
    match family {
        Family::Normal if count >= TINY => thousandths / 1000,
        _ => thousandths.div_ceil(1000),
    }
}

pub fn is_mostly_noise(answer: &ReferenceAnswer, dtype: DType) -> bool {
    answer.noise.is_most_of(rms(&answer.expected), dtype)
}

/// A half has so few bits that its last one is an error larger than that of any arithmetic, so only one in 256
/// changes.
fn nudge(bytes: &[u8], dtype: DType, seed: u64) -> Vec<u8> {
    let rare = matches!(dtype, DType::F16 | DType::Bf16);
    if !dtype.is_float() {
        return bytes.to_vec();
    }
    drawn_anew(bytes, dtype, seed, |random, element| {
        let dice = random.next_u32();
        // The exponent and the sign stay: flipping the lowest bit never leaves the binade.
        if !rare || dice.is_multiple_of(256) {
            element[0] ^= (dice >> 31) as u8 | u8::from(rare);
        }
    })
}

/// Every chunk draws from a stream of its own, so that what comes out does not depend on the number of threads.
fn drawn_anew(
    bytes: &[u8],
    dtype: DType,
    seed: u64,
    change: impl Fn(&mut ChaCha8Rng, &mut [u8]) + Sync,
) -> Vec<u8> {
    let size = dtype.bytes() as usize;
    let mut out = bytes.to_vec();
    out.par_chunks_mut(CHUNK * size).enumerate().for_each(|(chunk, out)| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(chunk as u64);
        out.chunks_exact_mut(size).for_each(|element| change(&mut random, element));
    });
    out
}

/// The error of a few operations in f32. Halves change as `nudge` does.
fn jiggle(bytes: &[u8], dtype: DType, seed: u64) -> Vec<u8> {
    if !matches!(dtype, DType::F32 | DType::F64) {
        return nudge(bytes, dtype, seed);
    }
    drawn_anew(bytes, dtype, seed, |random, element| {
        let dice = random.next_u32();
        // A zero stays what it is: its last bits are subnormal numbers.
        if element.iter().any(|byte| *byte != 0) {
            element[0] ^= (dice >> 28) as u8;
        }
    })
}

#[cfg(test)]
mod tests {
    use evo_protocol::plan::Role;

    use super::*;
    use crate::judge::naive::NaiveReference;
    use crate::judge::reference::testing::{buffer, plan};

    #[test]
    fn the_usual_size_of_many_values_is_that_of_all_in_order() {
        let check = |values: &[f64], place: usize| {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            let seen = usual_size(values, place);
            let plain = rms(&sorted[..=place]);
            assert_eq!(seen.limit, sorted[place], "{} {place}", values.len());
            assert!((seen.rms - plain).abs() <= 1e-12 * plain, "{seen:?} {plain}");
        };
        // More than a chunk, with the largest together in one of them, and values that occur often.
        let many: Vec<f64> = (0..3 * CHUNK + 17)
            .map(
                |at| if at % CHUNK < 900 && at > CHUNK { 1e3 + at as f64 } else { (at * 7919 % 1009) as f64 },
            )
            .collect();
        for place in [0, 1, many.len() / 2, many.len() * 999 / 1000, many.len() - 1] {
            check(&many, place);
        }
        check(&[3.0], 0);
        check(&[2.0, 2.0, 2.0, 1.0], 2);
    }

    #[test]
    fn bits_drawn_in_chunks_are_those_of_their_place() {
        let bytes = vec![0x11u8; 4 * (2 * CHUNK + 5)];
        let all = nudge(&bytes, DType::F32, 7);
        assert_eq!(nudge(&bytes[..4 * CHUNK], DType::F32, 7), all[..4 * CHUNK]);
        assert_eq!(nudge(&bytes[..4 * CHUNK + 12], DType::F32, 7), all[..4 * CHUNK + 12]);
        assert_ne!(all[..4 * CHUNK], all[4 * CHUNK..8 * CHUNK], "each chunk has its own");
    }

    fn noise(
        plan: &ProblemPlan,
        bytes: &[Vec<u8>],
        family: Family,
        answers: &mut [ReferenceAnswer],
        naive: &mut dyn NaiveReference,
    ) -> Result<(), DeviceError> {
        estimate_noise(&mut AskedCase { plan, family, bytes, naive }, answers)
    }

    fn chain(bytes: &[Vec<u8>]) -> f64 {
        let values = element::widen(&bytes[0], DType::F32);
        f64::from(values.iter().fold(0.0f32, |sum, value| sum + *value as f32))
    }

    /// Of two sums one has huge values that cancel: whatever is left of the rest is a matter of order.
    #[test]
    fn one_of_two_sums_that_cancels_makes_the_case_noise() {
        let buffers =
            vec![buffer("x", DType::F32, &[65], Role::Input), buffer("y", DType::F32, &[2], Role::Output)];
        let mut own = plan("p", &[], buffers);
        own.buffers[0].fill = Fill::Unrestricted;
        let mut values: Vec<f64> = (0..65).map(|at| f64::from(at % 7) - 3.0).collect();
        (values[9], values[40]) = (1e30, -1e30);
        let bytes = vec![element::narrow(&values, DType::F32), Vec::new()];
        let sums = |bytes: &[Vec<u8>]| {
            let values = element::widen(&bytes[0], DType::F32);
            vec![values[..64].iter().sum::<f64>(), values[64]]
        };
        let mut answers =
            [ReferenceAnswer { buffer: 1, expected: sums(&bytes), ..ReferenceAnswer::default() }];
        let mut naive = |bytes: &[Vec<u8>]| Ok(vec![(1, sums(bytes))]);
        noise(&own, &bytes, Family::Huge, &mut answers, &mut naive).unwrap();
        assert!(is_mostly_noise(&answers[0], DType::F32), "{:?}", answers[0].noise);
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
        noise(&own, &bytes, Family::Normal, &mut answers, &mut naive).unwrap();
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
        let bytes = [vec![0; 4 * 4096], Vec::new()];
        noise(&own, &bytes, Family::Normal, &mut answers, &mut naive).unwrap();
        assert!(answers[0].noise.max <= 0.01, "{:?}", answers[0].noise);
    }

    /// Which of two numbers is larger, where one pair in 64 is nearly equal.
    #[test]
    fn integers_that_rounding_decides_are_counted_and_hashes_are_not() {
        let count = 1024;
        let x = BufferPlan { fill: Fill::Unrestricted, ..buffer("x", DType::F32, &[count, 2], Role::Input) };
        let own = plan("p", &[], vec![x, buffer("y", DType::I32, &[count], Role::Output)]);
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let mut drawn = || f64::from(random.next_u32()) / 2f64.powi(31) + 0.5;
        let pairs = (0..count).flat_map(|index| {
            let first = drawn();
            [first, if index % 64 == 0 { first } else { drawn() }]
        });
        let bytes = vec![element::narrow(&pairs.collect::<Vec<_>>(), DType::F32), Vec::new()];
        let jumps = |kernel: fn(&[f64]) -> f64| {
            let run = |bytes: &[Vec<u8>]| -> Vec<f64> {
                element::widen(&bytes[0], DType::F32).chunks(2).map(kernel).collect()
            };
            let expected = run(&bytes);
            let mut answers =
                [ReferenceAnswer { buffer: 1, expected, exact: true, ..ReferenceAnswer::default() }];
            let mut naive = |bytes: &[Vec<u8>]| Ok(vec![(1, run(bytes))]);
            noise(&own, &bytes, Family::Normal, &mut answers, &mut naive).unwrap();
            answers[0].jumps
        };
        let larger = jumps(|pair| f64::from(u8::from(pair[1] > pair[0])));
        assert!((12..=17).contains(&larger), "{larger}");
        assert_eq!(jumps(|pair| f64::from((pair[0] as f32).to_bits() % 1024)), 0);
    }

    fn noise_of(family: Family, values: &[f64], kernel: impl Fn(&[f32]) -> Vec<f32>) -> ReferenceAnswer {
        let count = values.len() as u64;
        let buffers = vec![
            buffer("x", DType::F32, &[count], Role::Input),
            buffer("y", DType::F32, &[count], Role::Output),
        ];
        let mut own = plan("p", &[], buffers);
        own.buffers[0].fill = Fill::Unrestricted;
        let run = |bytes: &[Vec<u8>]| {
            let values: Vec<f32> =
                element::widen(&bytes[0], DType::F32).into_iter().map(|own| own as f32).collect();
            kernel(&values).into_iter().map(f64::from).collect::<Vec<_>>()
        };
        let bytes = vec![element::narrow(values, DType::F32), Vec::new()];
        let mut answers =
            [ReferenceAnswer { buffer: 1, expected: run(&bytes), ..ReferenceAnswer::default() }];
        let mut naive = |bytes: &[Vec<u8>]| Ok(vec![(1, run(bytes))]);
        noise(&own, &bytes, family, &mut answers, &mut naive).unwrap();
        let [answer] = answers;
        answer
    }

    #[test]
    fn a_sum_of_equal_terms_is_known_to_be_biased() {
        let sum = |values: &[f32]| vec![values.iter().fold(0.0f32, |sum, value| sum + value)];
        for value in [0.64f64, 0.31, 1.7] {
            let answer = noise_of(Family::Constant, &vec![value; 1 << 20], sum);
            let error = (answer.expected[0] - f64::from(value as f32) * f64::from(1 << 20)).abs();
            assert!(answer.noise.max > error, "{value}: {} beside {error}", answer.noise.max);
        }
    }

    #[test]
    fn differences_of_equal_values_are_no_question_and_zeros_are_one() {
        let centered = |values: &[f32]| {
            let mean = values.iter().sum::<f32>() / values.len() as f32;
            values.iter().map(|value| (value - mean) * 316.0).collect()
        };
        assert!(is_mostly_noise(&noise_of(Family::Constant, &[3.7; 131], centered), DType::F32));
        assert!(!is_mostly_noise(&noise_of(Family::Zero, &[0.0; 131], centered), DType::F32));
        let ramp: Vec<f64> = (0..131).map(f64::from).collect();
        assert!(!is_mostly_noise(&noise_of(Family::Ramp, &ramp, centered), DType::F32));
    }

    #[test]
    fn of_two_sums_the_one_that_cancels_is_no_question() {
        let sums = |values: &[f32]| {
            values.chunks(128).map(|own| own.iter().fold(0.0f32, |sum, value| sum + value)).collect()
        };
        let mut values: Vec<f64> = (0..256).map(|at| f64::from(at % 7) - 3.0).collect();
        (values[5], values[90], values[200]) = (1e30, -1e30, 1e30);
        let answer = noise_of(Family::Huge, &values, sums);
        assert!(answer.expected[0].abs() < 1e3 && answer.noise.max > 1e20, "{answer:?}");
        assert!(!is_mostly_noise(&answer, DType::F32), "the other sum is a question");
    }
}
