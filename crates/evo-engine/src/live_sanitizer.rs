//! compute-sanitizer behind the engine's port.

use std::time::Duration;

use evo_protocol::device::DeviceKind;

use super::ports::{Sanitizer, SanitizerAnswer};
use evo_inspect::sanitize::{LookOrder, SanitizerCheck, look, unlooked};
use evo_inspect::tool::{FoundTool, ToolFailure};
use evo_supervise::job::Job;
use evo_supervise::lane::LaneOptions;

/// The tool, or why there is none, for the device of a run.
#[derive(Clone, Debug)]
pub struct DeviceSanitizer {
    pub kind: DeviceKind,
    pub tool: Result<FoundTool, ToolFailure>,
    /// What workers are told; the tool gets a worker of its own.
    pub options: LaneOptions,
    /// For one check.
    pub limit: Duration,
    /// Without the tool: whether evo's own checks of the host device launch everything once more in its place. They
    /// watch every launch there anyway, so that is worth its time only where somebody asks.
    pub stands_in: bool,
}

impl Sanitizer<Job> for DeviceSanitizer {
    fn is_there(&self) -> bool {
        self.tool.is_ok() || self.stands_in
    }

    fn sanitize(&mut self, job: &Job, within: Option<Duration>) -> SanitizerAnswer {
        let is_there = self.is_there();
        if let Some(failure) = self.tool.as_ref().err().filter(|_| !is_there) {
            return SanitizerAnswer { report: unlooked(failure), verdict: None, looked: false };
        }
        let look = look(&LookOrder {
            kind: self.kind,
            tool: self.tool.as_ref(),
            checks: &SanitizerCheck::ALL,
            options: &self.options,
            job,
            limit: self.limit,
            within,
        });
        SanitizerAnswer { report: look.report(), verdict: look.verdict(), looked: true }
    }
}
