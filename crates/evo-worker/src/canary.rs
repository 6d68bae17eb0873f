//! The health check: a small computation that a new worker must get right before it judges a variant.

use std::time::Instant;

use evo_device::device::{BufferId, Device, Tolerance};
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::verdict::VerdictKind;

/// Elements of the check's buffers: enough for every multiprocessor to take part.
const ELEMENTS: u64 = 64 * 1024;
const ONE: u32 = 1.0f32.to_bits();
const TWO: u32 = 2.0f32.to_bits();

/// Fills, hashes and compares a buffer on the device; returns the time it took, nanoseconds.
pub fn check(device: &mut dyn Device) -> Result<f64, DeviceError> {
    let began = Instant::now();
    let values = device.allocate("canary values", ELEMENTS * 4)?;
    let outcome = match device.allocate("canary expected", ELEMENTS * 8) {
        Ok(expected) => {
            let outcome = work(device, values, expected);
            device.free(expected)?;
            outcome
        }
        Err(error) => Err(error),
    };
    device.free(values)?;
    outcome.map(|()| began.elapsed().as_nanos() as f64)
}

fn work(device: &mut dyn Device, values: BufferId, expected: BufferId) -> Result<(), DeviceError> {
    let ones: Vec<u8> = std::iter::repeat_n(1.0f64.to_le_bytes(), ELEMENTS as usize).flatten().collect();
    device.write(expected, &ones)?;
    device.fill(values, ONE)?;
    let right = device.hash(values)?;
    expect(mismatches(device, values, expected)? == 0, "equal values compare as different")?;
    // The negative case as well: a device that calls everything equal would pass every variant.
    device.fill(values, TWO)?;
    expect(device.hash(values)? != right, "different contents have one hash")?;
    expect(mismatches(device, values, expected)? == ELEMENTS, "different values compare as equal")?;
    device.synchronize()
}

fn mismatches(device: &mut dyn Device, values: BufferId, expected: BufferId) -> Result<u64, DeviceError> {
    let tolerance = Tolerance { atol: 1e-6, rtol: 0.0 };
    Ok(device.compare(values, DType::F32, expected, tolerance)?.mismatches)
}

fn expect(holds: bool, otherwise: &str) -> Result<(), DeviceError> {
    let lost = || DeviceError::plain(VerdictKind::DeviceLost, format!("the canary is wrong: {otherwise}"));
    if holds { Ok(()) } else { Err(lost().sticky()) }
}
