//! The variables of a cubin that is loaded on a GPU.

use std::ffi::CString;
use std::ptr;

use cudarc::driver::sys;
use evo_protocol::device::DeviceError;

use super::driver::{self, check};
use super::support::Support;
use crate::variables::{self, Variable, VariableMemory, VariablePlace};

/// The stream in which modules are loaded.
const DEFAULT: sys::CUstream = ptr::null_mut();

pub struct DeviceVariables {
    pub found: Vec<Variable>,
    module: sys::CUmodule,
    /// `__constant__` variables, which kernels cannot write. Each is looked up when it is first asked for, because
    /// reading them takes a while and few tasks fill one.
    constants: Vec<VariablePlace>,
    /// What was left of the device heap after loading, of a module whose kernels take memory from it.
    heap: Option<u64>,
}

/// In the order of a stream; loads are after all work enqueued before.
pub struct InStream<'a>(pub sys::CUstream, pub &'a Support);

impl VariableMemory for InStream<'_> {
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        // SAFETY: the range is part of a variable.
        unsafe { driver::download(into, address, self.0) }
    }

    fn store(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        // SAFETY: as above.
        unsafe { driver::upload(address, bytes, self.0) }
    }

    fn clear(&self, address: u64, bytes: u64) -> Result<(), DeviceError> {
        // SAFETY: as above.
        let cleared = unsafe { sys::cuMemsetD8Async(address, 0, bytes as usize, self.0) };
        check(cleared, "cannot restore a variable of the module")
    }

    fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<(), DeviceError> {
        // SAFETY: as above; the other range is a live buffer.
        unsafe { driver::copy(from, to, bytes, self.0) }
    }

    fn hash(&self, variable: &Variable) -> Result<u64, DeviceError> {
        // The hash reads words; the bytes beside a variable are the section's.
        let start = variable.place.address & !3;
        let end = (variable.place.address + variable.place.bytes).next_multiple_of(4);
        self.1.hash(start, end - start)
    }
}

impl DeviceVariables {
    /// A variable that the driver does not find or read is left out.
    pub fn of(
        module: sys::CUmodule,
        binary: &[u8],
        support: &Support,
    ) -> Result<DeviceVariables, DeviceError> {
        let places = variables::variables(binary).into_iter();
        let loaded = |place: VariablePlace| {
            let address = address_of(module, &place)?;
            Variable::new(place, address, &InStream(DEFAULT, support)).ok()
        };
        let found = places.filter_map(loaded).collect();
        let heap = variables::takes_memory(binary).then(|| support.heap_left()).transpose()?;
        Ok(DeviceVariables { found, module, constants: variables::constants(binary), heap })
    }

    pub fn heap_kept(&self, support: &Support) -> Result<u64, DeviceError> {
        let kept = |before: u64| Ok(before.saturating_sub(support.heap_left()?));
        self.heap.map_or(Ok(0), kept)
    }

    pub fn named(&mut self, name: &str, bytes: u64, support: &Support) -> Result<&Variable, DeviceError> {
        let constants = self.constants.iter().map(|place| place.symbol.as_str());
        let symbols = self.found.iter().map(|variable| variable.place.symbol.as_str()).chain(constants);
        let mut at = variables::meant(&symbols.collect::<Vec<_>>(), name)?;
        if let Some(constant) = at.checked_sub(self.found.len()) {
            let place = self.constants.remove(constant);
            let address = address_of(self.module, &place);
            let address = address.ok_or_else(|| variables::missing(name, &[place.symbol.as_str()]))?;
            at = self.found.len();
            self.found.push(Variable::new(place, address, &InStream(DEFAULT, support))?);
        }
        self.found[at].holding(name, bytes)
    }
}

/// Nothing where the driver has another idea of its size.
fn address_of(module: sys::CUmodule, place: &VariablePlace) -> Option<sys::CUdeviceptr> {
    let name = CString::new(place.symbol.as_str()).ok()?;
    let (mut pointer, mut bytes) = (0, 0);
    // SAFETY: the name is NUL-terminated; pointers are to live locals; the module is loaded.
    let result = unsafe { sys::cuModuleGetGlobal_v2(&mut pointer, &mut bytes, module, name.as_ptr()) };
    (result == sys::CUresult::CUDA_SUCCESS && bytes as u64 == place.bytes).then_some(pointer)
}
