//! Inputs and expected outputs in `.npy` files; shape and data type are checked, nothing is guessed.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::BufferPlan;
use evo_protocol::verdict::VerdictKind;

use super::element;
use super::npy_header::NpyHeader;

/// The elements of a file that must have the shape and data type of `buffer`, as fp64. A file of
/// f32 or f64 may stand for bf16, which NumPy lacks, and for other floats: values are rounded.
pub fn read_values(path: &Path, buffer: &BufferPlan) -> Result<Vec<f64>, DeviceError> {
    let fail = |why: String| task_error(format!("`{}`: {why}", path.display()));
    let file = File::open(path).map_err(|error| fail(format!("cannot open: {error}")))?;
    let mut file = BufReader::new(file);
    let header = NpyHeader::read(&mut file).map_err(|error| fail(format!("not a .npy file: {error}")))?;
    if header.shape != buffer.shape {
        return Err(fail(format!(
            "shape is `{:?}`, buffer `{}` is `{:?}`",
            header.shape, buffer.name, buffer.shape
        )));
    }
    if header.fortran_order {
        return Err(fail("Fortran order\nhint: save it with `numpy.ascontiguousarray`".into()));
    }
    let from = dtype_of(&header.descr).map_err(fail)?;
    let float_for_float =
        from.is_float() && buffer.dtype.is_float() && (from == DType::F32 || from == DType::F64);
    if from != buffer.dtype && !float_for_float {
        return Err(fail(format!(
            "data type is `{}`, buffer `{}` is `{}`",
            from.as_str(),
            buffer.name,
            buffer.dtype.as_str()
        )));
    }
    read_elements(file, &header, from).map_err(|error| fail(format!("cannot read: {error}")))
}

/// The same as the bytes of the buffer.
pub fn read_bytes(path: &Path, buffer: &BufferPlan) -> Result<Vec<u8>, DeviceError> {
    Ok(element::narrow(&read_values(path, buffer)?, buffer.dtype))
}

/// The elements behind the header, little-endian.
fn read_elements(mut file: impl Read, header: &NpyHeader, dtype: DType) -> io::Result<Vec<f64>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let expected = header.elements().and_then(|count| count.checked_mul(dtype.bytes()));
    if expected != Some(bytes.len() as u64) {
        let why = format!("{} bytes of data do not fill the shape `{:?}`", bytes.len(), header.shape);
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(element::widen(&bytes, dtype))
}

/// The element type that NumPy calls `descr`: byte order, kind, size.
fn dtype_of(descr: &str) -> Result<DType, String> {
    if descr.starts_with('>') {
        return Err(format!("data type `{descr}` is big-endian"));
    }
    match descr.trim_start_matches(['<', '|', '=']) {
        "f2" => Ok(DType::F16),
        "f4" => Ok(DType::F32),
        "f8" => Ok(DType::F64),
        "i1" => Ok(DType::I8),
        "i2" => Ok(DType::I16),
        "i4" => Ok(DType::I32),
        "i8" => Ok(DType::I64),
        "u1" => Ok(DType::U8),
        "u2" => Ok(DType::U16),
        "u4" => Ok(DType::U32),
        "u8" => Ok(DType::U64),
        _ => Err(format!("data type `{descr}` is not supported")),
    }
}

/// The task itself is unusable: our own trouble, or the space file's, never the variant's.
pub fn task_error(message: impl Into<String>) -> DeviceError {
    DeviceError::plain(VerdictKind::HarnessError, message).with_cause("task")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use evo_protocol::plan::{Fill, Role};

    use super::*;
    use crate::worker::judge::reference::testing::npy_file;

    fn buffer(dtype: DType, shape: &[u64], path: &Path) -> BufferPlan {
        let fill = Fill::Npy { path: path.to_path_buf() };
        BufferPlan { name: "x".into(), dtype, shape: shape.to_vec(), role: Role::Input, fill }
    }

    fn write(path: &Path, shape: &[u64], values: &[f32]) {
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let bytes = npy_file("<f4", shape, &data);
        File::create(path).unwrap().write_all(&bytes).unwrap();
    }

    #[test]
    fn a_file_is_read_and_a_wrong_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        write(&path, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.5]);
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
}
