//! What the device does to every element of large buffers, a launch or two each (`reference/elements.cu`).

use evo_device::device::{BoundArgument, BufferId, Device};
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::element;
use super::on_device::{DIGITS, DeviceReferences};
use super::perturb::Change;
use super::reference::{double, int, launch, long};

const THREADS: u32 = 256;
const DIGIT_BITS: u32 = DIGITS.ilog2();

pub fn element_type(dtype: DType) -> i32 {
    match dtype {
        DType::F16 => 0,
        DType::Bf16 => 1,
        DType::F32 => 2,
        DType::F64 => 3,
        DType::I8 => 4,
        DType::I16 => 5,
        DType::I32 => 6,
        DType::I64 => 7,
        DType::U8 => 8,
        DType::U16 => 9,
        DType::U32 => 10,
        DType::U64 => 11,
    }
}

pub type Typed = (BufferId, DType);

/// Which elements are far from the others.
#[derive(Clone, Copy, Debug)]
pub struct Far {
    /// Errors above this,
    pub least: f64,
    /// and above this share of the value,
    pub units: f64,
    /// if there are no more than so many.
    pub most: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsualSize {
    /// The largest that counts.
    pub limit: f64,
    /// Root mean square of it and the smaller ones.
    pub rms: f64,
}

impl DeviceReferences {
    pub fn draw(
        &self,
        device: &mut dyn Device,
        rule: &[u8],
        elements: u64,
        target: BufferId,
    ) -> Result<(), DeviceError> {
        device.write(self.rule, rule)?;
        let arguments = vec![BoundArgument::Buffer(self.rule), BoundArgument::Buffer(target)];
        self.strided(device, "evo_elements_draw", elements, arguments)
    }

    pub fn convert(
        &self,
        device: &mut dyn Device,
        (from, from_type): Typed,
        (to, to_type): Typed,
        elements: u64,
        change: Change,
    ) -> Result<(), DeviceError> {
        if change == Change::Unchanged && from_type == to_type {
            return device.copy(from, to);
        }
        let endless = [f64::NEG_INFINITY, f64::INFINITY];
        let (kind, factor, [low, high], seed) = match change {
            Change::Unchanged => (0, 1.0, endless, None),
            Change::Nudged(seed) => (1, 1.0, endless, Some(seed)),
            Change::Scaled(factor) => (2, factor, endless, None),
            Change::Jiggled { seed, low, high } => (3, 1.0, [low, high], Some(seed)),
        };
        let key = seed.map_or([0; 32], |seed| ChaCha8Rng::seed_from_u64(seed).get_seed());
        let words = key.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
        let [from, to] = [from, to].map(BoundArgument::Buffer);
        let [own, other] = [from_type, to_type].map(|dtype| int(element_type(dtype)));
        let mut arguments = vec![from, own, to, other, long(elements), int(kind)];
        arguments.extend([factor, low, high].map(double).into_iter().chain(words.map(long)));
        self.strided(device, "evo_elements_convert", elements, arguments)
    }

    /// How far values are from an answer, element by element; `widens` distances that are there.
    pub fn distance(
        &self,
        device: &mut dyn Device,
        expected: BufferId,
        (other, dtype): Typed,
        distances: BufferId,
        elements: u64,
        widens: bool,
    ) -> Result<(), DeviceError> {
        let [expected, other, distances] = [expected, other, distances].map(BoundArgument::Buffer);
        let (dtype, widens) = (int(element_type(dtype)), int(i32::from(widens)));
        let arguments = vec![expected, other, dtype, distances, long(elements), widens];
        self.strided(device, "evo_elements_distance", elements, arguments)
    }

    /// The second difference of three runs, element by element; `widens` those that are there.
    pub fn bend(
        &self,
        device: &mut dyn Device,
        runs: [BufferId; 3],
        largest: BufferId,
        elements: u64,
        widens: bool,
    ) -> Result<(), DeviceError> {
        let buffers = runs.into_iter().chain([largest]).map(BoundArgument::Buffer);
        let arguments = buffers.chain([long(elements), int(i32::from(widens))]).collect();
        self.strided(device, "evo_elements_bend", elements, arguments)
    }

    /// The size of finite values that are not negative, up to the one at the place in their order that `place` gives for
    /// their number (`certainty::usual_size`); none where nothing is finite.
    pub fn usual_size(
        &self,
        device: &mut dyn Device,
        values: BufferId,
        elements: u64,
        place: &dyn Fn(usize) -> usize,
    ) -> Result<Option<UsualSize>, DeviceError> {
        let (mut leading, mut known, mut wanted) = (0u64, 0, None);
        while known < u64::BITS {
            let counts = self.digits(device, values, elements, leading, known)?;
            let all: u64 = counts.iter().sum();
            if all == 0 {
                return Ok(None);
            }
            // The place among the values with these leading bits.
            let mut left = wanted.unwrap_or_else(|| place(all as usize) as u64);
            let mut digit = 0;
            while digit + 1 < DIGITS && left >= counts[digit] {
                left -= counts[digit];
                digit += 1;
            }
            wanted = Some(left);
            let bits = DIGIT_BITS.min(u64::BITS - known);
            leading = leading << bits | digit as u64 >> (DIGIT_BITS - bits);
            known += bits;
        }
        let limit = f64::from_bits(leading);
        let arguments = vec![BoundArgument::Buffer(values), long(elements), double(limit)];
        let parts: Vec<[f64; 2]> = self.sums(device, "evo_elements_below".into(), arguments, elements)?;
        let [square, smaller] = parts.into_iter().fold([0.0; 2], |[a, b], [c, d]| [a + c, b + d]);
        let counted = smaller + wanted.unwrap_or_default() as f64 + 1.0;
        // Those that equal the limit count as far as the place.
        Ok(Some(UsualSize { limit, rms: ((square + (counted - smaller) * limit * limit) / counted).sqrt() }))
    }

    fn digits(
        &self,
        device: &mut dyn Device,
        values: BufferId,
        elements: u64,
        leading: u64,
        known: u32,
    ) -> Result<Vec<u64>, DeviceError> {
        device.fill(self.counts, 0)?;
        let arguments = vec![
            BoundArgument::Buffer(values),
            long(elements),
            long(leading),
            int(known as i32),
            BoundArgument::Buffer(self.counts),
        ];
        self.strided(device, "evo_elements_digits", elements, arguments)?;
        let bytes = device.read(self.counts)?;
        Ok(bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes)).collect())
    }

    pub fn count_moved(
        &self,
        device: &mut dyn Device,
        distances: BufferId,
        elements: u64,
    ) -> Result<u64, DeviceError> {
        let arguments = vec![BoundArgument::Buffer(distances), long(elements), double(f64::from_bits(1))];
        let parts: Vec<[f64; 2]> = self.sums(device, "evo_elements_below".into(), arguments, elements)?;
        Ok(elements - parts.iter().map(|part| part[1]).sum::<f64>() as u64)
    }

    /// The number of the elements that are far off, and those with their errors, in order; `list` has room for `far.most`.
    pub fn far(
        &self,
        device: &mut dyn Device,
        (errors, expected): (BufferId, BufferId),
        elements: u64,
        far: Far,
        list: BufferId,
    ) -> Result<(u64, Vec<(u64, f64)>), DeviceError> {
        let most = far.most as u64;
        device.fill(self.counts, 0)?;
        let arguments = vec![
            BoundArgument::Buffer(errors),
            BoundArgument::Buffer(expected),
            long(elements),
            double(far.least),
            double(far.units),
            long(most),
            BoundArgument::Buffer(list),
            BoundArgument::Buffer(self.counts),
        ];
        self.strided(device, "evo_elements_uncertain", elements, arguments)?;
        let count = element::widen(&device.read(self.counts)?[..8], DType::U64)[0] as u64;
        if count == 0 || count > most {
            return Ok((count, Vec::new()));
        }
        let values = element::widen(&device.read(list)?, DType::F64);
        let pairs = values.chunks_exact(2).take(count as usize);
        let mut found: Vec<(u64, f64)> = pairs.map(|pair| (pair[0] as u64, pair[1])).collect();
        found.sort_by_key(|(index, _)| *index);
        Ok((count, found))
    }

    pub fn leave_out(
        &self,
        device: &mut dyn Device,
        single: BufferId,
        list: BufferId,
        count: u64,
    ) -> Result<(), DeviceError> {
        let arguments = vec![BoundArgument::Buffer(single), BoundArgument::Buffer(list), long(count)];
        self.strided(device, "evo_elements_leave_out", count, arguments)
    }

    fn strided(
        &self,
        device: &mut dyn Device,
        entry: &str,
        elements: u64,
        arguments: Vec<BoundArgument>,
    ) -> Result<(), DeviceError> {
        let grid = elements.div_ceil(u64::from(THREADS)).clamp(1, STRIDED_BLOCKS) as u32;
        device.launch(self.module, &[launch(entry.into(), [grid, 1, 1], THREADS, 0, arguments)])
    }
}

const STRIDED_BLOCKS: u64 = 2048;
