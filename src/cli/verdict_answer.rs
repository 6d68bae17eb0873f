//! The answer about one candidate: exit code and status from its verdict and from the gates that ran. A gate that was
//! demanded and did not run never counts as a pass, unless `--allow-not-run` names it.

use evo_protocol::envelope::{EnvelopeStatus, LimitName};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::{Gate, GateReport, GateState, Verdict, VerdictKind};
use serde_json::{Value, json};

use super::aim::{Aim, BASELINE};
use super::answer::Answer;
use super::call::Call;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::one_args::TestOneArgs;
use super::trial::Tried;
use super::{output, session};
use crate::engine::single::Single;
use crate::report::{parity, single};

/// Prints the text, or fills the object, and says how it ended. `own` has the command's fields, `more` what it says
/// beyond the verdict.
pub fn show<T>(
    arguments: &TestOneArgs,
    call: &Call,
    tried: &Tried<T>,
    aim: Aim,
    own: Value,
    more: &str,
) -> Result<Answer, CliError> {
    let passed = tried.single.evaluation.verdict.is_pass();
    let absent = own.get("speedup_vs_baseline").filter(|own| passed && own.is_null()).map(|_| BASELINE);
    show_without(arguments, call, tried, aim, absent, own, more)
}

/// The same where `absent`, which was demanded beside the gates, did not run.
pub fn show_without<T>(
    arguments: &TestOneArgs,
    call: &Call,
    tried: &Tried<T>,
    aim: Aim,
    absent: impl IntoIterator<Item = &'static str>,
    mut own: Value,
    more: &str,
) -> Result<Answer, CliError> {
    let Tried { setting, single, .. } = tried;
    let evaluation = &single.evaluation;
    if let Some(hit) = limit_hit(&evaluation.verdict, arguments) {
        call.hit(hit);
    }
    let missing: Vec<&str> = missing(evaluation, aim).into_iter().chain(absent).collect();
    let mut answer = answer(single, &missing, &arguments.allow_not_run);
    let parity = parity::of(evaluation);
    own["parity"] = parity.fields;
    own["launches"] =
        tried.job.as_ref().map_or_else(|| json!([]), |job| single::launches(&job.all_checked()));
    answer.reasons.extend(parity.reasons);
    answer.own = own.to_string();
    answer.result = Some(json!({
        "verdict": evaluation.verdict.label(),
        "class": evaluation.verdict.kind.class(),
        "message": evaluation.verdict.message,
        "not_run": missing,
    }));
    if !call.is_json() {
        let text = single::text(setting, evaluation, &single.attributes);
        output::stdout(&format!("{more}{text}"))?;
        if answer.status == EnvelopeStatus::NotRun {
            output::say(&format!("not run, which does not count as a pass: {}", missing.join(", ")));
        }
    }
    Ok(answer)
}

/// Gates of a candidate that passes, which were demanded and did not run. Where no small shape can be derived, there is
/// nothing to run and nothing is missing.
pub fn missing(evaluation: &Evaluation, aim: Aim) -> Vec<&'static str> {
    if !evaluation.verdict.is_pass() {
        return Vec::new();
    }
    let ran = |gate: &Gate| {
        let ran = |report: &GateReport| report.state == GateState::Pass || report.lacks_shapes();
        evaluation.gate(*gate).is_some_and(ran)
    };
    aim.demanded().filter(|gate| !ran(gate)).map(Gate::as_str).collect()
}

fn answer(single: &Single, missing: &[&str], allowed: &[String]) -> Answer {
    let verdict = &single.evaluation.verdict;
    if single.lost {
        // First, because what a lost device answers says nothing about the variant.
        return Answer::failed(CliError::device(verdict.message.as_str()));
    }
    if verdict.is_trouble() {
        return Answer::failed(session::trouble("the variant could not be judged", verdict));
    }
    if !verdict.is_pass() {
        let status =
            if verdict.kind == VerdictKind::Noisy { EnvelopeStatus::Noisy } else { EnvelopeStatus::Fail };
        return Answer { status, ..Answer::from(ExitCode::Failed) };
    }
    let is_allowed = |name: &&&str| allowed.iter().any(|own| own == **name);
    let allowed_not_run = missing.iter().filter(is_allowed).map(|name| name.to_string()).collect();
    match missing.iter().all(|name| is_allowed(&name)) {
        true => Answer { allowed_not_run, ..Answer::from(ExitCode::Done) },
        false => Answer { allowed_not_run, status: EnvelopeStatus::NotRun, ..Answer::from(ExitCode::Failed) },
    }
}

/// The limit that a verdict is about, if it is about one.
pub fn limit_hit(verdict: &Verdict, arguments: &TestOneArgs) -> Option<LimitName> {
    if verdict.kind == VerdictKind::CompileTimeout {
        return Some(LimitName::Compile);
    }
    let waited_ms = verdict.evidence.get("deadline_ms")?.as_f64()?;
    (waited_ms >= arguments.run.limits.limit_device.as_secs_f64() * 1e3).then_some(LimitName::Device)
}

#[cfg(test)]
mod tests {
    use evo_space::genome::Configuration;

    use super::*;
    use crate::journal::example as fake;

    fn passed(not_run: &[Gate]) -> Single {
        let mut evaluation = fake::evaluation(0, Configuration::new(Vec::new()), "user", Verdict::pass());
        for report in &mut evaluation.gates {
            let ran = !not_run.contains(&report.gate) && report.gate != Gate::Confirmation;
            report.state = if ran { GateState::Pass } else { GateState::NotRun };
        }
        Single { evaluation, attributes: Vec::new(), lost: false }
    }

    #[track_caller]
    fn check(
        not_run: &[Gate],
        aim: Aim,
        allowed: &[&str],
        expected: (ExitCode, EnvelopeStatus),
        told: &[&str],
    ) {
        let single = passed(not_run);
        let allowed: Vec<String> = allowed.iter().map(|name| name.to_string()).collect();
        let answer = answer(&single, &missing(&single.evaluation, aim), &allowed);
        assert_eq!((answer.exit, answer.status), expected, "{not_run:?}");
        assert_eq!(answer.allowed_not_run, told, "{not_run:?}");
    }

    #[test]
    fn a_gate_that_did_not_run_never_passes_unless_it_is_allowed() {
        let (done, missing) =
            ((ExitCode::Done, EnvelopeStatus::Pass), (ExitCode::Failed, EnvelopeStatus::NotRun));
        check(&[], Aim::Whole, &[], done, &[]);
        check(&[Gate::Honesty], Aim::Whole, &[], missing, &[]);
        check(&[Gate::Honesty], Aim::Whole, &["honesty"], done, &["honesty"]);
        check(&[Gate::Honesty, Gate::FullShapes], Aim::Whole, &["honesty"], missing, &["honesty"]);
        check(&[Gate::Timing, Gate::Honesty], Aim::Gates, &[], done, &[]);
        check(&[Gate::Repeatability], Aim::Gates, &[], missing, &[]);
        // Allowed and run all the same: nothing to tell.
        check(&[], Aim::Whole, &["honesty"], done, &[]);
    }

    #[test]
    fn shapes_that_cannot_be_derived_are_not_missing() {
        let mut single = passed(&[Gate::TinyShapes]);
        assert_eq!(missing(&single.evaluation, Aim::Whole), ["tiny_shapes"]);
        let tiny = single.evaluation.gates.iter_mut().find(|report| report.gate == Gate::TinyShapes).unwrap();
        tiny.evidence.insert(GateReport::TAILS, GateReport::NOT_CHECKED);
        assert!(missing(&single.evaluation, Aim::Whole).is_empty());
    }

    #[test]
    fn trouble_and_losses_say_nothing_about_the_variant() {
        let with = |kind, lost| {
            let verdict = Verdict::new(kind, "why");
            let evaluation = fake::evaluation(0, Configuration::new(Vec::new()), "user", verdict);
            let answer = answer(&Single { evaluation, attributes: Vec::new(), lost }, &[], &[]);
            (answer.exit, answer.status, answer.error.is_some())
        };
        assert_eq!(with(VerdictKind::HarnessError, false), (ExitCode::Harness, EnvelopeStatus::Error, true));
        assert_eq!(with(VerdictKind::Hang, true), (ExitCode::DeviceLost, EnvelopeStatus::Error, true));
        assert_eq!(with(VerdictKind::Noisy, false), (ExitCode::Failed, EnvelopeStatus::Noisy, false));
        assert_eq!(with(VerdictKind::WrongAnswer, false), (ExitCode::Failed, EnvelopeStatus::Fail, false));
    }
}
