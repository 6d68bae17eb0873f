//! What a command's object says of the candidate and of the conditions, for every command that has them.

use evo_protocol::device::DeviceInfo;
use evo_space::genome::Configuration;
use serde_json::{Value, json};

use super::session;
use crate::kernel::spec::SpaceFile;

/// A candidate as a command's object names it.
pub fn candidate(file: &SpaceFile, configuration: &Configuration) -> Value {
    let mut candidate = json!({ "space": session::space_word(file) });
    if let Some(kernel) = &file.kernel {
        candidate["kernel"] = json!(kernel.name);
    }
    candidate["configuration"] = json!(configuration);
    candidate["configuration_hash"] = json!(configuration.hash());
    candidate
}

/// The conditions of a run as a command's object names them.
pub fn conditions(device: &DeviceInfo, seed: u64, problems: &[String]) -> Value {
    json!({
        "device_kind": device.kind,
        "arch": device.arch,
        "driver": device.driver,
        "seed": seed,
        "problems": problems,
        "evo": env!("CARGO_PKG_VERSION"),
    })
}
