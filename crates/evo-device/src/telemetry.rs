//! Clocks, temperature, power and throttle reasons through NVML. The parent process uses this too:
//! it may know NVML, never libcuda.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use evo_protocol::device::Telemetry;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::{Device, Nvml};

fn nvml() -> Option<&'static Nvml> {
    static NVML: OnceLock<Option<Nvml>> = OnceLock::new();
    NVML.get_or_init(|| Nvml::init().ok()).as_ref()
}

/// By UUID, because CUDA may number the GPUs that a process sees differently from NVML.
fn device(uuid: &str) -> Option<Device<'static>> {
    nvml()?.device_by_uuid(uuid).ok()
}

#[derive(Clone, Debug, PartialEq)]
pub struct ListedGpu {
    pub index: u32,
    pub name: String,
    /// UUID, which CUDA reports alike.
    pub uuid: String,
    pub capability: (u32, u32),
}

/// All GPUs of this machine; empty without a driver.
pub fn list() -> Vec<ListedGpu> {
    let Some(nvml) = nvml() else { return Vec::new() };
    let one = |index| {
        let device = nvml.device_by_index(index).ok()?;
        let capability = device.cuda_compute_capability().ok()?;
        Some(ListedGpu {
            index,
            name: device.name().ok()?,
            uuid: device.uuid().ok()?,
            capability: (capability.major as u32, capability.minor as u32),
        })
    };
    (0..nvml.device_count().unwrap_or(0)).filter_map(one).collect()
}

/// The driver's own version, such as `580.159.04`.
pub fn driver_version() -> Option<String> {
    nvml()?.sys_driver_version().ok()
}

#[derive(Clone, Debug)]
pub struct TelemetrySource {
    uuid: String,
}

impl TelemetrySource {
    pub fn of_uuid(uuid: &str) -> Option<TelemetrySource> {
        device(uuid).map(|_| TelemetrySource { uuid: uuid.to_string() })
    }

    /// What cannot be read is absent.
    pub fn read(&self) -> Telemetry {
        let Some(device) = device(&self.uuid) else { return Telemetry::default() };
        Telemetry {
            clock_sm_mhz: device.clock_info(Clock::SM).ok(),
            clock_memory_mhz: device.clock_info(Clock::Memory).ok(),
            temperature_c: device.temperature(TemperatureSensor::Gpu).ok(),
            power_w: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1e3),
            throttle_reasons: device.current_throttle_reasons().map(names).unwrap_or_default(),
        }
    }
}

/// NVML's own samples are at least a sixth of a second long.
const SAMPLED_EVERY: Duration = Duration::from_millis(150);

/// The sum of the samples so far, as shares, and their number.
type Samples = Mutex<(f64, u32)>;

/// For how much of the time a GPU runs kernels, whoever's they are: what `nvidia-smi` calls its utilization.
#[derive(Debug)]
pub struct GpuUtilization(Arc<Samples>);

impl GpuUtilization {
    pub fn watch(uuid: &str) -> Option<GpuUtilization> {
        let read = move |uuid: &str| {
            device(uuid)?.utilization_rates().ok().map(|rates| f64::from(rates.gpu) / 100.0)
        };
        read(uuid)?;
        let (samples, uuid) = (Arc::new(Samples::default()), uuid.to_string());
        let watched: Weak<Samples> = Arc::downgrade(&samples);
        let sample = move || {
            while let Some(samples) = watched.upgrade() {
                if let Some(share) = read(&uuid) {
                    let mut samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
                    *samples = (samples.0 + share, samples.1 + 1);
                }
                drop(samples);
                std::thread::sleep(SAMPLED_EVERY);
            }
        };
        std::thread::Builder::new().name("utilization".into()).spawn(sample).ok()?;
        Some(GpuUtilization(samples))
    }

    /// As a share; `None` before the first sample.
    pub fn mean(&self) -> Option<f64> {
        let (sum, count) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (count > 0).then(|| sum / f64::from(count))
    }
}

/// How the GPU is set up, as far as that changes its times: names and values. Empty for what NVML does not list, such
/// as the host and GPUs of other machines.
pub fn settings(uuid: &str) -> Vec<(&'static str, String)> {
    let Some(device) = device(uuid) else { return Vec::new() };
    let ecc = device.is_ecc_enabled().ok().map(|state| state.currently_enabled.to_string());
    let power = device.enforced_power_limit().ok().map(|milliwatts| format!("{} W", milliwatts / 1000));
    let megahertz = |clock: Option<u32>| clock.map(|clock| format!("{clock} MHz"));
    let found = [
        ("power limit", power),
        ("clock", megahertz(device.max_clock_info(Clock::SM).ok())),
        ("memory clock", megahertz(device.max_clock_info(Clock::Memory).ok())),
        // Set by an administrator to below the highest.
        ("application clock", megahertz(device.applications_clock(Clock::Graphics).ok())),
        ("ecc", ecc),
        ("mig", device.mig_mode().ok().map(|mode| mode.current.to_string())),
    ];
    found.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuOccupant {
    /// Its number, in the namespace of NVML.
    pub pid: u32,
    /// Device memory that it holds, bytes; unknown inside of containers and under MIG.
    pub memory_bytes: Option<u64>,
}

/// Processes that compute on the GPU with this UUID; `None` where NVML does not say.
pub fn occupants(uuid: &str) -> Option<Vec<GpuOccupant>> {
    let bytes = |memory: UsedGpuMemory| match memory {
        UsedGpuMemory::Used(bytes) => Some(bytes),
        UsedGpuMemory::Unavailable => None,
    };
    let all = device(uuid)?.running_compute_processes().ok()?.into_iter();
    Some(all.map(|one| GpuOccupant { pid: one.pid, memory_bytes: bytes(one.used_gpu_memory) }).collect())
}

/// Whether the driver keeps the GPU ready while nobody uses it: otherwise the first program waits for seconds. `None`
/// where NVML does not say.
pub fn is_persistent(uuid: &str) -> Option<bool> {
    device(uuid)?.is_in_persistent_mode().ok()
}

fn names(reasons: ThrottleReasons) -> Vec<String> {
    let table = [
        (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, "application_clocks"),
        (ThrottleReasons::SW_POWER_CAP, "sw_power_cap"),
        (ThrottleReasons::HW_SLOWDOWN, "hw_slowdown"),
        (ThrottleReasons::SYNC_BOOST, "sync_boost"),
        (ThrottleReasons::SW_THERMAL_SLOWDOWN, "sw_thermal"),
        (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hw_thermal"),
        (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "power_brake"),
        (ThrottleReasons::DISPLAY_CLOCK_SETTING, "display_clocks"),
    ];
    table.iter().filter(|(reason, _)| reasons.contains(*reason)).map(|(_, name)| name.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idling_is_no_throttling() {
        assert!(names(ThrottleReasons::GPU_IDLE).is_empty());
        let both = ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_SLOWDOWN;
        assert_eq!(names(both), ["sw_power_cap", "hw_slowdown"]);
    }
}
