//! Inputs and expected outputs in `.npy` files; shape and data type are checked, nothing is guessed.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::BufferPlan;
use evo_protocol::verdict::VerdictKind;
use npyz::{NpyFile, TypeChar};

use crate::gate::element;

/// The elements of a file that must have the shape and data type of `buffer`, as fp64. A file of
/// f32 or f64 may stand for bf16, which NumPy lacks, and for other floats: values are rounded.
pub fn read_values(path: &Path, buffer: &BufferPlan) -> Result<Vec<f64>, DeviceError> {
    let fail = |why: String| task_error(format!("`{}`: {why}", path.display()));
    let file = File::open(path).map_err(|error| fail(format!("cannot open: {error}")))?;
    let npy =
        NpyFile::new(BufReader::new(file)).map_err(|error| fail(format!("not a .npy file: {error}")))?;
    let header = npy.header();
    if header.shape() != buffer.shape {
        return Err(fail(format!(
            "shape is `{:?}`, buffer `{}` is `{:?}`",
            header.shape(),
            buffer.name,
            buffer.shape
        )));
    }
    if header.order() != npyz::Order::C {
        return Err(fail("Fortran order\nhint: save it with `numpy.ascontiguousarray`".into()));
    }
    let npyz::DType::Plain(kind) = header.dtype() else {
        return Err(fail("holds records, not numbers".into()));
    };
    let Some(from) = dtype_of(kind.type_char(), kind.size_field()) else {
        return Err(fail(format!("data type `{kind}` is not supported")));
    };
    if kind.endianness() == npyz::Endianness::Big {
        return Err(fail(format!("data type `{kind}` is big-endian")));
    }
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
    // The half crate is not known to npyz; the data after its header is plain little-endian.
    let header_len = npy.header().len();
    read_tail(path, header_len * from.bytes(), from).map_err(|error| fail(format!("cannot read: {error}")))
}

/// The same as the bytes of the buffer.
pub fn read_bytes(path: &Path, buffer: &BufferPlan) -> Result<Vec<u8>, DeviceError> {
    Ok(element::narrow(&read_values(path, buffer)?, buffer.dtype))
}

/// The last `count` bytes of a file: everything behind the header.
fn read_tail(path: &Path, count: u64, dtype: DType) -> std::io::Result<Vec<f64>> {
    let bytes = std::fs::read(path)?;
    let start = bytes.len().checked_sub(count as usize).ok_or_else(|| {
        std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "file is shorter than its header says")
    })?;
    Ok(element::widen(&bytes[start..], dtype))
}

fn dtype_of(kind: TypeChar, size: u64) -> Option<DType> {
    match (kind, size) {
        (TypeChar::Float, 2) => Some(DType::F16),
        (TypeChar::Float, 4) => Some(DType::F32),
        (TypeChar::Float, 8) => Some(DType::F64),
        (TypeChar::Int, 1) => Some(DType::I8),
        (TypeChar::Int, 2) => Some(DType::I16),
        (TypeChar::Int, 4) => Some(DType::I32),
        (TypeChar::Int, 8) => Some(DType::I64),
        (TypeChar::Uint, 1) => Some(DType::U8),
        (TypeChar::Uint, 2) => Some(DType::U16),
        (TypeChar::Uint, 4) => Some(DType::U32),
        (TypeChar::Uint, 8) => Some(DType::U64),
        _ => None,
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
    use npyz::WriterBuilder;

    use super::*;

    fn buffer(dtype: DType, shape: &[u64], path: &Path) -> BufferPlan {
        let fill = Fill::Npy { path: path.to_path_buf() };
        BufferPlan { name: "x".into(), dtype, shape: shape.to_vec(), role: Role::Input, fill }
    }

    fn write(path: &Path, shape: &[u64], values: &[f32]) {
        let mut bytes = Vec::new();
        let mut writer =
            npyz::WriteOptions::new().default_dtype().shape(shape).writer(&mut bytes).begin_nd().unwrap();
        writer.extend(values.iter()).unwrap();
        writer.finish().unwrap();
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
    }
}
