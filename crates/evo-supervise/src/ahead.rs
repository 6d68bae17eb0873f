//! What a lane computes before its first job.

use evo_protocol::evaluation::RecoveryLevel;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::worker::{CheckPlan, Request, Response};

use super::lane::{Lane, LaneError};

impl Lane {
    pub fn prepare(&mut self, check: &CheckPlan, plans: &[ProblemPlan]) -> Result<(), LaneError> {
        let request = Request::Prepare { check: Box::new(check.clone()), plans: plans.to_vec() };
        let deadlines = self.supervisor().deadlines();
        let answer = self.supervisor().request(&request, &deadlines).map_err(|error| match error {
            LaneError::Died { .. } if self.supervisor().limits.is_over() => LaneError::OutOfTime,
            error => error,
        })?;
        match answer.response {
            Response::Prepared => Ok(()),
            other => Err(LaneError::unexpected(&other)),
        }
    }

    pub fn answer_ahead(&mut self, check: &CheckPlan, plans: Vec<ProblemPlan>) {
        self.ahead = Some((check.clone(), plans));
    }

    /// What goes wrong is for the first job to say, which asks for the same.
    pub fn begin(&mut self) {
        let Some((check, plans)) = self.ahead.take() else { return };
        if let Err(LaneError::Died { .. }) = self.prepare(&check, &plans) {
            self.supervisor().recover(RecoveryLevel::R2);
        }
    }
}
