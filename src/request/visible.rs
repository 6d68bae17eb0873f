//! What a candidate's author may learn of a verdict. Who knows seeds, values or the shapes that are only checked can fit
//! a candidate to them instead of making it right; so an agent is told the class, the family and the axis of a failure,
//! in sentences that hold nothing of the run. Everything is left out that is not named here.
//!
//! A compiler's errors are told at the candidate's own lines: a log names files of this machine that are none of the
//! author's business.

use evo_protocol::evaluation::Evaluation;
use evo_protocol::request::Visibility;
use evo_protocol::verdict::{Cause, Verdict, VerdictClass, VerdictKind};
use serde_json::{Value, json};

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
    Cause::named(cause).is_some() || CAUSES.split_whitespace().any(|known| known == cause)
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

/// What a candidate's own file is called in a compiler's log.
const OWN_NAME: &str = "candidate.cu";
/// Errors that are told: the first ones cause the others.
const TOLD: usize = 3;
const TEXT_MAX: usize = 400;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompilerHint {
    /// From 1, in the candidate's own text; absent where it cannot be told.
    pub line: Option<usize>,
    /// Without paths.
    pub text: String,
}

/// The first errors of a log that lie in the candidate's own text. A template's lines are not those that were compiled.
pub fn errors(log: &str, is_template: bool) -> Vec<CompilerHint> {
    let mut found: Vec<CompilerHint> = Vec::new();
    for (line, message) in log.lines().filter_map(own_error) {
        let text = without_paths(message).chars().take(TEXT_MAX).collect();
        let hint = CompilerHint { line: (!is_template).then_some(line), text };
        if found.len() < TOLD && !found.contains(&hint) {
            found.push(hint);
        }
    }
    found
}

/// Line and text of an error in the candidate's own file: `candidate.cu:3:5: error: …` or `candidate.cu(3): error: …`.
fn own_error(line: &str) -> Option<(usize, &str)> {
    let at = line.find(OWN_NAME)?;
    let rest = &line[at + OWN_NAME.len()..];
    let digits = rest.trim_start_matches([':', '(']);
    let end = digits.find(|letter: char| !letter.is_ascii_digit())?;
    let number = digits[..end].parse().ok()?;
    let message = digits[end..].find("error").map(|from| &digits[end + from..])?;
    Some((number, message.trim()))
}

/// A text in which every path of several parts is cut to its last part.
pub fn without_paths(text: &str) -> String {
    let is_part = |letter: char| letter.is_alphanumeric() || "._-+~/".contains(letter);
    let cut = |piece: &str| {
        let path = piece.trim_end_matches(|letter: char| !is_part(letter));
        let parts = path.matches('/').count();
        // `a / b` and `//` are not paths.
        let is_path = path.len() > 2 && (parts > 1 || parts == 1 && path.starts_with(['/', '.', '~']));
        let shown = path.rsplit('/').find(|part| !part.is_empty()).filter(|_| is_path);
        format!("{}{}", shown.unwrap_or(if is_path { "" } else { path }), &piece[path.len()..])
    };
    text.split_inclusive(|letter: char| !is_part(letter)).map(cut).collect()
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

    #[test]
    fn errors_lie_at_the_lines_of_the_candidate() {
        let log = "In file included from b.h:3:\ncandidate.cu:4:7: error: 'foo' was not declared in ./y/k.h\n\
                   candidate.cu(9): error: expected a \";\"\nother.cu:1:1: error: no\ncandidate.cu:12: note: here\n";
        let told = errors(log, false);
        let expected =
            [(Some(4), "error: 'foo' was not declared in k.h"), (Some(9), "error: expected a \";\"")];
        let told: Vec<_> = told.iter().map(|one| (one.line, one.text.as_str())).collect();
        assert_eq!(told, expected);
        assert_eq!(errors("nothing", false), []);
        assert!(errors(log, true).iter().all(|hint| hint.line.is_none()));
    }

    #[test]
    fn paths_lose_their_folders() {
        let check = |text: &str, expected: &str| assert_eq!(without_paths(text), expected);
        check("in ./include/x.h:3 and ../a/b.cu.", "in x.h:3 and b.cu.");
        check("a / b, // c, 1/2", "a / b, // c, 1/2");
        check("a/b/c é/ü/z", "c z");
    }
}
