//! What a GPU is and what it allows, read from the driver.

use std::ffi::CStr;

use cudarc::driver::sys::{self, CUdevice_attribute_enum as Attribute};
use evo_protocol::device::{DeviceError, DeviceInfo, DeviceKind, DeviceLimits, static_limit};

use super::driver::check;
use super::persistence::WindowLimits;
use crate::{cuda_arch, telemetry};

pub fn read(device: sys::CUdevice) -> Result<DeviceInfo, DeviceError> {
    let get = |attribute| attribute_of(device, attribute);
    let major = get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    let multiprocessors = get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    let clock_hz = f64::from(get(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?) * 1e3;
    let per_second = f64::from(multiprocessors) * clock_hz;
    let memory_hz = f64::from(get(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?) * 1e3;
    let bus_bytes = f64::from(get(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?) / 8.0;
    let count = |attribute| get(attribute).map(|value| value as u32);
    let optin_bytes = u64::from(count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?);
    let clusters = get(Attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)? != 0;
    let limits = DeviceLimits {
        threads_per_block: count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        block: [
            count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X)?,
            count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y)?,
            count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)?,
        ],
        grid: [
            count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
            count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
            count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
        ],
        // evo compiles for the specific target of every device from 9.0 on.
        shared_static_bytes: static_limit(major >= 9, optin_bytes),
        shared_optin_bytes: optin_bytes,
        registers_per_block: count(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK)?,
        // 8 blocks is what every device with clusters allows. More is not portable and needs an opt-in.
        cluster: if clusters { 8 } else { 1 },
        cooperative: count(Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)? != 0,
    };
    Ok(DeviceInfo {
        kind: DeviceKind::Cuda,
        name: name(device)?,
        arch: cuda_arch(major as u32, minor as u32),
        uuid: uuid(device)?,
        driver: driver_version()?,
        multiprocessors: multiprocessors as u32,
        limits,
        l2_bytes: get(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)? as u64,
        memory_bytes: memory(device)?,
        // Double data rate: two transfers a clock.
        bandwidth: (memory_hz > 0.0).then_some(2.0 * memory_hz * bus_bytes),
        flops_f32: fp32_lanes(major, minor).map(|lanes| 2.0 * lanes * per_second),
        flops_f16: tensor_flops(major, minor).map(|flops| flops * per_second),
    })
}

/// fp32 lanes per multiprocessor (CUDA programming guide, arithmetic throughput table).
fn fp32_lanes(major: i32, minor: i32) -> Option<f64> {
    match (major, minor) {
        (7, 5) | (8, 0) => Some(64.0),
        (8..=12, _) => Some(128.0),
        _ => None,
    }
}

/// Dense fp16 tensor operations per clock and multiprocessor, from the vendor's peak rates.
fn tensor_flops(major: i32, minor: i32) -> Option<f64> {
    match (major, minor) {
        (7, 5) | (8, 6 | 9) | (12, _) => Some(1024.0),
        (8, 0) => Some(2048.0),
        (9, _) => Some(4096.0),
        (10, _) => Some(8192.0),
        _ => None,
    }
}

pub fn windows(device: sys::CUdevice) -> Result<WindowLimits, DeviceError> {
    let get = |attribute| attribute_of(device, attribute).map(|bytes| u64::try_from(bytes).unwrap_or(0));
    Ok(WindowLimits {
        set_aside_bytes: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE)?,
        window_bytes: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE)?,
    })
}

fn attribute_of(device: sys::CUdevice, attribute: Attribute) -> Result<i32, DeviceError> {
    let mut value = 0;
    // SAFETY: the pointer is to a live local; the device handle came from the driver.
    unsafe {
        check(sys::cuDeviceGetAttribute(&mut value, attribute, device), "cannot read a device attribute")?;
    }
    Ok(value)
}

fn name(device: sys::CUdevice) -> Result<String, DeviceError> {
    let mut text = [0; 128];
    // SAFETY: the buffer's length is passed along; the driver ends the string inside it.
    let name = unsafe {
        check(sys::cuDeviceGetName(text.as_mut_ptr(), text.len() as i32, device), "cannot read the name")?;
        CStr::from_ptr(text.as_ptr())
    };
    Ok(name.to_string_lossy().into_owned())
}

fn uuid(device: sys::CUdevice) -> Result<String, DeviceError> {
    let mut uuid = sys::CUuuid { bytes: [0; 16] };
    // SAFETY: the pointer is to a live local.
    unsafe { check(sys::cuDeviceGetUuid_v2(&mut uuid, device), "cannot read the UUID")? };
    let hex: Vec<String> = uuid.bytes.iter().map(|byte| format!("{:02x}", *byte as u8)).collect();
    let part = |range: std::ops::Range<usize>| hex[range].concat();
    Ok(format!("GPU-{}-{}-{}-{}-{}", part(0..4), part(4..6), part(6..8), part(8..10), part(10..16)))
}

/// `580.159.04 (CUDA 13.0)`: the driver's own version, and the newest CUDA it serves.
fn driver_version() -> Result<String, DeviceError> {
    let mut version = 0;
    // SAFETY: the pointer is to a live local.
    unsafe { check(sys::cuDriverGetVersion(&mut version), "cannot read the driver's version")? };
    let cuda = format!("CUDA {}.{}", version / 1000, version % 1000 / 10);
    Ok(telemetry::driver_version().map_or(cuda.clone(), |own| format!("{own} ({cuda})")))
}

fn memory(device: sys::CUdevice) -> Result<u64, DeviceError> {
    let mut bytes = 0;
    // SAFETY: the pointer is to a live local.
    unsafe { check(sys::cuDeviceTotalMem_v2(&mut bytes, device), "cannot read the memory size")? };
    Ok(bytes as u64)
}
