//! Chooses a device without opening it: the parent process holds no CUDA context and loads no
//! libcuda, so it asks NVML.

use evo_protocol::device::DeviceKind;
use thiserror::Error;

use super::telemetry::{self, ListedGpu};

#[derive(Clone, Debug, PartialEq)]
pub struct DeviceChoice {
    pub kind: DeviceKind,
    /// What a worker's `Hello` carries: `host`, `cuda:0`.
    pub spec: String,
    /// Compilation target: `host`, `sm_90a`.
    pub arch: String,
    pub name: Option<String>,
}

#[derive(Clone, Debug, Error, PartialEq)]
#[error("{message}")]
pub struct ProbeError {
    pub message: String,
    pub hint: String,
    /// The specification itself is wrong, whatever this machine has.
    pub is_misnamed: bool,
}

/// `auto`, `host`, `cuda` or `cuda:INDEX`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DeviceSpec {
    Auto,
    Host,
    Cuda(u32),
}

impl DeviceSpec {
    pub(crate) fn parse(spec: &str) -> Option<DeviceSpec> {
        Some(match spec {
            "auto" => DeviceSpec::Auto,
            "host" => DeviceSpec::Host,
            "cuda" => DeviceSpec::Cuda(0),
            _ => DeviceSpec::Cuda(spec.strip_prefix("cuda:")?.parse().ok()?),
        })
    }
}

/// The `a` form where it exists, since cubins are made for exactly one device.
pub fn cuda_arch(major: u32, minor: u32) -> String {
    let suffix = if major >= 9 { "a" } else { "" };
    format!("sm_{major}{minor}{suffix}")
}

pub fn choose(spec: &str) -> Result<DeviceChoice, ProbeError> {
    choose_among(spec, &telemetry::list())
}

fn choose_among(spec: &str, gpus: &[ListedGpu]) -> Result<DeviceChoice, ProbeError> {
    match DeviceSpec::parse(spec) {
        Some(DeviceSpec::Host) => Ok(host()),
        Some(DeviceSpec::Auto) => Ok(gpus.first().map_or_else(host, gpu)),
        Some(DeviceSpec::Cuda(index)) => {
            gpus.iter().find(|listed| listed.index == index).map(gpu).ok_or_else(|| ProbeError {
                message: match gpus.len() {
                    0 => "no NVIDIA GPU is visible through NVML on this machine".into(),
                    count => format!("GPU {index} does not exist; NVML lists {count}"),
                },
                hint: "`--device host` needs no GPU; `evo preflight` shows what is missing".into(),
                is_misnamed: false,
            })
        }
        None => Err(ProbeError {
            message: format!("`{spec}` is not a device"),
            hint: "use `auto`, `host`, `cuda` or `cuda:INDEX`".into(),
            is_misnamed: true,
        }),
    }
}

fn host() -> DeviceChoice {
    DeviceChoice { kind: DeviceKind::Host, spec: "host".into(), arch: "host".into(), name: None }
}

fn gpu(listed: &ListedGpu) -> DeviceChoice {
    DeviceChoice {
        kind: DeviceKind::Cuda,
        spec: format!("cuda:{}", listed.index),
        arch: cuda_arch(listed.capability.0, listed.capability.1),
        name: Some(listed.name.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_prefers_a_gpu_and_what_is_missing_is_named() {
        let gpu = ListedGpu { index: 0, name: "GPU".into(), uuid: "GPU-0".into(), capability: (9, 0) };
        let rows: &[(&str, &[ListedGpu], &str)] = &[
            ("auto", &[], "host for host"),
            ("auto", std::slice::from_ref(&gpu), "cuda:0 for sm_90a"),
            ("host", std::slice::from_ref(&gpu), "host for host"),
            ("cuda", &[], "no NVIDIA GPU is visible through NVML on this machine"),
            ("cuda:3", std::slice::from_ref(&gpu), "GPU 3 does not exist; NVML lists 1"),
            ("cuda:x", std::slice::from_ref(&gpu), "`cuda:x` is not a device"),
            ("opencl", &[], "`opencl` is not a device"),
        ];
        for (spec, gpus, expected) in rows {
            let found = choose_among(spec, gpus).map(|choice| format!("{} for {}", choice.spec, choice.arch));
            assert_eq!(found.unwrap_or_else(|error| error.message), *expected);
        }
        assert_eq!([cuda_arch(8, 9), cuda_arch(12, 0)], ["sm_89", "sm_120a"]);
    }
}
