//! `wgmma` beside a product of matrices in double precision.

use super::operands::{DrawnNumbers, FAMILIES, Operand, OperandFamily, ProductExtents, Products};
use super::probe::{Probe, floats};
use super::products::judge;

/// Rows of a warpgroup's product, and the depth of the four steps that a probe makes.
const ROWS: usize = 64;
const DEPTH: usize = 64;
/// The second adds to nothing.
const TILES: usize = 2;

/// One kernel, by its name `wgmma_nN_TYPE…`.
pub const ENTRIES: [&str; 28] = [
    "wgmma_n8_f16",
    "wgmma_n24_f16",
    "wgmma_n64_f16",
    "wgmma_n104_f16",
    "wgmma_n128_f16",
    "wgmma_n176_f16",
    "wgmma_n256_f16",
    "wgmma_n16_bf16",
    "wgmma_n72_bf16",
    "wgmma_n192_bf16",
    "wgmma_n248_bf16",
    "wgmma_n32_f16_64b",
    "wgmma_n96_bf16_64b",
    "wgmma_n40_bf16_32b",
    "wgmma_n136_f16_32b",
    "wgmma_n48_f16_none",
    "wgmma_n160_bf16_none",
    "wgmma_n64_f16_trans",
    "wgmma_n200_bf16_trans",
    "wgmma_n80_bf16_trans_64b",
    "wgmma_n56_f16_trans_32b",
    "wgmma_n112_f16_trans_none",
    "wgmma_n64_bf16_trans_a",
    "wgmma_n120_f16_trans_both_64b",
    "wgmma_n144_f16_trans_both_none",
    "wgmma_n64_f16_registers",
    "wgmma_n240_bf16_registers",
    "wgmma_n88_f16_registers",
];

/// Runs a kernel on every family.
pub fn check(probe: &mut Probe<'_>, entry: &str, numbers: &mut DrawnNumbers) -> Result<String, String> {
    let mut parts = entry.trim_start_matches("wgmma_n").split('_');
    let columns: usize = parts.next().and_then(|part| part.parse().ok()).ok_or("no N in the name")?;
    let operand = if parts.next() == Some("bf16") { Operand::Brain } else { Operand::Half };
    let extents = ProductExtents { rows: ROWS, columns, depth: DEPTH, tiles: TILES };
    let mut worst = 0f64;
    for family in FAMILIES {
        let products = Products::draw(numbers, family, operand, (extents, false));
        worst = worst.max(compare(probe, entry, family, products)?);
    }
    Ok(format!("{} families, integers to the bit, {worst:.2} of the bound elsewhere", FAMILIES.len()))
}

fn compare(
    probe: &mut Probe<'_>,
    entry: &str,
    family: OperandFamily,
    mut products: Products,
) -> Result<f64, String> {
    let columns = products.extents.columns;
    // The kernels take B by columns.
    let b: Vec<u16> = (0..TILES * columns * DEPTH)
        .map(|at| {
            let (tile, column, k) = (at / (columns * DEPTH), at / DEPTH % columns, at % DEPTH);
            products.b[(tile * DEPTH + k) * columns + column]
        })
        .collect();
    let whole = ROWS * columns;
    // What a product without an accumulator must not read.
    let c = products.c.iter().enumerate();
    let c: Vec<f32> = c.map(|(at, value)| if at < whole { *value as f32 } else { f32::NAN }).collect();
    products.c[whole..].fill(0.0);
    let inputs: [&dyn super::probe::AsBytes; 3] = [&products.a.as_slice(), &b.as_slice(), &c.as_slice()];
    // A, and B in whole runs of 64 rows or columns.
    probe.shared_bytes = (128 * (ROWS + columns.next_multiple_of(64))) as u32;
    let ran = probe.run(entry, [TILES, 128], &inputs, &[4 * TILES * whole]);
    probe.shared_bytes = 0;
    let out = ran?;
    // As for `mma`, whose sums these are, one behind the other.
    let bound = |size: f64| DEPTH as f64 * (size * 2f64.powi(-22) + 2f64.powi(-149));
    let mut worst = 0f64;
    for (at, answer) in floats(&out[0]).into_iter().enumerate() {
        let (tile, row, column) = (at / whole, at / columns % ROWS, at % columns);
        let exact = products.exact(tile, row, column);
        let share = judge((&bound, f64::from(f32::MAX)), family, exact, f64::from(answer))
            .map_err(|what| format!("{family:?}, tile {tile}, row {row}, column {column}: {what}"))?;
        worst = worst.max(share);
    }
    Ok(worst)
}
