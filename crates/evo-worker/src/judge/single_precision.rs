//! What f32 costs in a case: the user's reference once more, in single precision, beside its answers in double.
//!
//! A reference that writes its types as `REAL` is compiled for both. The distance between both answers is the error of
//! one honest f32 kernel on exactly these inputs, in one order of many. It works in two directions.
//!
//! - An angle that grows with the position, a matrix that is nearly singular: where f32 costs more than the default
//!   bounds allow, they widen by a small factor of that cost (`bounds`). Elements that are far less certain than all
//!   others have an allowance of their own instead, because one of them would open the bounds for everything else.
//!   One run may meet such an element with a small error by luck, so there the reference also runs on inputs with
//!   other last bits, several times.
//! - Where f32 costs far less than the default bounds allow, they tighten, never below what other honest orders and
//!   approximate functions take. Only plain outputs in f32 of many elements are judged so strictly: few errors say
//!   little about the next few, and a tensor core that multiplies halves rounds its sums down.

use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::ProblemPlan;

use super::bounds::FEW;
use super::element;
use super::naive::{AskedCase, NaiveAnswers};
use super::perturb;
use super::reference::ReferenceAnswer;

/// From this multiple of the usual error on, an element counts as far less certain than the others.
pub const UNCERTAIN: f64 = 8.0;
/// Its error is also more than so many units of rounding of its own value: a large value has a large error.
pub const UNITS: f64 = 32.0;
/// No more than this share of an answer is uncertain: beyond, the answer as a whole is what it is.
pub const SHARE: f64 = 0.05;
/// An honest kernel may be off by so many times the largest error that was seen at an uncertain element.
pub const ALLOWED: f64 = 10.0;

/// With fewer elements the error may be small by chance in all of them: then the reference runs on inputs with other last
/// bits, until it has made so many errors.
const ERRORS_MIN: usize = 12;
const RUNS_MIN: usize = 4;
const INPUTS_MANY: u64 = 1 << 20;

/// Takes over the answers in single precision, for outputs that are not finer than that. What is left are integers.
pub fn add(
    plan: &ProblemPlan,
    answers: &mut [ReferenceAnswer],
    single: Option<NaiveAnswers>,
) -> NaiveAnswers {
    let mut integers = NaiveAnswers::new();
    for (buffer, values) in single.unwrap_or_default() {
        let dtype = plan.buffers[buffer].dtype;
        if !dtype.is_float() {
            integers.push((buffer, values));
            continue;
        }
        let fits = matches!(dtype, DType::F32 | DType::F16 | DType::Bf16);
        if let Some(own) = answers.iter_mut().find(|own| own.buffer == buffer && fits && !own.exact) {
            own.single = Some(values);
        }
    }
    integers
}

pub fn try_luck(case: &mut AskedCase<'_>, answers: &mut [ReferenceAnswer]) -> Result<(), DeviceError> {
    for run in 0..lucky_runs(case.plan, answers) {
        let nudged = perturb::nudged(case.plan, case.bytes, run);
        let wide = case.naive.answers(&nudged)?;
        let Some(single) = case.naive.single(&nudged)? else { return Ok(()) };
        let of = |all: &NaiveAnswers, buffer: usize| {
            all.iter().find(|own| own.0 == buffer).map(|own| own.1.clone()).unwrap_or_default()
        };
        answers.iter_mut().for_each(|own| widen_few(own, &of(&wide, own.buffer), &of(&single, own.buffer)));
    }
    Ok(())
}

fn is_few(answer: &ReferenceAnswer) -> bool {
    answer.single.is_some() && (1..ERRORS_MIN).contains(&answer.expected.len())
}

/// How many runs [`try_luck`] takes.
pub fn lucky_runs(plan: &ProblemPlan, answers: &[ReferenceAnswer]) -> u32 {
    let Some(fewest) = answers.iter().filter(|own| is_few(own)).map(|own| own.expected.len()).min() else {
        return 0;
    };
    let inputs: u64 = plan.buffers.iter().map(|own| own.elements()).sum();
    let runs = ERRORS_MIN.div_ceil(fewest);
    (if inputs > INPUTS_MANY { runs.min(RUNS_MIN) } else { runs }) as u32
}

pub fn widen_few(answer: &mut ReferenceAnswer, wide: &[f64], narrow: &[f64]) {
    if !is_few(answer) {
        return;
    }
    let pairs = narrow.iter().zip(wide).map(|(narrow, wide)| narrow - wide);
    let elements = answer.single.iter_mut().flatten().zip(&answer.expected);
    for ((single, expected), error) in elements.zip(pairs) {
        if error.is_finite() && error.abs() > (*single - expected).abs() {
            *single = expected + error;
        }
    }
}

/// Single precision decides some integers otherwise: the bin of a value that rounds to its border, the nearest of
/// centers whose distances are all too small for it. Says so where these are so many that the case asks for double
/// precision.
pub fn count_integers(answers: &mut [ReferenceAnswer], single: &NaiveAnswers) -> Option<String> {
    let mut complaint = None;
    for (buffer, values) in single {
        for answer in answers.iter_mut().filter(|own| own.buffer == *buffer) {
            let count = answer.expected.iter().zip(values).filter(|(own, other)| own != other).count();
            let elements = answer.expected.len();
            complaint = complaint.or(note_integers(answer, count as u64, elements));
        }
    }
    complaint
}

pub fn note_integers(answer: &mut ReferenceAnswer, count: u64, elements: usize) -> Option<String> {
    answer.jumps = answer.jumps.max(count);
    let share = count as f64 / elements.max(1) as f64;
    (share > perturb::JUMPS_MAX).then(|| {
        format!("single precision gives other integers than double precision, {:.0} % of them", 100.0 * share)
    })
}

pub fn find_uncertain(case: &mut AskedCase<'_>, answers: &mut [ReferenceAnswer]) -> Result<(), DeviceError> {
    let plan = case.plan;
    let unit = |dtype: DType| element::precision(dtype).map_or(0.0, |own| own.unit);
    let found = |own: &ReferenceAnswer| uncertain(own, unit(plan.buffers[own.buffer].dtype));
    if answers.iter().all(|own| found(own).is_empty()) {
        return Ok(());
    }
    perturb::nudge_again(case, answers)?;
    for answer in answers {
        answer.uncertain = found(answer);
    }
    Ok(())
}

pub fn certain_place(count: usize) -> usize {
    ((count - 1) as f64 * (1.0 - SHARE)) as usize
}

pub fn uncertain(answer: &ReferenceAnswer, unit: f64) -> Vec<(u64, f64)> {
    let Some(single) = answer.single.as_ref().filter(|own| own.len() >= FEW) else { return Vec::new() };
    let mut errors = perturb::distances(single, &answer.expected);
    perturb::widen(&mut errors, &answer.distances);
    let known = perturb::finite(errors.clone());
    if known.is_empty() {
        return Vec::new();
    }
    // What a share of the elements can do to the usual error is left out of it.
    let place = certain_place(known.len());
    let usual = perturb::usual_size(&known, place).rms;
    let far = |(index, error): (usize, &f64)| {
        let own = UNITS * unit * answer.expected[index].abs();
        (error.is_finite() && *error > UNCERTAIN * usual && *error > own)
            .then_some((index as u64, ALLOWED * error))
    };
    let found: Vec<(u64, f64)> = errors.iter().enumerate().filter_map(far).collect();
    if found.len() as f64 > SHARE * errors.len() as f64 { Vec::new() } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::naive::NaiveReference;

    fn answer(count: usize, off: &[(usize, f64)]) -> ReferenceAnswer {
        let expected: Vec<f64> = (0..count).map(|index| 1.0 + (index % 7) as f64).collect();
        let mut single: Vec<f64> = expected.iter().map(|own| own * (1.0 + 1e-7)).collect();
        for (index, error) in off {
            single[*index] += error;
        }
        ReferenceAnswer { expected, single: Some(single), ..ReferenceAnswer::default() }
    }

    #[test]
    fn elements_far_less_certain_than_the_others_are_found() {
        let unit = element::precision(DType::F32).unwrap().unit;
        let places = |own: &ReferenceAnswer| -> Vec<u64> {
            uncertain(own, unit).into_iter().map(|(index, _)| index).collect()
        };
        assert!(places(&answer(4096, &[])).is_empty());
        assert_eq!(places(&answer(4096, &[(5, 0.1), (99, -0.2)])), [5, 99]);
        // A few outputs tell too little, and where much is uncertain the whole answer is.
        assert!(places(&answer(64, &[(5, 0.1)])).is_empty());
        let many: Vec<(usize, f64)> = (0..400).map(|index| (10 * index, 0.1)).collect();
        assert!(places(&answer(4096, &many)).is_empty());
        // Lucky in single precision, and seen on inputs with other last bits.
        let mut lucky = answer(4096, &[]);
        lucky.distances = vec![1e-7; 4096];
        lucky.distances[7] = 0.3;
        let found = uncertain(&lucky, unit);
        assert!(found.len() == 1 && found[0].0 == 7 && found[0].1 > 2.9, "{found:?}");
    }

    #[test]
    fn a_large_value_has_a_large_error() {
        let mut own = answer(4096, &[]);
        let single = own.single.as_mut().unwrap();
        (own.expected[3], single[3]) = (1e6, 1e6 * (1.0 + 1e-7));
        assert!(uncertain(&own, element::precision(DType::F32).unwrap().unit).is_empty());
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
    fn one_sum_that_is_right_by_luck_does_not_show_what_single_precision_costs() {
        use crate::judge::reference::testing::{buffer, plan};
        use evo_protocol::plan::Role;
        let buffers =
            vec![buffer("x", DType::F32, &[257], Role::Input), buffer("y", DType::F32, &[1], Role::Output)];
        let own = plan("p", &[], buffers);
        let values: Vec<f64> = (0..257).map(|index| (f64::from(index) * 0.7).sin()).collect();
        let bytes = vec![element::narrow(&values, DType::F32), vec![0; 4]];
        let expected: Vec<f64> = Sum.answers(&bytes).unwrap().remove(0).1;
        let lucky =
            ReferenceAnswer { buffer: 1, single: Some(expected.clone()), expected, ..Default::default() };
        let mut answers = [lucky];
        let family = crate::judge::inputs::Family::Normal;
        let mut case = AskedCase { plan: &own, family, bytes: &bytes, naive: &mut Sum };
        try_luck(&mut case, &mut answers).unwrap();
        let error = (answers[0].single.as_ref().unwrap()[0] - answers[0].expected[0]).abs();
        assert!((1e-8..1e-4).contains(&error), "{error}");
    }
}
