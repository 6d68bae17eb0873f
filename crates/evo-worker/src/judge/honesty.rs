//! Times that cannot be true: faster than the device could move the bytes or do the arithmetic.

use evo_protocol::device::{DeviceInfo, DeviceKind};
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Gate, Verdict, VerdictKind};
use evo_protocol::worker::GateAnswer;

use super::wrong::number;

/// A measured time this close below a floor is still believed: peaks are nominal.
const MARGIN: f64 = 0.95;
/// Closer to the floor than this factor is worth a second look.
const CLOSE: f64 = 1.1;
/// Bandwidth of the last-level cache over that of memory, generously.
const CACHE_FACTOR: f64 = 3.0;
/// About half of the shortest launch that was measured (0.97 µs on an H200, hot).
const LAUNCH_NS: f64 = 500.0;

/// The floor of one call in nanoseconds, if anything is known of device and problem, and what sets it: `arithmetic`, `memory`
/// or `launch`.
fn floor(plan: &ProblemPlan, info: &DeviceInfo, mode: TimingMode) -> Option<(f64, &'static str)> {
    // The faster of the two peaks, because the kernel's arithmetic type is unknown and a floor that is too
    // high would accuse an honest kernel.
    let peak = info.flops_f32.into_iter().chain(info.flops_f16).fold(0.0, f64::max);
    let arithmetic = plan.flops.filter(|_| peak > 0.0).map(|flops| flops / peak * 1e9);
    let memory = plan.bytes.zip(info.bandwidth.filter(|own| *own > 0.0)).map(|(bytes, bandwidth)| {
        let cached = bytes / (CACHE_FACTOR * bandwidth);
        // What exceeds the cache must come from memory in every call, however hot.
        let beyond = (bytes - info.l2_bytes as f64).max(0.0) / bandwidth;
        let seconds = if mode == TimingMode::Cold { bytes / bandwidth } else { cached.max(beyond) };
        seconds * 1e9
    });
    let launch = (info.kind == DeviceKind::Cuda).then_some(LAUNCH_NS);
    let candidates = [(arithmetic, "arithmetic"), (memory, "memory"), (launch, "launch")];
    // Each resource alone takes this long, so the slowest one sets the floor.
    let known = candidates.into_iter().filter_map(|(ns, what)| Some((ns?, what)));
    known.max_by(|a, b| a.0.total_cmp(&b.0))
}

pub fn check(plan: &ProblemPlan, info: &DeviceInfo, mode: TimingMode, p50_ns: f64) -> GateAnswer {
    let mut answer = GateAnswer::begin(Gate::Honesty);
    answer.report.cases = 1;
    answer.report.evidence.insert("p50_ns", number(p50_ns));
    let floor = floor(plan, info, mode);
    let floor_ns = floor.map_or(0.0, |(ns, _)| ns);
    let impossible = |message: String| {
        let verdict = Verdict::new(VerdictKind::ImpossibleSpeed, message);
        verdict.with("p50_ns", number(p50_ns)).with("floor_ns", floor_ns)
    };
    if !(p50_ns.is_finite() && p50_ns > 0.0) {
        answer.refuse(impossible(format!("`{p50_ns}` ns is not a duration")));
        return answer;
    }
    let Some((_, what)) = floor else {
        answer.report.message = "no floor is known for this device and problem; outputs were checked".into();
        return answer;
    };
    answer.report.evidence.insert("floor_ns", floor_ns);
    answer.report.evidence.insert("floor_of", what);
    answer.report.evidence.insert("close_to_floor", p50_ns < floor_ns * CLOSE);
    answer.report.message = format!("{p50_ns:.0} ns, the {what} floor is {floor_ns:.0} ns");
    if p50_ns < floor_ns * MARGIN {
        let message = format!(
            "`{}` in {p50_ns:.0} ns, but its {what} needs {floor_ns:.0} ns on this device",
            plan.name
        );
        answer.refuse(impossible(message).with_cause(what));
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::fake::info;
    use crate::judge::reference::testing::plan;

    fn problem(flops: f64, bytes: f64) -> ProblemPlan {
        ProblemPlan { flops: Some(flops), bytes: Some(bytes), ..plan("p", &[], vec![]) }
    }

    fn device() -> DeviceInfo {
        DeviceInfo {
            kind: DeviceKind::Cuda,
            bandwidth: Some(4e12),
            flops_f32: Some(60e12),
            flops_f16: Some(900e12),
            l2_bytes: 50 << 20,
            ..info()
        }
    }

    #[test]
    fn the_floor_is_the_scarcest_resource() {
        let ns = |flops, bytes, mode| floor(&problem(flops, bytes), &device(), mode).unwrap();
        assert_eq!(ns(900e9, 1.0, TimingMode::Hot), (1e6, "arithmetic"));
        assert_eq!(ns(1.0, 4e7, TimingMode::Cold), (1e4, "memory"));
        let hot = ns(1.0, 4e7, TimingMode::Hot);
        assert!(hot.1 == "memory" && (hot.0 - 1e4 / 3.0).abs() < 1.0);
        assert!(ns(1.0, 4e9, TimingMode::Hot).0 > 9.8e5);
        assert_eq!(ns(1.0, 1.0, TimingMode::Hot).1, "launch");
        let host = DeviceInfo { bandwidth: None, flops_f32: None, flops_f16: None, ..info() };
        assert_eq!(floor(&problem(1e9, 1e9), &host, TimingMode::Hot), None);
    }

    #[test]
    fn an_empty_kernel_is_too_fast() {
        let judge = |ns: f64| check(&problem(1.0, 4e7), &device(), TimingMode::Cold, ns);
        let answer = judge(1000.0);
        assert_eq!(answer.verdict.unwrap().label(), "impossible_speed:memory");
        assert_eq!(answer.report.state, evo_protocol::verdict::GateState::Fail);
        assert!(judge(9_700.0).verdict.is_none());
        assert_eq!(judge(9_700.0).report.evidence.get("close_to_floor"), Some(&true.into()));
        assert!(judge(0.0).verdict.is_some() && judge(f64::NAN).verdict.is_some());
    }
}
