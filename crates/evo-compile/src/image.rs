//! What a compiled file says about itself.
//!
//! A cubin and a shared object are both ELF files. The code hash covers what the variant does
//! (machine code, constants, initialized data, sizes of zeroed data, which symbols the loader fills in
//! where) and leaves out the bytes of `evo_variant_hash`, so that two configurations that differ only in
//! an unused parameter have equal code hashes although their files differ.

use evo_protocol::binary::EntryResources;
use evo_space::genome::ContentHash;
use object::elf::{self, FileHeader64};
use object::endian::LittleEndian;
use object::read::SymbolIndex;
use object::read::elf::{FileHeader, SectionHeader, Sym};
use thiserror::Error;

pub const VARIANT_HASH_SYMBOL: &str = "evo_variant_hash";

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

type Header = FileHeader64<LittleEndian>;

/// The file was not written by a compiler, or is damaged.
#[derive(Debug, Error)]
#[error("not a readable ELF file: {0}")]
pub struct ImageError(String);

impl From<object::read::Error> for ImageError {
    fn from(error: object::read::Error) -> ImageError {
        ImageError(error.to_string())
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct CompiledImage {
    pub code_hash: ContentHash,
    /// Kernels of a cubin with their resources, by the names of the file; empty for a shared object.
    pub kernels: Vec<EntryResources>,
}

struct ElfSection<'data> {
    name: &'data str,
    data: &'data [u8],
    address: u64,
    size: u64,
    allocated: bool,
    progbits: bool,
    nobits: bool,
}

struct ElfSymbol<'data> {
    name: &'data str,
    section: usize,
    /// Offset into the section (a shared object's symbols hold addresses).
    offset: u64,
    size: u64,
    is_kernel: bool,
}

pub fn read(bytes: &[u8]) -> Result<CompiledImage, ImageError> {
    let header = Header::parse(bytes)?;
    let endian = header.endian()?;
    let table = header.sections(endian, bytes)?;
    let mut sections = Vec::new();
    for section in table.iter() {
        let name = str::from_utf8(table.section_name(endian, section)?).unwrap_or("");
        let kind = section.sh_type(endian);
        sections.push(ElfSection {
            name,
            data: section.data(endian, bytes)?,
            address: section.sh_addr(endian),
            size: section.sh_size(endian),
            allocated: section.sh_flags(endian).contains(elf::SHF_ALLOC),
            progbits: kind == elf::SHT_PROGBITS,
            nobits: kind == elf::SHT_NOBITS,
        });
    }
    let symbols = read_symbols(header, bytes, &sections)?;
    let code_hash = code_hash(&sections, &symbols, relocations(header, bytes, &sections)?);
    let is_cubin = header.e_machine(endian) == elf::EM_CUDA;
    let kernels = if is_cubin { kernels(&sections, &symbols) } else { Vec::new() };
    Ok(CompiledImage { code_hash, kernels })
}

/// A kernel's name in the cubin: the same as in the source, or its C++ mangled form. `None` if there is none, or if
/// overloads make it ambiguous.
pub fn symbol_of(kernels: &[EntryResources], entry: &str) -> Option<String> {
    if kernels.iter().any(|kernel| kernel.entry == entry) {
        return Some(entry.to_string());
    }
    let prefix = format!("_Z{}{entry}", entry.len());
    let mut mangled = kernels.iter().filter(|kernel| kernel.entry.starts_with(&prefix));
    let only = mangled.next()?;
    // With two overloads it is not known which one the launch means, and guessing would time the wrong
    // kernel.
    mangled.next().is_none().then(|| only.entry.clone())
}

pub fn plain_name(symbol: &str) -> &str {
    let Some(rest) = symbol.strip_prefix("_Z") else { return symbol };
    let digits = rest.len() - rest.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let (length, name) = rest.split_at(digits);
    length.parse().ok().and_then(|length: usize| name.get(..length)).unwrap_or(symbol)
}

fn read_symbols<'data>(
    header: &'data Header,
    bytes: &'data [u8],
    sections: &[ElfSection<'data>],
) -> Result<Vec<ElfSymbol<'data>>, ImageError> {
    let endian = header.endian()?;
    let table = header.sections(endian, bytes)?;
    let mut symbols = table.symbols(endian, bytes, elf::SHT_SYMTAB)?;
    // A stripped shared object has only its dynamic symbols.
    if symbols.is_empty() {
        symbols = table.symbols(endian, bytes, elf::SHT_DYNSYM)?;
    }
    let read = |symbol: &elf::Sym64<LittleEndian>| {
        let name = symbol.name(endian, symbols.strings()).unwrap_or_default();
        let section = usize::from(symbol.st_shndx(endian).0);
        let base = sections.get(section).map_or(0, |section| section.address);
        ElfSymbol {
            name: str::from_utf8(name).unwrap_or(""),
            section,
            offset: symbol.st_value(endian).wrapping_sub(base),
            size: symbol.st_size(endian),
            is_kernel: symbol.st_type() == elf::STT_FUNC && symbol.st_other().0 & STO_CUDA_ENTRY != 0,
        }
    };
    Ok(symbols.iter().map(read).collect())
}

/// Unwind tables, notes, dynamic-linking tables and debug information decide nothing.
fn decides(section: &ElfSection<'_>) -> bool {
    const IRRELEVANT: &[&str] =
        &[".eh_frame", ".gcc_except", ".note", ".interp", ".gnu", ".dyn", ".nv.info", ".comment"];
    section.allocated
        && (section.progbits || section.nobits)
        && !IRRELEVANT.iter().any(|prefix| section.name.starts_with(prefix))
}

/// The places that the loader fills in, each with its symbol: code that calls `erff` differs from code that calls
/// `tgammaf` in nothing else.
fn relocations(
    header: &Header,
    bytes: &[u8],
    sections: &[ElfSection<'_>],
) -> Result<Vec<String>, ImageError> {
    let endian = header.endian()?;
    let table = header.sections(endian, bytes)?;
    let mut found = Vec::new();
    for (section, own) in table.iter().zip(sections) {
        let target = sections.get(section.sh_info(endian) as usize).filter(|target| !target.name.is_empty());
        // Without a target they belong to the whole file.
        if target.is_some_and(|target| !decides(target)) {
            continue;
        }
        // Place, kind, symbol, addend.
        let mut entries: Vec<(u64, u32, u32, i64)> = Vec::new();
        if let Some((list, _)) = section.rel(endian, bytes)? {
            entries.extend(
                list.iter().map(|one| (one.r_offset.get(endian), one.r_type(endian).0, one.r_sym(endian), 0)),
            );
        }
        if let Some((list, _)) = section.rela(endian, bytes)? {
            let addend = |one: &elf::Rela64<LittleEndian>| one.r_addend.get(endian);
            entries.extend(list.iter().map(|one| {
                (one.r_offset.get(endian), one.r_type(endian, false).0, one.r_sym(endian, false), addend(one))
            }));
        }
        if entries.is_empty() {
            continue;
        }
        let symbols = table.symbol_table_by_index(endian, bytes, section.link(endian))?;
        for (place, kind, symbol, addend) in entries {
            let to = match symbol {
                // The loader adds where it puts the file.
                0 => String::new(),
                _ => {
                    let symbol = symbols.symbol(SymbolIndex(symbol as usize))?;
                    let name =
                        String::from_utf8_lossy(symbol.name(endian, symbols.strings()).unwrap_or_default());
                    let home = sections.get(usize::from(symbol.st_shndx(endian).0));
                    let home = home.map_or("", |section| section.name);
                    format!("{name} {home} {:#x}", symbol.st_value(endian))
                }
            };
            found.push(format!("{} {place:#x} {kind} {to} {addend}", own.name));
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn code_hash(
    sections: &[ElfSection<'_>],
    symbols: &[ElfSymbol<'_>],
    relocations: Vec<String>,
) -> ContentHash {
    let mut order: Vec<usize> = (0..sections.len()).filter(|&index| decides(&sections[index])).collect();
    // By name, so that the order of sections in the file does not count.
    order.sort_by_key(|&index| sections[index].name);
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for index in order {
        let section = &sections[index];
        parts.push(section.name.as_bytes().to_vec());
        if section.nobits {
            // Zeroed data has no bytes in the file; its size is all that there is to hash.
            parts.push(section.size.to_le_bytes().to_vec());
            continue;
        }
        let mut data = section.data.to_vec();
        let own =
            symbols.iter().filter(|symbol| symbol.section == index && symbol.name == VARIANT_HASH_SYMBOL);
        for symbol in own {
            // Clamped, because a damaged file may place the symbol anywhere.
            let start = (symbol.offset as usize).min(data.len());
            let end = start.saturating_add(symbol.size as usize).min(data.len());
            data[start..end].fill(0);
        }
        parts.push(data);
    }
    parts.extend(relocations.into_iter().map(String::into_bytes));
    // Launch bounds leave the code alone but change what may be launched, so they enter by themselves.
    for kernel in kernels(sections, symbols) {
        parts.push(format!("{} {:?}", kernel.entry, kernel.threads_max).into_bytes());
    }
    ContentHash::of_parts(parts.iter().map(Vec::as_slice))
}

fn kernels(sections: &[ElfSection<'_>], symbols: &[ElfSymbol<'_>]) -> Vec<EntryResources> {
    let section = |name: &str| sections.iter().find(|section| section.name == name);
    let common = section(".nv.info").map_or(&[][..], |section| section.data);
    let of_symbol = |kind: u8, position: usize| {
        attributes(common).find_map(|(attribute, payload)| {
            let matches = attribute == kind && word(payload, 0)? as usize == position;
            if matches { word(payload, 1) } else { None }
        })
    };
    let named = symbols.iter().enumerate().filter(|(_, symbol)| symbol.is_kernel);
    named
        .map(|(position, symbol)| {
            let own = section(&format!(".nv.info.{}", symbol.name)).map_or(&[][..], |section| section.data);
            let bounds =
                attributes(own).find(|(kind, _)| [EIATTR_MAX_THREADS, EIATTR_REQNTID].contains(kind));
            EntryResources {
                entry: symbol.name.to_string(),
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
        let kernels = [kernel("bar"), kernel("_Z3fooPK6__halfPfi"), kernel("_Z4foooPf")];
        assert_eq!(symbol_of(&kernels, "bar").as_deref(), Some("bar"));
        assert_eq!(symbol_of(&kernels, "foo").as_deref(), Some("_Z3fooPK6__halfPfi"));
        assert_eq!(symbol_of(&kernels, "fo"), None);
        let overloads = [kernel("_Z1kPf"), kernel("_Z1kPd")];
        assert_eq!(symbol_of(&overloads, "k"), None);
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
