//! Instructions that move bits: `ldmatrix`, `stmatrix`, `cp.async`, and the barriers between warps.

use super::operands::DrawnNumbers;
use super::probe::{AsBytes, Probe, halves, words};

/// Blocks of a launch, a case each.
const BLOCKS: usize = 16;

/// The element of a matrix that register `matrix` of a lane holds in half `part`: its row and column.
fn element(lane: usize, part: usize, transposed: bool) -> (usize, usize) {
    let (g, t) = (lane / 4, lane % 4);
    if transposed { (2 * t + part, g) } else { (g, 2 * t + part) }
}

fn differs(what: &str, at: usize, found: u32, expected: u32) -> String {
    format!("{what} {at} is {found:#x}, not {expected:#x}")
}

/// `ldmatrix` of `count` matrices, whose 32 rows of 8 elements come in order.
pub fn loads(
    probe: &mut Probe<'_>,
    entry: &str,
    (count, transposed): (usize, bool),
    numbers: &mut DrawnNumbers,
) -> Result<String, String> {
    let rows: Vec<u16> = (0..BLOCKS * 256).map(|_| numbers.below(1 << 16) as u16).collect();
    let out = probe.run(entry, [BLOCKS, 32], &[&rows.as_slice()], &[BLOCKS * 32 * 16])?;
    let found = words(&out[0]);
    for at in 0..BLOCKS * 32 * count {
        let (block, lane, matrix) = (at / (32 * count), at / count % 32, at % count);
        let half = |part: usize| {
            let (row, column) = element(lane, part, transposed);
            u32::from(rows[block * 256 + (8 * matrix + row) * 8 + column])
        };
        let (own, expected) = (found[(block * 32 + lane) * 4 + matrix], half(0) | half(1) << 16);
        if own != expected {
            return Err(differs(&format!("lane {lane}, register"), matrix, own, expected));
        }
    }
    Ok(format!("{} registers to the bit", BLOCKS * 32 * count))
}

/// `stmatrix` of `count` matrices; rows that none of them has stay zero.
pub fn stores(
    probe: &mut Probe<'_>,
    entry: &str,
    (count, transposed): (usize, bool),
    numbers: &mut DrawnNumbers,
) -> Result<String, String> {
    let registers: Vec<u32> = (0..BLOCKS * 128).map(|_| numbers.below(u32::MAX)).collect();
    let out = probe.run(entry, [BLOCKS, 32], &[&registers.as_slice()], &[BLOCKS * 32 * 16])?;
    let mut expected = vec![0u16; BLOCKS * 256];
    for at in 0..BLOCKS * 32 * count {
        let (block, lane, matrix) = (at / (32 * count), at / count % 32, at % count);
        for part in 0..2 {
            let (row, column) = element(lane, part, transposed);
            let word = registers[(block * 32 + lane) * 4 + matrix];
            expected[block * 256 + (8 * matrix + row) * 8 + column] = (word >> (16 * part)) as u16;
        }
    }
    let found = halves(&out[0]);
    match found.iter().zip(&expected).position(|(own, expected)| own != expected) {
        Some(at) => Err(differs("element", at, found[at].into(), expected[at].into())),
        None => Ok(format!("{} elements to the bit", expected.len())),
    }
}

/// `cp.async` in pieces of `bytes`; with `zfill` a lane reads only some of each.
pub fn copies(
    probe: &mut Probe<'_>,
    entry: &str,
    (bytes, zfill): (usize, bool),
    numbers: &mut DrawnNumbers,
) -> Result<String, String> {
    let input: Vec<u8> = (0..BLOCKS * 512).map(|_| numbers.below(256) as u8).collect();
    let read: Vec<u32> = (0..BLOCKS * 32).map(|_| numbers.below(1 << 16)).collect();
    let inputs: [&dyn AsBytes; 2] = [&input.as_slice(), &read.as_slice()];
    let out = probe.run(entry, [BLOCKS, 32], &inputs, &[input.len()])?.swap_remove(0);
    for at in 0..input.len() {
        let used = if zfill { read[at / 16] as usize % (bytes + 1) } else { bytes };
        let expected = if at % bytes < used { input[at] } else { 0 };
        if out[at] != expected {
            return Err(differs("byte", at, out[at].into(), expected.into()));
        }
    }
    Ok(format!("{} bytes to the bit", input.len()))
}

/// A ring of copies, each step of which waits for the oldest group.
pub fn groups(probe: &mut Probe<'_>, numbers: &mut DrawnNumbers) -> Result<String, String> {
    let input: Vec<u32> = (0..BLOCKS * 9 * 128).map(|_| numbers.below(u32::MAX)).collect();
    let out = probe.run("copy_groups", [BLOCKS, 32], &[&input.as_slice()], &[input.len() * 4])?;
    let found = words(&out[0]);
    for (at, own) in found.iter().enumerate() {
        let expected = input[at / 128 * 128 + (31 - at / 4 % 32) * 4 + at % 4];
        if *own != expected {
            return Err(differs("word", at, *own, expected));
        }
    }
    Ok("9 steps of a ring of 3 stages".into())
}

/// Warps that hand data over by two named barriers.
pub fn barriers(probe: &mut Probe<'_>, numbers: &mut DrawnNumbers) -> Result<String, String> {
    let input: Vec<u32> = (0..BLOCKS * 8 * 64).map(|_| numbers.below(u32::MAX)).collect();
    let out = probe.run("named_barriers", [BLOCKS, 128], &[&input.as_slice()], &[input.len() * 4])?;
    for (at, own) in words(&out[0]).iter().enumerate() {
        let expected = input[at / 64 * 64 + 63 - at % 64];
        if *own != expected {
            return Err(differs("word", at, *own, expected));
        }
    }
    Ok("8 rounds of two writing and two reading warps".into())
}
