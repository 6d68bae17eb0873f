//! The launch plan: a kernel's arguments and launches resolved for one configuration and one
//! problem. It is data only; it travels to workers, which run no host code of the candidate's.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use evo_space::value::Value;
use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::tensor_map::TensorMapPlan;

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

/// The elements of an output that an answer says something about, and what is compared of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputView {
    /// One range for each extent, outermost first. Elements outside of any of them are not looked at.
    pub region: Vec<AxisRange>,
    pub form: ComparedForm,
    /// The axis along which they are sorted or added up; without one all of them are, together.
    pub axis: Option<usize>,
}

/// Positions along one axis: `first`, `first + step`, …, `count` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AxisRange {
    pub first: u64,
    pub count: u64,
    pub step: u64,
}

impl AxisRange {
    pub fn all(extent: u64) -> AxisRange {
        AxisRange { first: 0, count: extent, step: 1 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ComparedForm {
    Elements,
    /// Each element, in ascending order: which place holds which one is free.
    Sorted,
    Sum,
}

impl OutputView {
    pub fn shape(&self) -> Vec<u64> {
        let mut shape: Vec<u64> = self.region.iter().map(|range| range.count).collect();
        match (self.form, self.axis) {
            (ComparedForm::Elements, _) | (ComparedForm::Sorted, Some(_)) => {}
            (ComparedForm::Sorted, None) => shape = vec![shape.iter().product()],
            (ComparedForm::Sum, Some(axis)) => shape[axis] = shape[axis].min(1),
            (ComparedForm::Sum, None) => shape = vec![shape.iter().product::<u64>().min(1)],
        }
        shape
    }

    /// What is compared of an output of this shape that holds these values, so many words for each element.
    pub fn of(&self, shape: &[u64], values: &[f64], words: u64) -> Vec<f64> {
        let places = self.places(shape);
        let inside = places.iter().flat_map(|place| (0..words).map(move |word| place * words + word));
        let inside: Vec<f64> = inside.filter_map(|at| values.get(at as usize).copied()).collect();
        match self.form {
            ComparedForm::Elements => inside,
            ComparedForm::Sorted => self.along(inside, |lane| *lane = ascending(lane)),
            // In ascending order, so that the sum does not depend on which place holds which term.
            ComparedForm::Sum => self.along(inside, |lane| {
                let terms = ascending(lane);
                *lane = if terms.is_empty() { terms } else { vec![terms.iter().sum()] };
            }),
        }
    }

    /// Coordinates of one of the compared values: in the buffer where it is an element in its place, and else among
    /// what is compared.
    pub fn at(&self, index: u64) -> Vec<u64> {
        let place = coordinates(index, &self.shape());
        match self.form {
            ComparedForm::Elements => {
                place.iter().zip(&self.region).map(|(at, range)| range.first + at * range.step).collect()
            }
            ComparedForm::Sorted | ComparedForm::Sum => place,
        }
    }

    /// What of an output is compared, in words; what is left out is not checked.
    pub fn describe(&self, shape: &[u64]) -> String {
        let whole = self.region.iter().zip(shape).all(|(own, extent)| *own == AxisRange::all(*extent));
        let axis = self.axis.map_or(String::new(), |axis| format!(" along axis {axis}"));
        let form = match self.form {
            ComparedForm::Elements => String::new(),
            ComparedForm::Sorted => format!("in ascending order{axis}, so not the places of its elements"),
            ComparedForm::Sum => format!("by its sum{axis}, so not its elements"),
        };
        let (inside, all) =
            (self.region.iter().map(|own| own.count).product::<u64>(), shape.iter().product::<u64>());
        let part = format!("in {inside} of {all} elements");
        match (whole, form.is_empty()) {
            (true, true) => "in every element".to_string(),
            (true, false) => form,
            (false, true) => part,
            (false, false) => format!("{part}, {form}"),
        }
    }

    pub fn places(&self, shape: &[u64]) -> Vec<u64> {
        let mut places = vec![0];
        for (range, extent) in self.region.iter().zip(shape) {
            let along = |place: u64| {
                (0..range.count).map(move |number| place * extent + range.first + number * range.step)
            };
            places = places.into_iter().flat_map(along).collect();
        }
        places
    }

    /// Changes each line of values along the axis, or all values at once, and puts what became of them together.
    fn along(&self, values: Vec<f64>, change: impl Fn(&mut Vec<f64>)) -> Vec<f64> {
        let Some(axis) = self.axis else {
            let mut all = values;
            change(&mut all);
            return all;
        };
        let length = self.region[axis].count as usize;
        let inner = self.region[axis + 1..].iter().map(|own| own.count as usize).product::<usize>();
        let mut out = Vec::new();
        for plane in values.chunks((length * inner).max(1)) {
            let lanes: Vec<Vec<f64>> = (0..inner)
                .map(|lane| {
                    let mut own: Vec<f64> = plane.iter().skip(lane).step_by(inner).copied().collect();
                    change(&mut own);
                    own
                })
                .collect();
            let longest = lanes.iter().map(Vec::len).max().unwrap_or(0);
            out.extend(
                (0..longest).flat_map(|at| lanes.iter().filter_map(move |lane| lane.get(at).copied())),
            );
        }
        out
    }
}

/// The values in ascending order, NaN last: which NaN it is means nothing, and neither does the sign of a zero.
fn ascending(values: &[f64]) -> Vec<f64> {
    let plain = |value: &f64| if value.is_nan() { f64::NAN } else { *value + 0.0 };
    let mut sorted: Vec<f64> = values.iter().map(plain).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

pub fn coordinates(index: u64, shape: &[u64]) -> Vec<u64> {
    let mut rest = index;
    let mut out: Vec<u64> = shape
        .iter()
        .rev()
        .map(|extent| {
            let extent = (*extent).max(1);
            let own = rest % extent;
            rest /= extent;
            own
        })
        .collect();
    out.reverse();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_indices_become_coordinates() {
        assert_eq!(coordinates(0, &[2, 3, 4]), [0, 0, 0]);
        assert_eq!(coordinates(23, &[2, 3, 4]), [1, 2, 3]);
        assert_eq!(coordinates(5, &[2, 3, 4]), [0, 1, 1]);
    }

    fn view(region: &[(u64, u64, u64)], form: ComparedForm, axis: Option<usize>) -> OutputView {
        let region = region.iter();
        let region =
            region.map(|(first, count, step)| AxisRange { first: *first, count: *count, step: *step });
        OutputView { region: region.collect(), form, axis }
    }

    #[test]
    fn regions_sorted_lines_and_sums_are_compared() {
        use ComparedForm::{Elements, Sorted, Sum};
        // Rows of four: 3 2 1 0, 7 6 5 4, 11 10 9 8.
        let values = (0..3).flat_map(|row| (0..4).map(move |column| f64::from(4 * row + 3 - column)));
        let values: Vec<f64> = values.collect();
        let all = [(0, 3, 1), (0, 4, 1)];
        let told = [
            ([(1, 2, 1), (0, 2, 2)], Elements, None),
            ([(0, 3, 1), (2, 0, 1)], Elements, None),
            (all, Sorted, None),
            (all, Sorted, Some(1)),
            // Columns are ascending already.
            (all, Sorted, Some(0)),
            (all, Sum, None),
            (all, Sum, Some(1)),
            ([(0, 3, 1), (0, 2, 1)], Sum, Some(0)),
        ]
        .map(|(region, form, axis)| {
            let own = view(&region, form, axis);
            let (shape, compared) = (own.shape(), own.of(&[3, 4], &values, 1));
            assert_eq!(shape.iter().product::<u64>(), compared.len() as u64);
            format!("{region:?} {}\n  {shape:?} {compared:?}", own.describe(&[3, 4]))
        });
        insta::assert_snapshot!(told.join("\n"));
        assert_eq!(view(&[(1, 2, 1), (0, 2, 2)], Elements, None).at(3), [2, 2]);
        // Sums do not depend on the order of their terms.
        let own = view(&[(0, 3, 1)], Sum, None);
        let of = |values: [f64; 3]| own.of(&[3], &values, 1)[0].to_bits();
        assert_eq!(of([1e16, 1.0, -1e16]), of([1.0, -1e16, 1e16]));
        assert!(f64::from_bits(of([1.0, f64::NAN, 2.0])).is_nan());
    }

    #[test]
    fn words_of_long_integers_stay_together() {
        let own = view(&[(1, 2, 2)], ComparedForm::Elements, None);
        let words: Vec<f64> = (0..8).map(f64::from).collect();
        assert_eq!(own.of(&[4], &words, 2), [2.0, 3.0, 6.0, 7.0]);
    }
}
