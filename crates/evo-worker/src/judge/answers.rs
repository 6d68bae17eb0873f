//! Where a case's answers come from: a kept file, the plain functions, the user's kernel, or the device's own kernels.
//!
//! The device computes the large answers of built-in references, and the small ones beside the plain functions.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use evo_device::device::{Device, Tolerance};
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::VerdictKind;
use evo_protocol::worker::{CheckPlan, CommandReference, ReferencePlan};
use evo_space::genome::ContentHash;

use super::bounds::{self, AnswerScale, Oddities, OutputShape};
use super::case::Case;
use super::command::{self, CommandRunner};
use super::drawn;
use super::element;
use super::expected::{self, ExpectedSet, Weighed};
use super::inputs::Family;
use super::naive::{NaiveModules, NaiveRunner};
use super::npy::task_error;
use super::on_device::{AGREEMENT, AGREEMENT_NOISE, DeviceReferences, disagreement};
use super::pool::{CaseInputs, CaseSet, ExpectedBuffer, Pool};
use super::reference::{ReferenceWork, WorkBuffers};
use super::state::Judge;

/// Cases of fewer elements are computed by the processor: it takes less than a millisecond, and checks the device.
const ON_DEVICE_MIN: u64 = 1 << 16;

pub(super) type KeptCase = (Arc<ExpectedSet>, Vec<Vec<u8>>);

pub(super) fn command_of(check: &CheckPlan) -> Option<&CommandReference> {
    match &check.reference {
        ReferencePlan::Command(command) => Some(command),
        _ => None,
    }
}

pub(super) enum Unanswered {
    Useless(String),
    Failed(DeviceError),
}

impl From<DeviceError> for Unanswered {
    fn from(error: DeviceError) -> Unanswered {
        Unanswered::Failed(error)
    }
}

impl Judge {
    pub(super) fn answer(
        &mut self,
        key: &ContentHash,
        check: &CheckPlan,
        case: &Case,
        modules: NaiveModules,
    ) -> Result<Rc<CaseSet>, DeviceError> {
        let work = self.work(check, &case.plan);
        if let Some(work) = work.as_ref().filter(|_| case.elements() >= ON_DEVICE_MIN) {
            return self.answer_on_device((key, modules), check, case, |own, set| own.builtin(work, set));
        }
        if self.takes_own(check, case) {
            match self.answer_on_device((key, modules), check, case, |mut own, set| own.answer(set)) {
                // It holds several lists in fp64, which the processor keeps in its own memory.
                Err(error) if error.kind == VerdictKind::OutOfMemory && !error.sticky => {}
                answered => return answered,
            }
        }
        let kept = self.kept(check, case, key)?;
        let work = work.filter(|_| kept.is_none());
        let (answers, bytes) = match kept {
            Some(kept) => kept,
            None => {
                let computed = self.consult(key, check, case, modules);
                // Before a module runs again.
                self.commands.rest();
                computed?
            }
        };
        let set = self.upload((key, modules), check, case, &answers, bytes)?;
        match work {
            Some(work) => self.compare_references(&work, case, &set).map(|()| set),
            None => Ok(set),
        }
    }

    /// Answers that were computed before, with the inputs to which they belong; none if those are others today.
    pub(super) fn kept(
        &mut self,
        check: &CheckPlan,
        case: &Case,
        key: &ContentHash,
    ) -> Result<Option<KeptCase>, DeviceError> {
        let Some(answers) = self.expected.get(key) else { return Ok(None) };
        let bytes = expected::inputs_at(check, case, answers.magnitude)?;
        Ok((expected::hash_inputs(&bytes) == answers.inputs).then_some((answers, bytes)))
    }

    /// Computes answers on the processor, by the user's kernel or by a command, which goes on running.
    pub(super) fn consult(
        &mut self,
        key: &ContentHash,
        check: &CheckPlan,
        case: &Case,
        modules: NaiveModules,
    ) -> Result<KeptCase, DeviceError> {
        let (plan, label) = (&case.plan, case.name());
        let Some(reference) = command_of(check) else {
            let (device, pool, wide) = (self.device.as_mut(), &mut self.pool, check.reference_f64);
            let began = Instant::now();
            let mut naive = NaiveRunner { device, pool, modules, plan, wide };
            let (answers, bytes) = expected::compute(check, case, &mut naive)?;
            return Ok((self.expected.put(key, answers, Some(began.elapsed())), bytes));
        };
        if let Some(error) = self.unanswered.get(key) {
            return Err(error.clone());
        }
        self.device.park()?;
        let reporter = &mut self.reporter;
        let mut runner = CommandRunner { desk: &mut self.commands, reference, plan, label: &label, reporter };
        let computed = expected::compute(check, case, &mut runner);
        // A command that failed is asked again; an answer that cannot be used stays so.
        if let Some(error) = computed.as_ref().err().filter(|error| !command::is_failure(error)) {
            self.unanswered.insert(key.clone(), error.clone());
        }
        let (answers, bytes) = computed?;
        Ok((self.expected.put(key, answers, None), bytes))
    }

    fn work(&self, check: &CheckPlan, plan: &ProblemPlan) -> Option<ReferenceWork> {
        let ReferencePlan::Builtin { name } = &check.reference else { return None };
        // It compares every element in its place.
        if plan.buffers.iter().any(|buffer| buffer.view.is_some()) {
            return None;
        }
        self.device_references.as_ref().filter(|own| own.has(name))?;
        // What is wrong with a problem is said where its answer is computed.
        ReferenceWork::of(name, plan).ok()?.for_kernels(plan, &self.device.info().limits)
    }

    fn upload(
        &mut self,
        (key, modules): (&ContentHash, NaiveModules),
        check: &CheckPlan,
        case: &Case,
        answers: &ExpectedSet,
        bytes: Vec<Vec<u8>>,
    ) -> Result<Rc<CaseSet>, DeviceError> {
        let mut write =
            |device: &mut dyn Device, position: usize, buffer| device.write(buffer, &bytes[position]);
        let inputs = CaseInputs { plan: &case.plan, write: &mut write };
        let device = self.device.as_mut();
        self.pool.fill(device, (key, answers.magnitude), inputs, |pool, device, set| {
            modules.derive(device, &case.plan, set)?;
            // An output without elements has nothing to compare.
            for output in answers.outputs.iter().filter(|output| !output.values.is_empty()) {
                let (position, plan) = (output.buffer, &case.plan.buffers[output.buffer]);
                let values = element::f64_bytes(&output.values);
                let expected = pool.room_for_answer(device, set, plan, values.len() as u64)?;
                set.targets.push(ExpectedBuffer {
                    bounds: bounds::bounds(check, shape(case, position), &output.scale),
                    rms: output.scale.rms,
                    uncertain: output.uncertain.clone(),
                    ..ExpectedBuffer::unjudged(position, expected)
                });
                device.write(expected, &values)?;
            }
            Ok(())
        })
    }

    /// Inputs and answers that the device draws and computes; `answer` completes a set of inputs.
    pub(super) fn answer_on_device(
        &mut self,
        (key, modules): (&ContentHash, NaiveModules),
        check: &CheckPlan,
        case: &Case,
        answer: impl Fn(OnDevice<'_>, &mut CaseSet) -> Result<(), Unanswered>,
    ) -> Result<Rc<CaseSet>, DeviceError> {
        let references = self.device_references.as_ref().ok_or_else(|| task_error("no reference kernels"))?;
        let mut why = String::new();
        // The largest magnitude first: the harder the inputs, the more they find.
        for magnitude in expected::magnitudes(check, case) {
            let (plan, draw) = (&case.plan, case.draw(check, *magnitude));
            let mut write = |device: &mut dyn Device, position: usize, buffer| {
                drawn::write_input(Some(references), device, plan, &plan.buffers[position], draw, buffer)
            };
            let inputs = CaseInputs { plan, write: &mut write };
            let device = self.device.as_mut();
            let set = self.pool.fill(device, (key, *magnitude), inputs, |pool, device, set| {
                modules.derive(device, plan, set)?;
                answer(OnDevice { references, device, pool, modules, check, case }, set)
            });
            match set {
                Ok(set) => return Ok(set),
                Err(Unanswered::Useless(complaint)) => why = complaint,
                Err(Unanswered::Failed(error)) => return Err(error),
            }
        }
        Err(expected::no_answer(case, &why))
    }

    fn compare_references(
        &mut self,
        work: &ReferenceWork,
        case: &Case,
        set: &CaseSet,
    ) -> Result<(), DeviceError> {
        let Some(references) = &self.device_references else { return Ok(()) };
        let Some(target) = set.targets.iter().find(|target| target.position == work.output) else {
            return Ok(());
        };
        let (device, pool) = (self.device.as_mut(), &mut self.pool);
        let bytes = 8 * case.plan.buffers[work.output].elements();
        let expected = pool.working(device, "(answer again)", bytes)?;
        let (scale, _) = compute(references, pool, device, (work, &case.plan), set, expected)?;
        let atol = AGREEMENT * scale.max + AGREEMENT_NOISE * scale.noise_max;
        let tolerance = Tolerance { atol, rtol: AGREEMENT };
        let found = device.compare(expected, DType::F64, target.expected, tolerance)?;
        match found.first_bad {
            None => Ok(()),
            Some(index) => {
                let (own, other) = (found.first_bad_actual, found.first_bad_expected);
                let what = format!("element {index} is `{own:e}` and `{other:e}`");
                Err(disagreement(&case.name(), &what))
            }
        }
    }
}

/// What an answer on the device is made with.
pub(super) struct OnDevice<'a> {
    pub references: &'a DeviceReferences,
    pub device: &'a mut dyn Device,
    pub pool: &'a mut Pool,
    pub modules: NaiveModules,
    pub check: &'a CheckPlan,
    pub case: &'a Case,
}

impl OnDevice<'_> {
    fn builtin(self, work: &ReferenceWork, set: &mut CaseSet) -> Result<(), Unanswered> {
        let OnDevice { references, device, pool, check, case, .. } = self;
        let plan = &case.plan.buffers[work.output];
        let expected = pool.room_for_answer(device, set, plan, 8 * plan.elements())?;
        // Before anything can fail, so that the buffer is freed with the set.
        set.targets.push(ExpectedBuffer::unjudged(work.output, expected));
        let (scale, odd) = compute(references, pool, device, (work, &case.plan), set, expected)?;
        let weighed = Weighed { buffer: work.output, odd, ..Weighed::default() };
        if let Some(complaint) = expected::complaint(check, case, &[weighed]) {
            return Err(Unanswered::Useless(complaint));
        }
        let bounds = bounds::bounds(check, shape(case, work.output), &scale);
        let target = ExpectedBuffer { bounds, rms: scale.rms, ..set.targets.remove(0) };
        set.targets.push(target);
        Ok(())
    }
}

fn compute(
    references: &DeviceReferences,
    pool: &mut Pool,
    device: &mut dyn Device,
    (work, plan): (&ReferenceWork, &ProblemPlan),
    set: &CaseSet,
    expected: evo_device::device::BufferId,
) -> Result<(AnswerScale, Oddities), DeviceError> {
    let input = |position: &usize| {
        let own = set.inputs.iter().find(|own| own.position == *position);
        own.map(|own| own.buffer).ok_or_else(|| task_error("an input of the reference is not there"))
    };
    let inputs = work.inputs.iter().map(input).collect::<Result<Vec<_>, _>>()?;
    let elements = plan.buffers[work.output].elements();
    let trusted = pool.working(device, "(trusted)", 4 * elements)?;
    let scratch = pool.working(device, "(reference)", 8 * work.scratch())?;
    references.compute(device, work, plan, &WorkBuffers { inputs, expected, trusted, scratch })
}

pub(super) fn shape(case: &Case, buffer: usize) -> OutputShape {
    let one_is_subnormal = case.family == Family::Subnormal && case.seed_index & 1 == 1;
    OutputShape { family: case.family, one_is_subnormal, ..expected::output_shape(&case.plan, buffer) }
}
