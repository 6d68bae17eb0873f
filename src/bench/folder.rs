//! The files of a benchmark, in a folder of its own that never was there before.
//!
//! They are written again while the run goes on, so that whatever ends it leaves the rows that were finished.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::cells::Implementation;
use super::pages;
use super::row::BenchRow;
use super::summary::summary;
use crate::journal::own_folder::OwnFolder;

/// Names that are tried: so many runs of one name on one day.
const NUMBERS_MAX: u32 = 10_000;

/// A run's folder, open.
#[derive(Debug)]
pub struct BenchFolder {
    folder: OwnFolder,
    /// What stands above the rows in `bench.json`.
    head: Value,
}

impl BenchFolder {
    /// Makes `OUT/bench/DEVICE/DATE-NAME`, or `DATE-NAME-2` and so on where there is one. `head` has the fields of
    /// `bench.json` above the rows.
    pub fn create(
        out: &Path,
        device: &str,
        date: &str,
        name: &str,
        head: Value,
        environment: &Value,
    ) -> io::Result<BenchFolder> {
        let place = OwnFolder::create(out)?.create_folder("bench")?.create_folder(&slug(device))?;
        let folder = (1..=NUMBERS_MAX).find_map(|number| {
            let name = match number {
                1 => format!("{date}-{name}"),
                _ => format!("{date}-{name}-{number}"),
            };
            match place.create_new_folder(&name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
                made => Some(made),
            }
        });
        let folder = folder.unwrap_or_else(|| Err(io::Error::from(io::ErrorKind::AlreadyExists)))?;
        let own = BenchFolder { folder, head };
        own.write("environment.json", &pretty(environment))?;
        Ok(own)
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().to_path_buf()
    }

    /// Keeps the rows of a run that goes on.
    pub fn keep(&self, rows: &[BenchRow], implementations: &[Implementation]) -> io::Result<()> {
        self.write_all("unfinished", rows, implementations)
    }

    /// Writes all files of a run that is done.
    pub fn finish(
        &mut self,
        status: &str,
        why: &[String],
        rows: &[BenchRow],
        implementations: &[Implementation],
    ) -> io::Result<()> {
        self.head["why"] = json!(why);
        self.write_all(status, rows, implementations)
    }

    fn write_all(
        &self,
        status: &str,
        rows: &[BenchRow],
        implementations: &[Implementation],
    ) -> io::Result<()> {
        let mut whole = self.head.clone();
        whole["status"] = status.into();
        whole["implementations"] = json!(implementations);
        whole["rows"] = json!(rows);
        whole["summary"] = json!(summary(rows, implementations));
        let head = &whole;
        self.write("bench.csv", &pages::csv(rows))?;
        self.write("bench.md", pages::table(head, rows).as_bytes())?;
        self.write("comparison.md", pages::comparison(head, rows, implementations).as_bytes())?;
        // Last: whoever reads it finds the others as new.
        self.write("bench.json", &pretty(head))
    }

    fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.folder.replace(name, bytes, false)
    }
}

fn pretty(value: &Value) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(value).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// A device's name as a folder's: `nvidia-h200`.
fn slug(device: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let text: String = device.chars().map(plain).take(80).collect();
    let parts: Vec<&str> = text.split('-').filter(|part| !part.is_empty()).collect();
    if parts.is_empty() { "device".to_string() } else { parts.join("-") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_there_is_never_used_again() {
        let root = tempfile::tempdir().unwrap();
        let create = || {
            let head = json!({ "name": "a" });
            let own =
                BenchFolder::create(root.path(), "NVIDIA H200 (x)", "2026-01-02", "a", head, &json!({}));
            own.unwrap().path()
        };
        // Each is dropped before the next, which would wait for it.
        let (first, second) = (create(), create());
        assert!(first.ends_with("bench/nvidia-h200-x/2026-01-02-a"), "{first:?}");
        assert!(second.ends_with("2026-01-02-a-2"), "{second:?}");
        assert!(second.join("environment.json").is_file());
        assert_eq!(slug("../.."), "device");
    }
}
