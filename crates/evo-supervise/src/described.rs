//! What a command leads to, before a lane is started on it.

use std::time::Duration;

use evo_protocol::worker::{DescribedGpu, Request, Response};

use super::child::DeviceWorker;
use super::deadline::Deadlines;
use super::supervisor::{FAREWELL, LaneError};

/// The worker is gone afterwards.
pub fn describe(command: &[String], within: Duration) -> Result<Vec<DescribedGpu>, LaneError> {
    let spawn_error = |source| LaneError::Spawn { command: command.join(" "), source };
    let mut child = DeviceWorker::start(command).map_err(spawn_error)?;
    let answer = child.request(&Request::Describe, &Deadlines::within(within)).map_err(LaneError::died)?;
    child.shutdown(FAREWELL);
    match answer.response {
        Response::Described { gpus } => Ok(gpus),
        other => Err(LaneError::unexpected(&other)),
    }
}
