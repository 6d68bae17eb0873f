//! Instructions that move bits: `ldmatrix`, `stmatrix`, `cp.async`, bulk copies, the barriers between warps, memory of other
//! blocks.

use rand::RngExt;

use super::probe::{Probe, compare, floats, halves, normal, words};

/// Blocks of a launch, a case each.
const BLOCKS: usize = 16;

/// The element of a matrix that register `matrix` of a lane holds in half `part`: its row and column.
fn element(lane: usize, part: usize, transposed: bool) -> (usize, usize) {
    let (g, t) = (lane / 4, lane % 4);
    if transposed { (2 * t + part, g) } else { (g, 2 * t + part) }
}

/// `ldmatrix` of matrices whose 32 rows of 8 elements come in order.
pub fn loads(probe: &mut Probe<'_>) -> Result<String, String> {
    let (count, transposed) = (probe.named("_x", 1), probe.entry.ends_with("_trans"));
    let rows: Vec<u16> = (&mut probe.numbers).random_iter().take(BLOCKS * 256).collect();
    let out = probe.run([BLOCKS, 32], &[&rows], &[BLOCKS * 32 * 16])?;
    // Four registers a lane, of which as many are loaded as there are matrices.
    let found = words(&out[0]).into_iter().enumerate().filter(|(at, _)| at % 4 < count);
    compare("register", found.map(|(_, register)| register), |at| {
        let (block, lane, matrix) = (at / (32 * count), at / count % 32, at % count);
        let half = |part: usize| {
            let (row, column) = element(lane, part, transposed);
            u32::from(rows[block * 256 + (8 * matrix + row) * 8 + column])
        };
        half(0) | half(1) << 16
    })?;
    Ok(format!("{} registers to the bit", BLOCKS * 32 * count))
}

/// `stmatrix`; rows that none of the matrices has stay zero.
pub fn stores(probe: &mut Probe<'_>) -> Result<String, String> {
    let (count, transposed) = (probe.named("_x", 1), probe.entry.ends_with("_trans"));
    let registers: Vec<u32> = (&mut probe.numbers).random_iter().take(BLOCKS * 128).collect();
    let out = probe.run([BLOCKS, 32], &[&registers], &[BLOCKS * 32 * 16])?;
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
    compare("element", found, |at| expected[at])?;
    Ok(format!("{} elements to the bit", expected.len()))
}

/// `cp.async` in pieces of some bytes; with `zfill` a lane reads only some of each.
pub fn copies(probe: &mut Probe<'_>) -> Result<String, String> {
    let (bytes, zfill) =
        (probe.named("_ca_", 0).max(probe.named("_cg_", 0)), probe.entry.ends_with("_zfill"));
    let input: Vec<u8> = (&mut probe.numbers).random_iter().take(BLOCKS * 512).collect();
    let read: Vec<u32> = (0..BLOCKS * 32).map(|_| probe.numbers.random_range(0..1 << 16)).collect();
    let out = probe.run([BLOCKS, 32], &[&input, &read], &[input.len()])?.swap_remove(0);
    compare("byte", out, |at| {
        let used = if zfill { read[at / 16] as usize % (bytes + 1) } else { bytes };
        if at % bytes < used { input[at] } else { 0 }
    })?;
    Ok(format!("{} bytes to the bit", input.len()))
}

/// Words that one launch of blocks of `threads` gives back at other places: word `at` of `count` is what word `from(at)`
/// was.
pub fn permuted(
    probe: &mut Probe<'_>,
    [threads, count]: [usize; 2],
    what: &str,
    from: impl Fn(usize) -> usize,
) -> Result<String, String> {
    let input: Vec<u32> = (&mut probe.numbers).random_iter().take(BLOCKS * count).collect();
    let out = probe.run([BLOCKS, threads], &[&input], &[input.len() * 4])?;
    compare("word", words(&out[0]), |at| input[from(at)])?;
    Ok(what.to_string())
}

/// The place where threads that read runs of four words backwards found word `at` of a warp's or of two warps'.
pub fn turned(at: usize, threads: usize) -> usize {
    at / (4 * threads) * 4 * threads + (threads - 1 - at / 4 % threads) * 4 + at % 4
}

/// Registers handed over, and lanes elected.
pub fn registers(probe: &mut Probe<'_>) -> Result<String, String> {
    let input: Vec<u32> = (&mut probe.numbers).random_iter().take(BLOCKS * 256).collect();
    let out = probe.run([BLOCKS, 256], &[&input], &[input.len() * 4])?;
    compare("word", words(&out[0]), |at| input[at].wrapping_add(1))?;
    Ok("two warpgroups".into())
}

/// Memory and barriers of the blocks of clusters of one and of four.
pub fn clusters(probe: &mut Probe<'_>) -> Result<String, String> {
    for size in [1, 4] {
        let input: Vec<f32> = (0..BLOCKS * 64).map(|_| normal(&mut probe.numbers) as f32).collect();
        probe.cluster = Some([size as u32, 1, 1]);
        let out = probe.run([BLOCKS, 64], &[&input], &[input.len() * 4])?;
        // What a block gets was written by the one before it, which had read from its own next one.
        for (at, number) in floats(&out[0]).into_iter().enumerate() {
            let (block, thread) = (at / 64, at % 64);
            let next = block / size * size + (block % size + 2) % size;
            let expected = 2.0 * input[next * 64 + 63 - thread];
            if number != expected {
                return Err(format!("clusters of {size}: number {at} is {number}, not {expected}"));
            }
        }
    }
    Ok("clusters of 1 and of 4".into())
}
