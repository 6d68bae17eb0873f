//! Right answers: built-in fp64 functions, each with a trusted same-dtype computation beside it.
//!
//! A reference reads the inputs as they were rounded and computes in fp64. The trusted computation
//! does what a decent kernel does (f32 accumulation in plain order, output rounded); its error against
//! fp64 says how large an honest kernel's error may be on exactly these inputs.

pub mod attention;
pub mod gemm;
pub mod npy;
pub mod npy_header;
pub mod reduction;
pub mod rmsnorm;
pub mod softmax;
pub mod transpose;

use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, ProblemPlan, Role};
use npy::task_error;

/// Half the spacing of f32 at 1.
pub const UNIT_F32: f64 = 1.0 / 16_777_216.0;

/// A problem with its inputs in fp64.
pub struct Operands<'a> {
    /// Extents, names and roles.
    pub plan: &'a ProblemPlan,
    /// By position in `plan.buffers`; empty for outputs and scratch.
    pub values: Vec<Vec<f64>>,
}

/// The right answer for one output buffer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// Position in `ProblemPlan::buffers`.
    pub buffer: usize,
    /// Expected values, unrounded.
    pub expected: Vec<f64>,
    /// The trusted same-dtype computation, rounded to the output's type; absent where there is none.
    pub trusted: Option<Vec<f64>>,
    /// No error is allowed at all (data movement, integers).
    pub exact: bool,
    /// Error that any f32 computation of this may have on these inputs, beyond the trusted one's.
    pub noise: Noise,
}

/// Absolute error that f32 arithmetic explains. It matters where few outputs make the trusted error a
/// matter of luck, and where sums cancel.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Noise {
    /// Of a single element.
    pub max: f64,
    /// Root mean square over elements.
    pub rms: f64,
}

/// A built-in reference.
#[derive(Clone, Copy)]
pub struct Builtin {
    /// The name in space files.
    pub name: &'static str,
    /// Raised when its values change; part of the cache key.
    pub version: u32,
    /// Computes every output, or says what the space file lacks.
    pub compute: fn(&Operands<'_>) -> Result<Vec<Answer>, DeviceError>,
}

const BUILTINS: &[Builtin] = &[
    Builtin { name: "attention", version: 1, compute: attention::compute },
    Builtin { name: "gemm", version: 1, compute: gemm::compute },
    Builtin { name: "reduction", version: 1, compute: reduction::compute },
    Builtin { name: "rmsnorm", version: 1, compute: rmsnorm::compute },
    Builtin { name: "softmax", version: 1, compute: softmax::compute },
    Builtin { name: "transpose", version: 1, compute: transpose::compute },
];

/// Names of all built-in references.
pub fn names() -> Vec<&'static str> {
    BUILTINS.iter().map(|builtin| builtin.name).collect()
}

/// The built-in reference of that name.
pub fn find(name: &str) -> Result<Builtin, DeviceError> {
    BUILTINS.iter().find(|builtin| builtin.name == name).copied().ok_or_else(|| {
        task_error(format!("no built-in reference `{name}`\nhint: there are `{}`", names().join("`, `")))
    })
}

/// An input found by name.
pub struct Tensor<'a> {
    pub shape: Vec<usize>,
    pub dtype: DType,
    pub values: &'a [f64],
}

impl Operands<'_> {
    /// The input `name` with `rank` extents.
    pub fn input(&self, reference: &str, name: &str, rank: usize) -> Result<Tensor<'_>, DeviceError> {
        let (position, buffer) =
            self.find(reference, name, "input", |role| matches!(role, Role::Input | Role::Inout))?;
        let shape = extents(reference, buffer, rank)?;
        Ok(Tensor { shape, dtype: buffer.dtype, values: &self.values[position] })
    }

    /// Position and data type of the output `name`, which must have these extents.
    pub fn output(
        &self,
        reference: &str,
        name: &str,
        shape: &[usize],
    ) -> Result<(usize, DType), DeviceError> {
        let (position, buffer) =
            self.find(reference, name, "output", |role| matches!(role, Role::Output | Role::Inout))?;
        let own: Vec<usize> = buffer.shape.iter().map(|extent| *extent as usize).collect();
        if own != shape {
            return Err(task_error(format!(
                "reference `{reference}` needs `{name}` to be `{shape:?}`, it is `{own:?}`"
            )));
        }
        Ok((position, buffer.dtype))
    }

    /// An integer size of the problem, if it has it.
    pub fn size(&self, name: &str) -> Option<i64> {
        self.plan.sizes.get(name).copied()
    }

    fn find(
        &self,
        reference: &str,
        name: &str,
        role: &str,
        fits: impl Fn(Role) -> bool,
    ) -> Result<(usize, &BufferPlan), DeviceError> {
        let named = self.plan.buffers.iter().enumerate().find(|(_, buffer)| buffer.name == name);
        match named {
            Some((position, buffer)) if fits(buffer.role) => Ok((position, buffer)),
            Some(_) => Err(task_error(format!("reference `{reference}` needs buffer `{name}` as an {role}"))),
            None => {
                let own: Vec<&str> = self.plan.buffers.iter().map(|buffer| buffer.name.as_str()).collect();
                Err(task_error(format!(
                    "reference `{reference}` needs an {role} buffer `{name}`; the kernel has `{}`",
                    own.join("`, `")
                )))
            }
        }
    }
}

fn extents(reference: &str, buffer: &BufferPlan, rank: usize) -> Result<Vec<usize>, DeviceError> {
    if buffer.shape.len() != rank {
        return Err(task_error(format!(
            "reference `{reference}` needs `{}` with {rank} extents, it has `{:?}`",
            buffer.name, buffer.shape
        )));
    }
    Ok(buffer.shape.iter().map(|extent| *extent as usize).collect())
}

/// Requires that extents which must agree do.
pub fn require(holds: bool, reference: &str, what: &str) -> Result<(), DeviceError> {
    if holds { Ok(()) } else { Err(task_error(format!("reference `{reference}` needs {what}"))) }
}

/// Whether a trusted f32 computation says anything about this output: f64 is finer, integers are exact.
pub fn has_trusted(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::Bf16 | DType::F32)
}

/// Values as f32, as a kernel loads them.
pub fn to_f32(values: &[f64]) -> Vec<f32> {
    values.iter().map(|value| *value as f32).collect()
}

/// Root mean square; 0 for nothing.
pub fn rms(values: &[f64]) -> f64 {
    let square: f64 = values.iter().map(|value| value * value).sum();
    (square / values.len().max(1) as f64).sqrt()
}

/// Largest magnitude; 0 for nothing.
pub fn max_abs(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |max, value| max.max(value.abs()))
}

#[cfg(test)]
pub(crate) mod testing {
    //! Small problems for the tests of every reference.

    use evo_protocol::plan::Fill;
    use evo_protocol::worker::{CheckPlan, ReferencePlan};

    use super::*;
    use crate::gate::element;
    use crate::gate::inputs::{self, Draw, Family};

    /// A check plan with defaults.
    pub fn check_plan(reference: &str) -> CheckPlan {
        CheckPlan {
            reference: ReferencePlan::Builtin { name: reference.into() },
            atol: None,
            rtol: None,
            trusted_factor: 2.0,
            seed: 1,
            seeds: 2,
            families: vec![],
            deterministic: true,
            repeats: 4,
        }
    }

    /// A buffer with the default fill.
    pub fn buffer(name: &str, dtype: DType, shape: &[u64], role: Role) -> BufferPlan {
        let fill = if dtype.is_float() {
            Fill::Normal { scale: 1.0 }
        } else {
            Fill::Uniform { low: 0.0, high: 100.0 }
        };
        BufferPlan { name: name.into(), dtype, shape: shape.to_vec(), role, fill }
    }

    /// A plan without launches.
    pub fn plan(name: &str, sizes: &[(&str, i64)], buffers: Vec<BufferPlan>) -> ProblemPlan {
        ProblemPlan {
            name: name.into(),
            sizes: sizes.iter().map(|(name, value)| (name.to_string(), *value)).collect(),
            weight: 1.0,
            buffers,
            scalars: vec![],
            launches: vec![],
            reference_launches: vec![],
            flops: None,
            bytes: None,
        }
    }

    /// Random inputs for a plan.
    pub fn operands(plan: &ProblemPlan, family: Family, index: u32) -> Operands<'_> {
        let draw = Draw { seed: 11, index, family, magnitude: family.magnitudes()[0] };
        let fill = |buffer: &BufferPlan| match buffer.role {
            Role::Input | Role::Inout => {
                element::widen(&inputs::generate(plan, buffer, draw).unwrap(), buffer.dtype)
            }
            _ => Vec::new(),
        };
        Operands { plan, values: plan.buffers.iter().map(fill).collect() }
    }

    /// Asserts closeness in fp64.
    pub fn assert_close(actual: &[f64], expected: &[f64], relative: f64) {
        assert_eq!(actual.len(), expected.len());
        let scale = max_abs(expected).max(1e-300);
        for (index, (a, e)) in actual.iter().zip(expected).enumerate() {
            assert!((a - e).abs() <= relative * scale, "element {index}: {a} instead of {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{buffer, plan};
    use super::*;

    fn complaint(reference: &str, buffers: Vec<BufferPlan>) -> String {
        let plan = plan("p", &[], buffers);
        let values = plan.buffers.iter().map(|b| vec![0.0; b.elements() as usize]).collect();
        let error = (find(reference).unwrap().compute)(&Operands { plan: &plan, values }).unwrap_err();
        assert_eq!(error.cause.as_deref(), Some("task"));
        error.message
    }

    #[test]
    fn what_is_missing_is_named() {
        let a = || buffer("a", DType::F32, &[4, 3], Role::Input);
        let b = |rows| buffer("b", DType::F32, &[rows, 5], Role::Input);
        let c = |shape: &[u64]| buffer("c", DType::F32, shape, Role::Output);
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
            complaint("softmax", vec![buffer("x", DType::F32, &[4], Role::Input)]),
            "reference `softmax` needs `x` with 2 extents, it has `[4]`"
        );
        assert!(find("convolution").err().unwrap().message.contains("hint: there are `attention`"));
    }
}
