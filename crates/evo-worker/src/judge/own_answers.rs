//! The answers of a user's reference kernel to large cases, and how sure they are: all of it on the device.
//!
//! Answers of few elements are read back and measured in memory, as those of small cases are.

use evo_device::device::{BufferId, Device, ModuleId};
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::Fill;
use evo_protocol::worker::{CheckPlan, ReferencePlan};

use super::answers::{OnDevice, Unanswered, shape};
use super::bounds::{self, AnswerScale, Oddities};
use super::case::Case;
use super::certainty::{Laboratory, List, Lists, Runs, Shelf};
use super::drawn;
use super::element;
use super::elements::Typed;
use super::expected::{self, Weighed};
use super::family::Family;
use super::moves;
use super::naive::{run_reference, taken_as};
use super::on_device::Measure;
use super::perturb::{Change, RunInputs};
use super::pool::{CaseSet, ExpectedBuffer};
use super::reference::ReferenceAnswer;
use super::state::Judge;

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
        let (check, case) = (self.check, self.case);
        // Before anything can fail, so that the buffers are freed with the set.
        for (position, plan) in case.plan.buffers.iter().enumerate() {
            if plan.role.is_answer() && plan.elements() > 0 {
                let expected = self.pool.room_for_answer(self.device, set, plan, 8 * plan.elements())?;
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
        let plan = &self.on.case.plan;
        let taken = taken_as(plan, dtype);
        let (references, set) = (self.on.references, self.set);
        let mut write = |device: &mut dyn Device, position: usize, buffer: BufferId| {
            let declared = &plan.buffers[position];
            let input = set.inputs.iter().find(|input| input.position == position);
            let from = input.map_or(buffer, |input| input.buffer);
            let (own, target) = ((from, declared.dtype), (buffer, taken.buffers[position].dtype));
            let change = run.change(position, declared);
            references.convert(device, own, target, declared.elements().max(1), change)
        };
        let buffers = run_reference(self.on.device, self.on.pool, module, &taken, &mut write)?;
        let mut lists = Vec::new();
        for ExpectedBuffer { position, .. } in &self.set.targets {
            let (typed, declared) =
                ((buffers[*position], taken.buffers[*position].dtype), &plan.buffers[*position]);
            let elements = declared.elements();
            let list = match elements < ANSWER_MIN && declared.dtype.is_float() {
                true => List::Here(self.read(typed, elements)?),
                false => List::There(typed, elements),
            };
            lists.push((*position, list));
        }
        Ok(lists)
    }

    fn first(&mut self) -> Result<Vec<Large>, DeviceError> {
        let mut lists = self.answers(&[RunInputs::Same])?;
        let mut answers = Vec::new();
        for ((buffer, list), target) in lists.remove(0).into_iter().zip(&self.set.targets) {
            let (there, declared) = ((target.expected, DType::F64), &self.on.case.plan.buffers[buffer]);
            let (exact, elements) = (!declared.dtype.is_float(), declared.elements());
            let OnDevice { references, device, .. } = self.on;
            let expected = match list {
                List::Here(values) => {
                    device.write(target.expected, &element::f64_bytes(&values))?;
                    List::Here(values)
                }
                List::There(typed, _) => {
                    references.convert(*device, typed, there, elements, Change::Unchanged)?;
                    List::There(there, elements)
                }
            };
            let measure = references.measure(*device, target.expected, DType::F64, elements)?;
            answers
                .push((ReferenceAnswer { buffer, expected, exact, ..ReferenceAnswer::default() }, measure));
        }
        Ok(answers)
    }

    fn read(&mut self, (from, dtype): Typed, elements: u64) -> Result<Vec<f64>, DeviceError> {
        let mut values = element::widen(&self.on.device.read(from)?, dtype);
        values.truncate(elements as usize);
        Ok(values)
    }

    fn only_moves(&mut self, answer: &ReferenceAnswer<List>) -> Result<bool, DeviceError> {
        let (check, case) = (self.on.check, self.on.case);
        if !moves::is_asked(check, case, answer.buffer) {
            return Ok(false);
        }
        let expected = match &answer.expected {
            List::Here(values) => values.clone(),
            List::There(typed, elements) => self.read(*typed, *elements)?,
        };
        let answer = ReferenceAnswer { buffer: answer.buffer, expected, ..ReferenceAnswer::default() };
        Ok(moves::only_moves(&case.plan, &expected::inputs_at(check, case, 1.0)?, &answer))
    }

    fn scale(
        &mut self,
        answer: &ReferenceAnswer<List>,
        measure: &Measure,
    ) -> Result<(AnswerScale, Oddities), DeviceError> {
        let ReferenceAnswer { buffer, noise, uncertain, .. } = answer;
        let (family, plan) = (self.on.case.family, &self.on.case.plan.buffers[*buffer]);
        let (dtype, elements) = (plan.dtype, plan.elements());
        let List::There((expected, _), _) = answer.expected else {
            let own = answer.clone().map(List::into_values);
            let overflows = Oddities::of(&own, family).overflows;
            let scale = AnswerScale::of(&own).rounded_to(dtype, &own.expected);
            return Ok((scale, measure.oddities(elements, overflows && family != Family::Normal)));
        };
        let single = answer.single.as_ref().and_then(|single| match single {
            List::There((single, _), _) => Some(*single),
            List::Here(_) => None,
        });
        let own = (expected, elements);
        let mut shelf = self.on.shelf();
        let (scale, mut error, lost) = shelf.references.weigh(shelf.device, own, measure, single)?;
        if let Some(narrow) = single.filter(|_| !uncertain.is_empty()) {
            let list: Vec<f64> =
                uncertain.iter().flat_map(|(index, allowed)| [*index as f64, *allowed]).collect();
            let room = shelf.room("left out", *buffer, 8 * list.len() as u64)?;
            shelf.device.write(room, &element::f64_bytes(&list))?;
            shelf.references.leave_out(shelf.device, narrow, room, uncertain.len() as u64)?;
            error = shelf.references.weigh(shelf.device, own, measure, Some(narrow))?.1;
        }
        let mut rounding = (0.0, 0.0);
        if matches!(dtype, DType::F16 | DType::Bf16) {
            let half = (shelf.room("half", *buffer, 2 * elements)?, dtype);
            let narrow = (shelf.room("rounded", *buffer, 4 * elements)?, DType::F32);
            for (from, to) in [((expected, DType::F64), half), (half, narrow)] {
                shelf.references.convert(shelf.device, from, to, elements, Change::Unchanged)?;
            }
            let (_, error, _) = shelf.references.weigh(shelf.device, own, measure, Some(narrow.0))?;
            rounding = error.map_or(rounding, |error| (error.mean.abs(), error.slope.abs()));
        }
        let scale = AnswerScale {
            exact: answer.exact,
            noise_max: noise.max,
            noise_rms: noise.rms,
            jumps: answer.jumps,
            single: error,
            rounding,
            uncertain: uncertain.len() as u64,
            uncertain_max: uncertain.iter().map(|(_, allowed)| *allowed).fold(0.0, f64::max),
            ..scale
        };
        Ok((scale, measure.oddities(elements, lost > 0.0 && family != Family::Normal)))
    }
}

impl OnDevice<'_> {
    fn shelf(&mut self) -> Shelf<'_> {
        Shelf { device: self.device, pool: self.pool, references: self.references }
    }
}

impl Runs for LargeCase<'_, '_> {
    fn together(&self) -> usize {
        1
    }

    fn answers(&mut self, runs: &[RunInputs]) -> Result<Vec<Lists>, DeviceError> {
        let dtype = self.on.check.reference_f64.then_some(DType::F64);
        runs.iter().map(|run| self.run((self.on.modules.own, dtype), *run)).collect()
    }

    fn single(&mut self, run: RunInputs) -> Result<Option<Lists>, DeviceError> {
        if self.on.modules.single.is_none() {
            return Ok(None);
        }
        match self.run((self.on.modules.single, Some(DType::F32)), run) {
            Ok(lists) => Ok(Some(lists)),
            Err(error) if error.sticky => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn shelf(&mut self) -> Option<Shelf<'_>> {
        Some(self.on.shelf())
    }
}
