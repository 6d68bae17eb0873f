//! `y[COLS,ROWS] = x[ROWS,COLS]ᵀ`, exact in every data type.

use evo_protocol::device::DeviceError;
use rayon::prelude::*;

use super::operands::{Noise, Operands, ReferenceAnswer, rows_per_task};

pub fn compute(operands: &Operands<'_>) -> Result<Vec<ReferenceAnswer>, DeviceError> {
    let x = operands.input("transpose", "x", 2)?;
    let (rows, columns) = (x.shape[0], x.shape[1]);
    let (buffer, _) = operands.output("transpose", "y", &[columns, rows])?;
    let mut expected = vec![0.0f64; rows * columns];
    let lines = expected.par_chunks_mut(rows.max(1)).with_min_len(rows_per_task(rows));
    lines.enumerate().for_each(|(column, out)| {
        for (row, value) in out.iter_mut().enumerate() {
            *value = x.values[row * columns + column];
        }
    });
    Ok(vec![ReferenceAnswer {
        buffer,
        expected,
        trusted: None,
        exact: true,
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
    use crate::judge::reference::testing::{buffer, operands, plan};

    #[test]
    fn rows_become_columns() {
        let plan = plan(
            "p",
            &[],
            vec![buffer("x", DType::U8, &[3, 5], Role::Input), buffer("y", DType::U8, &[5, 3], Role::Output)],
        );
        let operands = operands(&plan, Family::Normal, 0);
        let answer = compute(&operands).unwrap().remove(0);
        for row in 0..3 {
            for column in 0..5 {
                assert_eq!(answer.expected[column * 3 + row], operands.values[0][row * 5 + column]);
            }
        }
    }
}
