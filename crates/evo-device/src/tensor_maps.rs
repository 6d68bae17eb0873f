//! What both devices have in common for tensor maps: rules before encoding, and the room that kernel arguments take.

use evo_protocol::device::DeviceError;
use evo_protocol::tensor_map::{TENSOR_MAP_BYTES, TensorMap};
use evo_protocol::verdict::VerdictKind;

/// One kernel argument: as large and as well aligned as the largest kind, a tensor map. The driver, or the kernel's
/// launcher on the host, reads as many bytes as the kernel's own signature says.
#[repr(C, align(128))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgumentSlot(pub [u64; TENSOR_MAP_BYTES / 8]);

impl ArgumentSlot {
    pub fn word(value: u64) -> ArgumentSlot {
        let mut slot = ArgumentSlot([0; TENSOR_MAP_BYTES / 8]);
        slot.0[0] = value;
        slot
    }
}

/// Plans were checked in the parent, so a broken map here comes from elsewhere; a base that is misaligned can show
/// only here.
pub fn check(map: &TensorMap, buffer_bytes: u64, address: u64) -> Result<(), DeviceError> {
    map.check(buffer_bytes).map_err(|rule| refused(format!("{} {}", rule.part, rule.message)))?;
    TensorMap::refused_base(address).map_or(Ok(()), |why| Err(refused(why)))
}

pub fn refused(why: String) -> DeviceError {
    let message = format!("a tensor map cannot be encoded: {why}");
    DeviceError::plain(VerdictKind::LaunchFail, message).with_cause("tensor_map")
}

#[cfg(test)]
pub mod example {
    use evo_protocol::dtype::DType;
    use evo_protocol::tensor_map::{OutsideFill, Swizzle, TensorMap};

    pub fn rows(columns: i64, rows: i64, extents: [i64; 2], fill: OutsideFill) -> TensorMap {
        TensorMap {
            dtype: DType::F32,
            dims: vec![columns, rows],
            strides: vec![4 * columns],
            extents: extents.to_vec(),
            swizzle: Swizzle::None,
            fill,
        }
    }
}

#[cfg(test)]
mod tests {
    use evo_protocol::tensor_map::OutsideFill;

    use super::*;

    #[test]
    fn maps_are_checked_with_the_buffer_they_have() {
        let map = example::rows(8, 4, [8, 4], OutsideFill::Zero);
        assert!(check(&map, 128, 0x1000).is_ok());
        let error = check(&map, 112, 0x1000).unwrap_err();
        assert_eq!((error.kind, error.cause.as_deref()), (VerdictKind::LaunchFail, Some("tensor_map")));
        assert!(error.message.ends_with("makes the map 128 bytes long: its buffer has 112"), "{error}");
        assert!(check(&map, 128, 0x1008).unwrap_err().message.contains("16-byte aligned"));
    }
}
