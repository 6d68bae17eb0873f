//! `evo gate`: the comparison with a baseline as rows, as a table and as annotations. What is not known is null, with its
//! reason.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::benchmark::Told;
use super::github::GithubAnnotation;
use evo_timing::regression::{RegressionDecision, RegressionFinding};

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

/// One problem of the baseline or of the space.
#[derive(Clone, Debug)]
pub struct GatedProblem {
    pub problem: String,
    /// In the space file.
    pub line: Option<u32>,
    pub decision: GatedDecision,
    /// Why, where the numbers do not say so.
    pub why: String,
    /// Absent where the candidate was not judged.
    pub correct: Option<bool>,
    pub finding: Option<RegressionFinding>,
    pub rounds: Option<u32>,
    /// Of this run, nanoseconds.
    pub baseline_p50_ns: Option<f64>,
    pub candidate_p50_ns: Option<f64>,
    /// Informational.
    pub mann_whitney_p: Option<f64>,
    pub cliffs_delta: Option<f64>,
    /// The baseline's time when it was made, nanoseconds; a label.
    pub stored_p50_ns: Option<f64>,
}

/// What became of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoalState {
    Met,
    Unmet,
    NotRun,
}

/// One goal of the space file.
#[derive(Clone, Debug)]
pub struct JudgedGoal {
    /// `faster_than`, `p90`, `metrics`.
    pub name: &'static str,
    /// As the space file has it.
    pub goal: String,
    pub state: GoalState,
    pub why: String,
    /// Whether `--allow-not-run` lets it not run.
    pub is_allowed: bool,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// An object and why some of its fields are null, by dotted path.
type Reasoned = (Value, BTreeMap<String, String>);

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

    /// The result.
    pub fn fields(&self) -> Reasoned {
        let (outcome, why) = self.outcome();
        let mut reasons = BTreeMap::new();
        let mut rows = Vec::new();
        for (at, own) in self.problems.iter().enumerate() {
            let (row, told) = row(own);
            rows.push(row);
            reasons.extend(told.into_iter().map(|(name, why)| (format!("result.problems.{at}.{name}"), why)));
        }
        let goal = |own: &JudgedGoal| {
            let state = match own.state {
                GoalState::Met => "met",
                GoalState::Unmet => "unmet",
                GoalState::NotRun => "not_run",
            };
            json!({ "name": own.name, "goal": own.goal, "state": state, "why": own.why })
        };
        let result = json!({
            "decision": outcome.as_str(),
            "why": why,
            "baseline": self.baseline,
            "threshold_percent": self.threshold * 100.0,
            "problems": rows,
            "goals": self.goals.iter().map(goal).collect::<Vec<_>>(),
            "missing": self.missing,
            "informational": ["mann_whitney_p", "cliffs_delta", "stored_p50_ns"],
            "notes": self.notes,
        });
        (result, reasons)
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
            let found = own.finding;
            let cells = [
                own.problem.clone(),
                time(own.baseline_p50_ns),
                time(own.candidate_p50_ns),
                number(found.map(|own| own.ratio), 4),
                found.map_or("-".into(), |own| format!("{:.4} to {:.4}", own.ratio_low, own.ratio_high)),
                found.map_or("-".into(), |own| percent(own.floor)),
                own.decision.as_str().to_string(),
                own.rounds.map_or("-".into(), |rounds| rounds.to_string()),
                number(own.mann_whitney_p, 3),
                number(own.cliffs_delta, 2),
                time(own.stored_p50_ns),
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
                weight: own.finding.map_or(f64::MAX, |found| found.ratio),
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

fn row(own: &GatedProblem) -> Reasoned {
    let mut told = Told::default();
    let found = own.finding;
    let absent = if own.why.is_empty() { "it was not compared" } else { own.why.as_str() };
    told.tell("problem", Some(own.problem.as_str().into()), "");
    told.number("baseline_p50_ns", own.baseline_p50_ns, absent);
    told.number("candidate_p50_ns", own.candidate_p50_ns, absent);
    told.number("ratio", found.map(|own| own.ratio), absent);
    told.number("ratio_low", found.map(|own| own.ratio_low), absent);
    told.number("ratio_high", found.map(|own| own.ratio_high), absent);
    told.number("floor", found.map(|own| own.floor), absent);
    told.tell("decision", Some(own.decision.as_str().into()), "");
    told.tell("why", Some(own.why.as_str().into()), "");
    told.tell("correct", own.correct.map(Value::from), "the candidate was not judged on it");
    told.tell("rounds", own.rounds.map(Value::from), absent);
    told.number("p", found.map(|own| own.p), absent);
    let unranked = if own.finding.is_some() { "all times are equal" } else { absent };
    told.number("mann_whitney_p", own.mann_whitney_p, unranked);
    told.number("cliffs_delta", own.cliffs_delta, unranked);
    told.number("stored_p50_ns", own.stored_p50_ns, "the baseline has no time at these sizes");
    let fields: Map<String, Value> = told.fields;
    (Value::Object(fields), told.reasons)
}

/// One line without what a table or a page would read as its own.
fn plain(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(" ").replace('<', "&lt;")
}

fn time(value_ns: Option<f64>) -> String {
    value_ns.map_or("-".into(), |time| format!("{:.2} µs", time / 1e3))
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or("-".into(), |value| format!("{value:.digits$}"))
}

/// `0.02` as `2 %`.
pub fn percent(share: f64) -> String {
    let percent = (share * 1e4).round() / 100.0;
    format!("{percent} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(decision: GatedDecision) -> GatedProblem {
        let decided = RegressionDecision::Pass;
        let found = RegressionFinding {
            decision: decided,
            ratio: 1.0,
            ratio_low: 0.99,
            ratio_high: 1.01,
            floor: 0.004,
            p: 1.0,
        };
        GatedProblem {
            problem: "a|b".into(),
            line: Some(4),
            decision,
            why: "because".into(),
            correct: Some(true),
            finding: matches!(decision, GatedDecision::Compared(_)).then_some(found),
            rounds: Some(1),
            baseline_p50_ns: Some(1e3),
            candidate_p50_ns: Some(1e3),
            mann_whitney_p: Some(0.5),
            cliffs_delta: Some(0.0),
            stored_p50_ns: None,
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
        let own = sheet(&[GatedDecision::NotRun, GatedDecision::Compared(RegressionDecision::Pass)]);
        let (result, reasons) = own.fields();
        for (at, row) in result["problems"].as_array().unwrap().iter().enumerate() {
            for (name, value) in row.as_object().unwrap() {
                let path = format!("result.problems.{at}.{name}");
                assert_eq!(value.is_null(), reasons.contains_key(&path), "{path}");
            }
        }
        assert!(own.markdown().contains("| a\\|b | 1.00 µs |"), "{}", own.markdown());
        assert_eq!(own.annotations().len(), 1);
        assert!(!own.annotations()[0].is_error);
    }
}
