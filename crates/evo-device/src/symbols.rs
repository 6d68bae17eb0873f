//! A compiled variant's own variables, as its symbol table tells: `__device__` variables and static locals.

use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, SectionIndex, SymbolKind, elf};

/// What is not the kernel's: the variant's hash, where watched launches say who watches, and a flag of the compiler's
/// start-up code.
const NOT_ITS_OWN: [&str; 3] = ["evo_variant_hash", "evo_watch_slot", "completed.0"];

/// Parts of the names of what the compiler and CUDA's own headers bring along: guards of static locals, texts, constants of
/// the standard library. A dozen constants cost a screened variant a millisecond.
const LIBRARY: [&str; 5] = ["_ZGV", "$str", "__unnamed_", "4cuda3std", "__nv_"];

/// A variable in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariablePlace {
    /// Its name in the source, as far as the mangled one tells.
    pub name: String,
    /// Its symbol.
    pub symbol: String,
    /// Number of its section.
    pub section: usize,
    /// What the symbol table says: for a shared object the address before relocation, for a cubin the offset in the
    /// section.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// Whether it starts as zeros.
    pub zero: bool,
}

/// The variables that a kernel may write, without evo's own; none for a file that is not ELF.
pub fn variables(binary: &[u8]) -> Vec<VariablePlace> {
    let Ok(file) = object::File::parse(binary) else { return Vec::new() };
    let writable = |index: SectionIndex| {
        let section = file.section_by_index(index).ok()?;
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { return None };
        let name = section.name().ok()?;
        let ours = [".data", ".bss", ".nv.global"].iter().any(|own| name.starts_with(own));
        // Constructors' and the loader's tables are writable too, but no variables of the kernel.
        let data = ours && !name.starts_with(".data.rel.ro") && sh_flags.contains(elf::SHF_WRITE);
        data.then(|| name.starts_with(".bss") || name == ".nv.global")
    };
    let place = |symbol: object::Symbol<'_, '_>| {
        let (name, section) = (symbol.name().ok()?, symbol.section_index()?);
        let data = symbol.kind() == SymbolKind::Data && symbol.size() > 0;
        if !data || NOT_ITS_OWN.contains(&name) || LIBRARY.iter().any(|own| name.contains(own)) {
            return None;
        }
        Some(VariablePlace {
            name: plain_name(name),
            symbol: name.to_string(),
            section: section.0,
            address: symbol.address(),
            bytes: symbol.size(),
            zero: writable(section)?,
        })
    };
    let mut places: Vec<VariablePlace> = file.symbols().filter_map(place).collect();
    places.sort_by_key(|place| (place.section, place.address));
    places
}

/// The last identifier of a mangled name (`_ZZ1kE5calls` and `_ZN12_GLOBAL__N_15callsE` give `calls`); any other name
/// as it is. The Itanium C++ ABI writes an identifier as its length and its letters.
pub fn plain_name(symbol: &str) -> String {
    let Some(mangled) = symbol.strip_prefix("_Z") else { return symbol.to_string() };
    let (mut rest, mut last) = (mangled, None);
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits = rest[start..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - start);
        let name = &rest[start + digits..];
        // A number may run into a name that begins with a digit only in what cannot be an identifier.
        match rest[start..start + digits].parse::<usize>() {
            Ok(length) if length > 0 && name.is_char_boundary(length) && length <= name.len() => {
                last = Some(&name[..length]);
                rest = &name[length..];
            }
            _ => rest = name,
        }
    }
    last.unwrap_or(symbol).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_identifier_is_the_variable() {
        assert_eq!(plain_name("calls"), "calls");
        assert_eq!(plain_name("_ZZ1kE5calls"), "calls");
        assert_eq!(plain_name("_ZN12_GLOBAL__N_15callsE"), "calls");
        assert_eq!(plain_name("_Z"), "_Z");
    }

    #[test]
    fn what_is_no_program_has_no_variables() {
        assert_eq!(variables(b"no program"), []);
    }
}
