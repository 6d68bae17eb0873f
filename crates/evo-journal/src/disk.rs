//! The few ways in which evo touches the disk for what must not be lost: journals and the views of them. Tests make
//! each of them fail, from a seed (`faults`).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;

/// After an error a part of the bytes may be in the file.
pub fn write_all(file: &mut File, bytes: &[u8]) -> io::Result<()> {
    #[cfg(debug_assertions)]
    if let Some((kept, error)) = faults::write(bytes.len()) {
        file.write_all(&bytes[..kept])?;
        return Err(error);
    }
    file.write_all(bytes)
}

pub fn sync_data(file: &File) -> io::Result<()> {
    #[cfg(debug_assertions)]
    faults::sync()?;
    file.sync_data()
}

pub fn sync_all(file: &File) -> io::Result<()> {
    #[cfg(debug_assertions)]
    faults::sync()?;
    file.sync_all()
}

pub fn rename(folder: impl AsFd, unfinished: &str, name: &str) -> io::Result<()> {
    #[cfg(debug_assertions)]
    faults::rename()?;
    Ok(rustix::fs::renameat(&folder, unfinished, &folder, name)?)
}

pub fn read(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    #[cfg(debug_assertions)]
    let bytes = faults::read(bytes);
    Ok(bytes)
}

/// Faults of the disk in the thread that asks for them, which tests of other crates run the engine in: hence not
/// `cfg(test)`. No release has them.
#[cfg(debug_assertions)]
#[doc(hidden)]
pub mod faults {
    use std::cell::RefCell;
    use std::io::{self, ErrorKind};

    use evo_space::sample::seeded;
    use rand::RngExt;
    use rand_chacha::ChaCha8Rng;

    /// How often a call fails, and with which faults.
    struct FaultPlan {
        random: ChaCha8Rng,
        rate: f64,
        happened: Vec<&'static str>,
    }

    thread_local! {
        static PLAN: RefCell<Option<FaultPlan>> = const { RefCell::new(None) };
    }

    /// From now on one call in `1 / rate` fails, as the seed decides.
    pub fn begin(seed: u64, rate: f64) {
        let plan = FaultPlan { random: seeded(seed), rate, happened: Vec::new() };
        PLAN.with_borrow_mut(|own| *own = Some(plan));
    }

    /// What went wrong; the disk is well again.
    pub fn end() -> Vec<&'static str> {
        PLAN.with_borrow_mut(|own| own.take().map(|plan| plan.happened).unwrap_or_default())
    }

    fn strikes<T>(fault: impl FnOnce(&mut ChaCha8Rng) -> (&'static str, T)) -> Option<T> {
        PLAN.with_borrow_mut(|own| {
            let plan = own.as_mut()?;
            if !plan.random.random_bool(plan.rate) {
                return None;
            }
            let (name, fault) = fault(&mut plan.random);
            plan.happened.push(name);
            Some(fault)
        })
    }

    /// A full disk before the first byte, or a short write; the bytes that are written all the same.
    pub(super) fn write(length: usize) -> Option<(usize, io::Error)> {
        strikes(|random| match random.random_bool(0.5) {
            true => ("full", (0, ErrorKind::StorageFull.into())),
            false => (
                "short write",
                (random.random_range(0..length.max(1)), io::Error::other("input/output error")),
            ),
        })
    }

    pub(super) fn sync() -> io::Result<()> {
        strikes(|_| ("sync", ())).map_or(Ok(()), |()| Err(io::Error::other("input/output error")))
    }

    pub(super) fn rename() -> io::Result<()> {
        strikes(|_| ("rename", ())).map_or(Ok(()), |()| Err(ErrorKind::PermissionDenied.into()))
    }

    /// One byte of what was read is another.
    pub(super) fn read(mut bytes: Vec<u8>) -> Vec<u8> {
        if bytes.is_empty() {
            return bytes;
        }
        let flip = strikes(|random| {
            ("corrupt read", (random.random_range(0..bytes.len()), random.random_range(1..=255u8)))
        });
        if let Some((place, flip)) = flip {
            bytes[place] ^= flip;
        }
        bytes
    }
}
