//! A candidate's launches under a tool that watches them.

use std::time::Duration;

use evo_protocol::plan::ProblemPlan;

use crate::tool::{self, FoundTool, ToolArguments, ToolFailure, ToolState, wrapped_worker};
use evo_supervise::job::Job;
use evo_supervise::lane::{LaneError, LaneOptions, own_worker};
use evo_supervise::solo::{SoloCalls, SoloRun, run_solo, run_solo_unguarded};

/// What is to be launched under a tool.
#[derive(Clone, Copy, Debug)]
pub struct WatchOrder<'a> {
    /// The device; its worker's command is the one that the tool gets.
    pub options: &'a LaneOptions,
    pub job: &'a Job,
    pub plans: &'a [ProblemPlan],
    pub calls: SoloCalls,
    /// For everything: the worker's start, the launches, the tool's end.
    pub limit: Duration,
}

/// Starts a worker under a tool and makes a candidate's launches there. The tool's arguments must send whatever it
/// writes to files. What the worker answered and how the tool ended are for the caller to judge, each by itself.
///
/// # Errors
/// `Incompatible` where the tool lacks an option that was demanded; `Broken` where it does not start.
pub fn watch(
    tool: &FoundTool,
    arguments: &ToolArguments,
    watch: &WatchOrder<'_>,
) -> Result<SoloRun, ToolFailure> {
    watch_with(tool, arguments, watch, run_solo)
}

/// The same on buffers without guard zones, so that the tool sees where they end.
///
/// # Errors
/// As [`watch`].
pub fn watch_unguarded(
    tool: &FoundTool,
    arguments: &ToolArguments,
    watch: &WatchOrder<'_>,
) -> Result<SoloRun, ToolFailure> {
    watch_with(tool, arguments, watch, run_solo_unguarded)
}

type Solo = fn(&LaneOptions, &Job, &[ProblemPlan], SoloCalls, Duration) -> Result<SoloRun, LaneError>;

fn watch_with(
    tool: &FoundTool,
    arguments: &ToolArguments,
    watch: &WatchOrder<'_>,
    solo: Solo,
) -> Result<SoloRun, ToolFailure> {
    tool::fits(tool, arguments)?;
    let name = tool.kind.name();
    let broken = |why: String| {
        ToolFailure::new(ToolState::Broken, format!("`{name}` cannot run around a worker: {why}"))
    };
    let own = watch.options.command.clone().map_or_else(own_worker, Ok);
    let own = own.map_err(|error| broken(error.to_string()))?;
    let command = wrapped_worker(tool, arguments, &own).map_err(|error| broken(error.to_string()))?;
    let options = LaneOptions { command: Some(command), ..watch.options.clone() };
    solo(&options, watch.job, watch.plans, watch.calls, watch.limit)
        .map_err(|error: LaneError| broken(error.to_string()))
}
