//! `evo sweep --profile finalists`: `evo profile` looks at the champion of this run once the search is over, in a
//! process of its own. What comes of it is kept beside the journal and never changes how the sweep ends.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use super::execute::SweepOutcome;
use super::plan::{SweepPlan, SweepSubject};
use crate::cli::args::ProfileWhen;
use crate::cli::one_args::SandboxMode;
use crate::cli::{output, session};
use crate::process::{self, RunLimits};

/// With less time than this left a profiler would only be started to be killed.
const LEAST: Duration = Duration::from_secs(5);

/// Without a wall budget: gates, a compilation and the profiler have limits of their own.
const LONGEST: Duration = Duration::from_secs(3600);

/// Gives the field of the sweep's object.
pub fn champion(plan: &SweepPlan, outcome: &SweepOutcome) -> Option<Value> {
    if plan.arguments.profile == ProfileWhen::Off {
        return None;
    }
    Some(profiled(plan, outcome).unwrap_or_else(|why| {
        output::say(&format!("note: the champion is not profiled: {why}"));
        json!({ "status": "not_run", "file": null, "bottleneck": null, "reason": why })
    }))
}

/// The same, or why nobody looked.
fn profiled(plan: &SweepPlan, outcome: &SweepOutcome) -> Result<Value, String> {
    let SweepSubject::Live(live) = &plan.subject else { return Err("a recording has no counters".into()) };
    if outcome.section.is_none() {
        return Err("this run confirmed none".into());
    }
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
    let header = outcome.study.header();
    let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    command.args(["profile", &session::space_word(&live.file), "@champion", "--json"]);
    command.arg("--out").arg(&plan.arguments.out).args(["--study", &header.study]);
    command.args(header.problems.first().into_iter().flat_map(|first| ["--problem", first.as_str()]));
    command.args(["--device", live.device_word(&plan.arguments.device), "--seed", &plan.seed.to_string()]);
    command.args(["--limit", &format!("tool={}s", limit.as_secs())]);
    if plan.arguments.sandbox == SandboxMode::Off {
        command.args(["--sandbox", "off"]);
    }
    command.args(plan.arguments.worker_command.iter().flat_map(|words| ["--worker-command", words.as_str()]));
    let within = RunLimits::new(left.unwrap_or(LONGEST));
    let ended = process::run(command, &within).map_err(|error| error.to_string())?;
    let object: Value = serde_json::from_str(&ended.stdout.text()).map_err(|error| error.to_string())?;
    let (file, result) = (&object["profile_file"], &object["result"]);
    let reason = object["error"]["message"].as_str();
    let Some(kept) = file.as_str() else { return Err(reason.unwrap_or("it does not pass now").into()) };
    let said = |name: &str| result[name].as_str().unwrap_or_default();
    let bottleneck = said("bottleneck");
    output::say(&match reason {
        Some(why) => format!("note: the champion has no counters: {why}; kept: {kept}"),
        None => format!("the champion's bottleneck: {bottleneck} ({}); {kept}", said("bottleneck_because")),
    });
    let status = if reason.is_some() { "not_run" } else { "pass" };
    Ok(json!({ "status": status, "file": file, "bottleneck": bottleneck, "reason": reason }))
}
