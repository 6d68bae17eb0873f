//! An instrumented module as it lies in memory: where its checker hangs, its variables, its lines.

use std::cell::OnceCell;
use std::ffi::c_void;
use std::sync::atomic::AtomicPtr;

use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};

use super::lines::LineTable;
use crate::variables::plain_name;

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
        let (shared, globals) = variables(binary);
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
    let Ok(file) = object::File::parse(binary) else { return 0 };
    file.segments().map(|segment| (segment.address() + segment.size()) as usize).max().unwrap_or(0)
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    /// From the start of the module, or of its thread-local segment.
    pub offset: usize,
    pub bytes: usize,
}

/// The name of a flag by which a compiler initializes a variable once, instead of the variable's own.
pub const GUARD: &str = "guard variable";

pub fn variables(binary: &[u8]) -> (Vec<Variable>, Vec<Variable>) {
    let Ok(file) = object::File::parse(binary) else { return Default::default() };
    let of_kind = |kind: SymbolKind| -> Vec<Variable> {
        let symbols = file.symbols().filter(|symbol| symbol.kind() == kind && symbol.size() > 0);
        let read = symbols.filter_map(|symbol| {
            let mangled = symbol.name().ok()?;
            let name = readable(mangled);
            // In a namespace these names are a kernel's own, or those of counters by which blocks that meet at a barrier of
            // the grid are in order.
            let is_plain = !mangled.starts_with("_ZN");
            let is_runtimes = name.contains('.') || (is_plain && name.starts_with("__"));
            let is_hidden =
                (kind == SymbolKind::Data && is_runtimes) || (is_plain && name.starts_with("evo_"));
            let (offset, bytes) = (symbol.address() as usize, symbol.size() as usize);
            (!is_hidden).then_some(Variable { name, offset, bytes })
        });
        read.collect()
    };
    (of_kind(SymbolKind::Tls), of_kind(SymbolKind::Data))
}

fn readable(symbol: &str) -> String {
    if symbol.starts_with("_ZGV") { GUARD.to_string() } else { plain_name(symbol) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_become_the_names_of_the_source() {
        let check = |symbol: &str, expected: &str| assert_eq!(readable(symbol), expected);
        check("counter", "counter");
        check("_ZL5table", "table");
        check("_ZZ1kPKfPfiPViE4tile", "tile");
        check("_ZZ4gemmILi16EEvPfE6tile_a", "tile_a");
        check("_ZZ4gemmPfE4tile_0", "tile");
        check("_ZZ4gemmPfE6tile_0", "tile_0");
        check("_ZZ4gemmILi8EEvPfE4tile", "tile");
        check("_ZZ2k6E4tile", "tile");
        check("_ZZ1kPK6__halfPKfS3_E4tile", "tile");
        check("_ZZ1kPKfPKiPfS3_E4tile", "tile");
        check("_ZStrange", "_ZStrange");
        check("_ZGVZ4gemmPfE4tile", GUARD);
    }
}
