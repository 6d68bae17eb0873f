//! An instrumented module as it lies in memory: where its checker hangs, its variables, its lines.

use std::cell::OnceCell;
use std::ffi::c_void;
use std::sync::atomic::AtomicPtr;

use super::lines::LineTable;
use super::symbols::{self, Variable};

#[derive(Debug)]
pub struct ModuleImage {
    /// Where the module's code looks for its checker.
    pub slot: *const AtomicPtr<c_void>,
    /// Static shared memory, by offset in the thread-local segment.
    pub shared: Vec<Variable>,
    pub globals: Vec<Variable>,
    pub range: (usize, usize),
    binary: Vec<u8>,
    lines: OnceCell<LineTable>,
}

impl ModuleImage {
    /// Nothing if the loader does not know the address.
    pub fn of(slot: *const AtomicPtr<c_void>, binary: &[u8]) -> Option<ModuleImage> {
        // SAFETY: all zeros is a valid record for the loader to fill in.
        let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: the loader only compares the address, and writes to our record.
        let status = unsafe { libc::dladdr(slot.cast::<c_void>(), &mut found) };
        let base = found.dli_fbase as usize;
        if status == 0 || base == 0 {
            return None;
        }
        let (shared, globals) = symbols::variables(binary);
        let end = base + span(binary);
        let (binary, lines) = (binary.to_vec(), OnceCell::new());
        Some(ModuleImage { slot, shared, globals, range: (base, end), binary, lines })
    }

    pub fn line(&self, from: usize) -> Option<u32> {
        let lines = self.lines.get_or_init(|| LineTable::read(&self.binary));
        lines.line(from.checked_sub(self.range.0)? as u64)
    }
}

fn span(binary: &[u8]) -> usize {
    use object::{Object, ObjectSegment};
    let Ok(file) = object::File::parse(binary) else { return 0 };
    file.segments().map(|segment| (segment.address() + segment.size()) as usize).max().unwrap_or(0)
}
