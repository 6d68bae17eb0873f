//! `evo sweep --profile finalists`: a profiler looks at the champion of this run once the search is over. What comes of
//! it is kept beside the journal and never changes how the sweep ends.

use std::path::PathBuf;
use std::time::Duration;

use evo_protocol::envelope::CommandEnvelope;
use evo_protocol::leaderboard::LeaderboardSection;
use evo_space::text::quote;
use serde_json::{Value, json};

use super::execute::SweepOutcome;
use super::live::LiveSubject;
use super::plan::{SweepPlan, SweepSubject};
use crate::cli::args::ProfileWhen;
use crate::cli::profile::{CounterLook, CounterOrder, error_of, kept, look};
use crate::cli::{Call, CliError, output, session};
use crate::inspect::profile::KnownSources;
use crate::study::KeptProfile;

/// With less time than this left a profiler would only be started to be killed.
const LEAST: Duration = Duration::from_secs(5);

/// Gives the field of the sweep's object.
pub fn champion(plan: &SweepPlan, outcome: &SweepOutcome, call: &Call) -> Option<Value> {
    if plan.arguments.profile == ProfileWhen::Off {
        return None;
    }
    Some(profiled(plan, outcome, call).unwrap_or_else(|why| {
        output::say(&format!("note: the champion is not profiled: {why}"));
        json!({ "status": "not_run", "file": null, "bottleneck": null, "reason": why })
    }))
}

/// The same, or why nobody looked.
fn profiled(plan: &SweepPlan, outcome: &SweepOutcome, call: &Call) -> Result<Value, String> {
    let SweepSubject::Live(live) = &plan.subject else { return Err("a recording has no counters".into()) };
    let Some(section) = &outcome.section else { return Err("this run confirmed none".into()) };
    if outcome.summary.end.reason.is_early() {
        return Err("the run did not end by itself".into());
    }
    // A wall budget covers the whole command.
    let left = plan.options.budget.wall.map(|wall| wall.saturating_sub(plan.options.clock.elapsed()));
    let most = plan.arguments.limits.tool;
    let limit = left.map_or(most, |left| left.min(most));
    if limit < LEAST {
        return Err("no time is left for it".into());
    }
    let looked = looked(plan.seed, live, section, limit).map_err(|error| error.to_string())?;
    let file = keep(plan, outcome, live, section, &looked, call.facts());
    let file = file.map_err(|error| error.to_string())?.display().to_string();
    let diagnosis = looked.profile.diagnosis();
    let bottleneck = diagnosis.bottleneck.as_str();
    let reason = looked.profile.counters.as_ref().err().map(|none| error_of(none).envelope().message);
    output::say(&match &reason {
        Some(why) => format!("note: the champion has no counters: {why}; kept: {file}"),
        None => format!("the champion's bottleneck: {bottleneck} ({}); {file}", diagnosis.because),
    });
    let status = if reason.is_some() { "not_run" } else { "pass" };
    Ok(json!({ "status": status, "file": file, "bottleneck": bottleneck, "reason": reason }))
}

fn looked(
    seed: u64,
    live: &LiveSubject,
    section: &LeaderboardSection,
    limit: Duration,
) -> Result<CounterLook, CliError> {
    let champion = &section.champion;
    let (job, options) = live.job_of(seed, &champion.configuration)?;
    let plan = job.timed.first().ok_or_else(|| CliError::harness("the champion has no timed problem"))?;
    let result = champion.results.iter().find(|one| one.problem == plan.name);
    let time = result.and_then(|one| one.modes.get(section.ranking.as_str()));
    let sources = KnownSources {
        device: &section.device,
        plan,
        resources: &champion.resources,
        // Those of the first problem.
        attributes: champion.attributes.get(..plan.launches.len()).unwrap_or_default(),
        time_ns: time.map(|time| time.p50_ns),
        mode: section.ranking.timing(),
    };
    look(&CounterOrder::light(options, &job, sources, limit))
}

/// The file's path, or that of an earlier one with counters.
fn keep(
    plan: &SweepPlan,
    outcome: &SweepOutcome,
    live: &LiveSubject,
    section: &LeaderboardSection,
    looked: &CounterLook,
    facts: CommandEnvelope,
) -> Result<PathBuf, CliError> {
    let champion = &section.champion;
    let (study, space) = (&outcome.study.header().study, session::space_word(&live.file));
    let words: Vec<String> = champion
        .configuration
        .iter()
        .map(|(name, value)| quote(&format!("{name}={value}")).into_owned())
        .collect();
    let repro = format!(
        "evo profile {} {} --problem {} --device {} --seed {}",
        quote(&space),
        words.join(" "),
        quote(&looked.profile.problem),
        live.device_word(&plan.arguments.device),
        plan.seed
    );
    let candidate = json!({
        "space": space, "kernel": section.kernel, "configuration": champion.configuration,
        "configuration_hash": champion.configuration_hash, "kind": "champion", "from": study,
        "number": champion.number,
    });
    let facts = CommandEnvelope { candidate: Some(candidate), repro, ..facts };
    let hashes = [champion.source_hash.as_ref(), champion.code_hash.as_ref()];
    let unopened = |error| CliError::harness(format!("cannot open the folder of study `{study}`: {error}"));
    let folder = outcome.study.out().folder(study).map_err(unopened)?;
    Ok(match kept(&folder, &facts, &champion.configuration_hash, hashes, looked)? {
        KeptProfile::Written { profile, .. } | KeptProfile::Earlier { profile } => profile,
    })
}
