//! The arguments of a T1 file.

use evo_protocol::dtype::DType;
use serde_json::Value;

use super::error::T1Error;
use super::read::{T1Node, spelled};
use super::values::T1Parameter;

/// An argument of the kernel.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct T1Argument {
    pub(super) name: String,
    pub(super) dtype: DType,
    pub(super) kind: T1Kind,
}

/// What an argument is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum T1Kind {
    /// A number.
    Scalar(Value),
    /// An array of so many elements.
    Vector {
        elements: String,
        role: &'static str,
        /// The value of `fill`, as TOML has it.
        fill: Option<String>,
        /// It is a variable of the module, and not passed.
        symbol: bool,
    },
}

/// Most arguments of a kernel.
const ARGUMENTS_MAX: usize = 256;

const TYPES: &[(&str, DType, u64)] = &[
    ("bool", DType::U8, 1),
    ("int8", DType::I8, 1),
    ("uint8", DType::U8, 1),
    ("int16", DType::I16, 1),
    ("uint16", DType::U16, 1),
    ("int32", DType::I32, 1),
    ("uint32", DType::U32, 1),
    ("int64", DType::I64, 1),
    ("uint64", DType::U64, 1),
    ("half", DType::F16, 1),
    ("half2", DType::F16, 2),
    ("half4", DType::F16, 4),
    ("float", DType::F32, 1),
    ("float2", DType::F32, 2),
    ("float4", DType::F32, 4),
    ("double", DType::F64, 1),
    ("double2", DType::F64, 2),
    ("double4", DType::F64, 4),
];

/// Reads `KernelSpecification.Arguments`.
pub(super) fn all(root: &T1Node<'_>, parameters: &[T1Parameter]) -> Result<Vec<T1Argument>, T1Error> {
    let kernel = root.need("KernelSpecification")?;
    let Some(list) = kernel.find("Arguments") else {
        return Err(
            kernel.unsupported("a kernel without `Arguments`", "state what the kernel takes, in order")
        );
    };
    let sizes = kernel.find("ProblemSize").map(|own| own.items()).transpose()?.unwrap_or_default();
    let items = list.items()?;
    if items.len() > ARGUMENTS_MAX {
        let count = items.len();
        return Err(list.wrong(&format!("it has {count} arguments, and at most {ARGUMENTS_MAX} are read")));
    }
    items.iter().enumerate().map(|(at, own)| argument(own, at, parameters, &sizes)).collect()
}

fn argument(
    own: &T1Node<'_>,
    at: usize,
    parameters: &[T1Parameter],
    sizes: &[T1Node<'_>],
) -> Result<T1Argument, T1Error> {
    let name =
        own.find("Name").map(|own| own.name()).transpose()?.map_or(format!("argument_{at}"), str::to_string);
    let type_node = own.need("Type")?;
    let word = type_node.text()?;
    let (_, dtype, lanes) = *TYPES.iter().find(|(known, ..)| *known == word).ok_or_else(|| {
        type_node
            .unsupported(&format!("the type `{word}`"), "pass a structure's fields as arguments of their own")
    })?;
    let memory = own.need("MemoryType")?;
    let kind = match memory.text()? {
        "Scalar" if lanes == 1 => T1Kind::Scalar(scalar(own, dtype)?),
        "Scalar" => {
            return Err(type_node.unsupported("a vector type by value", "pass its elements one by one"));
        }
        "Vector" | "Symbol" => vector(own, memory.text()? == "Symbol", (dtype, lanes), parameters, sizes)?,
        "Local" => {
            let hint = "state the bytes as `SharedMemory`; a kernel in CUDA takes no argument for them";
            return Err(memory.unsupported("`Local`", hint));
        }
        other => return Err(memory.wrong(&format!("`{other}` is none of Scalar, Vector, Local and Symbol"))),
    };
    Ok(T1Argument { name, dtype, kind })
}

fn scalar(own: &T1Node<'_>, dtype: DType) -> Result<Value, T1Error> {
    let value = own.need("FillValue")?;
    let whole = value.value.as_f64().filter(|own| own.fract() == 0.0 && own.abs() < 9e15);
    match (dtype.is_float(), value.value) {
        (true, Value::Number(number)) => Ok(number.as_f64().map_or(Value::Null, Value::from)),
        (false, Value::Number(_)) => whole
            .map(|own| Value::from(own as i64))
            .ok_or_else(|| value.wrong("it is not a whole number, and its type is")),
        (false, Value::Bool(own)) => Ok(u8::from(*own).into()),
        _ => Err(value.wrong("it is not a number")),
    }
}

fn vector(
    own: &T1Node<'_>,
    symbol: bool,
    (dtype, lanes): (DType, u64),
    parameters: &[T1Parameter],
    sizes: &[T1Node<'_>],
) -> Result<T1Kind, T1Error> {
    let elements = elements(&own.need("Size")?, parameters, sizes)?;
    let elements = if lanes > 1 { format!("{lanes} * ({elements})") } else { elements };
    let written = own.find("Output").is_some_and(|own| own.value.as_i64() == Some(1));
    let role = match own.find("AccessType").map(|own| own.text()).transpose()? {
        Some("ReadOnly") => "input",
        Some("WriteOnly") => "output",
        Some("ReadWrite") => "inout",
        None if written => "output",
        _ => {
            return Err(own.wrong("it has no `AccessType` of ReadOnly, WriteOnly and ReadWrite"));
        }
    };
    // Kernel Tuner's word for constant memory.
    let constant = own.find("MemType").map(|own| own.text()).transpose()? == Some("Constant");
    let fill = if role == "output" { None } else { fill(own, dtype)? };
    Ok(T1Kind::Vector { elements, role, fill, symbol: symbol || constant })
}

/// How an array is filled.
fn fill(own: &T1Node<'_>, dtype: DType) -> Result<Option<String>, T1Error> {
    let Some(how) = own.find("FillType") else { return Ok(None) };
    let number = || {
        let value = own.need("FillValue")?;
        let number = value.value.as_f64().ok_or_else(|| value.wrong("it is not a number"))?;
        Ok::<f64, T1Error>(number)
    };
    Ok(Some(match how.text()? {
        "Constant" => format!("{{ constant = {} }}", shown(number()?, dtype)),
        // From 0 up to the value, as both tools draw it.
        "Random" => match number()? {
            0.0 => "{ constant = 0 }".to_string(),
            end => {
                let (low, high) = if end > 0.0 { (0.0, end) } else { (end, 0.0) };
                format!("{{ uniform = [{}, {}] }}", shown(low, dtype), shown(high, dtype))
            }
        },
        "BinaryRaw" => format!("{{ raw = {} }}", Value::from(own.need("DataSource")?.text()?)),
        other => {
            let hint = "write the values to a file: `\"FillType\": \"BinaryRaw\"` with `DataSource`";
            return Err(how.unsupported(&format!("`{other}`"), hint));
        }
    }))
}

fn shown(value: f64, dtype: DType) -> String {
    if dtype.is_float() { format!("{value:?}") } else { format!("{}", value as i64) }
}

/// The count of elements, with the words of Kernel Tuner's dialect replaced: `ProblemSize[0] + max(filter_width) - 1`.
fn elements(size: &T1Node<'_>, parameters: &[T1Parameter], sizes: &[T1Node<'_>]) -> Result<String, T1Error> {
    let mut text = spelled(&size.expression()?);
    for (at, own) in sizes.iter().enumerate() {
        text = text.replace(&format!("ProblemSize[{at}]"), &own.expression()?);
    }
    for own in parameters {
        if let Some(largest) = own.largest() {
            text = text.replace(&format!("max({})", own.name), &largest.to_string());
        }
    }
    if text.contains('[') {
        return Err(
            size.unsupported(&format!("`{text}`"), "state a number, or an expression of `ProblemSize[0]`")
        );
    }
    Ok(text)
}
