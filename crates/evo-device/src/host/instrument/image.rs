//! An instrumented module as it lies in memory: where its checker hangs, its variables, its lines.

use std::cell::OnceCell;
use std::ffi::c_void;
use std::sync::atomic::AtomicPtr;

use object::SymbolKind;

use super::lines::LineTable;
use crate::variables::{VariablePlace, symbols};

#[derive(Debug)]
pub struct ModuleImage {
    /// Where the module's code looks for its checker.
    pub slot: *const AtomicPtr<c_void>,
    pub globals: Vec<VariablePlace>,
    /// The module's first address.
    pub start: usize,
    binary: Vec<u8>,
    lines: OnceCell<LineTable>,
}

impl ModuleImage {
    pub fn of(slot: *const AtomicPtr<c_void>, binary: &[u8], start: usize) -> ModuleImage {
        let mut globals = symbols(binary, SymbolKind::Data, |_, _| true);
        globals.retain(|variable| !is_runtimes(variable));
        ModuleImage { slot, globals, start, binary: binary.to_vec(), lines: OnceCell::new() }
    }

    pub fn line(&self, from: usize) -> Option<u32> {
        let lines = self.lines.get_or_init(|| LineTable::read(&self.binary));
        lines.line(from.checked_sub(self.start)? as u64)
    }
}

/// In a namespace these names are a kernel's own, or those of counters by which blocks that meet at a barrier of the
/// grid are in order.
fn is_runtimes(VariablePlace { name, symbol, .. }: &VariablePlace) -> bool {
    name.contains('.')
        || (!symbol.starts_with("_ZN") && ["__", "evo_"].iter().any(|own| name.starts_with(own)))
}
