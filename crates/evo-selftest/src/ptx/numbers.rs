//! Instructions on one number a lane: powers of two, rounding to two halves, sums and maxima over lanes.

use half::{bf16, f16};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::probe::{Probe, floats, words};

const BLOCKS: usize = 32;

/// The relative error that `ex2.approx` may have (PTX ISA, "ex2"), and half a unit of the last place for a rounded one.
const EX2_ERROR: f64 = 1.0 / (1 << 22) as f64 + 1.0 / (1 << 24) as f64;

/// Numbers at which something changes.
const EDGES: &str =
    "0 -0 1 -1 0.5 127 127.99999 128 1e38 -126 -126.5 -127 -149 -150.5 -1e38 inf -inf nan 1e-40 -1e-40";

fn inputs(numbers: &mut ChaCha8Rng, mut draw: impl FnMut(&mut ChaCha8Rng) -> f32) -> Vec<f32> {
    let mut all: Vec<f32> = EDGES.split(' ').filter_map(|edge| edge.parse().ok()).collect();
    all.resize_with(BLOCKS * 64, || draw(numbers));
    all
}

/// `ex2.approx`, with and without flushing subnormal numbers.
pub fn exponentials(probe: &mut Probe<'_>) -> Result<String, String> {
    let mut input = inputs(&mut probe.numbers, |numbers| numbers.random_range(-150.0..150.0));
    input.truncate(BLOCKS * 32);
    let bytes = input.len() * 4;
    let out = probe.run([BLOCKS, 32], &[&input], &[bytes, bytes])?;
    let mut worst = 0f64;
    for (flushed, answers) in [(false, floats(&out[0])), (true, floats(&out[1]))] {
        for (x, answer) in input.iter().zip(answers) {
            let share = power_error(*x, answer, flushed)
                .map_err(|exact| format!("2^{x} is {answer:e}, not {exact:e} (flushed: {flushed})"))?;
            worst = worst.max(share);
        }
    }
    Ok(format!("{} powers, {worst:.2} of the bound", 2 * input.len()))
}

/// The error's share of its bound, or the exact power.
fn power_error(x: f32, answer: f32, flushed: bool) -> Result<f64, f64> {
    let exact = f64::from(x).exp2();
    let (answer, least) = (f64::from(answer), f64::from(f32::MIN_POSITIVE));
    let same = |right: bool| if right { Ok(0.0) } else { Err(exact) };
    if exact.is_nan() {
        return same(answer.is_nan());
    }
    if exact >= 2f64.powi(128) {
        return same(answer == f64::INFINITY);
    }
    // Where the result is flushed or not may depend on its last bit.
    let limit = least * (1.0 + EX2_ERROR);
    if flushed && exact < limit && answer == 0.0 {
        return Ok(0.0);
    }
    if flushed && exact < least * (1.0 - EX2_ERROR) {
        return Err(0.0);
    }
    let share = (answer - exact).abs() / (exact * EX2_ERROR + 2f64.powi(-149));
    if share <= 1.0 { Ok(share) } else { Err(exact) }
}

/// Two floats in one register.
pub fn packs(probe: &mut Probe<'_>) -> Result<String, String> {
    let input = inputs(&mut probe.numbers, |numbers| {
        let exponent = numbers.random_range(-40..20);
        (numbers.random_range(-1.0..1.0) * 2f64.powi(exponent)) as f32
    });
    let bytes = input.len() * 2;
    let out = probe.run([BLOCKS, 32], &[&input], &[bytes, bytes])?;
    let half = |x: f32| f16::from_f32(x).to_bits();
    let brain = |x: f32| bf16::from_f32(x).to_bits();
    let types: [(&str, &dyn Fn(f32) -> u16); 2] = [("f16", &half), ("bf16", &brain)];
    for ((name, rounded), answers) in types.into_iter().zip(&out) {
        for (pair, word) in input.chunks_exact(2).zip(words(answers)) {
            for (x, found) in pair.iter().zip([word as u16, (word >> 16) as u16]) {
                let is_nan = found & 0x7fff > if name == "f16" { 0x7c00 } else { 0x7f80 };
                if if x.is_nan() { !is_nan } else { found != rounded(*x) } {
                    return Err(format!("{x:e} in {name} is {found:#x}, not {:#x}", rounded(*x)));
                }
            }
        }
    }
    Ok(format!("{} numbers to the bit", 2 * input.len()))
}

/// Every number of 16 bits as a float.
pub fn unpacks(probe: &mut Probe<'_>) -> Result<String, String> {
    let input: Vec<u16> = (0..=u16::MAX).collect();
    let bytes = input.len() * 4;
    let out = probe.run([input.len() / 64, 32], &[&input], &[bytes, bytes])?;
    for (bits, (found_half, found_brain)) in input.iter().zip(floats(&out[0]).iter().zip(floats(&out[1]))) {
        let pairs =
            [(*found_half, f16::from_bits(*bits).to_f32()), (found_brain, bf16::from_bits(*bits).to_f32())];
        for (found, exact) in pairs {
            let same = found.to_bits() == exact.to_bits() || found.is_nan() && exact.is_nan();
            if !same {
                return Err(format!("{bits:#x} is {found:e}, not {exact:e}"));
            }
        }
    }
    Ok("all numbers of 16 bits of both types".into())
}

/// Sums and maxima over 2 to 32 lanes, of integers, whose sums are exact.
pub fn reductions(probe: &mut Probe<'_>) -> Result<String, String> {
    let input: Vec<f32> =
        (0..BLOCKS * 32).map(|_| probe.numbers.random_range(-10_000..=10_000) as f32).collect();
    let bytes = 5 * input.len() * 4;
    let out = probe.run([BLOCKS, 32], &[&input], &[bytes, bytes])?;
    let (sums, tops) = (floats(&out[0]), floats(&out[1]));
    for at in 0..sums.len() {
        let (lanes, place) = (2usize << (at / input.len()), at % input.len());
        let run = &input[place / lanes * lanes..][..lanes];
        let (sum, top) = (run.iter().sum::<f32>(), run.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        if sums[at] != sum || tops[at] != top {
            return Err(format!("{lanes} lanes: {} and {}, not {sum} and {top}", sums[at], tops[at]));
        }
    }
    Ok("sums and maxima of 2 to 32 lanes".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_judged_by_relative_error_and_flushing() {
        let check = |x: f32, answer: f32, flushed: bool, right: bool| {
            assert_eq!(power_error(x, answer, flushed).is_ok(), right, "2^{x} = {answer:e} {flushed}");
        };
        // Not `powi`, which without optimization answers 1 / 2^130, and 2^130 is infinite.
        let subnormal = 2f32.powi(-100) * 2f32.powi(-30);
        check(3.0, 8.0, false, true);
        check(3.0, 8.000_001, false, true);
        check(3.0, 8.000_004, false, false);
        check(-130.0, subnormal, false, true);
        check(-130.0, 0.0, false, false);
        check(-130.0, 0.0, true, true);
        check(-130.0, subnormal, true, false);
        check(f32::INFINITY, f32::INFINITY, true, true);
        check(f32::NAN, 1.0, true, false);
    }
}
