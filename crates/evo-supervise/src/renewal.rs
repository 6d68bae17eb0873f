//! A worker's successor behind a launcher, which may let wait for minutes: until a node is free, or back.
//!
//! What the dead worker was busy with does not wait that long. Where other lanes can take it, the answer comes first,
//! and the lane then sees to its next worker.

use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::Recovery;
use evo_space::printable::{printable, shortened};

use super::lane::{Lane, LaneError};

/// Letters of what a launcher said last.
const WORDS_MAX: usize = 160;

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

/// An error, and what a launcher printed last, which says more than that its process is gone.
pub(crate) fn in_full(error: &LaneError, leased: bool) -> String {
    let log = match error {
        LaneError::Died { death } if leased => death.log.as_str(),
        _ => "",
    };
    match log.lines().map(str::trim).rfind(|line| !line.is_empty()) {
        Some(last) => format!("{error}; it said: {}", printable(&shortened(last, WORDS_MAX))),
        None => error.to_string(),
    }
}
