//! The variables of a module by name, from its symbol table.

use object::{Object, ObjectSymbol, SymbolKind};

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
        let own = file.symbols().filter(|symbol| symbol.kind() == kind && symbol.size() > 0);
        let read = own.filter_map(|symbol| {
            let name = readable(symbol.name().ok()?);
            let runtimes = kind == SymbolKind::Data && (name.starts_with("__") || name.contains('.'));
            let (offset, bytes) = (symbol.address() as usize, symbol.size() as usize);
            (!runtimes && !name.starts_with("evo_")).then_some(Variable { name, offset, bytes })
        });
        read.collect()
    };
    (of_kind(SymbolKind::Tls), of_kind(SymbolKind::Data))
}

/// `_ZZ4gemmPfE4tile`, `_ZL5table` and `counter` end in the name that the source gives them: its length, the
/// name, and for the second variable of one name a number behind it.
fn readable(symbol: &str) -> String {
    let Some(mangled) = symbol.strip_prefix("_Z") else { return symbol.to_string() };
    if mangled.starts_with("GV") {
        return GUARD.to_string();
    }
    let (body, _) = match mangled.rsplit_once('_') {
        Some((body, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => {
            (body, number)
        }
        _ => (mangled, ""),
    };
    for text in [mangled, body] {
        let named = text.char_indices().filter(|(_, c)| c.is_ascii_digit()).find_map(|(at, _)| {
            let digits = text[at..].bytes().take_while(u8::is_ascii_digit).count();
            let length: usize = text[at..at + digits].parse().ok()?;
            let name = &text[at + digits..];
            (name.len() == length && length > 0).then_some(name)
        });
        if let Some(name) = named {
            return name.to_string();
        }
    }
    symbol.to_string()
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
        check("_ZStrange", "_ZStrange");
        check("_ZGVZ4gemmPfE4tile", GUARD);
    }
}
