//! Seeded inputs: what a case's buffers hold before a run.
//!
//! Every tensor draws from a stream of its own (named by study seed, problem, buffer, family), so that
//! no two are copies of each other and a kernel that swaps K and V is found out. Families stress range,
//! order and sparsity, and go over the whole range of the data type unless the space file declares a
//! range: no family leaves a declared range. All arithmetic here is exact or IEEE, hence the same
//! everywhere.

use std::ops::Range;

use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, Dictionary, Fill, ProblemPlan, Role};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

pub use super::family::{Draw, Family, varies, varies_in};
use super::family::{family_of, mixed, stream, stream_seed};
use super::{element, npy};

/// Elements per random stream; a multiple of what one task needs to be worth its start.
pub(super) const CHUNK: usize = 1 << 15;

/// A fresh set of contents of the same kind, for calls that no earlier call resembles. `number` counts them.
pub fn another(draw: Draw, number: u32) -> Draw {
    // Beyond every index that cases use.
    Draw { index: 1_000_000 + number, ..draw }
}

/// From this index on a draw has the contents of the one before it, in another order in places.
pub const REARRANGED: u32 = 1 << 31;

/// The quarter of a tensor that is turned round, somewhere between its first and its last sixteenth: its first element and
/// its length. A kernel that knows contents by a few of their elements, by their ends or by their sum takes them for those
/// of the call before.
pub(super) fn turned_part(count: usize, seed: u64) -> Option<(usize, usize)> {
    let (border, length) = (count.div_ceil(16), (count / 4).max(2));
    let places = count.checked_sub(2 * border + length)?;
    Some((border + seed as usize % (places + 1), length))
}

/// Extremes of draws with such an index, modulo 4, are the largest value everywhere or the smallest.
pub const AT_ONE_END: u32 = 3;

/// Among these, the largest everywhere, and in all buffers of a case: products of the smallest ones are powers of two,
/// which every sum in a float holds.
pub const AT_UPPER_END: u32 = 7;

pub fn generate(plan: &ProblemPlan, buffer: &BufferPlan, draw: Draw) -> Result<Vec<u8>, DeviceError> {
    let count = buffer.elements().max(1) as usize;
    if draw.index >= REARRANGED {
        let mut bytes = generate(plan, buffer, Draw { index: draw.index % REARRANGED, ..draw })?;
        let size = buffer.dtype.bytes() as usize;
        if let Some((first, length)) = turned_part(count, draw.seed).filter(|_| varies(buffer)) {
            let part = &mut bytes[first * size..(first + length) * size];
            part.reverse();
            part.chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
        return Ok(bytes);
    }
    match &buffer.fill {
        Fill::Constant { value } => Ok(element::narrow(&vec![*value; count], buffer.dtype)),
        Fill::Npy { path } => npy::read_bytes(path, buffer),
        Fill::Raw { path } => npy::read_raw(path, buffer),
        Fill::Normal { .. } | Fill::Unrestricted | Fill::Uniform { .. } => {
            let size = buffer.dtype.bytes() as usize;
            let mut bytes = vec![0u8; count * size];
            if let Some(rule) = FillRule::of(plan, buffer, draw) {
                // A stream for each chunk, so that the contents do not depend on the number of threads.
                let chunks = bytes.par_chunks_mut(CHUNK * size).enumerate();
                chunks.for_each(|(chunk, out)| rule.fill(chunk, out));
            }
            Ok(bytes)
        }
        Fill::Prepared => Ok(vec![0; count * buffer.dtype.bytes() as usize]),
    }
}

/// The values that a space file asks for, before a family changes them.
#[derive(Clone, Copy)]
pub(super) enum Distribution {
    Bell {
        scale: f64,
    },
    /// `closed`: a floating-point range holds its upper end.
    Flat {
        low: f64,
        high: f64,
        closed: bool,
    },
}

impl Distribution {
    pub(super) fn size(self) -> f64 {
        match self {
            Distribution::Bell { scale } => scale,
            Distribution::Flat { low, high, .. } => high.abs().max(low.abs()),
        }
    }

    /// What the end of the range is: an integer range excludes its upper end, a float range nearly does.
    pub(super) fn ends(self, dtype: DType) -> (f64, f64) {
        match self {
            Distribution::Bell { scale } => (-4.0 * scale, 4.0 * scale),
            Distribution::Flat { low, high, closed: true } if dtype.is_float() => (low, high),
            Distribution::Flat { low, high, .. } if dtype.is_float() => (low, low + (high - low) * 0.999),
            Distribution::Flat { low, high, .. } => (low, high - 1.0),
        }
    }

    pub(super) fn signed(self) -> bool {
        match self {
            Distribution::Bell { .. } => true,
            Distribution::Flat { low, .. } => low < 0.0,
        }
    }
}

fn smallest_normal(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-14),
        DType::F64 => f64::MIN_POSITIVE,
        _ => 2f64.powi(-126),
    }
}

/// The ends of an integer type, as far as fp64 holds them.
fn integer_range(dtype: DType) -> (f64, f64) {
    let bits = 8 * dtype.bytes() as i32;
    match dtype {
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => (0.0, 2f64.powi(bits) - 1.0),
        _ => (-2f64.powi(bits - 1), 2f64.powi(bits - 1) - 1.0),
    }
}

fn base(source: &mut ChaCha8Rng, shape: Distribution, dtype: DType, length: usize) -> Vec<f64> {
    match shape {
        Distribution::Bell { scale } => {
            let mut bytes = vec![0u8; length * 16];
            source.fill_bytes(&mut bytes);
            bytes.chunks_exact(16).map(|raw| bell(raw) * scale).collect()
        }
        Distribution::Flat { low, high, .. } => {
            let mut bytes = vec![0u8; length * 8];
            source.fill_bytes(&mut bytes);
            let draw = |raw: &[u8]| {
                let word = raw.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
                let part = (word >> 11) as f64 * 2f64.powi(-53);
                let value = low + (high - low) * part;
                if dtype.is_float() { value } else { value.floor() }
            };
            bytes.chunks_exact(8).map(draw).collect()
        }
    }
}

/// √1.5 / 65536.
pub(super) const BELL_UNIT: f64 = 1.224_744_871_391_589 / 65536.0;

/// A standard bell-shaped variable: the sum of eight 16-bit uniforms (Irwin–Hall), tails to ±4.9.
/// Integer sums need no logarithm or cosine, whose last bits differ between C libraries.
fn bell(raw: &[u8]) -> f64 {
    let sum: u32 = raw.chunks_exact(2).map(|pair| u32::from(u16::from_le_bytes([pair[0], pair[1]]))).sum();
    // Mean 4 × 65535; the variance of one is (65536² − 1)/12, of eight together 8/12 of 65536².
    (f64::from(sum) - 4.0 * 65535.0) * BELL_UNIT
}

fn unit(word: u32) -> f64 {
    f64::from(word) * 2f64.powi(-32)
}

fn distribution(buffer: &BufferPlan) -> Option<Distribution> {
    match &buffer.fill {
        Fill::Constant { .. } | Fill::Npy { .. } | Fill::Raw { .. } | Fill::Prepared => None,
        Fill::Normal { scale } => Some(Distribution::Bell { scale: *scale }),
        Fill::Unrestricted if buffer.dtype.is_float() => Some(Distribution::Bell { scale: 1.0 }),
        Fill::Unrestricted => Some(Distribution::Flat { low: 0.0, high: 100.0, closed: false }),
        Fill::Uniform { low, high, inclusive } => {
            let high = if *inclusive && !buffer.dtype.is_float() { high + 1.0 } else { *high };
            Some(Distribution::Flat { low: *low, high, closed: *inclusive })
        }
    }
}

/// The rule by which one element is computed, on the processor or on the device (`drawn`).
pub(super) struct FillRule {
    pub(super) seed: [u8; 32],
    pub(super) shape: Distribution,
    /// Whether the file declares the range, which then holds for every family.
    pub(super) declared: bool,
    pub(super) dtype: DType,
    pub(super) family: Family,
    pub(super) magnitude: f64,
    pub(super) count: usize,
    /// The value of a constant tensor, drawn once.
    pub(super) level: f64,
    /// Ramps go down as often as up.
    pub(super) descending: bool,
    pub(super) spike: usize,
    pub(super) row: usize,
    /// Decides what each row is.
    pub(super) rows: u64,
    /// Which of two kinds (`Draw::is_second`).
    pub(super) second: bool,
    index: u32,
    /// Decides what integers of all buffers of a case have in common; none where each buffer has its own.
    together: Option<u64>,
    /// Constants differ in their last bits (`nearly`).
    pub(super) nearly: bool,
    /// Between -1 and 1; the same for all buffers of a case.
    decade: f64,
    dictionary: Dictionary,
    /// Where special values of two inputs of one size meet in every pair, and which of both inputs this is.
    pairs: Option<(usize, usize)>,
}

/// In half of the ramps one element of so many stands elsewhere.
const EXCHANGED: u64 = 37;

/// A value of f32 near another, of 8,192 that keys cut to 11 bits of mantissa hardly tell apart.
fn nearly(value: f64, dice: u32) -> f64 {
    value * (1.0 + f64::from(dice % 8192) * 2f64.powi(-22))
}

/// Gives NaNs the contents that arithmetic on bits takes for something else: all bits, only the lowest one, a sign. The
/// draw says which comes first, because a small tensor has one NaN.
fn vary_nans(elements: &mut [u8], first: usize) {
    const NANS: [u32; 4] = [0x7fc0_0000, 0x7fff_ffff, 0x7f80_0001, 0xffc0_0000];
    let nans = elements
        .chunks_exact_mut(4)
        .filter(|own| f32::from_le_bytes([own[0], own[1], own[2], own[3]]).is_nan());
    for (element, bits) in nans.zip(NANS.into_iter().cycle().skip(first % NANS.len())) {
        element.copy_from_slice(&bits.to_le_bytes());
    }
}

/// Whether the answer is a choice among these values (the place of a maximum, an order, a bin), as far as data types
/// tell. Elsewhere the difference of values that are nearly equal is nothing but rounding.
fn selects(plan: &ProblemPlan, buffer: &BufferPlan) -> bool {
    let is_integer = |own: &&BufferPlan| own.role == Role::Output && !own.dtype.is_float();
    buffer.dtype == DType::F32
        && matches!(buffer.fill, Fill::Normal { .. } | Fill::Unrestricted)
        && plan.buffers.iter().any(|own| is_integer(&own))
}

/// What the integers of all buffers share in half of the draws: where two operands differ in their lower halves only, a
/// comparison of the upper ones shows.
fn together(draw: Draw) -> Option<u64> {
    let mut dice = ChaCha8Rng::seed_from_u64(draw.seed ^ u64::from(draw.index));
    dice.set_stream(3);
    let shared = dice.next_u64();
    (shared & 1 == 1).then_some(shared)
}

/// Where between the smallest and the largest order of magnitude a case lies.
fn decade(draw: Draw) -> f64 {
    let mut dice =
        ChaCha8Rng::seed_from_u64(draw.seed ^ u64::from(draw.index).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    2.0 * unit(dice.next_u32()) - 1.0
}

impl FillRule {
    /// The rule of a buffer in a draw; none for contents that are not drawn.
    pub(super) fn of(plan: &ProblemPlan, buffer: &BufferPlan, draw: Draw) -> Option<FillRule> {
        let shape = distribution(buffer)?;
        let count = buffer.elements().max(1) as usize;
        let (family, magnitude) = family_of(plan, buffer, draw);
        let seed = stream_seed(plan, buffer, draw);
        // A stream that no chunk uses: chunks are numbered from 0.
        let mut once = stream(&seed, u64::MAX);
        let level =
            (0.5 + unit(once.next_u32())) * if once.next_u32().is_multiple_of(2) { 1.0 } else { -1.0 };
        let descending = once.next_u32() % 2 == 1;
        // In half of the draws the last element: a kernel that forgets the end of its input forgets the spike.
        let dice = once.next_u64();
        let spike = if dice >> 63 == 1 { count - 1 } else { (dice % count as u64) as usize };
        Some(FillRule {
            seed,
            shape,
            declared: matches!(buffer.fill, Fill::Uniform { .. }),
            dtype: buffer.dtype,
            family,
            magnitude,
            count,
            level,
            descending,
            spike,
            row: buffer.shape.last().map_or(count, |row| (*row).max(1) as usize),
            rows: once.next_u64(),
            second: draw.is_second(),
            decade: decade(draw),
            index: draw.index,
            together: together(draw),
            dictionary: if family == Family::Named { plan.dictionary.clone() } else { Dictionary::default() },
            pairs: if family == Family::Special { pairs(plan, buffer, draw) } else { None },
            nearly: draw.is_second() && draw.family == Family::Constant && selects(plan, buffer),
        })
    }

    /// The elements of a chunk, little-endian.
    pub(super) fn fill(&self, chunk: usize, out: &mut [u8]) {
        let mut source = stream(&self.seed, chunk as u64);
        if self.family == Family::Wide {
            // Bits, not numbers: fp64 does not hold the low bits of 64-bit integers.
            source.fill_bytes(out);
            if self.dtype.bytes() >= 4 {
                self.share_bits(chunk * CHUNK, out);
            }
            return;
        }
        let values = self.chunk(&mut source, chunk * CHUNK, out.len() / self.dtype.bytes() as usize);
        out.copy_from_slice(&element::narrow(&values, self.dtype));
        if self.family == Family::Special && self.dtype == DType::F32 {
            vary_nans(out, self.rows as usize);
        }
        if self.family == Family::Named {
            self.put_numbers(&mut source, out);
        }
    }

    pub(super) fn constant(&self) -> f64 {
        match self.shape {
            Distribution::Bell { scale } => scale * self.level * self.magnitude,
            Distribution::Flat { low, high, .. } => low + (high - low) * (self.level.abs() - 0.5),
        }
    }

    pub(super) fn ramp_ends(&self) -> (f64, f64) {
        match self.shape {
            // Not symmetric: a sum over the tensor must not cancel to nothing.
            Distribution::Bell { scale } => (-scale * self.magnitude, 3.0 * scale * self.magnitude),
            Distribution::Flat { .. } => self.shape.ends(self.dtype),
        }
    }

    fn chunk(&self, source: &mut ChaCha8Rng, start: usize, length: usize) -> Vec<f64> {
        let (shape, places) = (self.shape, start..start + length);
        let mut changed = |shape, change: &dyn Fn(usize, f64) -> f64| -> Vec<f64> {
            let values = base(source, shape, self.dtype, length);
            (start..).zip(values).map(|(at, value)| change(at, value)).collect()
        };
        match self.family {
            Family::Normal | Family::Named => changed(shape, &|_, value| value),
            Family::Large | Family::Small => changed(shape, &|_, value| value * self.magnitude),
            Family::Constant if self.nearly => {
                places.map(|_| nearly(self.constant(), source.next_u32())).collect()
            }
            Family::Constant => vec![self.whole(self.constant()); length],
            Family::Ramp => places.map(|at| self.ramp(at)).collect(),
            Family::Spikes => self.spikes(source, start, length),
            Family::Borders => places.map(|at| self.border(at)).collect(),
            Family::Zero => places.map(|at| self.zero(at)).collect(),
            Family::Offset => {
                // Beyond these offsets neighboring values of the type do not tell a unit apart.
                let most = match self.dtype {
                    DType::F16 => 64.0,
                    DType::Bf16 => 16.0,
                    _ => f64::INFINITY,
                };
                let offset = self.magnitude.min(most) * shape.size();
                changed(shape, &|_, value| value + offset)
            }
            Family::Huge | Family::Special => {
                let mut values = base(source, shape, self.dtype, length);
                self.sprinkle(source, start, &mut values);
                values
            }
            Family::Subnormal => {
                // Beyond the largest subnormal, so that answers are subnormal whose inputs are not.
                let most = if self.second { 4.0 } else { 1.0 };
                let around = Distribution::Flat { low: -most, high: most, closed: false };
                changed(around, &|_, value| value * smallest_normal(self.dtype))
            }
            Family::Low | Family::Lowest => changed(shape, &|at, value| self.lowered(at / self.row, value)),
            Family::Spread if self.dtype.is_float() => {
                let largest = element::precision(self.dtype).map_or(f64::MAX, |own| own.largest) / 8.0;
                let scale = 10f64.powf(self.decade * self.magnitude).min(largest);
                changed(shape, &|_, value| value * (scale / shape.size()))
            }
            Family::Spread => {
                places.map(|_| self.of_some_length([source.next_u64(), source.next_u64()])).collect()
            }
            Family::Round => places.map(|at| self.round(at, source.next_u32())).collect(),
            Family::Wide | Family::Extremes | Family::Mixed => self.extremes(source, places),
        }
    }

    fn ramp(&self, index: usize) -> f64 {
        let (from, to) = self.ramp_ends();
        let part = self.exchanged(index) as f64 / (self.count.max(2) - 1) as f64;
        // In the second kind every other row goes the other way.
        let turns = self.second && index / self.row % 2 == 1;
        let part = if self.descending != turns { 1.0 - part } else { part };
        self.whole(from + (to - from) * part)
    }

    fn spikes(&self, source: &mut ChaCha8Rng, start: usize, length: usize) -> Vec<f64> {
        let mut values = base(source, self.shape, self.dtype, length);
        let spike = self.level.abs() * self.magnitude * self.shape.size();
        let mut dice = vec![0u8; length * 2];
        source.fill_bytes(&mut dice);
        for (offset, value) in values.iter_mut().enumerate() {
            let at = start + offset;
            if u16::from_le_bytes([dice[2 * offset], dice[2 * offset + 1]]) < 64 {
                *value *= self.magnitude;
            }
            // One of each sign whatever the dice say; the positive one overflows a plain exp.
            if at == self.spike {
                *value = spike;
            } else if at == (self.spike + self.count / 2) % self.count && self.shape.signed() {
                *value = -spike;
            }
        }
        values
    }

    /// Zeros of both signs; in the second kind all but the last: an answer is nothing but what that one contributes.
    fn zero(&self, at: usize) -> f64 {
        let has_signs = self.dtype.is_float() && !self.declared;
        match at + 1 == self.count && self.second {
            true => self.whole(self.shape.ends(self.dtype).1),
            false if has_signs && mixed(at, self.rows).is_multiple_of(3) => -0.0,
            false => 0.0,
        }
    }

    /// Zeros but in the columns at borders; in the second kind in the rows there. All are positive, so that nothing cancels.
    fn border(&self, index: usize) -> f64 {
        let (shape, rows) = (self.shape, self.count / self.row);
        let (place, places) = match self.second && rows > 1 {
            true => (index / self.row, rows),
            false => (index % self.row, self.row),
        };
        if !is_border(place, places) {
            return 0.0;
        }
        let high = if self.declared { shape.ends(self.dtype).1 } else { 2.0 * shape.size() * self.magnitude };
        let part = if place + 1 == places { 1.0 } else { 0.5 + 0.5 * unit(mixed(index, self.rows) as u32) };
        self.whole(high * part).max(self.whole(high.min(1.0)))
    }

    /// Puts numbers of the dictionary in the place of every fourth element, where the type and the declared range hold them.
    fn put_numbers(&self, source: &mut ChaCha8Rng, out: &mut [u8]) {
        let size = self.dtype.bytes() as usize;
        for element in out.chunks_exact_mut(size) {
            let (which, how) = (source.next_u64() as usize, source.next_u32());
            if how % 4 != 0 {
                continue;
            }
            if self.dtype.is_float() {
                let value = named_float(&self.dictionary, which, how >> 2).filter(|value| self.holds(*value));
                if let Some(value) = value {
                    element.copy_from_slice(&element::narrow(&[value], self.dtype));
                }
            } else if let Some(value) = named_integer(&self.dictionary.integers, which, how >> 2)
                && self.holds_integer(value)
            {
                element.copy_from_slice(&value.to_le_bytes()[..size]);
            }
        }
    }

    /// Floats as large as those of the family `Large` at most: what overflows there says nothing about a number.
    fn holds(&self, value: f64) -> bool {
        match self.shape {
            Distribution::Flat { low, high, .. } if self.declared => (low..high).contains(&value),
            shape => value.abs() <= NAMED_MOST * shape.size() * self.magnitude,
        }
    }

    fn holds_integer(&self, value: i128) -> bool {
        let bits = 8 * self.dtype.bytes() as u32;
        let is_signed = integer_range(self.dtype).0 < 0.0;
        let (low, high) = match is_signed {
            true => (-1 << (bits - 1), (1 << (bits - 1)) - 1),
            false => (0, (1 << bits) - 1),
        };
        let in_type = (low..=high).contains(&value);
        let is_plain = !self.declared || self.shape.ends(self.dtype).0 <= value as f64;
        in_type && is_plain && (!self.declared || value as f64 <= self.shape.ends(self.dtype).1)
    }

    /// Which element of a ramp stands in a place: in the second kind a few have changed places, in half of these draws
    /// none in the first half of a row, so that a kernel which takes the beginning of a row for the whole sees nothing.
    fn exchanged(&self, index: usize) -> usize {
        let keeps_first = self.rows >> 1 & 1 == 1 && index % self.row < self.row / 2;
        let mixed = mixed(index, self.rows);
        if self.second && !keeps_first && mixed.is_multiple_of(EXCHANGED) {
            return (mixed / EXCHANGED) as usize % self.count;
        }
        index
    }

    /// An integer of any number of bits, all of them drawn. In the second kind all integers of a case have at most so many
    /// bits as the case draws, and in half of these draws no sign: sums and products then leave the range in which a
    /// float is exact although no operand does.
    fn of_some_length(&self, [dice, bits]: [u64; 2]) -> f64 {
        let unit = |word: u64| (word >> 11) as f64 * 2f64.powi(-53);
        let (low, high) = integer_range(self.dtype);
        let longest = (high + 1.0).log2();
        let (value, signed) = match self.second {
            true => {
                let most = 2f64.powf(1.0 + (longest * (self.decade + 1.0) / 2.0).floor().min(longest - 1.0));
                (most * unit(bits), (self.decade.abs() * 1e6) as u64 & 1 == 1)
            }
            false => (2f64.powf((unit(dice) * longest).floor()) * (1.0 + unit(bits)), true),
        };
        (if signed && dice & 1 == 1 && low < 0.0 { -value } else { value }).clamp(low, high).trunc()
    }

    /// A round number. Of every three rows (of 64 elements where there is one row) one has -1, 0 and 1 only, one has
    /// small numbers and eighths, one has whole numbers up to a few hundred too. A declared range gives the
    /// numbers at its ends.
    fn round(&self, index: usize, dice: u32) -> f64 {
        let shape = self.shape;
        let row = if self.row < self.count { self.row } else { 64 };
        let (kind, part) = (dice % 2, dice >> 1);
        let within = |most: u32| f64::from(part % (2 * most + 1)) - f64::from(most);
        let value = match (index / row % 3, kind) {
            (0, _) => within(1),
            (2, 1) if self.magnitude == 1.0 => within(300),
            (1, 1) => within(32) / 8.0,
            _ => within(8),
        };
        let value = if shape.signed() { value } else { value.abs() };
        let (low, high) = self.ends();
        let value = match (self.declared, self.dtype.is_float()) {
            (true, _) => {
                let (first, last) = (low.ceil(), high.floor());
                let offset = value.abs() % (last - first + 1.0).max(1.0);
                (if dice >> 31 == 0 { first + offset } else { last - offset }).clamp(low, high)
            }
            (false, true) => value,
            (false, false) => value.clamp(low, high),
        };
        self.whole(value)
    }

    /// Integers get whole values.
    pub(super) fn whole(&self, value: f64) -> f64 {
        if self.dtype.is_float() { value } else { value.floor() }
    }

    /// A value as it is in a row far below zero. The first row always lies there; one in three of the others stays
    /// where it was, so that no level fits all rows.
    fn lowered(&self, row: usize, value: f64) -> f64 {
        let size = self.shape.size();
        let mut dice = ChaCha8Rng::seed_from_u64(self.rows.wrapping_add(row as u64));
        if row > 0 && dice.next_u32().is_multiple_of(3) {
            return value;
        }
        if self.family == Family::Low {
            // Halves tell neighbors apart up to here, nearly.
            let most = if matches!(self.dtype, DType::F16 | DType::Bf16) { 200.0 } else { f64::INFINITY };
            return value - self.magnitude.min(most) * (0.75 + 0.25 * unit(dice.next_u32())) * size;
        }
        let largest = element::precision(self.dtype).map_or(f64::MAX, |own| own.largest) / 4.0;
        // Four scales either way are as good as all that a bell gives.
        let within = (value / (4.0 * size)).clamp(-1.0, 1.0);
        -self.magnitude.min(largest) * (0.85 + 0.15 * within)
    }

    fn sprinkle(&self, source: &mut ChaCha8Rng, start: usize, values: &mut [f64]) {
        let largest = element::precision(self.dtype).map_or(f64::MAX, |own| own.largest) / 4.0;
        let huge = self.magnitude.min(largest);
        // So few that most of the answer stays finite, even where a value spreads over a row and a column.
        let share = if self.family == Family::Huge { 64 } else { 8 };
        // Each kind at least once, however small the tensor.
        let sure = [0, 1, 2].map(|kind| (self.spike + kind * (self.count / 3)) % self.count);
        for (offset, value) in values.iter_mut().enumerate() {
            let dice = source.next_u32();
            if self.family == Family::Special
                && let Some(special) =
                    self.paired(start + offset).or_else(|| self.at_border(start + offset, dice))
            {
                *value = special;
                continue;
            }
            let sure = sure.iter().position(|place| *place == start + offset);
            if dice % 65_536 >= share && sure.is_none() {
                continue;
            }
            let kind = sure.map_or((dice >> 16) % 4, |kind| 2 - kind as u32);
            *value = match (self.family, kind) {
                (Family::Huge, 0 | 1) => huge,
                (Family::Huge, _) => -huge,
                (_, 0) => f64::INFINITY,
                (_, 1) => f64::NEG_INFINITY,
                _ => f64::NAN,
            };
        }
    }

    /// A value of the pair that meets at this element: zero beside infinity is a product of its own.
    fn paired(&self, index: usize) -> Option<f64> {
        let (start, input) = self.pairs?;
        let pair = index.checked_sub(start).filter(|pair| *pair < PAIRED.len() * PAIRED.len())?;
        Some(PAIRED[if input == 0 { pair % PAIRED.len() } else { pair / PAIRED.len() }])
    }

    /// Special values where kernels begin and end: NaN in the first or the last place of some rows, zeros with a sign
    /// anywhere, and of many rows one that holds -Inf only, as a mask leaves it.
    fn at_border(&self, index: usize, dice: u32) -> Option<f64> {
        let (row, column, rows) = (index / self.row, index % self.row, self.count / self.row);
        let masked = (self.spike / self.row + rows / 2) % rows.max(1);
        if rows >= ROWS_TO_MASK && row == masked {
            return Some(f64::NEG_INFINITY);
        }
        let border = column == 0 || column + 1 == self.row;
        if rows >= ROWS_TO_MASK && border && (dice >> 8).is_multiple_of(16) {
            return Some(f64::NAN);
        }
        (dice >> 8).is_multiple_of(61).then_some(-0.0)
    }

    /// The ends of the range and what lies round zero: one third of the tensor has them in any order, one holds the
    /// largest only and one the smallest, where sums overflow and neighbors are equal. In one draw of four the whole tensor
    /// holds one of both: products of thirds cancel in a sum. Values of 64 bits do not fit fp64, so these are what fits.
    fn extremes(&self, source: &mut ChaCha8Rng, places: Range<usize>) -> Vec<f64> {
        let (low, high) = self.ends();
        let near = [low, high, 0.0, 1.0, -1.0, low + 1.0, high - 1.0];
        let inside: Vec<f64> = near.into_iter().filter(|value| (low..=high).contains(value)).collect();
        let at = |index: usize| {
            let drawn = inside[source.next_u32() as usize % inside.len()];
            match self.third(index) {
                _ if self.index % 8 == AT_UPPER_END => high,
                _ if self.index % 4 == AT_ONE_END => [low, high][(self.rows >> 20) as usize % 2],
                0 => drawn,
                1 => high,
                _ => low,
            }
        };
        places.map(at).collect()
    }

    /// Those of the range that the file declares, or of the type.
    fn ends(&self) -> (f64, f64) {
        if self.declared { self.shape.ends(self.dtype) } else { integer_range(self.dtype) }
    }

    /// Which third of the tensor's rows an element lies in, counted from one that is drawn; of its elements where there
    /// are fewer rows. A tensor of few elements is all of one kind.
    fn third(&self, index: usize) -> usize {
        let (place, places) = match self.count / self.row {
            rows if rows >= 3 => (index / self.row, self.count.div_ceil(self.row)),
            _ => (index, self.count),
        };
        let first = (self.rows >> 8) as usize % 3;
        if places < 3 { first } else { (place * 3 / places + first) % 3 }
    }

    /// Makes random integers alike in two thirds of a tensor. In one they share the upper half, so that only the lower one
    /// tells them apart, with its own highest bit; that half is often the largest or the smallest, so that a maximum
    /// lies there. In half of the draws they share the lower half instead, which is often all zeros or all ones, as
    /// multiples of a power of two are. In the other third they share all but ten bits, which fp64 does not tell apart
    /// either; these are often small numbers of either sign.
    fn share_bits(&self, start: usize, elements: &mut [u8]) {
        let size = self.dtype.bytes() as usize;
        let bits = 8 * size as u32;
        let whole = u64::MAX >> (64 - bits);
        let dice = self.together.unwrap_or(self.rows);
        let ends = [dice.rotate_left(23), whole >> 1, whole, 0, 1 << (bits - 1)];
        let lower = dice >> 48 & 1 == 1;
        // Multiples of a large power of two have lower halves of zeros.
        let half = if lower && dice >> 49 & 3 != 0 { 0 } else { ends[(dice >> 16) as usize % ends.len()] };
        let most = [dice.rotate_left(41), dice.rotate_left(41), 0, whole][(dice >> 52) as usize % 4];
        for (offset, element) in elements.chunks_exact_mut(size).enumerate() {
            let keeps = match self.third(start + offset) {
                0 => continue,
                1 if lower => whole << (bits / 2) & whole,
                1 => whole >> (bits / 2),
                _ => 0x3ff,
            };
            let mut word = [0; 8];
            word[..size].copy_from_slice(element);
            let shared = if keeps == 0x3ff { most } else { half };
            let value = u64::from_le_bytes(word) & keeps | shared & whole & !keeps;
            element.copy_from_slice(&value.to_le_bytes()[..size]);
        }
    }
}

const PAIRED: [f64; 5] = [0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1.0];

fn pairs(plan: &ProblemPlan, buffer: &BufferPlan, draw: Draw) -> Option<(usize, usize)> {
    let alike = |own: &&BufferPlan| varies_in(own, Family::Special) && own.elements() == buffer.elements();
    let mut inputs = plan.buffers.iter().filter(alike);
    let input = inputs.clone().take(2).position(|own| own.name == buffer.name)?;
    inputs.nth(1)?;
    // A small tensor would hold little else.
    let places = (buffer.elements() as usize).checked_sub(16 * PAIRED.len() * PAIRED.len())?;
    let mut dice = ChaCha8Rng::seed_from_u64(draw.seed ^ u64::from(draw.index));
    dice.set_stream(4);
    Some((dice.next_u64() as usize % (places + 1), input))
}

/// Times the scale of plain inputs.
const NAMED_MOST: f64 = 128.0;

/// A number of the dictionary as it stands, its neighbors, or a multiple of it or of a neighbor of a multiple.
fn named_integer(numbers: &[u64], which: usize, how: u32) -> Option<i128> {
    let number = i128::from(*numbers.get(which % numbers.len().max(1))?);
    let factor = if how & 1 == 0 { 1 } else { 2 + i128::from(how >> 8 & 63) };
    let value = number * factor + [0, 0, 1, -1][(how >> 1 & 3) as usize];
    Some(if how >> 3 & 7 == 0 { -value } else { value })
}

fn named_float(dictionary: &Dictionary, which: usize, how: u32) -> Option<f64> {
    let (floats, integers) = (&dictionary.floats, &dictionary.integers);
    let at = which % (floats.len() + integers.len()).max(1);
    let number =
        floats.get(at).copied().or_else(|| integers.get(at - floats.len()).map(|own| *own as f64))?;
    let factor =
        [1.0, 1.0, 1.0 + 2f64.powi(-20), 1.0 - 2f64.powi(-20), 2.0, 3.0, 0.5, -1.0][(how & 7) as usize];
    Some(if how >> 3 & 1 == 1 { -number * factor } else { number * factor })
}

/// Whether an element lies at an end of a vector, a tile or a part: next to a power of two, a quarter or the last.
fn is_border(place: usize, places: usize) -> bool {
    let near = |border: usize| place.abs_diff(border) <= 1;
    let power = |place: usize| place.is_power_of_two();
    place < 2
        || power(place)
        || power(place + 1)
        || power(place - 1)
        || (1..=4).any(|quarter| near(quarter * places / 4))
}

/// With fewer rows nothing would be left of some columns.
const ROWS_TO_MASK: usize = 8;

#[cfg(test)]
#[path = "inputs_tests.rs"]
mod tests;
