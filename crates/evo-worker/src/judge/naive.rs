//! The user's naive reference kernel: its answers, and the answers of its build in single precision.

use std::borrow::Cow;

use evo_device::device::{BufferId, Device, ModuleId};
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::ProblemPlan;

use super::element::{self, Poison};
use super::naive_answers::{NaiveAnswers, NaiveReference};
use super::naive_buffers::{buffers_of, fill_sizes, left_out, may_be_left_out, start_of, values_of};
use super::naive_series;
use super::npy::task_error;
use super::pool::{InputWriter, Pool};
use super::run;

#[derive(Clone, Copy, Debug, Default)]
pub struct NaiveModules {
    pub own: Option<ModuleId>,
    /// In single precision, where `own` computes in double precision.
    pub single: Option<ModuleId>,
    pub prepare: Option<ModuleId>,
}

pub struct NaiveRunner<'a> {
    pub device: &'a mut dyn Device,
    pub pool: &'a mut Pool,
    pub modules: NaiveModules,
    pub plan: &'a ProblemPlan,
    pub wide: bool,
}

impl NaiveReference for NaiveRunner<'_> {
    fn answers(&mut self, inputs: &[Vec<u8>]) -> Result<NaiveAnswers, DeviceError> {
        let dtype = self.wide.then_some(DType::F64);
        naive_outputs(self.device, self.pool, self.modules.own, self.plan, inputs, dtype)
    }

    fn answers_each(&mut self, inputs: &[Vec<Vec<u8>>]) -> Result<Vec<NaiveAnswers>, DeviceError> {
        let module = self.modules.own.filter(|_| inputs.len() > 1 && naive_series::takes(self.plan));
        let Some(module) = module else { return inputs.iter().map(|own| self.answers(own)).collect() };
        let taken = taken_as(self.plan, self.wide.then_some(DType::F64));
        let starts = |own: &Vec<Vec<u8>>| {
            let all = self.plan.buffers.iter().zip(&taken.buffers).zip(own);
            all.map(|((declared, buffer), bytes)| start_of(declared, buffer, bytes)).collect()
        };
        let starts: Vec<Vec<Vec<u8>>> = inputs.iter().map(starts).collect();
        let series = naive_series::run(self.device, self.pool, module, &taken, &starts);
        series.map_err(reference_trouble)
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
    let taken = taken_as(plan, dtype);
    let mut write = |device: &mut dyn Device, position: usize, buffer: BufferId| {
        let (declared, taken) = (&plan.buffers[position], &taken.buffers[position]);
        match taken.dtype == declared.dtype {
            true => device.write(buffer, &inputs[position]),
            false => {
                let values = element::widen(&inputs[position], declared.dtype);
                device.write(buffer, &element::narrow(&values, taken.dtype))
            }
        }
    };
    let buffers = run_reference(device, pool, module, &taken, &mut write)?;
    let mut outputs = Vec::new();
    for (position, buffer) in taken.buffers.iter().enumerate() {
        if buffer.role.is_answer() {
            let bytes = device.read(buffers[position]).map_err(reference_trouble)?;
            outputs.push((position, values_of(buffer, &bytes)));
        }
    }
    Ok(outputs)
}

pub fn run_reference(
    device: &mut dyn Device,
    pool: &mut Pool,
    module: Option<ModuleId>,
    taken: &ProblemPlan,
    write: &mut InputWriter<'_>,
) -> Result<Vec<BufferId>, DeviceError> {
    let module = module.ok_or_else(|| task_error("the reference kernel was not loaded"))?;
    let mut run = || -> Result<Vec<BufferId>, DeviceError> {
        let buffers = buffers_of(device, pool, taken)?;
        for (position, (plan, buffer)) in taken.buffers.iter().zip(&buffers).enumerate() {
            match (plan.role, run::starts_as(plan)) {
                (role, _) if role.is_read() => write(device, position, *buffer)?,
                (_, None) => device.fill(*buffer, element::poison(plan.dtype, Poison::A))?,
                (_, Some(0.0)) => device.fill(*buffer, 0)?,
                (_, Some(value)) => {
                    let values = vec![value; plan.elements().max(1) as usize];
                    device.write(*buffer, &element::narrow(&values, plan.dtype))?;
                }
            }
        }
        let launches = run::bind(&taken.reference_launches, &buffers, taken)?;
        // At a size of 0 there may be nothing to launch.
        if !launches.is_empty() {
            fill_sizes(device, pool, module, taken)?;
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
                left_out(plan, run::count_pattern(device, *buffer, plan, pattern)?)?;
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
        let mut device = FakeDevice::new(vec![("naive", kernel)]);
        let module = device.load(b"naive", &["naive".into()])?;
        let modules = NaiveModules { own: Some(module), single: None, prepare: None };
        let (device, pool) = (&mut device, &mut Pool::new(1 << 20));
        let mut runner = NaiveRunner { device, pool, modules, plan: &own, wide: false };
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
