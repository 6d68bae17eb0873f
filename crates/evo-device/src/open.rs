//! Opens a device by its specification. Only worker processes and self-tests do this.

use std::path::Path;

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::VerdictKind;

use super::cuda::CudaDevice;
use super::device::Device;
use super::host::{RoomDevice, RoomOptions};
use super::probe::DeviceSpec;

/// Opens `host`, `cuda` or `cuda:INDEX`; CUDA needs the compiled helper kernels. On the host each module runs in a
/// process of its own, which `room` starts.
pub fn open(
    spec: &str,
    support_cubin: Option<&Path>,
    room: RoomOptions,
) -> Result<Box<dyn Device>, DeviceError> {
    let index = match DeviceSpec::parse(spec) {
        Some(DeviceSpec::Host) => return Ok(Box::new(RoomDevice::open(room)?)),
        Some(DeviceSpec::Cuda(index)) => index,
        Some(DeviceSpec::Auto) | None => {
            let message = format!("`{spec}` names no device that a worker can open");
            return Err(DeviceError::plain(VerdictKind::HarnessError, message));
        }
    };
    let cubin = support_cubin.ok_or_else(|| {
        DeviceError::plain(VerdictKind::HarnessError, "the CUDA device needs its helper kernels")
    })?;
    Ok(Box::new(CudaDevice::open(index, cubin)?))
}
