//! The worker of a device as the commands start it: what it is told, evo's own kernels for it, and why it does not start.

use std::path::PathBuf;

use evo_device::cuda::SUPPORT_SOURCE;
use evo_device::host::RoomOptions;
use evo_protocol::binary::KernelSource;
use evo_protocol::device::DeviceKind;
use evo_protocol::envelope::ErrorCode;
use evo_protocol::worker::ReferenceKernels;

use super::one_args::SandboxMode;
use super::{CliError, DeviceSetup, session};
use crate::compile;
use crate::kernel::spec::{KernelSpec, ReferenceSpec};
use crate::process::{self, worker_program};
use crate::supervise::lane::{Lane, LaneError, LaneOptions};
use crate::worker::judge::on_device;
use crate::worker::serve;

pub fn lane(setup: &DeviceSetup, kernel: Option<&KernelSpec>) -> Result<Lane, CliError> {
    let options = lane_options(setup, kernel)?;
    Lane::start_with(options, setup.limits).map_err(|error| not_started(setup, &error))
}

pub fn lane_options(setup: &DeviceSetup, kernel: Option<&KernelSpec>) -> Result<LaneOptions, CliError> {
    let words = |text: &String| text.split_whitespace().map(String::from).collect::<Vec<_>>();
    let command = setup.worker_command.as_ref().map(words);
    if command.as_ref().is_some_and(Vec::is_empty) {
        return Err(CliError::usage("`--worker-command` is empty"));
    }
    let (support_cubin, reference_kernels) = own_kernels(setup, kernel)?;
    Ok(LaneOptions {
        // A command of the user's own says for itself what it wants.
        command: match setup.sandbox {
            SandboxMode::Off if command.is_none() => Some(unfenced_worker()?),
            _ => command,
        },
        device: setup.choice.spec.clone(),
        cache: setup.farm.cache.clone(),
        support_cubin,
        reference_kernels,
        leased: false,
    })
}

fn unfenced_worker() -> Result<Vec<String>, CliError> {
    let program = worker_program()?.to_string_lossy().into_owned();
    Ok(vec![program, "worker".to_string(), "--sandbox".to_string(), "off".to_string()])
}

pub fn rooms(sandbox: SandboxMode) -> std::io::Result<RoomOptions> {
    serve::rooms(sandbox == SandboxMode::On)
}

fn not_started(setup: &DeviceSetup, error: &LaneError) -> CliError {
    let device = &setup.choice.spec;
    let is_foreign = setup.worker_command.is_some();
    match error {
        LaneError::Spawn { source, .. } if process::is_exhausted(source) => {
            CliError::harness(error.to_string()).with_hint(process::EXHAUSTED_HINT)
        }
        LaneError::Open { .. } | LaneError::Spawn { .. } => {
            CliError::environment(format!("cannot open the device `{device}`: {error}"))
                .with_hint(format!("`evo preflight --device {device}` shows what is missing"))
                .with_code(ErrorCode::NoDevice)
        }
        LaneError::Died { .. } | LaneError::Refused { .. } | LaneError::Unexpected { .. } if is_foreign => {
            CliError::usage(format!("the command of `--worker-command` is not a device worker: {error}"))
                .with_hint("it must end in `evo worker`, as `ssh host evo worker` does")
        }
        LaneError::Lost { .. } => CliError::device(error.to_string()),
        LaneError::OutOfTime => CliError::limit(error.to_string()),
        LaneError::Died { .. } | LaneError::Refused { .. } | LaneError::Unexpected { .. } => {
            CliError::harness(format!("cannot start the device worker: {error}"))
        }
    }
}

pub fn support_cubin(setup: &DeviceSetup) -> Result<Option<PathBuf>, CliError> {
    if setup.choice.kind != DeviceKind::Cuda {
        return Ok(None);
    }
    let source = KernelSource::plain("evo_support.cu", SUPPORT_SOURCE, [""; 0]);
    Ok(Some(compile::own_kernels(&setup.farm, source)?))
}

/// A built-in reference, what a reference of the user's needs, or all of it, as kernels of this device, compiled. None where
/// the device has no kernels for it.
pub fn reference_kernels(setup: &DeviceSetup, name: Option<&str>) -> Result<Option<PathBuf>, CliError> {
    let Some(text) = on_device::source(name) else { return Ok(None) };
    let entries = on_device::entries(name);
    let source = KernelSource::plain("evo_references.cu", text, entries);
    Ok(Some(compile::own_kernels(&setup.farm, source)?))
}

/// The helper kernels and those for a reference. On the host neither is needed, because the processor is the
/// device.
fn own_kernels(
    setup: &DeviceSetup,
    kernel: Option<&KernelSpec>,
) -> Result<(Option<PathBuf>, Option<ReferenceKernels>), CliError> {
    if setup.choice.kind != DeviceKind::Cuda {
        return Ok((None, None));
    }
    let name = kernel.map(|kernel| match &kernel.check.reference {
        ReferenceSpec::Builtin { name } => name.as_str(),
        _ => on_device::OWN,
    });
    // Each takes the compiler some hundred milliseconds, once per cache. The task's kernels are only put into the cache, where
    // whoever needs them finds them, or meets the same error.
    std::thread::scope(|scope| {
        let ahead = || kernel.map(|kernel| drop(session::task_kernels(kernel, setup)));
        let _ = std::thread::Builder::new().spawn_scoped(scope, ahead);
        let compiled = |name| reference_kernels(setup, Some(name));
        let references = name.map(|name| {
            let running = std::thread::Builder::new().spawn_scoped(scope, move || compiled(name));
            (name, running.map_err(|_| compiled(name)))
        });
        let support = support_cubin(setup)?;
        let Some((name, references)) = references else { return Ok((support, None)) };
        let path = match references {
            Ok(running) => running.join().map_err(|_| CliError::harness("a compiling thread panicked"))?,
            Err(compiled) => compiled,
        }?;
        Ok((support, path.map(|path| ReferenceKernels { name: name.to_string(), path })))
    })
}
