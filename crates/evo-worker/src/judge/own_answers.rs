//! The answers of a user's reference kernel to large cases, and how sure they are: all of it on the device.
//!
//! The reference runs several times: in double precision, in single precision, on inputs with other last bits
//! (`perturb`, `single_precision` say why). Answers of few elements are read back and measured as those of small
//! cases are, which `expected` computes.

use evo_device::device::{BufferId, Device, ModuleId};
use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, Fill, ProblemPlan};
use evo_protocol::worker::{CheckPlan, ReferencePlan};

use super::answers::{OnDevice, Unanswered, shape};
use super::bounds::FEW;
use super::bounds::{self, AnswerScale};
use super::case::Case;
use super::drawn;
use super::element;
use super::elements::{Change, Typed};
use super::expected::{self, Oddities};
use super::family::Family;
use super::inputs;
use super::moves;
use super::naive::{run_reference, taken_as};
use super::on_device::Measure;
use super::perturb;
use super::pool::{CaseSet, ExpectedBuffer};
use super::reference::{Noise, ReferenceAnswer};
use super::single_precision::{self, ALLOWED, SHARE, UNCERTAIN, UNITS};
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

struct Answer {
    position: usize,
    dtype: DType,
    elements: u64,
    /// fp64.
    expected: BufferId,
    measure: Measure,
    noise: Noise,
    single: Option<BufferId>,
    distances: Option<BufferId>,
    uncertain: Vec<(u64, f64)>,
    /// Integers of which rounding decides so many; and what is said against them.
    integers: ReferenceAnswer,
    complaint: Option<String>,
    /// The same on the processor, where there are few elements.
    few: Option<ReferenceAnswer>,
}

impl OnDevice<'_> {
    pub(super) fn answer(&mut self, set: &mut CaseSet) -> Result<(), Unanswered> {
        let mut answers = self.first(set)?;
        self.in_single(set, &mut answers)?;
        self.try_luck(set, &mut answers)?;
        self.count_jumps(set, &mut answers)?;
        self.estimate_noise(set, &mut answers)?;
        self.find_uncertain(set, &mut answers)?;
        self.count_integers(set, &mut answers)?;
        for answer in &answers {
            let exact = !answer.dtype.is_float() || self.only_moves(answer)?;
            let (scale, overflows) = self.scale(answer, exact)?;
            if let Some(complaint) = self.complaint(answer, &scale, overflows) {
                return Err(Unanswered::Useless(complaint));
            }
            let shape = shape(self.case, answer.position);
            let bounds = bounds::bounds(self.check, shape, &scale);
            let target = set.targets.iter_mut().find(|target| target.position == answer.position);
            if let Some(target) = target {
                let uncertain = answer.few.as_ref().map_or(&answer.uncertain, |few| &few.uncertain);
                (target.bounds, target.rms, target.uncertain) = (bounds, scale.rms, uncertain.clone());
            }
        }
        Ok(())
    }

    fn run(
        &mut self,
        set: &CaseSet,
        (module, dtype): (Option<ModuleId>, Option<DType>),
        change: &dyn Fn(usize, &BufferPlan) -> Change,
    ) -> Result<Vec<Typed>, DeviceError> {
        let plan = &self.case.plan;
        let taken = taken_as(plan, dtype);
        let references = self.references;
        let mut write = |device: &mut dyn Device, position: usize, buffer: BufferId| {
            let declared = &plan.buffers[position];
            let input = set.inputs.iter().find(|input| input.position == position);
            let from = input.map_or(buffer, |input| input.buffer);
            let (own, target) = ((from, declared.dtype), (buffer, taken.buffers[position].dtype));
            let change = change(position, declared);
            references.convert(device, own, target, declared.elements().max(1), change)
        };
        let buffers = run_reference(self.device, self.pool, module, &taken, &mut write)?;
        Ok(buffers.into_iter().zip(&taken.buffers).map(|(buffer, plan)| (buffer, plan.dtype)).collect())
    }

    fn answers_to(
        &mut self,
        set: &CaseSet,
        change: &dyn Fn(usize, &BufferPlan) -> Change,
    ) -> Result<Vec<Typed>, DeviceError> {
        let dtype = self.check.reference_f64.then_some(DType::F64);
        self.run(set, (self.modules.own, dtype), change)
    }

    fn singles_to(
        &mut self,
        set: &CaseSet,
        change: &dyn Fn(usize, &BufferPlan) -> Change,
    ) -> Result<Option<Vec<Typed>>, DeviceError> {
        if self.modules.single.is_none() {
            return Ok(None);
        }
        match self.run(set, (self.modules.single, Some(DType::F32)), change) {
            Ok(outputs) => Ok(Some(outputs)),
            Err(error) if error.sticky => Err(error),
            Err(_) => Ok(None),
        }
    }

    fn values(&mut self, (buffer, dtype): Typed, elements: u64) -> Result<Vec<f64>, DeviceError> {
        let mut values = element::widen(&self.device.read(buffer)?, dtype);
        values.truncate(elements as usize);
        Ok(values)
    }

    fn room(&mut self, name: &str, position: usize, bytes: u64) -> Result<BufferId, DeviceError> {
        self.pool.working(self.device, &format!("({name} {position})"), bytes)
    }

    fn first(&mut self, set: &mut CaseSet) -> Result<Vec<Answer>, DeviceError> {
        let outputs = self.answers_to(set, &|_, _| Change::Unchanged)?;
        let mut answers = Vec::new();
        for (position, plan) in self.case.plan.buffers.iter().enumerate() {
            let elements = plan.elements();
            if !plan.role.is_answer() || elements == 0 {
                continue;
            }
            let expected = self.pool.room_for_answer(self.device, set, plan, 8 * elements)?;
            // Before anything can fail, so that the buffer is freed with the set.
            set.targets.push(ExpectedBuffer::unjudged(position, expected));
            let target = (expected, DType::F64);
            self.references.convert(self.device, outputs[position], target, elements, Change::Unchanged)?;
            let measure = self.references.measure(self.device, expected, DType::F64, elements)?;
            let few = match elements < ANSWER_MIN && plan.dtype.is_float() {
                true => {
                    let expected = self.values(target, elements)?;
                    Some(ReferenceAnswer { buffer: position, expected, ..ReferenceAnswer::default() })
                }
                false => None,
            };
            answers.push(Answer {
                position,
                dtype: plan.dtype,
                elements,
                expected,
                measure,
                noise: Noise::default(),
                single: None,
                distances: None,
                uncertain: Vec::new(),
                integers: ReferenceAnswer::default(),
                complaint: None,
                few,
            });
        }
        Ok(answers)
    }

    fn in_single(&mut self, set: &CaseSet, answers: &mut [Answer]) -> Result<(), DeviceError> {
        let Some(outputs) = self.singles_to(set, &|_, _| Change::Unchanged)? else { return Ok(()) };
        let fits = |dtype: DType| matches!(dtype, DType::F32 | DType::F16 | DType::Bf16);
        for answer in answers.iter_mut().filter(|answer| fits(answer.dtype)) {
            let output = outputs[answer.position];
            if let Some(few) = &mut answer.few {
                few.single = Some(self.values(output, answer.elements)?);
                continue;
            }
            // Later runs write into the reference's buffers again.
            let single = self.room("single", answer.position, 4 * answer.elements)?;
            let target = (single, DType::F32);
            self.references.convert(self.device, output, target, answer.elements, Change::Unchanged)?;
            answer.single = Some(single);
        }
        Ok(())
    }

    fn try_luck(&mut self, set: &CaseSet, answers: &mut [Answer]) -> Result<(), DeviceError> {
        let few: Vec<ReferenceAnswer> = answers.iter().filter_map(|answer| answer.few.clone()).collect();
        for run in 0..single_precision::lucky_runs(&self.case.plan, &few) {
            let wide = self.answers_to(set, &|position, plan| nudged(run, position, plan))?;
            let mut values = Vec::new();
            for answer in answers.iter().filter(|answer| answer.few.is_some()) {
                values.push(self.values(wide[answer.position], answer.elements)?);
            }
            let Some(single) = self.singles_to(set, &|position, plan| nudged(run, position, plan))? else {
                return Ok(());
            };
            let few = answers.iter_mut().filter(|answer| answer.few.is_some());
            for (answer, wide) in few.zip(values) {
                let narrow = self.values(single[answer.position], answer.elements)?;
                if let Some(few) = &mut answer.few {
                    single_precision::widen_few(few, &wide, &narrow);
                }
            }
        }
        Ok(())
    }

    /// Integers that rounding decides change when all inputs change in their last bits (`perturb`).
    fn count_jumps(&mut self, set: &CaseSet, answers: &mut [Answer]) -> Result<(), DeviceError> {
        let real = |plan: &BufferPlan| plan.dtype.is_float() && inputs::varies(plan);
        if answers.iter().all(is_real) || !self.case.plan.buffers.iter().any(real) {
            return Ok(());
        }
        for run in 0..perturb::RUNS_WHOLE {
            let jiggled = |position: usize, plan: &BufferPlan| {
                let (low, high) = match plan.fill {
                    Fill::Uniform { low, high, .. } => (low, high),
                    _ => (f64::NEG_INFINITY, f64::INFINITY),
                };
                match real(plan) {
                    true => Change::Jiggled { seed: perturb::nudge_seed(run, position), low, high },
                    false => Change::Unchanged,
                }
            };
            let outputs = self.answers_to(set, &jiggled)?;
            for answer in answers.iter().filter(|answer| !is_real(answer)) {
                self.move_integers(answer, outputs[answer.position], run > 0)?;
            }
        }
        for answer in answers.iter_mut().filter(|answer| !is_real(answer)) {
            let count = self.moved_integers(answer)?;
            perturb::note_jumps(&mut answer.integers, count, answer.elements as usize);
        }
        Ok(())
    }

    fn count_integers(&mut self, set: &CaseSet, answers: &mut [Answer]) -> Result<(), DeviceError> {
        if answers.iter().all(is_real) {
            return Ok(());
        }
        let Some(outputs) = self.singles_to(set, &|_, _| Change::Unchanged)? else { return Ok(()) };
        for answer in answers.iter_mut().filter(|answer| !is_real(answer)) {
            self.move_integers(answer, outputs[answer.position], false)?;
            let count = self.moved_integers(answer)?;
            let elements = answer.elements as usize;
            answer.complaint = single_precision::note_integers(&mut answer.integers, count, elements);
        }
        Ok(())
    }

    fn move_integers(&mut self, answer: &Answer, output: Typed, widens: bool) -> Result<(), DeviceError> {
        let room = self.room("distances", answer.position, 8 * answer.elements)?;
        self.references.distance(self.device, answer.expected, output, room, answer.elements, widens)
    }

    fn moved_integers(&mut self, answer: &Answer) -> Result<u64, DeviceError> {
        let room = self.room("distances", answer.position, 8 * answer.elements)?;
        self.references.count_moved(self.device, room, answer.elements)
    }

    fn estimate_noise(&mut self, set: &CaseSet, answers: &mut [Answer]) -> Result<(), DeviceError> {
        let real = answers.iter().filter(|answer| is_real(answer));
        let Some(smallest) = real.map(|answer| answer.elements).min() else { return Ok(()) };
        for run in perturb::nudged_runs(smallest as usize) {
            self.move_away(set, answers, run, true)?;
        }
        let in_single = |answer: &Answer| {
            answer.single.is_some() || answer.few.as_ref().is_some_and(|few| few.single.is_some())
        };
        match perturb::rounds_alike(self.case.family) && !answers.iter().any(in_single) {
            true => self.second_differences(set, answers),
            false => Ok(()),
        }
    }

    fn move_away(
        &mut self,
        set: &CaseSet,
        answers: &mut [Answer],
        run: u32,
        widens_noise: bool,
    ) -> Result<(), DeviceError> {
        let family = self.case.family;
        let outputs = self.answers_to(set, &|position, plan| nudged(run, position, plan))?;
        for answer in answers.iter_mut().filter(|answer| is_real(answer)) {
            let output = outputs[answer.position];
            if let Some(few) = &mut answer.few {
                let values = self.values(output, answer.elements)?;
                let distances = perturb::distances(&few.expected, &values);
                perturb::widen(&mut few.distances, &distances);
                if widens_noise {
                    perturb::add(few, family, &perturb::finite(distances));
                }
                continue;
            }
            let (expected, elements) = (answer.expected, answer.elements);
            if widens_noise {
                let room = self.room("moved", answer.position, 8 * elements)?;
                self.references.distance(self.device, expected, output, room, elements, false)?;
                self.widen_noise(answer, room)?;
            }
            let widens = answer.distances.is_some();
            let distances = self.room("distances", answer.position, 8 * elements)?;
            self.references.distance(self.device, expected, output, distances, elements, widens)?;
            answer.distances = Some(distances);
        }
        Ok(())
    }

    fn widen_noise(&mut self, answer: &mut Answer, distances: BufferId) -> Result<(), DeviceError> {
        let family = self.case.family;
        let place = |count| perturb::usual_place(count, family);
        let usual = self.references.usual_size(self.device, distances, answer.elements, place)?;
        if let Some(usual) = usual {
            answer.noise.widen(answer.elements as usize, answer.measure.rms(), family, usual);
        }
        Ok(())
    }

    fn second_differences(&mut self, set: &CaseSet, answers: &mut [Answer]) -> Result<(), DeviceError> {
        let mut runs: Vec<Vec<BufferId>> = answers.iter().map(|answer| vec![answer.expected]).collect();
        let mut values: Vec<Vec<Vec<f64>>> = vec![Vec::new(); answers.len()];
        for (number, factor) in perturb::scales().enumerate() {
            let scaled = |_: usize, plan: &BufferPlan| match is_changed(plan) {
                true => Change::Scaled(factor),
                false => Change::Unchanged,
            };
            let outputs = self.answers_to(set, &scaled)?;
            for (place, answer) in answers.iter().enumerate().filter(|(_, answer)| is_real(answer)) {
                let (output, elements) = (outputs[answer.position], answer.elements);
                if answer.few.is_some() {
                    values[place].push(self.values(output, elements)?);
                    continue;
                }
                // Three neighboring runs are looked at together.
                let kept =
                    self.room(["scaled a", "scaled b", "scaled c"][number % 3], place, 8 * elements)?;
                let target = (kept, DType::F64);
                self.references.convert(self.device, output, target, elements, Change::Unchanged)?;
                runs[place].push(kept);
                if let [.., first, second, third] = runs[place][..] {
                    let largest = self.room("bends", place, 8 * elements)?;
                    let runs = [first, second, third];
                    self.references.bend(self.device, runs, largest, elements, number > 1)?;
                }
            }
        }
        for (place, answer) in answers.iter_mut().enumerate().filter(|(_, answer)| is_real(answer)) {
            match &mut answer.few {
                Some(few) => {
                    let largest = perturb::largest_bend(&few.expected, &values[place]);
                    perturb::add(few, self.case.family, &perturb::finite(largest));
                }
                None => {
                    let largest = self.room("bends", place, 8 * answer.elements)?;
                    self.widen_noise(answer, largest)?;
                }
            }
        }
        Ok(())
    }

    fn find_uncertain(&mut self, set: &CaseSet, answers: &mut [Answer]) -> Result<(), DeviceError> {
        let mut any = false;
        for answer in answers.iter() {
            any |= !self.uncertain(answer)?.is_empty();
        }
        if !any {
            return Ok(());
        }
        for run in perturb::RUNS_AGAIN {
            self.move_away(set, answers, run, false)?;
        }
        for answer in answers {
            let found = self.uncertain(answer)?;
            match &mut answer.few {
                Some(few) => few.uncertain = found,
                None => answer.uncertain = found,
            }
        }
        Ok(())
    }

    fn uncertain(&mut self, answer: &Answer) -> Result<Vec<(u64, f64)>, DeviceError> {
        let unit = element::precision(answer.dtype).map_or(0.0, |precision| precision.unit);
        if let Some(few) = &answer.few {
            return Ok(single_precision::uncertain(few, unit));
        }
        let (Some(single), Some(distances)) = (answer.single, answer.distances) else {
            return Ok(Vec::new());
        };
        debug_assert!(answer.elements >= FEW as u64);
        let (elements, expected) = (answer.elements, answer.expected);
        let errors = self.room("errors", answer.position, 8 * elements)?;
        self.device.copy(distances, errors)?;
        self.references.distance(self.device, expected, (single, DType::F32), errors, elements, true)?;
        let place = single_precision::certain_place;
        let usual = self.references.usual_size(self.device, errors, elements, place)?;
        let Some(usual) = usual else { return Ok(Vec::new()) };
        let most = (SHARE * elements as f64) as u64;
        let list = self.room("uncertain", answer.position, 16 * most.max(1))?;
        let least = (UNCERTAIN * usual.rms, UNITS * unit);
        let (_, found) =
            self.references.uncertain(self.device, (errors, expected), elements, least, (list, most))?;
        Ok(found.into_iter().map(|(index, error)| (index, ALLOWED * error)).collect())
    }

    fn only_moves(&mut self, answer: &Answer) -> Result<bool, DeviceError> {
        let plan = &self.case.plan;
        let declared = self.check.atol.is_some() || self.check.rtol.is_some();
        let asked = self.check.checks.include(GateCheck::MovedData) && !declared;
        if !asked || self.case.family != Family::Normal || !moves::is_asked(plan, answer.position) {
            return Ok(false);
        }
        let values = match &answer.few {
            Some(few) => few.expected.clone(),
            None => self.values((answer.expected, DType::F64), answer.elements)?,
        };
        let bytes = expected::inputs_at(self.check, self.case, 1.0)?;
        let answer = ReferenceAnswer { buffer: answer.position, expected: values, ..Default::default() };
        Ok(moves::only_moves(plan, &bytes, &answer))
    }

    fn scale(&mut self, answer: &Answer, exact: bool) -> Result<(AnswerScale, bool), DeviceError> {
        if let Some(few) = &answer.few {
            let own = ReferenceAnswer { exact, ..few.clone() };
            let scale = AnswerScale::of(&own).rounded_to(answer.dtype, &own.expected);
            return Ok((scale, Oddities::of(&own, self.case.family).overflows));
        }
        let (references, elements) = (self.references, answer.elements);
        let own = (answer.expected, elements);
        let (scale, single, lost) = references.weigh(self.device, own, &answer.measure, answer.single)?;
        let single = match (answer.single, answer.uncertain.is_empty()) {
            (Some(narrow), false) => {
                let list: Vec<f64> =
                    answer.uncertain.iter().flat_map(|(index, allowed)| [*index as f64, *allowed]).collect();
                let room = self.room("left out", answer.position, 8 * list.len() as u64)?;
                self.device.write(room, &element::f64_bytes(&list))?;
                references.leave_out(self.device, narrow, room, answer.uncertain.len() as u64)?;
                references.weigh(self.device, own, &answer.measure, Some(narrow))?.1
            }
            _ => single,
        };
        let rounding = match answer.dtype {
            DType::F16 | DType::Bf16 => self.rounding(answer)?,
            _ => (0.0, 0.0),
        };
        let uncertain_max = answer.uncertain.iter().map(|(_, allowed)| *allowed).fold(0.0, f64::max);
        let scale = AnswerScale {
            exact,
            noise_max: answer.noise.max,
            noise_rms: answer.noise.rms,
            jumps: answer.integers.jumps,
            single,
            rounding,
            uncertain: answer.uncertain.len() as u64,
            uncertain_max,
            ..scale
        };
        Ok((scale, lost > 0.0))
    }

    fn rounding(&mut self, answer: &Answer) -> Result<(f64, f64), DeviceError> {
        let (references, elements) = (self.references, answer.elements);
        let half = self.room("half", answer.position, 2 * elements)?;
        let narrow = self.room("rounded", answer.position, 4 * elements)?;
        let (wide, half) = ((answer.expected, DType::F64), (half, answer.dtype));
        references.convert(self.device, wide, half, elements, Change::Unchanged)?;
        references.convert(self.device, half, (narrow, DType::F32), elements, Change::Unchanged)?;
        let own = (answer.expected, elements);
        let (_, error, _) = references.weigh(self.device, own, &answer.measure, Some(narrow))?;
        Ok(error.map_or((0.0, 0.0), |error| (error.mean.abs(), error.slope.abs())))
    }

    fn is_second(&self) -> bool {
        self.case.draw(self.check, 1.0).is_second()
    }

    fn complaint(&self, answer: &Answer, scale: &AnswerScale, overflows: bool) -> Option<String> {
        let (plan, family): (&ProblemPlan, _) = (&self.case.plan, self.case.family);
        let is_plain = family == Family::Normal;
        let odd = answer.measure.oddities(answer.elements, overflows && !is_plain);
        let noise = answer.few.as_ref().map_or(answer.noise, |few| few.noise);
        let complaint = expected::unusable(plan, family, answer.position, &odd).or_else(|| {
            let is_noise = !is_plain && noise.is_most_of(scale.rms, answer.dtype);
            is_noise.then(|| expected::noisy(&plan.buffers[answer.position]))
        });
        let follows = family == Family::Constant && self.is_second() && answer.integers.follows_bits;
        let complaint = complaint
            .or_else(|| answer.complaint.clone().filter(|_| !is_plain))
            .or_else(|| follows.then(|| expected::UNDECIDED.to_string()));
        complaint.filter(|_| !is_plain || self.check.checks.include(GateCheck::UsableReference))
    }
}

fn is_real(answer: &Answer) -> bool {
    answer.dtype.is_float()
}

fn is_changed(plan: &BufferPlan) -> bool {
    perturb::is_free(plan) && plan.role.is_read() && plan.dtype.is_float()
}

fn nudged(run: u32, position: usize, plan: &BufferPlan) -> Change {
    match is_changed(plan) {
        true => Change::Nudged(perturb::nudge_seed(run, position)),
        false => Change::Unchanged,
    }
}
