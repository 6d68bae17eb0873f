//! A mutator's candidates, judged by the requests of `evo evaluate`: the same gates, the same screening, the same paired
//! comparison with the best so far, the same records. The answers are those that a candidate's author may read.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::candidate::CandidateArgs;
use crate::cli::error::CliError;
use crate::cli::evaluate_args::{EvaluateArgs, Requirement};
use crate::cli::exit_code::ExitCode;
use crate::cli::limits::LimitArgs;
use crate::cli::one_args::{RunArgs, SandboxMode, SpaceAccessArgs, TestOneArgs};
use crate::cli::request::{RequestSession, judged_answer};
use crate::cli::request_args::RequestArgs;
use crate::engine::turns::{MeasuringTurn, MeasuringTurns};
use crate::mutator::process::MutatorStop;
use crate::mutator::species::{SpeciesCandidate, SpeciesJudge, SpeciesVerdict};
use crate::request::answer::AnswerHead;
use crate::request::ask::{
    EvaluationLevel, EvaluationRequest, FEEDBACK_BYTES, FeedbackWanted, RequestLimits, RequestedBaseline,
    RequestedCandidate, Visibility,
};

/// With less time than this a candidate would only be begun.
const LEAST: Duration = Duration::from_secs(1);

/// The judge of one run.
pub struct EvaluateJudge<'a> {
    session: RequestSession<'a>,
    is_template: bool,
    until: Instant,
    /// How deep the best of a round is judged.
    deep: EvaluationLevel,
    is_lost: bool,
    /// Of the device, where a search measures on it too.
    turns: Option<MeasuringTurns>,
    stop: MutatorStop,
}

/// Under which conditions candidates are judged: those of a sweep.
pub struct JudgeSetting {
    /// By name or path.
    pub space: String,
    pub device: String,
    pub seed: u64,
    pub problems: Vec<String>,
    pub out: PathBuf,
    pub worker_command: Option<String>,
    pub sandbox: SandboxMode,
    pub access: SpaceAccessArgs,
    pub limits: LimitArgs,
    pub limit_sampling: Option<Duration>,
    /// Of one candidate, at most.
    pub time: Duration,
}

/// The options of `evo evaluate` that judge so. What its acceptance demands is at its defaults.
pub fn arguments(own: JudgeSetting) -> EvaluateArgs {
    let candidate = CandidateArgs { config: None, source: None, launch: None, out: own.out, study: None };
    let run = RunArgs {
        device: own.device,
        seed: Some(own.seed),
        worker_command: own.worker_command,
        limit_sampling: own.limit_sampling,
        access: own.access,
        limits: own.limits,
        sandbox: own.sandbox,
        json: false,
    };
    let one = TestOneArgs {
        words: vec![own.space],
        space: None,
        candidate,
        problems: own.problems,
        allow_not_run: Vec::new(),
        run,
        grid: Vec::new(),
    };
    EvaluateArgs {
        one,
        against: None,
        accept: 0.03,
        on: 2,
        revert_above: 0.02,
        hypothesis: None,
        parent: None,
        claimed: None,
        grid: None,
        profile: false,
        sanitize: false,
        require: Requirement::Correct,
        time_limit: own.time,
        requests: RequestArgs { visibility: Some(Visibility::Agent), ..RequestArgs::default() },
    }
}

impl<'a> EvaluateJudge<'a> {
    /// A judge whose device is not open yet.
    ///
    /// # Errors
    /// There is no such device, or no compiler for it.
    pub fn begin(
        arguments: &'a EvaluateArgs,
        is_template: bool,
        until: Instant,
        deep: EvaluationLevel,
    ) -> Result<EvaluateJudge<'a>, CliError> {
        let session = RequestSession::begin(arguments)?;
        let (turns, stop) = (None, MutatorStop::default());
        Ok(EvaluateJudge { session, is_template, until, deep, is_lost: false, turns, stop })
    }

    /// The same beside a search: the device is taken in turns with it, for one measurement each, and nothing more is
    /// judged once `stop` says so.
    #[must_use]
    pub fn beside(self, turns: MeasuringTurns, stop: MutatorStop) -> EvaluateJudge<'a> {
        EvaluateJudge { turns: Some(turns), stop, ..self }
    }

    /// The device, for one measurement.
    fn turn(&self) -> Option<MeasuringTurn> {
        self.turns.as_ref().map(MeasuringTurns::take)
    }

    /// Compiles a candidate while a search has the device, so that no compiler works in a turn of ours; what became of one
    /// that does not compile.
    fn refused_early(&mut self, candidate: &SpeciesCandidate) -> Option<SpeciesVerdict> {
        self.turns.as_ref()?;
        // A worker that begins runs the reference.
        let _turn = if self.session.warm.is_none() { self.turn() } else { None };
        let request = self.request(candidate, EvaluationLevel::Compile);
        let own = judged_answer(&mut self.session, &request, &AnswerHead::default());
        let passed = own.answer["status"] == "done" && own.answer["verdict"] == "pass";
        (!passed).then(|| self.told(own.answer, own.exit))
    }

    /// A candidate side by side with an evaluation of a study, by the hash of its configuration.
    pub fn compared(&mut self, candidate: &SpeciesCandidate, hash: &str) -> SpeciesVerdict {
        let mut request = self.request(candidate, EvaluationLevel::Confirm);
        request.baseline = Some(RequestedBaseline::Hash(hash.to_string()));
        let own = judged_answer(&mut self.session, &request, &AnswerHead::default());
        self.told(own.answer, own.exit)
    }

    fn request(&self, candidate: &SpeciesCandidate, level: EvaluationLevel) -> EvaluationRequest {
        let left = self.until.saturating_duration_since(Instant::now()).max(LEAST);
        EvaluationRequest {
            id: Value::Null,
            space: None,
            candidate: RequestedCandidate {
                source: candidate.source.clone(),
                is_template: self.is_template && candidate.source.is_some(),
                entry: None,
                configuration: Some(json!(candidate.configuration).to_string()),
                launches: candidate.launches.clone(),
            },
            level: Some(level),
            baseline: None,
            limits: RequestLimits { total: Some(left), ..RequestLimits::default() },
            feedback: FeedbackWanted::default(),
            visibility: Some(Visibility::Agent),
            tag: None,
        }
    }

    fn told(&mut self, answer: Value, exit: ExitCode) -> SpeciesVerdict {
        self.is_lost |= exit == ExitCode::DeviceLost;
        verdict(answer)
    }
}

impl SpeciesJudge for EvaluateJudge<'_> {
    fn screen(&mut self, candidate: &SpeciesCandidate) -> SpeciesVerdict {
        if let Some(refused) = self.refused_early(candidate) {
            return refused;
        }
        let _turn = self.turn();
        let request = self.request(candidate, EvaluationLevel::Quick);
        let own = judged_answer(&mut self.session, &request, &AnswerHead::default());
        self.told(own.answer, own.exit)
    }

    fn confirm(&mut self, candidate: &SpeciesCandidate) -> SpeciesVerdict {
        let _turn = self.turn();
        // Its line in `iterations.jsonl` says what it was meant to do.
        let arguments =
            EvaluateArgs { hypothesis: candidate.hypothesis.clone(), ..self.session.arguments.clone() };
        let request = self.request(candidate, self.deep);
        let mut session = match RequestSession::begin(&arguments) {
            Ok(session) => session,
            Err(error) => return trouble(&error.to_string()),
        };
        session.warm = self.session.warm.take();
        let own = judged_answer(&mut session, &request, &AnswerHead::default());
        self.session.warm = session.warm.take();
        self.told(own.answer, own.exit)
    }

    fn rest(&mut self) {
        self.session.warm = None;
    }

    fn is_lost(&self) -> bool {
        self.is_lost || self.stop.is_set()
    }
}

/// What an answer means for a species.
fn verdict(answer: Value) -> SpeciesVerdict {
    let text = |value: &Value| value.as_str().map(String::from);
    // A mistake in a proposal is its author's, as a wrong answer is.
    let verdict = match answer["status"].as_str() {
        Some("rejected") => Some("refused".to_string()),
        _ => text(&answer["verdict"]),
    };
    let mut message = text(&answer["message"]).unwrap_or_default();
    if let Some(hint) = answer["error"]["hint"].as_str() {
        message.push_str(&format!("; {hint}"));
    }
    if let Some(why) = answer["acceptance"]["why"].as_str().filter(|_| message.is_empty()) {
        message = why.to_string();
    }
    let missing = answer["not_run"].as_array().is_some_and(|own| !own.is_empty());
    let passed = answer["verdict"] == "pass" && !missing;
    let is_paired = answer["level"] == "confirm";
    SpeciesVerdict {
        verdict: verdict.unwrap_or_else(|| "harness_error".to_string()),
        message,
        objective_ns: answer["performance"]["objective_ns"].as_f64().filter(|_| passed),
        speedup: answer["performance"]["speedup"]["value"].as_f64().filter(|_| passed && is_paired),
        accepted: answer["accepted"] == true,
        number: answer["acceptance"]["number"].as_u64(),
        resources: answer["features"].clone(),
        log_tail: log(&answer["feedback"]),
        answer,
    }
}

/// The feedback's text, and its hints where they say more, as far as there is room.
fn log(feedback: &Value) -> String {
    let mut text = feedback["text"].as_str().unwrap_or_default().to_string();
    let hints = feedback["hints"].as_array().into_iter().flatten();
    for hint in hints.filter_map(|hint| hint["text"].as_str()) {
        if !text.contains(hint) && text.len() + hint.len() < FEEDBACK_BYTES {
            text.push('\n');
            text.push_str(hint);
        }
    }
    text
}

fn trouble(why: &str) -> SpeciesVerdict {
    crate::cli::output::say(&format!("error: {why}"));
    SpeciesVerdict {
        verdict: "harness_error".into(),
        message: "evo or the machine failed, which says nothing about the candidate".into(),
        ..SpeciesVerdict::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_a_pass_has_no_time() {
        let passed = json!({ "status": "done", "verdict": "pass", "message": "", "level": "confirm", "not_run": [],
            "performance": { "objective_ns": 5.0, "speedup": { "value": 1.5 } }, "accepted": true,
            "acceptance": { "why": "faster", "number": 7 }, "feedback": { "text": "a", "hints": [{ "text": "b" }] } });
        let own = verdict(passed.clone());
        assert_eq!((own.objective_ns, own.speedup, own.number), (Some(5.0), Some(1.5), Some(7)));
        assert_eq!((own.message.as_str(), own.log_tail.as_str(), own.accepted), ("faster", "a\nb", true));
        let mut screened = passed.clone();
        screened["level"] = "quick".into();
        assert_eq!(verdict(screened).speedup, None, "a screening compares nothing side by side");
        let mut unanswered = passed;
        unanswered["not_run"] = json!(["honesty"]);
        assert_eq!(verdict(unanswered).objective_ns, None);
        let refused = json!({ "status": "rejected", "verdict": null, "message": "no entry `f`",
            "error": { "hint": "it launches `g`" } });
        let own = verdict(refused);
        assert_eq!(
            (own.verdict.as_str(), own.message.as_str()),
            ("refused", "no entry `f`; it launches `g`")
        );
        assert_eq!(verdict(json!({ "status": "harness_error", "verdict": null })).verdict, "harness_error");
    }
}
