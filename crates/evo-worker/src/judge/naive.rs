//! The user's naive reference kernel: its answers, and the answers of its build in single precision.

use std::borrow::Cow;

use evo_device::device::{BufferId, Device, ModuleId};
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, ProblemPlan, Role, SIZE_VARIABLE};

use super::element::{self, Poison};
use super::expected::compared_as;
use super::naive_answers::NaiveAnswers;
use super::naive_answers::NaiveReference;
use super::npy::task_error;
use super::pool::Pool;
use super::run;

/// The builds of a naive kernel that are loaded.
#[derive(Clone, Copy, Debug, Default)]
pub struct NaiveModules {
    pub own: Option<ModuleId>,
    /// In single precision, where `own` computes in double precision.
    pub single: Option<ModuleId>,
    /// The task's kernels that derive inputs from inputs.
    pub prepare: Option<ModuleId>,
}

/// Runs a naive kernel at one problem.
pub struct NaiveRunner<'a> {
    pub device: &'a mut dyn Device,
    pub pool: &'a mut Pool,
    pub modules: NaiveModules,
    pub plan: &'a ProblemPlan,
    /// Whether `modules.own` computes in double precision.
    pub wide: bool,
}

impl NaiveReference for NaiveRunner<'_> {
    fn answers(&mut self, inputs: &[Vec<u8>]) -> Result<NaiveAnswers, DeviceError> {
        let dtype = self.wide.then_some(DType::F64);
        naive_outputs(self.device, self.pool, self.modules.own, self.plan, inputs, dtype)
    }

    fn single(&mut self, inputs: &[Vec<u8>]) -> Result<Option<NaiveAnswers>, DeviceError> {
        if self.modules.single.is_none() {
            return Ok(None);
        }
        let module = self.modules.single;
        let found = naive_outputs(self.device, self.pool, module, self.plan, inputs, Some(DType::F32));
        match found {
            Ok(answers) => Ok(Some(answers)),
            Err(error) if error.sticky => Err(error),
            // The answers in double precision are there; what f32 costs stays unknown.
            Err(_) => Ok(None),
        }
    }
}

/// Runs the user's naive kernel and reads its outputs back as fp64. Where it is compiled for one
/// floating-point type, it takes every such argument so: with the value that the variant sees, converted.
fn naive_outputs(
    device: &mut dyn Device,
    pool: &mut Pool,
    module: Option<ModuleId>,
    plan: &ProblemPlan,
    inputs: &[Vec<u8>],
    dtype: Option<DType>,
) -> Result<NaiveAnswers, DeviceError> {
    let module = module.ok_or_else(|| task_error("the reference kernel was not loaded"))?;
    let taken = dtype.map_or(Cow::Borrowed(plan), |dtype| Cow::Owned(retyped(plan, dtype)));
    let mut run = || -> Result<NaiveAnswers, DeviceError> {
        let mut buffers: Vec<BufferId> = Vec::new();
        for ((declared, buffer), bytes) in plan.buffers.iter().zip(&taken.buffers).zip(inputs) {
            // Not where the variant finds it: in single precision its buffers are of one size with these.
            let name = format!("{} (reference)", buffer.name);
            let own = pool.working(device, &name, run::allocated_bytes(buffer))?;
            pool.note(own, None);
            device.protect(own, false)?;
            match (buffer.role, run::starts_as(buffer)) {
                (role, _) if role.is_read() && buffer.dtype != declared.dtype => {
                    device
                        .write(own, &element::narrow(&element::widen(bytes, declared.dtype), buffer.dtype))?;
                }
                (role, _) if role.is_read() => device.write(own, bytes)?,
                (_, None) => device.fill(own, element::poison(buffer.dtype, Poison::A))?,
                (_, Some(value)) => {
                    let values = vec![value; buffer.elements().max(1) as usize];
                    device.write(own, &element::narrow(&values, buffer.dtype))?;
                }
            }
            buffers.push(own);
        }
        let launches = run::bind(&taken.reference_launches, &buffers, &taken)?;
        // At a size of 0 there may be nothing to launch.
        if !launches.is_empty() {
            fill_sizes(device, pool, module, &taken)?;
            let variables = || {
                let own = taken.reference_variables.iter();
                own.filter_map(|own| Some((taken.buffers.get(*own)?.symbol.as_deref()?, *buffers.get(*own)?)))
            };
            for (name, buffer) in variables() {
                device.write_variable(module, name, buffer)?;
            }
            device.launch(module, &launches)?;
            device.synchronize()?;
            for (name, buffer) in variables() {
                device.read_variable(module, name, buffer)?;
            }
        }
        let mut outputs = Vec::new();
        for (position, buffer) in taken.buffers.iter().enumerate() {
            if buffer.role.is_answer() {
                left_out(device, buffers[position], buffer)?;
                let words = compared_as(buffer.dtype);
                let mut values = element::widen(&device.read(buffers[position])?, words);
                values.truncate((buffer.elements() * buffer.dtype.bytes() / words.bytes()) as usize);
                outputs.push((position, values));
            }
        }
        Ok(outputs)
    };
    run().map_err(reference_trouble)
}

/// Gives the reference the sizes and parameters that it reads by name.
fn fill_sizes(
    device: &mut dyn Device,
    pool: &mut Pool,
    module: ModuleId,
    plan: &ProblemPlan,
) -> Result<(), DeviceError> {
    let size = |name: &String| (name.clone(), plan.sizes.get(name).copied().unwrap_or_default());
    let sizes = plan.reference_sizes.iter().map(size);
    let parameters = plan.reference_parameters.iter();
    // The loader lets nothing else through.
    let parameters = parameters.filter_map(|(name, value)| Some((name.clone(), value.as_int()?)));
    for (name, value) in sizes.chain(parameters) {
        let own = pool.working(device, &format!("size {name} (reference)"), 4)?;
        device.protect(own, false)?;
        device.write(own, &(value as i32).to_le_bytes())?;
        device.write_variable(module, &format!("{SIZE_VARIABLE}{name}"), own)?;
    }
    Ok(())
}

/// An error if the reference leaves elements of an output as they were: then nothing tells what is right there.
fn left_out(device: &mut dyn Device, own: BufferId, buffer: &BufferPlan) -> Result<(), DeviceError> {
    // Integers may happen to equal the pattern.
    if buffer.role != Role::Output || run::starts_as(buffer).is_some() || !buffer.dtype.is_float() {
        return Ok(());
    }
    let count = run::count_pattern(device, own, buffer, element::poison(buffer.dtype, Poison::A))?;
    let count = count.min(buffer.elements());
    if count == 0 {
        return Ok(());
    }
    let (name, elements) = (&buffer.name, buffer.elements());
    Err(task_error(format!(
        "the reference leaves {count} of {elements} elements of `{name}` unwritten\nhint: an output is written in full; \
         if some elements are to stay as they are, give `{name}` the role `inout`"
    )))
}

/// The plan as a kernel of one floating-point type takes it. Scalars keep the value that their own type holds.
fn retyped(plan: &ProblemPlan, dtype: DType) -> ProblemPlan {
    let mut plan = plan.clone();
    for buffer in plan.buffers.iter_mut().filter(|buffer| buffer.dtype.is_float()) {
        buffer.dtype = dtype;
    }
    for scalar in plan.scalars.iter_mut().chain(&mut plan.literals).filter(|scalar| scalar.dtype.is_float()) {
        let rounded = element::widen(&element::narrow(&[scalar.value], scalar.dtype), scalar.dtype);
        scalar.value = rounded.first().copied().unwrap_or(scalar.value);
        scalar.dtype = dtype;
    }
    plan
}

/// Trouble with the user's reference is never the variant's fault.
pub(super) fn reference_trouble(error: DeviceError) -> DeviceError {
    let sticky = error.sticky;
    let own = task_error(format!("the reference kernel failed: {error}"));
    if sticky { own.sticky() } else { own }
}
