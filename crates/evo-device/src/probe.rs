//! Chooses a device without opening it: the parent process holds no CUDA context and loads no
//! libcuda, so it asks NVML.

use evo_protocol::device::DeviceKind;
use thiserror::Error;

use super::cuda_arch;
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

/// `spec` is `auto`, `host`, `cuda` or `cuda:INDEX`.
pub fn choose(spec: &str) -> Result<DeviceChoice, ProbeError> {
    choose_among(spec, &telemetry::list())
}

fn choose_among(spec: &str, gpus: &[ListedGpu]) -> Result<DeviceChoice, ProbeError> {
    match spec {
        "host" => Ok(host()),
        "auto" => Ok(gpus.first().map_or_else(host, gpu)),
        "cuda" => find(gpus, 0),
        _ => match spec.strip_prefix("cuda:").map(str::parse) {
            Some(Ok(index)) => find(gpus, index),
            _ => Err(ProbeError {
                message: format!("`{spec}` is not a device"),
                hint: "use `auto`, `host`, `cuda` or `cuda:INDEX`".into(),
                is_misnamed: true,
            }),
        },
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

fn find(gpus: &[ListedGpu], index: u32) -> Result<DeviceChoice, ProbeError> {
    gpus.iter().find(|listed| listed.index == index).map(gpu).ok_or_else(|| ProbeError {
        message: match gpus.len() {
            0 => "no NVIDIA GPU is visible through NVML on this machine".into(),
            count => format!("GPU {index} does not exist; NVML lists {count}"),
        },
        hint: "`--device host` needs no GPU; `evo preflight` shows what is missing".into(),
        is_misnamed: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(index: u32) -> ListedGpu {
        ListedGpu { index, name: "GPU".into(), uuid: format!("GPU-{index}"), capability: (9, 0) }
    }

    fn check(spec: &str, gpus: &[ListedGpu], expected: Result<&str, &str>) {
        let answer = choose_among(spec, gpus);
        match expected {
            Ok(spec) => assert_eq!(answer.unwrap().spec, spec),
            Err(part) => assert!(answer.unwrap_err().message.contains(part)),
        }
    }

    #[test]
    fn auto_prefers_a_gpu_and_falls_back_to_the_host() {
        check("auto", &[], Ok("host"));
        check("auto", &[listed(0)], Ok("cuda:0"));
        check("host", &[listed(0)], Ok("host"));
    }

    #[test]
    fn missing_devices_are_named() {
        check("cuda", &[], Err("no NVIDIA GPU"));
        check("cuda:3", &[listed(0)], Err("GPU 3 does not exist"));
        check("cuda:x", &[listed(0)], Err("is not a device"));
        check("opencl", &[], Err("is not a device"));
    }
}
