//! What a lane asks of a kernel's reference before any variant is there.

use evo_protocol::device::DeviceKind;
use evo_protocol::plan::{BufferPlan, ProblemPlan};
use evo_space::genome::Configuration;

use super::error::CliError;
use crate::engine::recipe::KernelRecipe;
use crate::kernel::resolve::resolve;
use crate::kernel::spec::{KernelSpec, ProblemSpec, ReferenceSpec};
use crate::supervise::lane::{Lane, LaneError};

/// Asks a reference by command about the smallest problem, before there is a study or a variant: a command that does
/// not work is a mistake in the space. Does nothing for other references.
pub fn rehearse(
    lane: &mut Lane,
    kernel: &KernelSpec,
    problems: &[&ProblemSpec],
    configuration: &Configuration,
    recipe: &KernelRecipe,
) -> Result<(), CliError> {
    let ReferenceSpec::Command(_) = &kernel.check.reference else { return Ok(()) };
    let elements = |plan: &ProblemPlan| plan.buffers.iter().map(BufferPlan::elements).sum::<u64>();
    let plans = problems.iter().filter_map(|problem| resolve(kernel, configuration, problem).ok());
    let Some(smallest) = plans.min_by_key(elements) else { return Ok(()) };
    match lane.prepare(recipe.judging().0, &[smallest]) {
        Ok(()) => Ok(()),
        Err(LaneError::Refused { error }) => Err(CliError::usage(error.message).with_hint(format!(
            "nothing of `{}` can be judged without its reference; `docs/space_files.md` says what a command is handed",
            kernel.name
        ))),
        Err(error @ LaneError::OutOfTime) => {
            Err(CliError::limit(format!("the reference was not computed: {error}")))
        }
        Err(error) => Err(CliError::harness(format!("the reference was not computed: {error}"))),
    }
}

/// Has a GPU's lane compute the answers of a built-in reference while the first proposals are compiled. On the host device
/// both would use the same processor.
pub fn answer_ahead(
    lane: &mut Lane,
    kernel: &KernelSpec,
    problems: &[&ProblemSpec],
    configuration: &Configuration,
    recipe: &KernelRecipe,
) {
    let is_builtin = matches!(kernel.check.reference, ReferenceSpec::Builtin { .. });
    if !is_builtin || lane.info().kind != DeviceKind::Cuda {
        return;
    }
    let plans = problems.iter().filter_map(|problem| resolve(kernel, configuration, problem).ok());
    lane.answer_ahead(recipe.judging().0, plans.collect());
}
