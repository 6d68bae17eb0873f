//! What a built-in reference has to compute at one problem, as the device's own kernels take it.
//!
//! A problem that the kernels do not take is left to the plain functions, which compute it or say what is wrong with
//! it.

use evo_device::device::{BoundArgument, BoundLaunch, BufferId};
use evo_protocol::device::DeviceLimits;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, ProblemPlan, Role};

const BLOCK: u32 = 256;
const BLOCK_ATTENTION: u32 = 128;
const TILE: u64 = 64;
const QUERIES_MAX: u64 = 8;
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
    pub batch: u64,
    pub heads: u64,
    pub heads_kv: u64,
    pub queries: u64,
    pub keys: u64,
    pub depth: u64,
    pub causal: bool,
    /// Queries of a block: as many as its shared memory holds.
    pub group: u64,
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
    fn blocks(&self) -> u64 {
        self.queries.div_ceil(self.group)
    }

    fn shared_bytes(&self, group: u64) -> u64 {
        group * self.keys * 12 + group * self.depth * 4
    }
}

impl ReferenceWork {
    pub fn of(name: &str, plan: &ProblemPlan, limits: &DeviceLimits) -> Option<ReferenceWork> {
        let input = |name: &str, rank: usize| find(plan, name, rank, Role::is_read);
        let output = |name: &str, shape: &[u64]| {
            find(plan, name, shape.len(), Role::is_answer).filter(|at| plan.buffers[*at].shape == shape)
        };
        let shape = |at: usize| plan.buffers[at].shape.as_slice();
        let (kind, inputs, output) = match name {
            "gemm" => {
                let (a, b) = (input("a", 2)?, input("b", 2)?);
                let (m, k, n) = (shape(a)[0], shape(a)[1], shape(b)[1]);
                let fits = shape(b)[0] == k && [m, k, n].iter().all(|extent| *extent < 1 << 30);
                let kind = WorkKind::Gemm { m, k, n };
                (
                    Some(kind).filter(|_| fits && m.div_ceil(TILE) <= GRID_Y_MAX),
                    vec![a, b],
                    output("c", &[m, n])?,
                )
            }
            "softmax" => {
                let x = input("x", 2)?;
                let (rows, columns) = (shape(x)[0], shape(x)[1]);
                (Some(WorkKind::Softmax { rows, columns }), vec![x], output("y", &[rows, columns])?)
            }
            "rmsnorm" => {
                let (x, w) = (input("x", 2)?, input("w", 1)?);
                let (rows, columns) = (shape(x)[0], shape(x)[1]);
                let kind = Some(WorkKind::RmsNorm { rows, columns }).filter(|_| shape(w)[0] == columns);
                (kind, vec![x, w], output("y", &[rows, columns])?)
            }
            "reduction" => {
                let x = input("x", 1)?;
                (Some(WorkKind::Reduction { count: shape(x)[0] }), vec![x], output("out", &[1])?)
            }
            "transpose" => {
                let x = input("x", 2)?;
                let (rows, columns) = (shape(x)[0], shape(x)[1]);
                (Some(WorkKind::Transpose { rows, columns }), vec![x], output("y", &[columns, rows])?)
            }
            "attention" => {
                let inputs = vec![input("q", 4)?, input("k", 4)?, input("v", 4)?];
                let kind = attention(plan, &inputs, limits).map(WorkKind::Attention);
                let output = output("o", shape(inputs[0]))?;
                (kind, inputs, output)
            }
            _ => return None,
        };
        let (dtype, dtype_out) = (plan.buffers[inputs[0]].dtype, plan.buffers[output].dtype);
        let small = |dtype: DType| matches!(dtype, DType::F16 | DType::Bf16 | DType::F32);
        let alike = inputs.iter().all(|at| plan.buffers[*at].dtype == dtype);
        let full = inputs.iter().chain([&output]).all(|at| plan.buffers[*at].elements() > 0);
        (alike && full && small(dtype) && small(dtype_out)).then_some(ReferenceWork {
            kind: kind?,
            inputs,
            output,
            dtype,
            dtype_out,
        })
    }

    /// fp64 values that the computation needs beside its answer.
    pub fn scratch(&self) -> u64 {
        match self.kind {
            WorkKind::Reduction { count } => 2 * count.div_ceil(chain(count)),
            WorkKind::Attention(own) => own.blocks() * own.batch * own.heads,
            _ => 1,
        }
    }

    pub fn has_trusted(&self) -> bool {
        !self.is_exact()
    }

    pub fn is_exact(&self) -> bool {
        matches!(self.kind, WorkKind::Transpose { .. })
    }

    pub fn launches(&self, buffers: &WorkBuffers) -> Vec<BoundLaunch> {
        let entry = |name: &str| format!("evo_reference_{name}");
        let of = |buffer: BufferId| BoundArgument::Buffer(buffer);
        let mut given: Vec<BoundArgument> = buffers.inputs.iter().map(|own| of(*own)).collect();
        let answers = [of(buffers.expected), of(buffers.trusted)];
        let (type_in, rounding) = (int(type_number(self.dtype)), int(type_number(self.dtype_out)));
        match self.kind {
            WorkKind::Gemm { m, k, n } => {
                given.extend(answers);
                given.extend([int(m as i32), int(k as i32), int(n as i32), type_in, rounding]);
                let grid = [n.div_ceil(TILE) as u32, m.div_ceil(TILE) as u32, 1];
                vec![launch(entry("gemm"), grid, BLOCK, 0, given)]
            }
            WorkKind::Softmax { rows, columns } | WorkKind::RmsNorm { rows, columns } => {
                given.extend(answers);
                given.extend([long(columns), type_in, rounding]);
                let norm = matches!(self.kind, WorkKind::RmsNorm { .. });
                let name = entry(if norm { "rmsnorm" } else { "softmax" });
                vec![launch(name, [rows as u32, 1, 1], BLOCK, 0, given)]
            }
            WorkKind::Reduction { count } => {
                let (length, scratch) = (chain(count), of(buffers.scratch));
                let many = count.div_ceil(length);
                given.extend([scratch.clone(), long(count), long(length), type_in]);
                let grid = [many.div_ceil(u64::from(BLOCK)) as u32, 1, 1];
                let [expected, trusted] = answers;
                let all = vec![scratch, expected, trusted, long(many), rounding];
                vec![
                    launch(entry("chains"), grid, BLOCK, 0, given),
                    launch("evo_reference_reduce".into(), [1, 1, 1], BLOCK, 0, all),
                ]
            }
            WorkKind::Transpose { rows, columns } => {
                given.extend([of(buffers.expected), long(rows), long(columns), type_in]);
                vec![launch(entry("transpose"), [blocks(rows * columns), 1, 1], BLOCK, 0, given)]
            }
            WorkKind::Attention(own) => {
                given.extend(answers);
                given.push(of(buffers.scratch));
                let extents = [own.heads, own.heads_kv, own.queries, own.keys, own.depth];
                given.extend(extents.map(|extent| int(extent as i32)));
                given.extend([int(i32::from(own.causal)), int(own.group as i32)]);
                given.extend([type_in, rounding]);
                let grid = [own.blocks() as u32, (own.batch * own.heads) as u32, 1];
                let shared = own.shared_bytes(own.group) as u32;
                vec![launch(entry("attention"), grid, BLOCK_ATTENTION, shared, given)]
            }
        }
    }
}

pub fn blocks(elements: u64) -> u32 {
    elements.div_ceil(u64::from(BLOCK)).clamp(1, 264) as u32
}

pub fn launch(
    entry: String,
    grid: [u32; 3],
    threads: u32,
    shared_bytes: u32,
    arguments: Vec<BoundArgument>,
) -> BoundLaunch {
    let (cluster, cooperative, programmatic, l2_persist) = (None, false, false, None);
    let block = [threads, 1, 1];
    BoundLaunch {
        entry,
        grid,
        block,
        shared_bytes,
        cluster,
        cooperative,
        programmatic,
        l2_persist,
        arguments,
    }
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

/// Elements of one chain of a sum, about the root of all: the trusted sum is a chain over chains.
fn chain(count: u64) -> u64 {
    ((count as f64).sqrt().ceil() as u64).max(1)
}

fn find(plan: &ProblemPlan, name: &str, rank: usize, fits: impl Fn(Role) -> bool) -> Option<usize> {
    let wanted = |buffer: &BufferPlan| buffer.name == name && buffer.shape.len() == rank && fits(buffer.role);
    plan.buffers.iter().position(wanted)
}

fn attention(plan: &ProblemPlan, inputs: &[usize], limits: &DeviceLimits) -> Option<AttentionWork> {
    let shape = |at: usize| plan.buffers[inputs[at]].shape.as_slice();
    let (q, k, v) = (shape(0), shape(1), shape(2));
    let causal = *plan.sizes.get("CAUSAL")? != 0;
    let groups = k[1] > 0 && q[1].is_multiple_of(k[1]);
    if k != v || q[0] != k[0] || q[3] != k[3] || !groups || q[0] * q[1] > GRID_Y_MAX {
        return None;
    }
    let (batch, heads, queries, depth) = (q[0], q[1], q[2], q[3]);
    let own = AttentionWork { batch, heads, heads_kv: k[1], queries, keys: k[2], depth, causal, group: 1 };
    // Room for the kernel's own static shared memory.
    let room = limits.shared_optin_bytes.saturating_sub(4096);
    let group = (1..=QUERIES_MAX).rev().find(|group| own.shared_bytes(*group) <= room)?;
    Some(AttentionWork { group, ..own })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::fake::info;
    use crate::judge::reference::testing::{buffer, plan};

    #[test]
    fn what_the_kernels_do_not_take_is_left_to_the_plain_functions() {
        let gemm = |dtype, k, rows| {
            plan(
                "p",
                &[],
                vec![
                    buffer("a", dtype, &[4, k], Role::Input),
                    buffer("b", dtype, &[rows, 5], Role::Input),
                    buffer("c", DType::F32, &[4, 5], Role::Output),
                ],
            )
        };
        let of = |plan: &ProblemPlan| ReferenceWork::of("gemm", plan, &info().limits).map(|work| work.kind);
        assert_eq!(of(&gemm(DType::F16, 3, 3)), Some(WorkKind::Gemm { m: 4, k: 3, n: 5 }));
        assert_eq!(of(&gemm(DType::F64, 3, 3)), None);
        assert_eq!(of(&gemm(DType::I32, 3, 3)), None);
        assert_eq!(of(&gemm(DType::F32, 0, 0)), None);
        assert_eq!(of(&gemm(DType::F32, 3, 4)), None);
        assert!(ReferenceWork::of("softmax", &gemm(DType::F32, 3, 3), &info().limits).is_none());
    }

    #[test]
    fn attention_takes_as_many_queries_as_fit_shared_memory() {
        let at = |keys: u64| {
            let shape = |heads: u64, length: u64| [2, heads, length, 64];
            let own = plan(
                "p",
                &[("CAUSAL", 1)],
                vec![
                    buffer("q", DType::F16, &shape(8, 16), Role::Input),
                    buffer("k", DType::F16, &shape(2, keys), Role::Input),
                    buffer("v", DType::F16, &shape(2, keys), Role::Input),
                    buffer("o", DType::F16, &shape(8, 16), Role::Output),
                ],
            );
            ReferenceWork::of("attention", &own, &info().limits).map(|work| match work.kind {
                WorkKind::Attention(own) => own.group,
                _ => 0,
            })
        };
        assert_eq!(at(512), Some(8));
        assert!(at(8192).is_some_and(|group| group < 8 && group > 0));
        assert_eq!(at(1 << 20), None);
    }
}
