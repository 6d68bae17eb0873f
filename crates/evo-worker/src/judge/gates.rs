//! One gate on one candidate: the way from a request to the gate's file and back to an answer.
//!
//! Separate from `state`, which the gates work on, so that neither file needs the other.

use std::time::Instant;

use evo_protocol::device::DeviceError;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::Gate;
use evo_protocol::worker::{Depth, GateAnswer};

use super::bench::GateRun;
use super::state::Judge;
use super::{foresight, instrumented, launch_check, repeat, shapes};

impl Judge {
    pub fn gate(&mut self, slot: u8, gate: Gate, depth: Depth, plans: &[ProblemPlan]) -> GateAnswer {
        let start = Instant::now();
        let mut answer = self.asked(slot, gate, depth, plans).unwrap_or_else(|error| {
            self.sticky |= error.sticky;
            GateAnswer::failed(gate, &error)
        });
        answer.report.elapsed_ms = start.elapsed().as_secs_f64() * 1e3;
        // A sticky error outlives the gate that met it: nothing in this process can be trusted any more.
        answer.sticky = self.sticky;
        answer
    }

    fn asked(
        &mut self,
        slot: u8,
        gate: Gate,
        depth: Depth,
        plans: &[ProblemPlan],
    ) -> Result<GateAnswer, DeviceError> {
        let (check, found) = (self.slot(slot)?.candidate.check.clone(), GateAnswer::begin(gate));
        let mut run = GateRun { judge: self, slot, gate, depth, plans, check, found };
        foresight::foresee(&mut run)?;
        match gate {
            Gate::Launch => launch_check::check(&mut run)?,
            Gate::TinyShapes | Gate::FullShapes => shapes::check(&mut run)?,
            Gate::Repeatability => repeat::check(&mut run)?,
            _ => {
                let why = "not run here: this gate needs a compiler or a measurement";
                run.found = GateAnswer::not_run(gate, why);
            }
        }
        instrumented::extend(&mut run);
        Ok(run.found)
    }
}
