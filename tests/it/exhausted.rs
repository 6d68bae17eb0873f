//! Machines that run out of something while variants are compiled and judged: processes, room on the disk. What fails
//! then is nobody's verdict, and a resume on a machine that has room comes to the verdicts of an undisturbed run.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::skip::skipped;
use crate::support::stage::Ran;
use crate::sweep::{Bench, expected, right_or_wrong};

const SWEEP: &str =
    "sweep scale.toml --device host --study s --strategy exhaustive --finalists 0 --resume=or-begin";

/// The verdicts that a sweep has come to, each that of an undisturbed run.
#[track_caller]
fn right_so_far(bench: &Bench) -> BTreeMap<String, String> {
    if !bench.path().join("evidence/s/journal.jsonl").exists() {
        return BTreeMap::new();
    }
    let (verdicts, expected) = (right_or_wrong(bench.verdicts()), expected());
    for (name, verdict) in &verdicts {
        assert_eq!(Some(verdict), expected.get(name), "{name}");
    }
    verdicts
}

/// evo where there may be so many processes and threads: as a user of its own, or, without root, in a user namespace of
/// its own, in which this user's other processes do not count (Linux 5.14).
fn evo_of_few(bench: &Bench, user: u32, most: Option<u32>) -> Command {
    let mut command = Command::new("timeout");
    // With evo's own exit code where it ends in order: `c++` waits for minutes for a process that it may not start.
    command.args(["--preserve-status", "-k", "5", "60"]);
    if rustix::process::geteuid().is_root() {
        let user = user.to_string();
        command.args(["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"]);
    } else {
        command.args(["unshare", "--user", "--map-current-user"]);
    }
    if let Some(most) = most {
        command.args(["prlimit", &format!("--nproc={most}:{most}")]);
    }
    let (cache, folder) = (bench.path().join("cache"), bench.path());
    command.arg(env!("CARGO_BIN_EXE_evo")).env("EVO_CACHE_DIR", cache).env("HOME", folder);
    command.current_dir(folder).stdin(Stdio::null());
    command
}

#[test]
fn a_user_who_may_start_no_more_processes_gets_no_wrong_verdict() {
    let bench = Bench::new();
    std::fs::set_permissions(bench.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    // Nobody's number, so that no other process counts.
    let user = 61_000 + std::process::id() % 4_000;
    let tried = evo_of_few(&bench, user, Some(1000)).arg("--version").output();
    if !tried.is_ok_and(|output| output.status.success()) {
        return skipped("it takes `prlimit`, and root with `setpriv`, or user namespaces with `unshare`");
    }
    let run = |most: Option<u32>| {
        Ran::of(SWEEP, &evo_of_few(&bench, user, most).args(SWEEP.split(' ')).output().unwrap())
    };
    for most in [1, 3, 6, 10, 13, 26, 28] {
        let ran = run(Some(most));
        assert!(!ran.err.contains("panicked"), "with {most}: {ran}");
        // 5: it was ended in order, because compilers that cannot start others wait for long. 1: only variants that are
        // wrong got their verdicts.
        assert!(matches!(ran.code, Some(0 | 1 | 2 | 4 | 5)), "with {most}: {ran}");
        if most == 1 {
            ran.ends(4).says(&["Resource temporarily unavailable", "ulimit -u"]);
        }
        right_so_far(&bench);
    }
    run(None).ends(0);
    assert_eq!(right_so_far(&bench), expected());
}

/// A script that runs in `root` with a disk of so many bytes that is mounted for it alone, in `disk`; evo is `$0`.
/// `None`, said aloud, where mounting is not allowed.
pub fn on_small_disk(root: &Path, bytes: u32, script: &str) -> Option<Command> {
    let mount = format!("mount -t tmpfs -o size={bytes} tmpfs disk");
    std::fs::create_dir_all(root.join("disk")).unwrap();
    let in_namespace = |script: &str| {
        let mut command = Command::new("unshare");
        command.current_dir(root).stdin(Stdio::null()).args(["--user", "--map-root-user", "--mount"]);
        command.args(["sh", "-c", script, env!("CARGO_BIN_EXE_evo")]);
        command
    };
    if in_namespace(&mount).output().is_ok_and(|output| output.status.success()) {
        return Some(in_namespace(&format!("{mount} && {script}")));
    }
    skipped("it may not mount a small disk");
    None
}

#[test]
fn a_disk_that_fills_while_variants_are_compiled_is_nobodys_verdict() {
    let bench = Bench::new();
    // Everything that evo makes once is there; then so little is left that a few variants fill it.
    let script = format!(
        "export EVO_CACHE_DIR=$PWD/disk/cache TMPDIR=$PWD/disk/tmp && mkdir -m 700 disk/cache disk/tmp && \
         \"$0\" test-one scale.toml BLOCK=32 VEC=1 FACTOR=2 --device host > said-1 2>&1 && \
         head -c $((($(df -k --output=avail disk | tail -n 1) - 150) * 1024)) /dev/zero > disk/filler; \
         \"$0\" {SWEEP} > said-2 2>&1; echo $? > code-2; cp -r evidence first; rm disk/filler; \
         \"$0\" {SWEEP} > said-3 2>&1; echo $? > code-3"
    );
    let Some(mut command) = on_small_disk(bench.path(), 256 << 20, &script) else { return };
    assert!(command.status().unwrap().success());
    let said = bench.read("said-2");
    assert_eq!(bench.read("code-2").trim(), "4", "{said}");
    assert!(said.contains("the disk of the compile cache") && said.contains("is full"), "{said}");
    assert!(said.contains("hint: make room"), "{said}");
    assert!(
        bench.read("first/s/journal.jsonl").matches("\"kind\":\"evaluation\"").count() < expected().len()
    );
    assert_eq!(bench.read("code-3").trim(), "0", "{}", bench.read("said-3"));
    assert_eq!(right_so_far(&bench), expected());
}
