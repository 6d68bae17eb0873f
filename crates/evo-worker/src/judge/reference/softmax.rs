//! `y = softmax(x)` over the last axis of `x[ROWS,COLS]`.

use evo_protocol::device::DeviceError;
use rayon::prelude::*;

use super::operands::{Noise, Operands, ReferenceAnswer, UNIT_F32, has_trusted, max_abs, rms, rows_per_task};
use crate::judge::element::round_f32;

pub fn compute(operands: &Operands<'_>) -> Result<Vec<ReferenceAnswer>, DeviceError> {
    let x = operands.input("softmax", "x", 2)?;
    let (rows, columns) = (x.shape[0], x.shape[1]);
    let (buffer, dtype) = operands.output("softmax", "y", &[rows, columns])?;
    let mut expected = vec![0.0f64; rows * columns];
    let width = columns.max(1);
    // An exponential counts for eight.
    let least = rows_per_task(8 * width);
    expected.par_chunks_mut(width).with_min_len(least).zip(x.values.par_chunks(width)).for_each(
        |(out, row)| {
            // Subtracting the maximum keeps `exp` in range for the magnified input families.
            let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mut sum = 0.0;
            for (value, x) in out.iter_mut().zip(row) {
                *value = (x - max).exp();
                sum += *value;
            }
            out.iter_mut().for_each(|value| *value /= sum);
        },
    );
    let trusted = has_trusted(dtype).then(|| {
        let mut values = vec![0.0f64; rows * columns];
        values.par_chunks_mut(width).with_min_len(least).zip(x.values.par_chunks(width)).for_each(
            |(out, row)| {
                let max = row.iter().fold(f32::NEG_INFINITY, |max, x| max.max(*x as f32));
                let powers: Vec<f32> = row.iter().map(|x| (*x as f32 - max).exp()).collect();
                let sum: f32 = powers.iter().sum();
                for (value, power) in out.iter_mut().zip(&powers) {
                    *value = f64::from(round_f32(power / sum, dtype));
                }
            },
        );
        values
    });
    // exp2(x·log2 e − m·log2 e) rounds its argument to f32: that relative error is the power's.
    let argument = 4.0 * UNIT_F32 * max_abs(x.values);
    let noise = Noise { max: argument * max_abs(&expected), rms: argument * rms(&expected) };
    Ok(vec![ReferenceAnswer { buffer, expected, trusted, exact: false, noise, ..ReferenceAnswer::default() }])
}

#[cfg(test)]
mod tests {
    use evo_protocol::dtype::DType;
    use evo_protocol::plan::Role;

    use super::*;
    use crate::judge::inputs::Family;
    use crate::judge::reference::testing::{assert_close, buffer, operands, plan};

    #[test]
    fn rows_sum_to_one_in_every_family() {
        let plan = plan(
            "p",
            &[],
            vec![
                buffer("x", DType::F32, &[9, 33], Role::Input),
                buffer("y", DType::F32, &[9, 33], Role::Output),
            ],
        );
        for family in Family::ALL.iter().copied().filter(|family| *family != Family::Special) {
            let operands = operands(&plan, family, 0);
            let answer = compute(&operands).unwrap().remove(0);
            for row in answer.expected.chunks(33) {
                assert!((row.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            }
            let row: Vec<f64> = operands.values[0][..33].iter().map(|x| (x - 300.0).exp()).collect();
            if family == Family::Normal {
                let sum: f64 = row.iter().sum();
                let loops: Vec<f64> = row.iter().map(|value| value / sum).collect();
                assert_close(&answer.expected[..33], &loops, 1e-12);
            }
            assert_close(&answer.trusted.unwrap(), &answer.expected, 1e-5);
        }
    }
}
