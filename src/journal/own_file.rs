//! Files in evo's output folder are opened as they are: a link there may have been made by somebody else, and evo would
//! write wherever it leads. Only the output folder itself may be reached through links.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::{disk, regular};

/// Opens a file of the output folder, unless it is a link or not a file at all.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    regular::check(path)?;
    options.custom_flags(libc::O_NOFOLLOW).open(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => is_link(),
        _ => error,
    })
}

/// The contents of a file of the output folder.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    disk::read(&mut open(path, OpenOptions::new().read(true))?)
}

/// Refuses a folder of the output folder that is a link.
pub fn check_folder(path: &Path) -> io::Result<()> {
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => Err(is_link()),
        _ => Ok(()),
    }
}

fn is_link() -> io::Error {
    io::Error::other("it is a link, which evo does not follow in its output folder")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::journal::leaderboard_file::write_atomically;
    use crate::journal::lock::StudyLock;
    use crate::journal::writer::JournalWriter;

    #[test]
    fn links_in_the_output_folder_lead_nowhere() {
        let root = tempfile::tempdir().unwrap();
        let secret = root.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        let out = root.path().join("out");
        std::fs::create_dir(&out).unwrap();
        for name in ["journal.jsonl", "lock", "leaderboard.json"] {
            symlink(&secret, out.join(name)).unwrap();
        }
        let journal = out.join("journal.jsonl");
        assert!(read(&journal).unwrap_err().to_string().contains("it is a link"));
        assert!(JournalWriter::create(&journal).is_err());
        assert!(JournalWriter::append_after(&journal, 0).is_err());
        assert!(StudyLock::take(&out).is_err());
        // A view is replaced, and what the link led to stays.
        write_atomically(&out.join("leaderboard.json"), b"{}").unwrap();
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "secret");
        assert_eq!(read(&out.join("leaderboard.json")).unwrap(), b"{}");
        symlink(&out, root.path().join("study")).unwrap();
        assert!(check_folder(&root.path().join("study")).is_err() && check_folder(&out).is_ok());
    }
}
