//! Where a case's answers come from: a kept file, the plain functions, the user's kernel, or the device's own kernels.
//!
//! The device computes the large answers of built-in references, and the small ones beside the plain functions.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use evo_device::device::{BufferId, Tolerance};
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::VerdictKind;
use evo_protocol::worker::{CheckPlan, CommandReference, ReferencePlan};

use super::bounds::{self, AnswerScale, Oddities, OutputShape};
use super::case::Case;
use super::command::{self, CommandRunner};
use super::expected::{self, ExpectedSet, Question, Weighed};
use super::inputs::Family;
use super::naive::NaiveRunner;
use super::npy::task_error;
use super::on_device::{AGREEMENT, AGREEMENT_NOISE, Kernels, disagreement};
use super::pool::{CaseSet, ExpectedBuffer, Pool};
use super::reference::{ReferenceWork, WorkBuffers};
use super::state::Judge;
use super::{drawn, element};

/// Cases of fewer elements are computed by the processor: it takes less than a millisecond, and checks the device.
const ON_DEVICE_MIN: u64 = 1 << 16;

/// Answers, and the inputs to which they belong by buffer position.
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
    pub(super) fn answer(&mut self, asked: &Question<'_>) -> Result<Rc<CaseSet>, DeviceError> {
        let Question { check, case, .. } = asked;
        let work = self.work(check, &case.plan);
        if let Some(work) = work.as_ref().filter(|_| case.elements() >= ON_DEVICE_MIN) {
            return self.answer_on_device(asked, |own, set| own.builtin(work, set));
        }
        if self.takes_own(check, case) {
            match self.answer_on_device(asked, |mut own, set| own.answer(set)) {
                // It holds several lists in fp64, which the processor keeps in its own memory.
                Err(error) if error.kind == VerdictKind::OutOfMemory && !error.sticky => {}
                answered => return answered,
            }
        }
        let kept = self.kept(asked)?;
        let work = work.filter(|_| kept.is_none());
        let (answers, bytes) = match kept {
            Some(kept) => kept,
            None => {
                let computed = self.consult(asked);
                // Before a module runs again.
                self.commands.rest();
                computed?
            }
        };
        let set = self
            .fill(asked, (answers.magnitude, Some(&bytes)), |pool, set| upload(pool, asked, &answers, set))?;
        match work {
            Some(work) => self.compare_references(&work, case, &set).map(|()| set),
            None => Ok(set),
        }
    }

    /// Answers that were computed before; none if their inputs are others today.
    pub(super) fn kept(&mut self, asked: &Question<'_>) -> Result<Option<KeptCase>, DeviceError> {
        let Question { key, check, case, .. } = asked;
        let Some(answers) = self.expected.get(key) else { return Ok(None) };
        let bytes = expected::input_bytes(&case.plan, case.draw(check, answers.magnitude))?;
        Ok((expected::hash_inputs(&bytes) == answers.inputs).then_some((answers, bytes)))
    }

    /// The command, ready to be asked: every module is parked.
    pub(super) fn runner<'a>(
        &'a mut self,
        reference: &'a CommandReference,
        case: &'a Case,
    ) -> Result<CommandRunner<'a>, DeviceError> {
        self.pool.device.park()?;
        Ok(CommandRunner { desk: &mut self.commands, reference, case, reporter: &mut self.reporter })
    }

    /// Computes answers on the processor, by the user's kernel or by a command, which goes on running.
    pub(super) fn consult(&mut self, asked: &Question<'_>) -> Result<KeptCase, DeviceError> {
        let Question { key, check, case, modules } = asked;
        let Some(reference) = command_of(check) else {
            let began = Instant::now();
            let (pool, wide) = (&mut self.pool, check.reference_f64);
            let mut naive = NaiveRunner { pool, modules: *modules, plan: &case.plan, wide };
            let (answers, bytes) = expected::compute(check, case, &mut naive)?;
            return Ok((self.expected.put(key, answers, Some(began.elapsed())), bytes));
        };
        if let Some(error) = self.unanswered.get(key) {
            return Err(error.clone());
        }
        let computed = expected::compute(check, case, &mut self.runner(reference, case)?);
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
        ReferenceWork::of(name, plan).ok()?.for_kernels(plan, &self.pool.device.info().limits)
    }

    /// A case's inputs, drawn at a magnitude or given by position, and what `answer` adds to them.
    pub(super) fn fill<E: From<DeviceError>>(
        &mut self,
        asked: &Question<'_>,
        (magnitude, bytes): (f64, Option<&[Vec<u8>]>),
        answer: impl FnOnce(&mut Pool, &mut CaseSet) -> Result<(), E>,
    ) -> Result<Rc<CaseSet>, E> {
        let (plan, draw) = (&asked.case.plan, asked.case.draw(asked.check, magnitude));
        let references = self.device_references.as_ref();
        let write = |pool: &mut Pool, position: usize, buffer: BufferId| match bytes {
            Some(bytes) => pool.device.write(buffer, &bytes[position]),
            None => drawn::write_input(references, pool, (plan, position), draw, buffer),
        };
        self.pool.fill((&asked.key, magnitude), plan, write, |pool, set| {
            asked.modules.derive(pool.device.as_mut(), plan, set)?;
            answer(pool, set)
        })
    }

    /// Inputs and answers that the device draws and computes; `answer` completes a set of inputs.
    pub(super) fn answer_on_device(
        &mut self,
        asked: &Question<'_>,
        answer: impl Fn(OnDevice<'_>, &mut CaseSet) -> Result<(), Unanswered>,
    ) -> Result<Rc<CaseSet>, DeviceError> {
        let references = self.device_references.clone();
        let references = &references.ok_or_else(|| task_error("no reference kernels"))?;
        let mut why = String::new();
        // The largest magnitude first: the harder the inputs, the more they find.
        for magnitude in expected::magnitudes(asked.check, asked.case) {
            let set = self.fill(asked, (*magnitude, None), |pool, set| {
                answer(OnDevice { kernels: Kernels { pool, references }, asked }, set)
            });
            match set {
                Ok(set) => return Ok(set),
                Err(Unanswered::Useless(complaint)) => why = complaint,
                Err(Unanswered::Failed(error)) => return Err(error),
            }
        }
        Err(expected::no_answer(asked.case, &why))
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
        let mut kernels = Kernels { pool: &mut self.pool, references };
        let expected =
            kernels.pool.working("(answer again)", 8 * case.plan.buffers[work.output].elements())?;
        let (scale, _) = compute(&mut kernels, (work, &case.plan), set, expected)?;
        let atol = AGREEMENT * scale.max + AGREEMENT_NOISE * scale.noise_max;
        let tolerance = Tolerance { atol, rtol: AGREEMENT };
        let found = self.pool.device.compare(expected, DType::F64, target.expected, tolerance)?;
        let Some(index) = found.first_bad() else { return Ok(()) };
        let (own, other) = (found.first_bad_actual, found.first_bad_expected);
        Err(disagreement(&case.name(), &format!("element {index} is `{own:e}` and `{other:e}`")))
    }
}

fn upload(
    pool: &mut Pool,
    Question { check, case, .. }: &Question<'_>,
    answers: &ExpectedSet,
    set: &mut CaseSet,
) -> Result<(), DeviceError> {
    // An output without elements has nothing to compare.
    for output in answers.outputs.iter().filter(|output| !output.values.is_empty()) {
        let (position, plan) = (output.buffer, &case.plan.buffers[output.buffer]);
        let values = element::f64_bytes(&output.values);
        let expected = pool.room_for_answer(set, plan, values.len() as u64)?;
        set.targets.push(ExpectedBuffer {
            bounds: bounds::bounds(check, shape(case, position), &output.scale),
            rms: output.scale.rms,
            uncertain: output.uncertain.clone(),
            ..ExpectedBuffer::unjudged(position, expected)
        });
        pool.device.write(expected, &values)?;
    }
    Ok(())
}

/// What an answer on the device is made with.
pub(super) struct OnDevice<'a> {
    pub kernels: Kernels<'a>,
    pub asked: &'a Question<'a>,
}

impl OnDevice<'_> {
    fn builtin(mut self, work: &ReferenceWork, set: &mut CaseSet) -> Result<(), Unanswered> {
        let Question { check, case, .. } = self.asked;
        let plan = &case.plan.buffers[work.output];
        let expected = self.kernels.pool.room_for_answer(set, plan, 8 * plan.elements())?;
        // Before anything can fail, so that the buffer is freed with the set.
        set.targets.push(ExpectedBuffer::unjudged(work.output, expected));
        let (scale, odd) = compute(&mut self.kernels, (work, &case.plan), set, expected)?;
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
    kernels: &mut Kernels<'_>,
    (work, plan): (&ReferenceWork, &ProblemPlan),
    set: &CaseSet,
    expected: BufferId,
) -> Result<(AnswerScale, Oddities), DeviceError> {
    let input = |position: &usize| {
        let own = set.inputs.iter().find(|own| own.position == *position);
        own.map(|own| own.buffer).ok_or_else(|| task_error("an input of the reference is not there"))
    };
    let inputs = work.inputs.iter().map(input).collect::<Result<Vec<_>, _>>()?;
    let elements = plan.buffers[work.output].elements();
    let trusted = kernels.pool.working("(trusted)", 4 * elements)?;
    let scratch = kernels.pool.working("(reference)", 8 * work.scratch())?;
    kernels.compute(work, plan, &WorkBuffers { inputs, expected, trusted, scratch })
}

pub(super) fn shape(case: &Case, buffer: usize) -> OutputShape {
    let one_is_subnormal = case.family == Family::Subnormal && case.seed_index & 1 == 1;
    OutputShape { family: case.family, one_is_subnormal, ..expected::output_shape(&case.plan, buffer) }
}
