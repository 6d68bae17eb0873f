//! Code that a shared object runs by itself: refused before the object is loaded.
//!
//! Constructors, destructors and the resolvers of indirect functions would run before anything could be checked.
//! Modules are linked without the C runtime's start files, so an honest module has none at all and no entry has to be
//! trusted by its name. What counts is the table that the loader itself reads (`PT_DYNAMIC`), not the sections, which
//! it does not look at.

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::VerdictKind;
use object::LittleEndian;
use object::elf::{self, DynamicTag, FileHeader64};
use object::read::Result as Read;
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader, Sym};

type Header = FileHeader64<LittleEndian>;

/// Tags of the dynamic table that name code to run.
const RUNS: [(DynamicTag, &str); 5] = [
    (elf::DT_INIT, "`DT_INIT`"),
    (elf::DT_FINI, "`DT_FINI`"),
    (elf::DT_INIT_ARRAYSZ, "`.init_array` (a constructor)"),
    (elf::DT_FINI_ARRAYSZ, "`.fini_array` (a destructor)"),
    (elf::DT_PREINIT_ARRAYSZ, "`.preinit_array`"),
];

/// Sections that old start files run through, and that no compiler fills today.
const OLD_SECTIONS: [&[u8]; 2] = [b".ctors", b".dtors"];

/// Relocations by which the loader calls a resolver: of x86-64 and of AArch64.
const IRELATIVE: [u32; 2] = [37, 1032];

/// What in a shared object would run when it is loaded or unloaded; nothing where it holds none.
pub fn find(binary: &[u8]) -> Result<Option<String>, String> {
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
pub fn silence(binary: &mut [u8]) -> Read<()> {
    for (tag, _, place) in dynamic_table(binary)? {
        if [elf::DT_INIT_ARRAYSZ, elf::DT_FINI_ARRAYSZ].contains(&tag) {
            binary[place + 8..place + 16].fill(0);
        }
    }
    Ok(())
}

/// Memory beside code: variables, tables, what is written into the file; `u64::MAX` where the file is not readable.
pub fn data_bytes(binary: &[u8]) -> u64 {
    let read = || -> Read<u64> {
        let header = Header::parse(binary)?;
        let endian = header.endian()?;
        let loaded = header.program_headers(endian, binary)?.iter();
        let loaded = loaded.filter(|own| own.p_type(endian) == elf::PT_LOAD);
        let data = loaded.filter(|own| own.p_flags(endian).0 & elf::PF_X.0 == 0);
        Ok(data.map(|own| own.p_memsz(endian)).fold(0, u64::saturating_add))
    };
    read().unwrap_or(u64::MAX)
}

fn inspect(binary: &[u8]) -> Read<Option<String>> {
    for (tag, value, _) in dynamic_table(binary)? {
        if let Some((_, name)) = RUNS.iter().find(|(runs, _)| *runs == tag && value != 0) {
            return Ok(Some((*name).to_string()));
        }
    }
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

/// Tags, values, and where the entries stand in the file.
fn dynamic_table(binary: &[u8]) -> Read<Vec<(DynamicTag, u64, usize)>> {
    let header = Header::parse(binary)?;
    let endian = header.endian()?;
    let mut entries = Vec::new();
    for segment in header.program_headers(endian, binary)? {
        let table = segment.dynamic(endian, binary)?.unwrap_or_default();
        let used = table.iter().take_while(|entry| entry.d_tag(endian) != elf::DT_NULL);
        let places = (segment.p_offset(endian) as usize..).step_by(size_of::<elf::Dyn64<LittleEndian>>());
        entries.extend(used.zip(places).map(|(entry, at)| (entry.d_tag(endian), entry.d_val(endian), at)));
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
