//! The floor under any honest time: operations over peak rate, compulsory bytes over bandwidth.

use super::measure::Outcome;
use crate::device::device::{DeviceInfo, TimingMode};
use crate::kernel::plan::ProblemPlan;
use crate::verdict::{GateState, Verdict, VerdictKind};

/// Below this share of the floor a time cannot be believed.
pub const IMPOSSIBLE: f64 = 0.95;

/// The least time in nanoseconds that one call can take, or `None` where peaks are unknown.
pub fn floor_ns(info: &DeviceInfo, plan: &ProblemPlan, mode: TimingMode) -> Option<f64> {
    // Matrix units may serve fp32 inputs as well, so the highest known peak is the only safe bound.
    let peak = info.flops_f16.into_iter().chain(info.flops_f32).fold(0.0, f64::max);
    let compute = plan.flops.filter(|_| peak > 0.0).map(|flops| flops / peak * 1e9);
    let traffic = plan.bytes.zip(info.bandwidth).map(|(bytes, bandwidth)| bytes / bandwidth * 1e9);
    // In hot mode what fits the cache may never touch memory; twice the cache is surely not resident.
    let resident = mode != TimingMode::Cold && plan.bytes.is_some_and(|b| b < 2.0 * info.l2_bytes as f64);
    let traffic = traffic.filter(|_| !resident);
    match (compute, traffic) {
        (Some(compute), Some(traffic)) => Some(compute.max(traffic)),
        (compute, traffic) => compute.or(traffic),
    }
}

/// Refuses a measurement that is faster than the device can be; else notes the floor beside it.
pub fn judge(mut outcome: Outcome, info: &DeviceInfo, plan: &ProblemPlan, mode: TimingMode) -> Outcome {
    let p50_ns = outcome.measurement.as_ref().map(|measurement| measurement.p50_ns);
    let (Some(p50_ns), Some(floor_ns)) = (p50_ns, floor_ns(info, plan, mode)) else { return outcome };
    let possible = p50_ns >= IMPOSSIBLE * floor_ns;
    if let Some(honesty) = &mut outcome.honesty {
        honesty.evidence.insert("floor_ns", floor_ns);
        honesty.evidence.insert("share_of_peak", floor_ns / p50_ns);
        if !possible {
            honesty.state = GateState::Fail;
        }
    }
    if !possible && outcome.verdict.is_none() {
        let message =
            format!("{p50_ns:.0} ns on `{}`, where this device needs {floor_ns:.0} ns at least", plan.name);
        let verdict = Verdict::new(VerdictKind::ImpossibleSpeed, message);
        outcome.verdict = Some(Box::new(verdict.with("measured_ns", p50_ns).with("floor_ns", floor_ns)));
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::device::{DeviceKind, DeviceLimits};

    fn check(flops: Option<f64>, bytes: Option<f64>, mode: TimingMode, expected: Option<f64>) {
        let info = DeviceInfo {
            kind: DeviceKind::Cuda,
            name: String::new(),
            arch: "sm_90a".into(),
            uuid: String::new(),
            driver: String::new(),
            multiprocessors: 1,
            limits: DeviceLimits::of_arch("sm_90a").unwrap(),
            l2_bytes: 1_000,
            memory_bytes: 1,
            bandwidth: Some(1e9),
            flops_f32: Some(1e9),
            flops_f16: None,
        };
        let plan = ProblemPlan {
            name: "p".into(),
            sizes: Default::default(),
            weight: 1.0,
            buffers: Vec::new(),
            scalars: Vec::new(),
            launches: Vec::new(),
            reference_launches: Vec::new(),
            flops,
            bytes,
        };
        assert_eq!(floor_ns(&info, &plan, mode), expected);
    }

    #[test]
    fn the_higher_of_compute_and_traffic() {
        check(Some(100.0), Some(500.0), TimingMode::Cold, Some(500.0));
        check(Some(900.0), Some(500.0), TimingMode::Cold, Some(900.0));
        check(Some(100.0), Some(500.0), TimingMode::Hot, Some(100.0));
        check(Some(100.0), Some(5_000.0), TimingMode::Hot, Some(5_000.0));
        check(None, None, TimingMode::Cold, None);
    }
}
