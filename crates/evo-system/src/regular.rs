//! Files that are files. Opening a named pipe waits for its other end, for ever if nobody has it, and a device
//! may do anything; so a path is looked at before it is opened.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::FileType;

/// `a named pipe`; `None` for a file, and where there is nothing.
pub fn irregular(path: &Path) -> Option<&'static str> {
    word(FileType::from_raw_mode(fs::metadata(path).ok()?.mode()))
}

/// `it is a named pipe, not a file`.
pub fn check(path: &Path) -> io::Result<()> {
    irregular(path).map_or(Ok(()), |what| Err(refused(what)))
}

pub fn open(path: &Path) -> io::Result<File> {
    check(path)?;
    // Not waiting for the other end, should a pipe have taken the file's place since.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    match word(FileType::from_raw_mode(file.metadata()?.mode())) {
        None => Ok(file),
        Some(what) => Err(refused(what)),
    }
}

pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

pub fn word(kind: FileType) -> Option<&'static str> {
    match kind {
        FileType::RegularFile => None,
        FileType::Directory => Some("a folder"),
        FileType::Fifo => Some("a named pipe"),
        FileType::Socket => Some("a socket"),
        _ => Some("a device"),
    }
}

pub fn refused(what: &str) -> io::Error {
    let kind = if what == "a folder" { io::ErrorKind::IsADirectory } else { io::ErrorKind::InvalidInput };
    io::Error::new(kind, format!("it is {what}, not a file"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_files_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let said = |path: &Path| read(path).unwrap_err().to_string();
        assert_eq!(said(&pipe), "it is a named pipe, not a file");
        assert_eq!(said(folder.path()), "it is a folder, not a file");
        assert_eq!(said(Path::new("/dev/zero")), "it is a device, not a file");
        // Through a link it is what the link leads to.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        assert_eq!(said(&link), "it is a named pipe, not a file");
        let file = folder.path().join("file");
        assert_eq!(read(&file).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(&file, "x").unwrap();
        assert_eq!(read(&file).unwrap(), b"x");
    }
}
