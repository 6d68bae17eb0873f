//! Inputs and expected outputs in files; shape and data type are checked, nothing is guessed.
//!
//! The format of `.npy` is NumPy's own (`numpy.lib.format`, NEP 1): a magic number, a version, the header's length and
//! a Python dictionary with exactly three keys, which NumPy always writes as literals. A crate that reads it
//! exists, but it brings a parser generator along for these few lines. A file without a header holds elements of the
//! buffer's data type, little-endian, the last extent fastest.

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;

use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::BufferPlan;
use evo_protocol::verdict::VerdictKind;
use serde::Deserialize;

use super::element;

/// The elements of a file that must have the shape and data type of `buffer`, as fp64. A file of
/// f32 or f64 may stand for bf16, which NumPy lacks, and for other floats: values are rounded.
pub fn read_values(path: &Path, buffer: &BufferPlan) -> Result<Vec<f64>, DeviceError> {
    let BufferPlan { name, dtype, shape, .. } = buffer;
    let file = evo_system::regular::open(path).map_err(|error| format!("cannot open: {error}"));
    let fits = |from| from == *dtype || dtype.is_float() && matches!(from, DType::F32 | DType::F64);
    let read = file.and_then(|file| typed_array(file, (*dtype, shape), &format!("buffer `{name}` is"), fits));
    let (from, bytes) = read.map_err(|why| task_error(format!("`{}`: {why}", path.display())))?;
    Ok(element::widen(&bytes, from))
}

/// The type and the bytes of an array of this shape and of a type that `fits`; `wanted` stands before what was wanted.
fn typed_array(
    file: impl Read,
    (dtype, shape): (DType, &[u64]),
    wanted: &str,
    fits: impl Fn(DType) -> bool,
) -> Result<(DType, Vec<u8>), String> {
    let mut file = BufReader::new(file);
    let header = NpyHeader::read(&mut file).map_err(|error| format!("it is not a .npy file: {error}"))?;
    if header.shape != shape {
        return Err(format!("its shape is `{:?}`, {wanted} `{shape:?}`", header.shape));
    }
    if header.fortran_order {
        return Err("it is in Fortran order\nhint: save it with `numpy.ascontiguousarray`".into());
    }
    let own = dtype_of(&header.descr)?;
    if !fits(own) {
        return Err(format!("its data type is `{}`, {wanted} `{}`", own.as_str(), dtype.as_str()));
    }
    let bytes =
        header.elements().and_then(|count| count.checked_mul(own.bytes())).ok_or("it is too large")?;
    let mut data = Vec::new();
    file.read_to_end(&mut data).map_err(|error| format!("cannot read: {error}"))?;
    match data.len() as u64 == bytes {
        true => Ok((own, data)),
        false => Err(format!("cannot read: {} bytes of data do not fill the shape `{shape:?}`", data.len())),
    }
}

pub fn read_bytes(path: &Path, buffer: &BufferPlan) -> Result<Vec<u8>, DeviceError> {
    Ok(element::narrow(&read_values(path, buffer)?, buffer.dtype))
}

/// Writes a file of format version 1 as NumPy does: little-endian bytes of a buffer, bf16 as f32, which holds it exactly.
pub fn write(path: &Path, dtype: DType, shape: &[u64], bytes: &[u8]) -> io::Result<()> {
    let converted =
        (dtype == DType::Bf16).then(|| element::narrow(&element::widen(bytes, dtype), DType::F32));
    let extents: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
    let descr = dtype.npy();
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({extents}), }}");
    // The elements begin at a multiple of 64 bytes, behind magic number, version, length and a line end.
    let length = (10 + text.len() + 1).next_multiple_of(64) - 10;
    text.push_str(&" ".repeat(length - 1 - text.len()));
    text.push('\n');
    let length = u16::try_from(length).map_err(io::Error::other)?;
    let mut file = File::create_new(path)?;
    file.write_all(b"\x93NUMPY\x01\x00")?;
    file.write_all(&length.to_le_bytes())?;
    file.write_all(text.as_bytes())?;
    file.write_all(converted.as_deref().unwrap_or(bytes))
}

pub fn read_exactly(path: &Path, dtype: DType, shape: &[u64]) -> Result<Vec<u8>, String> {
    let elements = shape.iter().try_fold(1u64, |count, extent| count.checked_mul(*extent));
    let bytes = elements.and_then(|count| count.checked_mul(dtype.bytes())).ok_or("it is too large")?;
    let file = evo_system::regular::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "it was not written".to_string(),
        _ => error.to_string(),
    })?;
    // Looked at before anything is read, so that a file of a terabyte takes no memory.
    let found = file.metadata().map_err(|error| error.to_string())?.len();
    if found > bytes + HEADER_ROOM {
        return Err(format!("it has {found} bytes, and {bytes} of data are expected"));
    }
    Ok(typed_array(file.take(bytes + HEADER_ROOM), (dtype, shape), "expected", |own| own == dtype)?.1)
}

/// More than any header takes.
const HEADER_ROOM: u64 = 1 << 17;

fn dtype_of(descr: &str) -> Result<DType, String> {
    if descr.starts_with('>') {
        return Err(format!("data type `{descr}` is big-endian"));
    }
    let plain = |name: &'static str| name.trim_start_matches(['<', '|']);
    let name = descr.trim_start_matches(['<', '|', '=']);
    let mut known = DType::ALL.iter().copied().filter(|dtype| *dtype != DType::Bf16);
    known
        .find(|dtype| plain(dtype.npy()) == name)
        .ok_or_else(|| format!("data type `{descr}` is not supported"))
}

/// The task itself is unusable: our own trouble, or the space file's, never the variant's.
pub fn task_error(message: impl Into<String>) -> DeviceError {
    DeviceError::plain(VerdictKind::HarnessError, message).with_cause("task")
}

pub fn read_raw(path: &Path, buffer: &BufferPlan) -> Result<Vec<u8>, DeviceError> {
    let fail = |why: String| task_error(format!("`{}`: {why}", path.display()));
    let unread = |error: std::io::Error| fail(format!("cannot read: {error}"));
    let file = evo_system::regular::open(path).map_err(unread)?;
    let expected = buffer.bytes();
    // Its length first, so that a file of a terabyte takes no memory.
    let found = file.metadata().map_err(unread)?.len();
    if found == expected {
        let mut bytes = Vec::new();
        file.take(expected).read_to_end(&mut bytes).map_err(unread)?;
        if bytes.len() as u64 == expected {
            return Ok(bytes);
        }
    }
    let (name, dtype, elements) = (&buffer.name, buffer.dtype.as_str(), buffer.elements());
    Err(fail(format!(
        "it has {found} bytes; {elements} elements of `{dtype}` for buffer `{name}` have {expected}\n\
         hint: a file with a header is read by `npy = …`"
    )))
}

const HEADER_MAX: u32 = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
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

/// `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`, keys in any order: JSON but for its quotes, brackets
/// and last commas.
fn parse(text: &str) -> Option<NpyHeader> {
    let words = [("'", "\""), ("False", "false"), ("True", "true"), ("(", "["), (")", "]")];
    let mut text = words.iter().fold(text.trim().to_string(), |text, (from, to)| text.replace(from, to));
    for (comma, end) in [(", }", "}"), (",}", "}"), (", ]", "]"), (",]", "]")] {
        text = text.replace(comma, end);
    }
    serde_json::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use evo_protocol::plan::{Fill, Role};

    use super::*;
    use crate::judge::reference::testing;

    fn buffer(dtype: DType, shape: &[u64], path: &Path) -> BufferPlan {
        let fill = Fill::Npy { path: path.to_path_buf() };
        BufferPlan { fill, ..testing::buffer("x", dtype, shape, Role::Input) }
    }

    /// As simple programs write it: without the spaces that NumPy puts behind the header.
    fn npy_file(descr: &str, shape: &[u64], data: &[u8]) -> Vec<u8> {
        let extents: String = shape.iter().map(|extent| format!("{extent}, ")).collect();
        let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({extents}), }}\n");
        let length = u16::try_from(text.len()).unwrap().to_le_bytes();
        [b"\x93NUMPY\x01\x00", &length[..], text.as_bytes(), data].concat()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let all = [DType::F16, DType::F32, DType::F64, DType::I8, DType::I64, DType::U16, DType::U64];
        for (number, dtype) in all.into_iter().enumerate() {
            for shape in [&[2, 3][..], &[6], &[0, 4], &[1; 20]] {
                let count: u64 = shape.iter().product();
                let bytes: Vec<u8> = (0..count * dtype.bytes()).map(|byte| byte as u8).collect();
                let path = folder.path().join(format!("{number}-{}.npy", shape.len()));
                write(&path, dtype, shape, &bytes).unwrap();
                assert_eq!(read_exactly(&path, dtype, shape).unwrap(), bytes);
                assert!(write(&path, dtype, shape, &bytes).is_err(), "nothing is overwritten");
                std::fs::remove_file(path).unwrap();
            }
        }
        let path = folder.path().join("b.npy");
        write(&path, DType::Bf16, &[2], &element::narrow(&[1.5, -2.0], DType::Bf16)).unwrap();
        let own = read_exactly(&path, DType::F32, &[2]).unwrap();
        assert_eq!(element::widen(&own, DType::F32), [1.5, -2.0]);
        let why = |dtype, shape: &[u64]| read_exactly(&path, dtype, shape).unwrap_err();
        assert_eq!(why(DType::F64, &[2]), "its data type is `f32`, expected `f64`");
        assert_eq!(why(DType::F32, &[2, 1]), "its shape is `[2]`, expected `[2, 1]`");
        std::fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        let why = why(DType::F32, &[2]);
        assert!(why.contains("1099511627776 bytes, and 8 of data"), "{why}");
    }

    #[test]
    fn a_file_is_read_and_a_wrong_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        let data = element::narrow(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.5], DType::F32);
        std::fs::write(&path, npy_file("<f4", &[2, 3], &data)).unwrap();
        let read = |dtype, shape: &[u64]| read_values(&path, &buffer(dtype, shape, &path));
        assert_eq!(read(DType::F32, &[2, 3]).unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.5]);
        assert_eq!(read(DType::Bf16, &[2, 3]).unwrap()[5], 6.5);
        let complaint = |dtype, shape: &[u64]| read(dtype, shape).unwrap_err().message;
        assert!(complaint(DType::F32, &[3, 2]).contains("shape is `[2, 3]`, buffer `x` is `[3, 2]`"));
        assert!(complaint(DType::I32, &[2, 3]).contains("data type is `f32`, buffer `x` is `i32`"));
        let missing = read_values(&folder.path().join("y.npy"), &buffer(DType::F32, &[1], &path));
        assert_eq!(missing.unwrap_err().cause.as_deref(), Some("task"));
        std::fs::write(&path, b"not numpy").unwrap();
        assert!(complaint(DType::F32, &[2, 3]).contains("not a .npy file"));
        std::fs::write(&path, npy_file("<f4", &[2, 3], &[0; 20])).unwrap();
        assert!(complaint(DType::F32, &[2, 3]).contains("20 bytes of data do not fill the shape `[2, 3]`"));
        std::fs::write(&path, npy_file(">f4", &[2, 3], &[0; 24])).unwrap();
        assert!(complaint(DType::F32, &[2, 3]).contains("big-endian"));
    }

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
        let usual = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n";
        check(usual, Some(("<f4", false, &[2, 3])));
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

    #[test]
    fn a_file_must_be_as_long_as_its_buffer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.bin");
        let buffer = buffer(DType::F16, &[2, 3], &path);
        let error = || read_raw(&path, &buffer).unwrap_err().to_string();
        assert!(error().contains("cannot read"), "{}", error());
        let bytes: Vec<u8> = (0..12).collect();
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read_raw(&path, &buffer).unwrap(), bytes);
        for wrong in [&bytes[..11], &[0; 13][..], &[]] {
            std::fs::write(&path, wrong).unwrap();
            let own = format!("it has {} bytes; 6 elements of `f16` for buffer `x` have 12", wrong.len());
            assert!(error().contains(&own), "{}", error());
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(error().contains("a folder"), "{}", error());
    }
}
