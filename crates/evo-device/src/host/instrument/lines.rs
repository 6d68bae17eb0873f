//! Source lines of instructions, from a module's DWARF line table. Whatever is not understood gives no line, and the
//! message then has none.

use gimli::{AttributeValue, DebugLine, DebugLineOffset, EndianSlice, LittleEndian};
use object::{Object, ObjectSection};

#[derive(Clone, Debug, PartialEq, Eq)]
struct LineRow {
    address: u64,
    line: u64,
    /// Whether the line is one of the kernel's file rather than of our headers.
    is_kernels: bool,
    end: bool,
}

#[derive(Debug, Default)]
pub struct LineTable {
    rows: Vec<LineRow>,
}

type Lines<'a> = DebugLine<EndianSlice<'a, LittleEndian>>;

impl LineTable {
    pub fn read(binary: &[u8]) -> LineTable {
        let file = object::File::parse(binary).ok();
        let section = file.and_then(|file| file.section_by_name(".debug_line")?.data().ok());
        LineTable::of(section.unwrap_or_default())
    }

    fn of(section: &[u8]) -> LineTable {
        let (lines, mut offset, mut rows) = (Lines::new(section, LittleEndian), 0, Vec::new());
        while let Ok(length) = read_unit(&lines, DebugLineOffset(offset), &mut rows) {
            offset += length;
        }
        rows.sort_by_key(|row| (row.address, !row.end));
        LineTable { rows }
    }

    /// The line of the kernel's file in which the call before `address` stands. A call inlined from a header counts
    /// for the line before it.
    pub fn line(&self, address: u64) -> Option<u32> {
        let until = self.rows.partition_point(|row| row.address < address);
        let run = self.rows[..until].iter().rev().take_while(|row| !row.end);
        let row = run.into_iter().find(|row| row.is_kernels && row.line > 0)?;
        u32::try_from(row.line).ok()
    }
}

/// Adds the rows of the unit there, up to what is not understood, and gives the unit's length.
fn read_unit(lines: &Lines<'_>, offset: DebugLineOffset, rows: &mut Vec<LineRow>) -> gimli::Result<usize> {
    let mut program = lines.program(offset, 8, None, None)?.rows();
    let header = program.header();
    let length = usize::from(header.format().initial_length_size()) + header.unit_length();
    while let Ok(Some((header, row))) = program.next_row() {
        let is_kernels = row.file(header).is_some_and(|file| match file.path_name() {
            AttributeValue::String(name) => !is_foreign(&name),
            _ => false,
        });
        let line = row.line().map_or(0, u64::from);
        rows.push(LineRow { address: row.address(), line, is_kernels, end: row.end_sequence() });
    }
    Ok(length)
}

/// Our headers, and the lines that `translate` adds.
fn is_foreign(name: &[u8]) -> bool {
    name.starts_with(b"evo_") || name == b"unit.cpp" || name == b"entry points" || name.starts_with(b"<")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files `evo_cuda.h` and `kernel.cu`, and the rows of a short program.
    const UNIT: &[u8] = b"\x39\0\0\0\x04\0\x2f\0\0\0\x01\x01\x01\xfb\x0e\x0d\
        \0\x01\x01\x01\x01\0\0\0\x01\0\0\x01\0evo_cuda.h\0\0\0\0kernel.cu\0\0\0\0\0\x01\0\x01\x01";

    #[test]
    fn damage_gives_no_lines() {
        assert_eq!(LineTable::of(UNIT).rows.len(), 2);
        for cut in 0..UNIT.len() {
            LineTable::of(&UNIT[..cut]);
        }
        assert!(LineTable::read(b"no elf").line(5).is_none());
    }
}
