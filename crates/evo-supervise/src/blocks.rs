//! A worker of its own for blocks of samples that take turns with other implementations' blocks. Its candidate has
//! passed its gates in the lane; here it is only timed, with outputs of timed calls checked.

use std::path::Path;

use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::worker::{BlockAnswer, GateAnswer, Request, Response};

use super::child::DeviceWorker;
use super::deadline::Deadlines;
use super::job::Job;
use super::supervisor::LaneError;

#[derive(Debug)]
pub struct BlockWorker {
    child: DeviceWorker,
    deadlines: Deadlines,
}

impl BlockWorker {
    pub(super) fn load(
        child: DeviceWorker,
        job: &Job,
        deadlines: Deadlines,
    ) -> Result<BlockWorker, LaneError> {
        let mut own = BlockWorker { child, deadlines };
        let load = Request::Load { slot: 0, candidate: Box::new(job.candidate.clone()) };
        match own.request(&load)? {
            Response::Loaded { .. } => Ok(own),
            other => Err(LaneError::unexpected(&other)),
        }
    }

    /// What the candidate does wrong is a verdict in the answer.
    pub fn block(
        &mut self,
        plan: &ProblemPlan,
        mode: TimingMode,
        block_ms: f64,
        check: bool,
    ) -> Result<BlockAnswer, LaneError> {
        let request = Request::Block { slot: 0, plan: Box::new(plan.clone()), mode, block_ms, check };
        match self.request(&request)? {
            Response::Sampled(answer) => Ok(*answer),
            other => Err(LaneError::unexpected(&other)),
        }
    }

    pub fn hand_out(&mut self, plan: &ProblemPlan, seed_index: u32, folder: &Path) -> Result<(), LaneError> {
        self.hand(plan, seed_index, folder, false)
    }

    /// With the answers in `expected/NAME.npy`, for a program that does its own check.
    pub fn hand_out_answers(&mut self, plan: &ProblemPlan, folder: &Path) -> Result<(), LaneError> {
        self.hand(plan, 0, folder, true)
    }

    fn hand(
        &mut self,
        plan: &ProblemPlan,
        seed_index: u32,
        folder: &Path,
        expected: bool,
    ) -> Result<(), LaneError> {
        let (plan, folder) = (Box::new(plan.clone()), folder.to_path_buf());
        let request = Request::HandOut { slot: 0, plan, seed_index, folder, expected };
        match self.request(&request)? {
            Response::HandedOut => Ok(()),
            other => Err(LaneError::unexpected(&other)),
        }
    }

    pub fn judge_foreign(
        &mut self,
        plan: &ProblemPlan,
        seed_index: u32,
        folder: &Path,
    ) -> Result<GateAnswer, LaneError> {
        let folder = folder.to_path_buf();
        let request = Request::JudgeForeign { slot: 0, plan: Box::new(plan.clone()), seed_index, folder };
        match self.request(&request)? {
            Response::GateDone(answer) => Ok(*answer),
            other => Err(LaneError::unexpected(&other)),
        }
    }

    fn request(&mut self, request: &Request) -> Result<Response, LaneError> {
        let answer = self.child.request(request, &self.deadlines).map_err(LaneError::died)?;
        Ok(answer.response)
    }
}
