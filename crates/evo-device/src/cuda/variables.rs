//! The variables of a cubin that is loaded on a GPU.

use std::ffi::CString;
use std::ptr;

use cudarc::driver::sys;
use evo_protocol::device::DeviceError;

use super::driver::{self, check};
use super::support::Support;
use crate::device::VariableState;
use crate::variables::{self, Variable, VariableMemory, VariablePlace};

pub struct DeviceVariables {
    found: Vec<Variable>,
    module: sys::CUmodule,
    /// `__constant__` variables, which kernels cannot write. Each is looked up when it is first asked for, because
    /// reading them takes a while and few tasks fill one.
    constants: Vec<VariablePlace>,
    /// What was left of the device heap after loading, of a module whose kernels take memory from it.
    heap: Option<u64>,
}

/// In the order of a stream; loads are after all work enqueued before.
struct InStream(sys::CUstream);

/// In which modules are loaded.
const DEFAULT: InStream = InStream(ptr::null_mut());

impl VariableMemory for InStream {
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
}

impl DeviceVariables {
    /// A variable that the driver does not find or read is left out.
    pub fn of(module: sys::CUmodule, binary: &[u8]) -> DeviceVariables {
        let places = variables::variables(binary).into_iter();
        let found = places
            .filter_map(|place| Variable::new(place.clone(), address_of(module, &place)?, &DEFAULT).ok())
            .collect();
        DeviceVariables { found, module, constants: variables::constants(binary), heap: None }
    }

    /// What they hold after all work enqueued before.
    pub fn states(&self, support: &Support) -> Result<Vec<VariableState>, DeviceError> {
        let state = |variable: &Variable| {
            // The hash reads words; the bytes beside a variable are the section's.
            let start = variable.address & !3;
            let end = (variable.address + variable.bytes).next_multiple_of(4);
            Ok(VariableState { name: variable.name.clone(), hash: support.hash(start, end - start)? })
        };
        self.found.iter().map(state).collect()
    }

    pub fn note_heap(&mut self, binary: &[u8], support: &Support) -> Result<(), DeviceError> {
        if variables::takes_memory(binary) {
            self.heap = Some(support.heap_left()?);
        }
        Ok(())
    }

    pub fn heap_kept(&self, support: &Support) -> Result<u64, DeviceError> {
        let kept = |before: u64| Ok(before.saturating_sub(support.heap_left()?));
        self.heap.map_or(Ok(0), kept)
    }

    pub fn restore(&self, stream: sys::CUstream) -> Result<(), DeviceError> {
        self.found.iter().try_for_each(|variable| variable.reset(0, &InStream(stream)))?;
        driver::synchronize(stream)
    }

    fn named(&mut self, name: &str, bytes: u64) -> Result<&Variable, DeviceError> {
        let constants = self.constants.iter().map(|place| place.symbol.as_str());
        let symbols = self.found.iter().map(|variable| variable.symbol.as_str()).chain(constants);
        let mut at = variables::meant(&symbols.collect::<Vec<_>>(), name)?;
        if let Some(constant) = at.checked_sub(self.found.len()) {
            let place = self.constants.remove(constant);
            let address = address_of(self.module, &place);
            let address = address.ok_or_else(|| variables::missing(name, &[place.symbol.as_str()]))?;
            at = self.found.len();
            self.found.push(Variable::new(place, address, &DEFAULT)?);
        }
        self.found[at].holding(name, bytes)
    }

    /// What lies behind becomes what it was after loading.
    pub fn write(
        &mut self,
        name: &str,
        (source, bytes): (sys::CUdeviceptr, u64),
        stream: sys::CUstream,
    ) -> Result<(), DeviceError> {
        let variable = self.named(name, bytes)?;
        // SAFETY: the size was checked against the variable, and the source is a live buffer of so many bytes.
        unsafe { driver::copy(source, variable.address, bytes, stream)? };
        variable.reset(bytes, &InStream(stream))
    }

    /// After all work enqueued before. Says whether what lies behind is as it was after loading.
    pub fn read(
        &mut self,
        name: &str,
        (target, bytes): (sys::CUdeviceptr, u64),
        stream: sys::CUstream,
    ) -> Result<bool, DeviceError> {
        let variable = self.named(name, bytes)?;
        // SAFETY: as above; the target is a live buffer of so many bytes.
        unsafe { driver::copy(variable.address, target, bytes, stream)? };
        let intact = variable.is_reset(bytes, &InStream(stream))?;
        driver::synchronize(stream)?;
        Ok(intact)
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
