//! How to compile, with defaults from this machine's size.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use evo_protocol::check::CheckSet;
use evo_protocol::device::DeviceKind;

use super::cache;
use super::toolbox::Toolbox;

#[derive(Clone, Debug)]
pub struct FarmOptions {
    pub jobs: usize,
    pub kind: DeviceKind,
    pub arch: String,
    pub deadline: Duration,
    /// Address-space limit of each worker and of each process it starts, bytes; 0 for none.
    pub memory_bytes: u64,
    pub cache: PathBuf,
    /// Which checks judge a source: all, except in the self-test of the gates.
    pub checks: CheckSet,
    pub toolbox: Toolbox,
}

impl FarmOptions {
    /// The defaults: a job per core, 120 s, the machine's memory divided by the jobs (2 to 8 GiB each). NVRTC
    /// compiles a small kernel in 40–70 ms (13.0, sm_90a, 2026), so a variant that needs 120 s would hold up a whole sweep.
    pub fn new(kind: DeviceKind, arch: &str) -> FarmOptions {
        let jobs = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let share = memory_total().unwrap_or(8 << 30) / jobs as u64;
        FarmOptions {
            jobs,
            kind,
            arch: arch.to_string(),
            deadline: Duration::from_secs(120),
            memory_bytes: share.clamp(2 << 30, 8 << 30),
            cache: cache::default_dir(),
            checks: CheckSet::default(),
            toolbox: Toolbox::from_env(),
        }
    }
}

fn memory_total() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    // What the kernel calls `kB` are KiB.
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
