//! Matrices for `mma`: one family for each way in which a sum of products can be hard.

use half::{bf16, f16};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

/// The type of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    Half,
    Brain,
}

impl Operand {
    /// The bits of the nearest number.
    pub fn bits(self, value: f64) -> u16 {
        match self {
            Operand::Half => f16::from_f64(value).to_bits(),
            Operand::Brain => bf16::from_f64(value).to_bits(),
        }
    }

    /// The number of some bits.
    pub fn value(self, bits: u16) -> f64 {
        match self {
            Operand::Half => f16::from_bits(bits).to_f64(),
            Operand::Brain => bf16::from_bits(bits).to_f64(),
        }
    }

    /// Powers of two between which most numbers of the type lie; products of two at the upper end fit fp32.
    fn exponents(self) -> (i32, i32) {
        match self {
            Operand::Half => (-14, 15),
            Operand::Brain => (-60, 60),
        }
    }

    /// The least positive number with a full mantissa.
    fn smallest_normal(self) -> f64 {
        match self {
            Operand::Half => f16::MIN_POSITIVE.to_f64(),
            Operand::Brain => bf16::MIN_POSITIVE.to_f64(),
        }
    }

    /// The least positive number.
    fn subnormal(self) -> f64 {
        match self {
            Operand::Half => f16::from_bits(1).to_f64(),
            Operand::Brain => bf16::from_bits(1).to_f64(),
        }
    }
}

/// What the numbers are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandFamily {
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

pub const FAMILIES: [OperandFamily; 6] = [
    OperandFamily::Integers,
    OperandFamily::Normal,
    OperandFamily::Mixed,
    OperandFamily::Cancelling,
    OperandFamily::Subnormal,
    OperandFamily::Special,
];

/// Numbers drawn from a seed.
pub struct DrawnNumbers(pub ChaCha8Rng);

impl DrawnNumbers {
    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        f64::from(self.0.next_u32()) / 4_294_967_296.0
    }

    /// Below `end`.
    pub fn below(&mut self, end: u32) -> u32 {
        self.0.next_u32() % end
    }

    /// Uniform in [-1, 1).
    pub fn signed(&mut self) -> f64 {
        2.0 * self.unit() - 1.0
    }

    /// Roughly normal: the sum of twelve uniform numbers has variance one.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }

    fn operand(&mut self, family: OperandFamily, operand: Operand) -> f64 {
        let (low, high) = operand.exponents();
        match family {
            OperandFamily::Integers => f64::from(self.below(17)) - 8.0,
            OperandFamily::Normal | OperandFamily::Cancelling => self.normal(),
            OperandFamily::Mixed => {
                let exponent = low + self.below((high - low) as u32) as i32;
                self.signed() * 2f64.powi(exponent)
            }
            OperandFamily::Subnormal if self.below(2) == 0 => f64::from(self.below(9)) * operand.subnormal(),
            OperandFamily::Subnormal => self.normal(),
            OperandFamily::Special => match self.below(64) {
                0 => f64::INFINITY,
                1 => f64::NEG_INFINITY,
                2 => f64::NAN,
                3 => 0.0,
                _ => self.normal(),
            },
        }
    }
}

/// How many products, and of which matrices.
#[derive(Clone, Copy, Debug)]
pub struct ProductExtents {
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
    pub tiles: usize,
}

/// Products of pairs of matrices, each with a matrix to add.
pub struct Products {
    pub extents: ProductExtents,
    pub operand: Operand,
    /// Rows x depth, by rows.
    pub a: Vec<u16>,
    /// Depth x columns, by rows.
    pub b: Vec<u16>,
    /// Rows x columns, by rows; exact in the accumulator's type.
    pub c: Vec<f64>,
}

impl Products {
    /// Matrices of one family. `narrow` accumulators are fp16.
    pub fn draw(
        numbers: &mut DrawnNumbers,
        family: OperandFamily,
        operand: Operand,
        (extents, narrow): (ProductExtents, bool),
    ) -> Products {
        let ProductExtents { rows, columns, depth, tiles } = extents;
        let mut matrix = |count: usize| -> Vec<u16> {
            (0..tiles * count).map(|_| operand.bits(numbers.operand(family, operand))).collect()
        };
        let (a, mut b) = (matrix(rows * depth), matrix(columns * depth));
        if family == OperandFamily::Cancelling {
            cancel(&mut b, extents, operand);
        }
        let rounded =
            |value: f64| if narrow { f16::from_f64(value).to_f64() } else { f64::from(value as f32) };
        let c = (0..rows * columns * tiles)
            .map(|_| match family {
                OperandFamily::Integers => f64::from(numbers.below(129)) - 64.0,
                _ => rounded(numbers.operand(family, Operand::Half)),
            })
            .collect();
        Products { extents, operand, a, b, c }
    }

    /// The exact element, and the sum of the magnitudes of its terms as tensor cores align them: by the operands'
    /// exponents, which a subnormal number shares with the smallest normal one. (An H200 was off by 1.3 times the bound
    /// that the plain magnitudes give, 2026-11-23.)
    pub fn exact(&self, tile: usize, row: usize, column: usize) -> (f64, f64) {
        let ProductExtents { rows, columns, depth, .. } = self.extents;
        let start = self.c[(tile * rows + row) * columns + column];
        let least = self.operand.smallest_normal();
        let term = |k: usize| {
            let a = self.operand.value(self.a[(tile * rows + row) * depth + k]);
            let b = self.operand.value(self.b[(tile * depth + k) * columns + column]);
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
                let near = operand.value(tile[at - columns]);
                tile[at] = operand.bits(-near * (1.0 + 1.0 / 64.0));
            }
        }
    }
}
