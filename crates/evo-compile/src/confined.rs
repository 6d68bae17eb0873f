//! Compiling where only what a compiler needs can be opened.
//!
//! A source has more ways to make a compiler read files than a reading of its text can find: names that macros make, the
//! assembler behind an attribute, lines that claim to be of another file. So the system decides instead: Landlock
//! restricts the thread that asks for it, with the threads and processes that it starts, so a thread for each
//! compilation gives up the rest of the file system and the worker keeps it.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::{io, thread};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, path_beneath_rules,
};

/// What a main thread usually has; front ends of compilers recurse with the source.
const STACK_BYTES: usize = 8 << 20;

/// Folders and files that a compilation may open. What is not there is left out.
#[derive(Clone, Debug, Default)]
pub struct Reach {
    pub readable: Vec<PathBuf>,
    /// Also readable.
    pub executable: Vec<PathBuf>,
    pub writable: Vec<PathBuf>,
}

/// Runs `work` in a thread that opens nothing else, and reaches no network, where something outside could open the
/// files. Where the system has no Landlock, `work` runs in such a thread all the same, and opens what it likes:
/// `is_supported` tells.
pub fn run<T: Send>(reach: &Reach, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    // Opened out here, where the folders can still be reached.
    let fence = fence(reach);
    let confined = move || match fence.and_then(RulesetCreated::restrict_self) {
        // A system without Landlock says no error, or, where something else forbids the call, always one.
        Err(error) if is_supported() => Err(io::Error::other(error)),
        _ => Ok(work()),
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("compiler".into()).stack_size(STACK_BYTES);
        match thread.spawn_scoped(scope, confined)?.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

pub fn is_supported() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    let confined = || fence(&Reach::default()).and_then(RulesetCreated::restrict_self).is_ok();
    let probe = move || confined() && std::fs::File::open("/").is_err();
    *ANSWER.get_or_init(|| thread::spawn(probe).join().unwrap_or(false))
}

fn fence(reach: &Reach) -> Result<RulesetCreated, RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let rights = [
        (&reach.readable, read),
        (&reach.executable, read | AccessFs::Execute),
        (&reach.writable, AccessFs::from_all(ABI::V5)),
    ];
    let mut fence = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))?
        .handle_access(AccessNet::from_all(ABI::V5))?
        .create()?;
    for (paths, rights) in rights {
        // The root of the file system as an include folder would allow everything.
        let is_root = |path: &Path| path.canonicalize().is_ok_and(|path| path.parent().is_none());
        let paths = paths.iter().filter(|path| !is_root(path));
        fence = fence.add_rules(path_beneath_rules(paths, rights))?;
    }
    Ok(fence)
}

/// What the entries of these folders link to, which is out of reach otherwise. A link that leads up would bring the
/// folder's whole surroundings.
pub fn linked(folders: &[PathBuf]) -> Vec<PathBuf> {
    let folders = folders.iter().filter_map(|folder| folder.canonicalize().ok());
    let targets = |folder: PathBuf| {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
        let targets: Vec<PathBuf> = links.filter_map(|link| link.path().canonicalize().ok()).collect();
        targets.into_iter().filter(move |target| !folder.starts_with(target))
    };
    folders.flat_map(targets).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    #[test]
    fn links_are_followed_to_what_is_there() {
        let root = tempfile::tempdir().unwrap();
        let place = |name: &str| root.path().canonicalize().unwrap().join(name);
        fs::create_dir_all(place("store/nv")).unwrap();
        fs::create_dir(place("include")).unwrap();
        for (name, target) in
            [("nv", "store/nv"), ("gone.h", "absent"), ("up", ""), ("cuda_fp16.h", "store/cuda_fp16.h")]
        {
            std::os::unix::fs::symlink(place(target), place("include").join(name)).unwrap();
        }
        for name in ["store/cuda_fp16.h", "include/own.h"] {
            fs::write(place(name), "").unwrap();
        }
        let mut found = linked(&[place("include"), place("absent")]);
        found.sort();
        assert_eq!(found, [place("store/cuda_fp16.h"), place("store/nv")]);
    }

    #[test]
    fn a_confined_thread_reads_its_folders_and_the_process_keeps_everything() {
        if !is_supported() {
            let _ = writeln!(io::stderr(), "skipped: confined compilations: this system has no Landlock");
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let place = |name: &str| root.path().join(name);
        fs::create_dir_all(place("inc/deep")).unwrap();
        for name in ["inc/deep/a.h", "one.h", "secret"] {
            fs::write(place(name), name).unwrap();
        }
        std::os::unix::fs::symlink(place("secret"), place("inc/link.h")).unwrap();
        fs::create_dir(place("out")).unwrap();
        let readable = vec![place("inc"), place("one.h"), place("absent"), PathBuf::from("/")];
        let reach = Reach { readable, writable: vec![place("out")], ..Reach::default() };
        let read = |name: &'static str| fs::read_to_string(place(name)).ok();
        let names = ["inc/deep/a.h", "one.h", "secret", "inc/link.h", "inc/../secret"];
        let seen = run(&reach, || names.map(read)).unwrap();
        assert_eq!(seen, [Some("inc/deep/a.h".into()), Some("one.h".into()), None, None, None]);
        let write = |name: &'static str| fs::write(place(name), "").is_ok();
        assert_eq!(run(&reach, || ["inc/new", "one.h", "out/new"].map(write)).unwrap(), [false, false, true]);
        let grandchild = run(&reach, || thread::spawn(|| fs::read("/etc/passwd").is_ok()).join().unwrap());
        assert!(!grandchild.unwrap(), "threads of the thread are confined too");
        assert!(read("secret").is_some(), "the process reads what it did");
    }
}
