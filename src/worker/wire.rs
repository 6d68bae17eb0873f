//! The child's end of the device workers' protocol.

use evo_protocol::worker::{Phase, Request, Response};

use crate::process::ParentLink;

/// Requests in, responses and phases out.
pub type Wire = ParentLink<Request, Response>;

impl Wire {
    /// Says where the child is. A parent that no longer listens shows at the answer.
    pub fn phase(&mut self, phase: Phase, detail: &str) {
        let _ = self.send(&Response::Phase { phase, detail: detail.to_string() });
    }
}
