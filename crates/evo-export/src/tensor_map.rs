//! Tensor maps: the descriptors of a GPU's copy engine (TMA), which the driver encodes for the address that a buffer has
//! in a call.

use evo_kernel::spec::{SwizzleSpec, TensorMapSpec};
use evo_protocol::dtype::DType;
use evo_protocol::tensor_map::{OutsideFill, Swizzle};
use evo_space::expr::Expr;
use evo_space::value::Value;
use serde::Serialize;

use crate::error::ExportError;
use crate::formula::{ExportFormula, FormulaNames};
use crate::model::BufferArgument;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TensorMapArgument {
    pub name: String,
    pub ident: String,
    /// The same launch has received it before.
    pub is_again: bool,
    pub of: String,
    /// The driver's number of the element type (`CUtensorMapDataType`).
    pub data_type: u32,
    pub element_bytes: u64,
    /// Extents of the tensor in elements, innermost first.
    pub dims: Vec<ExportFormula>,
    /// Distances in elements, of each dimension but the first; dense where absent.
    pub strides: Option<Vec<ExportFormula>>,
    pub extents: Vec<ExportFormula>,
    /// The driver's number of the swizzle (`CUtensorMapSwizzle`).
    pub swizzle: u32,
    /// Most bytes of a box in the inner dimension; 0 for any number.
    pub span: i64,
    /// The driver's number of what is read outside (`CUtensorMapFloatOOBfill`).
    pub fill: u32,
}

impl TensorMapArgument {
    pub(crate) fn of(
        map: &TensorMapSpec,
        ident: String,
        buffer: &BufferArgument,
        names: &FormulaNames<'_>,
    ) -> Result<TensorMapArgument, ExportError> {
        let list = |key: &str, list: &[Expr]| {
            names.wholes(list, |axis| format!("{key}[{axis}] of argument `{}`", map.name))
        };
        let (number, swizzle) = swizzle(map, names)?;
        Ok(TensorMapArgument {
            name: map.name.clone(),
            ident,
            is_again: false,
            of: buffer.ident.clone(),
            data_type: data_type(buffer.dtype),
            element_bytes: buffer.element_bytes,
            dims: list("dims", &map.dims)?,
            strides: map.strides.as_ref().map(|strides| list("strides", strides)).transpose()?,
            extents: list("box", &map.extents)?,
            swizzle: number,
            span: swizzle.span(),
            fill: u32::from(map.fill == OutsideFill::Nan),
        })
    }
}

fn swizzle(map: &TensorMapSpec, names: &FormulaNames<'_>) -> Result<(u32, Swizzle), ExportError> {
    let own = match &map.swizzle {
        SwizzleSpec::Fixed(own) => Some(*own),
        SwizzleSpec::Chosen(expr) => {
            let known = names.known(expr, &format!("swizzle of argument `{}`", map.name))?;
            let is = |value: &Value, own: Swizzle| match value {
                Value::Text(text) => **text == *own.as_str(),
                other => other.as_int() == Some(own.span()),
            };
            known.and_then(|value| Swizzle::ALL.into_iter().find(|own| is(&value, *own)))
        }
    };
    let own = own.ok_or_else(|| {
        ExportError::not_exportable(format!(
            "the swizzle of the tensor map `{}` depends on sizes, and an export has one for all of them",
            map.name
        ))
    })?;
    let number = Swizzle::ALL.iter().position(|one| *one == own);
    Ok((number.unwrap_or_default() as u32, own))
}

/// `CUtensorMapDataType` (CUDA driver API). It has none for signed integers of 8 and 16 bits, whose bits a copy moves as
/// those of unsigned ones.
pub(crate) fn data_type(dtype: DType) -> u32 {
    match dtype {
        DType::U8 | DType::I8 => 0,
        DType::U16 | DType::I16 => 1,
        DType::U32 => 2,
        DType::I32 => 3,
        DType::U64 => 4,
        DType::I64 => 5,
        DType::F16 => 6,
        DType::F32 => 7,
        DType::F64 => 8,
        DType::Bf16 => 9,
    }
}
