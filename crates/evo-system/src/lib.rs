//! What evo asks of the operating system, with the care that strangers' programs and files need.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{Errno, Result};

pub mod process;
pub mod regular;
pub mod scratch;

/// A poisoned lock stays usable: no critical section leaves its value half changed.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What this machine is called; empty where it cannot be read. `uname` gives it too, with a feature of a crate for it.
pub fn machine_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_string()
}

/// Opens a name below a folder that is open already, in one step of the kernel: however somebody changes the folder or
/// its links meanwhile, nothing outside is opened. `None` where the kernel or the container does not have the call. A
/// path that leads outside is `XDEV`; a link that stays below is followed.
pub fn open_beneath(folder: impl AsFd, path: &str, flags: OFlags) -> Result<Option<OwnedFd>> {
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match openat2(folder, path, flags | OFlags::CLOEXEC, Mode::empty(), inside) {
        // Before Linux 5.6, and where a filter of system calls refuses those that it does not know.
        Err(Errno::NOSYS | Errno::PERM | Errno::INVAL) => Ok(None),
        opened => opened.map(Some),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_machine_has_a_name_of_one_line() {
        assert!(!super::machine_name().contains('\n'));
    }
}
