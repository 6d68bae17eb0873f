//! A GPU's candidate on the host device, whose instrumented build sees every access.
//!
//! compute-sanitizer does not see a variable of shared memory run into its neighbor, a local array read before it is
//! written, or a fence that is too narrow. What the host device says counts only where it names a fault of the
//! source; an answer that is merely different there, or a source that the host cannot take, says nothing about the
//! GPU.

use std::fmt;
use std::time::Duration;

use evo_protocol::verdict::{Gate, Verdict, VerdictKind};
use evo_space::genome::Configuration;
use evo_supervise::job::Judgement;

pub trait HostLook: fmt::Debug + Send + Sync {
    fn look(&self, configuration: &Configuration, limit: Duration) -> TwinAnswer;
}

#[derive(Clone, Debug, PartialEq)]
pub enum TwinAnswer {
    Clean { cases: u64 },
    Fault(Box<Verdict>),
    Silent(String),
    Late,
}

const CASES: &str = "instrumented_cases";

impl TwinAnswer {
    /// Its name in evidence, in files and in `[check]`.
    pub const NAME: &'static str = "host_twin";

    pub fn of(judgement: &Judgement) -> TwinAnswer {
        let verdict = &judgement.verdict;
        if is_fault(verdict) {
            let hint = "`evo test-one` with `--device host` and a small problem repeats it; `host_twin = false` in \
                        `[check]` of the space file leaves the look out";
            let message = format!("seen on the host device: {}", verdict.message);
            let fault = Verdict { message, ..verdict.clone() }.with(TwinAnswer::NAME, "fault");
            // A hint about the fault itself is worth more.
            let fault = if fault.evidence.get(Verdict::HINT).is_none() {
                fault.with(Verdict::HINT, hint)
            } else {
                fault
            };
            return TwinAnswer::Fault(Box::new(fault));
        }
        if !verdict.is_pass() {
            let first = verdict.message.lines().next().unwrap_or_default();
            return TwinAnswer::Silent(format!("it does not pass there: {}: {first}", verdict.label()));
        }
        let full = judgement.gates.iter().find(|report| report.gate == Gate::FullShapes);
        let cases = full.and_then(|report| report.evidence.get(CASES)).and_then(serde_json::Value::as_u64);
        match cases.filter(|cases| *cases > 0) {
            Some(cases) => TwinAnswer::Clean { cases },
            None => TwinAnswer::Silent(full.map_or("no shape".to_string(), |report| report.message.clone())),
        }
    }

    pub fn fault(&self) -> Option<&Verdict> {
        match self {
            TwinAnswer::Fault(verdict) => Some(verdict),
            TwinAnswer::Clean { .. } | TwinAnswer::Silent(_) | TwinAnswer::Late => None,
        }
    }

    pub fn ran(&self) -> bool {
        !matches!(self, TwinAnswer::Silent(_) | TwinAnswer::Late)
    }

    pub fn said(&self) -> String {
        match self {
            TwinAnswer::Clean { cases } => {
                format!("no fault in {cases} instrumented cases on the host device")
            }
            TwinAnswer::Fault(own) => own.label(),
            TwinAnswer::Silent(why) => format!("the host device gave no answer: {why}"),
            TwinAnswer::Late => "the host device gave no answer: no time was left for it".to_string(),
        }
    }
}

/// Whether a verdict of the host device is about the source, whatever runs it.
fn is_fault(verdict: &Verdict) -> bool {
    let cause = verdict.cause.as_deref();
    match verdict.kind {
        VerdictKind::OobRead
        | VerdictKind::OobWrite
        | VerdictKind::InputMutated
        | VerdictKind::CrashMisaligned
        | VerdictKind::DivergentBarrier => true,
        VerdictKind::Nondeterministic => matches!(cause, Some("race" | "order")),
        VerdictKind::WrongAnswer => cause == Some("uninitialized"),
        // A local array that is read unset, too: stacks keep what the call before has left.
        VerdictKind::Stateful => cause == Some("earlier_call"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use evo_protocol::verdict::GateReport;

    use super::*;

    fn judged(verdict: Verdict, cases: Option<u64>) -> TwinAnswer {
        let mut full = GateReport::not_run(Gate::FullShapes, "instrumented cases not run: why");
        if let Some(cases) = cases {
            full.evidence.insert(CASES, cases);
        }
        TwinAnswer::of(&Judgement { verdict, gates: vec![full], ..Judgement::begin() })
    }

    fn failed(kind: VerdictKind, cause: &str) -> Verdict {
        Verdict::new(kind, "the first line\nand more").with_cause(cause)
    }

    #[test]
    fn only_faults_of_the_source_count() {
        let judge = |label: &str, cases| {
            let (kind, cause) = label.split_once(':').unwrap_or((label, ""));
            judged(failed(VerdictKind::named(kind).unwrap(), cause), cases)
        };
        let faults = "oob_read:shared oob_write:local crash_misaligned divergent_barrier nondeterministic:race \
                      wrong_answer:uninitialized stateful:earlier_call";
        for label in faults.split(' ') {
            assert!(matches!(judge(label, None), TwinAnswer::Fault(_)), "{label}");
        }
        let others = "wrong_answer:precision wrong_answer:value nondeterministic:data hang worker_died \
                      compile_error out_of_memory harness_error:budget";
        for label in others.split(' ') {
            let TwinAnswer::Silent(why) = judge(label, Some(9)) else { panic!("{label}") };
            assert!(why.contains("the first line") && !why.contains("and more"), "{why}");
        }
    }

    #[test]
    fn a_look_that_launched_nothing_is_silent() {
        assert_eq!(judged(Verdict::pass(), Some(12)), TwinAnswer::Clean { cases: 12 });
        let silent = TwinAnswer::Silent("instrumented cases not run: why".into());
        assert_eq!(judged(Verdict::pass(), Some(0)), silent);
        assert_eq!(judged(Verdict::pass(), None), silent);
    }
}
