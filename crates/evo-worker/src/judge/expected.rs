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
use evo_protocol::plan::{BufferPlan, ComparedForm, Fill, ProblemPlan, Role};
use evo_protocol::worker::{CheckPlan, CommandReference, ReferencePlan};
use evo_space::genome::ContentHash;
use serde::{Deserialize, Serialize};

use super::bounds::{AnswerScale, Oddities, OutputShape};
use super::case::Case;
use super::element::{self, compared_as};
use super::inputs::{self, Draw, Family};
use super::naive::{AskedCase, NaiveModules, NaiveReference};
use super::npy::{self, task_error};
use super::reference::{self, Noise, ReferenceAnswer, ReferenceWork};
use super::{certainty, infinities, moves};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpectedSet {
    /// How far the family's inputs are magnified (`Family::magnitudes`).
    pub magnitude: f64,
    /// Of the inputs whose answers these are.
    pub inputs: ContentHash,
    pub outputs: Vec<ExpectedOutput>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExpectedOutput {
    /// Position in `ProblemPlan::buffers`.
    pub buffer: usize,
    /// In the type of [`compared_as`].
    #[serde(skip)]
    pub values: Vec<f64>,
    pub scale: AnswerScale,
    /// Elements far less certain than the others, and how far f32 may be off there (`certainty`).
    pub uncertain: Vec<(u64, f64)>,
}

/// Raised when values of built-in references change: answers of older ones must not be found under their names.
const BUILTIN_VERSION: u32 = 1;

/// A case's answers, and its inputs by buffer position.
pub type AnsweredCase = (ExpectedSet, Vec<Vec<u8>>);

/// What a reference is asked, and the name of the answer.
pub struct Question<'a> {
    pub key: ContentHash,
    pub check: &'a CheckPlan,
    pub case: &'a Case,
    pub modules: NaiveModules,
}

impl<'a> Question<'a> {
    /// Before any candidate is there, hence of no reference that is a kernel.
    pub fn ahead(check: &'a CheckPlan, case: &'a Case) -> Question<'a> {
        Question { key: key(check, case, None), check, case, modules: NaiveModules::default() }
    }
}

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

/// Computes a case's answers, with the largest magnitude whose answers fit their data type; with them the inputs, by
/// buffer position.
pub fn compute(
    check: &CheckPlan,
    case: &Case,
    naive: &mut dyn NaiveReference,
) -> Result<AnsweredCase, DeviceError> {
    let (plan, family) = (&case.plan, case.family);
    let mut why = String::new();
    for (number, magnitude) in magnitudes(check, case).iter().enumerate() {
        let bytes = input_bytes(plan, case.draw(check, *magnitude))?;
        let mut answers = answers(check, plan, &bytes, naive)?;
        let is_own = check.reference.is_own();
        let asked = &mut AskedCase { plan, family, bytes: &bytes, naive: &mut *naive };
        if is_own {
            certainty::measure(asked, &mut answers)?;
        }
        infinities::excuse(asked, &mut answers, is_own)?;
        // In double precision nothing overflows that would in the kernel's own.
        let unknown =
            |own: &ReferenceAnswer| own.single.is_none() && plan.buffers[own.buffer].dtype == DType::F32;
        let wide = check.reference_f64 && family == Family::Huge && number == 0;
        if wide && answers.iter().any(unknown) {
            continue;
        }
        for answer in answers.iter_mut().filter(|own| moves::is_asked(check, case, own.buffer)) {
            answer.exact |= moves::only_moves(plan, &bytes, answer);
        }
        let weigh = |own| Weighed::of(own, Oddities::of(own, family), reference::rms(&own.expected));
        let weighed: Vec<Weighed> = answers.iter().map(weigh).collect();
        if let Some(complaint) = complaint(check, case, &weighed) {
            why = complaint;
            continue;
        }
        let output = |answer: ReferenceAnswer| {
            let dtype = plan.buffers[answer.buffer].dtype;
            let scale = AnswerScale::of(&answer).rounded_to(dtype, &answer.expected);
            let ReferenceAnswer { buffer, expected: values, uncertain, .. } = answer;
            ExpectedOutput { buffer, scale, uncertain, values }
        };
        let outputs = answers.into_iter().map(output).collect();
        let set = ExpectedSet { magnitude: *magnitude, inputs: hash_inputs(&bytes), outputs };
        return Ok((set, bytes));
    }
    Err(no_answer(case, &why))
}

/// What decides whether an answer can be used.
#[derive(Clone, Debug, Default)]
pub struct Weighed {
    pub buffer: usize,
    pub odd: Oddities,
    pub rms: f64,
    pub noise: Noise,
    pub undecided: Option<String>,
    pub follows_bits: bool,
}

impl Weighed {
    pub fn of<L>(answer: &ReferenceAnswer<L>, odd: Oddities, rms: f64) -> Weighed {
        let ReferenceAnswer { buffer, noise, follows_bits, .. } = *answer;
        Weighed { buffer, odd, rms, noise, undecided: answer.undecided.clone(), follows_bits }
    }
}

/// Why answers cannot be used to judge a kernel, if so.
pub fn complaint(check: &CheckPlan, case: &Case, answers: &[Weighed]) -> Option<String> {
    let is_plain = case.family == Family::Normal;
    if is_plain && !check.checks.include(GateCheck::UsableReference) {
        return None;
    }
    let odd = answers.iter().find_map(|own| unusable(&case.plan, case.family, own.buffer, &own.odd));
    if is_plain || !check.reference.is_own() {
        return odd;
    }
    let buffer = |own: &Weighed| &case.plan.buffers[own.buffer];
    // A cancellation, or equal values whose differences are their rounding.
    let noise = answers.iter().find(|own| own.noise.is_most_of(own.rms, buffer(own).dtype));
    let noise = noise.map(|own| format!("`{}` is mostly the reference's own rounding", buffer(own).name));
    let faint = answers.iter().any(|own| is_faint(case.family, buffer(own).dtype, own.rms));
    let undecided = answers.iter().find_map(|own| own.undecided.clone());
    // Values that are nearly equal, and numbers at which a source decides, are meant for choices between them as they are, not
    // between what rounding makes of them.
    let is_near = case.family == Family::Constant && case.draw(check, 1.0).is_second();
    let follows = (is_near || case.family == Family::Named) && answers.iter().any(|own| own.follows_bits);
    odd.or(noise)
        .or_else(|| faint.then(|| "its answer is nearly subnormal".into()))
        .or(undecided)
        .or_else(|| follows.then(|| "rounding decides its integers".into()))
}

/// Answers of every magnitude are asked for, but not those so small that products on the way to them are subnormal: in
/// which order a kernel multiplies then decides what is left, and the subnormal family has questions of that kind.
fn is_faint(family: Family, dtype: DType, rms: f64) -> bool {
    // Half has no room for that.
    let least = element::precision(dtype).map(|own| own.smallest / (own.unit * own.unit));
    family == Family::Spread && least.is_some_and(|least| least < 1e-20 && rms < least)
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

/// What is compared of an answer; the error of a sum is at most that of all its terms together.
fn look_at(plan: &ProblemPlan, answer: &mut ReferenceAnswer) {
    let buffer = &plan.buffers[answer.buffer];
    let Some(view) = &buffer.view else { return };
    if view.form == ComparedForm::Sum {
        let terms = view.region.iter().map(|own| own.count).product::<u64>().max(1) as f64;
        answer.noise.max *= terms;
        answer.noise.rms *= terms.sqrt();
    }
    answer.expected = buffer.compared(std::mem::take(&mut answer.expected));
    answer.trusted = answer.trusted.take().map(|own| buffer.compared(own));
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
            look_at(plan, &mut answer);
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

/// Why an answer for a buffer cannot be used to judge a kernel, if so.
fn unusable(plan: &ProblemPlan, family: Family, position: usize, odd: &Oddities) -> Option<String> {
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
    let mut text = format!("evo expected 13\n{}\n{:?}\n", plan.name, plan.sizes);
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

/// Each case of each variant asks for it, so a file is read again only when it is no longer the same file.
fn file_hash(path: &Path) -> String {
    static KNOWN: Mutex<BTreeMap<PathBuf, ([u64; 7], String)>> = Mutex::new(BTreeMap::new());
    let state = |meta: fs::Metadata| {
        let times = [meta.ctime(), meta.ctime_nsec(), meta.mtime(), meta.mtime_nsec()];
        let [ctime, ctime_ns, mtime, mtime_ns] = times.map(i64::cast_unsigned);
        [meta.len(), ctime, ctime_ns, mtime, mtime_ns, meta.dev(), meta.ino()]
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
        let named = |integers: &[u64]| {
            let mut case = Case { family: Family::Named, ..base.clone() };
            case.plan.dictionary.integers = integers.to_vec();
            name(&check, &case)
        };
        assert_ne!(named(&[5]), named(&[7]));
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
