//! A checked skin over the driver calls, and what each error code means for a variant.

use std::ffi::{CStr, c_void};
use std::ptr;

use cudarc::driver::sys;
use evo_protocol::device::DeviceError;
use evo_protocol::verdict::VerdictKind;

/// `what` is the call, in words.
pub fn check(result: sys::CUresult, what: &str) -> Result<(), DeviceError> {
    if result == sys::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let code = result as i32;
    let (kind, cause, sticky) = meaning(code);
    let mut error = DeviceError::plain(kind, format!("{what}: {} (CUDA error {code})", describe(result)));
    error.cause = cause.map(str::to_string);
    error.code = Some(code);
    error.sticky = sticky;
    Err(error)
}

/// Verdict, cause and stickiness of an error code (CUDA driver API, `CUresult`). Codes 700, 702,
/// 710 and 714 to 719 corrupt the context: only the process's end clears them.
fn meaning(code: i32) -> (VerdictKind, Option<&'static str>, bool) {
    match code {
        1 => (VerdictKind::LaunchFail, Some("invalid_value"), false),
        2 => (VerdictKind::OutOfMemory, None, false),
        200 | 209 | 218 | 219 | 222 | 223 | 300 => (VerdictKind::LoadError, None, false),
        500 => (VerdictKind::LoadError, Some("symbol"), false),
        701 => (VerdictKind::LaunchFail, Some("regs"), false),
        720 => (VerdictKind::LaunchFail, Some("cooperative"), false),
        912 => (VerdictKind::LaunchFail, Some("cluster"), false),
        700 => (VerdictKind::CrashIllegalAddress, None, true),
        702 => (VerdictKind::Hang, Some("launch_timeout"), true),
        710 => (VerdictKind::CrashAssert, None, true),
        714 => (VerdictKind::CrashStack, None, true),
        715 => (VerdictKind::CrashIllegalInstruction, None, true),
        716 => (VerdictKind::CrashMisaligned, None, true),
        717 | 718 => (VerdictKind::CrashOther, None, true),
        719 => (VerdictKind::CrashTrap, None, true),
        3 | 4 | 46 | 100 | 101 | 214 | 999 => (VerdictKind::DeviceLost, None, true),
        // An unknown code of that range counts as sticky: replacing a healthy worker costs less than
        // measuring in a corrupt context.
        _ => (VerdictKind::HarnessError, None, code >= 700),
    }
}

fn describe(result: sys::CUresult) -> String {
    let mut text = ptr::null();
    // SAFETY: `text` receives a pointer to a static string of the driver's, or stays null.
    unsafe {
        sys::cuGetErrorString(result, &mut text);
        if text.is_null() {
            "unknown error".into()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    }
}

pub fn open(index: u32) -> Result<sys::CUdevice, DeviceError> {
    // SAFETY: only looks for the library; cudarc itself panics when it is absent.
    if !unsafe { sys::is_culib_present() } {
        let text = "the CUDA driver library (libcuda) is not on this machine";
        return Err(DeviceError::plain(VerdictKind::DeviceLost, text).with_cause("no_driver"));
    }
    let (mut count, mut device, mut context) = (0, 0, ptr::null_mut());
    // SAFETY: every pointer is to a live local; the context is the device's primary one and is made
    // current on the only thread that uses this device.
    unsafe {
        check(sys::cuInit(0), "cannot initialize the driver")?;
        check(sys::cuDeviceGetCount(&mut count), "cannot count GPUs")?;
        if index as i32 >= count {
            let text = format!("GPU {index} does not exist; this machine has {count}");
            return Err(DeviceError::plain(VerdictKind::DeviceLost, text).with_cause("no_device"));
        }
        check(sys::cuDeviceGet(&mut device, index as i32), "cannot get the GPU")?;
        check(sys::cuDevicePrimaryCtxRetain(&mut context, device), "cannot create a context")?;
        check(sys::cuCtxSetCurrent(context), "cannot make the context current")?;
        // A kernel that prints from every thread should not get megabytes of buffer for it.
        let _ = sys::cuCtxSetLimit(sys::CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE, 64 << 10);
    }
    Ok(device)
}

pub fn create_stream() -> Result<sys::CUstream, DeviceError> {
    let mut stream = ptr::null_mut();
    let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
    // SAFETY: `stream` is a live local; a context is current.
    unsafe { check(sys::cuStreamCreate(&mut stream, flags), "cannot create a stream")? };
    Ok(stream)
}

pub fn synchronize(stream: sys::CUstream) -> Result<(), DeviceError> {
    // SAFETY: the stream lives as long as its device.
    unsafe { check(sys::cuStreamSynchronize(stream), "device work failed") }
}

/// The driver stages the values before it returns, so that the caller may change them at once.
///
/// # Safety
/// So many bytes at `target` are memory of the device.
pub unsafe fn upload<T: Copy>(
    target: sys::CUdeviceptr,
    values: &[T],
    stream: sys::CUstream,
) -> Result<(), DeviceError> {
    if values.is_empty() {
        return Ok(());
    }
    let source = values.as_ptr().cast::<c_void>();
    // SAFETY: as the caller promises.
    let copy = unsafe { sys::cuMemcpyHtoDAsync_v2(target, source, size_of_val(values), stream) };
    check(copy, "cannot copy to the device")
}

/// After all work enqueued before.
///
/// # Safety
/// So many bytes at `source` are memory of the device, and any bytes are values of the type.
pub unsafe fn download<T: Copy>(
    values: &mut [T],
    source: sys::CUdeviceptr,
    stream: sys::CUstream,
) -> Result<(), DeviceError> {
    let target = values.as_mut_ptr().cast::<c_void>();
    // SAFETY: as the caller promises; the slice outlives the synchronization.
    let copy = unsafe { sys::cuMemcpyDtoHAsync_v2(target, source, size_of_val(values), stream) };
    check(copy, "cannot copy from the device")?;
    synchronize(stream)
}

/// # Safety
/// So many bytes at both places are memory of the device.
pub unsafe fn copy(
    source: sys::CUdeviceptr,
    target: sys::CUdeviceptr,
    bytes: u64,
    stream: sys::CUstream,
) -> Result<(), DeviceError> {
    // SAFETY: as the caller promises.
    let copy = unsafe { sys::cuMemcpyDtoDAsync_v2(target, source, bytes as usize, stream) };
    check(copy, "cannot copy on the device")
}

pub fn memory_free() -> Result<u64, DeviceError> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: both pointers are to live locals; a context is current.
    unsafe { check(sys::cuMemGetInfo_v2(&mut free, &mut total), "cannot read free memory")? };
    Ok(free as u64)
}

pub struct TimingEvent(sys::CUevent);

impl TimingEvent {
    pub fn new() -> Result<TimingEvent, DeviceError> {
        let mut event = ptr::null_mut();
        // SAFETY: `event` is a live local; a context is current.
        unsafe { check(sys::cuEventCreate(&mut event, 0), "cannot create an event")? };
        Ok(TimingEvent(event))
    }

    pub fn record(&self, stream: sys::CUstream) -> Result<(), DeviceError> {
        // SAFETY: event and stream belong to the current context and are alive.
        unsafe { check(sys::cuEventRecord(self.0, stream), "cannot record an event") }
    }

    /// Nanoseconds from `earlier` to this event; both must have completed.
    pub fn since(&self, earlier: &TimingEvent) -> Result<f64, DeviceError> {
        let mut milliseconds = 0.0f32;
        // SAFETY: both events are alive; the pointer is to a live local.
        unsafe {
            check(sys::cuEventElapsedTime_v2(&mut milliseconds, earlier.0, self.0), "cannot read an event")?;
        }
        Ok(f64::from(milliseconds) * 1e6)
    }
}

impl Drop for TimingEvent {
    fn drop(&mut self) {
        // SAFETY: the event was created by us and is destroyed once.
        unsafe { sys::cuEventDestroy_v2(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sticky_family_is_the_documented_one() {
        for code in [700, 702, 710, 714, 715, 716, 717, 718, 719] {
            assert!(meaning(code).2, "{code}");
        }
        for code in [1, 2, 200, 701, 720] {
            assert!(!meaning(code).2, "{code}");
        }
    }
}
