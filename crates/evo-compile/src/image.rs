//! What a compiled file says about itself.
//!
//! A cubin and a shared object are both ELF files. The code hash covers what the variant does
//! (machine code, constants, initialized data, sizes of zeroed data, which symbols the loader fills in
//! where) and leaves out the bytes of `evo_variant_hash`, so that two configurations that differ only in
//! an unused parameter have equal code hashes although their files differ.

use evo_protocol::binary::{Binary, EntryResources};
use evo_space::genome::ContentHash;
use object::elf;
use object::endian::LittleEndian;
use object::read::elf::{ElfFile64, ElfSection64, ElfSymbol64, FileHeader, SectionHeader, Sym};
use object::{Object, ObjectSection, ObjectSymbol, SectionIndex, SymbolIndex};

const VARIANT_HASH_SYMBOL: &str = "evo_variant_hash";

/// Bit of `st_other` that marks a kernel among a cubin's functions.
const STO_CUDA_ENTRY: u8 = 0x10;
/// Attribute of `.nv.info.<kernel>`: the limit of `__launch_bounds__` as x, y, z.
const EIATTR_MAX_THREADS: u8 = 0x05;
/// Attribute of `.nv.info.<kernel>`: the exact block of `__block_size__` as x, y, z.
const EIATTR_REQNTID: u8 = 0x10;
/// Attributes of `.nv.info`: symbol number and stack frame, symbol number and registers.
const EIATTR_FRAME_SIZE: u8 = 0x11;
const EIATTR_REGCOUNT: u8 = 0x2f;
/// Format byte of attributes that carry a payload; the others hold their value in the size field.
const EIFMT_SVAL: u8 = 0x04;

type Elf<'data> = ElfFile64<'data, LittleEndian>;
type Section<'data, 'file> = ElfSection64<'data, 'file, LittleEndian>;
type Symbol<'data, 'file> = ElfSymbol64<'data, 'file, LittleEndian>;

/// What a compiler made of one source: the file's bytes, and what is known of it before it is kept in the cache.
pub type Compiled = (Vec<u8>, Binary);

#[derive(Clone, Debug, PartialEq)]
pub struct CompiledImage {
    pub code_hash: ContentHash,
    /// Kernels of a cubin with their resources, by the names of the file; empty for a shared object.
    pub kernels: Vec<EntryResources>,
}

pub fn read(bytes: &[u8]) -> Result<CompiledImage, String> {
    let image = || -> object::read::Result<CompiledImage> {
        let file = Elf::parse(bytes)?;
        let kernels = kernels(&file);
        let code_hash = code_hash(&file, &kernels, relocations(&file, bytes)?)?;
        let is_cubin = file.elf_header().e_machine(LittleEndian) == elf::EM_CUDA;
        Ok(CompiledImage { code_hash, kernels: if is_cubin { kernels } else { Vec::new() } })
    };
    image().map_err(|error| format!("not a readable ELF file: {error}"))
}

/// Whether one of the kernels has this name, or its C++ mangled form.
pub fn has(kernels: &[EntryResources], entry: &str) -> bool {
    let prefix = format!("_Z{}{entry}", entry.len());
    let mangled = kernels.iter().filter(|kernel| kernel.entry.starts_with(&prefix));
    // With two overloads it is not known which one the launch means, and guessing would time the wrong kernel.
    mangled.count() == 1 || kernels.iter().any(|kernel| kernel.entry == entry)
}

pub fn plain_name(symbol: &str) -> &str {
    let Some(rest) = symbol.strip_prefix("_Z") else { return symbol };
    let digits = rest.len() - rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let (length, name) = rest.split_at(digits);
    length.parse().ok().and_then(|length: usize| name.get(..length)).unwrap_or(symbol)
}

fn symbols<'data, 'file>(file: &'file Elf<'data>) -> impl Iterator<Item = Symbol<'data, 'file>> {
    // A stripped shared object has only its dynamic symbols.
    let is_stripped = file.symbols().next().is_none();
    file.symbols().chain(file.dynamic_symbols().filter(move |_| is_stripped))
}

/// Unwind tables, notes, dynamic-linking tables and debug information decide nothing.
fn decides(section: &Section<'_, '_>) -> bool {
    const IRRELEVANT: &[&str] =
        &[".eh_frame", ".gcc_except", ".note", ".interp", ".gnu", ".dyn", ".nv.info", ".comment"];
    let header = section.elf_section_header();
    header.sh_flags(LittleEndian).contains(elf::SHF_ALLOC)
        && [elf::SHT_PROGBITS, elf::SHT_NOBITS].contains(&header.sh_type(LittleEndian))
        && !IRRELEVANT.iter().any(|prefix| name_of(section).starts_with(prefix))
}

fn name_of<'data>(section: &Section<'data, '_>) -> &'data str {
    section.name().unwrap_or("")
}

/// The places that the loader fills in, each with its symbol: code that calls `erff` differs from code that calls
/// `tgammaf` in nothing else.
fn relocations(file: &Elf<'_>, bytes: &[u8]) -> object::read::Result<Vec<String>> {
    let endian = LittleEndian;
    let section_at = |index: usize| file.section_by_index(SectionIndex(index)).ok();
    let mut found = Vec::new();
    for section in file.sections() {
        let header = section.elf_section_header();
        // Without a target they belong to the whole file.
        if section_at(header.sh_info(endian) as usize)
            .is_some_and(|own| !name_of(&own).is_empty() && !decides(&own))
        {
            continue;
        }
        let plain = header.rel(endian, bytes)?.map_or(&[][..], |(list, _)| list);
        let with_addends = header.rela(endian, bytes)?.map_or(&[][..], |(list, _)| list);
        let plain = plain.iter().map(|own| elf::Rela64::from(*own));
        let entries: Vec<_> = plain.chain(with_addends.iter().copied()).collect();
        if entries.is_empty() {
            continue;
        }
        let symbols = file.elf_section_table().symbol_table_by_index(endian, bytes, header.link(endian))?;
        for own in entries {
            let (place, addend) = (own.r_offset.get(endian), own.r_addend.get(endian));
            let (kind, symbol) = (own.r_type(endian, false).0, own.r_sym(endian, false));
            let to = match symbol {
                // The loader adds where it puts the file.
                0 => String::new(),
                _ => {
                    let symbol = symbols.symbol(SymbolIndex(symbol as usize))?;
                    let name =
                        String::from_utf8_lossy(symbol.name(endian, symbols.strings()).unwrap_or_default());
                    let home = section_at(usize::from(symbol.st_shndx(endian).0));
                    let home = home.as_ref().map_or("", name_of);
                    format!("{name} {home} {:#x}", symbol.st_value(endian))
                }
            };
            found.push(format!("{} {place:#x} {kind} {to} {addend}", name_of(&section)));
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn code_hash(
    file: &Elf<'_>,
    kernels: &[EntryResources],
    relocations: Vec<String>,
) -> object::read::Result<ContentHash> {
    let mut sections: Vec<_> = file.sections().filter(decides).collect();
    // By name, so that the order of sections in the file does not count.
    sections.sort_by_key(name_of);
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for section in sections {
        parts.push(name_of(&section).as_bytes().to_vec());
        if section.elf_section_header().sh_type(LittleEndian) == elf::SHT_NOBITS {
            // Zeroed data has no bytes in the file; its size is all that there is to hash.
            parts.push(section.size().to_le_bytes().to_vec());
            continue;
        }
        let mut data = section.data()?.to_vec();
        let is_hash = |symbol: &Symbol<'_, '_>| {
            symbol.section_index() == Some(section.index()) && symbol.name() == Ok(VARIANT_HASH_SYMBOL)
        };
        for symbol in symbols(file).filter(is_hash) {
            // Clamped, because a damaged file may place the symbol anywhere.
            let start = (symbol.address().wrapping_sub(section.address()) as usize).min(data.len());
            let end = start.saturating_add(symbol.size() as usize).min(data.len());
            data[start..end].fill(0);
        }
        parts.push(data);
    }
    parts.extend(relocations.into_iter().map(String::into_bytes));
    // Launch bounds leave the code alone but change what may be launched, so they enter by themselves.
    for kernel in kernels {
        parts.push(format!("{} {:?}", kernel.entry, kernel.threads_max).into_bytes());
    }
    Ok(ContentHash::of_parts(parts.iter().map(Vec::as_slice)))
}

fn kernels(file: &Elf<'_>) -> Vec<EntryResources> {
    let section = |name: &str| file.section_by_name(name).and_then(|own| own.data().ok()).unwrap_or_default();
    let common = section(".nv.info");
    let of_symbol = |kind: u8, position: usize| {
        attributes(common).find_map(|(attribute, payload)| {
            let matches = attribute == kind && word(payload, 0)? as usize == position;
            if matches { word(payload, 1) } else { None }
        })
    };
    let is_kernel = |symbol: &Symbol<'_, '_>| {
        let symbol = symbol.elf_symbol();
        symbol.st_type() == elf::STT_FUNC && symbol.st_other().0 & STO_CUDA_ENTRY != 0
    };
    symbols(file)
        .filter(is_kernel)
        .map(|symbol| {
            let (name, position) = (symbol.name().unwrap_or(""), symbol.index().0);
            let own = section(&format!(".nv.info.{name}"));
            let bounds =
                attributes(own).find(|(kind, _)| [EIATTR_MAX_THREADS, EIATTR_REQNTID].contains(kind));
            EntryResources {
                entry: name.to_string(),
                registers: of_symbol(EIATTR_REGCOUNT, position),
                stack_bytes: of_symbol(EIATTR_FRAME_SIZE, position).map(u64::from),
                threads_max: bounds.and_then(|(_, payload)| {
                    word(payload, 0)?.checked_mul(word(payload, 1)?)?.checked_mul(word(payload, 2)?)
                }),
                ..EntryResources::default()
            }
        })
        .collect()
}

fn attributes(data: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    let mut rest = data;
    std::iter::from_fn(move || {
        let (head, tail) = rest.split_at_checked(4)?;
        let length =
            if head[0] == EIFMT_SVAL { usize::from(u16::from_le_bytes([head[2], head[3]])) } else { 0 };
        let (payload, tail) = tail.split_at_checked(length)?;
        rest = tail;
        Some((head[1], payload))
    })
}

fn word(payload: &[u8], position: usize) -> Option<u32> {
    let bytes = payload.get(4 * position..4 * position + 4)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(entry: &str) -> EntryResources {
        EntryResources { entry: entry.to_string(), ..EntryResources::default() }
    }

    #[test]
    fn entries_are_found_under_plain_and_mangled_names() {
        let kernels = ["bar", "_Z3fooPK6__halfPfi", "_Z4foooPf", "_Z1kPf", "_Z1kPd"].map(kernel);
        let names = ["bar", "foo", "fo", "k"].map(|name| has(&kernels, name));
        assert_eq!(names, [true, true, false, false]);
    }

    #[test]
    fn mangled_names_are_made_plain() {
        assert_eq!(plain_name("_Z3fooPK6__halfPfi"), "foo");
        assert_eq!(plain_name("bar"), "bar");
        assert_eq!(plain_name("_Zweird"), "_Zweird");
        assert_eq!(plain_name("_Z99foo"), "_Z99foo");
    }

    #[test]
    fn attributes_end_at_a_torn_record() {
        let data = [4, 0x2f, 8, 0, 1, 0, 0, 0, 17, 0, 0, 0, 3, 0x50, 0, 0, 4, 5, 12, 0, 1];
        let seen: Vec<(u8, usize)> = attributes(&data).map(|(kind, payload)| (kind, payload.len())).collect();
        assert_eq!(seen, [(0x2f, 8), (0x50, 0)]);
    }

    #[test]
    fn garbage_is_an_error() {
        assert!(read(b"").is_err());
        assert!(read(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 9, 9]).is_err());
    }
}
