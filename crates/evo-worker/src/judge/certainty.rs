//! What an honest computation does in a case: how far a reference's answers move in other runs of it.
//!
//! A user's reference computes in its own precision, and in one order of many. How far its answer is from the exact one
//! cannot be read off the answer. So it runs again, and the distances between its answers are measured:
//!
//! - In single precision, if it writes its types as `REAL`: what one honest f32 kernel does on exactly these inputs. It
//!   widens bounds where f32 costs more than the default ones allow (an angle that grows with the position), and tightens
//!   them where it costs far less (`bounds`).
//! - On inputs that differ in the last bit, at random: that draws all its rounding errors anew, and shows what the inputs'
//!   own rounding means for the answer (a sum that cancels). This error is the reference's and the case's, so it is not
//!   charged to a variant.
//! - On inputs scaled by 1 + h, 1 + 2h, …, where equal or sorted terms round the same way again and again, which last bits
//!   do not change: of a smooth function the second differences are of the order h², so whatever is left beyond that is
//!   the reference's own rounding. Of a reference in two precisions they say nothing more.
//! - Integers jump or do not, so as many as jump in single precision or on inputs with other last bits may differ.
//!
//! Elements that are far less certain than all others have an allowance of their own, because one of them would open the
//! bounds for everything else. Answers lie in memory or on the device ([`List`]).

use std::collections::BTreeSet;
use std::ops::Range;

use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, Fill, ProblemPlan};
use rayon::prelude::*;

use super::bounds::{FEW, SHARE_MAX};
use super::element;
use super::inputs::{self, Family};
use super::naive::{AskedCase, NaiveAnswers};
use super::on_device::{Far, Kernels, There, UsualSize};
use super::perturb::{Change, RunInputs};
use super::reference::{Noise, ReferenceAnswer, finite_sums, rms};

const CHUNK: usize = 1 << 16;

/// Runs on changed inputs: few outputs make one difference a matter of luck.
const RUNS_FEW: u32 = 4;
const RUNS: u32 = 1;
/// And more of them where some elements are far less certain than the others: one run may meet such an element by luck.
const RUNS_AGAIN: u32 = 6;
/// And for integers: of two candidates either may win twice in a row.
const RUNS_WHOLE: u32 = 6;
/// The step h of scaled runs: its square is far below what f32 tolerances allow, and it changes all low bits.
const STEP: f64 = 1.0 / 512.0;
/// Scaled runs; the largest of their second differences counts, because any one of them may be small by chance.
const STEPS: u32 = 5;
/// With fewer elements the error in single precision may be small by chance in all of them: then the reference runs on
/// inputs with other last bits, until it has made so many errors, and less often on many inputs.
const ERRORS_MIN: usize = 12;
const RUNS_MIN: usize = 4;
/// Shorter rows look alike by chance.
const ROW_MIN: usize = 8;
const INPUTS_MANY: u64 = 1 << 20;
/// Bytes of a run up to which several are asked for at once: above, a run takes much longer than a message.
const TOGETHER_BYTES: usize = 1 << 16;

/// Errors are independent between the reference and a variant, and a variant may take a worse order.
const FACTOR: f64 = 3.0;
/// The same for inputs other than plain ones, of which many are badly conditioned: a running mean of rows that lie far
/// from zero has six times the error of a sum.
const FACTOR_STRESS: f64 = 6.0;
/// From this share on an answer is mostly noise.
const NOISE_SHARE: f64 = 0.05;
/// With fewer outputs the least certain one counts like the others.
const TINY: usize = 32;
/// No more than this share of integers is ever put down to rounding.
const JUMPS_MAX: f64 = 0.05;

/// From this multiple of the usual error on, an element counts as far less certain than the others.
const UNCERTAIN: f64 = 8.0;
/// Its error is also more than so many units of rounding of its own value: a large value has a large error.
const UNITS: f64 = 32.0;
/// No more than this share of an answer is uncertain: beyond, the answer as a whole is what it is.
const SHARE: f64 = 0.05;
/// An honest kernel may be off by so many times the largest error that was seen at an uncertain element.
const ALLOWED: f64 = 10.0;

/// Numbers in memory, or many of them on the device.
#[derive(Clone, Debug)]
pub enum List {
    Here(Vec<f64>),
    There(There),
}

/// By buffer.
pub type Lists = Vec<(usize, List)>;

/// A reference that can run again.
pub trait Runs {
    /// As many runs may be asked for at once: lists on the device last until the next runs.
    fn together(&self) -> usize;

    fn answers(&mut self, runs: &[RunInputs]) -> Result<Vec<Lists>, DeviceError>;

    /// The same in single precision, where `answers` are in double precision and there is such a build.
    fn single(&mut self, run: RunInputs) -> Result<Option<Lists>, DeviceError>;

    /// What computes with lists that are not in memory.
    fn kernels(&mut self) -> Option<Kernels<'_>>;
}

pub struct Laboratory<'a> {
    pub plan: &'a ProblemPlan,
    pub family: Family,
    pub runs: &'a mut dyn Runs,
}

type Answer = ReferenceAnswer<List>;

impl Laboratory<'_> {
    /// Runs the reference again, and notes with its answers how certain they are.
    pub fn measure(&mut self, answers: &mut [Answer]) -> Result<(), DeviceError> {
        let moved = self.take_single(answers)?;
        // The last bit of an infinity makes it NaN, and which integers belong to NaN is not a matter of precision.
        if self.family == Family::Special {
            return Ok(());
        }
        // The last bit of a round number leaves nothing of what it is for.
        if self.family != Family::Round {
            self.try_luck(answers)?;
            self.count_jumps(answers)?;
            self.estimate_noise(answers)?;
            self.find_uncertain(answers)?;
        }
        for (answer, count) in answers.iter_mut().zip(moved) {
            answer.jumps = answer.jumps.max(count);
            // So many that the case asks for double precision.
            let share = count as f64 / answer.expected.elements().max(1) as f64;
            let what = "single precision gives other integers than double precision";
            answer.undecided = (share > JUMPS_MAX).then(|| format!("{what}, {:.0} % of them", 100.0 * share));
        }
        Ok(())
    }

    fn is_real(&self, answer: &Answer) -> bool {
        self.plan.buffers[answer.buffer].dtype.is_float()
    }

    /// Takes over the answers in single precision, for outputs that are not finer than that, and counts by answer how many
    /// integers it decides otherwise: the bin of a value that rounds to its border, the nearest of centers whose distances
    /// are all too small for it.
    fn take_single(&mut self, answers: &mut [Answer]) -> Result<Vec<u64>, DeviceError> {
        let mut moved = vec![0; answers.len()];
        let Some(single) = self.runs.single(RunInputs::Same)? else { return Ok(moved) };
        for (answer, moved) in answers.iter_mut().zip(&mut moved) {
            let Some(list) = of(&single, answer.buffer) else { continue };
            match self.plan.buffers[answer.buffer].dtype {
                DType::F32 | DType::F16 | DType::Bf16 => {
                    answer.single = Some(self.keep("single", answer.buffer, list, DType::F32)?);
                }
                DType::F64 => {}
                _ => {
                    let distances = self.distance("distances", answer, &list, None)?;
                    *moved = self.count_moved(&distances)?;
                }
            }
        }
        Ok(moved)
    }

    /// Equal or sorted terms: their errors add up.
    fn rounds_alike(&self) -> bool {
        matches!(self.family, Family::Constant | Family::Ramp | Family::Mixed)
    }

    fn row(&self, buffer: usize) -> usize {
        self.plan.buffers[buffer].compared_shape().last().map_or(1, |row| (*row).max(1) as usize)
    }

    /// The mean error of each row, where the errors of a row are alike: it has one then, that of a mean or a maximum.
    fn row_errors(&self, buffer: usize, single: &List, expected: &List) -> Option<Vec<f64>> {
        let row = self.row(buffer);
        let (List::Here(single), List::Here(expected)) = (single, expected) else { return None };
        if self.rounds_alike() || row < ROW_MIN {
            return None;
        }
        let of_row = |(single, expected): (&[f64], &[f64])| {
            let errors = single.iter().zip(expected).map(|(single, expected)| single - expected);
            let sums = errors.fold((0.0, 0.0), |(sum, square), error| (sum + error, square + error * error));
            let count = single.len() as f64;
            (sums.0 / count, sums.0 * sums.0 > 0.5 * sums.1 * count)
        };
        let rows: Vec<(f64, bool)> = single.chunks(row).zip(expected.chunks(row)).map(of_row).collect();
        let alike = rows.iter().filter(|(_, alike)| *alike).count();
        (2 * alike > rows.len()).then(|| rows.into_iter().map(|(mean, _)| mean).collect())
    }

    /// The buffers of answers whose rows share an error.
    fn sharing(&mut self, answers: &[Answer]) -> Result<BTreeSet<usize>, DeviceError> {
        let mut sharing = BTreeSet::new();
        let mut is_asked = false;
        for answer in answers {
            let (Some(single), elements) = (&answer.single, answer.expected.elements()) else { continue };
            if self.row_errors(answer.buffer, single, &answer.expected).is_some() {
                sharing.insert(answer.buffer);
            } else if matches!(single, List::Here(_)) && self.row(answer.buffer) >= ROW_MIN {
                // A mean that is right by luck leaves the errors of single elements, so a few rows are asked once more.
                is_asked |= elements >= ERRORS_MIN && elements / self.row(answer.buffer) < ERRORS_MIN;
            }
        }
        if self.rounds_alike() || !is_asked {
            return Ok(sharing);
        }
        let run = RunInputs::Jiggled(0);
        let wide = self.runs.answers(&[run])?.swap_remove(0);
        let narrow = self.runs.single(run)?.unwrap_or_default();
        for (buffer, single) in &narrow {
            let expected = of(&wide, *buffer);
            if expected.is_some_and(|expected| self.row_errors(*buffer, single, &expected).is_some()) {
                sharing.insert(*buffer);
            }
        }
        Ok(sharing)
    }

    fn try_luck(&mut self, answers: &mut [Answer]) -> Result<(), DeviceError> {
        let sharing = self.sharing(answers)?;
        self.ask_again(answers, &sharing)?;
        for answer in answers.iter_mut().filter(|answer| sharing.contains(&answer.buffer)) {
            let Some(single) = &answer.single else { continue };
            let means = self.row_errors(answer.buffer, single, &answer.expected).unwrap_or_default();
            let square: f64 = means.iter().map(|mean| mean * mean).sum();
            answer.shared = square.sqrt() / means.len().max(1) as f64;
        }
        Ok(())
    }

    /// Where an answer has few errors, the largest of several runs counts.
    fn ask_again(&mut self, answers: &mut [Answer], sharing: &BTreeSet<usize>) -> Result<(), DeviceError> {
        let few: Vec<(usize, usize)> = answers
            .iter()
            .filter(|answer| answer.single.is_some())
            .map(|answer| match sharing.contains(&answer.buffer) {
                true => (answer.buffer, answer.expected.elements().div_ceil(self.row(answer.buffer))),
                false => (answer.buffer, answer.expected.elements()),
            })
            .filter(|(_, errors)| (1..ERRORS_MIN).contains(errors))
            .collect();
        let Some(fewest) = few.iter().map(|(_, errors)| *errors).min() else { return Ok(()) };
        let is_few = |answer: &&mut Answer| few.iter().any(|(buffer, _)| *buffer == answer.buffer);
        let inputs: u64 = self.plan.buffers.iter().map(BufferPlan::elements).sum();
        let runs = ERRORS_MIN.div_ceil(fewest);
        let runs = if inputs > INPUTS_MANY { runs.min(RUNS_MIN) } else { runs };
        // In a declared range, and past the last bits that a sum of coarse terms rounds away.
        for run in (0..runs as u32).map(RunInputs::Jiggled) {
            let wide = self.runs.answers(&[run])?;
            let Some(narrow) = self.runs.single(run)? else { return Ok(()) };
            for answer in answers.iter_mut().filter(is_few) {
                let list = |lists: Option<&Lists>| lists.and_then(|lists| of(lists, answer.buffer));
                let (Some(wide), Some(narrow)) = (list(wide.first()), list(Some(&narrow))) else { continue };
                let errors = narrow.here().iter().zip(wide.here()).map(|(narrow, wide)| narrow - wide);
                let Some(List::Here(single)) = &mut answer.single else { continue };
                for ((single, expected), error) in single.iter_mut().zip(answer.expected.here()).zip(errors) {
                    if error.is_finite() && error.abs() > (*single - expected).abs() {
                        *single = expected + error;
                    }
                }
            }
        }
        Ok(())
    }

    /// Integers that follow from a comparison which rounding decides: the nearest of two centers at one distance, the bin
    /// of a value at its border. They change when all inputs change in their last bits.
    fn count_jumps(&mut self, answers: &mut [Answer]) -> Result<(), DeviceError> {
        let real = |buffer: &BufferPlan| buffer.dtype.is_float() && inputs::varies(buffer);
        if answers.iter().all(|answer| self.is_real(answer)) || !self.plan.buffers.iter().any(real) {
            return Ok(());
        }
        let mut widest = vec![None; answers.len()];
        self.each_run((0..RUNS_WHOLE).map(RunInputs::Jiggled), |lab, lists| {
            for (answer, widest) in answers.iter().zip(&mut widest) {
                let Some(list) = of(&lists, answer.buffer).filter(|_| !lab.is_real(answer)) else { continue };
                *widest = Some(lab.distance("distances", answer, &list, widest.take())?);
            }
            Ok(())
        })?;
        for (answer, distances) in answers.iter_mut().zip(widest) {
            let Some(distances) = distances else { continue };
            let count = self.count_moved(&distances)?;
            // An answer of which more than a part jumps follows the bits of its inputs, a hash for example.
            // Of a few one may jump all the same.
            let many = count as f64 > (JUMPS_MAX * answer.expected.elements() as f64).max(1.0);
            answer.jumps = if many { 0 } else { count };
            answer.follows_bits = many;
        }
        Ok(())
    }

    fn each_run(
        &mut self,
        runs: impl Iterator<Item = RunInputs>,
        mut take: impl FnMut(&mut Self, Lists) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        for runs in runs.collect::<Vec<_>>().chunks(self.runs.together()) {
            for lists in self.runs.answers(runs)? {
                take(self, lists)?;
            }
        }
        Ok(())
    }

    fn estimate_noise(&mut self, answers: &mut [Answer]) -> Result<(), DeviceError> {
        let real = answers.iter().filter(|answer| self.is_real(answer));
        let Some(smallest) = real.map(|answer| answer.expected.elements()).min() else { return Ok(()) };
        self.move_away(answers, 0..if smallest < FEW { RUNS_FEW } else { RUNS }, true)?;
        if self.rounds_alike() && answers.iter().all(|answer| answer.single.is_none()) {
            self.add_second_differences(answers)?;
        }
        self.add_rounding_of_ranges(answers)
    }

    /// In a declared range no last bit is drawn anew. Of equal values there only rounding may be left: then it is noise.
    fn add_rounding_of_ranges(&mut self, answers: &mut [Answer]) -> Result<(), DeviceError> {
        let is_range = |buffer: &BufferPlan| {
            buffer.dtype.is_float() && inputs::varies(buffer) && matches!(buffer.fill, Fill::Uniform { .. })
        };
        if !self.rounds_alike() || !self.plan.buffers.iter().any(is_range) {
            return Ok(());
        }
        let jiggled = self.runs.answers(&[RunInputs::Jiggled(0)])?.swap_remove(0);
        for answer in answers.iter_mut() {
            let Some(list) = of(&jiggled, answer.buffer).filter(|_| self.is_real(answer)) else { continue };
            let moved = self.distance("moved", answer, &list, None)?;
            let before = answer.noise;
            let rms = self.add_noise(answer, &moved)?;
            if !answer.noise.is_most_of(rms, self.plan.buffers[answer.buffer].dtype) {
                answer.noise = before;
            }
        }
        Ok(())
    }

    fn move_away(
        &mut self,
        answers: &mut [Answer],
        runs: Range<u32>,
        is_noise: bool,
    ) -> Result<(), DeviceError> {
        self.each_run(runs.map(RunInputs::Nudged), |lab, lists| {
            for answer in answers.iter_mut() {
                let Some(list) = of(&lists, answer.buffer).filter(|_| lab.is_real(answer)) else { continue };
                if is_noise {
                    let moved = lab.distance("moved", answer, &list, None)?;
                    lab.add_noise(answer, &moved)?;
                }
                let widest = answer.distances.take();
                answer.distances = Some(lab.distance("distances", answer, &list, widest)?);
            }
            Ok(())
        })
    }

    fn add_second_differences(&mut self, answers: &mut [Answer]) -> Result<(), DeviceError> {
        let mut runs: Vec<Vec<List>> = answers.iter().map(|answer| vec![answer.expected.clone()]).collect();
        let mut bends = vec![None; answers.len()];
        let scales = (1..=STEPS).map(|step| RunInputs::Scaled(1.0 + f64::from(step) * STEP));
        self.each_run(scales, |lab, lists| {
            for ((answer, runs), bend) in answers.iter().zip(&mut runs).zip(&mut bends) {
                let Some(list) = of(&lists, answer.buffer).filter(|_| lab.is_real(answer)) else { continue };
                // Three neighboring runs are looked at together.
                let name = format!("scaled {}", runs.len() % 3);
                runs.push(lab.keep(&name, answer.buffer, list, DType::F64)?);
                if let [.., first, second, third] = &runs[..] {
                    *bend = Some(lab.bend(answer.buffer, [first, second, third], bend.take())?);
                }
            }
            Ok(())
        })?;
        let known = answers.iter_mut().zip(bends).filter_map(|(answer, bend)| Some((answer, bend?)));
        known.into_iter().try_for_each(|(answer, bend)| self.add_noise(answer, &bend).map(drop))
    }

    /// The root mean square of the answer, with what its noise is measured by.
    fn add_noise(&mut self, answer: &mut Answer, distances: &List) -> Result<f64, DeviceError> {
        let (family, elements) = (self.family, answer.expected.elements());
        let rms = match (&answer.expected, self.runs.kernels()) {
            (List::There(expected), Some(mut kernels)) => kernels.measure(*expected)?.rms(),
            (expected, _) => rms(expected.here()),
        };
        if let Some(usual) = self.usual_size(distances, &|count| usual_place(count, family))? {
            answer.noise.widen(elements, rms, family, usual);
        }
        Ok(rms)
    }

    /// An element may look certain by luck in single precision, so where some are not, the reference runs more often.
    fn find_uncertain(&mut self, answers: &mut [Answer]) -> Result<(), DeviceError> {
        let mut any = false;
        for answer in answers.iter() {
            any |= !self.uncertain(answer)?.is_empty();
        }
        if any {
            self.move_away(answers, RUNS_FEW..RUNS_FEW + RUNS_AGAIN, false)?;
            for answer in answers {
                answer.uncertain = self.uncertain(answer)?;
            }
        }
        Ok(())
    }

    fn uncertain(&mut self, answer: &Answer) -> Result<Vec<(u64, f64)>, DeviceError> {
        let elements = answer.expected.elements();
        let Some(single) = answer.single.as_ref().filter(|_| elements >= FEW) else { return Ok(Vec::new()) };
        let widest = answer.distances.clone();
        let widest = widest.map(|list| self.keep("errors", answer.buffer, list, DType::F64)).transpose()?;
        let errors = self.distance("errors", answer, single, widest)?;
        // What a share of the elements can do to the usual error is left out of it.
        let place = |count: usize| ((count - 1) as f64 * (1.0 - SHARE)) as usize;
        let Some(usual) = self.usual_size(&errors, &place)? else { return Ok(Vec::new()) };
        let precision = element::precision(self.plan.buffers[answer.buffer].dtype);
        let units = UNITS * precision.map_or(0.0, |precision| precision.unit);
        let far = Far { least: UNCERTAIN * usual.rms, units, most: (SHARE * elements as f64) as usize };
        let found = match (&errors, &answer.expected, self.runs.kernels()) {
            (List::There(errors), List::There(expected), Some(mut kernels)) => {
                let pairs = 2 * far.most.max(1) as u64;
                let list = kernels.room("uncertain", answer.buffer, DType::F64, pairs)?.buffer;
                kernels.far((*errors, *expected), far, list)?.1
            }
            (errors, expected, _) => far.among(errors.here(), expected.here()),
        };
        Ok(found.into_iter().map(|(index, error)| (index, ALLOWED * error)).collect())
    }

    /// A copy that outlives later runs, under a name of this buffer.
    fn keep(&mut self, name: &str, buffer: usize, list: List, dtype: DType) -> Result<List, DeviceError> {
        let (List::There(from), Some(mut kernels)) = (&list, self.runs.kernels()) else { return Ok(list) };
        let kept = kernels.room(name, buffer, dtype, from.elements)?;
        kernels.convert(*from, kept, Change::Unchanged)?;
        Ok(List::There(kept))
    }

    /// How far each element is from the answer, or was in `widest`.
    fn distance(
        &mut self,
        name: &str,
        answer: &Answer,
        other: &List,
        widest: Option<List>,
    ) -> Result<List, DeviceError> {
        let (List::There(expected), List::There(there), Some(mut kernels)) =
            (&answer.expected, other, self.runs.kernels())
        else {
            let widest = widest.map(List::into_values);
            return Ok(List::Here(distances(answer.expected.here(), other.here(), widest)));
        };
        let room = kernels.room(name, answer.buffer, DType::F64, expected.elements)?;
        kernels.distance(*expected, *there, room.buffer, widest.is_some())?;
        Ok(List::There(room))
    }

    /// The second difference of each element in three runs, or what it was in `widest`.
    fn bend(&mut self, buffer: usize, runs: [&List; 3], widest: Option<List>) -> Result<List, DeviceError> {
        let ([List::There(first), List::There(second), List::There(third)], Some(mut kernels)) =
            (runs, self.runs.kernels())
        else {
            return Ok(List::Here(bends(runs.map(List::here), widest.map(List::into_values))));
        };
        let room = kernels.room("bends", buffer, DType::F64, first.elements)?;
        kernels.bend([*first, *second, *third], room.buffer, widest.is_some())?;
        Ok(List::There(room))
    }

    fn usual_size(
        &mut self,
        list: &List,
        place: &dyn Fn(usize) -> usize,
    ) -> Result<Option<UsualSize>, DeviceError> {
        match (list, self.runs.kernels()) {
            (List::There(values), Some(mut kernels)) => kernels.usual_size(*values, place),
            (list, _) => Ok(usual_size(list.here(), place)),
        }
    }

    fn count_moved(&mut self, distances: &List) -> Result<u64, DeviceError> {
        match (distances, self.runs.kernels()) {
            (List::There(distances), Some(mut kernels)) => kernels.count_moved(*distances),
            (distances, _) => Ok(distances.here().iter().filter(|own| **own != 0.0).count() as u64),
        }
    }
}

fn of(lists: &Lists, buffer: usize) -> Option<List> {
    lists.iter().find(|own| own.0 == buffer).map(|own| own.1.clone())
}

impl List {
    fn elements(&self) -> usize {
        match self {
            List::Here(values) => values.len(),
            List::There(there) => there.elements as usize,
        }
    }

    /// Nothing if they are on the device.
    pub fn here(&self) -> &[f64] {
        match self {
            List::Here(values) => values,
            List::There(..) => &[],
        }
    }

    pub fn into_values(self) -> Vec<f64> {
        match self {
            List::Here(values) => values,
            List::There(..) => Vec::new(),
        }
    }
}

impl Default for List {
    fn default() -> List {
        List::Here(Vec::new())
    }
}

/// In memory.
impl Runs for AskedCase<'_> {
    fn together(&self) -> usize {
        let bytes: usize = self.bytes.iter().map(Vec::len).sum();
        if bytes <= TOGETHER_BYTES { usize::MAX } else { 1 }
    }

    fn answers(&mut self, runs: &[RunInputs]) -> Result<Vec<Lists>, DeviceError> {
        let inputs: Vec<_> = runs.iter().map(|run| run.of(self.plan, self.bytes)).collect();
        Ok(self.naive.answers_each(&inputs)?.into_iter().map(listed).collect())
    }

    fn single(&mut self, run: RunInputs) -> Result<Option<Lists>, DeviceError> {
        Ok(self.naive.single(&run.of(self.plan, self.bytes))?.map(listed))
    }

    fn kernels(&mut self) -> Option<Kernels<'_>> {
        None
    }
}

fn listed(answers: NaiveAnswers) -> Lists {
    answers.into_iter().map(|(buffer, values)| (buffer, List::Here(values))).collect()
}

/// Notes how certain the answers of a case in memory are.
pub fn measure(case: &mut AskedCase<'_>, answers: &mut [ReferenceAnswer]) -> Result<(), DeviceError> {
    let mut lists: Vec<Answer> = answers.iter_mut().map(|own| std::mem::take(own).map(List::Here)).collect();
    let done = Laboratory { plan: case.plan, family: case.family, runs: case }.measure(&mut lists);
    for (answer, list) in answers.iter_mut().zip(lists) {
        *answer = list.map(List::into_values);
    }
    done
}

/// The one element in a thousand that jumps says nothing about the others. Of few elements none is left out, because
/// each may be a sum that cancels; but of a plain answer that is not tiny one is, since a reference that jumps must
/// not open the gate for everything else.
fn usual_place(count: usize, family: Family) -> usize {
    let thousandths = (count - 1) * 999;
    match family {
        Family::Normal if count >= TINY => thousandths / 1000,
        _ => thousandths.div_ceil(1000),
    }
}

impl Noise {
    fn widen(&mut self, elements: usize, answer_rms: f64, family: Family, usual: UsualSize) {
        let factor = if family == Family::Normal { FACTOR } else { FACTOR_STRESS };
        // What other families ask is left out where the answer is mostly noise, so nothing has to be capped there. And a
        // single sum may cancel to less than its error, so few outputs have no such limit.
        let capped = family == Family::Normal && elements >= FEW;
        let most = if capped { SHARE_MAX * answer_rms } else { f64::INFINITY };
        self.rms = self.rms.max((factor * usual.rms).min(most));
        self.max = self.max.max((2.0 * factor * usual.limit).min(most));
        // The size of a few errors says little about the next few.
        if elements < FEW {
            self.rms = self.rms.max(self.max);
        }
    }

    /// Whether so much of an answer of this root mean square is rounding that it tells nothing about a kernel.
    pub fn is_most_of(&self, answer_rms: f64, dtype: DType) -> bool {
        // The last bit of a zero is a subnormal number, which is not noise to speak of.
        let normal = element::precision(dtype).map_or(0.0, |own| own.smallest / (2.0 * own.unit));
        self.rms > NOISE_SHARE * answer_rms + normal
    }
}

pub fn distances(left: &[f64], right: &[f64], widest: Option<Vec<f64>>) -> Vec<f64> {
    let pairs = left.par_iter().with_min_len(CHUNK).zip(right);
    larger(widest, pairs.map(|(left, right)| (left - right).abs()).collect())
}

pub fn bends([first, second, third]: [&[f64]; 3], widest: Option<Vec<f64>>) -> Vec<f64> {
    let triples = first.par_iter().with_min_len(CHUNK).zip(second).zip(third);
    // A run without a number tells nothing, as on the device.
    let bend = |((first, second), third): ((&f64, &f64), &f64)| (first - 2.0 * second + third).abs().max(0.0);
    larger(widest, triples.map(bend).collect())
}

fn larger(widest: Option<Vec<f64>>, mut values: Vec<f64>) -> Vec<f64> {
    if let Some(widest) = widest {
        let pairs = values.par_iter_mut().with_min_len(CHUNK).zip(widest);
        pairs.for_each(|(value, widest)| *value = value.max(widest));
    }
    values
}

impl Far {
    pub fn among(self, errors: &[f64], expected: &[f64]) -> Vec<(u64, f64)> {
        let is_far = |(error, value): (&f64, &f64)| {
            error.is_finite() && *error > self.least && *error > self.units * value.abs()
        };
        let pairs = errors.iter().zip(expected).enumerate().filter(|(_, pair)| is_far(*pair));
        let found: Vec<(u64, f64)> = pairs.map(|(index, (error, _))| (index as u64, *error)).collect();
        if found.len() > self.most { Vec::new() } else { found }
    }
}

/// The size of the finite values up to the one at a place in their order, on all cores.
pub fn usual_size(values: &[f64], place: &dyn Fn(usize) -> usize) -> Option<UsualSize> {
    let [finite] = finite_sums(values, |_| [1.0]);
    if finite == 0.0 {
        return None;
    }
    let place = place(finite as usize);
    let count = finite as usize - place;
    let largest_of = |chunk: &[f64]| {
        let mut own: Vec<f64> = chunk.iter().copied().filter(|value| value.is_finite()).collect();
        let left_out = own.len().saturating_sub(count);
        if left_out > 0 {
            own.select_nth_unstable_by(left_out, f64::total_cmp);
        }
        own.split_off(left_out)
    };
    let parts: Vec<Vec<f64>> = values.par_chunks(CHUNK).map(largest_of).collect();
    let mut largest = parts.concat();
    let at = largest.len() - count;
    let limit = *largest.select_nth_unstable_by(at, f64::total_cmp).1;
    let [square, smaller] =
        finite_sums(values, |value| if value < limit { [value * value, 1.0] } else { [0.0; 2] });
    // Those that equal the limit count as far as the place.
    let counted = (place + 1) as f64;
    Some(UsualSize { limit, rms: ((square + (counted - smaller) * limit * limit) / counted).sqrt() })
}

#[cfg(test)]
mod tests {
    use evo_protocol::plan::{Fill, Role};
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng, SeedableRng};

    use super::*;
    use crate::judge::naive::NaiveReference;
    use crate::judge::reference::testing::{buffer, plan};

    /// `x` and `y`, the contents of `x`, and none of `y`.
    fn problem(values: &[f64], outputs: u64, dtype: DType) -> (ProblemPlan, Vec<Vec<u8>>) {
        let x = buffer("x", DType::F32, &[values.len() as u64], Role::Input);
        let x = BufferPlan { fill: Fill::Unrestricted, ..x };
        let plan = plan("p", &[], vec![x, buffer("y", dtype, &[outputs], Role::Output)]);
        (plan, vec![element::narrow(values, DType::F32), Vec::new()])
    }

    fn measured(
        (plan, bytes): &(ProblemPlan, Vec<Vec<u8>>),
        family: Family,
        answer: ReferenceAnswer,
        naive: &mut dyn NaiveReference,
    ) -> ReferenceAnswer {
        let mut answers = [ReferenceAnswer { buffer: 1, ..answer }];
        measure(&mut AskedCase { plan, family, bytes, naive }, &mut answers).unwrap();
        let [answer] = answers;
        answer
    }

    /// What is found of a kernel in f32.
    fn found(
        family: Family,
        dtype: DType,
        values: &[f64],
        kernel: impl Fn(&[f32]) -> Vec<f32>,
    ) -> ReferenceAnswer {
        let run = |bytes: &[Vec<u8>]| -> Vec<f64> {
            let values = element::widen(&bytes[0], DType::F32).into_iter().map(|own| own as f32);
            kernel(&values.collect::<Vec<_>>()).into_iter().map(f64::from).collect()
        };
        let (plan, bytes) = problem(values, 1, dtype);
        let (expected, exact) = (run(&bytes), !dtype.is_float());
        let answer = ReferenceAnswer { expected, exact, ..ReferenceAnswer::default() };
        measured(&(plan, bytes), family, answer, &mut |bytes: &[Vec<u8>]| Ok(vec![(1, run(bytes))]))
    }

    fn is_noise(answer: &ReferenceAnswer) -> bool {
        answer.noise.is_most_of(rms(&answer.expected), DType::F32)
    }

    fn drawn(count: usize, seed: u64) -> Vec<f64> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        (0..count).map(|_| f64::from(random.next_u32()) / 2f64.powi(31) - 1.0).collect()
    }

    fn sum(values: &[f32]) -> f32 {
        values.iter().fold(0.0f32, |sum, value| sum + value)
    }

    #[test]
    fn the_usual_size_of_many_values_is_that_of_all_in_order() {
        let check = |values: &[f64], place: usize| {
            let mut sorted: Vec<f64> = values.iter().copied().filter(|own| own.is_finite()).collect();
            sorted.sort_by(f64::total_cmp);
            let seen = usual_size(values, &|_| place).unwrap();
            let plain = rms(&sorted[..=place]);
            assert_eq!(seen.limit, sorted[place], "{} {place}", values.len());
            assert!((seen.rms - plain).abs() <= 1e-12 * plain, "{seen:?} {plain}");
        };
        // More than a chunk, with the largest together in one of them, and values that occur often.
        let value = |at: usize| match at % CHUNK < 900 && at > CHUNK {
            true => 1e3 + at as f64,
            false => (at * 7919 % 1009) as f64,
        };
        let many: Vec<f64> = (0..3 * CHUNK + 17).map(value).collect();
        for place in [0, 1, many.len() / 2, many.len() * 999 / 1000, many.len() - 1] {
            check(&many, place);
        }
        check(&[3.0], 0);
        check(&[2.0, f64::NAN, 2.0, 2.0, f64::INFINITY, 1.0], 2);
        assert_eq!(usual_size(&[f64::NAN], &|_| 0), None);
    }

    /// Of two sums one has huge values that cancel: whatever is left of the rest is a matter of order.
    #[test]
    fn one_of_two_sums_that_cancels_makes_the_case_noise() {
        let mut values: Vec<f64> = (0..65).map(|at| f64::from(at % 7) - 3.0).collect();
        (values[9], values[40]) = (1e30, -1e30);
        let sums = |bytes: &[Vec<u8>]| {
            let values = element::widen(&bytes[0], DType::F32);
            vec![values[..64].iter().sum::<f64>(), values[64]]
        };
        let problem = problem(&values, 2, DType::F32);
        let answer = ReferenceAnswer { expected: sums(&problem.1), ..ReferenceAnswer::default() };
        let answer =
            measured(&problem, Family::Huge, answer, &mut |bytes: &[Vec<u8>]| Ok(vec![(1, sums(bytes))]));
        assert!(is_noise(&answer), "{:?}", answer.noise);
    }

    #[test]
    fn the_error_of_a_long_chain_is_found_without_knowing_the_kernel() {
        let values = drawn(1 << 20, 3);
        let answer = found(Family::Normal, DType::F32, &values, |values| vec![sum(values)]);
        let exact: f64 = values.iter().map(|own| f64::from(*own as f32)).sum();
        let (noise, error) = (answer.noise.max, (answer.expected[0] - exact).abs());
        assert!(noise > error && noise < 1e4 * error, "{noise} beside {error}");
    }

    #[test]
    fn a_reference_that_jumps_does_not_open_the_gate() {
        let problem = problem(&[0.0; 4096], 4096, DType::F32);
        let answer = ReferenceAnswer { expected: vec![1.0; 4096], ..ReferenceAnswer::default() };
        let mut naive = |_: &[Vec<u8>]| Ok(vec![(1, vec![-1.0; 4096])]);
        let answer = measured(&problem, Family::Normal, answer, &mut naive);
        assert!(answer.noise.max <= 0.01, "{:?}", answer.noise);
    }

    /// Which of two numbers is larger, where one pair in 64 is nearly equal.
    #[test]
    fn integers_that_rounding_decides_are_counted_and_hashes_are_not() {
        let mut pairs: Vec<f64> = drawn(2048, 5).into_iter().map(|own| own + 1.5).collect();
        (0..1024).step_by(64).for_each(|index| pairs[2 * index + 1] = pairs[2 * index]);
        let jumps = |kernel: fn(&[f32]) -> f32| {
            let kernel = move |x: &[f32]| x.chunks(2).map(kernel).collect();
            let answer = found(Family::Normal, DType::I32, &pairs, kernel);
            (answer.jumps, answer.follows_bits)
        };
        let (larger, follows) = jumps(|pair| f32::from(u8::from(pair[1] > pair[0])));
        assert!((12..=17).contains(&larger) && !follows, "{larger}");
        assert_eq!(jumps(|pair| (pair[0].to_bits() % 1024) as f32), (0, true));
    }

    #[test]
    fn a_sum_of_equal_terms_is_known_to_be_biased() {
        for value in [0.64f64, 0.31, 1.7] {
            let answer =
                found(Family::Constant, DType::F32, &vec![value; 1 << 20], |values| vec![sum(values)]);
            let error = (answer.expected[0] - f64::from(value as f32) * f64::from(1 << 20)).abs();
            assert!(answer.noise.max > error, "{value}: {} beside {error}", answer.noise.max);
        }
    }

    #[test]
    fn differences_of_equal_values_are_no_question_and_zeros_are_one() {
        let centered = |values: &[f32]| {
            let mean = values.iter().sum::<f32>() / values.len() as f32;
            values.iter().map(|value| (value - mean) * 316.0).collect()
        };
        let ramp: Vec<f64> = (0..131).map(f64::from).collect();
        for (family, values, noise) in [
            (Family::Constant, vec![3.7; 131], true),
            (Family::Zero, vec![0.0; 131], false),
            (Family::Ramp, ramp, false),
        ] {
            assert_eq!(is_noise(&found(family, DType::F32, &values, centered)), noise, "{family:?}");
        }
        // In a declared range too, where the mean of equal values may be exact by luck.
        let mut problem = problem(&[1000.5; 128], 128, DType::F32);
        problem.0.buffers[0].fill = Fill::Uniform { low: 1000.0, high: 1001.0, inclusive: false };
        let answer = ReferenceAnswer { expected: vec![0.0; 128], ..ReferenceAnswer::default() };
        let run = &mut |bytes: &[Vec<u8>]| {
            let values: Vec<f32> =
                element::widen(&bytes[0], DType::F32).iter().map(|value| *value as f32).collect();
            Ok(vec![(1, centered(&values).into_iter().map(f64::from).collect())])
        };
        assert!(is_noise(&measured(&problem, Family::Constant, answer, run)));
    }

    #[test]
    fn of_two_sums_the_one_that_cancels_is_no_question() {
        let mut values: Vec<f64> = (0..256).map(|at| f64::from(at % 7) - 3.0).collect();
        (values[5], values[90], values[200]) = (1e30, -1e30, 1e30);
        let answer = found(Family::Huge, DType::F32, &values, |values| values.chunks(128).map(sum).collect());
        assert!(answer.expected[0].abs() < 1e3 && answer.noise.max > 1e20, "{answer:?}");
        assert!(!is_noise(&answer), "the other sum is a question");
    }

    fn answer(count: usize, off: &[(usize, f64)]) -> ReferenceAnswer {
        let expected: Vec<f64> = (0..count).map(|index| 1.0 + (index % 7) as f64).collect();
        let mut single: Vec<f64> = expected.iter().map(|own| own * (1.0 + 1e-7)).collect();
        for (index, error) in off {
            single[*index] += error;
        }
        ReferenceAnswer { buffer: 1, expected, single: Some(single), ..ReferenceAnswer::default() }
    }

    #[test]
    fn elements_far_less_certain_than_the_others_are_found() {
        let check = |answer: ReferenceAnswer, places: &[u64]| {
            let (plan, bytes) = &problem(&[0.0], 1, DType::F32);
            let (family, naive) = (Family::Normal, &mut |_: &[Vec<u8>]| unreachable!());
            let runs = &mut AskedCase { plan, family, bytes, naive };
            let found = Laboratory { plan, family, runs }.uncertain(&answer.map(List::Here)).unwrap();
            assert_eq!(found.iter().map(|own| own.0).collect::<Vec<_>>(), places, "{found:?}");
            found
        };
        check(answer(4096, &[]), &[]);
        check(answer(4096, &[(5, 0.1), (99, -0.2)]), &[5, 99]);
        // A few outputs tell too little, and where much is uncertain the whole answer is.
        check(answer(64, &[(5, 0.1)]), &[]);
        let many: Vec<(usize, f64)> = (0..400).map(|index| (10 * index, 0.1)).collect();
        check(answer(4096, &many), &[]);
        // Lucky in single precision, and seen on inputs with other last bits.
        let mut distances = vec![1e-7; 4096];
        distances[7] = 0.3;
        let lucky = check(ReferenceAnswer { distances: Some(distances), ..answer(4096, &[]) }, &[7]);
        assert!(lucky[0].1 > 2.9);
        // A large value has a large error.
        let mut large = answer(4096, &[]);
        large.expected[3] = 1e6;
        large.single.as_mut().unwrap()[3] = 1e6 * (1.0 + 1e-7);
        check(large, &[]);
    }

    struct Sum;

    impl NaiveReference for Sum {
        fn answers(&mut self, inputs: &[Vec<u8>]) -> Result<NaiveAnswers, DeviceError> {
            Ok(vec![(1, vec![element::widen(&inputs[0], DType::F32).iter().sum()])])
        }

        fn single(&mut self, inputs: &[Vec<u8>]) -> Result<Option<NaiveAnswers>, DeviceError> {
            let values = element::widen(&inputs[0], DType::F32);
            let sum = values.iter().fold(0.0f32, |sum, value| sum + *value as f32);
            Ok(Some(vec![(1, vec![f64::from(sum)])]))
        }
    }

    #[test]
    fn rows_share_an_error_where_it_is_that_of_a_mean() {
        let (plan, bytes) = &problem(&[0.0; 300], 300, DType::F32);
        let errors = |of: &dyn Fn(usize) -> f64| {
            let expected: Vec<f64> = (0..300).map(f64::from).collect();
            let single = (0..300).map(|at| expected[at] + of(at)).collect();
            let runs = &mut AskedCase { plan, family: Family::Normal, bytes, naive: &mut Sum };
            let laboratory = Laboratory { plan, family: Family::Normal, runs };
            laboratory.row_errors(1, &List::Here(single), &List::Here(expected))
        };
        let shared = errors(&|at| 1e-4 + 1e-6 * (at as f64).sin()).unwrap();
        assert!(shared.len() == 1 && (shared[0] - 1e-4).abs() < 1e-6, "{shared:?}");
        assert_eq!(errors(&|at| (at as f64).sin()), None);
    }

    #[test]
    fn one_sum_that_is_right_by_luck_does_not_show_what_single_precision_costs() {
        let values: Vec<f64> = (0..257).map(|index| (f64::from(index) * 0.7).sin()).collect();
        let (plan, bytes) = &problem(&values, 1, DType::F32);
        let expected: Vec<f64> = Sum.answers(bytes).unwrap().remove(0).1;
        let single = Some(expected.clone());
        let answer = ReferenceAnswer { buffer: 1, single, expected, ..ReferenceAnswer::default() };
        let (family, mut answers) = (Family::Normal, [answer.map(List::Here)]);
        let runs = &mut AskedCase { plan, family, bytes, naive: &mut Sum };
        Laboratory { plan, family, runs }.try_luck(&mut answers).unwrap();
        let error = (answers[0].single.as_ref().unwrap().here()[0] - answers[0].expected.here()[0]).abs();
        assert!((1e-8..1e-4).contains(&error), "{error}");
    }
}
