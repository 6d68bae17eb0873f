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

    /// A unit with files `evo_cuda.h` and `kernel.cu` and this program.
    fn unit(program: &[u8]) -> Vec<u8> {
        let mut header = vec![1, 1, 1, -5i8 as u8, 14, 13];
        header.extend([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]);
        header.push(0);
        for name in ["evo_cuda.h", "kernel.cu"] {
            header.extend(name.as_bytes());
            header.extend([0, 0, 0, 0]);
        }
        header.push(0);
        let mut unit = ((2 + 4 + header.len() + program.len()) as u32).to_le_bytes().to_vec();
        unit.extend([4, 0]);
        unit.extend((header.len() as u32).to_le_bytes());
        unit.extend(header);
        unit.extend(program);
        unit
    }

    #[test]
    fn addresses_have_lines_of_the_kernel_only() {
        // Address 0x1000; file 2, line 1 + 41; then line 43 four bytes on; then the header; then the end.
        let mut program = vec![0, 9, 2];
        program.extend(0x1000u64.to_le_bytes());
        program.extend([4, 2, 3, 41, 1]);
        program.push(13 + (4 * 14) + (1 + 5));
        program.extend([4, 1, 3, 0x80 | 100, 0, 2, 4, 1]);
        program.extend([2, 16, 0, 1, 1]);
        let table = LineTable::of(&unit(&program));
        let check = |address, expected| assert_eq!(table.line(address), expected, "{address:x}");
        check(0x1000, None);
        check(0x1001, Some(42));
        check(0x1004, Some(42));
        check(0x1005, Some(43));
        // Inlined from the header: the kernel's line before it.
        check(0x1010, Some(43));
        check(0x2000, None);
    }

    #[test]
    fn damage_gives_no_lines() {
        let good = unit(&[1, 0, 1, 1]);
        for cut in 0..good.len() {
            LineTable::of(&good[..cut]);
        }
        assert!(LineTable::read(b"no elf").line(5).is_none());
    }
}
