//! Compiling in a thread that can open nothing but the include folders.
//!
//! NVRTC compiles in this process, does not say what it opens, and looks for names in quotes in the working folder. So
//! the system decides instead of a reading of the source: Landlock restricts the thread that asks for it and those that
//! it starts, so a thread for each compilation gives up the rest of the file system and the worker keeps it.

use std::path::{Path, PathBuf};
use std::{io, thread};

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    RulesetError, path_beneath_rules,
};

/// What a main thread usually has; front ends of compilers recurse with the source.
const STACK_BYTES: usize = 8 << 20;

/// Runs `work` in a thread that can read these folders and files, and write none. Where the system has no Landlock,
/// `work` runs in such a thread all the same, and reads what it likes: `is_supported` tells.
pub fn run<T: Send>(readable: &[PathBuf], work: impl FnOnce() -> T + Send) -> io::Result<T> {
    // Opened out here, where the folders can still be reached.
    let fence = fence(readable);
    let confined = move || {
        // An error is a system without Landlock; one that has it refuses nothing that `fence` asks for.
        let _ = fence.and_then(RulesetCreated::restrict_self);
        work()
    };
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("compiler".into()).stack_size(STACK_BYTES);
        match thread.spawn_scoped(scope, confined)?.join() {
            Ok(outcome) => Ok(outcome),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

pub fn is_supported() -> bool {
    let restricted = run(&[], || std::fs::File::open("/").is_err());
    restricted.unwrap_or(false)
}

/// The root of the file system as an include folder would allow everything, and is left out.
fn fence(readable: &[PathBuf]) -> Result<RulesetCreated, RulesetError> {
    let folders = readable.iter().filter(|path| !is_root(path));
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(ABI::V5))?
        .create()?
        .add_rules(path_beneath_rules(folders, AccessFs::ReadFile | AccessFs::ReadDir))
}

fn is_root(path: &Path) -> bool {
    path.canonicalize().is_ok_and(|path| path.parent().is_none())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

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
        let readable = [place("inc"), place("one.h"), place("absent"), PathBuf::from("/")];
        let read = |name: &'static str| fs::read_to_string(place(name)).ok();
        let names = ["inc/deep/a.h", "one.h", "secret", "inc/link.h", "inc/../secret"];
        let seen = run(&readable, || names.map(read)).unwrap();
        let own = |name: &str| Some(name.to_string());
        assert_eq!(seen, [own("inc/deep/a.h"), own("one.h"), None, None, None]);
        let written = run(&readable, || fs::write(place("inc/new"), "")).unwrap();
        assert!(written.is_err(), "what is compiled writes no file");
        let grandchild = run(&readable, || thread::spawn(|| fs::read("/etc/passwd").is_ok()).join().unwrap());
        assert!(!grandchild.unwrap(), "threads of the thread are confined too");
        assert_eq!(read("secret"), own("secret"), "the process reads what it did");
    }
}
