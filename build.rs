//! Hashes the sources that judge and time variants, so that a result is never taken over from an evo with other gates.
//!
//! A version number in the source would do the same for as long as everybody who changes a gate remembers to raise
//! it. A changed comment makes results be measured again, which costs time and never a wrong number.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Gates, deadlines, timing, devices, and the requests in which the parent asks for them.
const JUDGING: [&str; 5] = [
    "crates/evo-worker/src",
    "crates/evo-supervise/src",
    "crates/evo-timing/src",
    "crates/evo-device/src",
    "crates/evo-protocol/src",
];

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    // Keys of its own would make the hash differ between builds; it guards against mistakes, not against people.
    let mut hasher = DefaultHasher::new();
    for folder in JUDGING {
        println!("cargo:rerun-if-changed={folder}");
        let place = root.join(folder);
        // A package from a registry has its crates elsewhere; there the version stands for them.
        if place.is_dir() {
            add(&place, &mut hasher)?;
        }
    }
    // The host device runs inside the worker, so an optimized evo measures other times. The manifest says how far each
    // crate is optimized.
    println!("cargo:rerun-if-changed=Cargo.toml");
    fs::read(root.join("Cargo.toml"))?.hash(&mut hasher);
    for name in ["OPT_LEVEL", "DEBUG", "TARGET"] {
        env::var_os(name).hash(&mut hasher);
    }
    println!("cargo:rustc-env=EVO_JUDGE_HASH={:016x}", hasher.finish());
    Ok(())
}

/// Adds every file below a folder, in order of name.
fn add(folder: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    let entries = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = entries.collect::<io::Result<Vec<PathBuf>>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            add(&path, hasher)?;
        } else {
            path.file_name().hash(hasher);
            fs::read(&path)?.hash(hasher);
        }
    }
    Ok(())
}
