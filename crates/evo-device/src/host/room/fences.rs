//! What the fork server and its executors may reach: namespaces of their own, system libraries to read, limits.
//!
//! Every fence stands alone: where the system refuses one, the others hold, and the report says so.

use std::ffi::OsStr;
use std::{fs, io};

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, path_beneath_rules,
};
use rustix::process::{Resource, Rlimit, Signal};
use serde::{Deserialize, Serialize};

use crate::host::calls;

/// Where system libraries lie. The user's own folders of `LD_LIBRARY_PATH` join them.
const LIBRARIES: [&str; 6] =
    ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache"];

/// Threads of all executors of a worker.
const THREADS_MAX: u64 = 4096;

/// Processor seconds of an executor, for each processor.
const SECONDS_MAX: u64 = 3600;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FenceReport {
    pub on: bool,
    pub namespaces: Vec<String>,
    /// Whether files are out of reach but for system libraries, and after loading those too.
    pub landlock: bool,
    pub system_calls: bool,
    pub limits: bool,
}

impl FenceReport {
    pub fn missing(&self) -> Vec<String> {
        let absent = NAMESPACES.iter().filter(|(name, _)| !self.namespaces.iter().any(|held| held == name));
        let namespaces = absent.map(|(name, _)| format!("{name} namespace"));
        let others = self.others().into_iter().filter(|(_, holds)| !holds).map(|(name, _)| name.to_string());
        namespaces.chain(others).collect()
    }

    /// The fences beside namespaces, and whether they hold.
    fn others(&self) -> [(&'static str, bool); 3] {
        [("landlock", self.landlock), ("seccomp", self.system_calls), ("limits", self.limits)]
    }

    /// What a namespace adds is nothing to native code that reaches neither files nor the network.
    pub fn keeps_in(&self) -> bool {
        self.on && self.landlock && self.system_calls
    }
}

impl std::fmt::Display for FenceReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.on {
            return f.write_str("off: host variants run in processes of their own without further fences");
        }
        let mut held = Vec::new();
        if !self.namespaces.is_empty() {
            held.push(format!("namespaces ({})", self.namespaces.join(", ")));
        }
        held.extend(self.others().iter().filter(|(_, holds)| *holds).map(|(name, _)| name.to_string()));
        write!(f, "{}", if held.is_empty() { "none".to_string() } else { held.join(", ") })?;
        let missing = self.missing();
        if missing.is_empty() { Ok(()) } else { write!(f, "; not here: {}", missing.join(", ")) }
    }
}

const NAMESPACES: [(&str, libc::c_int); 4] = [
    ("user", libc::CLONE_NEWUSER),
    ("pid", libc::CLONE_NEWPID),
    ("network", libc::CLONE_NEWNET),
    ("ipc", libc::CLONE_NEWIPC),
];

/// This process has one thread, and no child yet. It may go on as a child of itself. `memory` is this machine's in
/// bytes, `cores` how many executors may use.
pub fn enter(memory: u64, cores: u64) -> io::Result<FenceReport> {
    let mut report = FenceReport { on: true, namespaces: namespaces(), ..FenceReport::default() };
    // Other credentials take the request back.
    die_with_parent(None)?;
    if report.namespaces.iter().any(|name| name == "pid") {
        begin_namespace()?;
    }
    report.landlock = close_files();
    report.limits = limit(memory, cores, report.namespaces.iter().any(|name| name == "user"));
    drop_capabilities();
    die_with_parent(None)?;
    report.system_calls = calls::are_supported();
    Ok(report)
}

fn namespaces() -> Vec<String> {
    // SAFETY: asks for this process's own numbers.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let mut held = Vec::new();
    // The first gives the right to leave the others.
    for (name, flag) in NAMESPACES {
        // SAFETY: this process has one thread; namespaces concern nothing in its memory.
        if unsafe { libc::unshare(flag) } != 0 {
            continue;
        }
        held.push(name.to_string());
        if flag == libc::CLONE_NEWUSER {
            // Nobody in there: what it may do to files is what everybody may.
            let _ = fs::write("/proc/self/setgroups", "deny");
            let _ = fs::write("/proc/self/uid_map", format!("65534 {user} 1"));
            let _ = fs::write("/proc/self/gid_map", format!("65534 {group} 1"));
        }
    }
    held
}

/// Goes on as the first process of the new namespace, whose end is the end of all in it.
fn begin_namespace() -> io::Result<()> {
    // SAFETY: this process has one thread, so its child may go on as if it were alone.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => die_with_parent(None),
        child => {
            // The socket must be the child's alone: the worker's end then tells when the child is gone.
            close_descriptors_from(0);
            let mut status = 0;
            // SAFETY: waits for the child and ends; nothing of this process is of use any more.
            unsafe {
                while libc::waitpid(child, &mut status, 0) < 0
                    && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
                {}
                libc::_exit(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { 1 })
            }
        }
    }
}

/// Asks for SIGKILL at the end of the parent. With `Some` the parent is visible, and may have ended before.
pub fn die_with_parent(visible: Option<()>) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let orphaned = visible.is_some() && rustix::process::getppid().is_none();
    if orphaned { Err(io::Error::from_raw_os_error(libc::ESRCH)) } else { Ok(()) }
}

fn close_files() -> bool {
    let own = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let own: Vec<_> = std::env::split_paths(OsStr::new(&own)).filter(|folder| folder.is_absolute()).collect();
    let libraries = LIBRARIES.iter().map(std::path::PathBuf::from).chain(own);
    let read = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute;
    let restricted = || -> Result<RulesetStatus, landlock::RulesetError> {
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(ABI::V5))?
            .handle_access(AccessNet::from_all(ABI::V4))?
            .scope(Scope::from_all(ABI::V6))?
            .create()?
            .add_rules(path_beneath_rules(libraries, read))?;
        Ok(ruleset.restrict_self()?.ruleset)
    };
    restricted().is_ok_and(|status| status != RulesetStatus::NotEnforced)
}

fn limit(memory: u64, cores: u64, alone: bool) -> bool {
    let exactly = |value: u64| Rlimit { current: Some(value), maximum: Some(value) };
    // Each processor thread reserves stacks, each buffer reserves what lies beside it; nothing of that is memory.
    let reserved = (cores + 16) * (256 << 20) + (64 << 30);
    let mut limits = vec![
        (Resource::Core, 0),
        (Resource::As, memory.saturating_mul(2).saturating_add(reserved)),
        (Resource::Cpu, SECONDS_MAX * cores),
    ];
    if alone {
        // Elsewhere the user's other processes count too.
        limits.push((Resource::Nproc, THREADS_MAX));
    }
    let set: Vec<bool> = limits
        .into_iter()
        .map(|(what, value)| rustix::process::setrlimit(what, exactly(value)).is_ok())
        .collect();
    !set.contains(&false)
}

/// Lets no file grow any more: for an executor whose module is loaded.
pub fn write_no_files() {
    // A write that the limit stops is an error like others, not a signal.
    // SAFETY: ignores a signal that nothing here waits for.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let nothing = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(Resource::Fsize, nothing);
}

fn drop_capabilities() {
    // SAFETY: changes what this process may do, and nothing in its memory.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    let none = rustix::thread::CapabilitySet::empty();
    let sets = rustix::thread::CapabilitySets { effective: none, permitted: none, inheritable: none };
    let _ = rustix::thread::set_capabilities(None, sets);
}

pub fn clear_environment() {
    // Kept until the loader's folders have been read: `close_files` asks for them.
    let kept = std::env::var_os("LD_LIBRARY_PATH");
    // SAFETY: this process has one thread, so nobody reads the environment meanwhile.
    unsafe {
        libc::clearenv();
        if let Some(folders) = kept {
            std::env::set_var("LD_LIBRARY_PATH", folders);
        }
    }
}

/// Makes this process and its children the first to end where memory is used up. Limits on the address space say
/// nothing of that: several executors together may have more than the machine.
pub fn end_first() {
    let _ = fs::write("/proc/self/oom_score_adj", "1000");
}

pub fn close_descriptors_from(first: u32) {
    // SAFETY: closes descriptors by number. Values of this process that own one of them are not used any more.
    unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_system_calls_both_have_to_be_out_of_reach() {
        let report = |on, landlock, system_calls| {
            FenceReport { on, landlock, system_calls, ..FenceReport::default() }.keeps_in()
        };
        assert!(report(true, true, true), "namespaces and limits are not needed for it");
        assert!(!report(true, false, true) && !report(true, true, false) && !report(false, true, true));
    }
}
