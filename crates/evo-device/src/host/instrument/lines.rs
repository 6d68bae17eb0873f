//! Source lines of instructions, from a module's DWARF line table.
//!
//! Only what `-g1 -gdwarf-4` writes is read: the line programs of version 4 (DWARF standard, version 4, section
//! 6.2). Whatever is not understood gives no line, and the message then has none.

use object::{Object, ObjectSection};

#[derive(Clone, Debug, PartialEq, Eq)]
struct LineRow {
    address: u64,
    line: u32,
    /// Whether the line is one of the kernel's file rather than of our headers.
    own: bool,
    end: bool,
}

#[derive(Debug, Default)]
pub struct LineTable {
    rows: Vec<LineRow>,
}

impl LineTable {
    pub fn read(binary: &[u8]) -> LineTable {
        let mut rows = Vec::new();
        if let Ok(file) = object::File::parse(binary)
            && let Some(section) = file.section_by_name(".debug_line")
            && let Ok(data) = section.data()
        {
            let mut rest = data;
            while let Some((unit, next)) = split_unit(rest) {
                let _ = read_unit(unit, &mut rows);
                rest = next;
            }
        }
        rows.sort_by_key(|row| (row.address, !row.end));
        LineTable { rows }
    }

    /// The line of the kernel's file in which the call before `address` stands. A call inlined from a header counts
    /// for the line before it.
    pub fn line(&self, address: u64) -> Option<u32> {
        let until = self.rows.partition_point(|row| row.address < address);
        let run = self.rows[..until].iter().rev().take_while(|row| !row.end);
        run.into_iter().find(|row| row.own && row.line > 0).map(|row| row.line)
    }
}

fn split_unit(data: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = u32::from_le_bytes(data.get(..4)?.try_into().ok()?) as usize;
    Some((data.get(4..4 + length)?, data.get(4 + length..)?))
}

struct LineReader<'a> {
    data: &'a [u8],
}

impl<'a> LineReader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (own, rest) = self.data.split_at_checked(count)?;
        self.data = rest;
        Some(own)
    }

    fn number(&mut self, bytes: usize) -> Option<u64> {
        Some(self.take(bytes)?.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn unsigned(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
    }

    fn signed(&mut self) -> Option<i64> {
        let (mut value, mut shift) = (0i64, 0);
        loop {
            let byte = self.byte()?;
            value |= i64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                let negative = byte & 0x40 != 0 && shift < 64;
                return Some(if negative { value | -1 << shift } else { value });
            }
        }
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.data.iter().position(|byte| *byte == 0)?;
        let own = self.take(length)?;
        self.take(1)?;
        Some(own)
    }
}

struct UnitHeader<'a> {
    step: u64,
    line_base: i8,
    line_range: u8,
    opcode_base: u8,
    operands: &'a [u8],
    foreign: Vec<bool>,
}

fn read_header<'a>(reader: &mut LineReader<'a>) -> Option<(UnitHeader<'a>, LineReader<'a>)> {
    if reader.number(2)? != 4 {
        return None;
    }
    let length = reader.number(4)? as usize;
    let mut own = LineReader { data: reader.take(length)? };
    let step = u64::from(own.byte()?);
    own.take(2)?;
    let (line_base, line_range, opcode_base) = (own.byte()? as i8, own.byte()?, own.byte()?);
    let operands = own.take(usize::from(opcode_base).checked_sub(1)?)?;
    while !own.text()?.is_empty() {}
    // Number 0 does not exist in version 4.
    let mut foreign = vec![true];
    loop {
        let name = own.text()?;
        if name.is_empty() {
            break;
        }
        for _ in 0..3 {
            own.unsigned()?;
        }
        foreign.push(is_foreign(name));
    }
    let header = UnitHeader { step, line_base, line_range, opcode_base, operands, foreign };
    Some((header, LineReader { data: reader.data }))
}

/// Our headers, and the lines that `translate` adds.
fn is_foreign(name: &[u8]) -> bool {
    name.starts_with(b"evo_") || name == b"unit.cpp" || name == b"entry points" || name.starts_with(b"<")
}

fn read_unit(unit: &[u8], rows: &mut Vec<LineRow>) -> Option<()> {
    let (header, mut program) = read_header(&mut LineReader { data: unit })?;
    let (mut address, mut line, mut file) = (0u64, 1i64, 1usize);
    while !program.data.is_empty() {
        let mut row = |address: u64, line: i64, file: usize, end: bool| {
            let own = !header.foreign.get(file).copied().unwrap_or(true);
            rows.push(LineRow { address, line: u32::try_from(line).unwrap_or(0), own, end });
        };
        let opcode = program.byte()?;
        match opcode {
            special if special >= header.opcode_base => {
                let adjusted = special - header.opcode_base;
                address += header.step * u64::from(adjusted / header.line_range.max(1));
                line += i64::from(header.line_base) + i64::from(adjusted % header.line_range.max(1));
                row(address, line, file, false);
            }
            0 => {
                let length = program.unsigned()? as usize;
                let mut own = LineReader { data: program.take(length)? };
                match own.byte()? {
                    1 => {
                        row(address, line, file, true);
                        (address, line, file) = (0, 1, 1);
                    }
                    2 => address = own.number(8)?,
                    _ => {}
                }
            }
            1 => row(address, line, file, false),
            2 => address += header.step * program.unsigned()?,
            3 => line += program.signed()?,
            4 => file = program.unsigned()? as usize,
            8 => {
                let steps = (255 - header.opcode_base) / header.line_range.max(1);
                address += header.step * u64::from(steps);
            }
            9 => address += program.number(2)?,
            other => {
                for _ in 0..*header.operands.get(usize::from(other).checked_sub(1)?)? {
                    program.unsigned()?;
                }
            }
        }
    }
    Some(())
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
        let mut unit = vec![4, 0];
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
        let mut rows = Vec::new();
        read_unit(&unit(&program), &mut rows).unwrap();
        let table = LineTable { rows };
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
            let _ = read_unit(&good[..cut], &mut Vec::new());
        }
        assert!(LineTable::read(b"no elf").line(5).is_none());
    }
}
