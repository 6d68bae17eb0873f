//! Tensor maps: the descriptors by which a GPU's copy engine (TMA) reads and writes tiles of a tensor.
//!
//! A map is data of the launch plan: the device encodes it for the address that its buffer has at each launch. The
//! rules below are those of `cuTensorMapEncodeTiled` (CUDA driver API, "Tensor Map Object Management", CUDA 13.0),
//! with one of evo's own: a map must not reach behind its buffer. They are checked here, before any driver is asked,
//! so that every device refuses the same maps with the same words.

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::words::words;

pub const RANK_MAX: usize = 5;
pub const TENSOR_MAP_BYTES: usize = 128;
/// Alignment of the buffer that a map names, bytes.
pub const BASE_ALIGNMENT: u64 = 16;

const BOX_MAX: i64 = 256;
const DIM_MAX: i64 = 1 << 31;
const STRIDE_END: i64 = 1 << 40;
/// What strides, and the inner dimension of a box, are multiples of, bytes.
const UNIT: i64 = 16;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TensorMapPlan {
    pub name: String,
    /// Position of its buffer in `ProblemPlan::buffers`.
    pub of: usize,
    pub map: TensorMap,
}

/// The layout that a tensor map describes; only the buffer's address is missing. Lists go from the innermost
/// dimension to the outermost. Numbers are signed so that a zero, a negative one or an overflow is seen and refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TensorMap {
    pub dtype: DType,
    pub dims: Vec<i64>,
    /// Bytes from one element to the next in dimensions 1 and on. Elements of dimension 0 are neighbors.
    pub strides: Vec<i64>,
    /// Elements of the box that one copy moves, in each dimension.
    #[serde(rename = "box")]
    pub extents: Vec<i64>,
    pub swizzle: Swizzle,
    pub fill: OutsideFill,
}

words! {
    /// Permutation of 16-byte chunks within spans of shared memory, against bank conflicts; in the order of their numbers
    /// in an encoded map.
    #[derive(Hash)]
    Swizzle {
        None = "none",
        Span32 = "32B",
        Span64 = "64B",
        Span128 = "128B",
    }
}

impl Swizzle {
    /// Bytes of a span; 0 without permutation.
    pub fn span(self) -> i64 {
        match self {
            Swizzle::None => 0,
            Swizzle::Span32 => 32,
            Swizzle::Span64 => 64,
            Swizzle::Span128 => 128,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutsideFill {
    Zero,
    /// A NaN that fused multiply-adds of tensor cores take for zero; floating-point types only.
    Nan,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenRule {
    pub part: MapPart,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapPart {
    Dim(usize),
    /// A stride, by its place in the list: `Stride(0)` is that of dimension 1.
    Stride(usize),
    Box(usize),
    Fill,
}

impl TensorMap {
    /// The first rule that the map breaks over a buffer of so many bytes.
    pub fn check(&self, buffer_bytes: u64) -> Result<(), BrokenRule> {
        let (rank, strides, extents) = (self.dims.len(), self.strides.len(), self.extents.len());
        let of_rank = format!("for {rank} dimensions: it has one for each");
        // A space file's loader has seen to it that the lists fit each other.
        let lists = [
            ((1..=RANK_MAX).contains(&rank), MapPart::Dim(0), {
                format!("has {rank} dimensions: a tensor map has 1 to {RANK_MAX}")
            }),
            (strides + 1 == rank, MapPart::Stride(0), {
                format!("has {strides} entries {of_rank} behind the first")
            }),
            (extents == rank, MapPart::Box(0), format!("has {extents} entries {of_rank}")),
        ];
        first_broken(lists)?;
        let dtype = self.dtype.as_str();
        let dims = self.dims.iter().enumerate().map(|(axis, dim)| {
            let rule = format!("is {dim}: a dimension of a tensor map has 1 to {DIM_MAX} elements");
            ((1..=DIM_MAX).contains(dim), MapPart::Dim(axis), rule)
        });
        let elements = |bytes: i64| {
            format!("is {} elements of `{dtype}` ({bytes} bytes)", bytes / self.dtype.bytes() as i64)
        };
        let strides = self.strides.iter().enumerate().map(|(place, stride)| {
            let rule = format!("strides of a tensor map are positive multiples of {UNIT} bytes below 2^40");
            let fits = (1..STRIDE_END).contains(stride) && stride % UNIT == 0;
            (fits, MapPart::Stride(place), format!("{}: {rule}", elements(*stride)))
        });
        let extents = self.extents.iter().enumerate().map(|(axis, extent)| {
            let rule = format!("a box of a tensor map has 1 to {BOX_MAX} elements in each dimension");
            ((1..=BOX_MAX).contains(extent), MapPart::Box(axis), format!("is {extent}: {rule}"))
        });
        first_broken(dims.chain(strides).chain(extents))?;
        let (row, span, swizzle) =
            (self.extents[0] * self.dtype.bytes() as i64, self.swizzle.span(), self.swizzle.as_str());
        let (inner, has_nan) = (elements(row), self.fill != OutsideFill::Nan || self.dtype.is_float());
        first_broken([
            (row % UNIT == 0, MapPart::Box(0), {
                format!("{inner}: the inner dimension of a box is a multiple of {UNIT} bytes")
            }),
            (span == 0 || row <= span, MapPart::Box(0), {
                format!("{inner}: with swizzle `{swizzle}` the inner dimension has at most {span}")
            }),
            (has_nan, MapPart::Fill, format!("is `nan`, and `{dtype}` has none: use `zero`")),
            self.reach(buffer_bytes),
        ])
    }

    /// The last element lies inside the buffer.
    fn reach(&self, buffer_bytes: u64) -> (bool, MapPart, String) {
        let row = i128::from(self.dims[0]) * i128::from(self.dtype.bytes());
        let outer = self.dims[1..].iter().zip(&self.strides).enumerate();
        let parts = outer.map(|(place, (dim, stride))| {
            (i128::from(dim - 1) * i128::from(*stride), MapPart::Dim(place + 1))
        });
        let (mut end, mut farthest) = (row, (row, MapPart::Dim(0)));
        for part in parts {
            end += part.0;
            farthest = if part.0 > farthest.0 { part } else { farthest };
        }
        let message = format!("makes the map {end} bytes long: its buffer has {buffer_bytes}");
        (end <= i128::from(buffer_bytes), farthest.1, message)
    }

    /// Why a map of a buffer at this address cannot be encoded, if so.
    pub fn refused_base(address: u64) -> Option<String> {
        (!address.is_multiple_of(BASE_ALIGNMENT)).then(|| {
            format!("the buffer lies at {address:#x}: that of a tensor map is {BASE_ALIGNMENT}-byte aligned")
        })
    }
}

fn first_broken(rules: impl IntoIterator<Item = (bool, MapPart, String)>) -> Result<(), BrokenRule> {
    let broken = rules.into_iter().find(|(holds, ..)| !holds);
    broken.map_or(Ok(()), |(_, part, message)| Err(BrokenRule { part, message }))
}

impl std::fmt::Display for MapPart {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MapPart::Dim(axis) => write!(out, "dims[{axis}]"),
            MapPart::Stride(place) => write!(out, "strides[{place}]"),
            MapPart::Box(axis) => write!(out, "box[{axis}]"),
            MapPart::Fill => write!(out, "fill"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 rows of 64 fp16 elements, of which a box has 32 whole ones.
    fn map() -> TensorMap {
        TensorMap {
            dtype: DType::F16,
            dims: vec![64, 100],
            strides: vec![128],
            extents: vec![64, 32],
            swizzle: Swizzle::Span128,
            fill: OutsideFill::Zero,
        }
    }

    #[test]
    fn limits_are_met_exactly_and_each_rule_names_its_place_and_its_number() {
        let changes: [fn(&mut TensorMap); 20] = [
            |_| {},
            |map| map.extents[1] = 256,
            |map| (map.swizzle, map.extents[0]) = (Swizzle::None, 256),
            |map| (map.swizzle, map.extents[0]) = (Swizzle::Span32, 16),
            |map| (map.dims, map.strides, map.extents) = (vec![6400], vec![], vec![8]),
            |map| map.fill = OutsideFill::Nan,
            // The last row may end where the buffer ends, however wide the stride is.
            |map| (map.dims, map.strides) = (vec![8, 100], vec![128]),
            // Strides may overlap and need no order: a transposed view is a map too.
            |map| (map.dims, map.strides, map.extents) = (vec![64, 10, 10], vec![1280, 128], vec![64, 1, 10]),
            |map| map.dims[1] = 0,
            |map| map.dims[0] = (1 << 31) + 1,
            |map| map.strides[0] = 120,
            |map| map.strides[0] = 1 << 40,
            |map| map.extents[1] = 257,
            |map| map.extents[0] = 4,
            |map| map.swizzle = Swizzle::Span64,
            |map| (map.dtype, map.fill) = (DType::I16, OutsideFill::Nan),
            |map| map.dims[1] = 101,
            |map| map.dims = vec![64; 6],
            |map| map.strides.clear(),
            |map| map.extents.push(1),
        ];
        let told = changes.map(|change| {
            let mut map = map();
            change(&mut map);
            map.check(12_800)
                .map_or_else(|rule| format!("{} {}", rule.part, rule.message), |()| "fine".into())
        });
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn a_base_is_aligned() {
        assert_eq!(TensorMap::refused_base(0x7f00_0010), None);
        assert_eq!(
            TensorMap::refused_base(0x7f00_0008).unwrap(),
            "the buffer lies at 0x7f000008: that of a tensor map is 16-byte aligned"
        );
    }

    #[test]
    fn plans_say_box_and_128b() {
        let text = serde_json::to_string(&map()).unwrap();
        assert_eq!(
            text,
            r#"{"dtype":"f16","dims":[64,100],"strides":[128],"box":[64,32],"swizzle":"128B","fill":"zero"}"#
        );
        assert_eq!(serde_json::from_str::<TensorMap>(&text).unwrap(), map());
    }
}
