//! The header of a `.npy` file: element type, order and shape.
//!
//! The format is NumPy's own (`numpy.lib.format`, NEP 1): a magic number, a version, the header's length and
//! a Python dictionary with exactly three keys, which NumPy always writes as literals. A crate that reads it
//! exists, but it brings a parser generator along for these sixty lines.

use std::io::{self, Read};

const HEADER_MAX: u32 = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NpyHeader {
    /// NumPy's name of the element type: `<f4` is a little-endian four-byte float.
    pub descr: String,
    /// Whether the first index runs fastest.
    pub fortran_order: bool,
    pub shape: Vec<u64>,
}

impl NpyHeader {
    /// Leaves `file` at the first element. `InvalidData` when this is not a `.npy` file.
    pub fn read(mut file: impl Read) -> io::Result<NpyHeader> {
        let mut start = [0u8; 8];
        file.read_exact(&mut start)?;
        if !start.starts_with(b"\x93NUMPY") {
            return Err(invalid("it does not start with NumPy's magic number"));
        }
        let length = match start[6] {
            1 => u32::from(u16::from_le_bytes(read_array(&mut file)?)),
            2 | 3 => u32::from_le_bytes(read_array(&mut file)?),
            version => return Err(invalid(&format!("its format version {version} is unknown"))),
        };
        if length > HEADER_MAX {
            return Err(invalid(&format!("its header has {length} bytes")));
        }
        let mut text = vec![0u8; length as usize];
        file.read_exact(&mut text)?;
        let text = String::from_utf8(text).map_err(|_| invalid("its header is not text"))?;
        parse(&text).ok_or_else(|| invalid(&format!("its header cannot be read: {}", text.trim())))
    }

    pub fn elements(&self) -> Option<u64> {
        self.shape.iter().try_fold(1u64, |count, extent| count.checked_mul(*extent))
    }
}

fn read_array<const N: usize>(file: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`, keys in any order.
fn parse(text: &str) -> Option<NpyHeader> {
    let mut rest = text.trim().strip_prefix('{')?.strip_suffix('}')?.trim_start();
    let (mut descr, mut fortran_order, mut shape) = (None, None, None);
    while !rest.is_empty() {
        let (key, after) = quoted(rest)?;
        let value = after.trim_start().strip_prefix(':')?.trim_start();
        rest = match key {
            "descr" => {
                let (name, after) = quoted(value)?;
                descr = Some(name.to_string());
                after
            }
            "fortran_order" => {
                let word = value.split([',', ' ', '}']).next()?;
                fortran_order = Some(match word {
                    "True" => true,
                    "False" => false,
                    _ => return None,
                });
                &value[word.len()..]
            }
            "shape" => {
                let (inside, after) = value.strip_prefix('(')?.split_once(')')?;
                let extents = inside.split(',').map(str::trim).filter(|extent| !extent.is_empty());
                shape = Some(extents.map(|extent| extent.parse().ok()).collect::<Option<Vec<u64>>>()?);
                after
            }
            _ => return None,
        };
        rest = rest.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    Some(NpyHeader { descr: descr?, fortran_order: fortran_order?, shape: shape? })
}

fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|first| ['\'', '"'].contains(first))?;
    text[1..].split_once(quote)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::reference::testing::npy_file;

    #[test]
    fn headers_are_read_as_numpy_writes_them() {
        let check = |text: &str, expected: Option<(&str, bool, &[u64])>| {
            let expected = expected.map(|(descr, fortran_order, shape)| NpyHeader {
                descr: descr.into(),
                fortran_order,
                shape: shape.to_vec(),
            });
            assert_eq!(parse(text), expected, "{text}");
        };
        check(
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n",
            Some(("<f4", false, &[2, 3])),
        );
        check("{'descr': '|u1', 'fortran_order': True, 'shape': (7,), }", Some(("|u1", true, &[7])));
        check("{\"shape\": (), \"descr\": \"<f8\", \"fortran_order\": False}", Some(("<f8", false, &[])));
        check("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", None);
        check("{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", None);
        check("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,), }", None);
        check("{'descr': '<f4', 'shape': (2,), }", None);
        check("", None);
    }

    #[test]
    fn damaged_files_are_errors() {
        let whole = npy_file("<f4", &[2, 3], &[0; 24]);
        assert_eq!(NpyHeader::read(&whole[..]).unwrap().elements(), Some(6));
        for cut in 0..whole.len() - 24 {
            assert!(NpyHeader::read(&whole[..cut]).is_err(), "{cut}");
        }
        let mut other = whole.clone();
        other[6] = 9;
        assert!(NpyHeader::read(&other[..]).unwrap_err().to_string().contains("version 9"));
        let huge = NpyHeader { descr: "<f4".into(), fortran_order: false, shape: vec![u64::MAX, 2] };
        assert_eq!(huge.elements(), None);
        let long = [&b"\x93NUMPY\x02\x00"[..], &u32::MAX.to_le_bytes()].concat();
        assert!(NpyHeader::read(&long[..]).unwrap_err().to_string().contains("bytes"));
    }
}
