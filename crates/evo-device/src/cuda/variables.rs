//! A loaded module's own variables: what they hold, and what they held when the module was loaded.

use std::ffi::{CString, c_void};

use cudarc::driver::sys;
use evo_protocol::device::DeviceError;

use super::driver::{self, check};
use super::support::Support;
use crate::device::VariableState;
use crate::symbols::{self, VariablePlace};

/// A `__device__` variable or a static local.
struct DeviceVariable {
    name: String,
    address: sys::CUdeviceptr,
    bytes: u64,
    /// What it held after loading; zeros where there is nothing.
    initial: Option<Vec<u8>>,
}

/// All of a module's that the driver knows by name.
pub struct DeviceVariables(Vec<DeviceVariable>);

impl DeviceVariables {
    /// The variables of a module that has just been loaded. One that the driver does not find or read is left out.
    pub fn of(module: sys::CUmodule, binary: &[u8]) -> DeviceVariables {
        let places = symbols::variables(binary).into_iter();
        let found = places.filter_map(|place| {
            let address = address_of(module, &place.symbol).filter(|(_, bytes)| *bytes == place.bytes)?.0;
            DeviceVariable::new(address, place).ok()
        });
        DeviceVariables(found.collect())
    }

    /// What each holds now, after all work enqueued before.
    pub fn states(&self, support: &Support) -> Result<Vec<VariableState>, DeviceError> {
        let state = |own: &DeviceVariable| {
            // The hash reads words; the bytes beside a variable are the section's.
            let start = own.address & !3;
            let end = (own.address + own.bytes).next_multiple_of(4);
            Ok(VariableState { name: own.name.clone(), hash: support.hash_range(start, end - start)? })
        };
        self.0.iter().map(state).collect()
    }

    /// Enqueues making all of them what they were after loading.
    pub fn restore(&self, stream: sys::CUstream) -> Result<(), DeviceError> {
        for own in &self.0 {
            // SAFETY: address and size are the module's; the driver stages pageable memory before it returns.
            unsafe {
                let result = match &own.initial {
                    Some(initial) => {
                        let source = initial.as_ptr().cast::<c_void>();
                        sys::cuMemcpyHtoDAsync_v2(own.address, source, initial.len(), stream)
                    }
                    None => sys::cuMemsetD8Async(own.address, 0, own.bytes as usize, stream),
                };
                check(result, "cannot restore a variable of the module")?;
            }
        }
        driver::synchronize(stream)
    }
}

impl DeviceVariable {
    fn new(address: sys::CUdeviceptr, place: VariablePlace) -> Result<DeviceVariable, DeviceError> {
        let initial = match place.zero {
            true => None,
            false => {
                let mut bytes = vec![0u8; place.bytes as usize];
                let target = bytes.as_mut_ptr().cast::<c_void>();
                // SAFETY: the copy is as long as the variable and as the vector.
                unsafe {
                    let copy = sys::cuMemcpyDtoH_v2(target, address, bytes.len());
                    check(copy, "cannot read a variable of the module")?;
                }
                Some(bytes)
            }
        };
        Ok(DeviceVariable { name: place.name, address, bytes: place.bytes, initial })
    }
}

/// Address and size.
fn address_of(module: sys::CUmodule, symbol: &str) -> Option<(sys::CUdeviceptr, u64)> {
    let name = CString::new(symbol).ok()?;
    let (mut pointer, mut bytes) = (0, 0);
    // SAFETY: the name is NUL-terminated; pointers are to live locals; the module is loaded.
    let result = unsafe { sys::cuModuleGetGlobal_v2(&mut pointer, &mut bytes, module, name.as_ptr()) };
    (result == sys::CUresult::CUDA_SUCCESS).then_some((pointer, bytes as u64))
}
