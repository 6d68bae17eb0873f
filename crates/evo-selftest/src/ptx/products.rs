//! `mma.sync` and `wgmma` beside products of matrices in double precision.
//!
//! The matrices come in families, one for each way in which a sum of products can be hard.

use half::{bf16, f16};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::probe::{AsBytes, Probe, floats, halves, normal};

/// `mma`: matrices of each family.
const WARP_TILES: usize = 64;
/// `wgmma`: rows of a warpgroup's product, and the depth of the four steps that a probe makes.
const ROWS: usize = 64;
const DEPTH: usize = 64;
/// The second adds to nothing.
const GROUP_TILES: usize = 2;

/// A shape of `mma`, `mma_kDEPTH_OPERAND_ACCUMULATOR`, on every family.
pub fn of_warp(probe: &mut Probe<'_>) -> Result<String, String> {
    let (depth, narrow) = (probe.named("_k", 16), probe.entry.ends_with("f16_f16"));
    let extents = ProductExtents { rows: 16, columns: 8, depth, tiles: WARP_TILES };
    let launch = |probe: &mut Probe<'_>, products: &mut Products| {
        let (a, b, shape, bytes) = (&products.a, &products.b, [WARP_TILES, 32], 128 * WARP_TILES);
        Ok(if narrow {
            let c: Vec<u16> = products.c.iter().map(|value| f16::from_f64(*value).to_bits()).collect();
            let out = probe.run(shape, &[a, b, &c], &[2 * bytes])?;
            halves(&out[0]).into_iter().map(|bits| f16::from_bits(bits).to_f64()).collect()
        } else {
            let c: Vec<f32> = products.c.iter().map(|value| *value as f32).collect();
            let out = probe.run(shape, &[a, b, &c], &[4 * bytes])?;
            floats(&out[0]).into_iter().map(f64::from).collect()
        })
    };
    on_families(probe, extents, narrow, launch)
}

/// A kernel of `wgmma`, `wgmma_nCOLUMNS_OPERAND…`, on every family.
pub fn of_group(probe: &mut Probe<'_>) -> Result<String, String> {
    let columns = probe.named("_n", 0);
    let extents = ProductExtents { rows: ROWS, columns, depth: DEPTH, tiles: GROUP_TILES };
    let whole = ROWS * columns;
    let launch = |probe: &mut Probe<'_>, products: &mut Products| {
        // The kernels take B by columns.
        let b: Vec<u16> = (0..GROUP_TILES * columns * DEPTH)
            .map(|at| {
                let (tile, column, k) = (at / (columns * DEPTH), at / DEPTH % columns, at % DEPTH);
                products.b[(tile * DEPTH + k) * columns + column]
            })
            .collect();
        // What a product without an accumulator must not read.
        let c = products.c.iter().enumerate();
        let c: Vec<f32> = c.map(|(at, value)| if at < whole { *value as f32 } else { f32::NAN }).collect();
        products.c[whole..].fill(0.0);
        let inputs: [&dyn AsBytes; 3] = [&products.a, &b, &c];
        // A, and B in whole runs of 64 rows or columns.
        probe.shared_bytes = (128 * (ROWS + columns.next_multiple_of(64))) as u32;
        let out = probe.run([GROUP_TILES, 128], &inputs, &[4 * GROUP_TILES * whole])?;
        Ok(floats(&out[0]).into_iter().map(f64::from).collect())
    };
    on_families(probe, extents, false, launch)
}

/// Launches products of every family and judges their elements, which are one tile behind the other by rows.
fn on_families(
    probe: &mut Probe<'_>,
    extents: ProductExtents,
    narrow: bool,
    launch: impl Fn(&mut Probe<'_>, &mut Products) -> Result<Vec<f64>, String>,
) -> Result<String, String> {
    let ProductExtents { rows, columns, depth, tiles } = extents;
    let mut worst = 0f64;
    for family in FAMILIES {
        let operand = if probe.entry.contains("_bf16") { BRAIN } else { HALF };
        let mut products = Products::draw(&mut probe.numbers, family, operand, (extents, narrow));
        for (at, answer) in launch(probe, &mut products)?.into_iter().enumerate() {
            let (tile, row, column) = (at / (rows * columns), at / columns % rows, at % columns);
            let exact = products.exact(tile, row, column);
            let share = judge((depth, narrow), family, exact, answer)
                .map_err(|what| format!("{family:?}, tile {tile}, row {row}, column {column}: {what}"))?;
            worst = worst.max(share);
        }
    }
    let families = FAMILIES.len();
    Ok(format!(
        "{families} families of {tiles} tiles, integers to the bit, {worst:.2} of the bound elsewhere"
    ))
}

/// How far an element may be from the exact one, for terms of so much in all: as `evo/ptx.cuh` says. Sums of `wgmma` are
/// those of `mma`, one behind the other.
fn bound(depth: usize, narrow: bool, size: f64) -> f64 {
    let depth = depth as f64;
    match narrow {
        false => depth * (size * 2f64.powi(-22) + 2f64.powi(-149)),
        true => depth / 4.0 * size * 2f64.powi(-11) + depth * 2f64.powi(-24),
    }
}

/// The error's share of its bound for terms of so much in all. Beyond the largest number an answer is infinite.
fn judge(
    (depth, narrow): (usize, bool),
    family: OperandFamily,
    (exact, size): (f64, f64),
    answer: f64,
) -> Result<f64, String> {
    if !exact.is_finite() || family == OperandFamily::Integers {
        let is_same = answer == exact || answer.is_nan() && exact.is_nan();
        return if is_same { Ok(0.0) } else { Err(format!("{answer} is not {exact}")) };
    }
    let bound = bound(depth, narrow, size);
    let largest = if narrow { f16::MAX.to_f64() } else { f64::from(f32::MAX) };
    if answer.is_infinite() && exact.abs() + bound > largest && answer.signum() == exact.signum() {
        return Ok(0.0);
    }
    let share = (answer - exact).abs() / bound;
    // False for NaN.
    if share <= 1.0 {
        Ok(share)
    } else {
        Err(format!("{answer} is not {exact}: {share:.2} of the bound {bound:e}"))
    }
}

/// The type of operands.
#[derive(Clone, Copy)]
struct Operand {
    bits: fn(f64) -> u16,
    value: fn(u16) -> f64,
    /// Powers of two between which most numbers of the type lie; products of two at the upper end fit fp32.
    exponents: (i32, i32),
    /// The least positive number with a full mantissa.
    smallest_normal: u16,
}

const HALF: Operand = Operand {
    bits: |value| f16::from_f64(value).to_bits(),
    value: |bits| f16::from_bits(bits).to_f64(),
    exponents: (-14, 15),
    smallest_normal: 0x0400,
};

const BRAIN: Operand = Operand {
    bits: |value| bf16::from_f64(value).to_bits(),
    value: |bits| bf16::from_bits(bits).to_f64(),
    exponents: (-60, 60),
    smallest_normal: 0x0080,
};

/// What the numbers are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OperandFamily {
    /// Small integers, whose sums are exact in every order.
    Integers,
    Normal,
    /// Magnitudes over the type's whole range.
    Mixed,
    /// Terms that cancel but for little.
    Cancelling,
    Subnormal,
    /// Infinities and NaN among normal numbers.
    Special,
}

const FAMILIES: [OperandFamily; 6] = [
    OperandFamily::Integers,
    OperandFamily::Normal,
    OperandFamily::Mixed,
    OperandFamily::Cancelling,
    OperandFamily::Subnormal,
    OperandFamily::Special,
];

fn drawn(numbers: &mut ChaCha8Rng, family: OperandFamily, operand: Operand) -> f64 {
    let (low, high) = operand.exponents;
    match family {
        OperandFamily::Integers => f64::from(numbers.random_range(-8..=8)),
        OperandFamily::Normal | OperandFamily::Cancelling => normal(numbers),
        OperandFamily::Mixed => {
            let magnitude = 2f64.powi(numbers.random_range(low..high));
            numbers.random_range(-magnitude..magnitude)
        }
        OperandFamily::Subnormal if numbers.random() => {
            // In units of the least positive number.
            f64::from(numbers.random_range(0..9)) * (operand.value)(1)
        }
        OperandFamily::Subnormal => normal(numbers),
        OperandFamily::Special => match numbers.random_range(0..64) {
            0 => f64::INFINITY,
            1 => f64::NEG_INFINITY,
            2 => f64::NAN,
            3 => 0.0,
            _ => normal(numbers),
        },
    }
}

/// How many products, and of which matrices.
#[derive(Clone, Copy, Debug)]
struct ProductExtents {
    rows: usize,
    columns: usize,
    depth: usize,
    tiles: usize,
}

/// Products of pairs of matrices, each with a matrix to add.
struct Products {
    extents: ProductExtents,
    operand: Operand,
    /// Rows x depth, by rows.
    a: Vec<u16>,
    /// Depth x columns, by rows.
    b: Vec<u16>,
    /// Rows x columns, by rows; exact in the accumulator's type.
    c: Vec<f64>,
}

impl Products {
    /// Matrices of one family. `narrow` accumulators are fp16.
    fn draw(
        numbers: &mut ChaCha8Rng,
        family: OperandFamily,
        operand: Operand,
        (extents, narrow): (ProductExtents, bool),
    ) -> Products {
        let ProductExtents { rows, columns, depth, tiles } = extents;
        let mut matrix = |count: usize| -> Vec<u16> {
            (0..tiles * count).map(|_| (operand.bits)(drawn(numbers, family, operand))).collect()
        };
        let (a, mut b) = (matrix(rows * depth), matrix(columns * depth));
        if family == OperandFamily::Cancelling {
            cancel(&mut b, extents, operand);
        }
        let rounded =
            |value: f64| if narrow { f16::from_f64(value).to_f64() } else { f64::from(value as f32) };
        let c = (0..rows * columns * tiles)
            .map(|_| match family {
                OperandFamily::Integers => f64::from(numbers.random_range(-64..=64)),
                _ => rounded(drawn(numbers, family, HALF)),
            })
            .collect();
        Products { extents, operand, a, b, c }
    }

    /// The exact element, and the sum of the magnitudes of its terms as tensor cores align them: by the operands'
    /// exponents, which a subnormal number shares with the smallest normal one. (An H200 was off by 1.3 times the bound
    /// that the plain magnitudes give, 2026-11-23.)
    fn exact(&self, tile: usize, row: usize, column: usize) -> (f64, f64) {
        let ProductExtents { rows, columns, depth, .. } = self.extents;
        let start = self.c[(tile * rows + row) * columns + column];
        let Operand { value, smallest_normal, .. } = self.operand;
        let least = value(smallest_normal);
        let term = |k: usize| {
            let a = value(self.a[(tile * rows + row) * depth + k]);
            let b = value(self.b[(tile * depth + k) * columns + column]);
            let is_zero = a == 0.0 || b == 0.0;
            (a * b, if is_zero { 0.0 } else { a.abs().max(least) * b.abs().max(least) })
        };
        let terms = (0..depth).map(term);
        terms.fold((start, start.abs()), |(sum, size), (term, aligned)| (sum + term, size + aligned))
    }
}

/// Makes the odd rows of B nearly the negatives of the rows before them: with equal columns of A next to each other
/// little would be left, and with others the signs alternate.
fn cancel(b: &mut [u16], extents: ProductExtents, operand: Operand) {
    let columns = extents.columns;
    for tile in b.chunks_exact_mut(columns * extents.depth) {
        for at in 0..tile.len() {
            if at / columns % 2 == 1 {
                let near = (operand.value)(tile[at - columns]);
                tile[at] = (operand.bits)(-near * (1.0 + 1.0 / 64.0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_judged_by_class_and_by_bound() {
        let check = |narrow: bool, family, exact, answer, passes: bool| {
            let found = judge((16, narrow), family, exact, answer);
            assert_eq!(found.is_ok(), passes, "{exact:?} {answer}");
        };
        let (wide, narrow) = (false, true);
        check(wide, OperandFamily::Integers, (5.0, 9.0), 5.0, true);
        check(wide, OperandFamily::Integers, (5.0, 9.0), 5.0 + 1e-6, false);
        check(wide, OperandFamily::Normal, (5.0, 9.0), 5.0 + 16.0 * 9.0 * 2.3e-7, true);
        check(wide, OperandFamily::Normal, (5.0, 9.0), 5.0 + 16.0 * 9.0 * 2.4e-7, false);
        check(wide, OperandFamily::Normal, (5.0, 9.0), f64::NAN, false);
        check(wide, OperandFamily::Special, (f64::NAN, f64::NAN), 1.0, false);
        check(wide, OperandFamily::Special, (f64::INFINITY, f64::INFINITY), f64::NEG_INFINITY, false);
        check(narrow, OperandFamily::Mixed, (65_500.0, 70_000.0), f64::INFINITY, true);
        check(narrow, OperandFamily::Mixed, (6_500.0, 7_000.0), f64::INFINITY, false);
    }
}
