//! The list of built-in references, by the name that space files use.

use evo_protocol::device::DeviceError;

use super::operands::{Operands, ReferenceAnswer};
use super::{attention, gemm, reduction, rmsnorm, softmax, transpose};
use crate::judge::npy::task_error;

#[derive(Clone, Copy)]
pub struct Builtin {
    pub name: &'static str,
    /// Raised when its values change; part of the cache key.
    pub version: u32,
    pub compute: fn(&Operands<'_>) -> Result<Vec<ReferenceAnswer>, DeviceError>,
}

const BUILTINS: &[Builtin] = &[
    Builtin { name: "attention", version: 1, compute: attention::compute },
    Builtin { name: "gemm", version: 1, compute: gemm::compute },
    Builtin { name: "reduction", version: 1, compute: reduction::compute },
    Builtin { name: "rmsnorm", version: 1, compute: rmsnorm::compute },
    Builtin { name: "softmax", version: 1, compute: softmax::compute },
    Builtin { name: "transpose", version: 1, compute: transpose::compute },
];

pub fn names() -> Vec<&'static str> {
    BUILTINS.iter().map(|builtin| builtin.name).collect()
}

pub fn find(name: &str) -> Result<Builtin, DeviceError> {
    BUILTINS.iter().find(|builtin| builtin.name == name).copied().ok_or_else(|| {
        task_error(format!("no built-in reference `{name}`\nhint: there are `{}`", names().join("`, `")))
    })
}

#[cfg(test)]
mod tests {
    use evo_protocol::dtype::DType;
    use evo_protocol::plan::{BufferPlan, Role};

    use super::*;
    use crate::judge::reference::testing::{buffer, plan};

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
