//! Inputs in files without a header: elements of the buffer's data type, little-endian, the last extent fastest.

use std::io::Read;
use std::path::Path;

use evo_protocol::device::DeviceError;
use evo_protocol::plan::BufferPlan;

use super::npy::task_error;

pub fn read_bytes(path: &Path, buffer: &BufferPlan) -> Result<Vec<u8>, DeviceError> {
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

#[cfg(test)]
mod tests {
    use evo_protocol::dtype::DType;
    use evo_protocol::plan::{Fill, Role};

    use super::*;

    #[test]
    fn a_file_must_be_as_long_as_its_buffer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.bin");
        let buffer = BufferPlan {
            name: "x".into(),
            dtype: DType::F16,
            shape: vec![2, 3],
            role: Role::Input,
            fill: Fill::Raw { path: path.clone() },
            symbol: None,
            view: None,
        };
        let error = || read_bytes(&path, &buffer).unwrap_err().to_string();
        assert!(error().contains("cannot read"), "{}", error());
        let bytes: Vec<u8> = (0..12).collect();
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(read_bytes(&path, &buffer).unwrap(), bytes);
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
