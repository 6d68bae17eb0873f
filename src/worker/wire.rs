//! The child's end of the device workers' protocol.

use evo_protocol::worker::{Phase, Request, Response};

use crate::process::ParentLink;

/// Requests in, responses and phases out.
pub type Wire = ParentLink<Request, Response>;

impl Wire {
    /// Reports the phase. If the parent no longer listens, sending the answer will fail too.
    pub fn phase(&mut self, phase: Phase, detail: &str) {
        let _ = self.send(&Response::Phase { phase, detail: detail.to_string() });
    }
}
