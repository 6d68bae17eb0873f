//! Inputs that are derived from inputs: launches of the task's own, before anything is timed.
//!
//! They belong to the task as a reference does, so what is wrong with them is never the variant's fault. They run on the
//! inputs as they were drawn; from then on a prepared input is one like any other, which is hashed and only read.

use evo_device::device::{BufferId, Device, ModuleId};
use evo_protocol::device::DeviceError;
use evo_protocol::plan::{Fill, ProblemPlan, Role};

use super::naive::NaiveModules;
use super::npy::task_error;
use super::pool::CaseSet;
use super::run::{self, Preparation, PreparedCase};

impl NaiveModules {
    pub fn derive(
        &self,
        device: &mut dyn Device,
        plan: &ProblemPlan,
        set: &CaseSet,
    ) -> Result<(), DeviceError> {
        let own = |position: usize| set.inputs.iter().find(|own| own.position == position);
        // Launches are given inputs alone, so nothing is bound to the numbers of other buffers.
        let buffers = (0..plan.buffers.len()).map(|at| own(at).map_or(BufferId(u32::MAX), |own| own.buffer));
        let Some(preparation) = bind(self.prepare, plan, &buffers.collect::<Vec<_>>())? else {
            return Ok(());
        };
        let mut drawn = Vec::new();
        for input in set.inputs.iter().filter(|own| !is_prepared(plan, own.position)) {
            drawn.push((input, device.hash(input.buffer)?));
        }
        // Zones that a variant has damaged before are left for its own gate to find.
        let sound = device.check_guards()?.is_empty();
        launch(device, &preparation)?;
        if sound && let Some(damage) = run::guards(device)?.first() {
            return Err(task_error(format!("the preparing kernel writes outside of `{}`", damage.buffer)));
        }
        for (input, before) in drawn {
            if device.hash(input.buffer)? != before {
                let name = &plan.buffers[input.position].name;
                return Err(task_error(format!(
                    "the preparing kernel changes `{name}`, which is not prepared"
                )));
            }
        }
        Ok(())
    }
}

impl PreparedCase {
    /// Derives them again in the working buffers, after other inputs have changed there.
    pub fn derive_again(&self, device: &mut dyn Device) -> Result<(), DeviceError> {
        let Some(preparation) = &self.preparation else { return Ok(()) };
        let plan = &self.case.plan;
        let prepared = || (0..plan.buffers.len()).filter(|at| is_prepared(plan, *at));
        for position in prepared() {
            device.protect(self.buffers[position], false)?;
        }
        launch(device, preparation)?;
        for position in prepared() {
            let own = &plan.buffers[position];
            device.protect(self.buffers[position], own.role == Role::Input && own.symbol.is_none())?;
        }
        Ok(())
    }
}

pub(super) fn bind(
    module: Option<ModuleId>,
    plan: &ProblemPlan,
    buffers: &[BufferId],
) -> Result<Option<Preparation>, DeviceError> {
    if plan.prepare_launches.is_empty() {
        return Ok(None);
    }
    let module = module.ok_or_else(|| task_error("the preparing kernel was not loaded"))?;
    Ok(Some(Preparation { module, launches: run::bind(&plan.prepare_launches, buffers, plan)? }))
}

fn is_prepared(plan: &ProblemPlan, position: usize) -> bool {
    plan.buffers[position].fill == Fill::Prepared
}

fn launch(device: &mut dyn Device, own: &Preparation) -> Result<(), DeviceError> {
    let ran = device.launch(own.module, &own.launches).and_then(|()| device.synchronize());
    ran.map_err(trouble)
}

pub(super) fn trouble(error: DeviceError) -> DeviceError {
    let own = task_error(format!("the preparing kernel failed: {error}"));
    if error.sticky { own.sticky() } else { own }
}
