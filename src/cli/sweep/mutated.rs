//! `evo sweep --mutator`: what an outside program proposes is judged beside the search, or once it is over. Sources of its
//! own are not points of the study's space, so they are judged and recorded as those of `evo evaluate` are, beside the study.

use evo_search::insight::expected_points;
use evo_space::genome::Configuration;
use serde_json::{Value, json};

use super::beside::{BegunStudy, EndedSearch, RunningSearch, SearchBeside};
use super::execute::SweepOutcome;
use super::knowledge::{EXPECTED, knowledge};
use super::live::LiveSubject;
use super::plan::{SweepPlan, SweepSubject};
use crate::budget::StopReason;
use crate::cli::args::SweepArgs;
use crate::cli::error::CliError;
use crate::cli::mutator::{
    FoundBySearch, JudgeSetting, MutatedOutcome, MutatedSweep, ReadyMutator, arguments, bounds, swept,
};
use crate::cli::{mutator, output, session};
use crate::journal::iterations::INCUMBENT;
use crate::mutator::edits;

/// What came of the mutator, or why it was not asked.
pub type Mutated = Result<MutatedOutcome, String>;

/// What became of a mutator while the search ran.
pub enum BesideSearch {
    /// The search was over before there was anything to tell it.
    NotAsked(ReadyMutator),
    Played(Mutated),
}

/// Starts the mutator, where there is one and a sweep can use it. Nothing has been written by then.
///
/// # Errors
/// It does not start, the device is a recording, or the marks of regions in the space's source are wrong.
pub fn ready(arguments: &SweepArgs, plan: &SweepPlan) -> Result<Option<ReadyMutator>, CliError> {
    if arguments.mutator.mutator.is_none() {
        return Ok(None);
    }
    let SweepSubject::Live(live) = &plan.subject else {
        return Err(CliError::usage(
            "`--mutator` needs a device, and a recording has answers for its own points only",
        )
        .with_hint("leave `--mutator` out, or name a device"));
    };
    let source = &session::kernel_of(&live.file)?.source;
    edits::regions(&source.text).map_err(|why| {
        CliError::bad_file(format!("`{}`: {why}", source.path.display()), &source.path)
            .with_hint("a region is `// evo: begin NAME` … `// evo: end NAME`, each on a line of its own")
    })?;
    mutator::ready(&arguments.mutator)
}

/// Plays the rounds beside a search, from when it has something to tell until they are over. The search goes on
/// meanwhile, and the device is taken in turns: for one measurement each, and never by a mutator that thinks.
pub fn beside(
    arguments: &SweepArgs,
    plan: &SweepPlan,
    search: &RunningSearch,
    ready: ReadyMutator,
) -> BesideSearch {
    // With several lanes there are several devices, and none of them is the judge's.
    let live = match &plan.subject {
        SweepSubject::Live(live) if !live.has_lanes() => live,
        _ => return BesideSearch::NotAsked(ready),
    };
    let Some(study) = search.enough() else { return BesideSearch::NotAsked(ready) };
    let found = SearchBeside { search, space: live.space(), seed: plan.seed };
    let start = search.best().unwrap_or_else(|| default(plan));
    let rounds = Rounds { sweep: arguments, plan, live, study, found: &found, start, confirms_start: false };
    BesideSearch::Played(rounds.played(ready).map_err(|error| error.to_string()))
}

/// Plays the rounds once the search is over. What goes wrong with them never changes how the sweep ends.
pub fn play(arguments: &SweepArgs, plan: &SweepPlan, outcome: &SweepOutcome, ready: ReadyMutator) -> Mutated {
    let SweepSubject::Live(live) = &plan.subject else { return Err("a recording has no device".into()) };
    if is_cut_short(outcome) {
        return Err(CUT_SHORT.into());
    }
    let header = outcome.study.header();
    let folder = outcome.study.out().folder(&header.study);
    let folder =
        folder.map_err(|error| format!("cannot open the folder of study `{}`: {error}", header.study))?;
    let knows = outcome.summary.insight.as_ref().map(|insight| {
        let evaluations = &outcome.study.history.evaluations;
        knowledge(insight, expected_points(live.space(), evaluations, plan.seed, EXPECTED))
    });
    let found = EndedSearch { knows, champion: champion(outcome) };
    let has_incumbent = plan.out.join(live.default_study()).join(INCUMBENT).exists();
    let start = start(plan, outcome);
    let confirms_start = has_incumbent || (outcome.section.is_none() && start != default(plan));
    let study = BegunStudy { header: header.clone(), folder };
    let rounds = Rounds { sweep: arguments, plan, live, study, found: &found, start, confirms_start };
    rounds.played(ready).map_err(|error| error.to_string())
}

/// What is said of a mutator whose search was broken off.
const CUT_SHORT: &str = "the search did not end by itself";

/// Whether the search did not end by itself.
pub fn is_cut_short(outcome: &SweepOutcome) -> bool {
    let ended = outcome.summary.end.reason;
    matches!(ended, StopReason::Interrupted | StopReason::DeviceLost | StopReason::Harness)
}

/// What came of rounds beside a search, once both are over.
pub fn after(outcome: &SweepOutcome, played: Mutated) -> Mutated {
    if is_cut_short(outcome) { Err(CUT_SHORT.into()) } else { played }
}

/// The study's champion: its configuration and its hash.
pub fn champion(outcome: &SweepOutcome) -> Option<(Configuration, String)> {
    let champion = &outcome.section.as_ref()?.champion;
    Some((champion.configuration.clone(), champion.configuration_hash.to_string()))
}

/// The rounds of a sweep.
struct Rounds<'a> {
    sweep: &'a SweepArgs,
    plan: &'a SweepPlan,
    live: &'a LiveSubject,
    study: BegunStudy,
    found: &'a dyn FoundBySearch,
    start: Configuration,
    confirms_start: bool,
}

impl Rounds<'_> {
    fn played(self, ready: ReadyMutator) -> Result<MutatedOutcome, CliError> {
        let Rounds { sweep, plan, live, study, found, start, confirms_start } = self;
        let own = &sweep.mutator;
        let time = match plan.wall {
            // What the search left over is the mutator's too.
            Some(wall) => wall.saturating_sub(plan.clock.elapsed()).min(own.time.unwrap_or(wall)),
            None => own.share(None).0,
        };
        let evaluate = arguments(JudgeSetting {
            space: session::space_word(&live.file),
            device: live.device_word(&sweep.device).to_string(),
            seed: plan.seed,
            problems: sweep.problems.clone(),
            out: plan.out.clone(),
            worker_command: sweep.worker_command.clone(),
            sandbox: sweep.sandbox,
            access: sweep.access.clone(),
            limits: sweep.limits.clone(),
            limit_sampling: sweep.limit_sampling,
            time,
        });
        let mutated = MutatedSweep {
            file: &live.file,
            space: live.space(),
            device: &study.header.device,
            problems: &study.header.problems,
            device_word: live.device_word(&sweep.device),
            evaluate: &evaluate,
            folder: Some(study.folder.clone()),
            confirms_start,
            start,
            seed: plan.seed,
            search: found,
            bounds: bounds(own.rounds, own.proposals, own.timeout, time),
        };
        swept(ready, &mutated)
    }
}

fn default(plan: &SweepPlan) -> Configuration {
    let space = plan.subject.space();
    space.configuration(&space.default_genome())
}

/// What searches of proposals begin with: the champion, else the best that passed, else the default.
fn start(plan: &SweepPlan, outcome: &SweepOutcome) -> Configuration {
    let passed = outcome.study.history.evaluations.iter().filter(|own| own.verdict.is_pass());
    let timed = passed.filter_map(|own| Some((own.objective_ns?, &own.configuration)));
    let best = timed.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, own)| own.clone());
    let champion = outcome.section.as_ref().map(|own| own.champion.configuration.clone());
    champion.or(best).unwrap_or_else(|| default(plan))
}

/// The field of the sweep's object.
pub fn json(mutated: &Mutated) -> Value {
    match mutated {
        Ok(own) => own.json(),
        Err(why) => json!({ "status": "not_run", "reason": why, "proposals": [], "winner": null }),
    }
}

/// Says the same to people.
///
/// # Errors
/// stdout cannot be written.
pub fn show(mutated: &Mutated) -> Result<(), CliError> {
    match mutated {
        Ok(own) => output::stdout(&own.text()),
        Err(why) => {
            output::say(&format!("note: the mutator was not asked: {why}"));
            Ok(())
        }
    }
}
