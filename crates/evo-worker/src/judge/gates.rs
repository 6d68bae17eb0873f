//! One gate on one candidate: the way from a request to the gate's file and back to an answer.
//!
//! Separate from `state`, which the gates work on, so that neither file needs the other.

use std::time::Instant;

use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::Gate;
use evo_protocol::worker::{Depth, GateAnswer};

use super::run::PhaseSink;
use super::state::Judge;
use super::{instrumented, launch_check, repeat, shapes};

impl Judge {
    pub fn gate(
        &mut self,
        slot: u8,
        gate: Gate,
        depth: Depth,
        plans: &[ProblemPlan],
        phase: &mut PhaseSink<'_>,
    ) -> GateAnswer {
        let start = Instant::now();
        let ready = self.foresee_gate(slot, gate, depth, plans, phase);
        let answer = ready.and_then(|()| match gate {
            Gate::Launch => launch_check::check(self, slot, plans),
            Gate::TinyShapes | Gate::FullShapes => shapes::check(self, slot, gate, depth, plans, phase),
            Gate::Repeatability => repeat::check(self, slot, depth, plans, phase),
            _ => Ok(GateAnswer::not_run(gate, "not run here: this gate needs a compiler or a measurement")),
        });
        let mut answer = answer.unwrap_or_else(|error| {
            self.note_error(&error);
            GateAnswer::failed(gate, &error)
        });
        instrumented::extend(self, slot, depth, plans, phase, &mut answer);
        answer.report.elapsed_ms = start.elapsed().as_secs_f64() * 1e3;
        // A sticky error outlives the gate that met it: nothing in this process can be trusted any more.
        answer.sticky = self.is_sticky();
        answer
    }
}
