//! Tensor maps as the driver encodes them, kept for the next launch with the same map at the same address.
//!
//! An encoded map is a function of its layout and its address alone, so one stays right whatever comes to lie at the
//! address later. Keeping it matters where launches are timed by the host's clock: encoding is the host's work.

use std::collections::HashMap;
use std::ptr;

use cudarc::driver::sys::{
    self, CUtensorMapDataType_enum as DataType, CUtensorMapFloatOOBfill_enum as Outside,
    CUtensorMapInterleave_enum as Interleave, CUtensorMapL2promotion_enum as Promotion,
    CUtensorMapSwizzle_enum as DriverSwizzle,
};
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::tensor_map::{OutsideFill, RANK_MAX, Swizzle, TensorMap};

use super::driver::check;
use crate::tensor_maps::{self, ArgumentSlot};

/// More than the launches of a problem with all of its rotating buffers need.
const KEPT: usize = 4096;

#[derive(Debug, Default)]
pub struct EncodedMaps(HashMap<(TensorMap, u64), ArgumentSlot>);

impl EncodedMaps {
    /// The buffer must not be shorter than the map reaches. `launch_fail:tensor_map`: a rule is broken, or the driver
    /// refuses the map or has no tensor maps.
    pub fn get(&mut self, map: &TensorMap, address: u64, bytes: u64) -> Result<ArgumentSlot, DeviceError> {
        self.get_by(map, address, bytes, encode)
    }

    fn get_by(
        &mut self,
        map: &TensorMap,
        address: u64,
        buffer_bytes: u64,
        encode: impl FnOnce(&TensorMap, u64) -> Result<ArgumentSlot, DeviceError>,
    ) -> Result<ArgumentSlot, DeviceError> {
        // Always: an address may have belonged to a longer buffer when the map was encoded.
        tensor_maps::check(map, buffer_bytes, address)?;
        let key = (map.clone(), address);
        if let Some(known) = self.0.get(&key) {
            return Ok(*known);
        }
        let slot = encode(map, address)?;
        if self.0.len() >= KEPT {
            self.0.clear();
        }
        self.0.insert(key, slot);
        Ok(slot)
    }
}

/// Drivers of CUDA 12.0 and later can be asked.
fn encode(map: &TensorMap, address: u64) -> Result<ArgumentSlot, DeviceError> {
    let name = "cuTensorMapEncodeTiled";
    // SAFETY: only looks the symbol up, in the library that is loaded already; cudarc panics where it is absent.
    if !unsafe { sys::culib().get::<*const ()>(name.as_bytes()).is_ok() } {
        return Err(tensor_maps::refused(format!("the driver has no `{name}`: it is older than CUDA 12.0")));
    }
    let numbers = DriverNumbers::of(map);
    let mut encoded = sys::CUtensorMap { opaque: [0; 16] };
    // SAFETY: the target is aligned as its type says, the arrays have at least as many entries as the rank says, and
    // the address is stored, not read.
    let result = unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut encoded,
            data_type(map.dtype),
            map.dims.len() as u32,
            ptr::without_provenance_mut(address as usize),
            numbers.dims.as_ptr(),
            numbers.strides.as_ptr(),
            numbers.extents.as_ptr(),
            [1u32; RANK_MAX].as_ptr(),
            Interleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle(map.swizzle),
            // What a sector of the inner dimension fetches around it: lines of 128 bytes.
            Promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            outside(map.fill),
        )
    };
    // All rules that the driver documents hold, so its own words are all that is left to say.
    check(result, "the driver refuses it").map_err(|error| DeviceError {
        code: error.code,
        ..tensor_maps::refused(format!("{} ({map:?})", error.message))
    })?;
    Ok(ArgumentSlot(encoded.opaque))
}

#[derive(Debug, PartialEq)]
struct DriverNumbers {
    dims: [u64; RANK_MAX],
    strides: [u64; RANK_MAX - 1],
    extents: [u32; RANK_MAX],
}

impl DriverNumbers {
    fn of(map: &TensorMap) -> DriverNumbers {
        let at = |list: &[i64], place: usize, absent: i64| list.get(place).copied().unwrap_or(absent);
        DriverNumbers {
            dims: [0, 1, 2, 3, 4].map(|axis| at(&map.dims, axis, 1) as u64),
            strides: [0, 1, 2, 3].map(|place| at(&map.strides, place, 0) as u64),
            extents: [0, 1, 2, 3, 4].map(|axis| at(&map.extents, axis, 1) as u32),
        }
    }
}

/// The driver has no name for signed integers of 8 and 16 bits, whose bits a copy moves as those of unsigned ones.
fn data_type(dtype: DType) -> DataType {
    match dtype {
        DType::F16 => DataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        DType::Bf16 => DataType::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        DType::F32 => DataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        DType::F64 => DataType::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        DType::I8 | DType::U8 => DataType::CU_TENSOR_MAP_DATA_TYPE_UINT8,
        DType::I16 | DType::U16 => DataType::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        DType::I32 => DataType::CU_TENSOR_MAP_DATA_TYPE_INT32,
        DType::U32 => DataType::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        DType::I64 => DataType::CU_TENSOR_MAP_DATA_TYPE_INT64,
        DType::U64 => DataType::CU_TENSOR_MAP_DATA_TYPE_UINT64,
    }
}

fn swizzle(own: Swizzle) -> DriverSwizzle {
    match own {
        Swizzle::None => DriverSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
        Swizzle::Span32 => DriverSwizzle::CU_TENSOR_MAP_SWIZZLE_32B,
        Swizzle::Span64 => DriverSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
        Swizzle::Span128 => DriverSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
    }
}

fn outside(fill: OutsideFill) -> Outside {
    match fill {
        OutsideFill::Zero => Outside::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        OutsideFill::Nan => Outside::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor_maps::example;

    #[test]
    fn a_map_is_encoded_once_for_each_address_and_layout() {
        let mut maps = EncodedMaps::default();
        let mut asked = Vec::new();
        let (wide, narrow) =
            (example::rows(8, 4, [8, 4], OutsideFill::Zero), example::rows(8, 4, [8, 2], OutsideFill::Zero));
        for (map, address) in
            [(&wide, 0x100), (&wide, 0x100), (&wide, 0x200), (&narrow, 0x100), (&wide, 0x200)]
        {
            let slot = maps.get_by(map, address, 128, |map, address| {
                asked.push((map.extents[1], address));
                Ok(ArgumentSlot::word(address + map.extents[1] as u64))
            });
            assert_eq!(slot.unwrap(), ArgumentSlot::word(address + map.extents[1] as u64));
        }
        assert_eq!(asked, [(4, 0x100), (4, 0x200), (2, 0x100)]);
        // The address is another buffer's now, and the map would reach behind it.
        assert!(maps.get_by(&wide, 0x100, 64, |_, _| panic!("a broken map is not encoded")).is_err());
    }

    #[test]
    fn the_driver_gets_lists_of_full_length() {
        let map = example::rows(8, 4, [8, 2], OutsideFill::Nan);
        let expected =
            DriverNumbers { dims: [8, 4, 1, 1, 1], strides: [32, 0, 0, 0], extents: [8, 2, 1, 1, 1] };
        assert_eq!(DriverNumbers::of(&map), expected);
        assert_eq!(outside(map.fill) as u32, 1);
        assert!(Swizzle::ALL.iter().map(|own| swizzle(*own) as u32).eq([0, 1, 2, 3]));
    }
}
