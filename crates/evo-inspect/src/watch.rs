//! A candidate's launches under a tool that watches them.

use crate::tool::{self, FoundTool, ToolArguments, ToolFailure, ToolState, wrapped_worker};
use evo_supervise::lane::{LaneError, LaneOptions, own_worker};
use evo_supervise::solo::{SoloOrder, SoloRun, run_solo};

/// `options` has the worker's command. The tool's arguments must send whatever it writes to files. What the worker
/// answered and how the tool ended are for the caller to judge, each by itself.
pub fn watch(
    tool: &FoundTool,
    arguments: &ToolArguments,
    options: &LaneOptions,
    order: &SoloOrder<'_>,
) -> Result<SoloRun, ToolFailure> {
    tool::fits(tool, arguments)?;
    let name = tool.kind.as_str();
    let broken = |why: String| {
        ToolFailure::new(ToolState::Broken, format!("`{name}` cannot run around a worker: {why}"))
    };
    let own = options.command.clone().map_or_else(own_worker, Ok);
    let own = own.map_err(|error| broken(error.to_string()))?;
    let command = wrapped_worker(tool, arguments, &own).map_err(|error| broken(error.to_string()))?;
    let options = LaneOptions { command: Some(command), ..options.clone() };
    run_solo(&options, order).map_err(|error: LaneError| broken(error.to_string()))
}
