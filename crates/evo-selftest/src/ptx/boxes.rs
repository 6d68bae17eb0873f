//! Copies of boxes (TMA) beside loops over their elements: all ranks, swizzles and fills, boxes across every edge.

use evo_protocol::dtype::DType;
use evo_protocol::tensor_map::{OutsideFill, Swizzle, TensorMap};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::probe::{AsBytes, Probe, compare};

/// Most bytes of a box in a probe.
const BOX_MAX: usize = 8192;
/// Boxes of each tensor.
const BOXES: usize = 6;
/// Words that a kernel gets for each box: five coordinates, its bytes, two that are not used.
const WORDS: usize = 8;
/// What a tensor holds before boxes are stored into it.
const UNTOUCHED: u8 = 0x5a;

/// A tensor with boxes, some of which lie outside in part.
struct BoxCase {
    map: TensorMap,
    tensor: Vec<u8>,
    places: Vec<[i64; 5]>,
}

impl BoxCase {
    fn draw(numbers: &mut ChaCha8Rng, rank: usize, swizzle: Swizzle, fill: OutsideFill) -> BoxCase {
        let dtypes = [DType::F16, DType::Bf16, DType::F32, DType::U8, DType::U32, DType::F64];
        let float = fill == OutsideFill::Nan;
        let dtype = dtypes[numbers.random_range(0..if float { 3 } else { 6 })];
        let element = dtype.bytes() as usize;
        let chunks = match swizzle.span() {
            0 => numbers.random_range(1..=12),
            span => span as usize / 16,
        };
        let mut extents = vec![16 * chunks / element];
        let mut bytes = 16 * chunks;
        for _ in 1..rank {
            let extent: usize = numbers.random_range(1..=if rank < 4 { 20 } else { 4 });
            let extent = extent.min(BOX_MAX / bytes).max(1);
            bytes *= extent;
            extents.push(extent);
        }
        let spare = if rank < 4 { 24 } else { 4 };
        let dims: Vec<usize> =
            extents.iter().map(|extent| (extent / 2).max(1) + numbers.random_range(0..spare)).collect();
        let mut strides = Vec::new();
        let mut stride = (dims[0] * element).next_multiple_of(16);
        for dim in &dims[1..] {
            stride += 16 * numbers.random_range(0..3);
            strides.push(stride as i64);
            stride *= dim;
        }
        let tensor = numbers.random_iter().take(stride.max(dims[0] * element)).collect();
        let places = (0..BOXES)
            .map(|_| {
                let mut at = [0; 5];
                for (axis, place) in at.iter_mut().enumerate().take(rank) {
                    let (dim, extent) = (dims[axis] as i64, extents[axis] as i64);
                    *place = numbers.random_range(-extent - 1..=dim);
                    // Half of all boxes lie inside.
                    if numbers.random() {
                        *place = (*place).clamp(0, (dim - extent).max(0));
                    }
                }
                // Where a box starts within its rows is a multiple of 16 bytes.
                at[0] = at[0].div_euclid((16 / element) as i64) * (16 / element) as i64;
                at
            })
            .collect();
        let signed = |list: Vec<usize>| list.into_iter().map(|value| value as i64).collect();
        let (dims, extents) = (signed(dims), signed(extents));
        BoxCase { map: TensorMap { dtype, dims, strides, extents, swizzle, fill }, tensor, places }
    }

    fn box_bytes(&self) -> usize {
        self.map.extents.iter().product::<i64>() as usize * self.element()
    }

    fn element(&self) -> usize {
        self.map.dtype.bytes() as usize
    }

    fn words(&self) -> Vec<u32> {
        let bytes = self.box_bytes() as u32;
        let words = |at: &[i64; 5]| {
            let mut words = [0; WORDS];
            words.iter_mut().zip(at).for_each(|(word, place)| *word = *place as u32);
            words[5] = bytes;
            words
        };
        self.places.iter().flat_map(words).collect()
    }

    /// Calls back with each element of a box: its offset in shared memory, and in the tensor if it is inside of rows
    /// that have `row` elements.
    fn each(&self, place: &[i64; 5], row: i64, mut element: impl FnMut(usize, Option<usize>)) {
        let map = &self.map;
        let mask = match map.swizzle {
            Swizzle::None => 0,
            own => own.span() as usize / 16 - 1,
        };
        for index in 0..map.extents.iter().product::<i64>() {
            let (mut rest, mut inside, mut offset) = (index, true, 0);
            for (axis, extent) in map.extents.iter().enumerate() {
                let at = place[axis] + rest % extent;
                rest /= extent;
                inside &= (0..if axis == 0 { row } else { map.dims[axis] }).contains(&at);
                offset += at * if axis == 0 { self.element() as i64 } else { map.strides[axis - 1] };
            }
            let dense = index as usize * self.element();
            let swizzled = dense ^ ((dense >> 7 & mask) << 4);
            element(swizzled, inside.then_some(offset as usize));
        }
    }

    fn describe(&self, place: &[i64; 5]) -> String {
        format!("{:?} at {:?}", self.map, &place[..self.map.dims.len()])
    }

    /// Whether the bytes of an element outside are the map's fill.
    fn is_fill(&self, found: &[u8]) -> bool {
        match self.map.fill {
            OutsideFill::Zero => found.iter().all(|byte| *byte == 0),
            OutsideFill::Nan => {
                let bits = found.iter().rev().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
                let infinity = match self.map.dtype {
                    DType::F16 => 0x7c00,
                    DType::Bf16 => 0x7f80,
                    _ => 0x7f80_0000,
                };
                bits & infinity == infinity
                    && bits & (infinity & infinity.wrapping_neg()).wrapping_sub(1) != 0
            }
        }
    }
}

/// Tensors of the rank that the kernel's name ends with.
fn cases(probe: &mut Probe<'_>) -> Vec<BoxCase> {
    let rank = ["load_", "store_", "multicast_"].iter().map(|mark| probe.named(mark, 0)).sum();
    let numbers = &mut probe.numbers;
    let kinds =
        Swizzle::ALL.iter().flat_map(|own| [OutsideFill::Zero, OutsideFill::Nan].map(|fill| (*own, fill)));
    kinds.map(|(swizzle, fill)| BoxCase::draw(numbers, rank, swizzle, fill)).collect()
}

/// Loads of boxes by one block each.
pub fn loads(probe: &mut Probe<'_>) -> Result<String, String> {
    fetched(probe, 1)
}

/// The same for all blocks of a cluster, of one block and of two.
pub fn multicasts(probe: &mut Probe<'_>) -> Result<String, String> {
    fetched(probe, 1).and_then(|_| fetched(probe, 2))
}

/// Loads of boxes of a rank into shared memory, as it lies there. Blocks of a cluster fetch for each other.
fn fetched(probe: &mut Probe<'_>, cluster: usize) -> Result<String, String> {
    let cases = cases(probe);
    for case in &cases {
        let (bytes, words) = (case.box_bytes(), case.words());
        let inputs: [&dyn AsBytes; 2] = [&case.tensor, &words];
        probe.map = Some((0, case.map.clone()));
        probe.cluster = (cluster > 1).then_some([cluster as u32, 1, 1]);
        probe.shared_bytes = (cluster * BOX_MAX) as u32;
        let out = probe.run([BOXES, 64], &inputs, &[BOXES * cluster * BOX_MAX]);
        let out = out.map_err(|error| format!("{error}: {:?}", case.map))?.swap_remove(0);
        for (block, part) in (0..BOXES).flat_map(|block| (0..cluster).map(move |part| (block, part))) {
            // Each block has the boxes of all blocks of its cluster.
            let place = &case.places[block / cluster * cluster + part];
            let found = &out[(block * cluster + part) * BOX_MAX..][..bytes];
            let mut wrong = None;
            case.each(place, case.map.dims[0], |at, from| {
                let own = &found[at..at + case.element()];
                let right = match from {
                    Some(from) => *own == case.tensor[from..from + own.len()],
                    None => case.is_fill(own),
                };
                if !right {
                    wrong.get_or_insert(format!(
                        "byte {at} is {own:x?}, element {from:?} of {}",
                        case.describe(place)
                    ));
                }
            });
            wrong.map_or(Ok(()), Err)?;
        }
    }
    Ok(format!("{} tensors, {BOXES} boxes of each", cases.len()))
}

/// Stores of boxes of a rank: what lies outside stays as it is, but for the rest of 16 bytes that end a row, which a
/// GPU writes whole. No box is stored whose first element lies before the tensor: that is an illegal instruction.
pub fn stores(probe: &mut Probe<'_>) -> Result<String, String> {
    let cases = cases(probe);
    for case in &cases {
        let (bytes, words) = (case.box_bytes(), case.words());
        let tile: Vec<u8> = (&mut probe.numbers).random_iter().take(bytes.next_multiple_of(4)).collect();
        let chunk = 16 / case.element() as i64;
        let row = (case.map.dims[0] + chunk - 1) / chunk * chunk;
        for (box_number, place) in
            case.places.iter().enumerate().filter(|(_, at)| at.iter().all(|own| *own >= 0))
        {
            let own = words[WORDS * box_number..][..WORDS].to_vec();
            let inputs: [&dyn AsBytes; 2] = [&tile, &own];
            probe.map = Some((2, case.map.clone()));
            probe.shared_bytes = BOX_MAX as u32;
            let out = probe.run([1, 64], &inputs, &[case.tensor.len()]);
            let mut expected = vec![UNTOUCHED; case.tensor.len()];
            case.each(place, row, |at, to| {
                if let Some(to) = to {
                    expected[to..to + case.element()].copy_from_slice(&tile[at..at + case.element()]);
                }
            });
            out.and_then(|out| compare("byte", out[0].iter().copied(), |at| expected[at]))
                .map_err(|error| format!("{error}: {}", case.describe(place)))?;
        }
    }
    Ok(format!("{} tensors, {BOXES} boxes of each", cases.len()))
}
