//! From a worker's death to a verdict: who is to blame, and whether one failure is enough.
//!
//! A launch or a sample that misses its deadline, and a fault that the worker's handler names, are the
//! variant's doing at once: there is a phase, a shape and a deadline. Every other end is looked at twice. A
//! worker that ends by itself in a launch may have been killed from outside, and in any other phase evo's own
//! code was at work, so the job runs once more in a fresh worker. Only what happens again in the same way
//! counts; the rest is trouble, which is nobody's verdict.

use std::os::unix::process::ExitStatusExt;

use evo_protocol::evaluation::RecoveryLevel;
use evo_protocol::verdict::{Cause, Verdict, VerdictKind};
use evo_protocol::worker::Phase;

use super::child::{Death, DeathHow, LOG_TAIL, in_words};
use super::deadline::LaunchPrediction;
use evo_system::process::{is_fault, signal_name};

#[derive(Clone, Debug, PartialEq)]
pub struct Blame {
    pub verdict: Verdict,
    /// Whether somebody else may be at fault: the job is tried once more before the verdict counts.
    pub second_chance: bool,
    /// How much is in doubt.
    pub doubt: RecoveryLevel,
}

impl Blame {
    pub fn plain(verdict: Verdict) -> Blame {
        Blame { verdict, second_chance: false, doubt: RecoveryLevel::R2 }
    }

    /// Garbage on the wire may mean that the variant wrote over the worker's memory. The device is in doubt, but evo's
    /// own code may be at fault too, hence the second chance.
    pub fn protocol(message: String) -> Blame {
        let verdict = Verdict::new(VerdictKind::WorkerDied, message).with_cause("protocol");
        Blame { second_chance: true, ..Blame::plain(verdict) }
    }
}

/// `prediction` is what was expected of a launch at this shape; `None` at tiny shapes.
pub fn blame(death: &Death, prediction: Option<&LaunchPrediction>) -> Blame {
    use RecoveryLevel::{R1, R2};
    use VerdictKind::{HarnessError, WorkerDied, WorkerHang};
    let launched = matches!(death.phase, Some(Phase::Launched | Phase::Timing));
    // Outside a launch the device was idle, so only the process is in doubt.
    let idle = if launched { R2 } else { R1 };
    let verdict = |kind| Verdict::new(kind, in_words(death));
    let (verdict, second_chance, doubt) = match &death.how {
        DeathHow::Deadline { limit } => {
            let verdict = match launched {
                true => late(death, prediction),
                false => verdict(WorkerHang),
            };
            (verdict.with("deadline_ms", limit.as_millis() as u64), !launched, idle)
        }
        DeathHow::Exit(status) => {
            let code = || format!("exit_{}", status.code().unwrap_or(-1));
            let mut died = verdict(WorkerDied).with_cause(status.signal().map_or_else(code, cause_of));
            if status.signal() == Some(libc::SIGSYS) {
                died.message = format!("{FORBIDDEN}: {}", died.message);
            }
            let verdict = match status.signal().filter(|signal| !is_fault(*signal)) {
                // No variant's code runs outside a launch but constructors, and evo's own code sends no signals.
                Some(signal) if !launched => killed(signal),
                // Somebody who kills processes may hit two launches in a row.
                Some(_) => died.in_doubt(),
                None => died,
            };
            (verdict, true, idle)
        }
        // In a launch the variant may have taken its node along; elsewhere it is the machine, or the way to it.
        DeathHow::Cut(_) if launched => (verdict(WorkerDied).with_cause("cut_off").in_doubt(), true, idle),
        DeathHow::Cut(_) => (verdict(HarnessError).with_cause(Cause::Killed), true, idle),
        // A second try would miss it, too: the variant has to be compiled again.
        DeathHow::Missing(_) => {
            let verdict = Verdict::new(HarnessError, MISSING).with_cause(Cause::Machine);
            (verdict.with(Verdict::HINT, MISSING_HINT), false, idle)
        }
        DeathHow::Protocol(_) => (Blame::protocol(in_words(death)).verdict, true, R2),
        // A worker whose variant's process was killed says so. The variant may have done that in any phase, so no
        // phase is an excuse; and so may somebody else.
        DeathHow::Fault { error } if error.kind == WorkerDied => {
            let signal = error.code.unwrap_or(libc::SIGKILL);
            let message = format!("the variant's process was killed by {}", signal_name(signal));
            (Verdict::new(WorkerDied, message).with_cause(cause_of(signal)).in_doubt(), true, R2)
        }
        // What runs while inputs are prepared is the user's reference kernel, or the task's preparing one.
        DeathHow::Fault { error } if death.phase == Some(Phase::Preparing) => {
            let what = format!("the reference kernel, or that of [prepare]: {}", error.message);
            let verdict = Verdict::new(HarnessError, what).with_cause("task");
            (verdict.with("reference_fault", error.verdict().label()), true, R2)
        }
        // A fault while outputs are compared is the variant's doing too: it damaged the memory that the
        // comparison reads.
        DeathHow::Fault { error } => (error.verdict(), !launched && death.phase != Some(Phase::Checking), R2),
    };
    Blame { verdict: with_place(verdict, death), second_chance, doubt }
}

fn late(death: &Death, prediction: Option<&LaunchPrediction>) -> Verdict {
    let elapsed_ms = death.elapsed.as_millis() as u64;
    let ran = death.elapsed.saturating_sub(death.waited);
    let place = if death.place.is_empty() { "this shape" } else { &death.place };
    // Tiny shapes come without a prediction: a launch that is late there hangs.
    let verdict = match prediction.filter(|prediction| !prediction.hangs(ran)) {
        None => Verdict::new(VerdictKind::Hang, format!("no end at {place} after {elapsed_ms} ms")),
        Some(prediction) => {
            let message =
                format!("no end at {place} after {elapsed_ms} ms; killed, so this is a lower bound");
            let verdict = Verdict::new(VerdictKind::TooSlow, message)
                .with("lower_bound_ns", ran.as_nanos() as u64)
                .with("killed", true);
            match prediction.incumbent_ns {
                Some(incumbent) => verdict.with("incumbent_ns", incumbent),
                None => verdict,
            }
        }
    };
    // Past the limit for waits, too: what it would have done with a processor of its own is not known.
    if death.waited > ran { verdict.in_doubt() } else { verdict }
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
    if !death.place.is_empty() {
        verdict.evidence.insert("at", death.place.as_str());
    }
    let log = death.log.tail(LOG_TAIL);
    if !log.trim().is_empty() {
        verdict.evidence.insert("log_tail", log);
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
    use std::process::ExitStatus;
    use std::time::Duration;

    use evo_protocol::device::DeviceError;
    use evo_system::process::CappedLog;

    use super::*;

    fn death(how: DeathHow, phase: Option<Phase>) -> Death {
        let mut log = CappedLog::of_end(1000);
        log.push(b"boo");
        let (place, elapsed) = ("`tiny:S=33`".into(), Duration::from_secs(3));
        Death { how, phase, place, elapsed, waited: Duration::ZERO, log, memory_peak: 0 }
    }

    #[test]
    fn only_what_happens_twice_in_the_same_way_counts() {
        let died = |cause: &str| Verdict::new(VerdictKind::WorkerDied, "").with_cause(cause);
        assert_eq!(after_two(&died("sigkill"), died("sigkill")).label(), "worker_died:sigkill");
        assert_eq!(after_two(&died("sigkill"), died("exit_1")).label(), "harness_error:killed");
        assert_eq!(after_two(&died("sigkill"), killed(libc::SIGKILL)).label(), "harness_error:killed");
        assert_eq!(after_two(&killed(libc::SIGKILL), died("sigkill")).label(), "harness_error:killed");
    }

    #[test]
    fn the_variant_is_blamed_while_it_runs_and_we_are_otherwise() {
        use Phase::{Checking, Launched, Loading, Preparing, Timing};
        let phases = [Some(Launched), Some(Timing), Some(Preparing), Some(Checking), Some(Loading), None];
        let exit = |status| DeathHow::Exit(ExitStatus::from_raw(status));
        let fault = |error: DeviceError| DeathHow::Fault { error: Box::new(error) };
        let killed = DeviceError::plain(VerdictKind::WorkerDied, "the variant's process was killed");
        let ends = [
            DeathHow::Deadline { limit: Duration::from_secs(3) },
            exit(libc::SIGSEGV),
            exit(libc::SIGKILL),
            exit(libc::SIGTERM),
            exit(libc::SIGSYS),
            exit(1 << 8),
            exit(0),
            DeathHow::Cut("silence".into()),
            DeathHow::Missing("gone".into()),
            DeathHow::Protocol("`what`".into()),
            fault(DeviceError::plain(VerdictKind::OobWrite, "wrote behind `c`").sticky()),
            // A variant cannot choose a phase in which its end does not count.
            fault(DeviceError { code: Some(libc::SIGTERM), ..killed }),
        ];
        let told = |how: &DeathHow, phase| {
            let Blame { verdict, second_chance, doubt } = blame(&death(how.clone(), phase), None);
            assert_eq!(verdict.evidence.get("log_tail"), Some(&"boo".into()));
            let again = if second_chance { " if again" } else { "" };
            format!("  {phase:?}: {}{again}, {}: {}", verdict.label(), doubt.as_str(), verdict.message)
        };
        let told = ends.map(|how| format!("{how}\n{}", phases.map(|phase| told(&how, phase)).join("\n")));
        insta::assert_snapshot!(told.join("\n"));
    }

    #[test]
    fn a_slow_kernel_killed_at_full_size_has_a_lower_bound() {
        let death = death(DeathHow::Deadline { limit: Duration::from_secs(3) }, Some(Phase::Launched));
        let slow = LaunchPrediction { incumbent_ns: Some(1e7), own_ns: Some(1e9) };
        let verdict = blame(&death, Some(&slow)).verdict;
        assert_eq!(verdict.kind, VerdictKind::TooSlow);
        assert_eq!(verdict.evidence.get("lower_bound_ns"), Some(&3_000_000_000u64.into()));
        let quick = LaunchPrediction { incumbent_ns: Some(1e4), own_ns: None };
        assert_eq!(blame(&death, Some(&quick)).verdict.kind, VerdictKind::Hang);
        // Most of the time it waited for a processor: what is left is its own, and it is looked at again.
        let starved = Death { waited: Duration::from_secs(2), ..death };
        let verdict = blame(&starved, None).verdict;
        assert!(verdict.kind == VerdictKind::Hang && verdict.is_in_doubt());
        assert_eq!(verdict.evidence.get("waited_ms"), Some(&2000u64.into()));
        let verdict = blame(&starved, Some(&slow)).verdict;
        assert_eq!(verdict.evidence.get("lower_bound_ns"), Some(&1_000_000_000u64.into()));
    }
}
