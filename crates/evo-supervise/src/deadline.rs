//! How long each phase of a worker may last, and what a missed deadline means: hang or slow.
//!
//! A kernel that does not finish a tiny shape within 2 s is 10⁵ times slower than a working one, so evo
//! calls it a hang. At full shapes the limit comes from the incumbent and from the variant's own smaller
//! shapes, so that a slow kernel is either measured or called `too_slow` with a lower bound.

use std::time::Duration;

use evo_protocol::device::DeviceKind;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::worker::Phase;

/// A phase's limit starts anew whenever the worker reports a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// In the order of `Phase`.
    phases: [Duration; 6],
    pub total: Duration,
}

/// How much longer than a launch a chunk of samples may last. A variant that is timed has ended in every checked call,
/// so on the host what makes it late is nearly always the machine: flushes of the cache and a hundred calls on
/// processors that 15 programs share took over 15 s.
const BEYOND: Duration = Duration::from_secs(5);
const BEYOND_HOST: Duration = Duration::from_secs(35);

/// The longest honest request, the deep gates of a large kernel on the host device, takes a few minutes.
const LONGEST_REQUEST: Duration = Duration::from_secs(1800);

impl Deadlines {
    /// The host device gets 10 s instead of 2 s for a launch: it runs a block's threads one after another, on cores
    /// that compilers share.
    pub fn tiny(kind: DeviceKind) -> Deadlines {
        let (launched, beyond) = match kind {
            DeviceKind::Host => (Duration::from_secs(10), BEYOND_HOST),
            DeviceKind::Cuda | DeviceKind::Replay => (Duration::from_secs(2), BEYOND),
        };
        Deadlines { total: LONGEST_REQUEST, ..Deadlines::within(Duration::from_secs(60)) }
            .with(Phase::Loading, Duration::from_secs(20))
            // evo's own fp64 references of large problems run here; the time never counts against a variant.
            .with(Phase::Preparing, Duration::from_secs(300))
            // One launch, or one gate's unbroken run of launches.
            .with(Phase::Launched, launched)
            // A chunk of samples is one launch or about a second of them (`affordable` in `worker/measure.rs`).
            .with(Phase::Timing, launched + beyond)
    }

    pub fn within(limit: Duration) -> Deadlines {
        Deadlines { phases: [limit; 6], total: limit }
    }

    #[must_use]
    pub fn with(mut self, phase: Phase, limit: Duration) -> Deadlines {
        self.phases[phase as usize] = limit;
        self
    }

    #[must_use]
    pub fn with_launched(self, launched: Duration) -> Deadlines {
        let beyond = self.of(Phase::Timing).saturating_sub(self.of(Phase::Launched));
        self.with(Phase::Launched, launched).with(Phase::Timing, launched + beyond)
    }

    /// Six steps a request: as many as the longest honest request has of the longest steps.
    pub fn capped(self, most: Duration) -> Deadlines {
        let phases = self.phases.map(|limit| limit.min(most));
        Deadlines { phases, total: self.total.min(most.saturating_mul(6)) }
    }

    pub fn of(&self, phase: Phase) -> Duration {
        self.phases[phase as usize]
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LaunchPrediction {
    pub incumbent_ns: Option<f64>,
    /// What the variant's own smaller shapes predict by the ratio of work, nanoseconds.
    pub own_ns: Option<f64>,
}

const UNKNOWN: Duration = Duration::from_secs(60);
/// No launch gets longer than this, because other variants wait for the device.
const LONGEST: Duration = Duration::from_secs(60);
/// A launch that takes this many times as long as the incumbent's counts as a hang, not as slow.
const HANG_RATIO: f64 = 1e5;

impl LaunchPrediction {
    /// Ten times the soft limit, which is max(0.25 s, 20 × the incumbent's time); without an incumbent 20 × what the
    /// variant's own smaller shapes predict.
    pub fn launched(&self, kind: DeviceKind) -> Duration {
        // Ten times the soft minimum of 0.25 s.
        let floor = Deadlines::tiny(kind).of(Phase::Launched).max(Duration::from_millis(2_500));
        // Clamped first, because `from_secs_f64` panics on seconds that a `Duration` cannot hold.
        let from_ns = |ns: f64| Duration::from_secs_f64((ns / 1e9).clamp(0.0, LONGEST.as_secs_f64()));
        let limit = match (self.incumbent_ns, self.own_ns) {
            // The incumbent is the better guide: a measured time at this very shape. 200 is 10 × 20.
            (Some(incumbent), _) => from_ns(200.0 * incumbent),
            // The factor of `hangs`: unless `LONGEST` cuts this limit short, a launch that misses it hangs.
            (None, Some(predicted)) => from_ns(20.0 * predicted),
            (None, None) => UNKNOWN,
        };
        limit.clamp(floor, LONGEST)
    }

    /// Past 20 × what the variant's own smaller shapes predict, or 10⁵ times behind the incumbent, or nothing is
    /// known.
    pub fn hangs(&self, elapsed: Duration) -> bool {
        let elapsed = elapsed.as_nanos() as f64;
        match (self.incumbent_ns, self.own_ns) {
            // With nothing to compare with, a missed deadline of `UNKNOWN` counts as a hang.
            (None, None) => true,
            (incumbent, own) => {
                own.is_some_and(|predicted| elapsed > 20.0 * predicted)
                    || incumbent.is_some_and(|incumbent| elapsed > HANG_RATIO * incumbent)
            }
        }
    }
}

/// Operations, else bytes.
pub fn work(plan: &ProblemPlan) -> f64 {
    let bytes: u64 = plan.buffers.iter().map(|buffer| buffer.bytes()).sum();
    plan.flops.or(plan.bytes).unwrap_or(bytes as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(incumbent_ms: Option<f64>, own_ms: Option<f64>, limit_ms: u64, hangs: bool) {
        let ns = |ms: Option<f64>| ms.map(|ms| ms * 1e6);
        let prediction = LaunchPrediction { incumbent_ns: ns(incumbent_ms), own_ns: ns(own_ms) };
        let limit = prediction.launched(DeviceKind::Cuda);
        assert_eq!(limit, Duration::from_millis(limit_ms), "{prediction:?}");
        let late = limit + Duration::from_millis(1);
        assert_eq!(prediction.hangs(late), hangs, "{prediction:?}");
    }

    #[test]
    fn a_cap_shortens_and_never_lengthens() {
        let tiny = Deadlines::tiny(DeviceKind::Host);
        // The default of `--limit device=TIME` changes nothing.
        assert_eq!(tiny.capped(Duration::from_secs(300)), tiny);
        let short = tiny.capped(Duration::from_secs(3));
        let three = Duration::from_secs(3);
        assert_eq!(short, Deadlines { total: three * 6, ..Deadlines::within(three) });
    }

    #[test]
    fn samples_have_more_time_on_the_host_whatever_a_launch_has() {
        for (kind, beyond) in [(DeviceKind::Host, BEYOND_HOST), (DeviceKind::Cuda, BEYOND)] {
            for deadlines in
                [Deadlines::tiny(kind), Deadlines::tiny(kind).with_launched(Duration::from_secs(3))]
            {
                assert_eq!(deadlines.of(Phase::Timing) - deadlines.of(Phase::Launched), beyond);
            }
        }
    }

    #[test]
    fn hang_and_slow_are_told_apart() {
        // An incumbent of 10 µs and 2.5 s gone: no honest kernel is that slow.
        check(Some(0.01), Some(1_000.0), 2_500, true);
        // An incumbent of 1 ms: 2.5 s may be a slow kernel, unless its own small shapes say no.
        check(Some(1.0), Some(1_000.0), 2_500, false);
        check(Some(1.0), Some(1.0), 2_500, true);
        check(Some(100.0), None, 20_000, false);
        check(None, Some(500.0), 10_000, true);
        check(None, None, 60_000, true);
        check(Some(1e6), Some(1e6), 60_000, false);
    }
}
