//! Whether the numbers that a file declares fit a data type. One that does not would be clamped or wrapped when inputs
//! are written, and the kernel would see values that nobody declared.

use evo_protocol::dtype::DType;
use evo_protocol::plan::Fill;
use evo_space::value::Value;
use half::{bf16, f16};

/// What does not fit, worded to follow the name of what it is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Misfit {
    /// The end of a range that is to blame; none where both are.
    pub(super) end: Option<End>,
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Low,
    High,
}

/// The least and the greatest value of an integer type; `None` for floats.
pub(super) fn integers(dtype: DType) -> Option<(i128, i128)> {
    if dtype.is_float() {
        return None;
    }
    // 128 bits, because the range of `u64` does not fit in `i64`.
    let bits = 8 * dtype.bytes() as u32;
    Some(if dtype.as_str().starts_with('u') {
        (0, (1_i128 << bits) - 1)
    } else {
        (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
    })
}

pub(super) fn element(value: &Value, dtype: DType) -> Result<(), Misfit> {
    number(value, dtype, None).map(|_| ())
}

/// For integers the upper end is the first value that does not occur, unless it is `inclusive`.
pub(super) fn uniform(low: &Value, high: &Value, inclusive: bool, dtype: DType) -> Result<Fill, Misfit> {
    let low = number(low, dtype, Some(End::Low))?;
    let last = match integers(dtype) {
        // `[0, 256)` is all of u8: the end that is left out need not fit.
        Some((_, greatest)) if !inclusive && whole(high) == Some(greatest + 1) => Ok((greatest + 1) as f64),
        _ => number(high, dtype, Some(End::High)),
    };
    let high = last?;
    if low > high || (low == high && !inclusive) {
        let message = format!("is an empty range: {low} is not below {high}");
        let hint = (low == high).then(|| "`inclusive = true` makes the upper end part of it".to_string());
        return Err(Misfit { end: None, message, hint });
    }
    Ok(Fill::Uniform { low, high, inclusive })
}

fn number(value: &Value, dtype: DType, end: Option<End>) -> Result<f64, Misfit> {
    let misfit = |what: &str, hint: Option<String>| Misfit { end, message: what.to_string(), hint };
    let name = dtype.as_str();
    let Some(float) = value.as_float().filter(|float| float.is_finite()) else {
        return Err(misfit(&format!("is {value}, not a finite number"), None));
    };
    let Some((least, greatest)) = integers(dtype) else {
        let largest = largest(dtype);
        if float.abs() > largest {
            let hint = format!("`{name}` holds numbers up to {largest:?}");
            return Err(misfit(&format!("is {value}, which does not fit `{name}`"), Some(hint)));
        }
        return Ok(float);
    };
    let Some(whole) = whole(value) else {
        let hint = format!("elements of `{name}` are whole numbers");
        return Err(misfit(&format!("is {value}, not a whole number"), Some(hint)));
    };
    if !(least..=greatest).contains(&whole) {
        let hint = format!("`{name}` holds {least} to {greatest}");
        return Err(misfit(&format!("is {whole}, which does not fit `{name}`"), Some(hint)));
    }
    // A range travels as fp64.
    if float as i128 != whole {
        let hint = "beyond 2^53 only some whole numbers are exact; leave `fill` out for the whole type";
        return Err(misfit(&format!("is {whole}, which fp64 cannot hold exactly"), Some(hint.to_string())));
    }
    Ok(float)
}

fn whole(value: &Value) -> Option<i128> {
    match value {
        Value::Int(value) => Some(i128::from(*value)),
        Value::Bool(value) => Some(i128::from(*value)),
        // Larger floats are whole as well, and far outside every integer type.
        Value::Float(value) if value.fract() == 0.0 && value.abs() < 1e30 => Some(*value as i128),
        _ => None,
    }
}

fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => f16::MAX.to_f64(),
        DType::Bf16 => bf16::MAX.to_f64(),
        DType::F32 => f64::from(f32::MAX),
        _ => f64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_ranges() {
        let rows: [(Value, Value, bool, DType); 16] = [
            (0.into(), 256.into(), false, DType::U8),
            (0.into(), 255.into(), true, DType::U8),
            (0.into(), 256.into(), true, DType::U8),
            (0.into(), 257.into(), false, DType::U8),
            ((-1).into(), 10.into(), false, DType::U32),
            ((-128).into(), 128.into(), false, DType::I8),
            (Value::Float(0.5), 3.into(), false, DType::I32),
            (0.into(), i64::MAX.into(), true, DType::I64),
            (3.into(), 3.into(), false, DType::I32),
            (3.into(), 3.into(), true, DType::I32),
            (4.into(), 3.into(), true, DType::I32),
            ((-1).into(), 1.into(), false, DType::F16),
            (0.into(), 65_504.into(), false, DType::F16),
            (0.into(), 70_000.into(), false, DType::F16),
            (0.into(), 70_000.into(), false, DType::Bf16),
            (0.into(), Value::Float(f64::INFINITY), false, DType::F64),
        ];
        let shown = rows.map(|(low, high, inclusive, dtype)| {
            let found = uniform(&low, &high, inclusive, dtype);
            format!("{low} to {high}, inclusive {inclusive}, {}: {found:?}\n", dtype.as_str())
        });
        insta::assert_snapshot!(shown.concat());
    }
}
