//! The launch plan: a kernel's arguments and launches resolved for one configuration and one
//! problem. It is data only; it travels to workers, which run no host code of the candidate's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use evo_space::value::Value;
use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::tensor_map::TensorMapPlan;
use crate::view::{OutputView, coordinates};

/// What the names of variables begin with that hold a size of the problem, as an `int`: `evo_size_N`.
pub const SIZE_VARIABLE: &str = "evo_size_";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProblemPlan {
    /// The problem's name; tiny shapes are named by what they change (`tiny:S=33,causal=1`).
    pub name: String,
    pub sizes: BTreeMap<String, i64>,
    pub weight: f64,
    pub buffers: Vec<BufferPlan>,
    pub scalars: Vec<ScalarPlan>,
    /// Tensor maps that launches receive, in argument order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tensor_maps: Vec<TensorMapPlan>,
    /// Launches, in order; at least one.
    pub launches: Vec<LaunchPlan>,
    /// Launches of the user's naive reference kernel, in the reference binary; empty otherwise.
    pub reference_launches: Vec<LaunchPlan>,
    /// Buffers that lie in variables of the reference binary's during its launches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference_variables: Vec<usize>,
    /// Sizes that lie in variables of the reference binary's during its launches ([`SIZE_VARIABLE`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference_sizes: Vec<String>,
    /// Parameters that decide what is right, with their values: a reference kernel reads them as it reads sizes, a
    /// reference by command is told them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub reference_parameters: BTreeMap<String, Value>,
    /// Numbers that single launches are given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub literals: Vec<ScalarPlan>,
    /// Launches of the task's own that derive inputs from inputs, in the binary that the task prepares with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepare_launches: Vec<LaunchPlan>,
    /// Values for inputs that are drawn from it. Where a case asks for them, the worker fills it in from the check's plan.
    #[serde(skip)]
    pub dictionary: Dictionary,
    pub flops: Option<f64>,
    /// Compulsory bytes of one call.
    pub bytes: Option<f64>,
}

/// Numbers on which the candidate or its reference may depend: those that their texts name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Dictionary {
    /// As the text has them, without a sign.
    pub integers: Vec<u64>,
    pub floats: Vec<f64>,
}

impl Dictionary {
    /// As words of memory: the low half of integers, floats in single precision.
    pub fn words(&self) -> Vec<u32> {
        let floats = self.floats.iter().map(|number| (*number as f32).to_bits());
        self.integers.iter().map(|number| *number as u32).chain(floats).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BufferPlan {
    pub name: String,
    pub dtype: DType,
    pub shape: Vec<u64>,
    pub role: Role,
    pub fill: Fill,
    /// The variable of the module that holds it during a call (`__constant__`, `__device__`); without one, entry points
    /// take it as a pointer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// What of an output is compared with its answer; without one, every element in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<OutputView>,
}

impl BufferPlan {
    pub fn elements(&self) -> u64 {
        self.shape.iter().product()
    }

    pub fn bytes(&self) -> u64 {
        self.elements() * self.dtype.bytes()
    }

    pub fn compared_shape(&self) -> Vec<u64> {
        self.view.as_ref().map_or_else(|| self.shape.clone(), OutputView::shape)
    }

    pub fn compared_elements(&self) -> u64 {
        self.compared_shape().iter().product()
    }

    /// What is compared of an output that holds these values. 64-bit integers may come as twice as many words.
    pub fn compared(&self, values: Vec<f64>) -> Vec<f64> {
        let Some(view) = &self.view else { return values };
        let long = matches!(self.dtype, DType::I64 | DType::U64) && values.len() as u64 > self.elements();
        view.of(&self.shape, &values, if long { 2 } else { 1 })
    }

    /// Flat places of the elements that an answer says something about; `None` where it is all of them.
    pub fn places_compared(&self) -> Option<Vec<u64>> {
        self.view.as_ref().map(|view| view.places(&self.shape))
    }

    pub fn compared_at(&self, index: u64) -> Vec<u64> {
        self.view.as_ref().map_or_else(|| coordinates(index, &self.shape), |view| view.at(index))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScalarPlan {
    pub name: String,
    pub dtype: DType,
    /// The value; `integer` is exact where the type is an integer.
    pub value: f64,
    pub integer: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LaunchPlan {
    pub entry: String,
    /// Blocks in x, y, z. Signed 64-bit so that a zero or an overflow is seen and refused.
    pub grid: [i64; 3],
    pub block: [i64; 3],
    pub shared_bytes: i64,
    /// Cluster extents in blocks, where the launch asks for clusters.
    pub cluster: Option<[i64; 3]>,
    pub cooperative: bool,
    /// Whether it may start before its predecessor ends (programmatic dependent launch).
    pub programmatic: bool,
    /// The buffer that the L2 cache is to keep during the launch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub l2_persist: Option<L2Persist>,
    pub arguments: Vec<ArgumentRef>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct L2Persist {
    pub buffer: usize,
    /// Share of the buffer's accesses that are kept, above 0 and at most 1.
    pub ratio: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentRef {
    /// Position in `ProblemPlan::buffers`.
    Buffer(usize),
    Scalar(usize),
    TensorMap(usize),
    Literal(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read only; hashed before and after.
    Input,
    /// Written in full; poisoned before each run.
    Output,
    /// Read and written; restored before each run.
    Inout,
    /// An input that a call may destroy: restored before each run, not checked afterwards.
    Restored,
    /// Workspace: contents undefined at the start (poisoned differently each run), not checked.
    Scratch,
}

impl Role {
    pub fn is_read(self) -> bool {
        matches!(self, Role::Input | Role::Inout | Role::Restored)
    }

    pub fn is_answer(self) -> bool {
        matches!(self, Role::Output | Role::Inout)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fill {
    /// What the file leaves open: standard normal for floats, whole numbers in `[0, 100)` for integers. Input
    /// families may go to every value of the data type.
    Unrestricted,
    /// Standard normal times `scale` for floats; the gates vary it by input family.
    Normal { scale: f64 },
    /// Uniform between two ends. The range is hard: no input family leaves it.
    Uniform {
        low: f64,
        high: f64,
        /// Whether the upper end itself may occur.
        inclusive: bool,
    },
    /// Every element the same; not varied by family. Also the way to ask for a zeroed scratch or
    /// output-accumulator buffer.
    Constant { value: f64 },
    /// Zeros until `ProblemPlan::prepare_launches` derive it from other inputs.
    Prepared,
    /// Read from a `.npy` file; not varied by family.
    Npy { path: PathBuf },
    /// Read from a file of nothing but the elements, little-endian, the last extent fastest; not varied by family.
    Raw { path: PathBuf },
}

impl Fill {
    pub fn file(&self) -> Option<&Path> {
        match self {
            Fill::Npy { path } | Fill::Raw { path } => Some(path),
            _ => None,
        }
    }
}
