//! A worker's successor behind a launcher, which may let wait for minutes. Where other lanes can take what the dead
//! worker was busy with, the answer comes first, and the lane then sees to its next worker.

use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::Recovery;

use super::lane::Lane;

#[derive(Clone, Debug)]
pub struct Renewal {
    pub recovery: Recovery,
    pub lost: Option<String>,
    pub host: String,
    pub device_uuid: Option<String>,
}

impl Lane {
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
