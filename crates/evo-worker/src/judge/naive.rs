//! The user's reference: a kernel or a command that gives answers to inputs.
//!
//! A naive kernel may have two builds, in double precision and in single. At small shapes, where most cases are, a run
//! takes microseconds and the way to the process in which it runs takes longer. So several runs go in one request: their
//! inputs travel in one buffer, in which the answers come back.

use std::borrow::Cow;

use evo_device::device::{BufferId, CopiedPart, ModuleId, PlacedCopy, SeriesCall};
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, ProblemPlan, Role, SIZE_VARIABLE};

use super::element::{self, Poison, compared_as};
use super::inputs::Family;
use super::npy::task_error;
use super::pool::Pool;
use super::run;

pub type NaiveAnswers = Vec<(usize, Vec<f64>)>;

pub trait NaiveReference {
    fn answers(&mut self, inputs: &[Vec<u8>]) -> Result<NaiveAnswers, DeviceError>;

    /// Its answers to several inputs at one shape, in their order.
    fn answers_each(&mut self, inputs: &[Vec<Vec<u8>>]) -> Result<Vec<NaiveAnswers>, DeviceError> {
        inputs.iter().map(|own| self.answers(own)).collect()
    }

    /// The same in single precision, where `answers` computes in double precision and there is such a build.
    fn single(&mut self, _inputs: &[Vec<u8>]) -> Result<Option<NaiveAnswers>, DeviceError> {
        Ok(None)
    }
}

impl<F: FnMut(&[Vec<u8>]) -> Result<NaiveAnswers, DeviceError>> NaiveReference for F {
    fn answers(&mut self, inputs: &[Vec<u8>]) -> Result<NaiveAnswers, DeviceError> {
        self(inputs)
    }
}

/// A case whose answers are looked at closely: the reference runs again, on inputs that are changed.
pub struct AskedCase<'a> {
    pub plan: &'a ProblemPlan,
    pub family: Family,
    /// The inputs, by buffer position.
    pub bytes: &'a [Vec<u8>],
    pub naive: &'a mut dyn NaiveReference,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct NaiveModules {
    pub own: Option<ModuleId>,
    /// In single precision, where `own` computes in double precision.
    pub single: Option<ModuleId>,
    pub prepare: Option<ModuleId>,
}

pub struct NaiveRunner<'a> {
    pub pool: &'a mut Pool,
    pub modules: NaiveModules,
    pub plan: &'a ProblemPlan,
    pub wide: bool,
}

impl NaiveReference for NaiveRunner<'_> {
    fn answers(&mut self, inputs: &[Vec<u8>]) -> Result<NaiveAnswers, DeviceError> {
        self.outputs(self.modules.own, self.wide.then_some(DType::F64), inputs)
    }

    fn answers_each(&mut self, inputs: &[Vec<Vec<u8>>]) -> Result<Vec<NaiveAnswers>, DeviceError> {
        // Contents of variables are written between launches, so such runs go one by one.
        let together = inputs.len() > 1
            && self.plan.reference_variables.is_empty()
            && !self.plan.reference_launches.is_empty();
        match self.modules.own.filter(|_| together) {
            Some(module) => self.series(module, inputs).map_err(reference_trouble),
            None => inputs.iter().map(|own| self.answers(own)).collect(),
        }
    }

    fn single(&mut self, inputs: &[Vec<u8>]) -> Result<Option<NaiveAnswers>, DeviceError> {
        if self.modules.single.is_none() {
            return Ok(None);
        }
        match self.outputs(self.modules.single, Some(DType::F32), inputs) {
            Ok(answers) => Ok(Some(answers)),
            Err(error) if error.sticky => Err(error),
            // The answers in double precision are there; what f32 costs stays unknown.
            Err(_) => Ok(None),
        }
    }
}

/// `write` writes an input, by its position.
pub fn run_reference(
    pool: &mut Pool,
    module: Option<ModuleId>,
    taken: &ProblemPlan,
    mut write: impl FnMut(&mut Pool, usize, BufferId) -> Result<(), DeviceError>,
) -> Result<Vec<BufferId>, DeviceError> {
    let module = module.ok_or_else(|| task_error("the reference kernel was not loaded"))?;
    let mut run = || -> Result<Vec<BufferId>, DeviceError> {
        let buffers = buffers_of(pool, taken)?;
        for (position, (plan, buffer)) in taken.buffers.iter().zip(&buffers).enumerate() {
            match plan.role.is_read() {
                true => write(pool, position, *buffer)?,
                false => run::start(pool.device.as_mut(), plan, *buffer, Poison::A)?,
            }
        }
        let launches = run::bind(&taken.reference_launches, &buffers, taken)?;
        // At a size of 0 there may be nothing to launch.
        if !launches.is_empty() {
            fill_sizes(pool, module, taken)?;
            let device = &mut pool.device;
            let variables = || {
                let all = taken.reference_variables.iter();
                all.filter_map(|at| Some((taken.buffers.get(*at)?.symbol.as_deref()?, *buffers.get(*at)?)))
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
        for (plan, buffer) in taken.buffers.iter().zip(&buffers) {
            if plan.role.is_answer() && may_be_left_out(plan) {
                let pattern = element::poison(plan.dtype, Poison::A);
                left_out(plan, run::count_pattern(pool.device.as_mut(), *buffer, plan, pattern)?)?;
            }
        }
        Ok(buffers)
    };
    run().map_err(reference_trouble)
}

/// The plan as the reference takes it.
pub fn taken_as(plan: &ProblemPlan, dtype: Option<DType>) -> Cow<'_, ProblemPlan> {
    dtype.map_or(Cow::Borrowed(plan), |dtype| Cow::Owned(retyped(plan, dtype)))
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

fn fill_sizes(pool: &mut Pool, module: ModuleId, plan: &ProblemPlan) -> Result<(), DeviceError> {
    let size = |name: &String| (name.clone(), plan.sizes.get(name).copied().unwrap_or_default());
    let sizes = plan.reference_sizes.iter().map(size);
    let parameters = plan.reference_parameters.iter();
    // The loader lets nothing else through.
    let parameters = parameters.filter_map(|(name, value)| Some((name.clone(), value.as_int()?)));
    for (name, value) in sizes.chain(parameters) {
        let own = pool.working(&format!("size {name} (reference)"), 4)?;
        pool.device.protect(own, false)?;
        pool.device.write(own, &(value as i32).to_le_bytes())?;
        pool.device.write_variable(module, &format!("{SIZE_VARIABLE}{name}"), own)?;
    }
    Ok(())
}

/// Whether it shows if the reference leaves elements of a buffer as they were. Integers may happen to equal the pattern.
fn may_be_left_out(buffer: &BufferPlan) -> bool {
    buffer.role == Role::Output && run::starts_as(buffer).is_none() && buffer.dtype.is_float()
}

fn left_out(buffer: &BufferPlan, count: u64) -> Result<(), DeviceError> {
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

/// What is compared of an output.
fn values_of(buffer: &BufferPlan, bytes: &[u8]) -> Vec<f64> {
    let words = compared_as(buffer.dtype);
    let mut values = element::widen(bytes, words);
    values.truncate((buffer.elements() * buffer.dtype.bytes() / words.bytes()) as usize);
    buffer.compared(values)
}

/// An input as the reference takes it.
fn converted<'a>(declared: &BufferPlan, taken: &BufferPlan, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    match taken.dtype == declared.dtype {
        true => Cow::Borrowed(bytes),
        false => Cow::Owned(element::narrow(&element::widen(bytes, declared.dtype), taken.dtype)),
    }
}

/// What a buffer holds before a run.
fn start_of(declared: &BufferPlan, taken: &BufferPlan, bytes: &[u8]) -> Vec<u8> {
    match run::starts_as(taken) {
        _ if taken.role.is_read() => converted(declared, taken, bytes).into_owned(),
        None => {
            let pattern = element::poison(taken.dtype, Poison::A).to_le_bytes();
            pattern.into_iter().cycle().take(run::allocated_bytes(taken) as usize).collect()
        }
        Some(value) => element::narrow(&vec![value; taken.elements().max(1) as usize], taken.dtype),
    }
}

fn buffers_of(pool: &mut Pool, taken: &ProblemPlan) -> Result<Vec<BufferId>, DeviceError> {
    let mut buffers = Vec::with_capacity(taken.buffers.len());
    for buffer in &taken.buffers {
        // Not where the variant finds it: in single precision its buffers are of one size with these.
        let name = format!("{} (reference)", buffer.name);
        let own = pool.working(&name, run::allocated_bytes(buffer))?;
        pool.note(own, None);
        pool.device.protect(own, false)?;
        buffers.push(own);
    }
    Ok(buffers)
}

impl NaiveRunner<'_> {
    /// Runs a build and reads its outputs back as fp64. Where it is compiled for one floating-point type, it takes every
    /// such argument so: with the value that the variant sees, converted.
    fn outputs(
        &mut self,
        module: Option<ModuleId>,
        dtype: Option<DType>,
        inputs: &[Vec<u8>],
    ) -> Result<NaiveAnswers, DeviceError> {
        let (plan, taken) = (self.plan, taken_as(self.plan, dtype));
        let write = |pool: &mut Pool, position: usize, buffer| {
            let (declared, taken) = (&plan.buffers[position], &taken.buffers[position]);
            pool.device.write(buffer, &converted(declared, taken, &inputs[position]))
        };
        let buffers = run_reference(self.pool, module, &taken, write)?;
        let mut outputs = Vec::new();
        for (position, buffer) in taken.buffers.iter().enumerate().filter(|(_, own)| own.role.is_answer()) {
            let bytes = self.pool.device.read(buffers[position]).map_err(reference_trouble)?;
            outputs.push((position, values_of(buffer, &bytes)));
        }
        Ok(outputs)
    }

    fn series(
        &mut self,
        module: ModuleId,
        inputs: &[Vec<Vec<u8>>],
    ) -> Result<Vec<NaiveAnswers>, DeviceError> {
        let taken = taken_as(self.plan, self.wide.then_some(DType::F64));
        let plan = &*taken;
        let pool = &mut *self.pool;
        let buffers = buffers_of(pool, plan)?;
        let launches = run::bind(&plan.reference_launches, &buffers, plan)?;
        fill_sizes(pool, module, plan)?;
        // Where each buffer lies in a run's part, and its bytes.
        let mut stride = 0;
        let place = |buffer: &BufferPlan| {
            let (start, bytes) = (stride, run::allocated_bytes(buffer));
            stride = (start + bytes).next_multiple_of(ALIGNMENT);
            (start, bytes)
        };
        let places: Vec<(u64, u64)> = plan.buffers.iter().map(place).collect();
        let mut contents = vec![0; stride as usize * inputs.len()];
        let size = (contents.len() as u64).next_power_of_two().max(PACKED_MIN);
        let packed = pool.working("runs (reference)", size)?;
        let mut calls = vec![SeriesCall::default(); inputs.len()];
        for (run, (call, inputs)) in calls.iter_mut().zip(inputs).enumerate() {
            for (position, (start, bytes)) in places.iter().copied().enumerate() {
                let (buffer, taken, there) =
                    (buffers[position], &plan.buffers[position], run as u64 * stride + start);
                let before = start_of(&self.plan.buffers[position], taken, &inputs[position]);
                contents[there as usize..][..before.len()].copy_from_slice(&before);
                let part = CopiedPart { source: there, target: 0, bytes };
                call.before.push(PlacedCopy { from: packed, to: buffer, part });
                if taken.role.is_answer() {
                    let part = CopiedPart { source: 0, target: there, bytes };
                    call.after.push(PlacedCopy { from: buffer, to: packed, part });
                }
            }
        }
        pool.note(packed, None);
        let device = &mut pool.device;
        device.protect(packed, false)?;
        device.write(packed, &contents)?;
        device.launch_series(module, &launches, &calls)?;
        device.synchronize()?;
        let contents = device.read(packed)?;
        let answers_of = |run: usize| {
            let mut answers = Vec::new();
            for (position, (buffer, (start, bytes))) in plan.buffers.iter().zip(&places).enumerate() {
                if buffer.role.is_answer() {
                    let start = run * stride as usize + *start as usize;
                    let bytes = &contents[start..start + *bytes as usize];
                    if may_be_left_out(buffer) {
                        let pattern = element::poison(buffer.dtype, Poison::A);
                        left_out(buffer, element::pattern_elements(bytes, buffer, pattern))?;
                    }
                    answers.push((position, values_of(buffer, bytes)));
                }
            }
            Ok(answers)
        };
        (0..inputs.len()).map(answers_of).collect()
    }
}

/// The least size, bytes: sizes are powers of two, so that all shapes share a few.
const PACKED_MIN: u64 = 1 << 12;
const ALIGNMENT: u64 = 16;

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use evo_protocol::dtype::DType;
    use evo_protocol::plan::{ArgumentRef, LaunchPlan, Role};

    use super::*;
    use crate::judge::fake::{Call, FakeDevice};
    use crate::judge::reference::testing::{buffer, plan};

    /// `y[i] = 2 x[i] + z[i]`, `z` counted up, for vectors of an odd length; `kernel` may do otherwise.
    fn asked(
        inputs: &[Vec<Vec<u8>>],
        together: bool,
        kernel: impl Fn(&mut Call<'_>) + 'static,
    ) -> Result<Vec<NaiveAnswers>, DeviceError> {
        let of = |name, role| buffer(name, DType::F32, &[5], role);
        let buffers = vec![of("x", Role::Input), of("y", Role::Output), of("z", Role::Inout)];
        let mut own = plan("tiny:N=5", &[("N", 5)], buffers);
        own.reference_launches = vec![LaunchPlan {
            entry: "naive".into(),
            grid: [1; 3],
            block: [1; 3],
            arguments: (0..3).map(ArgumentRef::Buffer).collect(),
            ..LaunchPlan::default()
        }];
        let kernel = Rc::new(move |call: &mut Call<'_>| {
            kernel(call);
            Ok(())
        });
        let mut pool = Pool::new(Box::new(FakeDevice::new(vec![("naive", kernel)])), 1 << 20);
        let module = pool.device.load(b"naive", &["naive".into()])?;
        let modules = NaiveModules { own: Some(module), ..NaiveModules::default() };
        let mut runner = NaiveRunner { pool: &mut pool, modules, plan: &own, wide: false };
        match together {
            true => runner.answers_each(inputs),
            false => inputs.iter().map(|own| runner.answers(own)).collect(),
        }
    }

    fn honest(call: &mut Call<'_>) {
        let (x, z) = (call.load(0), call.load(2));
        for index in 0..5 {
            call.store(1, index, 2.0 * x[index as usize] + z[index as usize]);
            call.store(2, index, z[index as usize] + 1.0);
        }
    }

    fn inputs() -> Vec<Vec<Vec<u8>>> {
        let values = |first: f64| element::narrow(&[first, 1.0, -2.0, 0.5, 7.0], DType::F32);
        (0..4).map(|run| vec![values(f64::from(run)), vec![0; 20], values(-3.0)]).collect()
    }

    #[test]
    fn runs_together_answer_what_runs_one_by_one_answer() {
        let (inputs, one) = (inputs(), inputs()[0].clone());
        let together = asked(&inputs, true, honest).unwrap();
        assert_eq!(together, asked(&inputs, false, honest).unwrap());
        assert_eq!(together[3], [(1, vec![3.0, 3.0, -6.0, 1.5, 21.0]), (2, vec![-2.0, 2.0, -1.0, 1.5, 8.0])]);
        assert_eq!(asked(&[one], true, honest).unwrap(), together[..1]);
    }

    #[test]
    fn an_element_that_one_run_leaves_out_is_the_tasks_fault() {
        let forgetful = |call: &mut Call<'_>| {
            let third = call.load(0)[0] == 2.0;
            (0..5).filter(|index| !third || *index != 4).for_each(|index| call.store(1, index, 1.0));
        };
        let [together, apart] =
            [true, false].map(|together| asked(&inputs(), together, forgetful).unwrap_err());
        assert_eq!(together, apart);
        assert!(together.message.contains("leaves 1 of 5 elements of `y` unwritten"), "{together}");
    }
}
