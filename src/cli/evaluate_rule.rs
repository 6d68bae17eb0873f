//! What `evo evaluate` accepts, and whose turn it is.

use std::path::Path;

use evo_device::probe::DeviceChoice;

use super::error::CliError;
use super::evaluate_args::EvaluateArgs;
use super::output;
use crate::journal::error::JournalError;
use crate::journal::iterations::IterationLog;
use crate::journal::lock::DeviceTurn;
use crate::journal::own_folder::OwnFolder;
use crate::timing::acceptance::AcceptanceRule;

/// What a command line demands of a candidate that is to be accepted.
pub fn rule(arguments: &EvaluateArgs) -> AcceptanceRule {
    AcceptanceRule {
        accept: arguments.accept,
        on: usize::from(arguments.on),
        revert_above: arguments.revert_above,
    }
}

/// The folder of a kernel on a kind of device, once nobody else holds it or times anything on the device.
pub fn take_log(out: &Path, kernel: &str, device: &DeviceChoice) -> Result<IterationLog, CliError> {
    let name = format!("{kernel}-{}", device.kind.as_str());
    let path = out.join(&name);
    let folder = OwnFolder::create(out).and_then(|out| out.create_folder(&name));
    let folder = folder.map_err(|error| JournalError::io("make", &path, error))?;
    // The device first, in every command: two that each hold what the other waits for would wait for ever.
    let turn = take_turn(out, device)?;
    Ok(IterationLog::take(folder)?.with_turn(turn))
}

/// The turn of a command that times candidates on a device.
pub fn take_turn(out: &Path, device: &DeviceChoice) -> Result<DeviceTurn, CliError> {
    let folder = OwnFolder::create(out).map_err(|error| JournalError::io("make", out, error))?;
    let on_wait =
        || output::say(&format!("note: waiting for another command that times on `{}`", device.spec));
    Ok(DeviceTurn::take(&folder, &device.spec, on_wait)?)
}
