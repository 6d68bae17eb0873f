//! Memory of a shared object that is loaded here.

use evo_protocol::device::DeviceError;

use crate::variables::{Variable, VariableMemory};

/// Used only for variables of modules that are loaded, while none of their code is running, and for buffers of which
/// nobody holds a reference.
pub struct ModuleMemory;

impl VariableMemory for ModuleMemory {
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.copy(address, into.as_mut_ptr() as u64, into.len() as u64)
    }

    fn store(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.copy(bytes.as_ptr() as u64, address, bytes.len() as u64)
    }

    fn clear(&self, address: u64, bytes: u64) -> Result<(), DeviceError> {
        // SAFETY: the range is part of a variable, which lies in a section that is loaded.
        unsafe { (address as *mut u8).write_bytes(0, bytes as usize) };
        Ok(())
    }

    fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<(), DeviceError> {
        // SAFETY: as above; the other range is a buffer's or a slice's.
        unsafe { (from as *const u8).copy_to_nonoverlapping(to as *mut u8, bytes as usize) };
        Ok(())
    }

    fn hash(&self, variable: &Variable) -> Result<u64, DeviceError> {
        // On the calling thread, which may not start others where variants run behind fences.
        let mut hasher = blake3::Hasher::new();
        variable.each_piece(0, self, |_, piece| {
            hasher.update(piece);
            true
        })?;
        let hash = hasher.finalize();
        Ok(hash.as_bytes().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)))
    }
}
