//! A candidate's profile in the folder of a study: `profile-HASH-PROBLEM.json`, and the profiler's own report beside it.
//!
//! A file of that name that evo did not write stays, and so does a profile with counters where the new one has none.

use std::io;
use std::path::PathBuf;

use serde_json::Value;
use thiserror::Error;

use evo_journal::own_folder::OwnFolder;

/// The schema of what is written, by which evo knows its own files again.
const SCHEMA: &str = "evo.profile";
/// How reports of Nsight Compute begin (its manual, "Report File Format").
const MAGIC: &[u8] = b"NVR";
/// No profile is larger.
const BYTES_MAX: u64 = 16 << 20;
/// Digits of a hash in a name.
const DIGITS: usize = 16;

#[derive(Debug)]
pub struct ProfileFile<'a> {
    /// Of the candidate: its source's hash where it is a source of its own, its configuration's otherwise.
    pub hash: &'a str,
    pub problem: &'a str,
    /// With the field `schema`.
    pub object: &'a Value,
    pub report: Option<&'a [u8]>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum KeptProfile {
    Written {
        profile: PathBuf,
        report: Option<PathBuf>,
    },
    /// Nothing, because this file has counters.
    Earlier {
        profile: PathBuf,
    },
}

#[derive(Debug, Error)]
pub enum ProfileFileError {
    #[error("cannot write `{}`", path.display())]
    Unwritable { path: PathBuf, source: io::Error },
    #[error("`{}` is there already, and evo did not write it", path.display())]
    Foreign { path: PathBuf },
}

/// Writes a profile, all or nothing.
pub fn keep(folder: &OwnFolder, file: &ProfileFile<'_>) -> Result<KeptProfile, ProfileFileError> {
    // Problems may be called anything; a file may not.
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '_' };
    let problem: String = file.problem.chars().map(plain).take(100).collect();
    let hash: String = file.hash.chars().take(DIGITS).collect();
    let (name, report) =
        (format!("profile-{hash}-{problem}.json"), format!("profile-{hash}-{problem}.ncu-rep"));
    let foreign = |name: &str| ProfileFileError::Foreign { path: folder.place(name) };
    let unwritable = |name: &str, source| ProfileFileError::Unwritable { path: folder.place(name), source };
    if folder.exists(&name) {
        let earlier = read_own(folder, &name).ok_or_else(|| foreign(&name))?;
        if has_counters(&earlier) && !has_counters(file.object) {
            return Ok(KeptProfile::Earlier { profile: folder.place(&name) });
        }
    }
    // Before anything is written, so that it is both or none.
    let is_report =
        |name: &str| folder.read_start(name, MAGIC.len() as u64).is_ok_and(|start| start == MAGIC);
    if file.report.is_some() && folder.exists(&report) && !is_report(&report) {
        return Err(foreign(&report));
    }
    if let Some(bytes) = file.report {
        folder.replace(&report, bytes, true).map_err(|error| unwritable(&report, error))?;
    }
    let text = format!("{:#}\n", file.object);
    folder.replace(&name, text.as_bytes(), true).map_err(|error| unwritable(&name, error))?;
    let report = file.report.map(|_| folder.place(&report));
    Ok(KeptProfile::Written { profile: folder.place(&name), report })
}

/// A profile that evo wrote; none where something else has the name.
fn read_own(folder: &OwnFolder, name: &str) -> Option<Value> {
    let bytes = folder.read_at_most(name, BYTES_MAX).ok()??;
    let object: Value = serde_json::from_slice(&bytes).ok()?;
    (object["schema"] == SCHEMA).then_some(object)
}

/// The profile that was written last to a folder, if it has counters.
pub fn newest(folder: &OwnFolder) -> Option<Value> {
    let names = folder.names().ok()?;
    let own = names.into_iter().filter(|name| name.starts_with("profile-") && name.ends_with(".json"));
    let newest = own.filter_map(|name| Some((folder.age(&name).ok()?.0, name))).max()?.1;
    read_own(folder, &newest).filter(has_counters)
}

fn has_counters(object: &Value) -> bool {
    object["result"]["tool"]["state"] == "ok"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(state: &str) -> Value {
        json!({ "schema": SCHEMA, "result": { "tool": { "state": state } } })
    }

    type Kept = Result<KeptProfile, ProfileFileError>;

    fn keep_one(folder: &OwnFolder, state: &str, report: Option<&[u8]>) -> Kept {
        let (hash, problem) = ("0123456789abcdef0123456789abcdef", "a/b c");
        let object = object(state);
        keep(folder, &ProfileFile { hash, problem, object: &object, report })
    }

    #[test]
    fn counters_are_not_replaced_by_none() {
        let root = tempfile::tempdir().unwrap();
        let folder = OwnFolder::open(root.path()).unwrap();
        let profile = folder.place("profile-0123456789abcdef-a_b_c.json");
        let written = |report| KeptProfile::Written { profile: profile.clone(), report };
        assert_eq!(keep_one(&folder, "refused", None).unwrap(), written(None));
        let report = folder.place("profile-0123456789abcdef-a_b_c.ncu-rep");
        assert_eq!(keep_one(&folder, "ok", Some(b"NVR\0")).unwrap(), written(Some(report.clone())));
        let earlier = KeptProfile::Earlier { profile: profile.clone() };
        assert_eq!(keep_one(&folder, "busy", None).unwrap(), earlier);
        let kept: Value = serde_json::from_slice(&std::fs::read(&profile).unwrap()).unwrap();
        assert_eq!((kept, std::fs::read(&report).unwrap()), (object("ok"), b"NVR\0".to_vec()));
        assert_eq!(keep_one(&folder, "ok", Some(b"NVR\x01")).unwrap(), written(Some(report)));
    }

    #[test]
    fn files_of_somebody_else_stay() {
        let root = tempfile::tempdir().unwrap();
        let folder = OwnFolder::open(root.path()).unwrap();
        let check = |name: &str, text: &str, report: Option<&[u8]>| {
            let path = folder.place(name);
            std::fs::write(&path, text).unwrap();
            let error = keep_one(&folder, "ok", report).unwrap_err();
            assert!(matches!(&error, ProfileFileError::Foreign { path: own } if *own == path), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
            std::fs::remove_file(&path).unwrap();
        };
        check("profile-0123456789abcdef-a_b_c.json", "my notes", None);
        check("profile-0123456789abcdef-a_b_c.json", "{\"schema\":\"other\"}", None);
        check("profile-0123456789abcdef-a_b_c.ncu-rep", "my notes", Some(b"NVR\0"));
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
        let outside = tempfile::tempdir().unwrap();
        let secret = outside.path().join("secret");
        std::fs::write(&secret, object("ok").to_string()).unwrap();
        std::os::unix::fs::symlink(&secret, folder.place("profile-0123456789abcdef-a_b_c.json")).unwrap();
        assert!(keep_one(&folder, "ok", None).is_err(), "a link is not followed");
    }
}
