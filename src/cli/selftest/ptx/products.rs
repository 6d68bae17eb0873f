//! `mma.sync` beside a product of matrices in double precision.

use half::f16;

use super::operands::{DrawnNumbers, FAMILIES, Operand, OperandFamily, ProductExtents, Products};
use super::probe::{Probe, floats, halves};

/// One shape of the instruction.
pub struct ProductShape {
    pub entry: &'static str,
    pub depth: usize,
    pub operand: Operand,
    /// fp16 accumulators.
    pub narrow: bool,
}

const fn shape(entry: &'static str, depth: usize, operand: Operand, narrow: bool) -> ProductShape {
    ProductShape { entry, depth, operand, narrow }
}

pub const SHAPES: [ProductShape; 6] = [
    shape("mma_k16_f16_f32", 16, Operand::Half, false),
    shape("mma_k16_bf16_f32", 16, Operand::Brain, false),
    shape("mma_k16_f16_f16", 16, Operand::Half, true),
    shape("mma_k8_f16_f32", 8, Operand::Half, false),
    shape("mma_k8_bf16_f32", 8, Operand::Brain, false),
    shape("mma_k8_f16_f16", 8, Operand::Half, true),
];

/// Matrices of each family.
const TILES: usize = 64;

/// Runs a shape on every family.
pub fn check(
    probe: &mut Probe<'_>,
    shape: &ProductShape,
    numbers: &mut DrawnNumbers,
) -> Result<String, String> {
    let mut worst = 0f64;
    for family in FAMILIES {
        let extents = ProductExtents { rows: 16, columns: 8, depth: shape.depth, tiles: TILES };
        let products = Products::draw(numbers, family, shape.operand, (extents, shape.narrow));
        let answers = answers(probe, shape, &products)?;
        for (at, answer) in answers.iter().enumerate() {
            let (tile, row, column) = (at / 128, at / 8 % 16, at % 8);
            let bound = |size| bound(shape, size);
            let largest = if shape.narrow { f16::MAX.to_f64() } else { f64::from(f32::MAX) };
            let exact = products.exact(tile, row, column);
            let share = judge((&bound, largest), family, exact, *answer)
                .map_err(|what| format!("{family:?}, tile {tile}, row {row}, column {column}: {what}"))?;
            worst = worst.max(share);
        }
    }
    let families = FAMILIES.len();
    Ok(format!(
        "{families} families of {TILES} tiles, integers to the bit, {worst:.2} of the bound elsewhere"
    ))
}

fn answers(probe: &mut Probe<'_>, shape: &ProductShape, products: &Products) -> Result<Vec<f64>, String> {
    let (a, b) = (products.a.as_slice(), products.b.as_slice());
    if shape.narrow {
        let c: Vec<u16> = products.c.iter().map(|value| f16::from_f64(*value).to_bits()).collect();
        let out = probe.run(shape.entry, [TILES, 32], &[&a, &b, &c.as_slice()], &[256 * TILES])?;
        return Ok(halves(&out[0]).into_iter().map(|bits| f16::from_bits(bits).to_f64()).collect());
    }
    let c: Vec<f32> = products.c.iter().map(|value| *value as f32).collect();
    let out = probe.run(shape.entry, [TILES, 32], &[&a, &b, &c.as_slice()], &[512 * TILES])?;
    Ok(floats(&out[0]).into_iter().map(f64::from).collect())
}

/// How far an element may be from the exact one, for terms of so much in all: as `evo/ptx.cuh` says.
fn bound(shape: &ProductShape, size: f64) -> f64 {
    let depth = shape.depth as f64;
    match shape.narrow {
        false => depth * (size * 2f64.powi(-22) + 2f64.powi(-149)),
        true => depth / 4.0 * size * 2f64.powi(-11) + depth * 2f64.powi(-24),
    }
}

/// The error's share of its bound for terms of so much in all. Beyond the `largest` number an answer is infinite.
pub fn judge(
    (bound, largest): (&dyn Fn(f64) -> f64, f64),
    family: OperandFamily,
    (exact, size): (f64, f64),
    answer: f64,
) -> Result<f64, String> {
    let differs = || Err(format!("{answer} is not {exact}"));
    if exact.is_nan() {
        return if answer.is_nan() { Ok(0.0) } else { differs() };
    }
    if exact.is_infinite() {
        return if answer == exact { Ok(0.0) } else { differs() };
    }
    if family == OperandFamily::Integers {
        return if answer == exact { Ok(0.0) } else { differs() };
    }
    let bound = bound(size);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_judged_by_class_and_by_bound() {
        let check = |shape: &ProductShape, family, exact, answer, passes: bool| {
            let largest = if shape.narrow { f16::MAX.to_f64() } else { f64::from(f32::MAX) };
            let found = judge((&|size| bound(shape, size), largest), family, exact, answer);
            assert_eq!(found.is_ok(), passes, "{exact:?} {answer}");
        };
        let (wide, narrow) = (&SHAPES[0], &SHAPES[2]);
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
