//! The built-in references by name: which buffers of a problem they read, what they compute, and how it is launched.

use evo_device::device::{BoundArgument, BoundLaunch, BufferId};
use evo_protocol::device::{DeviceError, DeviceLimits};
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, ProblemPlan, Role};

use super::numbers::{Noise, UNIT_F32};
use crate::judge::npy::task_error;

/// In the order of their numbers in `references.cu`, which begin with 1.
pub const NAMES: [&str; 6] = ["gemm", "softmax", "rmsnorm", "reduction", "transpose", "attention"];

const BLOCK: u32 = 256;
const BLOCK_ATTENTION: u32 = 128;
const TILE: u64 = 64;
const QUERIES_MAX: usize = 8;
const GRID_Y_MAX: u64 = 65_535;

#[derive(Clone, Debug, PartialEq)]
pub struct ReferenceWork {
    pub kind: WorkKind,
    /// Inputs by position in the plan, in the order of the kernel's arguments.
    pub inputs: Vec<usize>,
    pub output: usize,
    pub dtype: DType,
    pub dtype_out: DType,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WorkKind {
    Gemm { m: u64, k: u64, n: u64 },
    Softmax { rows: u64, columns: u64 },
    RmsNorm { rows: u64, columns: u64 },
    Reduction { count: u64 },
    Transpose { rows: u64, columns: u64 },
    Attention(AttentionWork),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionWork {
    pub batch: usize,
    pub heads: usize,
    pub heads_kv: usize,
    pub queries: usize,
    pub keys: usize,
    pub depth: usize,
    pub causal: bool,
    /// Queries of a block: as many as its shared memory holds.
    pub group: usize,
}

/// What the noise of an answer follows from.
#[derive(Clone, Copy, Debug)]
pub enum Measured {
    /// By its place in [`ReferenceWork::inputs`].
    Input(usize),
    Answer,
    /// Those of attention that are not masked.
    Logits,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Size {
    pub rms: f64,
    pub largest: f64,
}

#[derive(Clone, Debug)]
pub struct WorkBuffers {
    /// In the order of [`ReferenceWork::inputs`].
    pub inputs: Vec<BufferId>,
    /// fp64.
    pub expected: BufferId,
    /// f32, as long as the answer.
    pub trusted: BufferId,
    /// fp64, [`ReferenceWork::scratch`] of them.
    pub scratch: BufferId,
}

impl AttentionWork {
    fn blocks(&self) -> usize {
        self.queries.div_ceil(self.group)
    }

    fn shared_bytes(&self, group: usize) -> usize {
        group * self.keys * 12 + group * self.depth * 4
    }

    /// How many keys a query sees: the mask is aligned bottom-right.
    pub fn visible(&self, row: usize) -> usize {
        if self.causal {
            (row + 1 + self.keys).saturating_sub(self.queries).min(self.keys)
        } else {
            self.keys
        }
    }

    /// Where the keys of a head lie.
    pub fn start_kv(&self, pair: usize) -> usize {
        let (batch, head) = (pair / self.heads, pair % self.heads);
        (batch * self.heads_kv + head / (self.heads / self.heads_kv)) * self.keys * self.depth
    }
}

impl ReferenceWork {
    /// What is missing is an error that names it.
    pub fn of(name: &str, plan: &ProblemPlan) -> Result<ReferenceWork, DeviceError> {
        let named = NamedBuffers { reference: name, plan };
        let (kind, inputs, output) = match name {
            "gemm" => {
                let ((a, [m, k]), (b, [rows, n])) = (named.input("a")?, named.input("b")?);
                named.require(rows == k, "`a[M,K]` and `b[K,N]` with the same K")?;
                (WorkKind::Gemm { m, k, n }, vec![a, b], named.output("c", &[m, n])?)
            }
            "softmax" => {
                let (x, [rows, columns]) = named.input("x")?;
                (WorkKind::Softmax { rows, columns }, vec![x], named.output("y", &[rows, columns])?)
            }
            "rmsnorm" => {
                let ((x, [rows, columns]), (w, [weights])) = (named.input("x")?, named.input("w")?);
                named.require(weights == columns, "`x[ROWS,COLS]` and `w[COLS]` with the same COLS")?;
                (WorkKind::RmsNorm { rows, columns }, vec![x, w], named.output("y", &[rows, columns])?)
            }
            "reduction" => {
                let (x, [count]) = named.input("x")?;
                (WorkKind::Reduction { count }, vec![x], named.output("out", &[1])?)
            }
            "transpose" => {
                let (x, [rows, columns]) = named.input("x")?;
                (WorkKind::Transpose { rows, columns }, vec![x], named.output("y", &[columns, rows])?)
            }
            "attention" => {
                let ((q, queries), (k, keys), (v, values)) =
                    (named.input("q")?, named.input("k")?, named.input("v")?);
                let work = named.attention(queries, keys, values)?;
                (WorkKind::Attention(work), vec![q, k, v], named.output("o", &queries)?)
            }
            _ => {
                let mut known = NAMES;
                known.sort_unstable();
                let known = known.join("`, `");
                return Err(task_error(format!("no built-in reference `{name}`\nhint: there are `{known}`")));
            }
        };
        let (dtype, dtype_out) = (plan.buffers[inputs[0]].dtype, plan.buffers[output].dtype);
        Ok(ReferenceWork { kind, inputs, output, dtype, dtype_out })
    }

    /// The work as the device's kernels take it; none is left to the plain functions.
    pub fn for_kernels(mut self, plan: &ProblemPlan, limits: &DeviceLimits) -> Option<ReferenceWork> {
        let small = |dtype: DType| matches!(dtype, DType::F16 | DType::Bf16 | DType::F32);
        let alike = self.inputs.iter().all(|at| plan.buffers[*at].dtype == self.dtype);
        let full = self.inputs.iter().chain([&self.output]).all(|at| plan.buffers[*at].elements() > 0);
        let fits = match &mut self.kind {
            WorkKind::Gemm { m, k, n } => {
                [*m, *k, *n].iter().all(|extent| *extent < 1 << 30) && m.div_ceil(TILE) <= GRID_Y_MAX
            }
            WorkKind::Attention(work) => {
                // Room for the kernel's own static shared memory.
                let room = limits.shared_optin_bytes.saturating_sub(4096);
                let group = (1..=QUERIES_MAX).rev().find(|group| work.shared_bytes(*group) as u64 <= room);
                work.group = group.unwrap_or_default();
                group.is_some() && (work.batch * work.heads) as u64 <= GRID_Y_MAX
            }
            _ => true,
        };
        (alike && full && fits && small(self.dtype) && small(self.dtype_out)).then_some(self)
    }

    /// Error that any f32 computation of this may have, by the sizes of what it reads and gives.
    pub fn noise<E>(&self, mut size: impl FnMut(Measured) -> Result<Size, E>) -> Result<Noise, E> {
        Ok(match self.kind {
            WorkKind::Gemm { k, .. } => {
                // A sum of K products of random sign, each rounded once, in any order.
                let root = (k as f64).sqrt();
                let natural = root * size(Measured::Input(0))?.rms * size(Measured::Input(1))?.rms;
                let rms = (16.0 + root / 2.0) * UNIT_F32 * natural;
                Noise { max: 4.0 * rms, rms }
            }
            WorkKind::Softmax { .. } => {
                // exp2(x·log2 e − m·log2 e) rounds its argument to f32: that relative error is the power's.
                let argument = 4.0 * UNIT_F32 * size(Measured::Input(0))?.largest;
                let answer = size(Measured::Answer)?;
                Noise { max: argument * answer.largest, rms: argument * answer.rms }
            }
            WorkKind::Reduction { count } => {
                // One number that may cancel: its own size says nothing about the sum's rounding.
                let count = count as f64;
                let natural = size(Measured::Input(0))?.rms * count.sqrt();
                let error = (32.0 + count.powf(0.25)) * UNIT_F32 * natural;
                Noise { max: 2.0 * error, rms: 2.0 * error }
            }
            WorkKind::Attention(_) => {
                // A logit of this size carries that much error in f32, and its power carries it on.
                let values = size(Measured::Input(2))?.rms;
                let logit_error = UNIT_F32 * size(Measured::Logits)?.largest * values;
                Noise { max: 8.0 * logit_error, rms: 2.0 * logit_error }
            }
            WorkKind::RmsNorm { .. } | WorkKind::Transpose { .. } => Noise::default(),
        })
    }

    /// fp64 values that the computation needs beside its answer.
    pub fn scratch(&self) -> u64 {
        match self.kind {
            WorkKind::Reduction { count } => 2 * count.div_ceil(chain(count)),
            WorkKind::Attention(own) => (own.blocks() * own.batch * own.heads) as u64,
            _ => 1,
        }
    }

    /// Whether a trusted f32 computation says anything about the answer: f64 is finer, integers are exact.
    pub fn has_trusted(&self) -> bool {
        let moves = matches!(self.kind, WorkKind::Transpose { .. });
        !moves && matches!(self.dtype_out, DType::F16 | DType::Bf16 | DType::F32)
    }

    /// Whether nothing may be rounded.
    pub fn is_exact(&self) -> bool {
        match self.kind {
            WorkKind::Transpose { .. } => true,
            WorkKind::Gemm { .. } | WorkKind::Reduction { .. } => !self.dtype_out.is_float(),
            WorkKind::Softmax { .. } | WorkKind::RmsNorm { .. } | WorkKind::Attention(_) => false,
        }
    }

    pub fn launches(&self, buffers: &WorkBuffers) -> Vec<BoundLaunch> {
        let of = |buffer: &BufferId| BoundArgument::Buffer(*buffer);
        let [expected, trusted, scratch] = [&buffers.expected, &buffers.trusted, &buffers.scratch].map(of);
        let (type_in, rounding) = (int(type_number(self.dtype)), int(type_number(self.dtype_out)));
        let kernel = |name: &str, grid: [u32; 3], arguments: Vec<BoundArgument>| {
            launch(&format!("evo_reference_{name}"), grid, BLOCK, 0, arguments)
        };
        let inputs = buffers.inputs.iter().map(of);
        let with_inputs =
            |arguments: Vec<BoundArgument>| inputs.clone().chain(arguments).collect::<Vec<BoundArgument>>();
        match self.kind {
            WorkKind::Gemm { m, k, n } => {
                let [rows, depth, columns] = [m, k, n].map(|extent| int(extent as i32));
                let arguments = vec![expected, trusted, rows, depth, columns, type_in, rounding];
                let grid = [n.div_ceil(TILE) as u32, m.div_ceil(TILE) as u32, 1];
                vec![kernel("gemm", grid, with_inputs(arguments))]
            }
            WorkKind::Softmax { rows, columns } | WorkKind::RmsNorm { rows, columns } => {
                let norm = matches!(self.kind, WorkKind::RmsNorm { .. });
                let arguments = vec![expected, trusted, long(columns), type_in, rounding];
                let name = if norm { "rmsnorm" } else { "softmax" };
                vec![kernel(name, [rows as u32, 1, 1], with_inputs(arguments))]
            }
            WorkKind::Reduction { count } => {
                let length = chain(count);
                let many = count.div_ceil(length);
                let grid = [many.div_ceil(u64::from(BLOCK)) as u32, 1, 1];
                let arguments = vec![scratch.clone(), long(count), long(length), type_in];
                let all = vec![scratch, expected, trusted, long(many), rounding];
                vec![kernel("chains", grid, with_inputs(arguments)), kernel("reduce", [1, 1, 1], all)]
            }
            WorkKind::Transpose { rows, columns } => {
                let arguments = vec![expected, long(rows), long(columns), type_in];
                vec![kernel("transpose", [blocks(rows * columns), 1, 1], with_inputs(arguments))]
            }
            WorkKind::Attention(work) => {
                let extents = [work.heads, work.heads_kv, work.queries, work.keys, work.depth];
                let mut arguments = vec![expected, trusted, scratch];
                arguments.extend(extents.map(|extent| int(extent as i32)));
                arguments.extend([int(i32::from(work.causal)), int(work.group as i32), type_in, rounding]);
                let grid = [work.blocks() as u32, (work.batch * work.heads) as u32, 1];
                let shared = work.shared_bytes(work.group) as u32;
                let name = "evo_reference_attention";
                vec![launch(name, grid, BLOCK_ATTENTION, shared, with_inputs(arguments))]
            }
        }
    }
}

pub fn blocks(elements: u64) -> u32 {
    elements.div_ceil(u64::from(BLOCK)).clamp(1, 264) as u32
}

pub fn launch(
    entry: &str,
    grid: [u32; 3],
    threads: u32,
    shared_bytes: u32,
    arguments: Vec<BoundArgument>,
) -> BoundLaunch {
    let entry = entry.to_string();
    BoundLaunch { entry, grid, block: [threads, 1, 1], shared_bytes, arguments, ..BoundLaunch::default() }
}

pub fn int(value: i32) -> BoundArgument {
    BoundArgument::Scalar(value.to_le_bytes().to_vec())
}

pub fn long(value: u64) -> BoundArgument {
    BoundArgument::Scalar(value.to_le_bytes().to_vec())
}

pub fn double(value: f64) -> BoundArgument {
    BoundArgument::Scalar(value.to_le_bytes().to_vec())
}

/// The number of a data type in `references.cu`.
pub fn type_number(dtype: DType) -> i32 {
    match dtype {
        DType::F16 => 1,
        DType::Bf16 => 2,
        _ => 0,
    }
}

/// Elements of one chain of a sum, about the root of all: the trusted sum is a chain over chains, because a single one
/// over millions of elements is worse than any kernel.
pub(super) fn chain(count: u64) -> u64 {
    ((count as f64).sqrt().ceil() as u64).max(1)
}

struct NamedBuffers<'a> {
    reference: &'a str,
    plan: &'a ProblemPlan,
}

impl NamedBuffers<'_> {
    fn input<const RANK: usize>(&self, name: &str) -> Result<(usize, [u64; RANK]), DeviceError> {
        let (position, buffer) = self.find(name, "input", Role::is_read)?;
        let extents = buffer.shape.as_slice().try_into().map_err(|_| {
            self.complaint(&format!("`{name}` with {RANK} extents, it has `{:?}`", buffer.shape))
        })?;
        Ok((position, extents))
    }

    fn output(&self, name: &str, shape: &[u64]) -> Result<usize, DeviceError> {
        let (position, buffer) = self.find(name, "output", Role::is_answer)?;
        let what = || format!("`{name}` to be `{shape:?}`, it is `{:?}`", buffer.shape);
        if buffer.shape == shape { Ok(position) } else { Err(self.complaint(&what())) }
    }

    fn find(
        &self,
        name: &str,
        role: &str,
        fits: impl Fn(Role) -> bool,
    ) -> Result<(usize, &BufferPlan), DeviceError> {
        let buffers = &self.plan.buffers;
        match buffers.iter().enumerate().find(|(_, buffer)| buffer.name == name) {
            Some((position, buffer)) if fits(buffer.role) => Ok((position, buffer)),
            Some(_) => Err(self.complaint(&format!("buffer `{name}` as an {role}"))),
            None => {
                let names: Vec<&str> = buffers.iter().map(|buffer| buffer.name.as_str()).collect();
                let names = names.join("`, `");
                Err(self.complaint(&format!("an {role} buffer `{name}`; the kernel has `{names}`")))
            }
        }
    }

    fn require(&self, holds: bool, what: &str) -> Result<(), DeviceError> {
        if holds { Ok(()) } else { Err(self.complaint(what)) }
    }

    fn complaint(&self, what: &str) -> DeviceError {
        task_error(format!("reference `{}` needs {what}", self.reference))
    }

    fn attention(&self, q: [u64; 4], k: [u64; 4], v: [u64; 4]) -> Result<AttentionWork, DeviceError> {
        let [[batch, heads, queries, depth], [batch_kv, heads_kv, keys, depth_kv]] =
            [q, k].map(|shape| shape.map(|extent| extent as usize));
        self.require(k == v, "`k` and `v` of the same shape")?;
        self.require(batch == batch_kv, "`q` and `k` with the same B")?;
        self.require(depth == depth_kv, "`q` and `k` with the same D")?;
        self.require(heads_kv > 0 && heads.is_multiple_of(heads_kv), "HQ to be a multiple of HKV")?;
        // Without queries there is nothing to compute; without keys there is no answer.
        self.require(q.contains(&0) || !k.contains(&0), "at least one key")?;
        let causal = self.plan.sizes.get("CAUSAL").copied();
        self.require(causal.is_some(), "a size `CAUSAL` (0 or 1) in the problem")?;
        let causal = causal != Some(0);
        Ok(AttentionWork { batch, heads, heads_kv, queries, keys, depth, causal, group: 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::fake::info;
    use crate::judge::reference::testing::{buffer, plan};

    #[test]
    fn what_is_missing_is_named() {
        let complaint = |reference: &str, buffers: Vec<BufferPlan>| {
            let error = ReferenceWork::of(reference, &plan("p", &[], buffers)).unwrap_err();
            assert_eq!(error.cause.as_deref(), Some("task"));
            error.message
        };
        let of = |name, shape: &[u64], role| buffer(name, DType::F32, shape, role);
        let (a, b) = (|| of("a", &[4, 3], Role::Input), |rows| of("b", &[rows, 5], Role::Input));
        let c = |shape: &[u64]| of("c", shape, Role::Output);
        assert_eq!(
            complaint("gemm", vec![a(), c(&[4, 5])]),
            "reference `gemm` needs an input buffer `b`; the kernel has `a`, `c`"
        );
        assert_eq!(
            complaint("gemm", vec![a(), b(2), c(&[4, 5])]),
            "reference `gemm` needs `a[M,K]` and `b[K,N]` with the same K"
        );
        assert_eq!(
            complaint("gemm", vec![a(), b(3), c(&[5, 4])]),
            "reference `gemm` needs `c` to be `[4, 5]`, it is `[5, 4]`"
        );
        assert_eq!(
            complaint("softmax", vec![of("x", &[4], Role::Input)]),
            "reference `softmax` needs `x` with 2 extents, it has `[4]`"
        );
        let of = |name| of(name, &[1, 1, 2, 2], Role::Input);
        assert_eq!(
            complaint("attention", vec![of("q"), of("k"), of("v")]),
            "reference `attention` needs a size `CAUSAL` (0 or 1) in the problem"
        );
        assert!(complaint("convolution", vec![]).contains("hint: there are `attention`, `gemm`"));
    }

    fn for_kernels(name: &str, plan: &ProblemPlan) -> Option<WorkKind> {
        let work = ReferenceWork::of(name, plan).ok()?;
        work.for_kernels(plan, &info().limits).map(|work| work.kind)
    }

    #[test]
    fn what_the_kernels_do_not_take_is_left_to_the_plain_functions() {
        let gemm = |dtype, k, rows| {
            let buffers = vec![
                buffer("a", dtype, &[4, k], Role::Input),
                buffer("b", dtype, &[rows, 5], Role::Input),
                buffer("c", DType::F32, &[4, 5], Role::Output),
            ];
            for_kernels("gemm", &plan("p", &[], buffers))
        };
        assert_eq!(gemm(DType::F16, 3, 3), Some(WorkKind::Gemm { m: 4, k: 3, n: 5 }));
        assert_eq!(gemm(DType::F64, 3, 3), None);
        assert_eq!(gemm(DType::I32, 3, 3), None);
        assert_eq!(gemm(DType::F32, 0, 0), None);
        assert_eq!(gemm(DType::F32, 3, 4), None);
    }

    #[test]
    fn attention_takes_as_many_queries_as_fit_shared_memory() {
        let at = |keys: u64| {
            let of =
                |name, heads: u64, length: u64, role| buffer(name, DType::F16, &[2, heads, length, 64], role);
            let buffers = vec![
                of("q", 8, 16, Role::Input),
                of("k", 2, keys, Role::Input),
                of("v", 2, keys, Role::Input),
                of("o", 8, 16, Role::Output),
            ];
            match for_kernels("attention", &plan("p", &[("CAUSAL", 1)], buffers)) {
                Some(WorkKind::Attention(work)) => Some(work.group),
                _ => None,
            }
        };
        assert_eq!(at(512), Some(8));
        assert!(at(8192).is_some_and(|group| group < 8 && group > 0));
        assert_eq!(at(1 << 20), None);
    }
}
