//! A candidate's launches without any judgement, for tools that watch a device: profilers and sanitizers.

use evo_protocol::plan::ProblemPlan;

use super::case::Case;
use super::element::Poison;
use super::run::{PhaseSink, RunSetting};
use super::state::{Answers, CaseRefusal, Judge};

impl Judge {
    /// Makes all launches of a plan so many times, each time on fresh inputs and poisoned outputs, and waits for them.
    /// Gives how many kernels were launched. evo's own kernels, which fill buffers in between, are called `evo_*`.
    pub fn run_plain(
        &mut self,
        slot: u8,
        plan: &ProblemPlan,
        calls: u32,
        phase: &mut PhaseSink<'_>,
    ) -> Result<u64, CaseRefusal> {
        let case = Case::first(plan);
        let prepared = self.prepare_lane(slot, &case, (0, 0), Answers::NotNeeded, phase);
        let launched = prepared.and_then(|prepared| {
            for _ in 0..calls {
                prepared.run(self.device.as_mut(), &mut self.pool, RunSetting::plain(Poison::A), phase)?;
            }
            Ok(u64::from(calls) * prepared.launches.len() as u64)
        });
        self.or_refusal(plan, launched)
    }
}
