//! A worker's successor behind a launcher, which may let wait for minutes: until a node is free, or back.
//!
//! What the dead worker was busy with does not wait that long. Where other lanes can take it, the answer comes first,
//! and the lane then sees to its next worker.

use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::Recovery;

use super::lane::Lane;

/// What came of a lane's search for its next worker.
#[derive(Clone, Debug)]
pub struct Renewal {
    pub recovery: Recovery,
    /// Why there is none, if so.
    pub lost: Option<String>,
    /// Its machine.
    pub host: String,
    /// Its device, where a machine may have several.
    pub device_uuid: Option<String>,
}

impl Lane {
    /// Sees to the worker that [`Judgement::owes_worker`](super::job::Judgement::owes_worker) speaks of.
    pub fn renew(&mut self) -> Option<Renewal> {
        let supervisor = self.supervisor();
        let recovery = supervisor.renew()?;
        let info = supervisor.info();
        Some(Renewal {
            recovery,
            lost: supervisor.lost().map(String::from),
            host: supervisor.host().to_string(),
            device_uuid: (info.kind == DeviceKind::Cuda).then(|| info.uuid.clone()),
        })
    }
}
