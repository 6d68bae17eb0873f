//! `evo gate`: the comparison with a baseline as rows, as a table and as annotations. What is not known is null, with its
//! reason.

use evo_protocol::envelope::EnvelopeStatus;
use evo_protocol::known::Known;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::github::GithubAnnotation;
use evo_timing::regression::RegressionDecision;

/// What became of one problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GatedDecision {
    /// As the samples say.
    Compared(RegressionDecision),
    /// The candidate is wrong.
    Incorrect,
    /// The baseline has it, and the space has not.
    Missing,
    /// It was not compared.
    NotRun,
}

impl GatedDecision {
    /// The name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            GatedDecision::Compared(own) => own.as_str(),
            GatedDecision::Incorrect => "incorrect",
            GatedDecision::Missing => "missing",
            GatedDecision::NotRun => "not_run",
        }
    }

    /// Whether the run fails by it.
    fn fails(self) -> bool {
        use GatedDecision::{Compared, Incorrect, Missing};
        matches!(self, Compared(RegressionDecision::Regression) | Incorrect | Missing)
    }
}

impl Serialize for GatedDecision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One problem of the baseline or of the space. Times are medians of this run, nanoseconds.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GatedProblem {
    pub problem: String,
    pub baseline_p50_ns: Known<f64>,
    pub candidate_p50_ns: Known<f64>,
    /// The candidate's time over the baseline's, with its 95 % interval.
    pub ratio: Known<f64>,
    pub ratio_low: Known<f64>,
    pub ratio_high: Known<f64>,
    pub floor: Known<f64>,
    #[schemars(with = "String")]
    pub decision: GatedDecision,
    /// Why, where the numbers do not say so.
    pub why: String,
    pub correct: Known<bool>,
    pub rounds: Known<u32>,
    pub p: Known<f64>,
    /// Informational.
    pub mann_whitney_p: Known<f64>,
    pub cliffs_delta: Known<f64>,
    /// The baseline's time when it was made, nanoseconds; a label.
    pub stored_p50_ns: Known<f64>,
    /// In the space file.
    #[serde(skip)]
    pub line: Option<u32>,
}

impl GatedProblem {
    /// A problem of which no number is known.
    pub fn blank(problem: &str, decision: GatedDecision, why: String) -> GatedProblem {
        let absent = if why.is_empty() { "it was not compared" } else { &why };
        let number = || Known::Unknown(absent.to_string());
        GatedProblem {
            problem: problem.to_string(),
            baseline_p50_ns: number(),
            candidate_p50_ns: number(),
            ratio: number(),
            ratio_low: number(),
            ratio_high: number(),
            floor: number(),
            decision,
            correct: Known::Unknown("the candidate was not judged on it".into()),
            rounds: Known::Unknown(absent.to_string()),
            p: number(),
            mann_whitney_p: number(),
            cliffs_delta: number(),
            stored_p50_ns: Known::Unknown("the baseline has no time at these sizes".into()),
            line: None,
            why,
        }
    }
}

/// What became of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GoalState {
    Met,
    Unmet,
    NotRun,
}

/// One goal of the space file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct JudgedGoal {
    /// `faster_than`, `p90`, `metrics`.
    pub name: &'static str,
    /// As the space file has it.
    pub goal: String,
    pub state: GoalState,
    pub why: String,
    /// Whether `--allow-not-run` lets it not run.
    #[serde(skip)]
    pub is_allowed: bool,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateOutcome {
    Pass,
    Fail,
    NotRun,
    Noisy,
}

impl GateOutcome {
    /// The name in files.
    pub fn as_str(self) -> &'static str {
        match self {
            GateOutcome::Pass => "pass",
            GateOutcome::Fail => "fail",
            GateOutcome::NotRun => "not_run",
            GateOutcome::Noisy => "noisy",
        }
    }
}

/// A whole run.
#[derive(Debug)]
pub struct GateSheet {
    pub kernel: String,
    pub baseline: String,
    pub device: String,
    pub threshold: f64,
    /// The space file, where it is one.
    pub file: Option<String>,
    pub problems: Vec<GatedProblem>,
    pub goals: Vec<JudgedGoal>,
    /// Demanded gates that did not run.
    pub missing: Vec<String>,
    /// Why nothing was compared.
    pub not_compared: Option<String>,
    pub notes: Vec<String>,
}

/// The `result` of `evo gate --init`, which compares nothing.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GateInit {
    pub decision: EnvelopeStatus,
    pub why: String,
    pub baseline: String,
    pub updated: bool,
}

/// The `result` of `evo gate`, with `--init` or without.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum GateAnswer<'a> {
    Run(GateResult<'a>),
    Init(GateInit),
}

/// The `result` of a run.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GateResult<'a> {
    pub decision: GateOutcome,
    pub why: String,
    pub baseline: &'a str,
    pub threshold_percent: f64,
    pub problems: &'a [GatedProblem],
    pub goals: &'a [JudgedGoal],
    pub missing: &'a [String],
    pub informational: [&'static str; 3],
    pub notes: &'a [String],
    /// Of the line that was written.
    pub number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<&'a [String]>,
    /// Whether the candidate is the baseline now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<bool>,
}

impl GateSheet {
    /// How the run ended, and why. What was not seen never passes.
    pub fn outcome(&self) -> (GateOutcome, String) {
        let of = |wanted: &dyn Fn(&GatedProblem) -> bool| -> Vec<String> {
            self.problems.iter().filter(|own| wanted(own)).map(|own| format!("`{}`", own.problem)).collect()
        };
        let failed = of(&|own| own.decision.fails());
        let unmet: Vec<&str> = self.goals_in(GoalState::Unmet);
        if !failed.is_empty() || !unmet.is_empty() {
            let worst = self.problems.iter().find(|own| own.decision.fails()).map(|own| own.why.as_str());
            let mut why = Vec::new();
            why.extend(
                (!failed.is_empty())
                    .then(|| format!("{} failed: {}", failed.join(", "), worst.unwrap_or(""))),
            );
            why.extend((!unmet.is_empty()).then(|| format!("unmet goals: {}", unmet.join("; "))));
            return (GateOutcome::Fail, why.join("; "));
        }
        let open = self.goals_in(GoalState::NotRun);
        let unseen = of(&|own| own.decision == GatedDecision::NotRun);
        if let Some(why) = &self.not_compared {
            return (GateOutcome::NotRun, why.clone());
        }
        if !self.missing.is_empty() {
            return (
                GateOutcome::NotRun,
                format!("did not run, though demanded: {}", self.missing.join(", ")),
            );
        }
        if !unseen.is_empty() || self.problems.is_empty() {
            return (GateOutcome::NotRun, format!("not compared: {}", unseen.join(", ")));
        }
        if !open.is_empty() {
            return (GateOutcome::NotRun, format!("goals that nothing judged: {}", open.join("; ")));
        }
        let noisy = of(&|own| own.decision == GatedDecision::Compared(RegressionDecision::Noisy));
        if !noisy.is_empty() {
            let text = format!(
                "{}: the noise hides a slowdown of {}; run it again on a quieter machine, or allow more with \
                 `--threshold`",
                noisy.join(", "),
                percent(self.threshold)
            );
            return (GateOutcome::Noisy, text);
        }
        (GateOutcome::Pass, format!("no problem is slower by more than {}", percent(self.threshold)))
    }

    fn goals_in(&self, state: GoalState) -> Vec<&str> {
        let own = self.goals.iter().filter(|goal| goal.state == state && !goal.is_allowed);
        own.map(|goal| goal.goal.as_str()).collect()
    }

    /// The result of the run with that number.
    pub fn result(&self, number: u64) -> GateResult<'_> {
        let (decision, why) = self.outcome();
        GateResult {
            decision,
            why,
            baseline: &self.baseline,
            threshold_percent: self.threshold * 100.0,
            problems: &self.problems,
            goals: &self.goals,
            missing: &self.missing,
            informational: ["mann_whitney_p", "cliffs_delta", "stored_p50_ns"],
            notes: &self.notes,
            number,
            files: None,
            updated: None,
        }
    }

    /// The table of `gate.md`, of a pull request's summary and of a terminal.
    pub fn markdown(&self) -> String {
        let (outcome, why) = self.outcome();
        let mut text = format!(
            "## evo gate: {} on {}: {}\n\n{}\n\n",
            self.kernel,
            self.device,
            outcome.as_str(),
            plain(&why)
        );
        text += "| problem | baseline now | candidate now | ratio | 95 % interval | floor | decision | rounds | p* | delta* | stored* |\n";
        text += "|---|---|---|---|---|---|---|---|---|---|---|\n";
        for own in &self.problems {
            let cells = [
                own.problem.clone(),
                time(&own.baseline_p50_ns),
                time(&own.candidate_p50_ns),
                number(&own.ratio, 4),
                match (&own.ratio_low, &own.ratio_high) {
                    (Known::Is(low), Known::Is(high)) => format!("{low:.4} to {high:.4}"),
                    _ => "-".into(),
                },
                own.floor.value().map_or("-".into(), |floor| percent(*floor)),
                own.decision.as_str().to_string(),
                own.rounds.value().map_or("-".into(), u32::to_string),
                number(&own.mann_whitney_p, 3),
                number(&own.cliffs_delta, 2),
                time(&own.stored_p50_ns),
            ];
            text += &format!("| {} |\n", cells.map(|cell| plain(&cell).replace('|', "\\|")).join(" | "));
        }
        text += "\n\\* informational: p of Mann-Whitney's test and Cliff's delta over block times, which correlate, and the \
                 baseline's time when it was made. They decide nothing.\n";
        for goal in &self.goals {
            let state = match goal.state {
                GoalState::Met => "met",
                GoalState::Unmet => "unmet",
                GoalState::NotRun => "not run",
            };
            text += &format!("\n- goal `{}`: {state}: {}\n", plain(&goal.goal), plain(&goal.why));
        }
        for note in &self.notes {
            text += &format!("\n- note: {}\n", plain(note));
        }
        text
    }

    /// What GitHub shows beside the space file.
    pub fn annotations(&self) -> Vec<GithubAnnotation> {
        let mut all = Vec::new();
        for own in &self.problems {
            if own.decision == GatedDecision::Compared(RegressionDecision::Pass) {
                continue;
            }
            all.push(GithubAnnotation {
                is_error: own.decision.fails(),
                file: self.file.clone(),
                line: own.line,
                title: format!("evo gate: {} {}", own.problem, own.decision.as_str()),
                message: own.why.clone(),
                weight: own.ratio.value().copied().unwrap_or(f64::MAX),
            });
        }
        let whole = |is_error: bool, title: String, message: String| GithubAnnotation {
            is_error,
            file: self.file.clone(),
            line: None,
            title,
            message,
            weight: 0.0,
        };
        for goal in self.goals.iter().filter(|goal| goal.state != GoalState::Met && !goal.is_allowed) {
            let title = format!("evo gate: goal {}", goal.goal);
            all.push(whole(goal.state == GoalState::Unmet, title, goal.why.clone()));
        }
        let (outcome, why) = self.outcome();
        if all.is_empty() && outcome != GateOutcome::Pass {
            all.push(whole(outcome == GateOutcome::Fail, format!("evo gate: {}", outcome.as_str()), why));
        }
        all
    }
}

/// One line without what a table or a page would read as its own.
fn plain(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(" ").replace('<', "&lt;")
}

fn time(value_ns: &Known<f64>) -> String {
    value_ns.value().map_or("-".into(), |time| format!("{:.2} µs", time / 1e3))
}

fn number(value: &Known<f64>, digits: usize) -> String {
    value.value().map_or("-".into(), |value| format!("{value:.digits$}"))
}

/// `0.02` as `2 %`.
pub fn percent(share: f64) -> String {
    let percent = (share * 1e4).round() / 100.0;
    format!("{percent} %")
}

#[cfg(test)]
mod tests {
    use evo_protocol::known::told;

    use super::*;

    fn problem(decision: GatedDecision) -> GatedProblem {
        GatedProblem {
            baseline_p50_ns: Known::Is(1e3),
            line: Some(4),
            ..GatedProblem::blank("a|b", decision, "because".into())
        }
    }

    fn sheet(decisions: &[GatedDecision]) -> GateSheet {
        GateSheet {
            kernel: "k".into(),
            baseline: "evo-baseline.json".into(),
            device: "d".into(),
            threshold: 0.02,
            file: Some("k.toml".into()),
            problems: decisions.iter().copied().map(problem).collect(),
            goals: Vec::new(),
            missing: Vec::new(),
            not_compared: None,
            notes: Vec::new(),
        }
    }

    #[test]
    fn what_was_not_seen_never_passes() {
        use GateOutcome::{Fail, Noisy, NotRun, Pass};
        use GatedDecision::{Compared, Incorrect, Missing};
        let pass = Compared(RegressionDecision::Pass);
        let noisy = Compared(RegressionDecision::Noisy);
        let check = |decisions: &[GatedDecision], expected: GateOutcome| {
            assert_eq!(sheet(decisions).outcome().0, expected, "{decisions:?}");
        };
        check(&[pass, pass], Pass);
        check(&[], NotRun);
        check(&[pass, noisy], Noisy);
        check(&[pass, GatedDecision::NotRun], NotRun);
        check(&[noisy, Compared(RegressionDecision::Regression)], Fail);
        check(&[pass, Missing], Fail);
        check(&[Incorrect], Fail);
        let mut own = sheet(&[pass]);
        own.missing = vec!["honesty".into()];
        assert_eq!(own.outcome().0, NotRun);
        let mut own = sheet(&[pass]);
        let goal = |state, is_allowed| JudgedGoal {
            name: "p90",
            goal: "p90".into(),
            state,
            why: "w".into(),
            is_allowed,
        };
        own.goals = vec![goal(GoalState::Met, false), goal(GoalState::NotRun, true)];
        assert_eq!(own.outcome().0, Pass);
        own.goals = vec![goal(GoalState::NotRun, false)];
        assert_eq!(own.outcome().0, NotRun);
        own.goals.push(goal(GoalState::Unmet, false));
        assert_eq!(own.outcome().0, Fail);
    }

    #[test]
    fn rows_are_told_with_their_reasons_and_a_bar_stays_in_its_cell() {
        let sheet = sheet(&[GatedDecision::NotRun, GatedDecision::Compared(RegressionDecision::Pass)]);
        let (result, reasons) = told(&sheet.result(1));
        assert_eq!(
            (&result["decision"], &result["problems"][0]["decision"]),
            (&"not_run".into(), &"not_run".into())
        );
        assert_eq!(reasons["problems.0.ratio"], "because");
        assert!(sheet.markdown().contains("| a\\|b | 1.00 µs |"), "{}", sheet.markdown());
        assert_eq!(sheet.annotations().len(), 1);
        assert!(!sheet.annotations()[0].is_error);
    }
}
