//! `evo gate`: the comparison with a baseline as rows, as a table and as annotations. What is not known is null, with its
//! reason.

use evo_protocol::envelope::EnvelopeStatus;
use evo_protocol::known::{because, told};
use evo_protocol::words;
use evo_timing::regression::RegressionDecision;
use minijinja::context;
use minijinja::value::Serde;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::json;

use super::templates;

words! {
    /// What became of one problem.
    #[derive(Default)]
    GatedDecision {
        Pass = "pass",
        Regression = "regression",
        Noisy = "noisy",
        /// The candidate is wrong.
        Incorrect = "incorrect",
        /// The baseline has it, and the space has not.
        Missing = "missing",
        /// It was not compared.
        #[default]
        NotRun = "not_run",
    }
}

impl GatedDecision {
    fn fails(self) -> bool {
        use GatedDecision::{Incorrect, Missing, Regression};
        matches!(self, Regression | Incorrect | Missing)
    }
}

impl From<RegressionDecision> for GatedDecision {
    fn from(found: RegressionDecision) -> GatedDecision {
        match found {
            RegressionDecision::Pass => GatedDecision::Pass,
            RegressionDecision::Regression => GatedDecision::Regression,
            RegressionDecision::Noisy => GatedDecision::Noisy,
        }
    }
}

/// One problem of the baseline or of the space. Times are medians of this run, nanoseconds.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct GatedProblem {
    pub problem: String,
    pub baseline_p50_ns: Option<f64>,
    pub candidate_p50_ns: Option<f64>,
    /// The candidate's time over the baseline's, with its 95 % interval.
    pub ratio: Option<f64>,
    pub ratio_low: Option<f64>,
    pub ratio_high: Option<f64>,
    pub floor: Option<f64>,
    #[schemars(with = "String")]
    pub decision: GatedDecision,
    /// Why, where the numbers do not say so.
    pub why: String,
    pub correct: Option<bool>,
    pub rounds: Option<u32>,
    pub p: Option<f64>,
    /// The baseline's time when it was made, nanoseconds; a label.
    pub stored_p50_ns: Option<f64>,
    /// In the space file.
    #[serde(skip)]
    pub line: Option<u32>,
}

impl GatedProblem {
    fn why_unknown(&self, field: &str) -> &str {
        match field {
            "correct" => "the candidate was not judged on it",
            "stored_p50_ns" => "the baseline has no time at these sizes",
            _ if self.rounds.is_some() || self.why.is_empty() => "it was not compared",
            _ => &self.why,
        }
    }
}

fn with_reasons<S: Serializer>(problems: &[GatedProblem], serializer: S) -> Result<S::Ok, S::Error> {
    let rows = problems.iter().map(|row| because(json!(row), &|field| row.why_unknown(field).to_string()));
    serializer.collect_seq(rows)
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
pub enum GateAnswer {
    Run(Box<GateResult>),
    Init(GateInit),
}

/// A whole run.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct GateResult {
    pub decision: EnvelopeStatus,
    pub why: String,
    pub baseline: String,
    pub threshold_percent: f64,
    #[serde(serialize_with = "with_reasons")]
    pub problems: Vec<GatedProblem>,
    pub goals: Vec<JudgedGoal>,
    /// Demanded gates that did not run.
    pub missing: Vec<String>,
    pub informational: [&'static str; 1],
    pub notes: Vec<String>,
    /// Of the line that was written.
    pub number: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
    /// Whether the candidate is the baseline now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated: Option<bool>,
    #[serde(skip)]
    pub kernel: String,
    #[serde(skip)]
    pub device: String,
    /// The space file, where it is one.
    #[serde(skip)]
    pub file: Option<String>,
    /// Why nothing was compared.
    #[serde(skip)]
    pub not_compared: Option<String>,
}

impl GateResult {
    /// Of which numbers nothing depends.
    pub const INFORMATIONAL: [&str; 1] = ["stored_p50_ns"];

    /// The same with how the run ended, and why. What was not seen never passes.
    pub fn decided(self) -> GateResult {
        let (decision, why) = self.outcome();
        GateResult { decision, why, ..self }
    }

    fn outcome(&self) -> (EnvelopeStatus, String) {
        let problems = |wanted: &dyn Fn(GatedDecision) -> bool| {
            let rows = self.problems.iter().filter(|row| wanted(row.decision));
            rows.map(|row| format!("`{}`", row.problem)).collect::<Vec<_>>().join(", ")
        };
        let goals = |wanted: GoalState| {
            let goals = self.goals.iter().filter(|goal| goal.state == wanted && !goal.is_allowed);
            goals.map(|goal| goal.goal.as_str()).collect::<Vec<_>>().join("; ")
        };
        let worst = self.problems.iter().find(|row| row.decision.fails()).map(|row| row.why.as_str());
        let failed = worst.map(|worst| format!("{} failed: {worst}", problems(&GatedDecision::fails)));
        let unmet = Some(goals(GoalState::Unmet)).filter(|goals| !goals.is_empty());
        let unmet = unmet.map(|goals| format!("unmet goals: {goals}"));
        let why: Vec<String> = failed.into_iter().chain(unmet).collect();
        if !why.is_empty() {
            return (EnvelopeStatus::Fail, why.join("; "));
        }
        let unseen = problems(&|decision| decision == GatedDecision::NotRun);
        let open = goals(GoalState::NotRun);
        let not_run = if let Some(why) = &self.not_compared {
            Some(why.clone())
        } else if !self.missing.is_empty() {
            Some(format!("did not run, though demanded: {}", self.missing.join(", ")))
        } else if !unseen.is_empty() || self.problems.is_empty() {
            Some(format!("not compared: {unseen}"))
        } else {
            (!open.is_empty()).then(|| format!("goals that nothing judged: {open}"))
        };
        if let Some(why) = not_run {
            return (EnvelopeStatus::NotRun, why);
        }
        let noisy = problems(&|decision| decision == GatedDecision::Noisy);
        let threshold = percent(self.threshold_percent / 100.0);
        if !noisy.is_empty() {
            let text = format!(
                "{noisy}: the noise hides a slowdown of {threshold}; run it again on a quieter machine, or allow more \
                 with `--threshold`"
            );
            return (EnvelopeStatus::Noisy, text);
        }
        (EnvelopeStatus::Pass, format!("no problem is slower by more than {threshold}"))
    }

    /// The table of `gate.md`, of a pull request's summary and of a terminal.
    pub fn markdown(&self) -> String {
        let (kernel, device) = (&self.kernel, &self.device);
        let result = minijinja::Value::from(Serde(told(self).0));
        templates::lines("gate.page.j2", context! { kernel, device, ..result })
    }

    /// What GitHub shows beside the space file: workflow commands of the worst, errors first, escaped as GitHub's runner
    /// reads them (`actions/toolkit`, `packages/core/src/command.ts`).
    pub fn github_commands(&self) -> Vec<String> {
        // Whether it is an error, how bad it is, its line, its title and its text.
        let failed = self.problems.iter().filter(|row| row.decision != GatedDecision::Pass);
        let problems = failed.map(|row| {
            let title = format!("{} {}", row.problem, row.decision.as_str());
            (row.decision.fails(), row.ratio.unwrap_or(f64::MAX), row.line, title, &row.why)
        });
        let open = self.goals.iter().filter(|goal| goal.state != GoalState::Met && !goal.is_allowed);
        let goals = open.map(|goal| {
            (goal.state == GoalState::Unmet, 0.0, None, format!("goal {}", goal.goal), &goal.why)
        });
        let mut all: Vec<_> = problems.chain(goals).collect();
        if all.is_empty() && self.decision != EnvelopeStatus::Pass {
            let is_error = self.decision == EnvelopeStatus::Fail;
            all.push((is_error, 0.0, None, self.decision.as_str().to_string(), &self.why));
        }
        all.sort_by(|a, b| b.0.cmp(&a.0).then(b.1.total_cmp(&a.1)));
        let data = |text: &str| text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A");
        let property = |text: &str| data(text).replace(':', "%3A").replace(',', "%2C");
        let command = |(is_error, _, line, title, why): (bool, f64, Option<u32>, String, &String)| {
            let word = if is_error { "error" } else { "warning" };
            // A line without its file says nothing.
            let line = line.filter(|_| self.file.is_some()).map(|line| format!("line={line},"));
            let file = self.file.as_ref().map(|file| format!("file={},", property(file)));
            let [file, line] = [file, line].map(Option::unwrap_or_default);
            format!("::{word} {file}{line}title={}::{}", property(&format!("evo gate: {title}")), data(why))
        };
        all.into_iter().take(ANNOTATIONS).map(command).collect()
    }
}

/// GitHub shows ten errors and ten warnings of a step.
const ANNOTATIONS: usize = 10;

/// `0.02` as `2 %`.
pub fn percent(share: f64) -> String {
    let percent = (share * 1e4).round() / 100.0;
    format!("{percent} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(decision: GatedDecision) -> GatedProblem {
        let (problem, why) = ("a|b".to_string(), "because".to_string());
        let baseline_p50_ns = Some(1e3);
        GatedProblem { problem, decision, why, baseline_p50_ns, line: Some(4), ..GatedProblem::default() }
    }

    fn run(decisions: &[GatedDecision]) -> GateResult {
        GateResult {
            threshold_percent: 2.0,
            problems: decisions.iter().copied().map(problem).collect(),
            ..GateResult::default()
        }
    }

    #[test]
    fn what_was_not_seen_never_passes() {
        use EnvelopeStatus::{Fail, Noisy, NotRun, Pass};
        let check = |run: GateResult, expected: EnvelopeStatus| {
            let run = run.decided();
            assert_eq!(run.decision, expected, "{run:?}");
        };
        let (pass, noisy) = (GatedDecision::Pass, GatedDecision::Noisy);
        for (decisions, expected) in [
            (&[pass, pass][..], Pass),
            (&[], NotRun),
            (&[pass, noisy], Noisy),
            (&[pass, GatedDecision::NotRun], NotRun),
            (&[noisy, GatedDecision::Regression], Fail),
            (&[pass, GatedDecision::Missing], Fail),
            (&[GatedDecision::Incorrect], Fail),
        ] {
            check(run(decisions), expected);
        }
        check(GateResult { missing: vec!["honesty".into()], ..run(&[pass]) }, NotRun);
        let goal = |state, is_allowed| {
            let [goal, why] = ["p90", "w"].map(String::from);
            JudgedGoal { name: "p90", goal, state, why, is_allowed }
        };
        let (met, open) = (goal(GoalState::Met, false), goal(GoalState::NotRun, false));
        let with = |goals| GateResult { goals, ..run(&[pass]) };
        check(with(vec![met, goal(GoalState::NotRun, true)]), Pass);
        check(with(vec![open.clone()]), NotRun);
        check(with(vec![open, goal(GoalState::Unmet, false)]), Fail);
    }

    #[test]
    fn rows_are_told_with_their_reasons_and_a_bar_stays_in_its_cell() {
        let run = run(&[GatedDecision::NotRun, GatedDecision::Pass]).decided();
        let (result, reasons) = told(&run);
        assert_eq!([&result["decision"], &result["problems"][0]["decision"]], ["not_run"; 2]);
        assert_eq!(reasons["problems.0.ratio"], "because");
        assert!(run.markdown().contains("| a\\|b | 1.00 µs |"), "{}", run.markdown());
        assert_eq!(run.github_commands(), ["::warning title=evo gate%3A a|b not_run::because"]);
    }

    #[test]
    fn github_gets_the_ten_worst_with_what_a_runner_would_read_otherwise_escaped() {
        let mut run = run(&[GatedDecision::NotRun; 12]);
        run.problems[10] = GatedProblem { ratio: Some(1.5), ..problem(GatedDecision::Regression) };
        run.problems[11] =
            GatedProblem { why: "+4 %,\r\n::error::x".into(), ..problem(GatedDecision::Missing) };
        let commands = GateResult { file: Some("a,b:c%.toml".into()), ..run }.github_commands();
        assert_eq!(commands.len(), 10);
        assert_eq!(
            commands[0],
            "::error file=a%2Cb%3Ac%25.toml,line=4,title=evo gate%3A a|b missing::+4 %25,%0D%0A::error::x"
        );
        assert!(commands[1].ends_with("regression::because") && commands[2].starts_with("::warning"));
    }
}
