//! What a device is, what it allows and what it says about trouble.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::verdict::{Verdict, VerdictKind};
use crate::words::words;

words! {
    #[derive(Default, Hash, JsonSchema)]
    DeviceKind {
        #[default]
        Host = "host",
        Cuda = "cuda",
        /// A recording that answers in a device's place; nothing is compiled, run or measured.
        Replay = "replay",
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceInfo {
    pub kind: DeviceKind,
    /// `NVIDIA H200`, or the processor's model.
    pub name: String,
    /// Compilation target: `sm_90a`, or `host`.
    pub arch: String,
    /// GPU UUID, or a name of the host's own.
    pub uuid: String,
    /// Driver version, or the C++ compiler's for the host.
    pub driver: String,
    /// Multiprocessors, or cores.
    pub multiprocessors: u32,
    pub limits: DeviceLimits,
    /// Bytes of L2 (host: last-level) cache.
    pub l2_bytes: u64,
    pub memory_bytes: u64,
    /// Peak device memory bandwidth in bytes per second, if known.
    pub bandwidth: Option<f64>,
    /// Peak fp32 operations per second outside matrix units, if known.
    pub flops_f32: Option<f64>,
    /// Peak dense fp16 operations per second in matrix units, if known.
    pub flops_f16: Option<f64>,
}

/// The number of a target: 90 of `sm_90a`; none of the host's.
pub fn capability(arch: &str) -> Option<u32> {
    arch.strip_prefix("sm_")?.trim_end_matches(['a', 'f']).parse().ok()
}

/// Launch limits, checked before compiling and again at launch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceLimits {
    pub threads_per_block: u32,
    /// Most threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Most blocks of a grid in x, y, z.
    pub grid: [u32; 3],
    pub shared_static_bytes: u64,
    /// Shared memory per block after opting in, bytes.
    pub shared_optin_bytes: u64,
    /// 32-bit registers that a block may use.
    pub registers_per_block: u32,
    /// Largest cluster in blocks; 1 where clusters do not exist.
    pub cluster: u32,
    /// Whether all blocks of a grid may wait for each other.
    pub cooperative: bool,
}

impl DeviceLimits {
    /// Limits of a compute capability, for work without the device: `sm_89`, `sm_90a`, … as the
    /// CUDA programming guide's table of technical specifications gives them.
    pub fn of_arch(arch: &str) -> Option<DeviceLimits> {
        // `a` and `f` name instruction sets of the same hardware, whose limits are the same.
        let digits = capability(arch)?;
        let optin_kib = match digits {
            75 => 64,
            80 | 87 => 163,
            86 | 89 | 120 | 121 => 99,
            90 | 100 | 103 | 110 => 227,
            _ => return None,
        };
        Some(DeviceLimits {
            threads_per_block: 1024,
            block: [1024, 1024, 64],
            grid: [i32::MAX as u32, 65_535, 65_535],
            shared_static_bytes: static_limit(arch.ends_with(['a', 'f']), optin_kib * 1024),
            shared_optin_bytes: optin_kib * 1024,
            registers_per_block: 65_536,
            cluster: if digits >= 90 { 8 } else { 1 },
            cooperative: true,
        })
    }
}

/// Static shared memory that a block may declare, bytes. The assembler refuses more than 48 KiB for a portable
/// target (`sm_80`, `sm_90`). For one with architecture-specific features (`sm_90a`) it accepts, and the device
/// launches, as much as dynamic memory may have (seen on an H100 with 48 to 227 KiB, CUDA 13.0).
pub fn static_limit(specific_target: bool, optin_bytes: u64) -> u64 {
    if specific_target { optin_bytes } else { 48 * 1024 }
}

/// What one entry point needs, read back from the loaded module.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EntryAttributes {
    /// Registers per thread; null where the device has none to count, as the host has.
    pub registers: Option<u32>,
    pub shared_static_bytes: u64,
    /// Local memory per thread: stack and spills, bytes; null where that is not known.
    pub local_bytes: Option<u64>,
    /// Most threads per block that this entry point can be launched with.
    pub threads_max: u32,
    /// Resident blocks per multiprocessor at the launch's block size and shared memory, if known.
    pub blocks_per_multiprocessor: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Telemetry {
    /// Clock of the multiprocessors, MHz.
    pub clock_sm_mhz: Option<u32>,
    pub clock_memory_mhz: Option<u32>,
    pub temperature_c: Option<u32>,
    /// Power drawn by the board, watts.
    pub power_w: Option<f64>,
    /// NVML clock-event reasons, by name.
    #[serde(default)]
    pub throttle_reasons: Vec<String>,
}

/// What a device has to say about trouble.
#[derive(Clone, Debug, Default, Error, PartialEq, Serialize, Deserialize, JsonSchema)]
#[error("{kind}: {message}")]
pub struct DeviceError {
    /// The verdict that this error means for the variant at work.
    pub kind: VerdictKind,
    /// A closed word such as `smem`.
    pub cause: Option<String>,
    pub message: String,
    /// The driver's error code, if there was one.
    pub code: Option<i32>,
    /// Whether the process must end before anything can be measured again.
    pub sticky: bool,
    #[serde(default)]
    pub evidence: serde_json::Map<String, serde_json::Value>,
}

impl DeviceError {
    pub fn plain(kind: VerdictKind, message: impl Into<String>) -> DeviceError {
        DeviceError { kind, message: message.into(), ..DeviceError::default() }
    }

    pub fn with_cause(mut self, cause: &str) -> DeviceError {
        self.cause = Some(cause.to_string());
        self
    }

    /// With a further piece of evidence.
    pub fn with(mut self, name: &str, value: impl Into<serde_json::Value>) -> DeviceError {
        self.evidence.insert(name.to_string(), value.into());
        self
    }

    pub fn sticky(mut self) -> DeviceError {
        self.sticky = true;
        self
    }

    pub fn verdict(&self) -> Verdict {
        let mut verdict = Verdict::new(self.kind, self.message.clone());
        verdict.cause.clone_from(&self.cause);
        if let Some(code) = self.code {
            verdict.evidence.insert("code", code);
        }
        for (name, value) in &self.evidence {
            verdict.evidence.insert(name, value.clone());
        }
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_specific_targets_take_more_than_48_kib_of_static_shared_memory() {
        let limit = |arch: &str| DeviceLimits::of_arch(arch).map(|limits| limits.shared_static_bytes);
        assert_eq!(limit("sm_80"), Some(49_152));
        assert_eq!(limit("sm_90"), Some(49_152));
        assert_eq!(limit("sm_90a"), Some(232_448));
    }
}
