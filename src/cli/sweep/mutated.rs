//! `evo sweep --mutator`: what an outside program proposes is judged once the search is over. Sources of its own are not
//! points of the study's space, so they are judged and recorded as those of `evo evaluate` are, beside the study.

use evo_protocol::mutator::{MutatorImportance, MutatorKnowledge, MutatorValues};
use evo_search::insight::{Insight, ParameterShare, Values};
use evo_space::genome::Configuration;
use serde_json::{Value, json};

use super::execute::SweepOutcome;
use super::live::LiveSubject;
use super::plan::{SweepPlan, SweepSubject};
use crate::budget::StopReason;
use crate::cli::args::SweepArgs;
use crate::cli::error::CliError;
use crate::cli::mutator::{
    JudgeSetting, MutatedOutcome, MutatedSweep, ReadyMutator, arguments, bounds, swept,
};
use crate::cli::{mutator, output, session};
use crate::journal::iterations::INCUMBENT;
use crate::mutator::edits;

/// What came of the mutator, or why it was not asked.
pub type Mutated = Result<MutatedOutcome, String>;

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

/// Plays the rounds. What goes wrong with them never changes how the sweep ends.
pub fn play(arguments: &SweepArgs, plan: &SweepPlan, outcome: &SweepOutcome, ready: ReadyMutator) -> Mutated {
    let SweepSubject::Live(live) = &plan.subject else { return Err("a recording has no device".into()) };
    let ended = outcome.summary.end.reason;
    if matches!(ended, StopReason::Interrupted | StopReason::DeviceLost | StopReason::Harness) {
        return Err("the search did not end by itself".into());
    }
    played(arguments, plan, outcome, live, ready).map_err(|error| error.to_string())
}

fn played(
    sweep: &SweepArgs,
    plan: &SweepPlan,
    outcome: &SweepOutcome,
    live: &LiveSubject,
    ready: ReadyMutator,
) -> Result<MutatedOutcome, CliError> {
    let header = outcome.study.header();
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
        time,
    });
    let folder = outcome.study.out().folder(&header.study);
    let folder = folder.map_err(|error| {
        CliError::harness(format!("cannot open the folder of study `{}`: {error}", header.study))
    })?;
    let section = outcome.section.as_ref();
    let has_incumbent = plan.out.join(live.default_study()).join(INCUMBENT).exists();
    let start = start(plan, outcome);
    let default = live.space().configuration(&live.space().default_genome());
    let mutated = MutatedSweep {
        file: &live.file,
        space: live.space(),
        device: &header.device,
        problems: &header.problems,
        device_word: live.device_word(&sweep.device),
        evaluate: &evaluate,
        folder: Some(folder),
        confirms_start: has_incumbent || (section.is_none() && start != default),
        champion: section.map(|own| own.champion.configuration_hash.to_string()),
        start,
        seed: plan.seed,
        knows: outcome.summary.insight.as_ref().map(knowledge),
        bounds: bounds(own.rounds, own.proposals, own.timeout, time),
    };
    swept(ready, &mutated)
}

/// What the search tells the mutator.
fn knowledge(own: &Insight) -> MutatorKnowledge {
    let values = |all: &[Values]| {
        let one = |own: &Values| MutatorValues {
            parameter: own.parameter.clone(),
            values: own.values.iter().map(|value| json!(value)).collect(),
        };
        all.iter().map(one).collect()
    };
    let importance = own.importance.iter().flat_map(|own| &own.parameters);
    let share = |own: &ParameterShare| MutatorImportance { parameter: own.name.clone(), share: own.share };
    MutatorKnowledge {
        evaluations: own.evaluations,
        explained: own.importance.as_ref().map(|own| own.explained),
        importance: importance.map(share).collect(),
        untried: values(&own.untried),
        never_passed: values(&own.never_passed),
        dead: own.dead.iter().map(|own| own.parameter.clone()).collect(),
    }
}

/// What searches of proposals begin with: the champion, else the best that passed, else the default.
fn start(plan: &SweepPlan, outcome: &SweepOutcome) -> Configuration {
    let passed = outcome.study.history.evaluations.iter().filter(|own| own.verdict.is_pass());
    let timed = passed.filter_map(|own| Some((own.objective_ns?, &own.configuration)));
    let best = timed.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, own)| own.clone());
    let champion = outcome.section.as_ref().map(|own| own.champion.configuration.clone());
    let space = plan.subject.space();
    champion.or(best).unwrap_or_else(|| space.configuration(&space.default_genome()))
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
