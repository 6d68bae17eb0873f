//! A loaded module's own variables: what they hold, and what they held when the module was loaded.

use std::ffi::{CString, c_void};

use cudarc::driver::sys;
use evo_protocol::device::DeviceError;

use super::driver::{self, check};
use super::support::Support;
use crate::device::VariableState;
use crate::symbols::{self, VariablePlace};

struct DeviceVariable {
    name: String,
    symbol: String,
    address: sys::CUdeviceptr,
    bytes: u64,
    /// What it held after loading; zeros where there is nothing.
    initial: Option<Vec<u8>>,
}

pub struct DeviceVariables {
    own: Vec<DeviceVariable>,
    module: sys::CUmodule,
    /// `__constant__` variables, which kernels cannot write. Each is looked up when it is first asked for, because
    /// reading them takes a while and few tasks fill one.
    constants: Vec<VariablePlace>,
    /// What was left of the device heap after loading, of a module whose kernels take memory from it.
    heap: Option<u64>,
}

impl DeviceVariables {
    /// A variable that the driver does not find or read is left out.
    pub fn of(module: sys::CUmodule, binary: &[u8]) -> DeviceVariables {
        let places = symbols::variables(binary).into_iter();
        let found = places.filter_map(|place| {
            let address = address_of(module, &place.symbol).filter(|(_, bytes)| *bytes == place.bytes)?.0;
            DeviceVariable::new(address, place).ok()
        });
        let constants = symbols::constants(binary);
        DeviceVariables { own: found.collect(), module, constants, heap: None }
    }

    /// What they hold after all work enqueued before.
    pub fn states(&self, support: &Support) -> Result<Vec<VariableState>, DeviceError> {
        let state = |own: &DeviceVariable| {
            // The hash reads words; the bytes beside a variable are the section's.
            let start = own.address & !3;
            let end = (own.address + own.bytes).next_multiple_of(4);
            Ok(VariableState { name: own.name.clone(), hash: support.hash(start, end - start)? })
        };
        self.own.iter().map(state).collect()
    }

    pub fn note_heap(&mut self, binary: &[u8], support: &Support) -> Result<(), DeviceError> {
        if symbols::takes_memory(binary) {
            self.heap = Some(support.heap_left()?);
        }
        Ok(())
    }

    pub fn heap_kept(&self, support: &Support) -> Result<u64, DeviceError> {
        match self.heap {
            Some(before) => Ok(before.saturating_sub(support.heap_left()?)),
            None => Ok(0),
        }
    }

    /// Only enqueues it.
    pub fn restore(&self, stream: sys::CUstream) -> Result<(), DeviceError> {
        for own in &self.own {
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

    fn named(&mut self, name: &str, bytes: u64) -> Result<&DeviceVariable, DeviceError> {
        let own = self.own.iter().map(|own| own.symbol.as_str());
        let all = own.chain(self.constants.iter().map(|own| own.symbol.as_str()));
        let Some(mut position) = symbols::meant(all, name) else {
            let own = self.own.iter().map(|own| own.name.as_str());
            return Err(symbols::missing(
                name,
                own.chain(self.constants.iter().map(|own| own.name.as_str())).collect(),
            ));
        };
        if let Some(constant) = position.checked_sub(self.own.len()) {
            let place = self.constants.remove(constant);
            let found = address_of(self.module, &place.symbol).filter(|(_, bytes)| *bytes == place.bytes);
            let (address, _) = found.ok_or_else(|| symbols::missing(name, vec![place.name.as_str()]))?;
            self.own.push(DeviceVariable::new(address, place)?);
            position = self.own.len() - 1;
        }
        let found = &self.own[position];
        symbols::check_size(name, found.bytes, bytes)?;
        Ok(found)
    }

    /// What lies behind becomes what it was after loading.
    pub fn write(
        &mut self,
        name: &str,
        (source, bytes): (sys::CUdeviceptr, u64),
        stream: sys::CUstream,
    ) -> Result<(), DeviceError> {
        let own = self.named(name, bytes)?;
        let (behind, left) = (own.address + bytes, (own.bytes - bytes) as usize);
        // SAFETY: both ranges were checked against the variable, and the source is a live buffer of so many bytes; the
        // driver stages pageable memory before it returns.
        unsafe {
            let copy = sys::cuMemcpyDtoDAsync_v2(own.address, source, bytes as usize, stream);
            check(copy, "cannot fill a variable of the module")?;
            if left == 0 {
                return Ok(());
            }
            let rest = match &own.initial {
                Some(initial) => {
                    let source = initial[bytes as usize..].as_ptr().cast::<c_void>();
                    sys::cuMemcpyHtoDAsync_v2(behind, source, left, stream)
                }
                None => sys::cuMemsetD8Async(behind, 0, left, stream),
            };
            check(rest, "cannot fill a variable of the module")
        }
    }

    /// After all work enqueued before. Says whether what lies behind is as it was after loading.
    pub fn read(
        &mut self,
        name: &str,
        (target, bytes): (sys::CUdeviceptr, u64),
        stream: sys::CUstream,
    ) -> Result<bool, DeviceError> {
        let own = self.named(name, bytes)?;
        let mut behind = vec![0u8; (own.bytes - bytes) as usize];
        // SAFETY: both ranges were checked against the variable, the target is a live buffer of so many bytes, and the
        // vector lives past the synchronization.
        unsafe {
            let copy = sys::cuMemcpyDtoDAsync_v2(target, own.address, bytes as usize, stream);
            check(copy, "cannot read a variable of the module")?;
            if !behind.is_empty() {
                let (to, from) = (behind.as_mut_ptr().cast::<c_void>(), own.address + bytes);
                let copy = sys::cuMemcpyDtoHAsync_v2(to, from, behind.len(), stream);
                check(copy, "cannot read a variable of the module")?;
            }
        }
        driver::synchronize(stream)?;
        Ok(match &own.initial {
            Some(initial) => behind == initial[bytes as usize..],
            None => behind.iter().all(|byte| *byte == 0),
        })
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
        let VariablePlace { name, symbol, bytes, .. } = place;
        Ok(DeviceVariable { name, symbol, address, bytes, initial })
    }
}

fn address_of(module: sys::CUmodule, symbol: &str) -> Option<(sys::CUdeviceptr, u64)> {
    let name = CString::new(symbol).ok()?;
    let (mut pointer, mut bytes) = (0, 0);
    // SAFETY: the name is NUL-terminated; pointers are to live locals; the module is loaded.
    let result = unsafe { sys::cuModuleGetGlobal_v2(&mut pointer, &mut bytes, module, name.as_ptr()) };
    (result == sys::CUresult::CUDA_SUCCESS).then_some((pointer, bytes as u64))
}
