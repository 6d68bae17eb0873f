//! The zones round static shared variables: what of the thread-local segment no variable covers, and what a block changed
//! there.

use evo_protocol::device::DeviceError;
use evo_protocol::verdict::VerdictKind;
use object::LittleEndian;
use object::elf::{self, FileHeader64, SectionHeader64};
use object::read::elf::{FileHeader, SectionHeader};

use super::pattern;
use crate::variables::{GUARD, VariablePlace};

const ZONE: u64 = 256;

/// Where a section header has its section's size.
const SIZE_AT: usize = 32;

/// Lengthens the sections of an object file that hold a thread-local variable each, so that the linker leaves a zone
/// behind every one. They begin as zeros, which take no place in the file.
pub fn pad(object: &mut [u8]) -> object::read::Result<()> {
    let header = FileHeader64::<LittleEndian>::parse(&*object)?;
    let endian = header.endian()?;
    let (table, length) = (header.e_shoff(endian) as usize, size_of::<SectionHeader64<LittleEndian>>());
    let sections = header.section_headers(endian, &*object)?;
    let is_shared = |section: &SectionHeader64<LittleEndian>| {
        section.sh_type(endian) == elf::SHT_NOBITS && section.sh_flags(endian).contains(elf::SHF_TLS)
    };
    let shared = sections.iter().enumerate().filter(|(_, section)| is_shared(section));
    let sizes: Vec<_> =
        shared.map(|(at, own)| (table + length * at + SIZE_AT, own.sh_size(endian))).collect();
    for (at, size) in sizes {
        object[at..at + 8].copy_from_slice(&(size + ZONE).to_le_bytes());
    }
    Ok(())
}

/// Names the variable that is nearest to the damage.
///
/// # Safety
/// The segment is that of the variables' module, start and bytes, and no block runs on it.
pub unsafe fn check(
    variables: &[VariablePlace],
    segment: (usize, usize),
    pattern: u32,
    block: [u32; 3],
) -> Option<DeviceError> {
    let place = |variable: &VariablePlace| {
        // Within the segment whatever a symbol says.
        let start = segment.0 + segment.1.min(variable.address as usize);
        (start, start + variable.bytes as usize)
    };
    let mut covered = segment.0;
    let mut ends = variables.iter().map(place).chain([(segment.0 + segment.1, 0)]);
    let (first, count) = ends.find_map(|(start, end)| {
        let zone = (covered, start.saturating_sub(covered));
        covered = covered.max(end);
        // SAFETY: as the caller promises; the zone is a part of the segment.
        unsafe { pattern::changed(zone.0, zone.1, pattern) }
    })?;
    let distance = |variable: &&VariablePlace| {
        let (start, end) = place(variable);
        start.saturating_sub(first).max(first.saturating_sub(end))
    };
    let nearest = variables.iter().filter(|variable| variable.name != GUARD).min_by_key(distance)?;
    let offset = first as i64 - place(nearest).0 as i64;
    Some(damage(&nearest.name, offset, nearest.bytes as usize, count, block))
}

/// Where an address lies that is so far from the start of something.
pub fn place(offset: i64, bytes: usize) -> String {
    match offset.wrapping_sub(bytes as i64) {
        _ if offset < 0 => format!("{} bytes before the start of", offset.unsigned_abs()),
        0 => "directly behind the end of".to_string(),
        behind => format!("{behind} bytes behind the end of"),
    }
}

pub fn damage(name: &str, offset: i64, bytes: usize, count: u64, block: [u32; 3]) -> DeviceError {
    let ([x, y, z], place) = (block, place(offset, bytes));
    let message = format!("block {x},{y},{z} writes {place} `{name}` in shared memory ({bytes} bytes long)");
    let error = DeviceError::plain(VerdictKind::OobWrite, message).with_cause("shared").with("buffer", name);
    let error = error.with("offset_bytes", offset).with("size_bytes", bytes);
    error.with("bytes_changed", count).with("block", block)
}
