//! The child's end of the device workers' protocol.

use evo_protocol::worker::{Phase, Request, Response};

use evo_system::process::ParentLink;

pub type Wire = ParentLink<Request, Response>;

/// Tells what is about to happen, so that a death or a missed deadline has a name.
pub trait ReportPhase {
    /// Reports the phase. If the parent no longer listens, sending the answer will fail too.
    fn phase(&mut self, phase: Phase, detail: &str);
}

impl ReportPhase for Wire {
    fn phase(&mut self, phase: Phase, detail: &str) {
        let _ = self.send(&Response::Phase { phase, detail: detail.to_string() });
    }
}
