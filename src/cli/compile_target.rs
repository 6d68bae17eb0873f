//! What variants are compiled for: an architecture by name, or the device of this machine.

use evo_device::host;
use evo_protocol::device::{DeviceKind, DeviceLimits};

use super::error::CliError;

/// The architecture that is compiled for.
pub struct CompileTarget {
    pub kind: DeviceKind,
    pub arch: String,
    pub limits: DeviceLimits,
}

impl CompileTarget {
    /// The target of a name such as `sm_90a` or `host`.
    pub fn parse(arch: &str) -> Result<CompileTarget, CliError> {
        if arch == DeviceKind::Host.as_str() {
            return Ok(CompileTarget {
                kind: DeviceKind::Host,
                arch: arch.to_string(),
                limits: host::limits(),
            });
        }
        let limits = DeviceLimits::of_arch(arch).ok_or_else(|| {
            CliError::usage(format!("unknown target `{arch}`"))
                .with_hint("sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_120, … or host")
        })?;
        Ok(CompileTarget { kind: DeviceKind::Cuda, arch: arch.to_string(), limits })
    }
}
