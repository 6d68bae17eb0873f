//! From a worker's death to a verdict: who is to blame, and whether one failure is enough.
//!
//! A launch or a sample that misses its deadline, and a fault that the worker's handler names, are the
//! variant's doing at once: there is a phase, a shape and a deadline. Every other end is looked at twice. A
//! worker that ends by itself in a launch may have been killed from outside, and in any other phase evo's own
//! code was at work, so the job runs once more in a fresh worker. Only what happens again in the same way
//! counts; the rest is trouble, which is nobody's verdict.

use std::time::Duration;

use evo_protocol::evaluation::RecoveryLevel;
use evo_protocol::verdict::{Cause, Verdict, VerdictKind};
use evo_protocol::worker::Phase;

use super::child::{Death, DeathHow};
use super::deadline::LaunchPrediction;
use evo_system::process::{is_fault, signal_name};

#[derive(Clone, Debug, PartialEq)]
pub struct Blame {
    pub verdict: Verdict,
    /// Whether somebody else may be at fault: the job is tried once more before the verdict counts.
    pub second_chance: bool,
    /// How much is in doubt.
    pub doubt: RecoveryLevel,
    /// How long the variant ran at least, if it was merely slow.
    pub lower_bound: Option<Duration>,
}

impl Blame {
    pub fn plain(verdict: Verdict) -> Blame {
        Blame { verdict, second_chance: false, doubt: RecoveryLevel::R2, lower_bound: None }
    }
}

/// `prediction` is what was expected of a launch at this shape; `None` at tiny shapes.
pub fn blame(death: &Death, prediction: Option<&LaunchPrediction>) -> Blame {
    let launched = matches!(death.phase, Some(Phase::Launched | Phase::Timing));
    // Outside a launch the device was idle, so only the process is in doubt.
    let doubt = if launched { RecoveryLevel::R2 } else { RecoveryLevel::R1 };
    let own = |verdict| Blame { second_chance: !launched, doubt, ..Blame::plain(verdict) };
    let mut blame = match &death.how {
        DeathHow::Deadline { limit } => {
            let mut blame = if launched {
                late(death, prediction)
            } else {
                own(Verdict::new(VerdictKind::WorkerHang, death.describe()))
            };
            blame.verdict.evidence.insert("deadline_ms", limit.as_millis() as u64);
            blame
        }
        // No variant's code runs outside a launch but constructors, and evo's own code sends no signals.
        DeathHow::Exit { signal: Some(signal), .. } if !launched && !is_fault(*signal) => {
            own(killed(*signal))
        }
        DeathHow::Exit { code, signal } => {
            let cause = signal.map_or_else(|| format!("exit_{}", code.unwrap_or(-1)), cause_of);
            let message = match signal {
                Some(libc::SIGSYS) => format!("{FORBIDDEN}: {}", death.describe()),
                _ => death.describe(),
            };
            let verdict = Verdict::new(VerdictKind::WorkerDied, message).with_cause(cause);
            // Somebody who kills processes may hit two launches in a row.
            let outside = signal.is_some_and(|signal| !is_fault(signal));
            let verdict = if outside { verdict.in_doubt() } else { verdict };
            Blame { second_chance: true, ..own(verdict) }
        }
        // A worker whose variant's process was killed says so. The variant may have done that in any phase, so no
        // phase is an excuse; and so may somebody else.
        DeathHow::Fault { error } if error.kind == VerdictKind::WorkerDied => {
            let signal = error.code.unwrap_or(libc::SIGKILL);
            let message = format!("the variant's process was killed by {}", signal_name(signal));
            let verdict = Verdict::new(VerdictKind::WorkerDied, message).with_cause(cause_of(signal));
            Blame { second_chance: true, ..Blame::plain(verdict.in_doubt()) }
        }
        DeathHow::Cut { .. } => Blame { second_chance: true, ..own(cut_off(death, launched)) },
        // A second try would miss it, too: the variant has to be compiled again.
        DeathHow::Missing { .. } => {
            let verdict = Verdict::new(VerdictKind::HarnessError, MISSING).with_cause(Cause::Machine);
            Blame { second_chance: false, ..own(verdict.with(Verdict::HINT, MISSING_HINT)) }
        }
        // Garbage on the wire may mean that the variant wrote over the worker's memory. The device is in
        // doubt (R2), but evo's own code may be at fault too, hence the second chance.
        DeathHow::Protocol { .. } => {
            let verdict = Verdict::new(VerdictKind::WorkerDied, death.describe());
            Blame { second_chance: true, ..Blame::plain(verdict.with_cause("protocol")) }
        }
        // What runs while inputs are prepared is the user's reference kernel, or the task's preparing one.
        DeathHow::Fault { error } if death.phase == Some(Phase::Preparing) => {
            let what = format!("the reference kernel, or that of [prepare]: {}", error.message);
            let verdict = Verdict::new(VerdictKind::HarnessError, what).with_cause("task");
            let fault = error.verdict().label();
            Blame { second_chance: true, ..Blame::plain(verdict.with("reference_fault", fault)) }
        }
        // A fault while outputs are compared is the variant's doing too: it damaged the memory that the
        // comparison reads.
        DeathHow::Fault { error } => Blame {
            second_chance: !launched && death.phase != Some(Phase::Checking),
            ..Blame::plain(error.verdict())
        },
    };
    blame.verdict = with_place(blame.verdict, death);
    blame
}

/// In a launch the variant may have taken its node along; elsewhere it is the machine, or the way to it.
fn cut_off(death: &Death, launched: bool) -> Verdict {
    match launched {
        true => Verdict::new(VerdictKind::WorkerDied, death.describe()).with_cause("cut_off").in_doubt(),
        false => Verdict::new(VerdictKind::HarnessError, death.describe()).with_cause(Cause::Killed),
    }
}

fn late(death: &Death, prediction: Option<&LaunchPrediction>) -> Blame {
    let elapsed_ms = death.elapsed.as_millis() as u64;
    let ran = death.elapsed.saturating_sub(death.waited);
    // Past the limit for waits, too: what it would have done with a processor of its own is not known.
    let settled = |verdict: Verdict| if death.waited > ran { verdict.in_doubt() } else { verdict };
    let place = if death.detail.is_empty() { "this shape" } else { &death.detail };
    // Tiny shapes come without a prediction: a launch that is late there hangs.
    let slow = prediction.filter(|prediction| !prediction.hangs(ran));
    let Some(prediction) = slow else {
        let message = format!("no end at {place} after {elapsed_ms} ms");
        return Blame::plain(settled(Verdict::new(VerdictKind::Hang, message)));
    };
    let message = format!("no end at {place} after {elapsed_ms} ms; killed, so this is a lower bound");
    let mut verdict = Verdict::new(VerdictKind::TooSlow, message)
        .with("lower_bound_ns", ran.as_nanos() as u64)
        .with("killed", true);
    if let Some(incumbent) = prediction.incumbent_ns {
        verdict = verdict.with("incumbent_ns", incumbent);
    }
    Blame { lower_bound: Some(ran), ..Blame::plain(settled(verdict)) }
}

fn with_place(mut verdict: Verdict, death: &Death) -> Verdict {
    if let Some(phase) = death.phase {
        let name = serde_json::to_value(phase).unwrap_or_default();
        verdict.evidence.insert("phase", name);
        verdict.evidence.insert("elapsed_ms", death.elapsed.as_millis() as u64);
        if !death.waited.is_zero() {
            verdict.evidence.insert("waited_ms", death.waited.as_millis() as u64);
        }
    }
    if !death.detail.is_empty() {
        verdict.evidence.insert("at", death.detail.as_str());
    }
    if !death.log.trim().is_empty() {
        verdict.evidence.insert("log_tail", death.log.as_str());
    }
    verdict
}

const FORBIDDEN: &str = "the variant makes a system call that the sandbox forbids";

const MISSING: &str = "a compiled variant is gone from the cache";
const MISSING_HINT: &str = "leave the cache alone while evo runs; `EVO_CACHE_DIR` names another folder";

fn killed(signal: i32) -> Verdict {
    let message = format!("the device worker was killed by {}", signal_name(signal));
    let hint = "see whether the kernel's out-of-memory killer or another program ends processes (`dmesg`)";
    Verdict::new(VerdictKind::HarnessError, message).with_cause(Cause::Killed).with(Verdict::HINT, hint)
}

fn cause_of(signal: i32) -> String {
    signal_name(signal).to_lowercase().replace(' ', "_")
}

/// The second verdict if the first was the same, and otherwise trouble.
pub fn after_two(first: &Verdict, second: Verdict) -> Verdict {
    if first.label() == second.label() || second.is_trouble() {
        return second;
    }
    let message = format!("the device worker died twice, each time in another way: {}", second.label());
    let hint =
        "another program or a failing machine may be at work; `evo selftest faults` checks this device";
    Verdict::new(VerdictKind::HarnessError, message)
        .with_cause(Cause::Killed)
        .with("first", first.label())
        .with("second", second.label())
        .with(Verdict::HINT, hint)
}

#[cfg(test)]
mod tests {
    use evo_protocol::device::DeviceError;
    use evo_space::genome::ContentHash;

    use super::*;

    #[test]
    fn only_what_happens_twice_in_the_same_way_counts() {
        let died = |cause: &str| Verdict::new(VerdictKind::WorkerDied, "").with_cause(cause);
        assert_eq!(after_two(&died("sigkill"), died("sigkill")).label(), "worker_died:sigkill");
        assert_eq!(after_two(&died("sigkill"), died("exit_1")).label(), "harness_error:killed");
        assert_eq!(after_two(&died("sigkill"), killed(libc::SIGKILL)).label(), "harness_error:killed");
        assert_eq!(after_two(&killed(libc::SIGKILL), died("sigkill")).label(), "harness_error:killed");
    }

    fn check(how: DeathHow, phase: Option<Phase>, expected: &str, second_chance: bool, doubt: RecoveryLevel) {
        let death = Death {
            how,
            phase,
            detail: "`tiny:S=33`".into(),
            elapsed: Duration::from_secs(2),
            waited: Duration::ZERO,
            log: "boo".into(),
            reaped: true,
        };
        let blame = blame(&death, None);
        assert_eq!((blame.verdict.label().as_str(), blame.second_chance), (expected, second_chance));
        assert_eq!(blame.doubt, doubt, "{expected} in {phase:?}");
        assert_eq!(blame.verdict.evidence.get("log_tail"), Some(&"boo".into()));
    }

    #[test]
    fn the_variant_is_blamed_while_it_runs_and_we_are_otherwise() {
        use RecoveryLevel::{R1, R2};
        let deadline = || DeathHow::Deadline { limit: Duration::from_secs(2) };
        check(deadline(), Some(Phase::Launched), "hang", false, R2);
        check(deadline(), Some(Phase::Timing), "hang", false, R2);
        check(deadline(), Some(Phase::Preparing), "worker_hang", true, R1);
        check(deadline(), None, "worker_hang", true, R1);
        let signal = |signal| DeathHow::Exit { code: None, signal: Some(signal) };
        check(signal(libc::SIGSEGV), Some(Phase::Launched), "worker_died:sigsegv", true, R2);
        check(signal(libc::SIGSEGV), Some(Phase::Checking), "worker_died:sigsegv", true, R1);
        check(signal(libc::SIGKILL), Some(Phase::Launched), "worker_died:sigkill", true, R2);
        check(signal(libc::SIGKILL), Some(Phase::Checking), "harness_error:killed", true, R1);
        check(signal(libc::SIGTERM), None, "harness_error:killed", true, R1);
        check(
            DeathHow::Exit { code: Some(1), signal: None },
            Some(Phase::Timing),
            "worker_died:exit_1",
            true,
            R2,
        );
        let missing = DeathHow::Missing { hash: ContentHash::of(b"gone") };
        check(missing, Some(Phase::Loading), "harness_error:machine", false, R1);
        check(DeathHow::Exit { code: Some(0), signal: None }, None, "worker_died:exit_0", true, R1);
        let garbage = DeathHow::Protocol { found: "`what`".into() };
        check(garbage, Some(Phase::Launched), "worker_died:protocol", true, R2);
        let error = DeviceError::plain(VerdictKind::OobWrite, "wrote behind `c`").sticky();
        let fault = || DeathHow::Fault { error: Box::new(error.clone()) };
        check(fault(), Some(Phase::Launched), "oob_write", false, R2);
        check(fault(), Some(Phase::Preparing), "harness_error:task", true, R2);
    }

    #[test]
    fn a_forbidden_system_call_is_named() {
        let how = DeathHow::Exit { code: None, signal: Some(libc::SIGSYS) };
        let (detail, elapsed, log) = ("`small`".into(), Duration::from_secs(1), String::new());
        let waited = Duration::ZERO;
        let death = Death { how, phase: Some(Phase::Launched), detail, elapsed, waited, log, reaped: true };
        let verdict = blame(&death, None).verdict;
        assert_eq!(verdict.label(), "worker_died:sigsys");
        assert!(verdict.message.starts_with("the variant makes a system call that the sandbox forbids"));
    }

    #[test]
    fn a_variant_cannot_choose_a_phase_in_which_its_end_does_not_count() {
        let mut killed = DeviceError::plain(VerdictKind::WorkerDied, "the variant's process was killed");
        killed.code = Some(libc::SIGTERM);
        let fault = || DeathHow::Fault { error: Box::new(killed.clone()) };
        for phase in [Phase::Preparing, Phase::Launched, Phase::Checking] {
            check(fault(), Some(phase), "worker_died:sigterm", true, RecoveryLevel::R2);
        }
    }

    #[test]
    fn a_slow_kernel_killed_at_full_size_has_a_lower_bound() {
        let death = Death {
            how: DeathHow::Deadline { limit: Duration::from_secs(3) },
            phase: Some(Phase::Launched),
            detail: "`big`".into(),
            elapsed: Duration::from_secs(3),
            waited: Duration::ZERO,
            log: String::new(),
            reaped: true,
        };
        let slow = LaunchPrediction { incumbent_ns: Some(1e7), own_ns: Some(1e9) };
        let slow = blame(&death, Some(&slow));
        assert_eq!(slow.lower_bound, Some(Duration::from_secs(3)));
        let verdict = slow.verdict;
        assert_eq!(verdict.kind, VerdictKind::TooSlow);
        assert_eq!(verdict.evidence.get("lower_bound_ns"), Some(&3_000_000_000u64.into()));
        let quick = LaunchPrediction { incumbent_ns: Some(1e4), own_ns: None };
        assert_eq!(blame(&death, Some(&quick)).verdict.kind, VerdictKind::Hang);
        // Most of the time it waited for a processor: what is left is its own, and it is looked at again.
        let starved = Death { waited: Duration::from_secs(2), ..death };
        let verdict = blame(&starved, None).verdict;
        assert!(verdict.kind == VerdictKind::Hang && verdict.is_in_doubt());
        assert_eq!(verdict.evidence.get("waited_ms"), Some(&2000u64.into()));
        let slow = LaunchPrediction { incumbent_ns: Some(1e7), own_ns: Some(1e9) };
        assert_eq!(blame(&starved, Some(&slow)).lower_bound, Some(Duration::from_secs(1)));
    }
}
