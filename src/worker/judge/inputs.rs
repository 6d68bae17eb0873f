//! Seeded inputs: what a case's buffers hold before a run.
//!
//! Every tensor draws from a stream of its own (named by study seed, problem, buffer, family), so that
//! no two are copies of each other and a kernel that swaps K and V is found out. Families stress range,
//! order and sparsity, and go over the whole range of the data type unless the space file declares a
//! range: no family leaves a declared range. All arithmetic here is exact or IEEE, hence the same
//! everywhere.

use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, Fill, ProblemPlan, Role};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::element;
use super::npy;

/// Elements per random stream; a multiple of what one task needs to be worth its start.
const CHUNK: usize = 1 << 15;

/// A way to fill the random inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// As the space file says.
    Normal,
    /// Magnified: finds missing max-subtraction and overflow.
    Large,
    /// Times 1e-3: finds flushed subnormals and absolute tolerances.
    Small,
    /// All elements of a tensor equal: biased sums, ties everywhere.
    Constant,
    /// Monotone over the tensor, up or down: a running maximum changes at every step, or never.
    Ramp,
    /// One element in about a thousand is huge.
    Spikes,
    /// All elements 0.
    Zero,
    /// A large offset: differences of sums and squares cancel.
    Offset,
    /// One element in about a thousand is near the end of the data type's range.
    Huge,
    /// All elements are subnormal.
    Subnormal,
    /// A few elements are NaN or infinite.
    Special,
    /// Integers: every bit pattern. Floats and declared ranges have other families for that.
    Wide,
    /// Integers: the ends of the range, and what lies round zero.
    Extremes,
}

impl Family {
    /// Every family, `Normal` first.
    pub const ALL: [Family; 13] = [
        Family::Normal,
        Family::Large,
        Family::Small,
        Family::Constant,
        Family::Ramp,
        Family::Spikes,
        Family::Zero,
        Family::Offset,
        Family::Huge,
        Family::Subnormal,
        Family::Special,
        Family::Wide,
        Family::Extremes,
    ];

    /// The name in space files and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Family::Normal => "normal",
            Family::Large => "large",
            Family::Small => "small",
            Family::Constant => "constant",
            Family::Ramp => "ramp",
            Family::Spikes => "spikes",
            Family::Zero => "zero",
            Family::Offset => "offset",
            Family::Huge => "huge",
            Family::Subnormal => "subnormal",
            Family::Special => "special",
            Family::Wide => "wide",
            Family::Extremes => "extremes",
        }
    }

    /// The family of that name.
    pub fn parse(name: &str) -> Option<Family> {
        Family::ALL.into_iter().find(|family| family.as_str() == name)
    }

    /// Magnitudes to try in turn, until the right answer fits its data type: an f16 product of large
    /// inputs overflows, which says nothing about a kernel.
    pub fn magnitudes(self) -> &'static [f64] {
        match self {
            Family::Large => &[30.0, 8.0, 2.0],
            Family::Spikes => &[1000.0, 100.0, 10.0, 2.0],
            Family::Small => &[1e-3],
            // A sum of equal terms grows with their number.
            Family::Constant | Family::Ramp => &[1.0, 0.1, 0.01],
            Family::Offset => &[1000.0, 30.0, 4.0],
            // The last ones leave room for squares and products in f32 and f16.
            Family::Huge => &[1e30, 1e12, 1e4, 100.0],
            _ => &[1.0],
        }
    }

    /// Whether its values are such that kernels disagree about the answer.
    pub fn is_special(self) -> bool {
        matches!(self, Family::Huge | Family::Subnormal | Family::Special)
    }

    /// Whether it goes to the edge of the data type. Such families need no large shapes: what they find
    /// depends on values, and a small shape has as many kinds of values as a large one.
    pub fn explores_range(self) -> bool {
        self >= Family::Zero
    }
}

/// Which inputs a case has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// The study's secret seed.
    pub seed: u64,
    /// Which of the case's seeds.
    pub index: u32,
    pub family: Family,
    /// One of `Family::magnitudes`.
    pub magnitude: f64,
}

/// A fresh set of contents of the same kind, for calls that no earlier call resembles. `number` counts them.
pub fn another(draw: Draw, number: u32) -> Draw {
    // Beyond every index that cases use.
    Draw { index: 1_000_000 + number, ..draw }
}

/// Whether draws change this buffer at all: constants and files are the same in every case.
pub fn varies(buffer: &BufferPlan) -> bool {
    matches!(buffer.role, Role::Input | Role::Inout)
        && matches!(buffer.fill, Fill::Unrestricted | Fill::Normal { .. } | Fill::Uniform { .. })
}

/// Whether a family changes this buffer. A declared range is hard, so only families that stay inside it do.
pub fn varies_in(buffer: &BufferPlan, family: Family) -> bool {
    use Family::{Constant, Extremes, Huge, Large, Normal, Offset, Ramp, Small, Special, Spikes};
    use Family::{Subnormal, Wide, Zero};
    if !varies(buffer) {
        return false;
    }
    match (&buffer.fill, buffer.dtype.is_float(), family) {
        (_, _, Normal | Constant | Ramp) => true,
        (Fill::Uniform { low, high, .. }, _, Zero) => *low <= 0.0 && *high > 0.0,
        (Fill::Uniform { .. }, _, Extremes) => true,
        (Fill::Uniform { .. }, _, _) => false,
        (_, _, Zero) => true,
        (_, true, Large | Small | Spikes | Offset | Huge | Subnormal | Special) => true,
        (_, false, Wide | Extremes) => true,
        _ => false,
    }
}

/// The contents of one input buffer, little-endian.
pub fn generate(plan: &ProblemPlan, buffer: &BufferPlan, draw: Draw) -> Result<Vec<u8>, DeviceError> {
    let count = buffer.elements().max(1) as usize;
    match &buffer.fill {
        Fill::Constant { value } => Ok(element::narrow(&vec![*value; count], buffer.dtype)),
        Fill::Npy { path } => npy::read_bytes(path, buffer),
        Fill::Normal { scale } => Ok(random(plan, buffer, draw, Distribution::Bell { scale: *scale })),
        Fill::Unrestricted if buffer.dtype.is_float() => {
            Ok(random(plan, buffer, draw, Distribution::Bell { scale: 1.0 }))
        }
        Fill::Unrestricted => Ok(random(plan, buffer, draw, Distribution::Flat { low: 0.0, high: 100.0 })),
        Fill::Uniform { low, high, inclusive } => {
            let high = if *inclusive && !buffer.dtype.is_float() { high + 1.0 } else { *high };
            Ok(random(plan, buffer, draw, Distribution::Flat { low: *low, high }))
        }
    }
}

/// The distribution before the family changes it.
#[derive(Clone, Copy)]
enum Distribution {
    Bell { scale: f64 },
    Flat { low: f64, high: f64 },
}

impl Distribution {
    /// A typical magnitude.
    fn size(self) -> f64 {
        match self {
            Distribution::Bell { scale } => scale,
            Distribution::Flat { low, high } => high.abs().max(low.abs()),
        }
    }

    /// What the end of the range is: an integer range excludes its upper end, a float range nearly does.
    fn ends(self, dtype: DType) -> (f64, f64) {
        match self {
            Distribution::Bell { scale } => (-4.0 * scale, 4.0 * scale),
            Distribution::Flat { low, high } if dtype.is_float() => (low, low + (high - low) * 0.999),
            Distribution::Flat { low, high } => (low, high - 1.0),
        }
    }

    /// Whether negative values belong to it.
    fn signed(self) -> bool {
        match self {
            Distribution::Bell { .. } => true,
            Distribution::Flat { low, .. } => low < 0.0,
        }
    }
}

/// The rule by which one element is computed.
struct FillRule {
    shape: Distribution,
    /// Whether the file declares the range, which then holds for every family.
    declared: bool,
    dtype: DType,
    family: Family,
    magnitude: f64,
    count: usize,
    /// The value of a constant tensor, drawn once.
    level: f64,
    /// Ramps go down as often as up.
    descending: bool,
    /// Where the positive spike is.
    spike: usize,
}

fn random(plan: &ProblemPlan, buffer: &BufferPlan, draw: Draw, shape: Distribution) -> Vec<u8> {
    let count = buffer.elements().max(1) as usize;
    let family = if varies_in(buffer, draw.family) { draw.family } else { Family::Normal };
    let seed = stream_seed(plan, buffer, draw);
    // A stream that no chunk uses: chunks are numbered from 0.
    let mut once = stream(&seed, u64::MAX);
    let level = (0.5 + unit(once.next_u32())) * if once.next_u32().is_multiple_of(2) { 1.0 } else { -1.0 };
    let recipe = FillRule {
        shape,
        declared: matches!(buffer.fill, Fill::Uniform { .. }),
        dtype: buffer.dtype,
        family,
        magnitude: draw.magnitude,
        count,
        level,
        descending: once.next_u32() % 2 == 1,
        spike: (once.next_u64() % count as u64) as usize,
    };
    let size = buffer.dtype.bytes() as usize;
    let mut bytes = vec![0u8; count * size];
    bytes.par_chunks_mut(CHUNK * size).enumerate().for_each(|(chunk, out)| {
        // A stream for each chunk, so that the contents do not depend on the number of threads.
        let mut source = stream(&seed, chunk as u64);
        if family == Family::Wide {
            // Bits, not numbers: fp64 does not hold the low bits of 64-bit integers.
            source.fill_bytes(out);
            return;
        }
        let values = recipe.chunk(&mut source, chunk * CHUNK, out.len() / size);
        store(&values, recipe.dtype, out);
    });
    bytes
}

impl FillRule {
    fn chunk(&self, source: &mut ChaCha8Rng, start: usize, length: usize) -> Vec<f64> {
        match (self.family, self.shape) {
            (Family::Constant, shape) => {
                let value = match shape {
                    Distribution::Bell { scale } => scale * self.level * self.magnitude,
                    Distribution::Flat { low, high } => low + (high - low) * (self.level.abs() - 0.5),
                };
                vec![self.whole(value); length]
            }
            (Family::Ramp, shape) => {
                let (from, to) = match shape {
                    // Not symmetric: a sum over the tensor must not cancel to nothing.
                    Distribution::Bell { scale } => (-scale * self.magnitude, 3.0 * scale * self.magnitude),
                    Distribution::Flat { .. } => shape.ends(self.dtype),
                };
                let steps = (self.count.max(2) - 1) as f64;
                let at = |index: usize| {
                    let part = index as f64 / steps;
                    let part = if self.descending { 1.0 - part } else { part };
                    self.whole(from + (to - from) * part)
                };
                (start..start + length).map(at).collect()
            }
            (Family::Spikes, shape) => {
                let mut values = base(source, shape, self.dtype, length);
                let mut dice = vec![0u8; length * 2];
                source.fill_bytes(&mut dice);
                for (offset, value) in values.iter_mut().enumerate() {
                    let at = start + offset;
                    if u16::from_le_bytes([dice[2 * offset], dice[2 * offset + 1]]) < 64 {
                        *value *= self.magnitude;
                    }
                    // One of each sign whatever the dice say; the positive one overflows a plain exp.
                    if at == self.spike {
                        *value = self.level.abs() * self.magnitude * shape.size();
                    } else if at == (self.spike + self.count / 2) % self.count && shape.signed() {
                        *value = -self.level.abs() * self.magnitude * shape.size();
                    }
                }
                values
            }
            (Family::Normal, shape) => base(source, shape, self.dtype, length),
            (Family::Large | Family::Small, shape) => {
                let mut values = base(source, shape, self.dtype, length);
                values.iter_mut().for_each(|value| *value *= self.magnitude);
                values
            }
            (Family::Zero, _) => vec![0.0; length],
            (Family::Offset, shape) => {
                let mut values = base(source, shape, self.dtype, length);
                let offset = self.magnitude.min(self.offset_max()) * shape.size();
                values.iter_mut().for_each(|value| *value += offset);
                values
            }
            (Family::Huge | Family::Special, shape) => {
                let mut values = base(source, shape, self.dtype, length);
                self.sprinkle(source, start, &mut values);
                values
            }
            (Family::Subnormal, _) => {
                let tiny = smallest_normal(self.dtype);
                let mut values =
                    base(source, Distribution::Flat { low: -1.0, high: 1.0 }, self.dtype, length);
                values.iter_mut().for_each(|value| *value *= tiny);
                values
            }
            (Family::Wide | Family::Extremes, shape) => self.integers(source, shape, length),
        }
    }

    /// Integers get whole values.
    fn whole(&self, value: f64) -> f64 {
        if self.dtype.is_float() { value } else { value.floor() }
    }

    /// The largest offset at which neighboring values of the type still tell a unit apart.
    fn offset_max(&self) -> f64 {
        match self.dtype {
            DType::F16 => 64.0,
            DType::Bf16 => 16.0,
            _ => f64::INFINITY,
        }
    }

    /// Puts huge or special values in place of a few, and of at least one.
    fn sprinkle(&self, source: &mut ChaCha8Rng, start: usize, values: &mut [f64]) {
        let largest = element::precision(self.dtype).map_or(f64::MAX, |own| own.largest) / 4.0;
        let huge = self.magnitude.min(largest);
        // So few that most of the answer stays finite, even where a value spreads over a row and a column.
        let share = if self.family == Family::Huge { 64 } else { 8 };
        // Each kind at least once, however small the tensor.
        let sure = [0, 1, 2].map(|kind| (self.spike + kind * (self.count / 3)) % self.count);
        for (offset, value) in values.iter_mut().enumerate() {
            let dice = source.next_u32();
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

    /// Integers as bit patterns; `store` takes them from the low bits. Values of 64 bits do not fit fp64,
    /// so the extremes are what fits, and `wide_bytes` draws the rest.
    fn integers(&self, source: &mut ChaCha8Rng, shape: Distribution, length: usize) -> Vec<f64> {
        let (low, high) = if self.declared { shape.ends(self.dtype) } else { integer_range(self.dtype) };
        let near = [low, high, 0.0, 1.0, -1.0, low + 1.0, high - 1.0];
        let inside: Vec<f64> = near.into_iter().filter(|value| (low..=high).contains(value)).collect();
        (0..length).map(|_| inside[source.next_u32() as usize % inside.len()]).collect()
    }
}

/// The smallest normal value of a float type.
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
        Distribution::Flat { low, high } => {
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

/// A standard bell-shaped variable: the sum of eight 16-bit uniforms (Irwin–Hall), tails to ±4.9.
/// Integer sums need no logarithm or cosine, whose last bits differ between C libraries.
fn bell(raw: &[u8]) -> f64 {
    let sum: u32 = raw.chunks_exact(2).map(|pair| u32::from(u16::from_le_bytes([pair[0], pair[1]]))).sum();
    // Mean 4 × 65535; the variance of one is (65536² − 1)/12, of eight together 8/12 of 65536².
    (f64::from(sum) - 4.0 * 65535.0) * (1.5f64.sqrt() / 65536.0)
}

/// A uniform variable in [0, 1).
fn unit(word: u32) -> f64 {
    f64::from(word) * 2f64.powi(-32)
}

fn store(values: &[f64], dtype: DType, out: &mut [u8]) {
    out.copy_from_slice(&element::narrow(values, dtype));
}

fn stream(seed: &[u8; 32], number: u64) -> ChaCha8Rng {
    let mut source = ChaCha8Rng::from_seed(*seed);
    source.set_stream(number);
    source
}

fn stream_seed(plan: &ProblemPlan, buffer: &BufferPlan, draw: Draw) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"evo input 1");
    hasher.update(&draw.seed.to_le_bytes());
    hasher.update(&draw.index.to_le_bytes());
    for part in [plan.name.as_str(), buffer.name.as_str(), draw.family.as_str()] {
        // The length keeps names apart that would be equal when joined.
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn buffer(name: &str, dtype: DType, count: u64, fill: Fill) -> BufferPlan {
        BufferPlan { name: name.into(), dtype, shape: vec![count], role: Role::Input, fill }
    }

    fn plan(buffers: Vec<BufferPlan>) -> ProblemPlan {
        ProblemPlan {
            name: "p".into(),
            sizes: BTreeMap::new(),
            weight: 1.0,
            buffers,
            scalars: vec![],
            launches: vec![],
            reference_launches: vec![],
            flops: None,
            bytes: None,
        }
    }

    fn values(name: &str, dtype: DType, count: u64, fill: Fill, family: Family, seed: u64) -> Vec<f64> {
        let buffer = buffer(name, dtype, count, fill);
        let draw = Draw { seed, index: 0, family, magnitude: family.magnitudes()[0] };
        let bytes = generate(&plan(vec![buffer.clone()]), &buffer, draw).unwrap();
        element::widen(&bytes, dtype)
    }

    const BELL: Fill = Fill::Normal { scale: 1.0 };

    #[test]
    fn the_bell_has_mean_0_and_variance_1() {
        let values = values("x", DType::F64, 200_000, BELL, Family::Normal, 1);
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count;
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.01, "{mean} {variance}");
    }

    #[test]
    fn the_same_seed_gives_the_same_tensor_and_names_give_others() {
        let draw = |name: &str, seed| values(name, DType::F16, 70_000, BELL, Family::Normal, seed);
        assert_eq!(draw("k", 7), draw("k", 7));
        assert_ne!(draw("k", 7), draw("v", 7));
        assert_ne!(draw("k", 7), draw("k", 8));
        // Chunks are streams of their own: no chunk repeats another.
        let long = draw("k", 7);
        assert_ne!(long[..CHUNK], long[CHUNK..2 * CHUNK]);
    }

    #[test]
    fn families_do_what_their_names_say() {
        let rms = |v: &[f64]| (v.iter().map(|v| v * v).sum::<f64>() / v.len() as f64).sqrt();
        let draw = |family| values("x", DType::F32, 4096, BELL, family, 3);
        assert!((rms(&draw(Family::Large)) / 30.0 - 1.0).abs() < 0.1);
        assert!((rms(&draw(Family::Small)) / 1e-3 - 1.0).abs() < 0.1);
        let constant = draw(Family::Constant);
        assert!(constant[0].abs() >= 0.5 && constant.iter().all(|v| *v == constant[0]));
        let ramp = draw(Family::Ramp);
        let up = ramp[1] > ramp[0];
        assert!(ramp.windows(2).all(|pair| (pair[1] > pair[0]) == up));
        let spikes = draw(Family::Spikes).iter().filter(|v| v.abs() > 20.0).count();
        assert!((1..40).contains(&spikes), "{spikes}");
        let single = values("x", DType::F32, 1, BELL, Family::Spikes, 3);
        assert!(single[0].abs() > 1.0);
    }

    #[test]
    fn no_family_leaves_a_declared_range() {
        for family in Family::ALL {
            let fill = Fill::Uniform { low: 0.0, high: 10.0, inclusive: false };
            let drawn = values("i", DType::I32, 5000, fill.clone(), family, 5);
            assert!(drawn.iter().all(|v| (0.0..10.0).contains(v) && v.fract() == 0.0), "{family:?}");
            if !matches!(family, Family::Constant | Family::Zero) {
                assert!(drawn.contains(&0.0) && drawn.contains(&9.0), "{family:?}");
            }
            let floats = values("f", DType::F32, 5000, fill.clone(), family, 5);
            assert!(floats.iter().all(|v| (0.0..10.0).contains(v)), "{family:?}");
            let closed = Fill::Uniform { low: 0.0, high: 9.0, inclusive: true };
            assert_eq!(values("i", DType::I32, 5000, closed, family, 5), drawn);
            let fixed = values("c", DType::F16, 10, Fill::Constant { value: 2.5 }, family, 5);
            assert_eq!(fixed, vec![2.5; 10]);
        }
    }

    #[test]
    fn families_go_to_the_edge_of_the_type_where_nothing_is_declared() {
        let floats = |dtype, family| values("x", dtype, 4096, Fill::Unrestricted, family, 3);
        assert!(floats(DType::F32, Family::Special).iter().any(|v| !v.is_finite()));
        assert!(floats(DType::F32, Family::Special).iter().filter(|v| !v.is_finite()).count() < 40);
        assert!(floats(DType::F32, Family::Huge).iter().any(|v| v.abs() >= 1e30));
        assert!(floats(DType::F16, Family::Huge).iter().any(|v| v.abs() > 16_000.0 && v.is_finite()));
        let tiny = floats(DType::F32, Family::Subnormal);
        assert!(
            tiny.iter().all(|v| v.abs() <= f64::from(f32::MIN_POSITIVE)) && tiny.iter().any(|v| *v != 0.0)
        );
        assert!(floats(DType::F32, Family::Offset).iter().all(|v| *v > 900.0));
        assert!(floats(DType::F16, Family::Zero).iter().all(|v| *v == 0.0));
        let bytes = |family| values("b", DType::U8, 4096, Fill::Unrestricted, family, 3);
        assert!(bytes(Family::Wide).iter().any(|v| *v >= 128.0));
        assert!(bytes(Family::Extremes).contains(&255.0) && !bytes(Family::Extremes).contains(&-1.0));
        let longs = values("l", DType::I64, 4096, Fill::Unrestricted, Family::Extremes, 3);
        assert!(longs.contains(&-2f64.powi(63)) && longs.contains(&-1.0));
    }
}
