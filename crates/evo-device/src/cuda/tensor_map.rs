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
        // Always: an address may have belonged to a longer buffer when the map was encoded.
        tensor_maps::check(map, bytes, address)?;
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
    let at = |list: &[i64], place: usize, absent: i64| list.get(place).copied().unwrap_or(absent);
    let dims: [u64; RANK_MAX] = std::array::from_fn(|axis| at(&map.dims, axis, 1) as u64);
    let strides: [u64; RANK_MAX - 1] = std::array::from_fn(|place| at(&map.strides, place, 0) as u64);
    let extents: [u32; RANK_MAX] = std::array::from_fn(|axis| at(&map.extents, axis, 1) as u32);
    let mut encoded = sys::CUtensorMap { opaque: [0; 16] };
    // SAFETY: the target is aligned as its type says, the arrays have at least as many entries as the rank says, and
    // the address is stored, not read.
    let result = unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut encoded,
            data_type(map.dtype),
            map.dims.len() as u32,
            ptr::without_provenance_mut(address as usize),
            dims.as_ptr(),
            strides.as_ptr(),
            extents.as_ptr(),
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
