//! `out[1] = Σ x[N]`.

use evo_protocol::device::DeviceError;

use super::operands::{Noise, Operands, ReferenceAnswer, UNIT_F32, has_trusted, rms};
use crate::judge::element::round_f32;

pub fn compute(operands: &Operands<'_>) -> Result<Vec<ReferenceAnswer>, DeviceError> {
    let x = operands.input("reduction", "x", 1)?;
    let (buffer, dtype) = operands.output("reduction", "out", &[1])?;
    let count = x.values.len() as f64;
    let trusted = has_trusted(dtype).then(|| {
        // A single f32 chain over millions of elements is worse than any kernel: a thread's chain,
        // then a chain over threads, both about the square root of N long.
        let chain = (count.sqrt().ceil() as usize).max(1);
        let partial = |values: &[f64]| values.iter().fold(0.0f32, |sum, value| sum + *value as f32);
        let sum = x.values.chunks(chain).map(partial).fold(0.0f32, |sum, value| sum + value);
        vec![f64::from(round_f32(sum, dtype))]
    });
    // One number that may cancel: its own size says nothing about the sum's rounding.
    let natural = rms(x.values) * count.sqrt();
    let error = (32.0 + count.powf(0.25)) * UNIT_F32 * natural;
    let noise = Noise { max: 2.0 * error, rms: 2.0 * error };
    Ok(vec![ReferenceAnswer {
        buffer,
        expected: vec![sum(x.values)],
        trusted,
        exact: !dtype.is_float(),
        noise,
        ..ReferenceAnswer::default()
    }])
}

const TASK: usize = 1 << 16;

/// Pairwise, so that fp64 rounding stays out of sight for any N.
fn sum(values: &[f64]) -> f64 {
    if values.len() <= 256 {
        return values.iter().sum();
    }
    let (left, right) = values.split_at(values.len() / 2);
    // The same pairs either way, so that the sum does not depend on it.
    let (left, right) = match values.len() < TASK {
        true => (sum(left), sum(right)),
        false => rayon::join(|| sum(left), || sum(right)),
    };
    left + right
}

#[cfg(test)]
mod tests {
    use evo_protocol::dtype::DType;
    use evo_protocol::plan::Role;

    use super::*;
    use crate::judge::inputs::Family;
    use crate::judge::reference::testing::{assert_close, buffer, operands, plan};

    #[test]
    fn sums_floats_and_integers() {
        for dtype in [DType::F32, DType::I32] {
            let plan = plan(
                "p",
                &[],
                vec![buffer("x", dtype, &[10_001], Role::Input), buffer("out", dtype, &[1], Role::Output)],
            );
            let operands = operands(&plan, Family::Normal, 0);
            let answer = compute(&operands).unwrap().remove(0);
            assert_close(&answer.expected, &[operands.values[0].iter().sum()], 1e-12);
            assert_eq!(answer.exact, dtype == DType::I32);
        }
    }
}
