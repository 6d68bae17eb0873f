//! compute-sanitizer, and the host device beside it, behind the engine's port.

use std::time::{Duration, Instant};

use evo_protocol::device::DeviceKind;

use super::ports::{Sanitizer, SanitizerAnswer};
use super::twin_looks::TwinLooks;
use evo_inspect::sanitize::{LookOrder, SanitizerCheck, SanitizerLook, SanitizerOutcome, look, unlooked};
use evo_inspect::tool::{FoundTool, ToolFailure, ToolState};
use evo_protocol::verdict::GateState;
use evo_space::genome::Configuration;
use evo_supervise::job::Job;
use evo_supervise::lane::LaneOptions;

/// The tool, or why there is none, for the device of a run.
#[derive(Debug)]
pub struct DeviceSanitizer {
    pub kind: DeviceKind,
    pub tool: Result<FoundTool, ToolFailure>,
    /// What workers are told; the tool gets a worker of its own.
    pub options: LaneOptions,
    /// Which checks are made; those of the space file.
    pub checks: Vec<SanitizerCheck>,
    /// For one check.
    pub limit: Duration,
    /// Whether somebody demands an answer: then a problem is looked at beside the small shapes, and without the tool evo's
    /// own checks of the host device launch everything once more. They watch every launch there anyway.
    pub is_demanded: bool,
    /// Checks that did not come to an end on a variant. They are not made on others: every one would wait as long.
    pub stuck: Vec<SanitizerCheck>,
    /// The host device beside a GPU.
    pub twin: Option<TwinLooks>,
}

fn unending(check: SanitizerCheck) -> ToolFailure {
    let name = check.as_str();
    ToolFailure::new(
        ToolState::TimedOut,
        format!("{name} did not come to an end on an earlier variant of this run"),
    )
    .with_hint(format!(
        "`sanitizers` in `[check]` of the space file names the checks to make; leave {name} out"
    ))
}

impl Sanitizer<Job> for DeviceSanitizer {
    fn is_there(&self) -> bool {
        let stands_in = self.is_demanded && self.kind == DeviceKind::Host;
        self.tool.is_ok() || stands_in || self.twin.is_some()
    }

    fn look_ahead(&mut self, configurations: Vec<Configuration>) {
        self.twin.iter().for_each(|twin| twin.ask_for(configurations.clone()));
    }

    fn sanitize(
        &mut self,
        job: &Job,
        configuration: &Configuration,
        within: Option<Duration>,
    ) -> SanitizerAnswer {
        let is_there = self.is_there();
        if let Some(failure) = self.tool.as_ref().err().filter(|_| !is_there) {
            return SanitizerAnswer {
                report: unlooked(failure),
                verdict: None,
                looked: false,
                is_late: false,
            };
        }
        // Each waits for its own process: the tool for the GPU, the twin for compilers and a processor.
        let until = Instant::now() + within.map_or(self.limit, |within| within.min(self.limit));
        self.twin.iter().for_each(|twin| twin.ask_first_for(configuration));
        let look = self.by_tool(job, within);
        let look = look.beside(self.twin.as_ref().map(|twin| twin.answer(configuration, until)));
        let report = look.report();
        let is_late = report.state == GateState::NotRun && look.is_late();
        SanitizerAnswer { report, verdict: look.verdict(), looked: true, is_late }
    }
}

impl DeviceSanitizer {
    fn by_tool(&mut self, job: &Job, within: Option<Duration>) -> SanitizerLook {
        let (stuck, checks) = self.checks.iter().partition::<Vec<_>, _>(|check| self.stuck.contains(check));
        let mut look = look(&LookOrder {
            kind: self.kind,
            tool: self.tool.as_ref(),
            checks: &checks,
            options: &self.options,
            job,
            small_only: !self.is_demanded,
            limit: self.limit,
            within,
        });
        // Where the run itself was short of time, the check may well end on another day.
        if within.is_none_or(|within| within > self.limit) {
            let endless = |outcome: &&SanitizerOutcome| {
                outcome.failure.as_ref().is_some_and(|failure| failure.state == ToolState::TimedOut)
            };
            self.stuck.extend(look.outcomes.iter().filter(endless).map(|outcome| outcome.check));
        }
        look.outcomes
            .extend(stuck.into_iter().map(|check| SanitizerOutcome::not_run(check, unending(check))));
        look
    }
}
