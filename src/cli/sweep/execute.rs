//! Runs a plan, and ranks what it found.

use std::path::PathBuf;

use evo_protocol::leaderboard::LeaderboardSection;

use super::apart;
use super::live::Stage;
use super::plan::{SweepPlan, SweepSubject};
use super::prior::{self, Prior};
use crate::cli::{Call, CliError, progress, session};
use crate::engine::{Engine, Inbox, Parts, Recipe, RunSummary, live};
use crate::event::{Event, Observer};
use crate::journal::champion::Succession;
use crate::journal::own_folder::OwnFolder;
use crate::journal::record::{StudyHeader, now};
use crate::journal::{leaderboard, leaderboard_file};
use crate::kernel::limits::constraints::DeviceSpace;
use crate::kernel::spec::ReplacedDefault;
use crate::report::closing;
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

pub fn execute(plan: &SweepPlan, call: &Call) -> Result<SweepOutcome, CliError> {
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
    start: impl FnOnce(&Inbox<R::Binary>) -> Result<Stage<'a, R>, CliError>,
) -> Result<SweepOutcome, CliError> {
    let inbox = Inbox::new();
    let stage = start(&inbox)?;
    let StudyHeader { device, problems, .. } = &stage.header;
    call.know(|facts| {
        facts.device = Some(device.name.clone());
        facts.conditions = Some(session::conditions(device, plan.seed, problems));
    });
    let apart = apart::of(plan, &stage.recipe, problems, device);
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
    let mut strategy = apart::strategy(plan, &apart)?;
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
            prior::seeded(plan.subject.kernel(), plan.subject.space(), population, &study, strategy)
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

fn tell(study: &mut Study, observer: &mut dyn Observer, message: String) -> Result<(), CliError> {
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
