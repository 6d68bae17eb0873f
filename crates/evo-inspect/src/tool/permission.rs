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

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProfilingPermission {
    Permitted { because: String },
    Refused { because: String },
    Unknown { because: String },
}

/// The driver has the last word when a profiler runs.
pub fn profiling_permission(driver: Option<&str>) -> ProfilingPermission {
    let capabilities = fs::read_to_string("/proc/self/status").ok().and_then(|text| effective(&text));
    judged(fs::read_to_string(PARAMETERS).ok().as_deref(), capabilities, driver)
}

fn judged(parameters: Option<&str>, capabilities: Option<u64>, driver: Option<&str>) -> ProfilingPermission {
    use ProfilingPermission::{Permitted, Refused, Unknown};
    let Some(parameters) = parameters else {
        return Unknown { because: format!("there is no `{PARAMETERS}`") };
    };
    let has = |number: u32| capabilities.is_some_and(|set| set >> number & 1 == 1);
    let driver = driver.and_then(ToolVersion::first_in);
    let perfmon = has(CAP_PERFMON) && driver.is_some_and(|version| version >= ToolVersion::of(&[565]));
    let value = parameters.lines().find_map(|line| line.strip_prefix("RmProfilingAdminOnly:"));
    match value.map(str::trim) {
        Some("0") => Permitted { because: "the driver lets everybody profile".into() },
        Some("1") if has(CAP_SYS_ADMIN) || perfmon => {
            Permitted { because: "this process has the right of an administrator".into() }
        }
        Some("1") => Refused { because: "the driver lets only administrators profile".into() },
        _ => Unknown { because: "the driver does not say who may profile".into() },
    }
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
        let word = |parameters: Option<&str>, capabilities: u64, driver: &str| match judged(
            parameters,
            Some(capabilities),
            Some(driver),
        ) {
            ProfilingPermission::Permitted { .. } => "permitted",
            ProfilingPermission::Refused { .. } => "refused",
            ProfilingPermission::Unknown { .. } => "unknown",
        };
        let (open, closed) = ("A: 1\nRmProfilingAdminOnly: 0\n", "RmProfilingAdminOnly: 1\n");
        assert_eq!(word(None, u64::MAX, "580.1"), "unknown");
        assert_eq!(word(Some("A: 1\n"), 0, "580.1"), "unknown");
        assert_eq!(word(Some(open), 0, "535.1"), "permitted");
        assert_eq!(word(Some(closed), 0, "580.1"), "refused");
        assert_eq!(word(Some(closed), 1 << CAP_SYS_ADMIN, "535.1"), "permitted");
        assert_eq!(word(Some(closed), 1 << CAP_PERFMON, "580.126.09"), "permitted");
        assert_eq!(word(Some(closed), 1 << CAP_PERFMON, "550.54.15"), "refused");
        assert_eq!(effective("Name:\tevo\nCapEff:\t000001ffffffffff\n"), Some(0x1ff_ffff_ffff));
    }
}
