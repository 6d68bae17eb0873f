//! What a candidate's author may learn of a verdict. Who knows seeds, values or the shapes that are only checked can fit
//! a candidate to them instead of making it right; so an agent is told the class, the family and the axis of a failure,
//! in sentences that hold nothing of the run. Everything is left out that is not named here.

use evo_protocol::evaluation::Evaluation;
use evo_protocol::request::Visibility;
use evo_protocol::verdict::{Cause, Verdict, VerdictClass, VerdictKind};
use serde_json::{Value, json};

use super::own_lines::{CompilerHint, without_paths};

/// Causes beside evo's closed ones that say how something failed and nothing about where.
const CAUSES: &str = "
    arguments budget cached_result cluster constructor cooperative earlier_call entry expression
    forged_time grid host_lacks include memory memory_leak module_state order phase_dependent
    protocol range rare regs scratch_not_reset shape shared smem spread symbol tail threads
    throttled block warp
";
const FAMILIES: &[&str] = &["normal", "large", "small", "constant", "ramp", "spikes"];
const MESSAGE_MAX: usize = 2000;

#[derive(Clone, Debug, PartialEq)]
pub struct VisibleVerdict {
    pub cause: Option<String>,
    pub message: String,
    pub evidence: Value,
}

/// What of an evaluation's verdict the reader may know.
pub fn verdict(evaluation: &Evaluation, errors: &[CompilerHint], visibility: Visibility) -> VisibleVerdict {
    let verdict = &evaluation.verdict;
    if visibility == Visibility::Owner {
        let (cause, message) = (verdict.cause.clone(), verdict.message.clone());
        return VisibleVerdict { cause, message, evidence: json!(verdict.evidence) };
    }
    let cause = verdict.cause.clone().filter(|cause| is_known(cause));
    let failed =
        evaluation.gates.iter().find(|report| report.state == evo_protocol::verdict::GateState::Fail);
    let mut evidence = json!({});
    if let Some(gate) = failed {
        evidence["gate"] = gate.gate.as_str().into();
    }
    let family = verdict.evidence.get("family").and_then(Value::as_str);
    if let Some(family) = family.filter(|family| FAMILIES.contains(family)) {
        evidence["family"] = family.into();
    }
    VisibleVerdict { cause, message: message(verdict, errors), evidence }
}

fn is_known(cause: &str) -> bool {
    Cause::ALL.iter().any(|known| known.as_str() == cause)
        || CAUSES.split_whitespace().any(|known| known == cause)
}

/// One that names nothing of the run: the compiler's own words on the candidate's text, else a sentence for the kind.
fn message(verdict: &Verdict, errors: &[CompilerHint]) -> String {
    let shortened = |text: &str| text.chars().take(MESSAGE_MAX).collect();
    match (verdict.kind, verdict.cause.as_deref()) {
        // In the words of the candidate's own text.
        (VerdictKind::StaticReject, Some("include")) => shortened(&verdict.message),
        (VerdictKind::RejectedConstraint | VerdictKind::RenderError, _)
        | (VerdictKind::StaticReject, Some("constructor")) => shortened(&without_paths(&verdict.message)),
        (VerdictKind::StaticReject, cause) => limit(cause).to_string(),
        (kind, _) if kind.class() == VerdictClass::Compile && !errors.is_empty() => {
            let line = |error: &CompilerHint| match error.line {
                Some(line) => format!("line {line}: {}", error.text),
                None => error.text.clone(),
            };
            errors.iter().map(line).collect::<Vec<_>>().join("\n")
        }
        (VerdictKind::Pass, _) => String::new(),
        (kind, _) => kind.sentence().to_string(),
    }
}

/// Which limit a launch exceeds, without its number or the shape at which it does.
fn limit(cause: Option<&str>) -> &'static str {
    match cause {
        Some("threads") => "a block has more threads than the device or the launch bounds allow",
        Some("registers") => "its threads need more registers than a block may have",
        Some("smem") => "a block asks for more shared memory than the device has",
        Some("grid") => "a grid is empty or has more blocks than the device allows",
        Some("zero_work") => "it launches nothing, or a launch has no work",
        Some("memory") => "its buffers need more memory than the device has",
        Some("cluster") => "a cluster has more blocks than the device allows",
        Some("cooperative") => "the blocks of a cooperative launch do not fit on the device at once",
        _ => VerdictKind::StaticReject.sentence(),
    }
}

#[cfg(test)]
mod tests {
    use evo_space::genome::Configuration;

    use super::*;
    use crate::journal::example as fake;

    #[test]
    fn an_agent_learns_which_limit_it_exceeds() {
        let said = |cause: &str| {
            let own = Verdict::new(VerdictKind::StaticReject, "4711 threads at `secret`").with_cause(cause);
            let evaluation = fake::evaluation(0, Configuration::new(Vec::new()), "user", own);
            verdict(&evaluation, &[], Visibility::Agent).message
        };
        let known = ["threads", "registers", "smem", "grid", "zero_work", "memory", "cluster", "cooperative"];
        let mut all: Vec<String> = known.map(said).into();
        assert!(all.iter().all(|text| !text.contains("4711") && !text.contains("secret")), "{all:?}");
        all.push(said("another"));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), known.len() + 1, "each has its own words");
    }

    #[test]
    fn an_agent_learns_nothing_of_the_run() {
        for kind in VerdictKind::ALL {
            let own = Verdict::new(*kind, "off at y[12345] of `secret`, seed 4711, in ./srv/evidence")
                .with_cause("secret_4711")
                .with("seed_index", 4711)
                .with("family", "spikes")
                .with("log_tail", "12345");
            let evaluation = fake::evaluation(0, Configuration::new(Vec::new()), "user", own);
            let told = verdict(&evaluation, &[], Visibility::Agent);
            let text = format!("{told:?}");
            let is_own_text = matches!(kind, VerdictKind::RejectedConstraint | VerdictKind::RenderError);
            for secret in ["secret_4711", "seed_index", "log_tail", "./srv"] {
                assert!(!text.contains(secret), "{kind}: {text}");
            }
            // What these two say is about the candidate's own text and configuration.
            assert!(
                is_own_text || !["12345", "`secret`"].iter().any(|own| text.contains(own)),
                "{kind}: {text}"
            );
            assert_eq!(told.evidence["family"], "spikes");
            let all = verdict(&evaluation, &[], Visibility::Owner);
            assert_eq!(
                (all.cause.as_deref(), &all.evidence["seed_index"]),
                (Some("secret_4711"), &4711.into())
            );
        }
    }
}
