//! Copies of buffers that kernels can only read, by the driver's virtual memory management (CUDA driver API,
//! `cuMemSetAccess`): a write to one is an illegal address. Measured on an H100 with driver 580: changing the access takes
//! 0.07 to 0.1 ms, and atomic operations that change nothing are refused too.

use cudarc::driver::sys;
use evo_protocol::device::DeviceError;

use super::driver;

/// Memory with an address of its own, which goes with it.
#[derive(Debug)]
pub struct ReadOnlyCopy {
    address: sys::CUdeviceptr,
    bytes: usize,
    handle: Option<sys::CUmemGenericAllocationHandle>,
    is_mapped: bool,
}

impl ReadOnlyCopy {
    /// `None` where the device cannot do it or has no memory left: whoever asks goes without.
    pub fn of(
        source: sys::CUdeviceptr,
        bytes: u64,
        stream: sys::CUstream,
    ) -> Result<Option<ReadOnlyCopy>, DeviceError> {
        let Some((own, device)) = ReadOnlyCopy::writable(bytes.max(1) as usize) else { return Ok(None) };
        // SAFETY: both ranges are at least as long as the copy.
        let copied = unsafe { sys::cuMemcpyDtoDAsync_v2(own.address, source, bytes as usize, stream) };
        driver::synchronize(stream)?;
        let is_closed = own.set_access(device, sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ);
        Ok((copied == sys::CUresult::CUDA_SUCCESS && is_closed).then_some(own))
    }

    pub fn address(&self) -> sys::CUdeviceptr {
        self.address
    }

    fn writable(bytes: usize) -> Option<(ReadOnlyCopy, i32)> {
        let good = |result: sys::CUresult| (result == sys::CUresult::CUDA_SUCCESS).then_some(());
        let (mut device, mut granularity, mut handle) = (0, 0, 0);
        let mut own = ReadOnlyCopy { address: 0, bytes: 0, handle: None, is_mapped: false };
        // SAFETY: all pointers are to live locals, and a context is current. What was made by a call that comes before one
        // that fails goes when `own` is dropped.
        unsafe {
            good(sys::cuCtxGetDevice(&mut device))?;
            let mut wanted: sys::CUmemAllocationProp = std::mem::zeroed();
            wanted.type_ = sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
            wanted.location = location(device);
            let least = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
            good(sys::cuMemGetAllocationGranularity(&mut granularity, &wanted, least))?;
            own.bytes = bytes.checked_next_multiple_of(granularity)?;
            good(sys::cuMemAddressReserve(&mut own.address, own.bytes, 0, 0, 0))?;
            good(sys::cuMemCreate(&mut handle, own.bytes, &wanted, 0))?;
            own.handle = Some(handle);
            good(sys::cuMemMap(own.address, own.bytes, 0, handle, 0))?;
            own.is_mapped = true;
        }
        let both = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        own.set_access(device, both).then_some((own, device))
    }

    fn set_access(&self, device: i32, flags: sys::CUmemAccess_flags) -> bool {
        let wanted = sys::CUmemAccessDesc { location: location(device), flags };
        // SAFETY: the range is the mapping's; the descriptor is a live local.
        unsafe { sys::cuMemSetAccess(self.address, self.bytes, &wanted, 1) == sys::CUresult::CUDA_SUCCESS }
    }
}

impl Drop for ReadOnlyCopy {
    fn drop(&mut self) {
        // SAFETY: each part was made once and is given back once, the mapping first; nothing runs on it, because whoever
        // drops it has waited. After a fault in the context the calls fail, and the process ends soon.
        unsafe {
            if self.is_mapped {
                sys::cuMemUnmap(self.address, self.bytes);
            }
            if let Some(handle) = self.handle {
                sys::cuMemRelease(handle);
            }
            if self.address != 0 {
                sys::cuMemAddressFree(self.address, self.bytes);
            }
        }
    }
}

fn location(device: i32) -> sys::CUmemLocation {
    // SAFETY: a struct of an enum and numbers, of which all are set that mean something.
    let mut own: sys::CUmemLocation = unsafe { std::mem::zeroed() };
    own.type_ = sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
    own.id = device;
    own
}
