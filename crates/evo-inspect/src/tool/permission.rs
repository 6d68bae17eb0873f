//! Whether this user may read a GPU's performance counters.
//!
//! The driver lets everybody read them, or administrators only (`RmProfilingAdminOnly`). In the latter case it wants
//! `CAP_SYS_ADMIN`, and `CAP_PERFMON` is enough from driver 565 on. Source: NVIDIA, "Permission issue with performance
//! counters" (ERR_NVGPUCTRPERM).

use std::fs;

use super::kind::ToolVersion;

const PARAMETERS: &str = "/proc/driver/nvidia/params";

/// Numbers of capabilities (capabilities(7), linux/capability.h).
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;

pub const PERMISSION_HINT: &str = "an administrator can set the driver's option NVreg_RestrictProfilingToAdminUsers=0; \
otherwise run as root or with CAP_SYS_ADMIN (`--cap-add=SYS_ADMIN` in a container), from driver 565 on with CAP_PERFMON; \
many rented machines allow neither";

/// Whether it may, where that is known, and why. The driver has the last word when a profiler runs.
pub fn profiling_permission(driver: Option<&str>) -> (Option<bool>, String) {
    let capabilities = fs::read_to_string("/proc/self/status").ok().and_then(|text| effective(&text));
    judged(fs::read_to_string(PARAMETERS).ok().as_deref(), capabilities, driver)
}

fn judged(
    parameters: Option<&str>,
    capabilities: Option<u64>,
    driver: Option<&str>,
) -> (Option<bool>, String) {
    let Some(parameters) = parameters else { return (None, format!("there is no `{PARAMETERS}`")) };
    let has = |number: u32| capabilities.is_some_and(|set| set >> number & 1 == 1);
    let driver = driver.and_then(ToolVersion::first_in);
    let perfmon = has(CAP_PERFMON) && driver.is_some_and(|version| version >= ToolVersion::of(&[565]));
    let value = parameters.lines().find_map(|line| line.strip_prefix("RmProfilingAdminOnly:"));
    let (permitted, because) = match value.map(str::trim) {
        Some("0") => (Some(true), "the driver lets everybody profile"),
        Some("1") if has(CAP_SYS_ADMIN) || perfmon => {
            (Some(true), "this process has the right of an administrator")
        }
        Some("1") => (Some(false), "the driver lets only administrators profile"),
        _ => (None, "the driver does not say who may profile"),
    };
    (permitted, because.to_string())
}

fn effective(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_driver_and_the_rights_of_the_process_decide() {
        let (open, closed) = ("A: 1\nRmProfilingAdminOnly: 0\n", "RmProfilingAdminOnly: 1\n");
        let told = [
            (None, u64::MAX, "580.1"),
            (Some("A: 1\n"), 0, "580.1"),
            (Some(open), 0, "535.1"),
            (Some(closed), 0, "580.1"),
            (Some(closed), 1 << CAP_SYS_ADMIN, "535.1"),
            (Some(closed), 1 << CAP_PERFMON, "580.126.09"),
            (Some(closed), 1 << CAP_PERFMON, "550.54.15"),
        ]
        .map(|(parameters, rights, driver)| {
            format!(
                "{parameters:?} {rights:#x} {driver}: {:?}",
                judged(parameters, Some(rights), Some(driver))
            )
        });
        insta::assert_snapshot!(told.join("\n"));
        assert_eq!(effective("Name:\tevo\nCapEff:\t000001ffffffffff\n"), Some(0x1ff_ffff_ffff));
    }
}
