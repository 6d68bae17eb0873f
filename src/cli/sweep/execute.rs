//! Runs a plan, and ranks what it found; with `--per-problem` a search for the best configuration of each timed problem.

use std::path::PathBuf;

use evo_protocol::device::DeviceInfo;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::LeaderboardSection;
use evo_search::strategy::Strategy;
use evo_search::{PerProblem, ProblemSearch};
use evo_space::genome::Configuration;
use evo_space::space::SearchSpace;
use evo_space::text::counted;
use serde::Serialize;
use serde_json::{Value, json};

use super::plan::{SweepPlan, SweepSubject};
use super::search::{self, EXHAUSTIVE, Prior};
use super::subject::Stage;
use crate::cli::{Call, CliError, Result, progress, session};
use crate::engine::{Engine, Inbox, Parts, Recipe, RunSummary, live};
use crate::event::{Event, Observer};
use crate::journal::leaderboard::{self, Succession, roofline_ns};
use crate::journal::leaderboard_file;
use crate::journal::own_folder::OwnFolder;
use crate::journal::record::{StudyHeader, now};
use crate::kernel::limits::constraints::DeviceSpace;
use crate::kernel::spec::ReplacedDefault;
use crate::report::width::wrapped;
use crate::report::{closing, text};
use crate::study::{EarlierLimits, EarlierResults, Study};

/// Everything in it is on the disk already.
pub struct SweepOutcome {
    pub study: Study,
    pub summary: RunSummary,
    pub section: Option<LeaderboardSection>,
    pub leaderboard: Option<PathBuf>,
    /// The leaderboard's section, where an earlier study keeps it.
    pub kept: Option<Box<LeaderboardSection>>,
    /// The least time of each problem that the device's peaks allow; empty where problems were not searched apart.
    pub bounds: Vec<Option<f64>>,
}

pub fn execute(plan: &SweepPlan, call: &Call) -> Result<SweepOutcome> {
    match &plan.subject {
        SweepSubject::Live(live) => execute_on(plan, call, |inbox| {
            live.start(plan.seed, plan.options.sanitize, |device| plan.header(device), inbox)
        }),
        SweepSubject::Replayed(replayed) => {
            execute_on(plan, call, |inbox| Ok(replayed.start(|device| plan.header(device), inbox)))
        }
    }
}

/// The order matters: a compiler or device that does not start must not leave a study behind, so the study is opened
/// after them; the signal watch comes last, because until then the default action of Ctrl-C is right.
fn execute_on<'a, R: Recipe>(
    plan: &'a SweepPlan,
    call: &Call,
    start: impl FnOnce(&Inbox<R::Binary>) -> Result<Stage<'a, R>>,
) -> Result<SweepOutcome> {
    let inbox = Inbox::default();
    let stage = start(&inbox)?;
    let StudyHeader { device, problems, .. } = &stage.header;
    session::know_device(call, device, plan.seed, problems);
    let apart = apart_of(plan, &stage.recipe, problems, device);
    let header = StudyHeader { per_problem: !apart.bounds.is_empty(), ..stage.header };
    let mut study = Study::open(&plan.request(), header, plan.options.clock.clone())?;
    live::watch_signals(inbox.sender())
        .map_err(|error| CliError::harness(format!("cannot watch for Ctrl-C: {error}")))?;
    // Until the engine is done, it ends the run in order.
    call.leave_signals(true);

    // Programs get one object of a ranking, at the end.
    let is_silent = call.is_json() && matches!(&plan.subject, SweepSubject::Live(live) if live.is_hint);
    let mut observer = if is_silent { Box::new(progress::Silent) } else { progress::observer(call) };
    for message in stage.notices {
        observer.observe(&Event::Notice { message });
    }
    let within = plan.subject.within();
    let replaced = within.and_then(|within| within.replaced_default.as_ref()).map(ReplacedDefault::note);
    let limits = within.map(DeviceSpace::note).into_iter().chain(replaced);
    let chosen = plan.choice.iter().chain(&plan.changes).chain(&apart.notice).cloned();
    for message in limits.chain(chosen) {
        tell(&mut study, &mut *observer, message)?;
    }
    let mut strategy = strategy_of(plan, &apart)?;
    let ignored = plan.arguments.no_prior;
    let found = match plan.prior.is_none() && !ignored {
        true => Prior::beside(plan.subject.kernel(), plan.subject.space(), &study),
        false => Prior::default(),
    };
    let inherited = plan.prior.as_ref().unwrap_or(&found).give(&mut *strategy, &study.header().strategy);
    let (strategy, seeded) = match plan.arguments.no_micro {
        true => (strategy, None),
        false => {
            let population = plan.options.population.get() as usize;
            search::seeded(plan.subject.kernel(), plan.subject.space(), population, &study, strategy)
        }
    };
    for message in inherited.into_iter().chain(seeded) {
        tell(&mut study, &mut *observer, message)?;
    }
    let earlier = match plan.options.remeasure || ignored {
        true => EarlierResults::default(),
        false => EarlierResults::beside(study.out(), study.header(), EarlierLimits::default()),
    };
    let parts = Parts {
        study: &mut study,
        space: plan.subject.space(),
        strategy,
        recipe: &stage.recipe,
        compilers: stage.compilers,
        lanes: stage.lanes,
        observer: &mut *observer,
        inbox,
        earlier,
    };
    let summary = Engine::new(parts, plan.options.clone())?.run();
    call.leave_signals(false);
    let summary = summary?;
    // Without a confirmation in this run, the board stays as earlier runs left it. A baseline does not become champion
    // while something that screened faster was not compared with it.
    let section = if summary.confirmed > 0 { leaderboard::section(&study.history) } else { None };
    let section = section.filter(|section| !closing::is_undecided(section, &study.history));
    let ranked = match &section {
        Some(section) => rank(study.out(), section, &mut *observer),
        None => {
            // Only confirmed results enter it. What cannot be written now is written, or said, with the first row.
            if matches!(plan.subject, SweepSubject::Live(_)) {
                let _ = leaderboard_file::found(study.out(), &now());
            }
            None
        }
    };
    let (leaderboard, kept) = ranked.unzip();
    Ok(SweepOutcome { study, summary, section, leaderboard, kept: kept.flatten(), bounds: apart.bounds })
}

fn tell(study: &mut Study, observer: &mut dyn Observer, message: String) -> Result<()> {
    study.note(message.clone()).map_err(|error| CliError::while_running(&error))?;
    observer.observe(&Event::Notice { message });
    Ok(())
}

/// The file's path, and the section of an earlier study that keeps its place. A leaderboard that cannot be written
/// stops nothing: it can be made again from the journals.
fn rank(
    out: &OwnFolder,
    section: &LeaderboardSection,
    observer: &mut dyn Observer,
) -> Option<(PathBuf, Option<Box<LeaderboardSection>>)> {
    let merged = match leaderboard_file::merge(out, vec![section.clone()], &now()) {
        Ok(merged) => merged,
        Err(error) => {
            let said = CliError::while_running(&error);
            let message =
                format!("{said}; `evo leaderboard --rebuild` makes the leaderboard from the journals");
            observer.observe(&Event::Notice { message });
            return None;
        }
    };
    if let Some(aside) = &merged.put_aside {
        let message = format!("an unreadable leaderboard was put aside as `{}`", aside.display());
        observer.observe(&Event::Notice { message });
    }
    let kept = merged.placements.into_iter().find_map(|placement| match placement {
        Succession::Kept(section) => Some(section),
        Succession::Taken => None,
    });
    Some((merged.path, kept))
}

#[derive(Debug, Default, PartialEq)]
struct ApartChoice {
    /// The least time of each problem that the device's peaks allow, nanoseconds; empty where the choice is off.
    bounds: Vec<Option<f64>>,
    notice: Option<String>,
}

fn choose_apart(asked: bool, strategy: &str, problems: &[String], bounds: Vec<Option<f64>>) -> ApartChoice {
    let off = |why: String| ApartChoice {
        notice: Some(format!("`--per-problem` changes nothing: {why}")),
        ..ApartChoice::default()
    };
    match problems {
        _ if !asked => ApartChoice::default(),
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

fn apart_of<R: Recipe>(
    plan: &SweepPlan,
    recipe: &R,
    problems: &[String],
    device: &DeviceInfo,
) -> ApartChoice {
    let bounds = match plan.per_problem {
        true => bounds(plan.subject.space(), recipe, problems, device),
        false => Vec::new(),
    };
    choose_apart(plan.per_problem, &plan.strategy, problems, bounds)
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

fn strategy_of<'a>(plan: &'a SweepPlan, choice: &ApartChoice) -> Result<Box<dyn Strategy + 'a>> {
    if choice.bounds.is_empty() {
        return plan.strategy();
    }
    let search = |bound: &Option<f64>| Ok(ProblemSearch::new(plan.strategy()?, *bound));
    let searches = choice.bounds.iter().map(search).collect::<Result<Vec<_>>>()?;
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
pub fn ends_object(study: &Study, bounds: &[Option<f64>]) -> Option<Value> {
    let ends = ends(study, bounds);
    (!ends.is_empty()).then(|| json!(ends))
}

/// Empty where problems were not searched apart.
pub fn ends_text(study: &Study, bounds: &[Option<f64>], width: usize) -> String {
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
            let choice = choose_apart(is_wished, strategy, &problems, bounds);
            assert_eq!(choice.notice.as_deref(), notice);
            assert_eq!(choice.bounds.len(), if is_on { problems.len() } else { 0 });
        }
    }
}
