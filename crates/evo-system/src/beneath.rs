//! Opens names below a folder that is open already, in one step of the kernel: however somebody changes the folder
//! or its links meanwhile, nothing outside is opened.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{Errno, Result};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Links {
    /// It is followed where it stays below the folder.
    Inside,
    /// Nothing is opened.
    Refused,
}

/// `None` where the kernel or the container does not have the call. A path that leads outside is `XDEV`, and a
/// refused link is `LOOP`.
pub fn open(
    folder: impl AsFd,
    path: &str,
    flags: OFlags,
    mode: Mode,
    links: Links,
) -> Result<Option<OwnedFd>> {
    let own = match links {
        Links::Inside => ResolveFlags::NO_MAGICLINKS,
        Links::Refused => ResolveFlags::NO_SYMLINKS,
    };
    match openat2(folder, path, flags | OFlags::CLOEXEC, mode, ResolveFlags::BENEATH | own) {
        // Before Linux 5.6, and where a filter of system calls refuses those that it does not know.
        Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => Ok(None),
        opened => opened.map(Some),
    }
}
