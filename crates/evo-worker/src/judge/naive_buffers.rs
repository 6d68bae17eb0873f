//! The buffers of the user's naive kernel: where they lie, what they hold before a run, and what is read from them after it.

use evo_device::device::{BufferId, Device, ModuleId};
use evo_protocol::device::DeviceError;
use evo_protocol::plan::{BufferPlan, ProblemPlan, Role, SIZE_VARIABLE};

use super::element::{self, Poison};
use super::expected::compared_as;
use super::npy::task_error;
use super::pool::Pool;
use super::run;

pub fn fill_sizes(
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

/// Whether it shows if the reference leaves elements of a buffer as they were. Integers may happen to equal the pattern.
pub fn may_be_left_out(buffer: &BufferPlan) -> bool {
    buffer.role == Role::Output && run::starts_as(buffer).is_none() && buffer.dtype.is_float()
}

pub fn left_out(buffer: &BufferPlan, count: u64) -> Result<(), DeviceError> {
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

pub fn values_of(buffer: &BufferPlan, bytes: &[u8]) -> Vec<f64> {
    let words = compared_as(buffer.dtype);
    let mut values = element::widen(bytes, words);
    values.truncate((buffer.elements() * buffer.dtype.bytes() / words.bytes()) as usize);
    values
}

pub fn start_of(declared: &BufferPlan, buffer: &BufferPlan, bytes: &[u8]) -> Vec<u8> {
    match (buffer.role, run::starts_as(buffer)) {
        (role, _) if role.is_read() && buffer.dtype != declared.dtype => {
            element::narrow(&element::widen(bytes, declared.dtype), buffer.dtype)
        }
        (role, _) if role.is_read() => bytes.to_vec(),
        (_, None) => {
            let pattern = element::poison(buffer.dtype, Poison::A).to_le_bytes();
            let bytes = run::allocated_bytes(buffer) as usize;
            pattern.into_iter().cycle().take(bytes).collect()
        }
        (_, Some(value)) => {
            let values = vec![value; buffer.elements().max(1) as usize];
            element::narrow(&values, buffer.dtype)
        }
    }
}

pub fn buffers_of(
    device: &mut dyn Device,
    pool: &mut Pool,
    taken: &ProblemPlan,
) -> Result<Vec<BufferId>, DeviceError> {
    let mut buffers = Vec::with_capacity(taken.buffers.len());
    for buffer in &taken.buffers {
        // Not where the variant finds it: in single precision its buffers are of one size with these.
        let name = format!("{} (reference)", buffer.name);
        let own = pool.working(device, &name, run::allocated_bytes(buffer))?;
        pool.note(own, None);
        device.protect(own, false)?;
        buffers.push(own);
    }
    Ok(buffers)
}
