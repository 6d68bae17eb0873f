//! Instructions of sm_90 that move bits: bulk copies, barriers that count them, memory of other blocks.

use super::operands::DrawnNumbers;
use super::probe::{Probe, floats, words};

/// Blocks of a launch, a case each.
const BLOCKS: usize = 8;

fn first_difference(found: &[u32], expected: impl Fn(usize) -> u32) -> Result<(), String> {
    match found.iter().enumerate().find(|(at, own)| **own != expected(*at)) {
        Some((at, own)) => Err(format!("word {at} is {own:#x}, not {:#x}", expected(at))),
        None => Ok(()),
    }
}

fn drawn(numbers: &mut DrawnNumbers, count: usize) -> Vec<u32> {
    (0..count).map(|_| numbers.below(u32::MAX)).collect()
}

/// A ring of stages that one warp fills and three warps read.
pub fn ring(probe: &mut Probe<'_>, numbers: &mut DrawnNumbers) -> Result<String, String> {
    let input = drawn(numbers, BLOCKS * 11 * 128);
    let out = probe.run("bulk_ring", [BLOCKS, 128], &[&input.as_slice()], &[input.len() * 4])?;
    first_difference(&words(&out[0]), |at| input[at / 128 * 128 + (31 - at / 4 % 32) * 4 + at % 4])?;
    Ok("11 steps of a ring of 3 stages".into())
}

/// Stores of a tile that threads have turned around.
pub fn stores(probe: &mut Probe<'_>, numbers: &mut DrawnNumbers) -> Result<String, String> {
    let input = drawn(numbers, BLOCKS * 256);
    let out = probe.run("bulk_stores", [BLOCKS, 64], &[&input.as_slice()], &[input.len() * 4])?;
    first_difference(&words(&out[0]), |at| input[at / 256 * 256 + (63 - at / 4 % 64) * 4 + at % 4])?;
    Ok(format!("{} words to the bit", input.len()))
}

/// Memory and barriers of the blocks of a cluster.
pub fn clusters(probe: &mut Probe<'_>, size: usize, numbers: &mut DrawnNumbers) -> Result<String, String> {
    let input: Vec<f32> = (0..BLOCKS * 64).map(|_| numbers.normal() as f32).collect();
    probe.cluster = Some([size as u32, 1, 1]);
    let ran = probe.run("clusters", [BLOCKS, 64], &[&input.as_slice()], &[input.len() * 4]);
    probe.cluster = None;
    // What a block gets was written by the one before it, which had read from its own next one.
    for (at, own) in floats(&ran?[0]).into_iter().enumerate() {
        let (block, thread) = (at / 64, at % 64);
        let next = block / size * size + (block % size + 2) % size;
        let expected = 2.0 * input[next * 64 + 63 - thread];
        if own != expected {
            return Err(format!("number {at} is {own}, not {expected}"));
        }
    }
    Ok(format!("clusters of {size}"))
}

/// Registers handed over, and lanes elected.
pub fn registers(probe: &mut Probe<'_>, numbers: &mut DrawnNumbers) -> Result<String, String> {
    let input = drawn(numbers, BLOCKS * 256);
    let entry = "registers_and_elections";
    let out = probe.run(entry, [BLOCKS, 256], &[&input.as_slice()], &[input.len() * 4])?;
    first_difference(&words(&out[0]), |at| input[at].wrapping_add(1))?;
    Ok("two warpgroups".into())
}
