//! What `sweep` and `test-one` share: from a device's name to a running lane and a recipe.

use std::path::PathBuf;

use evo_device::cuda::SUPPORT_SOURCE;
use evo_device::probe::{self, DeviceChoice};
use evo_protocol::binary::Binary;
use evo_protocol::device::DeviceKind;
use evo_space::explain::conflict;

use super::exit_code::UsageError;
use crate::compile::{CompileSetupError, FarmOptions, compile_one, support};
use crate::engine::recipe::{KernelRecipe, problems_on};
use crate::kernel::render::render_reference;
use crate::kernel::spec::{KernelSpec, ProblemSpec, SpaceFile};
use crate::supervise::lane::{Lane, LaneError, LaneOptions};

/// Where a run takes place.
#[derive(Debug)]
pub struct Place {
    pub choice: DeviceChoice,
    pub farm: FarmOptions,
}

/// Chooses a device and its compilers.
pub fn place(device: &str, jobs: Option<usize>) -> anyhow::Result<Place> {
    let choice = probe::choose(device).map_err(|error| UsageError::of(&error))?;
    let mut farm = FarmOptions::new(choice.kind, &choice.arch);
    if let Some(jobs) = jobs {
        farm.jobs = jobs;
    }
    Ok(Place { choice, farm })
}

/// The kernel of a space file, if the file has one and the space has points.
pub fn kernel_of(file: &SpaceFile) -> anyhow::Result<&KernelSpec> {
    let shown = file.path.display();
    let Some(kernel) = &file.kernel else {
        let text = format!(
            "`{shown}` describes a search space without a kernel: there is nothing to run\n\
             hint: add `[kernel]`, `[[arguments]]`, `[[launches]]` and `[[problems]]`, or look at it with \
             `evo space {shown}`"
        );
        return Err(UsageError(text).into());
    };
    if file.space.count() == 0 {
        let (parameters, constraints) = (file.space.parameters(), file.space.constraints());
        let culprits = conflict(parameters, constraints);
        let list: Vec<String> =
            culprits.iter().map(|at| format!("`{}`", constraints[*at].expr.text())).collect();
        let text = format!(
            "`{shown}` has no valid point\nhint: no combination of values satisfies {}",
            if list.is_empty() { "all constraints together".to_string() } else { list.join(" and ") }
        );
        return Err(UsageError(text).into());
    }
    Ok(kernel)
}

/// The problems to run, in the file's order; `names` restricts them.
pub fn problems<'a>(
    kernel: &'a KernelSpec,
    kind: DeviceKind,
    names: &[String],
) -> anyhow::Result<Vec<&'a ProblemSpec>> {
    let all = problems_on(kernel, kind);
    let known = all.iter().map(|problem| problem.name.as_str());
    let list = known.clone().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if let Some(unknown) = names.iter().find(|name| !known.clone().any(|own| own == name.as_str())) {
        let text = format!(
            "no problem `{unknown}` of `{}` on {}\nhint: there are {list}",
            kernel.name,
            kind.as_str()
        );
        return Err(UsageError(text).into());
    }
    let chosen: Vec<&ProblemSpec> =
        all.into_iter().filter(|problem| names.is_empty() || names.contains(&problem.name)).collect();
    if !chosen.iter().any(|problem| problem.timed) {
        let text = format!(
            "`{}` has no timed problem on {}\nhint: add one to `[[problems]]`, or name another with `--problem`",
            kernel.name,
            kind.as_str()
        );
        return Err(UsageError(text).into());
    }
    Ok(chosen)
}

/// Starts the device's lane.
pub fn lane(place: &Place, command: Option<&str>) -> anyhow::Result<Lane> {
    let command = match command.map(|text| text.split_whitespace().map(String::from).collect::<Vec<_>>()) {
        Some(words) if words.is_empty() => {
            return Err(UsageError("`--worker-command` is empty".to_string()).into());
        }
        command => command,
    };
    let foreign = command.is_some();
    let options = LaneOptions {
        command,
        device: place.choice.spec.clone(),
        cache: place.farm.cache.clone(),
        support_cubin: support_cubin(place)?,
    };
    Lane::start(options).map_err(|error| match error {
        LaneError::Open { .. } | LaneError::Spawn { .. } => {
            let text = format!(
                "cannot open the device `{}`: {error}\nhint: `evo preflight --device {}` shows what is missing",
                place.choice.spec, place.choice.spec
            );
            UsageError(text).into()
        }
        LaneError::Died { .. } | LaneError::Refused { .. } | LaneError::Unexpected { .. } if foreign => {
            let text = format!(
                "the command of `--worker-command` is no device worker: {error}\nhint: it must end in `evo worker`, \
                 as `ssh host evo worker` does"
            );
            UsageError(text).into()
        }
        other => anyhow::Error::new(other).context("cannot start the device worker"),
    })
}

/// The CUDA device's helper kernels, compiled; none for the host.
pub fn support_cubin(place: &Place) -> anyhow::Result<Option<PathBuf>> {
    if place.choice.kind != DeviceKind::Cuda {
        return Ok(None);
    }
    let cubin = support::cubin(&place.choice.arch, SUPPORT_SOURCE, &place.farm.cache);
    cubin.map(Some).map_err(setup_error)
}

/// A missing or unusable compiler is the user's to mend.
pub fn setup_error(error: CompileSetupError) -> anyhow::Error {
    UsageError::with_hint(&error, error.hint()).into()
}

/// A recipe for a kernel on a lane's device; compiles the naive reference kernel if there is one.
pub fn recipe<'a>(
    kernel: &'a KernelSpec,
    problems: &[&'a ProblemSpec],
    place: &Place,
    lane: &Lane,
    seed: u64,
) -> anyhow::Result<KernelRecipe<'a>> {
    let reference = render_reference(kernel).map(|source| {
        let entries = source.entries.clone();
        match compile_one(&place.farm, source).map_err(setup_error)? {
            Ok(binary) => anyhow::Ok((binary, entries)),
            Err(verdict) => {
                let text = format!(
                    "the reference kernel of `{}` does not compile: {}\n{}",
                    kernel.name,
                    verdict.label(),
                    verdict.message
                );
                Err(UsageError(text).into())
            }
        }
    });
    let reference: Option<(Binary, Vec<String>)> = reference.transpose()?;
    let info = lane.info();
    Ok(KernelRecipe::new(kernel, info.limits.clone(), problems, reference, seed).on_arch(&info.arch))
}

/// How the space is named on a command line: an embedded one by name, another by path.
pub fn space_word(file: &SpaceFile) -> String {
    let stem = file.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    let embedded = crate::kernel::catalog::names().contains(&stem.as_str())
        && crate::kernel::catalog::open(&stem).is_ok_and(|own| own.path == file.path);
    if embedded { stem } else { file.path.display().to_string() }
}
