//! A loaded module's own variables: what they hold, and what they held when the module was loaded.

use evo_protocol::device::DeviceError;

use crate::device::VariableState;
use crate::symbols;

/// On the calling thread, which may not start others where variants run behind fences.
fn hash(bytes: &[u8]) -> u64 {
    let whole = blake3::hash(bytes);
    u64::from_le_bytes(whole.as_bytes()[..8].try_into().expect("a hash has more than eight bytes"))
}

#[derive(Debug)]
struct HostVariable {
    name: String,
    symbol: String,
    address: usize,
    bytes: usize,
    initial: Option<Box<[u8]>>,
}

#[derive(Debug)]
pub struct HostVariables(Vec<HostVariable>);

impl HostVariables {
    /// # Safety
    /// The module made of `binary` is loaded at `base`, and none of its code is running.
    pub unsafe fn of(binary: &[u8], base: usize) -> HostVariables {
        let own = symbols::variables(binary).into_iter().map(|place| {
            let (address, bytes) = (base + place.address as usize, place.bytes as usize);
            // SAFETY: as the caller promises; the symbol lies in a section that is loaded.
            let now = || unsafe { std::slice::from_raw_parts(address as *const u8, bytes) };
            let initial = (!place.zero).then(|| now().into());
            HostVariable { name: place.name, symbol: place.symbol, address, bytes, initial }
        });
        HostVariables(own.collect())
    }

    /// # Safety
    /// The module is loaded, and none of its code is running.
    pub unsafe fn states(&self) -> Vec<VariableState> {
        let state = |own: &HostVariable| {
            // SAFETY: as the caller promises.
            let now = unsafe { std::slice::from_raw_parts(own.address as *const u8, own.bytes) };
            VariableState { name: own.name.clone(), hash: hash(now) }
        };
        self.0.iter().map(state).collect()
    }

    /// # Safety
    /// The module is loaded, and none of its code is running.
    pub unsafe fn restore(&self) {
        for own in &self.0 {
            let target = own.address as *mut u8;
            // SAFETY: as the caller promises; the copy is as long as the variable.
            unsafe {
                match &own.initial {
                    Some(initial) => target.copy_from_nonoverlapping(initial.as_ptr(), own.bytes),
                    None => target.write_bytes(0, own.bytes),
                }
            }
        }
    }

    fn named(&self, name: &str, bytes: usize) -> Result<&HostVariable, DeviceError> {
        let found = symbols::meant(self.0.iter().map(|own| own.symbol.as_str()), name);
        let known = || self.0.iter().map(|own| own.name.as_str()).collect();
        let found = &self.0[found.ok_or_else(|| symbols::missing(name, known()))?];
        symbols::check_size(name, found.bytes as u64, bytes as u64)?;
        Ok(found)
    }

    /// What lies behind the bytes becomes what it was after loading.
    ///
    /// # Safety
    /// The module is loaded, and none of its code is running.
    pub unsafe fn write(&self, name: &str, bytes: &[u8]) -> Result<(), DeviceError> {
        let own = self.named(name, bytes.len())?;
        let target = own.address as *mut u8;
        // SAFETY: as the caller promises; both parts together are as long as the variable.
        unsafe {
            target.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            let (behind, left) = (target.add(bytes.len()), own.bytes - bytes.len());
            match &own.initial {
                Some(initial) => behind.copy_from_nonoverlapping(initial[bytes.len()..].as_ptr(), left),
                None => behind.write_bytes(0, left),
            }
        }
        Ok(())
    }

    /// Whether what lies behind the start of the variable is as it was after loading.
    ///
    /// # Safety
    /// As `write`.
    pub unsafe fn read(&self, name: &str, into: &mut [u8]) -> Result<bool, DeviceError> {
        let own = self.named(name, into.len())?;
        // SAFETY: as the caller promises.
        let now = unsafe { std::slice::from_raw_parts(own.address as *const u8, own.bytes) };
        into.copy_from_slice(&now[..into.len()]);
        let behind = &now[into.len()..];
        Ok(match &own.initial {
            Some(initial) => *behind == initial[into.len()..],
            None => behind.iter().all(|byte| *byte == 0),
        })
    }
}
