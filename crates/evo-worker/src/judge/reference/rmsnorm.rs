//! `y = x / sqrt(mean(x²) + 1e-6) · w` over the last axis of `x[ROWS,COLS]`, with `w[COLS]`.

use evo_protocol::device::DeviceError;
use rayon::prelude::*;

use super::operands::{Noise, Operands, ReferenceAnswer, has_trusted, require, rows_per_task};
use crate::judge::element::round_f32;

const EPSILON: f64 = 1e-6;

pub fn compute(operands: &Operands<'_>) -> Result<Vec<ReferenceAnswer>, DeviceError> {
    let x = operands.input("rmsnorm", "x", 2)?;
    let w = operands.input("rmsnorm", "w", 1)?;
    let (rows, columns) = (x.shape[0], x.shape[1]);
    require(w.shape[0] == columns, "rmsnorm", "`x[ROWS,COLS]` and `w[COLS]` with the same COLS")?;
    let (buffer, dtype) = operands.output("rmsnorm", "y", &[rows, columns])?;
    let width = columns.max(1);
    let mut expected = vec![0.0f64; rows * columns];
    let least = rows_per_task(width);
    expected.par_chunks_mut(width).with_min_len(least).zip(x.values.par_chunks(width)).for_each(
        |(out, row)| {
            let mean = row.iter().map(|x| x * x).sum::<f64>() / columns as f64;
            let factor = 1.0 / (mean + EPSILON).sqrt();
            for ((value, x), w) in out.iter_mut().zip(row).zip(w.values) {
                *value = x * factor * w;
            }
        },
    );
    let trusted = has_trusted(dtype).then(|| {
        let mut values = vec![0.0f64; rows * columns];
        values.par_chunks_mut(width).with_min_len(least).zip(x.values.par_chunks(width)).for_each(
            |(out, row)| {
                let square: f32 = row.iter().map(|x| *x as f32 * *x as f32).sum();
                let factor = 1.0 / (square / columns as f32 + EPSILON as f32).sqrt();
                for ((value, x), w) in out.iter_mut().zip(row).zip(w.values) {
                    *value = f64::from(round_f32(*x as f32 * factor * *w as f32, dtype));
                }
            },
        );
        values
    });
    Ok(vec![ReferenceAnswer {
        buffer,
        expected,
        trusted,
        exact: false,
        noise: Noise::default(),
        ..ReferenceAnswer::default()
    }])
}

#[cfg(test)]
mod tests {
    use evo_protocol::dtype::DType;
    use evo_protocol::plan::Role;

    use super::*;
    use crate::judge::inputs::Family;
    use crate::judge::reference::testing::{assert_close, buffer, operands, plan};

    #[test]
    fn rows_over_weights_have_mean_square_one() {
        let plan = plan(
            "p",
            &[],
            vec![
                buffer("x", DType::F32, &[5, 40], Role::Input),
                buffer("w", DType::F32, &[40], Role::Input),
                buffer("y", DType::F32, &[5, 40], Role::Output),
            ],
        );
        let operands = operands(&plan, Family::Normal, 0);
        let answer = compute(&operands).unwrap().remove(0);
        for (row, x) in answer.expected.chunks(40).zip(operands.values[0].chunks(40)) {
            let plain: Vec<f64> = row.iter().zip(&operands.values[1]).map(|(y, w)| y / w).collect();
            let mean = plain.iter().map(|v| v * v).sum::<f64>() / 40.0;
            assert!((mean - 1.0).abs() < 1e-5);
            assert!((plain[0] / x[0] - plain[1] / x[1]).abs() < 1e-9);
        }
        assert_close(&answer.trusted.unwrap(), &answer.expected, 1e-6);
    }
}
