//! The variables of a shared object that is loaded here.

use evo_protocol::device::DeviceError;

use crate::device::VariableState;
use crate::variables::{self, Variable, VariableMemory};

#[derive(Debug)]
pub struct HostVariables(Vec<Variable>);

/// Made where the module is loaded and none of its code is running.
struct ModuleMemory;

impl VariableMemory for ModuleMemory {
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        // SAFETY: the range is part of a variable, which lies in a section that is loaded.
        unsafe { (address as *const u8).copy_to_nonoverlapping(into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    fn store(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        // SAFETY: as above.
        unsafe { (address as *mut u8).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    fn clear(&self, address: u64, bytes: u64) -> Result<(), DeviceError> {
        // SAFETY: as above.
        unsafe { (address as *mut u8).write_bytes(0, bytes as usize) };
        Ok(())
    }
}

/// Of all methods the caller promises that the module is loaded and none of its code is running.
impl HostVariables {
    /// # Safety
    /// The module made of `binary` is loaded at `base`.
    pub unsafe fn of(binary: &[u8], base: usize) -> Result<HostVariables, DeviceError> {
        let places = variables::variables(binary).into_iter();
        let loaded = places.map(|place| {
            let address = base as u64 + place.address;
            Variable::new(place, address, &ModuleMemory)
        });
        Ok(HostVariables(loaded.collect::<Result<_, _>>()?))
    }

    /// # Safety
    /// As above.
    pub unsafe fn states(&self) -> Result<Vec<VariableState>, DeviceError> {
        let state = |variable: &Variable| {
            // On the calling thread, which may not start others where variants run behind fences.
            let mut hasher = blake3::Hasher::new();
            variable.each_piece(0, &ModuleMemory, |_, piece| {
                hasher.update(piece);
                true
            })?;
            let hash = hasher.finalize();
            let hash = hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            Ok(VariableState { name: variable.name.clone(), hash })
        };
        self.0.iter().map(state).collect()
    }

    /// # Safety
    /// As above.
    pub unsafe fn restore(&self) -> Result<(), DeviceError> {
        self.0.iter().try_for_each(|variable| variable.reset(0, &ModuleMemory))
    }

    fn named(&self, name: &str, bytes: usize) -> Result<&Variable, DeviceError> {
        let symbols: Vec<&str> = self.0.iter().map(|variable| variable.symbol.as_str()).collect();
        self.0[variables::meant(&symbols, name)?].holding(name, bytes as u64)
    }

    /// # Safety
    /// As above.
    pub unsafe fn write(&self, name: &str, bytes: &[u8]) -> Result<(), DeviceError> {
        let variable = self.named(name, bytes.len())?;
        ModuleMemory.store(variable.address, bytes)?;
        variable.reset(bytes.len() as u64, &ModuleMemory)
    }

    /// Whether what lies behind the start of the variable is as it was after loading.
    ///
    /// # Safety
    /// As above.
    pub unsafe fn read(&self, name: &str, into: &mut [u8]) -> Result<bool, DeviceError> {
        let variable = self.named(name, into.len())?;
        ModuleMemory.load(variable.address, into)?;
        variable.is_reset(into.len() as u64, &ModuleMemory)
    }
}
