//! What this machine is: processor, caches and memory, as the operating system's files tell.

use std::fs;

use evo_protocol::device::{DeviceInfo, DeviceKind, DeviceLimits, Telemetry};
use evo_space::genome::ContentHash;

use super::runner::THREADS_MAX;

pub fn processor_key() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap_or("").to_string();
    // Linux lists the instruction set as `flags` on x86 and as `Features` on ARM.
    let parts = [std::env::consts::ARCH.to_string(), field("model name"), field("flags"), field("Features")];
    ContentHash::of_parts(parts.iter().map(|part| part.as_bytes())).to_string().chars().take(16).collect()
}

/// Bandwidth and peak rates are unknown: nobody has measured them.
pub fn describe() -> DeviceInfo {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = cpuinfo_field(&cpuinfo, "model name").unwrap_or(std::env::consts::ARCH).to_string();
    let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
    let identity = ContentHash::of_parts([machine.trim().as_bytes(), name.as_bytes()]);
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    DeviceInfo {
        kind: DeviceKind::Host,
        name,
        arch: "host".to_string(),
        uuid: format!("host-{}", identity.short()),
        driver: format!("linux {}", release.trim()),
        multiprocessors: cores() as u32,
        limits: limits(),
        l2_bytes: last_level_cache(),
        memory_bytes: meminfo_bytes(&meminfo, "MemTotal").unwrap_or(0),
        bandwidth: None,
        flops_f32: None,
        flops_f16: None,
    }
}

/// Those of an sm_90 GPU, so that what is refused there is refused here.
pub fn limits() -> DeviceLimits {
    DeviceLimits::of_arch("sm_90").expect("a known architecture")
}

pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub fn telemetry() -> Telemetry {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let clock = cpuinfo_field(&cpuinfo, "cpu MHz").and_then(|text| text.parse::<f64>().ok());
    Telemetry { clock_sm_mhz: clock.map(|mhz| mhz.round() as u32), ..Telemetry::default() }
}

/// How many mappings this process may have; each fiber's stack takes two.
pub fn mappings_max() -> usize {
    let text = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
    // The kernel's default.
    text.trim().parse().unwrap_or(65_530)
}

/// How many blocks may run at once: a full block's fibers take two mappings each, and the kernel limits mappings.
pub fn blocks_max() -> usize {
    (mappings_max() * 3 / 4 / (2 * THREADS_MAX)).max(1)
}

fn last_level_cache() -> u64 {
    let folder = "/sys/devices/system/cpu/cpu0/cache";
    let size = |index: u32| parse_size(&fs::read_to_string(format!("{folder}/index{index}/size")).ok()?);
    (0..8).filter_map(size).max().unwrap_or(0)
}

fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (number, unit) = match text.strip_suffix('K') {
        Some(number) => (number, 1024),
        None => text.strip_suffix('M').map_or((text, 1), |number| (number, 1 << 20)),
    };
    Some(number.parse::<u64>().ok()? * unit)
}

fn cpuinfo_field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

fn meminfo_bytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_kernel_are_read() {
        assert_eq!(parse_size("2048K\n"), Some(2 << 20));
        assert_eq!(parse_size("32M"), Some(32 << 20));
        assert_eq!(cpuinfo_field("model name\t: A B\ncpu MHz\t\t: 2.5\n", "cpu MHz"), Some("2.5"));
        assert_eq!(meminfo_bytes("MemTotal:       16 kB\n", "MemTotal"), Some(16_384));
    }

    #[test]
    fn the_machine_describes_itself() {
        let info = describe();
        assert!(!info.name.is_empty() && info.multiprocessors >= 1);
        assert_eq!(processor_key().len(), 16);
    }
}
