//! One large answer of the device, computed again by the processor.
//!
//! Which case and which part of it (rows of a product, a head of attention) follows from the study's seed. Two
//! threads compute it in a second or two while the search goes on; a product of 4096³ as a whole took them half a
//! minute.

use std::ops::Range;
use std::thread::{Builder, JoinHandle};

use evo_device::device::{BufferId, Device};
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, ProblemPlan};
use evo_protocol::verdict::VerdictKind;
use evo_protocol::worker::{CheckPlan, ReferencePlan};

use super::case::Case;
use super::draw::Draw;
use super::element;
use super::expected;
use super::on_device::{AGREEMENT, AGREEMENT_NOISE, disagreement};
use super::reference::{AttentionWork, ReferenceWork, WorkKind};

/// One of the first so many cases is computed again, of fewer where the file asks for fewer seeds.
const AMONG: u64 = 4;
/// Threads that do it: the compilers and the judge need the others.
const THREADS: usize = 2;

/// Operations of a part: two threads take a second or two.
const OPERATIONS: u64 = 1 << 31;

/// A part of a problem that is a problem of its own, and where its buffers lie in those of the whole, in elements.
struct Part {
    plan: ProblemPlan,
    ranges: Vec<Range<usize>>,
}

impl Part {
    fn of(work: &ReferenceWork, plan: &ProblemPlan, seed: u64, operations: u64) -> Part {
        let whole = |buffer: &BufferPlan| 0..buffer.elements() as usize;
        let ranges = plan.buffers.iter().map(whole).collect();
        let mut part = Part { plan: plan.clone(), ranges };
        match work.kind {
            WorkKind::Gemm { m, k, n } => {
                let rows = (operations / (2 * k * n).max(1)).clamp(1, m);
                let first = seed % (m - rows + 1);
                part.keep(work.inputs[0], vec![rows, k], first * k);
                part.keep(work.output, vec![rows, n], first * n);
            }
            WorkKind::Attention(AttentionWork { batch, heads, heads_kv, queries, keys, depth, .. }) => {
                let rows = (operations / (4 * keys * depth).max(1)).clamp(1, queries);
                let head = seed % (batch * heads);
                let kv = head / heads * heads_kv + head % heads / (heads / heads_kv);
                // The last queries: the causal mask is aligned there.
                let first = (head * queries + queries - rows) * depth;
                for position in [work.inputs[0], work.output] {
                    part.keep(position, vec![1, 1, rows, depth], first);
                }
                for position in &work.inputs[1..] {
                    part.keep(*position, vec![1, 1, keys, depth], kv * keys * depth);
                }
            }
            WorkKind::Softmax { .. }
            | WorkKind::RmsNorm { .. }
            | WorkKind::Reduction { .. }
            | WorkKind::Transpose { .. } => {}
        }
        part
    }

    fn keep(&mut self, position: usize, shape: Vec<u64>, first: u64) {
        let elements: u64 = shape.iter().product();
        self.plan.buffers[position].shape = shape;
        self.ranges[position] = first as usize..(first + elements) as usize;
    }

    fn inputs(&self, bytes: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let cut = |((bytes, buffer), range): ((&Vec<u8>, &BufferPlan), &Range<usize>)| {
            let size = buffer.dtype.bytes() as usize;
            bytes.get(range.start * size..range.end * size).unwrap_or_default().to_vec()
        };
        bytes.iter().zip(&self.plan.buffers).zip(&self.ranges).map(cut).collect()
    }
}

#[derive(Debug, Default)]
pub struct Doublecheck {
    seen: u64,
    running: Option<JoinHandle<Result<(), DeviceError>>>,
    found: Option<DeviceError>,
}

impl Doublecheck {
    /// `draw` has the case's inputs, `answer` is what the device left.
    pub fn consider(
        &mut self,
        device: &mut dyn Device,
        check: &CheckPlan,
        case: &Case,
        work: &ReferenceWork,
        draw: Draw,
        answer: BufferId,
    ) -> Result<(), DeviceError> {
        self.seen += 1;
        // Every study has as many large cases as seeds, so one of them is always chosen.
        if self.seen != 1 + check.seed % u64::from(check.seeds).clamp(1, AMONG) {
            return Ok(());
        }
        let ReferencePlan::Builtin { name } = &check.reference else { return Ok(()) };
        let part = Part::of(work, &case.plan, check.seed / AMONG, OPERATIONS);
        let answer = element::widen(&device.read(answer)?, DType::F64);
        let answer = answer[part.ranges[work.output].clone()].to_vec();
        let (name, plan, label, output) = (name.clone(), case.plan.clone(), case.name(), work.output);
        let thread = Builder::new().name("doublecheck".into()).spawn(move || {
            let threads = rayon::ThreadPoolBuilder::new().num_threads(THREADS).build();
            let threads = threads.map_err(|error| not_checked(&error.to_string()))?;
            threads.install(|| {
                let bytes = part.inputs(&expected::input_bytes(&plan, draw)?);
                compare(&name, &part.plan, &label, &bytes, output, &answer)
            })
        });
        self.running = Some(thread.map_err(|error| not_checked(&error.to_string()))?);
        Ok(())
    }

    /// An error if both computations differ; `wait` for one that has not ended.
    pub fn result(&mut self, wait: bool) -> Result<(), DeviceError> {
        if let Some(thread) = self.running.take_if(|thread| wait || thread.is_finished()) {
            let done = thread.join().unwrap_or_else(|_| Err(not_checked("its thread panicked")));
            self.found = done.err();
        }
        // Not only once: what was judged before is as doubtful as what comes.
        self.found.clone().map_or(Ok(()), Err)
    }
}

fn not_checked(why: &str) -> DeviceError {
    let text = format!("a reference could not be computed a second time: {why}");
    DeviceError::plain(VerdictKind::HarnessError, text)
}

fn compare(
    name: &str,
    plan: &ProblemPlan,
    label: &str,
    bytes: &[Vec<u8>],
    output: usize,
    answer: &[f64],
) -> Result<(), DeviceError> {
    let answers = expected::builtin_answers(name, plan, bytes)?;
    let own = answers.iter().find(|own| own.buffer == output);
    let own = own.ok_or_else(|| disagreement(label, "the processor has no answer"))?;
    let largest = super::reference::max_abs(&own.expected);
    let most = AGREEMENT * largest + AGREEMENT_NOISE * own.noise.max;
    let differ = |(own, other): (&f64, &f64)| {
        let same = own == other || (own.is_nan() && other.is_nan());
        let near = (own - other).abs() <= most;
        // A NaN on one side only is near nothing, so it counts as a difference.
        !same && !near
    };
    if own.expected.len() != answer.len() {
        return Err(disagreement(label, "they have not as many elements"));
    }
    match own.expected.iter().zip(answer).position(differ) {
        None => Ok(()),
        Some(index) => {
            let what = format!("element {index} is `{:e}` and `{:e}`", answer[index], own.expected[index]);
            Err(disagreement(label, &what))
        }
    }
}

#[cfg(test)]
mod tests {
    use evo_protocol::plan::Role;

    use super::*;
    use crate::judge::fake::{FakeDevice, info};
    use crate::judge::inputs::Family;
    use crate::judge::reference::testing::{buffer, check_plan, plan};

    fn check(change: f64) -> Result<(), DeviceError> {
        let shape = |rows: u64, columns: u64| [rows, columns];
        let own = plan(
            "p",
            &[],
            vec![
                buffer("a", DType::F32, &shape(9, 33), Role::Input),
                buffer("b", DType::F32, &shape(33, 17), Role::Input),
                buffer("c", DType::F32, &shape(9, 17), Role::Output),
            ],
        );
        let check = check_plan("gemm");
        let draw = Draw { seed: 1, index: 0, family: Family::Normal, magnitude: 1.0 };
        let bytes = expected::input_bytes(&own, draw).unwrap();
        let mut answer = expected::builtin_answers("gemm", &own, &bytes).unwrap().remove(0).expected;
        answer[40] += change;
        let mut device = FakeDevice::new(Vec::new());
        let kept = device.allocate("answer", 8 * answer.len() as u64).unwrap();
        device.write(kept, &element::f64_bytes(&answer)).unwrap();
        let work = ReferenceWork::of("gemm", &own, &info().limits).unwrap();
        let case = Case::first(&own);
        let mut second = Doublecheck::default();
        // One of the first few is chosen, whatever the seed is.
        for _ in 0..AMONG {
            second.consider(&mut device, &check, &case, &work, draw, kept).unwrap();
        }
        assert!(second.running.is_some());
        let first = second.result(true);
        // It is not forgotten.
        assert_eq!(second.result(false).is_err(), first.is_err());
        first
    }

    #[test]
    fn a_part_has_the_answers_of_the_whole() {
        let of = |name, shape: &[u64], role| buffer(name, DType::F32, shape, role);
        let gemm = vec![
            of("a", &[9, 33], Role::Input),
            of("b", &[33, 17], Role::Input),
            of("c", &[9, 17], Role::Output),
        ];
        let attention = vec![
            of("q", &[2, 4, 12, 8], Role::Input),
            of("k", &[2, 2, 20, 8], Role::Input),
            of("v", &[2, 2, 20, 8], Role::Input),
            of("o", &[2, 4, 12, 8], Role::Output),
        ];
        for (name, buffers, least) in [("gemm", gemm, 17), ("attention", attention, 8)] {
            for causal in [0, 1] {
                let whole = plan("p", &[("CAUSAL", causal)], buffers.clone());
                let draw = Draw { seed: 1, index: 0, family: Family::Normal, magnitude: 1.0 };
                let bytes = expected::input_bytes(&whole, draw).unwrap();
                let work = ReferenceWork::of(name, &whole, &info().limits).unwrap();
                let answer = |plan: &ProblemPlan, bytes: &[Vec<u8>]| {
                    expected::builtin_answers(name, plan, bytes).unwrap().remove(0).expected
                };
                let right = answer(&whole, &bytes);
                for seed in 0..9 {
                    for operations in [0, 3000, u64::MAX] {
                        let part = Part::of(&work, &whole, seed, operations);
                        let found = answer(&part.plan, &part.inputs(&bytes));
                        assert_eq!(
                            found,
                            right[part.ranges[work.output].clone()],
                            "{name} {seed} {operations}"
                        );
                        assert!(operations > 0 || found.len() == least);
                    }
                }
            }
        }
    }

    #[test]
    fn an_answer_that_differs_is_found_and_an_equal_one_is_not() {
        check(0.0).unwrap();
        check(1e-13).unwrap();
        let error = check(1e-3).unwrap_err();
        assert_eq!(error.kind, VerdictKind::HarnessError);
        assert!(error.message.contains("do not agree") && error.message.contains("element 40"), "{error}");
    }
}
