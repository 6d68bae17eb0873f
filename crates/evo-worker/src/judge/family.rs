//! Families of inputs: what kinds of values a kernel meets beside those that its file asks for. And draws: which of many
//! possible contents a case has, the random streams that follow from that, and the family of each buffer: most have the
//! case's, or are plain where that does not apply to them.

use evo_protocol::check::GateCheck;
use evo_protocol::plan::{BufferPlan, Fill, ProblemPlan};
use evo_protocol::words;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

words! {
    #[derive(Hash, PartialOrd, Ord)]
    Family {
        /// As the space file says.
        Normal = "normal",
        /// Magnified: finds missing max-subtraction and overflow.
        Large = "large",
        /// Times 1e-3: finds flushed subnormals and absolute tolerances.
        Small = "small",
        /// All elements of a tensor equal: biased sums, ties everywhere.
        Constant = "constant",
        /// Monotone over the tensor, up or down: a running maximum changes at every step, or never.
        Ramp = "ramp",
        /// One element in about a thousand is huge.
        Spikes = "spikes",
        /// All elements 0, in half of the draws but for the last.
        Zero = "zero",
        /// A large offset: differences of sums and squares cancel.
        Offset = "offset",
        /// One element in about a thousand is near the end of the data type's range.
        Huge = "huge",
        /// All elements are subnormal.
        Subnormal = "subnormal",
        /// A few elements are NaN or infinite.
        Special = "special",
        /// Integers: every bit pattern. Floats and declared ranges have other families for that.
        Wide = "wide",
        /// Integers: the ends of the range, and what lies round zero.
        Extremes = "extremes",
        /// Two rows in three lie far below zero, each at a level of its own: `exp` gives 0 there unless the row's own
        /// maximum is subtracted, and a maximum that starts at 0 is wrong.
        Low = "low",
        /// Two rows in three hold huge negative numbers only, below every number with which maxima are started.
        Lowest = "lowest",
        /// Whole numbers and eighths near zero, many of them equal: ties, halves that round either way, powers of two.
        Round = "round",
        /// Floats at one order of magnitude, which each seed draws; integers of every length.
        Spread = "spread",
        /// Every tensor has a family of its own, and one of several is zero: what a product, a mask or a scale hides while
        /// all tensors are of one kind.
        Mixed = "mixed",
        /// Numbers that the candidate or its reference names, their neighbors and their multiples, among plain ones.
        Named = "named",
        /// Zeros but at the ends of vectors, tiles and halves: what a sum leaves out there is a large share of it.
        Borders = "borders",
    }
}

/// What a family is asked of, and how.
struct FamilyRow {
    types: AskedTypes,
    /// Whether it stays inside a range that the file declares, which is hard.
    in_range: fn(f64, f64) -> bool,
    /// To try in turn, until the right answer fits its data type: an f16 product of large inputs overflows, which says
    /// nothing about a kernel.
    magnitudes: &'static [f64],
}

#[derive(Clone, Copy)]
enum AskedTypes {
    All,
    Floats,
    Integers,
}

impl Family {
    fn row(self) -> FamilyRow {
        use AskedTypes::{All, Floats, Integers};
        let always = |_, _| true;
        let never = |_, _| false;
        let of = |types, in_range, magnitudes| FamilyRow { types, in_range, magnitudes };
        match self {
            Family::Normal => of(All, always, &[1.0]),
            Family::Large => of(Floats, never, &[30.0, 8.0, 2.0]),
            Family::Small => of(Floats, never, &[1e-3]),
            // A sum of equal terms grows with their number.
            Family::Constant => of(All, always, &[1.0, 0.1, 0.01]),
            Family::Ramp => of(All, always, &[1.0, 0.1, 0.01]),
            Family::Spikes => of(Floats, never, &[1000.0, 100.0, 10.0, 2.0]),
            Family::Zero => of(All, |low, high| low <= 0.0 && high > 0.0, &[1.0]),
            Family::Offset => of(Floats, never, &[1000.0, 30.0, 4.0]),
            // The last ones leave room for squares and products in f32 and f16.
            Family::Huge => of(Floats, never, &[1e30, 1e12, 1e4, 100.0]),
            Family::Subnormal => of(Floats, never, &[1.0]),
            Family::Special => of(Floats, never, &[1.0]),
            Family::Wide => of(Integers, never, &[1.0]),
            Family::Extremes => of(Integers, always, &[1.0]),
            // exp(-100) is the smallest number of f32, and exp(-700) nearly that of f64.
            Family::Low => of(Floats, never, &[1000.0, 200.0, 30.0, 4.0]),
            // Rows lie at 0.7 times this and below: maxima are often started at -1e30 or -1e4.
            Family::Lowest => of(Floats, never, &[1.5e30, 1.5e12, 1.5e4, 150.0]),
            // A range that holds a few round numbers. Smaller numbers leave room for products in f16.
            Family::Round => of(All, |low, high| high - low >= 4.0, &[1.0, 0.1]),
            // Decades on each side of 1: all that f32 has, what leaves room for products, and what f16 has.
            Family::Spread => of(All, never, &[36.0, 18.0, 8.0, 3.0]),
            // Of the tensors that are large.
            Family::Mixed => of(All, always, &[30.0, 8.0, 2.0]),
            Family::Named => of(All, always, &[1.0, 0.1, 0.01]),
            Family::Borders => of(All, |low, high| low <= 0.0 && high > 0.0, &[1.0, 0.1, 0.01]),
        }
    }

    /// Few kernels are wrong at these alone, so variants that do not win are not asked.
    pub(super) fn is_for_finalists(self) -> bool {
        matches!(self, Family::Named | Family::Borders)
    }

    pub fn magnitudes(self) -> &'static [f64] {
        self.row().magnitudes
    }

    /// The check that asks for it; plain inputs are always met.
    pub fn check(self) -> Option<GateCheck> {
        GateCheck::named(&format!("inputs_{}", self.as_str()))
    }

    /// Whether it changes this buffer, whose contents are drawn.
    fn applies(self, buffer: &BufferPlan) -> bool {
        let row = self.row();
        match (&buffer.fill, row.types) {
            (Fill::Uniform { low, high, .. }, _) => (row.in_range)(*low, *high),
            (_, AskedTypes::All) => true,
            (_, AskedTypes::Floats) => buffer.dtype.is_float(),
            (_, AskedTypes::Integers) => !buffer.dtype.is_float(),
        }
    }

    pub fn is_special(self) -> bool {
        matches!(self, Family::Huge | Family::Subnormal | Family::Special | Family::Lowest)
    }

    /// Whether it goes to the edge of the data type. Such families need no large shapes: what they find
    /// depends on values, and a small shape has as many kinds of values as a large one.
    pub fn explores_range(self) -> bool {
        self >= Family::Zero
    }
}

/// Which of many possible contents the inputs of a case have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Draw {
    /// The study's secret seed.
    pub seed: u64,
    pub index: u32,
    pub family: Family,
    /// One of `Family::magnitudes`.
    pub magnitude: f64,
}

impl Draw {
    /// Several families have two kinds, which find different faults; a case's next seed has the other. The study's seed
    /// decides which one comes first, except where the second kind is for finalists only.
    pub fn is_second(self) -> bool {
        if matches!(self.family, Family::Large | Family::Subnormal) {
            return self.index & 1 == 1;
        }
        let mut dice = ChaCha8Rng::seed_from_u64(self.seed);
        // A stream of its own: others start from the same seed.
        dice.set_stream(2);
        (dice.next_u32() ^ self.index) & 1 == 1
    }
}

pub fn varies(buffer: &BufferPlan) -> bool {
    buffer.role.is_read()
        && matches!(buffer.fill, Fill::Unrestricted | Fill::Normal { .. } | Fill::Uniform { .. })
}

pub fn varies_in(buffer: &BufferPlan, family: Family) -> bool {
    varies(buffer) && family.applies(buffer)
}

/// A number that looks random for every place.
pub(super) fn mixed(index: usize, bits: u64) -> u64 {
    (index as u64 ^ bits).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

pub(super) fn stream(seed: &[u8; 32], number: u64) -> ChaCha8Rng {
    let mut source = ChaCha8Rng::from_seed(*seed);
    source.set_stream(number);
    source
}

pub(super) fn stream_seed(plan: &ProblemPlan, buffer: &BufferPlan, draw: Draw) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"evo input 2");
    hasher.update(&draw.seed.to_le_bytes());
    hasher.update(&draw.index.to_le_bytes());
    for part in [plan.name.as_str(), buffer.name.as_str(), draw.family.as_str()] {
        // The length keeps names apart that would be equal when joined.
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    *hasher.finalize().as_bytes()
}

pub(super) fn family_of(plan: &ProblemPlan, buffer: &BufferPlan, draw: Draw) -> (Family, f64) {
    match draw.family {
        Family::Mixed => mixed_family(plan, buffer, draw),
        family if takes_part(plan, buffer, draw) => (family, draw.magnitude),
        _ => (Family::Normal, 1.0),
    }
}

/// In the second kind of `Subnormal` and in `Borders` one buffer takes part, and the others are plain: products of two
/// subnormal numbers are zero, and so are nearly all of two buffers of zeros.
fn takes_part(plan: &ProblemPlan, buffer: &BufferPlan, draw: Draw) -> bool {
    let pair = draw.index as usize / 2;
    let chosen = match draw.family {
        Family::Subnormal if draw.is_second() => mixed(pair, draw.seed) as usize,
        // Neighboring pairs of seeds take another one.
        Family::Borders => (mixed(0, draw.seed) as usize).wrapping_add(pair),
        _ => return varies_in(buffer, draw.family),
    };
    is_chosen(plan, buffer, draw.family, chosen)
}

fn is_chosen(plan: &ProblemPlan, buffer: &BufferPlan, family: Family, number: usize) -> bool {
    let all = || plan.buffers.iter().filter(|own| varies_in(own, family));
    all().nth(number % all().count().max(1)).is_some_and(|own| own.name == buffer.name)
}

/// Neighboring seeds make another buffer zero.
fn mixed_family(plan: &ProblemPlan, buffer: &BufferPlan, draw: Draw) -> (Family, f64) {
    const OTHERS: [Family; 9] = [
        Family::Normal,
        Family::Normal,
        Family::Constant,
        Family::Ramp,
        Family::Large,
        Family::Small,
        Family::Spikes,
        Family::Extremes,
        Family::Round,
    ];
    let several = plan.buffers.iter().filter(|own| varies_in(own, Family::Zero)).count() > 1;
    let turn = (mixed(0, draw.seed) as usize).wrapping_add(draw.index as usize);
    if several && is_chosen(plan, buffer, Family::Zero, turn) {
        return (Family::Zero, 1.0);
    }
    let mut dice = stream(&stream_seed(plan, buffer, draw), u64::MAX - 1);
    let fits = OTHERS.into_iter().filter(|family| varies_in(buffer, *family)).collect::<Vec<_>>();
    let family = fits.get(dice.next_u32() as usize % fits.len().max(1)).copied().unwrap_or(Family::Normal);
    match family {
        Family::Large | Family::Spikes => (family, draw.magnitude),
        family => (family, family.magnitudes()[0]),
    }
}
