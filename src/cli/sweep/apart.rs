//! `--per-problem`: a search for the best configuration of each timed problem, and what is said of it.

use evo_protocol::device::DeviceInfo;
use evo_protocol::evaluation::Evaluation;
use evo_search::strategy::Strategy;
use evo_search::{PerProblem, ProblemSearch};
use evo_space::genome::Configuration;
use evo_space::space::SearchSpace;
use evo_space::text::counted;
use serde::Serialize;
use serde_json::{Value, json};

use super::choice::EXHAUSTIVE;
use super::plan::SweepPlan;
use crate::cli::error::CliError;
use crate::engine::Recipe;
use crate::journal::leaderboard::roofline_ns;
use crate::report::text;
use crate::report::width::wrapped;
use crate::study::Study;

#[derive(Debug, Default, PartialEq)]
pub struct ApartChoice {
    /// The least time of each problem that the device's peaks allow, nanoseconds; empty where the choice is off.
    pub bounds: Vec<Option<f64>>,
    pub notice: Option<String>,
}

fn choose(is_wished: bool, strategy: &str, problems: &[String], bounds: Vec<Option<f64>>) -> ApartChoice {
    let off = |why: String| ApartChoice {
        notice: Some(format!("`--per-problem` changes nothing: {why}")),
        ..ApartChoice::default()
    };
    match problems {
        _ if !is_wished => ApartChoice::default(),
        [] => off("no problem is timed".to_string()),
        [only] => off(format!("`{only}` is the only timed problem")),
        _ if strategy == EXHAUSTIVE => {
            off(format!("`{EXHAUSTIVE}` evaluates every configuration on every problem"))
        }
        several => {
            let known = bounds.iter().flatten().count();
            let count = several.len();
            let known = if known == count { "all".to_string() } else { known.to_string() };
            let notice = format!(
                "the search is for the best configuration of each of {count} problems; the roofline is known of {known}"
            );
            ApartChoice { bounds, notice: Some(notice) }
        }
    }
}

pub fn of<R: Recipe>(plan: &SweepPlan, recipe: &R, problems: &[String], device: &DeviceInfo) -> ApartChoice {
    let bounds = match plan.per_problem {
        true => bounds(plan.subject.space(), recipe, problems, device),
        false => Vec::new(),
    };
    choose(plan.per_problem, &plan.strategy, problems, bounds)
}

/// By the default configuration: a space file says the work of the problem, not of the variant.
fn bounds<R: Recipe>(
    space: &SearchSpace,
    recipe: &R,
    problems: &[String],
    device: &DeviceInfo,
) -> Vec<Option<f64>> {
    let default = space.configuration(&space.default_genome());
    let work = recipe.prepare(&default).map(|prepared| recipe.work(&prepared)).unwrap_or_default();
    let bound = |name: &String| roofline_ns(device, work.iter().find(|own| own.problem == *name)?);
    problems.iter().map(bound).collect()
}

pub fn strategy<'a>(plan: &'a SweepPlan, choice: &ApartChoice) -> Result<Box<dyn Strategy + 'a>, CliError> {
    if choice.bounds.is_empty() {
        return plan.strategy();
    }
    let search = |bound: &Option<f64>| Ok(ProblemSearch::new(plan.strategy()?, *bound));
    let searches = choice.bounds.iter().map(search).collect::<Result<Vec<_>, CliError>>()?;
    match PerProblem::new(searches, plan.seed) {
        Some(apart) => Ok(Box::new(apart)),
        None => plan.strategy(),
    }
}

#[derive(Serialize)]
struct ProblemEnd<'a> {
    problem: &'a str,
    aimed_at: usize,
    bound_ns: Option<f64>,
    best: Option<ProblemBest<'a>>,
}

#[derive(Serialize)]
struct ProblemBest<'a> {
    number: u64,
    configuration: &'a Configuration,
    time_ns: f64,
}

fn ends<'a>(study: &'a Study, bounds: &[Option<f64>]) -> Vec<ProblemEnd<'a>> {
    let (header, evaluations) = (study.header(), &study.history.evaluations);
    let mode = header.ranking.timing();
    let best = |problem: &String| {
        let time = |one: &Evaluation| {
            let own = one.measurements.iter().find(|own| own.mode == mode && own.problem == *problem);
            own.map(|own| own.p50_ns)
        };
        let passed = evaluations.iter().filter(|one| one.verdict.is_pass());
        let timed = passed.filter_map(|one| {
            Some(ProblemBest { number: one.number, configuration: &one.configuration, time_ns: time(one)? })
        });
        timed.min_by(|a, b| a.time_ns.total_cmp(&b.time_ns))
    };
    let problems = header.problems.iter().zip(bounds);
    problems
        .map(|(problem, bound_ns)| ProblemEnd {
            problem,
            bound_ns: *bound_ns,
            aimed_at: evaluations.iter().filter(|one| one.aimed_at.as_ref() == Some(problem)).count(),
            best: best(problem),
        })
        .collect()
}

/// `None` where problems were not searched apart.
pub fn json(study: &Study, bounds: &[Option<f64>]) -> Option<Value> {
    let ends = ends(study, bounds);
    (!ends.is_empty()).then(|| json!(ends))
}

/// Empty where problems were not searched apart.
pub fn lines(study: &Study, bounds: &[Option<f64>], width: usize) -> String {
    let ends = ends(study, bounds);
    if ends.is_empty() {
        return String::new();
    }
    let end = |one: &ProblemEnd<'_>| {
        let best = one.best.as_ref().map_or("nothing passed".to_string(), |best| {
            format!("{} by evaluation {}", text::time(best.time_ns), best.number)
        });
        let share = one.bound_ns.zip(one.best.as_ref()).map(|(bound, best)| bound / best.time_ns);
        let share = share.map_or(String::new(), |share| format!(", {:.0} % of the roofline", share * 100.0));
        format!("`{}` {best}{share}, {} for it", one.problem, counted(one.aimed_at, "proposal"))
    };
    let ends: Vec<String> = ends.iter().map(end).collect();
    wrapped(&format!("per problem: {}", ends.join("; ")), width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_searched_apart_only_where_that_changes_anything() {
        let on = "the search is for the best configuration of each of 2 problems; the roofline is known of 1";
        let only = "`--per-problem` changes nothing: `a` is the only timed problem";
        let all =
            "`--per-problem` changes nothing: `exhaustive` evaluates every configuration on every problem";
        for (is_wished, strategy, problems, is_on, notice) in [
            (false, "evolve", &["a", "b"][..], false, None),
            (true, "evolve", &["a", "b"], true, Some(on)),
            (true, "evolve", &["a"], false, Some(only)),
            (true, "evolve", &[], false, Some("`--per-problem` changes nothing: no problem is timed")),
            (true, "exhaustive", &["a", "b"], false, Some(all)),
        ] {
            let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
            let bounds = (0..problems.len()).map(|at| (at == 0).then_some(1.0)).collect();
            let choice = choose(is_wished, strategy, &problems, bounds);
            assert_eq!(choice.notice.as_deref(), notice);
            assert_eq!(choice.bounds.len(), if is_on { problems.len() } else { 0 });
        }
    }
}
