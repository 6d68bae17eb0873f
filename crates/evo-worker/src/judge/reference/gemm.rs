//! `c[M,N] = a[M,K] · b[K,N]`, row-major.

use evo_protocol::device::DeviceError;
use rayon::prelude::*;

use super::operands::{
    Noise, Operands, ReferenceAnswer, UNIT_F32, has_trusted, require, rms, rows_per_task, to_f32,
};
use crate::judge::element::round_f32;

const ROWS: usize = 16;
const COLUMNS: usize = 256;
const STEPS: usize = 64;

pub fn compute(operands: &Operands<'_>) -> Result<Vec<ReferenceAnswer>, DeviceError> {
    let a = operands.input("gemm", "a", 2)?;
    let b = operands.input("gemm", "b", 2)?;
    let (m, k, n) = (a.shape[0], a.shape[1], b.shape[1]);
    require(b.shape[0] == k, "gemm", "`a[M,K]` and `b[K,N]` with the same K")?;
    let (buffer, dtype) = operands.output("gemm", "c", &[m, n])?;
    let expected = product(a.values, b.values, (m, k, n));
    let trusted = has_trusted(dtype).then(|| {
        let product = product(&to_f32(a.values), &to_f32(b.values), (m, k, n));
        product
            .into_par_iter()
            .with_min_len(rows_per_task(1))
            .map(|value| f64::from(round_f32(value, dtype)))
            .collect()
    });
    // A sum of K products of random sign, each rounded once, in any order.
    let natural = (k as f64).sqrt() * rms(a.values) * rms(b.values);
    let rms = (16.0 + (k as f64).sqrt() / 2.0) * UNIT_F32 * natural;
    let noise = Noise { max: 4.0 * rms, rms };
    Ok(vec![ReferenceAnswer {
        buffer,
        expected,
        trusted,
        exact: !dtype.is_float(),
        noise,
        ..ReferenceAnswer::default()
    }])
}

/// The loop over columns is the inner one, so that it vectorizes without reordering any sum.
fn product<T>(a: &[T], b: &[T], (m, k, n): (usize, usize, usize)) -> Vec<T>
where
    T: Copy + Default + Send + Sync + std::ops::Mul<Output = T> + std::ops::AddAssign,
{
    let mut c = vec![T::default(); m * n];
    if n == 0 {
        return c;
    }
    let tasks = c.par_chunks_mut(ROWS * n).with_min_len(rows_per_task(ROWS * n * k));
    tasks.enumerate().for_each(|(task, rows)| {
        for column in (0..n).step_by(COLUMNS) {
            let columns = column..(column + COLUMNS).min(n);
            for step in (0..k).step_by(STEPS) {
                let steps = step..(step + STEPS).min(k);
                for (quad, four) in rows.chunks_mut(4 * n).enumerate() {
                    let first = task * ROWS + quad * 4;
                    add_block(four, &a[first * k..], b, (k, n), columns.clone(), steps.clone());
                }
            }
        }
    });
    c
}

/// Four rows at once share each load of `b`.
fn add_block<T>(
    rows: &mut [T],
    a: &[T],
    b: &[T],
    (k, n): (usize, usize),
    columns: std::ops::Range<usize>,
    steps: std::ops::Range<usize>,
) where
    T: Copy + std::ops::Mul<Output = T> + std::ops::AddAssign,
{
    let mut strips: Vec<&mut [T]> = rows.chunks_mut(n).map(|row| &mut row[columns.clone()]).collect();
    for step in steps {
        let right = &b[step * n..][columns.clone()];
        if let [r0, r1, r2, r3] = strips.as_mut_slice() {
            let [f0, f1, f2, f3] = [0, 1, 2, 3].map(|row| a[row * k + step]);
            let sums = r0.iter_mut().zip(r1.iter_mut()).zip(r2.iter_mut().zip(r3.iter_mut()));
            for (((s0, s1), (s2, s3)), value) in sums.zip(right) {
                *s0 += f0 * *value;
                *s1 += f1 * *value;
                *s2 += f2 * *value;
                *s3 += f3 * *value;
            }
        } else {
            for (row, strip) in strips.iter_mut().enumerate() {
                let factor = a[row * k + step];
                strip.iter_mut().zip(right).for_each(|(sum, value)| *sum += factor * *value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use evo_protocol::dtype::DType;
    use evo_protocol::plan::Role;

    use super::*;
    use crate::judge::inputs::Family;
    use crate::judge::reference::testing::{assert_close, buffer, operands, plan};

    #[test]
    fn equals_three_loops() {
        let (m, k, n) = (13usize, 17usize, 600usize);
        let shape = |rows: usize, columns: usize| [rows as u64, columns as u64];
        let plan = plan(
            "p",
            &[],
            vec![
                buffer("a", DType::F16, &shape(m, k), Role::Input),
                buffer("b", DType::F16, &shape(k, n), Role::Input),
                buffer("c", DType::F16, &shape(m, n), Role::Output),
            ],
        );
        let operands = operands(&plan, Family::Normal, 0);
        let answer = compute(&operands).unwrap().remove(0);
        let (a, b) = (&operands.values[0], &operands.values[1]);
        let mut loops = vec![0.0; m * n];
        for i in 0..m {
            for j in 0..n {
                loops[i * n + j] = (0..k).map(|p| a[i * k + p] * b[p * n + j]).sum();
            }
        }
        assert_close(&answer.expected, &loops, 1e-14);
        assert_close(&answer.trusted.unwrap(), &loops, 1e-3);
        assert_eq!(answer.buffer, 2);
    }
}
