//! The answers of a user's reference kernel to large cases, and how sure they are: all of it on the device.
//!
//! Answers of few elements are read back and measured in memory, as those of small cases are.

use evo_device::device::{BufferId, ModuleId};
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::Fill;
use evo_protocol::worker::{CheckPlan, ReferencePlan};

use super::answers::{OnDevice, Unanswered, shape};
use super::bounds::{self, AnswerScale, Oddities};
use super::case::Case;
use super::certainty::{Laboratory, List, Lists, Runs};
use super::expected::{self, Question, Weighed};
use super::family::Family;
use super::naive::{run_reference, taken_as};
use super::on_device::{Kernels, Measure, There};
use super::perturb::{Change, RunInputs};
use super::pool::{CaseSet, ExpectedBuffer, Pool};
use super::reference::ReferenceAnswer;
use super::state::Judge;
use super::{drawn, element, moves};

const ELEMENTS_MIN: u64 = 1 << 20;
const ANSWER_MIN: u64 = 1 << 16;

impl Judge {
    /// Whether the device answers this case of a reference kernel of the user's. Integers of 64 bits, parts of outputs,
    /// prepared inputs and the families that only small problems meet are left to the processor.
    pub(super) fn takes_own(&self, check: &CheckPlan, case: &Case) -> bool {
        let buffers = &case.plan.buffers;
        let mut answers = buffers.iter().filter(|buffer| buffer.role.is_answer());
        self.device_references.is_some()
            && matches!(check.reference, ReferencePlan::Kernel)
            && case.elements() >= ELEMENTS_MIN
            && drawn::is_drawn(case.family)
            && answers
                .all(|buffer| element::compared_as(buffer.dtype) == buffer.dtype && buffer.view.is_none())
            && buffers.iter().all(|buffer| buffer.fill != Fill::Prepared)
    }
}

struct LargeCase<'a, 'b> {
    on: &'b mut OnDevice<'a>,
    set: &'b CaseSet,
}

/// An answer, and what was measured of it on the device.
type Large = (ReferenceAnswer<List>, Measure);

impl OnDevice<'_> {
    pub(super) fn answer(&mut self, set: &mut CaseSet) -> Result<(), Unanswered> {
        let Question { check, case, .. } = self.asked;
        // Before anything can fail, so that the buffers are freed with the set.
        for (position, plan) in case.plan.buffers.iter().enumerate() {
            if plan.role.is_answer() && plan.elements() > 0 {
                let expected = self.kernels.pool.room_for_answer(set, plan, 8 * plan.elements())?;
                set.targets.push(ExpectedBuffer::unjudged(position, expected));
            }
        }
        let mut large = LargeCase { on: self, set };
        let (mut answers, measures): (Vec<_>, Vec<_>) = large.first()?.into_iter().unzip();
        let (plan, family) = (&case.plan, case.family);
        Laboratory { plan, family, runs: &mut large }.measure(&mut answers)?;
        let (mut scales, mut weighed) = (Vec::new(), Vec::new());
        for (answer, measure) in answers.iter_mut().zip(&measures) {
            answer.exact |= large.only_moves(answer)?;
            let (scale, odd) = large.scale(answer, measure)?;
            weighed.push(Weighed::of(answer, odd, scale.rms));
            scales.push(scale);
        }
        if let Some(complaint) = expected::complaint(check, case, &weighed) {
            return Err(Unanswered::Useless(complaint));
        }
        for (answer, scale) in answers.into_iter().zip(scales) {
            if let Some(target) = set.targets.iter_mut().find(|target| target.position == answer.buffer) {
                target.bounds = bounds::bounds(check, shape(case, answer.buffer), &scale);
                (target.rms, target.uncertain) = (scale.rms, answer.uncertain);
            }
        }
        Ok(())
    }
}

impl LargeCase<'_, '_> {
    fn run(
        &mut self,
        (module, dtype): (Option<ModuleId>, Option<DType>),
        run: RunInputs,
    ) -> Result<Lists, DeviceError> {
        let plan = &self.on.asked.case.plan;
        let taken = taken_as(plan, dtype);
        let Kernels { pool, references } = &mut self.on.kernels;
        let (references, set) = (*references, self.set);
        let write = |pool: &mut Pool, position: usize, buffer: BufferId| {
            let declared = &plan.buffers[position];
            let input = set.inputs.iter().find(|input| input.position == position);
            let elements = declared.elements().max(1);
            let from =
                There { buffer: input.map_or(buffer, |input| input.buffer), dtype: declared.dtype, elements };
            let to = There { buffer, dtype: taken.buffers[position].dtype, elements };
            Kernels { pool, references }.convert(from, to, run.change(position, declared))
        };
        let buffers = run_reference(pool, module, &taken, write)?;
        let mut lists = Vec::new();
        for ExpectedBuffer { position, .. } in &self.set.targets {
            let declared = &plan.buffers[*position];
            let (buffer, dtype) = (buffers[*position], taken.buffers[*position].dtype);
            let list = There { buffer, dtype, elements: declared.elements() };
            let list = match list.elements < ANSWER_MIN && declared.dtype.is_float() {
                true => List::Here(self.read(list)?),
                false => List::There(list),
            };
            lists.push((*position, list));
        }
        Ok(lists)
    }

    fn first(&mut self) -> Result<Vec<Large>, DeviceError> {
        let mut lists = self.answers(&[RunInputs::Same])?;
        let mut answers = Vec::new();
        for ((buffer, list), target) in lists.remove(0).into_iter().zip(&self.set.targets) {
            let declared = &self.on.asked.case.plan.buffers[buffer];
            let (exact, kernels) = (!declared.dtype.is_float(), &mut self.on.kernels);
            let there = There { buffer: target.expected, dtype: DType::F64, elements: declared.elements() };
            let expected = match list {
                List::Here(values) => {
                    kernels.pool.device.write(target.expected, &element::f64_bytes(&values))?;
                    List::Here(values)
                }
                List::There(list) => {
                    kernels.convert(list, there, Change::Unchanged)?;
                    List::There(there)
                }
            };
            let measure = kernels.measure(there)?;
            answers
                .push((ReferenceAnswer { buffer, expected, exact, ..ReferenceAnswer::default() }, measure));
        }
        Ok(answers)
    }

    fn read(&mut self, There { buffer, dtype, elements }: There) -> Result<Vec<f64>, DeviceError> {
        let mut values = element::widen(&self.on.kernels.pool.device.read(buffer)?, dtype);
        values.truncate(elements as usize);
        Ok(values)
    }

    fn only_moves(&mut self, answer: &ReferenceAnswer<List>) -> Result<bool, DeviceError> {
        let Question { check, case, .. } = self.on.asked;
        if !moves::is_asked(check, case, answer.buffer) {
            return Ok(false);
        }
        let expected = match &answer.expected {
            List::Here(values) => values.clone(),
            List::There(list) => self.read(*list)?,
        };
        let answer = ReferenceAnswer { buffer: answer.buffer, expected, ..ReferenceAnswer::default() };
        let bytes = expected::input_bytes(&case.plan, case.draw(check, 1.0))?;
        Ok(moves::only_moves(&case.plan, &bytes, &answer))
    }

    fn scale(
        &mut self,
        answer: &ReferenceAnswer<List>,
        measure: &Measure,
    ) -> Result<(AnswerScale, Oddities), DeviceError> {
        let ReferenceAnswer { buffer, uncertain, .. } = answer;
        let Question { case, .. } = self.on.asked;
        let (family, dtype) = (case.family, case.plan.buffers[*buffer].dtype);
        let List::There(expected) = answer.expected else {
            let own = answer.clone().map(List::into_values);
            let overflows = Oddities::of(&own, family).overflows;
            let scale = AnswerScale::of(&own).rounded_to(dtype, &own.expected);
            let elements = own.expected.len() as u64;
            return Ok((scale, measure.oddities(elements, overflows && family != Family::Normal)));
        };
        let elements = expected.elements;
        let single = answer.single.as_ref().and_then(|single| match single {
            List::There(single) => Some(single.buffer),
            List::Here(_) => None,
        });
        let kernels = &mut self.on.kernels;
        let (scale, mut error, lost) = kernels.weigh(expected, measure, single)?;
        if let Some(narrow) = single.filter(|_| !uncertain.is_empty()) {
            let list: Vec<f64> =
                uncertain.iter().flat_map(|(index, allowed)| [*index as f64, *allowed]).collect();
            let room = kernels.room("left out", *buffer, DType::F64, list.len() as u64)?.buffer;
            kernels.pool.device.write(room, &element::f64_bytes(&list))?;
            kernels.leave_out(narrow, room, uncertain.len() as u64)?;
            error = kernels.weigh(expected, measure, Some(narrow))?.1;
        }
        let mut rounding = (0.0, 0.0);
        if matches!(dtype, DType::F16 | DType::Bf16) {
            let half = kernels.room("half", *buffer, dtype, elements)?;
            let narrow = kernels.room("rounded", *buffer, DType::F32, elements)?;
            kernels.convert(expected, half, Change::Unchanged)?;
            kernels.convert(half, narrow, Change::Unchanged)?;
            let (_, error, _) = kernels.weigh(expected, measure, Some(narrow.buffer))?;
            rounding = error.map_or(rounding, |error| (error.mean.abs(), error.slope.abs()));
        }
        let scale = AnswerScale { single: error, rounding, ..scale.looked_at(answer) };
        Ok((scale, measure.oddities(elements, lost > 0.0 && family != Family::Normal)))
    }
}

impl Runs for LargeCase<'_, '_> {
    fn together(&self) -> usize {
        1
    }

    fn answers(&mut self, runs: &[RunInputs]) -> Result<Vec<Lists>, DeviceError> {
        let Question { check, modules, .. } = self.on.asked;
        let dtype = check.reference_f64.then_some(DType::F64);
        runs.iter().map(|run| self.run((modules.own, dtype), *run)).collect()
    }

    fn single(&mut self, run: RunInputs) -> Result<Option<Lists>, DeviceError> {
        let module = self.on.asked.modules.single;
        if module.is_none() {
            return Ok(None);
        }
        match self.run((module, Some(DType::F32)), run) {
            Ok(lists) => Ok(Some(lists)),
            Err(error) if error.sticky => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn kernels(&mut self) -> Option<Kernels<'_>> {
        let Kernels { pool, references } = &mut self.on.kernels;
        Some(Kernels { pool, references })
    }
}
