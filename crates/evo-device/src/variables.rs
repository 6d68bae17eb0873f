//! A compiled variant's own variables (`__device__` variables and static locals): where its symbol table has them, and
//! what they held when the module was loaded.

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::VerdictKind;
use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, SectionKind, SymbolKind, elf};

use crate::device::VariableState;

/// What is not the kernel's: the variant's hash, where watched launches say who watches, and a flag of the compiler's
/// start-up code.
const NOT_ITS_OWN: [&str; 3] = ["evo_variant_hash", "evo_watch_slot", "completed.0"];

/// Parts of the names of what the compiler and CUDA's own headers bring along: guards of static locals, texts, constants of
/// the standard library. A dozen constants cost a screened variant a millisecond.
const LIBRARY: [&str; 5] = ["_ZGV", "$str", "__unnamed_", "4cuda3std", "__nv_"];

const PIECE_BYTES: u64 = 1 << 24;

/// The name of a flag by which a compiler initializes a variable once, instead of the variable's own.
pub const GUARD: &str = "guard variable";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariablePlace {
    /// Its name in the source, as far as the mangled one tells.
    pub name: String,
    pub symbol: String,
    /// For a shared object the address before relocation, for a thread-local variable that in its segment, for a cubin the
    /// offset in the section.
    pub address: u64,
    pub bytes: u64,
    pub zero: bool,
}

/// Where a cubin keeps `__constant__` variables.
const CONSTANTS: &str = ".nv.constant3";

pub fn constants(binary: &[u8]) -> Vec<VariablePlace> {
    own(symbols(binary, SymbolKind::Data, |section, _| section == CONSTANTS))
}

/// Without evo's own; none for a file that is not ELF.
pub fn variables(binary: &[u8]) -> Vec<VariablePlace> {
    own(symbols(binary, SymbolKind::Data, |section, writable| {
        let ours = [".data", ".bss", ".nv.global"].iter().any(|own| section.starts_with(own));
        // Constructors' and the loader's tables are writable too, but no variables of the kernel.
        ours && writable && !section.starts_with(".data.rel.ro")
    }))
}

fn own(mut places: Vec<VariablePlace>) -> Vec<VariablePlace> {
    let is_brought = |symbol: &str| LIBRARY.iter().any(|part| symbol.contains(part));
    places.retain(|place| !NOT_ITS_OWN.contains(&&*place.symbol) && !is_brought(&place.symbol));
    places
}

pub fn takes_memory(binary: &[u8]) -> bool {
    let Ok(file) = object::File::parse(binary) else { return false };
    file.symbols().any(|symbol| symbol.name() == Ok("malloc"))
}

/// What a file's symbol table has of a kind, by section and address; of a section, name and whether it is writable decide.
pub fn symbols(binary: &[u8], kind: SymbolKind, is_in: impl Fn(&str, bool) -> bool) -> Vec<VariablePlace> {
    let Ok(file) = object::File::parse(binary) else { return Vec::new() };
    let place = |symbol: object::Symbol<'_, '_>| {
        let (name, index) = (symbol.name().ok()?, symbol.section_index()?);
        let section = file.section_by_index(index).ok()?;
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { return None };
        let meant = symbol.kind() == kind && symbol.size() > 0;
        if !meant || !is_in(section.name().ok()?, sh_flags.contains(elf::SHF_WRITE)) {
            return None;
        }
        let place = VariablePlace {
            name: plain_name(name),
            symbol: name.to_string(),
            address: symbol.address(),
            bytes: symbol.size(),
            zero: section.kind() == SectionKind::UninitializedData,
        };
        Some((index, place))
    };
    let mut places: Vec<_> = file.symbols().filter_map(place).collect();
    places.sort_by_key(|(index, place)| (index.0, place.address));
    places.into_iter().map(|(_, place)| place).collect()
}

/// Memory of a loaded module: addresses and sizes are those of its variables, and for copies of buffers too.
pub trait VariableMemory {
    fn load(&self, address: u64, into: &mut [u8]) -> Result<(), DeviceError>;

    fn store(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    fn clear(&self, address: u64, bytes: u64) -> Result<(), DeviceError>;

    fn copy(&self, from: u64, to: u64, bytes: u64) -> Result<(), DeviceError>;

    /// Of what it holds now.
    fn hash(&self, variable: &Variable) -> Result<u64, DeviceError>;
}

pub fn states(found: &[Variable], memory: &impl VariableMemory) -> Result<Vec<VariableState>, DeviceError> {
    let state = |own: &Variable| Ok(VariableState { name: own.place.name.clone(), hash: memory.hash(own)? });
    found.iter().map(state).collect()
}

pub fn restore(found: &[Variable], memory: &impl VariableMemory) -> Result<(), DeviceError> {
    found.iter().try_for_each(|variable| variable.reset(0, memory))
}

pub fn find<'v>(found: &'v [Variable], name: &str, bytes: u64) -> Result<&'v Variable, DeviceError> {
    let symbols: Vec<&str> = found.iter().map(|variable| variable.place.symbol.as_str()).collect();
    found[meant(&symbols, name)?].holding(name, bytes)
}

#[derive(Debug)]
pub struct Variable {
    /// In memory.
    pub place: VariablePlace,
    /// What it held after loading; zeros where there is nothing.
    initial: Option<Vec<u8>>,
}

impl Variable {
    /// Of a module that was just loaded.
    pub fn new(
        place: VariablePlace,
        address: u64,
        memory: &impl VariableMemory,
    ) -> Result<Variable, DeviceError> {
        let mut initial = (!place.zero).then(|| vec![0; place.bytes as usize]);
        initial.as_mut().map_or(Ok(()), |initial| memory.load(address, initial))?;
        Ok(Variable { place: VariablePlace { address, ..place }, initial })
    }

    /// That an argument of so many bytes fits; `name` is what the task calls it.
    pub fn holding(&self, name: &str, bytes: u64) -> Result<&Variable, DeviceError> {
        let has = self.place.bytes;
        if bytes <= has {
            return Ok(self);
        }
        Err(refused(format!("the variable `{name}` has {has} bytes, the argument has {bytes}")))
    }

    /// Takes what a buffer holds; what lies behind becomes what it was after loading.
    pub fn write(
        &self,
        (source, bytes): (u64, u64),
        memory: &impl VariableMemory,
    ) -> Result<(), DeviceError> {
        memory.copy(source, self.place.address, bytes)?;
        self.reset(bytes, memory)
    }

    /// Gives a buffer what it holds; says whether what lies behind is as it was after loading.
    pub fn read(
        &self,
        (target, bytes): (u64, u64),
        memory: &impl VariableMemory,
    ) -> Result<bool, DeviceError> {
        memory.copy(self.place.address, target, bytes)?;
        self.is_reset(bytes, memory)
    }

    /// From byte `start` on as it was after loading.
    fn reset(&self, start: u64, memory: &impl VariableMemory) -> Result<(), DeviceError> {
        match &self.initial {
            Some(initial) => memory.store(self.place.address + start, &initial[start as usize..]),
            None if start == self.place.bytes => Ok(()),
            None => memory.clear(self.place.address + start, self.place.bytes - start),
        }
    }

    fn is_reset(&self, start: u64, memory: &impl VariableMemory) -> Result<bool, DeviceError> {
        self.each_piece(start, memory, |at, piece| match &self.initial {
            Some(initial) => initial[at as usize..].starts_with(piece),
            None => piece.iter().all(|byte| *byte == 0),
        })
    }

    /// Goes over what the variable holds from byte `start` on as long as `goes_on` says so, and tells whether it did to the
    /// end. In pieces, because an array that nobody touched takes no memory until it is copied.
    pub fn each_piece(
        &self,
        start: u64,
        memory: &impl VariableMemory,
        mut goes_on: impl FnMut(u64, &[u8]) -> bool,
    ) -> Result<bool, DeviceError> {
        let mut piece = vec![0; (self.place.bytes - start).min(PIECE_BYTES) as usize];
        for at in (start..self.place.bytes).step_by(PIECE_BYTES as usize) {
            let piece = &mut piece[..(self.place.bytes - at).min(PIECE_BYTES) as usize];
            memory.load(self.place.address + at, piece)?;
            if !goes_on(at, piece) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The variable of exactly that name, or the only one whose last identifier is the name's, in whatever namespace.
pub fn meant(symbols: &[&str], name: &str) -> Result<usize, DeviceError> {
    let last = name.rsplit("::").next().unwrap_or(name);
    let near: Vec<usize> = (0..symbols.len()).filter(|at| plain_name(symbols[*at]) == last).collect();
    let exact = symbols.iter().position(|symbol| is_called(symbol, name));
    exact.or((near.len() == 1).then(|| near[0])).ok_or_else(|| missing(name, symbols))
}

/// A namespace without a name is left out, as in C++.
fn is_called(symbol: &str, name: &str) -> bool {
    symbol == name || qualified_name(symbol) == name
}

/// `ns::d_filter` of `_ZN2ns8d_filterE`; any other name as it is.
fn qualified_name(symbol: &str) -> String {
    let names = identifiers(symbol);
    let named = names.iter().filter(|own| !own.starts_with("_GLOBAL__N_") && !own.starts_with("_INTERNAL_"));
    let named: Vec<&str> = named.copied().collect();
    if named.is_empty() { symbol.to_string() } else { named.join("::") }
}

/// `_ZZ1kE5calls` and `_ZN12_GLOBAL__N_15callsE` give `calls`; any other name is left as it is. The Itanium C++ ABI
/// writes an identifier as its length and its letters.
pub fn plain_name(symbol: &str) -> String {
    if symbol.starts_with("_ZGV") || symbol == "__tls_guard" {
        return GUARD.to_string();
    }
    identifiers(symbol).last().copied().unwrap_or(symbol).to_string()
}

pub fn identifiers(symbol: &str) -> Vec<&str> {
    let Some(mut rest) = symbol.strip_prefix("_Z") else { return Vec::new() };
    let mut found = Vec::new();
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let digits = rest[start..].find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len() - start);
        let name = &rest[start + digits..];
        if rest[..start].ends_with(['S', 'T']) && name.starts_with('_') {
            // A type that stands further in front: `S3_`.
            rest = name;
            continue;
        }
        let literal = rest[..start].trim_end_matches(|c: char| c.is_ascii_lowercase()).ends_with('L');
        if literal && !rest[..start].ends_with('L') && name.starts_with('E') {
            // An argument of a template: a type's letter and its value.
            rest = name;
            continue;
        }
        // A number may run into a name that begins with a digit only in what cannot be an identifier.
        match rest[start..start + digits].parse::<usize>() {
            Ok(length) if length > 0 && name.is_char_boundary(length) && length <= name.len() => {
                found.push(&name[..length]);
                rest = &name[length..];
            }
            _ => rest = name,
        }
    }
    found
}

/// Names that a message about a missing variable shows.
const SHOWN: usize = 8;

pub fn missing(name: &str, symbols: &[&str]) -> DeviceError {
    let mut list: Vec<String> =
        symbols.iter().take(SHOWN).map(|symbol| format!("`{}`", plain_name(symbol))).collect();
    if symbols.len() > SHOWN {
        list.push("…".to_string());
    }
    let known =
        if list.is_empty() { "it has none".to_string() } else { format!("it has {}", list.join(", ")) };
    refused(format!("the module has no variable `{name}`: {known}"))
}

fn refused(message: String) -> DeviceError {
    DeviceError::plain(VerdictKind::LaunchFail, message).with_cause("symbol")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_identifier_is_the_variable() {
        for (symbol, name) in [
            ("calls", "calls"),
            ("_ZL5table", "table"),
            ("_ZZ1kE5calls", "calls"),
            ("_ZN12_GLOBAL__N_15callsE", "calls"),
            ("_ZZ1kPKfPfiPViE4tile", "tile"),
            ("_ZZ4gemmILi16EEvPfE6tile_a", "tile_a"),
            ("_ZZ4gemmPfE4tile_0", "tile"),
            ("_ZZ4gemmPfE6tile_0", "tile_0"),
            ("_ZZ4gemmILi8EEvPfE4tile", "tile"),
            ("_ZZ2k6E4tile", "tile"),
            ("_ZZ1kPK6__halfPKfS3_E4tile", "tile"),
            ("_ZZ1kPKfPKiPfS3_E4tile", "tile"),
            ("_ZStrange", "_ZStrange"),
            ("_Z", "_Z"),
            ("_ZGVZ4gemmPfE4tile", GUARD),
        ] {
            assert_eq!(plain_name(symbol), name);
        }
    }

    #[test]
    fn variables_are_called_as_in_the_source() {
        let check = |symbol, name| assert!(is_called(symbol, name), "{symbol} is not `{name}`");
        check("d_filter", "d_filter");
        check("_ZL8d_filter", "d_filter");
        check("_ZN2ns8d_filterE", "ns::d_filter");
        check("_ZN12_GLOBAL__N_18d_filterE", "d_filter");
        // As NVRTC 13.0 writes a variable of a namespace without a name.
        check(
            "_ZN40_INTERNAL_00000000_4_k_cu_73594f3a_1813442_GLOBAL__N__00000000_4_k_cu_73594f3a_181344anonE",
            "anon",
        );
        assert!(!is_called("_ZN2ns8d_filterE", "d_filter"));
        assert!(!is_called("d_filter2", "d_filter"));
        let meant = |symbols: &[&str], name| meant(symbols, name).ok();
        assert_eq!(meant(&["_ZN2ns8d_filterE", "d_filter"], "d_filter"), Some(1));
        assert_eq!(meant(&["d_sum", "_ZN2ns8d_filterE"], "d_filter"), Some(1));
        assert_eq!(meant(&["d_filter"], "ns::d_filter"), Some(0));
        assert_eq!(meant(&["_ZN2ns8d_filterE", "_ZN2no8d_filterE"], "d_filter"), None);
    }

    #[test]
    fn what_is_no_program_has_no_variables() {
        assert_eq!(variables(b"no program"), []);
    }

    #[test]
    fn a_missing_variable_is_answered_with_those_that_there_are() {
        let message = |symbols: &[&str]| meant(symbols, "d_filtr").unwrap_err().message;
        assert_eq!(message(&["_ZL8d_filter"]), "the module has no variable `d_filtr`: it has `d_filter`");
        assert_eq!(message(&[]), "the module has no variable `d_filtr`: it has none");
        assert!(message(&["x"; 9]).ends_with("`x`, …"));
    }
}
