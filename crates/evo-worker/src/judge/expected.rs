//! Expected outputs: the answers of a correct variant, and the name under which `expected_cache` keeps them.
//!
//! A reference that gives NaN for plain inputs makes the task invalid. Where it gives NaN or an infinity for
//! inputs that call for it, the variant has to give the same; neither is ever a wildcard.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use evo_protocol::check::GateCheck;
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, Fill, ProblemPlan, Role};
use evo_protocol::worker::{CheckPlan, CommandReference, ReferencePlan};
use evo_space::genome::ContentHash;
use rayon::prelude::*;

use super::bounds::{AnswerScale, OutputShape};
use super::case::Case;
use super::element::{self, compared_as};
use super::infinities;
use super::inputs::{self, Draw, Family};
use super::moves;
use super::naive::{AskedCase, NaiveAnswers, NaiveReference};
use super::npy::{self, task_error};
use super::perturb;
use super::reference::{self, ReferenceAnswer, ReferenceWork};
use super::single_precision;
use super::views;

#[derive(Clone, Debug, PartialEq)]
pub struct ExpectedSet {
    /// How far the family's inputs are magnified (`Family::magnitudes`).
    pub magnitude: f64,
    /// Of the inputs whose answers these are.
    pub inputs: ContentHash,
    pub outputs: Vec<ExpectedOutput>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ExpectedOutput {
    /// Position in `ProblemPlan::buffers`.
    pub buffer: usize,
    /// In the type of [`compared_as`].
    pub values: Vec<f64>,
    pub scale: AnswerScale,
    /// Elements far less certain than the others, and how far f32 may be off there (`single_precision`).
    pub uncertain: Vec<(u64, f64)>,
}

/// Said of integers that follow the last bits of inputs which are nearly equal.
pub const UNDECIDED: &str = "rounding decides its integers";

/// Raised when values of built-in references change: answers of older ones must not be found under their names.
const BUILTIN_VERSION: u32 = 1;

/// A case's answers, and its inputs by buffer position.
pub type AnsweredCase = (ExpectedSet, Vec<Vec<u8>>);

pub fn output_shape(plan: &ProblemPlan, buffer: usize) -> OutputShape {
    let own = &plan.buffers[buffer];
    // What is prepared holds what others hold, and makes no sum longer.
    let read = |buffer: &&BufferPlan| buffer.role.is_read() && buffer.fill != Fill::Prepared;
    let inputs: u64 = plan.buffers.iter().filter(read).map(BufferPlan::elements).sum();
    OutputShape {
        dtype: own.dtype,
        family: Family::Normal,
        row: own.compared_shape().last().copied().unwrap_or(1),
        length: inputs as f64 / own.compared_elements().max(1) as f64,
        all_f32: plan.buffers.iter().all(|own| !own.dtype.is_float() || own.dtype == DType::F32),
        one_is_subnormal: false,
    }
}

pub fn input_bytes(plan: &ProblemPlan, draw: Draw) -> Result<Vec<Vec<u8>>, DeviceError> {
    let one = |buffer: &BufferPlan| match buffer.role.is_read() {
        true => inputs::generate(plan, buffer, draw),
        false => Ok(Vec::new()),
    };
    plan.buffers.iter().map(one).collect()
}

pub fn hash_inputs(bytes: &[Vec<u8>]) -> ContentHash {
    ContentHash::of_parts(bytes.iter().map(Vec::as_slice))
}

pub fn inputs_hash(check: &CheckPlan, case: &Case, magnitude: f64) -> Result<ContentHash, DeviceError> {
    Ok(hash_inputs(&inputs_at(check, case, magnitude)?))
}

pub fn inputs_at(check: &CheckPlan, case: &Case, magnitude: f64) -> Result<Vec<Vec<u8>>, DeviceError> {
    input_bytes(&case.plan, case.draw(check, magnitude))
}

/// Computes a case's answers, with the largest magnitude whose answers fit their data type; with them the inputs, by
/// buffer position.
pub fn compute(
    check: &CheckPlan,
    case: &Case,
    naive: &mut dyn NaiveReference,
) -> Result<AnsweredCase, DeviceError> {
    let naive: &mut dyn NaiveReference = &mut views::ViewedReference { whole: naive, plan: &case.plan };
    let mut why = String::new();
    for (number, magnitude) in magnitudes(check, case).iter().enumerate() {
        let draw = case.draw(check, *magnitude);
        let bytes = input_bytes(&case.plan, draw)?;
        let mut answers = answers(check, &case.plan, &bytes, naive)?;
        let own_kernel = check.reference.is_own();
        let OwnLooks { integers, mixing } = match own_kernel {
            true => {
                let (plan, family, bytes) = (&case.plan, case.family, bytes.as_slice());
                look_closer(&mut AskedCase { plan, family, bytes, naive: &mut *naive }, &mut answers)?
            }
            false => OwnLooks::default(),
        };
        // In double precision nothing overflows that would in the kernel's own.
        let unknown =
            |own: &ReferenceAnswer| own.single.is_none() && case.plan.buffers[own.buffer].dtype == DType::F32;
        let wide = check.reference_f64 && case.family == Family::Huge && number == 0;
        if wide && answers.iter().any(unknown) {
            continue;
        }
        let undecided = single_precision::count_integers(&mut answers, &integers);
        // Other families hold few values, which an answer may share by accident; and a declared tolerance is meant.
        if own_kernel && case.family == Family::Normal {
            let judged = check.checks.include(GateCheck::MovedData);
            let declared = check.atol.is_some() || check.rtol.is_some();
            for answer in answers.iter_mut().filter(|_| judged && !declared) {
                answer.exact |= moves::only_moves(&case.plan, &bytes, answer);
            }
        }
        let judged = check.checks.include(GateCheck::UsableReference);
        let odd = |answer: &ReferenceAnswer| {
            unusable(&case.plan, case.family, answer.buffer, &Oddities::of(answer, case.family))
        };
        let complaint = answers.iter().find_map(odd);
        // A cancellation, or equal values whose differences are their rounding.
        let measured = own_kernel && case.family != Family::Normal;
        let noise =
            || answers.iter().filter(|_| measured).find_map(|answer| mostly_noise(&case.plan, answer));
        let faint = || answers.iter().filter(|_| measured).find_map(|own| faint(case, own));
        let undecided = undecided.filter(|_| measured);
        // Values that are nearly equal are meant for choices between them as they are, not between sums of them.
        let follows = draw.is_second() && case.family == Family::Constant;
        let follows = follows && answers.iter().any(|own| own.follows_bits);
        let undecided = undecided.or_else(|| follows.then(|| UNDECIDED.to_string()));
        let complaint = complaint.or_else(noise).or_else(faint).or(undecided);
        match complaint.filter(|_| judged || case.family != Family::Normal) {
            Some(complaint) => why = complaint,
            None => {
                let output = |answer| expected_output(case, answer, &mixing);
                let outputs = answers.into_iter().map(output).collect();
                let set = ExpectedSet { magnitude: *magnitude, inputs: hash_inputs(&bytes), outputs };
                return Ok((set, bytes));
            }
        }
    }
    Err(no_answer(case, &why))
}

/// An answer as it is kept. `mixing` has the buffers whose infinities mix.
fn expected_output(case: &Case, mut answer: ReferenceAnswer, mixing: &[usize]) -> ExpectedOutput {
    let dtype = case.plan.buffers[answer.buffer].dtype;
    let scale = AnswerScale::of(&answer).rounded_to(dtype, &answer.expected);
    if mixing.contains(&answer.buffer) || infinities::adds_up(&case.plan, answer.buffer, case.family) {
        infinities::excuse(&mut answer.expected, answer.single.as_deref());
    }
    let ReferenceAnswer { buffer, expected: values, uncertain, .. } = answer;
    ExpectedOutput { buffer, scale, uncertain, values }
}

#[derive(Default)]
struct OwnLooks {
    integers: NaiveAnswers,
    /// Buffers whose infinities mix.
    mixing: Vec<usize>,
}

fn look_closer(case: &mut AskedCase<'_>, answers: &mut [ReferenceAnswer]) -> Result<OwnLooks, DeviceError> {
    let mut looks = OwnLooks::default();
    let integers = single_precision::add(case.plan, answers, case.naive.single(case.bytes)?);
    // The last bit of an infinity makes it NaN, and which integers belong to NaN is not a matter of precision.
    if case.family == Family::Special {
        looks.mixing = infinities::mixing(case, answers)?;
        infinities::spare_zero_factors(case, answers, &looks.mixing)?;
        return Ok(looks);
    }
    looks.integers = integers;
    // The last bit of a round number leaves nothing of what it is for.
    if case.family != Family::Round {
        single_precision::try_luck(case, answers)?;
        perturb::estimate_noise(case, answers)?;
        single_precision::find_uncertain(case, answers)?;
    }
    Ok(looks)
}

/// Answers of every magnitude are asked for, but not those so small that products on the way to them are subnormal: in
/// which order a kernel multiplies then decides what is left, and the subnormal family has questions of that kind.
fn faint(case: &Case, answer: &ReferenceAnswer) -> Option<String> {
    let precision = element::precision(case.plan.buffers[answer.buffer].dtype)?;
    // Half has no room for that.
    let least = Some(precision.smallest / (precision.unit * precision.unit)).filter(|least| *least < 1e-20);
    (case.family == Family::Spread && reference::rms(&answer.expected) < least?)
        .then(|| "its answer is nearly subnormal".to_string())
}

pub fn no_answer(case: &Case, why: &str) -> DeviceError {
    task_error(format!("the reference is unusable for `{}`: {why}", case.name()))
}

/// The answer of a built-in reference.
pub fn builtin_answer(
    name: &str,
    plan: &ProblemPlan,
    bytes: &[Vec<u8>],
) -> Result<ReferenceAnswer, DeviceError> {
    let work = ReferenceWork::of(name, plan)?;
    let widen = |(bytes, buffer): (&Vec<u8>, &BufferPlan)| {
        let mut values = element::widen(bytes, buffer.dtype);
        // A buffer without elements is passed as one element, which a reference must not see.
        values.truncate(buffer.elements() as usize);
        values
    };
    let values: Vec<Vec<f64>> = bytes.iter().zip(&plan.buffers).map(widen).collect();
    let mut answer = work.answer(&values);
    let compared = compared_as(work.dtype_out);
    if compared != work.dtype_out {
        answer.expected = element::widen(&element::narrow(&answer.expected, work.dtype_out), compared);
    }
    Ok(answer)
}

/// Magnitudes to try. Without a trusted computation in the output's own type nothing tells whether a kernel of
/// that type can hold the intermediate values, so the largest magnitude is left out.
pub fn magnitudes(check: &CheckPlan, case: &Case) -> &'static [f64] {
    let family = case.family;
    let first = case.draw(check, 1.0);
    let all = match family {
        // Between plain inputs and large ones, weights of `exp` matter that are small and not zero.
        Family::Large if first.is_second() => &[3.0],
        _ => family.magnitudes(),
    };
    let doubtful = match (family, &check.reference) {
        (_, ReferencePlan::Builtin { .. }) => 0,
        // The build in single precision shows whether an honest kernel may overflow (`compute`).
        (Family::Huge, _) if check.reference_f64 => 0,
        (Family::Huge, _) => 1,
        // A reference in the output's own type overflows where a kernel does: a row of equal signs hides nothing.
        (Family::Lowest, _) if check.reference_f64 => 1,
        (Family::Spread, _) if check.reference_f64 => 2,
        _ => 0,
    };
    &all[doubtful..]
}

fn answers(
    check: &CheckPlan,
    plan: &ProblemPlan,
    bytes: &[Vec<u8>],
    naive: &mut dyn NaiveReference,
) -> Result<Vec<ReferenceAnswer>, DeviceError> {
    let plain = |(buffer, expected): (usize, Vec<f64>)| ReferenceAnswer {
        exact: !plan.buffers[buffer].dtype.is_float(),
        buffer,
        expected,
        ..ReferenceAnswer::default()
    };
    match &check.reference {
        ReferencePlan::Builtin { name } => {
            let mut answer = builtin_answer(name, plan, bytes)?;
            views::look_at(plan, &mut answer);
            Ok(vec![answer])
        }
        ReferencePlan::Kernel | ReferencePlan::Command(_) => {
            Ok(naive.answers(bytes)?.into_iter().map(plain).collect())
        }
        ReferencePlan::Npy { outputs } => {
            if let Some(buffer) = plan.buffers.iter().find(|buffer| inputs::varies(buffer)) {
                return Err(task_error(format!(
                    "a `.npy` reference needs fixed inputs, and `{}` is drawn at random\nhint: give it `fill = {{ npy = … }}`",
                    buffer.name
                )));
            }
            let read = |(name, path): &(String, PathBuf)| {
                let position = plan.buffers.iter().position(|buffer| buffer.name == *name);
                let position = position.ok_or_else(|| {
                    task_error(format!("`.npy` reference for `{name}`, which is not a buffer of the kernel"))
                })?;
                let buffer = &plan.buffers[position];
                let values = match compared_as(buffer.dtype) {
                    own if own == buffer.dtype => npy::read_values(path, buffer)?,
                    words => element::widen(&npy::read_bytes(path, buffer)?, words),
                };
                Ok(plain((position, buffer.compared(values))))
            };
            outputs.iter().map(read).collect()
        }
    }
}

fn mostly_noise(plan: &ProblemPlan, answer: &ReferenceAnswer) -> Option<String> {
    let buffer = &plan.buffers[answer.buffer];
    let noise = perturb::is_mostly_noise(answer, buffer.dtype);
    noise.then(|| noisy(buffer))
}

pub fn noisy(buffer: &BufferPlan) -> String {
    format!("`{}` is mostly the reference's own rounding", buffer.name)
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Oddities {
    pub elements: u64,
    pub finite: u64,
    pub first_nan: Option<u64>,
    /// The first NaN or infinity, and which.
    pub first_special: Option<(u64, f64)>,
    pub max: f64,
    /// Whether a computation in the output's own type is not finite where the answer is.
    pub overflows: bool,
}

impl Oddities {
    pub fn of(answer: &ReferenceAnswer, family: Family) -> Oddities {
        let expected = &answer.expected;
        let first_special = first(expected, |value| !value.is_finite());
        let overflows = |trusted: &Vec<f64>| {
            let pairs = trusted.par_chunks(CHUNK).zip(expected.par_chunks(CHUNK));
            pairs.any(|(t, e)| t.iter().zip(e).any(|(t, e)| !t.is_finite() && e.is_finite()))
        };
        // Plain inputs are to be met as they are, whatever single precision makes of them, and so are special ones.
        let single = answer.single.as_ref().filter(|_| !matches!(family, Family::Normal | Family::Special));
        let special = first_special.is_some();
        Oddities {
            elements: expected.len() as u64,
            finite: match special {
                true => expected.iter().filter(|value| value.is_finite()).count() as u64,
                false => expected.len() as u64,
            },
            first_nan: first(expected, f64::is_nan).filter(|_| special).map(|index| index as u64),
            first_special: first_special.map(|index| (index as u64, expected[index])),
            max: reference::max_abs(expected),
            overflows: answer.trusted.as_ref().or(single).is_some_and(overflows),
        }
    }
}

/// Elements that one task looks at: waking a thread takes longer than looking at a few thousand.
const CHUNK: usize = 1 << 16;

/// The first value for which `holds` does, on all cores where they are many.
fn first(values: &[f64], holds: impl Fn(f64) -> bool + Sync) -> Option<usize> {
    values.par_chunks(CHUNK).enumerate().find_map_first(|(number, some)| {
        some.iter().position(|value| holds(*value)).map(|place| number * CHUNK + place)
    })
}

/// Why an answer for a buffer cannot be used to judge a kernel, if so.
pub fn unusable(plan: &ProblemPlan, family: Family, position: usize, odd: &Oddities) -> Option<String> {
    let buffer = &plan.buffers[position];
    // Special inputs may give special answers. Plain ones may give infinities, as the logarithm of a zero
    // does or a mask of -inf, but not everywhere; and NaN only by mistake.
    let bad = match family {
        Family::Special => None,
        Family::Normal => odd.first_nan.map(|index| (index, f64::NAN)),
        _ => odd.first_special,
    };
    if let Some((index, value)) = bad {
        return Some(format!("it gives `{value}` for `{}`, element {index}", buffer.name));
    }
    if family == Family::Normal && odd.elements > 0 && odd.finite == 0 {
        return Some(format!("it gives no finite value for `{}`", buffer.name));
    }
    // A cancellation, or equal values whose differences are their rounding.
    let largest = element::precision(buffer.dtype).map_or(f64::INFINITY, |precision| precision.largest);
    if odd.max > largest / 2.0 || odd.overflows {
        let dtype = buffer.dtype.as_str();
        return Some(format!("`{}` grows to {:.3e}, too large for {dtype}", buffer.name, odd.max));
    }
    None
}

/// Everything that decides a case's answers and their bounds. Of the configuration that is only what the compiler may
/// do to arithmetic. `reference_hash` is the naive kernel's binary.
pub fn key(check: &CheckPlan, case: &Case, reference_hash: Option<&ContentHash>) -> ContentHash {
    let plan = &case.plan;
    let mut text = format!("evo expected 10\n{}\n{:?}\n", plan.name, plan.sizes);
    let CheckPlan { atol, rtol, trusted_factor, fast_math, flushes_subnormals, .. } = check;
    text.push_str(&format!("{atol:?} {rtol:?} {trusted_factor} {fast_math} {flushes_subnormals}\n"));
    // Workspace is left out: its size follows from the configuration, and answers do not.
    for buffer in plan.buffers.iter().filter(|buffer| buffer.role != Role::Scratch) {
        text.push_str(&format!("{buffer:?}\n"));
        if let Some(path) = buffer.fill.file() {
            text.push_str(&file_hash(path));
        }
    }
    if !plan.reference_parameters.is_empty() {
        text.push_str(&format!("parameters {:?}\n", plan.reference_parameters));
    }
    // Prepared inputs are kept beside answers, and may follow the configuration by what the file says.
    if !plan.prepare_launches.is_empty() {
        let ProblemPlan { prepare_launches: launches, scalars, literals, .. } = plan;
        text.push_str(&format!("prepared {launches:?} {scalars:?} {literals:?}\n"));
    }
    match &check.reference {
        ReferencePlan::Builtin { name } => {
            text.push_str(&format!("builtin {name} {BUILTIN_VERSION}\n"));
        }
        ReferencePlan::Kernel => {
            let (scalars, launches) = (&plan.scalars, &plan.reference_launches);
            let (wide, literals) = (check.reference_f64, &plan.literals);
            text.push_str(&format!(
                "kernel {reference_hash:?} {wide} {scalars:?} {launches:?} {literals:?}\n"
            ));
        }
        ReferencePlan::Command(own) => {
            let CommandReference { command, folder, single, .. } = own;
            text.push_str(&format!("command {command:?} {folder:?} {single} {:?}\n", plan.scalars));
            for path in &own.files {
                text.push_str(&format!("{path:?} {}\n", file_hash(path)));
            }
        }
        ReferencePlan::Npy { outputs } => {
            for (name, path) in outputs {
                text.push_str(&format!("npy {name} {}\n", file_hash(path)));
            }
        }
    }
    // An answer that was not looked at is not found by those who look.
    for own in [GateCheck::UsableReference, GateCheck::MovedData, GateCheck::SinglePrecision] {
        if !check.checks.include(own) {
            text.push_str(&format!("without {}\n", own.as_str()));
        }
    }
    if case.family == Family::Named {
        text.push_str(&format!("{:?}\n", plan.dictionary));
    }
    text.push_str(&format!("{} {} {}", check.seed, case.seed_index, case.family.as_str()));
    ContentHash::of(text.as_bytes())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileState {
    length: u64,
    changed: (i64, i64),
    modified: (i64, i64),
    place: (u64, u64),
}

/// Each case of each variant asks for it, so a file is read again only when it is no longer the same file.
fn file_hash(path: &Path) -> String {
    static KNOWN: Mutex<BTreeMap<PathBuf, (FileState, String)>> = Mutex::new(BTreeMap::new());
    let state = |meta: fs::Metadata| FileState {
        length: meta.len(),
        changed: (meta.ctime(), meta.ctime_nsec()),
        modified: (meta.mtime(), meta.mtime_nsec()),
        place: (meta.dev(), meta.ino()),
    };
    // Before it is read: what is written meanwhile makes another state.
    let Ok(state) = fs::metadata(path).map(state) else { return "missing".into() };
    // A poisoned lock stays usable: an entry is whole or absent.
    let known = || KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some((_, hash)) = known().get(path).filter(|(own, _)| *own == state) {
        return hash.clone();
    }
    let Ok(bytes) = fs::read(path) else { return "missing".into() };
    let hash = ContentHash::of(&bytes).to_string();
    known().insert(path.to_path_buf(), (state, hash.clone()));
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::reference::testing::{buffer, check_plan, kernel_plan, plan};

    fn gemm(dtype: DType, depth: u64) -> ProblemPlan {
        plan(
            "p",
            &[],
            vec![
                buffer("a", dtype, &[4, depth], Role::Input),
                buffer("b", dtype, &[depth, 4], Role::Input),
                buffer("c", dtype, &[4, 4], Role::Output),
            ],
        )
    }

    fn no_kernel(_: &[Vec<u8>]) -> Result<Vec<(usize, Vec<f64>)>, DeviceError> {
        Err(task_error("no naive kernel here"))
    }

    fn expect(check: &CheckPlan, case: &Case) -> Result<ExpectedSet, DeviceError> {
        compute(check, case, &mut no_kernel).map(|(set, _)| set)
    }

    #[test]
    fn the_name_covers_what_decides_the_answer_and_nothing_else() {
        let check = check_plan("gemm");
        let base = Case::first(&gemm(DType::F16, 8));
        let name = |check: &CheckPlan, case: &Case| key(check, case, None);
        let mut scratch = base.clone();
        scratch.plan.buffers.push(buffer("work", DType::F32, &[99], Role::Scratch));
        assert_eq!(name(&check, &base), name(&check, &scratch));
        let others = [
            Case { seed_index: 1, ..base.clone() },
            Case { family: Family::Large, ..base.clone() },
            Case::first(&gemm(DType::F32, 8)),
            Case::first(&gemm(DType::F16, 9)),
        ];
        for other in &others {
            assert_ne!(name(&check, &base), name(&check, other));
        }
        for other in [
            CheckPlan { seed: 2, ..check.clone() },
            CheckPlan { fast_math: true, ..check.clone() },
            CheckPlan { trusted_factor: 0.0, ..check.clone() },
            CheckPlan { rtol: Some(0.1), ..check.clone() },
        ] {
            assert_ne!(name(&check, &base), name(&other, &base));
        }
    }

    #[test]
    fn a_file_that_changes_has_another_hash() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        assert_eq!(file_hash(&path), "missing");
        fs::write(&path, b"one").unwrap();
        let one = file_hash(&path);
        assert_eq!(file_hash(&path), one);
        // As long as before, and a file of its own: the clock of the disk may not have moved on.
        fs::write(folder.path().join("y.npy"), b"two").unwrap();
        fs::rename(folder.path().join("y.npy"), &path).unwrap();
        assert_ne!(file_hash(&path), one);
    }

    #[test]
    fn inputs_shrink_until_the_answer_fits() {
        let check = check_plan("gemm");
        let large = |dtype| Case { family: Family::Large, ..Case::first(&gemm(dtype, 4096)) };
        assert!(expect(&check, &large(DType::F16)).unwrap().magnitude < 30.0);
        assert_eq!(expect(&check, &large(DType::F32)).unwrap().magnitude, 30.0);
    }

    #[test]
    fn a_reference_with_nan_invalidates_the_task() {
        let check = kernel_plan();
        let case = Case::first(&gemm(DType::F32, 4));
        let mut kernel = |_: &[Vec<u8>]| Ok(vec![(2, vec![f64::NAN; 16])]);
        let error = compute(&check, &case, &mut kernel).unwrap_err();
        assert_eq!(error.cause.as_deref(), Some("task"));
        assert!(error.message.contains("it gives `NaN` for `c`, element 0"), "{}", error.message);
    }

    #[test]
    fn files_of_answers_need_fixed_inputs() {
        let outputs = vec![("c".to_string(), PathBuf::from("c.npy"))];
        let check = CheckPlan { reference: ReferencePlan::Npy { outputs }, ..check_plan("") };
        let error = expect(&check, &Case::first(&gemm(DType::F32, 4))).unwrap_err();
        assert!(error.message.contains("needs fixed inputs, and `a` is drawn at random"));
    }
}
