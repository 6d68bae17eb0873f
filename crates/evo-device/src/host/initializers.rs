//! Code that a shared object runs by itself: refused before the object is loaded.
//!
//! Constructors, destructors and the resolvers of indirect functions would run before anything could be checked.
//! Modules are linked without the C runtime's start files, so an honest module has none at all and no entry has to be
//! trusted by its name. What counts is the table that the loader itself reads (`PT_DYNAMIC`), not the sections, which
//! it does not look at.

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::VerdictKind;
use object::LittleEndian;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};

type Header = FileHeader64<LittleEndian>;

type Unreadable = String;

/// Tags of the dynamic table that name code to run.
const RUNS: [(u64, &str); 5] = [
    (DT_INIT, "`DT_INIT`"),
    (DT_FINI, "`DT_FINI`"),
    (DT_INIT_ARRAY_BYTES, "`.init_array` (a constructor)"),
    (DT_FINI_ARRAY_BYTES, "`.fini_array` (a destructor)"),
    (DT_PREINIT_ARRAY_BYTES, "`.preinit_array`"),
];

const DT_INIT: u64 = 12;
const DT_FINI: u64 = 13;
const DT_INIT_ARRAY_BYTES: u64 = 27;
const DT_FINI_ARRAY_BYTES: u64 = 28;
const DT_PREINIT_ARRAY_BYTES: u64 = 33;

/// Sections that old start files run through, and that no compiler fills today.
const OLD_SECTIONS: [&[u8]; 2] = [b".ctors", b".dtors"];

/// Relocations by which the loader calls a resolver: of x86-64 and of AArch64.
const IRELATIVE: [u32; 2] = [37, 1032];

/// What in a shared object would run when it is loaded or unloaded; nothing where it holds none.
pub fn find(binary: &[u8]) -> Result<Option<String>, Unreadable> {
    inspect(binary).map_err(|error| format!("not a readable ELF file: {error}"))
}

pub fn check(binary: &[u8]) -> Result<(), DeviceError> {
    let refuse = |message: String| DeviceError::plain(VerdictKind::LoadError, message);
    match find(binary) {
        Ok(None) => Ok(()),
        Ok(Some(what)) => Err(refuse(message(&what)).with_cause("constructor")),
        Err(why) => Err(refuse(format!("the module: {why}"))),
    }
}

pub fn message(what: &str) -> String {
    format!("the module would run code when it is loaded or unloaded: {what}")
}

/// The compiler adds a constructor for the sanitizer's library, whose place evo's header takes; there it does
/// nothing.
pub fn silence(binary: &mut [u8]) -> Result<(), Unreadable> {
    let sized = [DT_INIT_ARRAY_BYTES, DT_FINI_ARRAY_BYTES];
    let table = dynamic_table(binary)?;
    for entry in table.iter().filter(|entry| sized.contains(&entry.tag)) {
        let value = binary.get_mut(entry.offset + 8..entry.offset + 16);
        value.ok_or("its dynamic table is cut off")?.fill(0);
    }
    Ok(())
}

/// Memory beside code: variables, tables, what is written into the file; `u64::MAX` where the file is not readable.
pub fn data_bytes(binary: &[u8]) -> u64 {
    let read = || -> object::read::Result<u64> {
        let header = Header::parse(binary)?;
        let endian = header.endian()?;
        let loaded = header.program_headers(endian, binary)?.iter();
        let loaded = loaded.filter(|own| own.p_type(endian) == elf::PT_LOAD);
        let data = loaded.filter(|own| own.p_flags(endian).0 & elf::PF_X.0 == 0);
        Ok(data.map(|own| own.p_memsz(endian)).fold(0, u64::saturating_add))
    };
    read().unwrap_or(u64::MAX)
}

fn inspect(binary: &[u8]) -> Result<Option<String>, Unreadable> {
    for entry in dynamic_table(binary)? {
        let named = RUNS.iter().find(|(tag, _)| *tag == entry.tag);
        if let Some((_, name)) = named.filter(|_| entry.value != 0) {
            return Ok(Some((*name).to_string()));
        }
    }
    inspect_sections(binary).map_err(|error| error.to_string())
}

fn inspect_sections(binary: &[u8]) -> object::read::Result<Option<String>> {
    let indirect = || Ok(Some("an indirect function (`ifunc`)".to_string()));
    let header = Header::parse(binary)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, binary)?;
    for section in sections.iter() {
        let name = sections.section_name(endian, section)?;
        if OLD_SECTIONS.iter().any(|old| name.starts_with(old)) && section.sh_size(endian) > 0 {
            return Ok(Some(format!("`{}`", String::from_utf8_lossy(name))));
        }
        if let Some((relocations, _)) = section.rela(endian, binary)? {
            let resolves = |own: &elf::Rela64<LittleEndian>| IRELATIVE.contains(&own.r_type(endian, false).0);
            if relocations.iter().any(resolves) {
                return indirect();
            }
        }
    }
    for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
        let symbols = sections.symbols(endian, binary, kind)?;
        // The C library's own indirect functions are undefined here, and resolved already.
        let resolver = |symbol: &elf::Sym64<LittleEndian>| {
            symbol.st_type() == elf::STT_GNU_IFUNC && !symbol.is_undefined(endian)
        };
        if symbols.iter().any(resolver) {
            return indirect();
        }
    }
    Ok(None)
}

struct DynamicEntry {
    tag: u64,
    value: u64,
    offset: usize,
}

fn dynamic_table(binary: &[u8]) -> Result<Vec<DynamicEntry>, Unreadable> {
    let plain = |error: object::read::Error| error.to_string();
    let header = Header::parse(binary).map_err(plain)?;
    let endian = header.endian().map_err(plain)?;
    let mut entries = Vec::new();
    for segment in header.program_headers(endian, binary).map_err(plain)? {
        if segment.p_type(endian) != elf::PT_DYNAMIC {
            continue;
        }
        let start = segment.p_offset(endian) as usize;
        let bytes = segment.data(endian, binary).map_err(|()| "its dynamic table is cut off".to_string())?;
        for (number, entry) in bytes.chunks_exact(16).enumerate() {
            let word = |at: usize| entry[at..at + 8].try_into().map_or(0, u64::from_le_bytes);
            if word(0) == 0 {
                break;
            }
            entries.push(DynamicEntry { tag: word(0), value: word(8), offset: start + 16 * number });
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn garbage_is_an_error_and_not_a_panic() {
        assert!(find(b"").is_err());
        assert_eq!(data_bytes(b"text"), u64::MAX);
        assert!(find(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 9, 9]).is_err());
        assert_eq!(check(b"text").unwrap_err().kind, VerdictKind::LoadError);
    }
}
