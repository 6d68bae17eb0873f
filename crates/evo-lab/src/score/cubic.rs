//! The shape-preserving piecewise cubic that smooths the baseline (Fritsch and Butland 1984; "PCHIP").

/// The curve through `(xs, ys)`, read at ascending places `at`. `xs` ascend and are at least two. Between
/// falling points the curve falls: the slope at a point is the weighted harmonic mean of its sides'.
pub(super) fn through(xs: &[f64], ys: &[f64], at: &[f64]) -> Vec<f64> {
    let widths: Vec<f64> = xs.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let rises: Vec<f64> =
        ys.windows(2).zip(&widths).map(|(pair, width)| (pair[1] - pair[0]) / width).collect();
    // With two points there are no slopes to estimate.
    if rises.len() == 1 {
        return at.iter().map(|x| ys[0] + rises[0] * (x - xs[0])).collect();
    }
    let slopes = slopes(&widths, &rises);
    let mut piece = 0;
    let read = |x: &f64| {
        // Places ascend, so the piece only ever moves forward. Rounding may put the last place beyond the
        // end, which then belongs to the last piece.
        while piece < rises.len() - 1 && *x >= xs[piece + 1] {
            piece += 1;
        }
        let width = widths[piece];
        let s = (x - xs[piece]) / width;
        let (left, right) = ((1.0 - s).powi(2), s * s);
        ys[piece] * (1.0 + 2.0 * s) * left
            + slopes[piece] * width * s * left
            + ys[piece + 1] * right * (3.0 - 2.0 * s)
            + slopes[piece + 1] * width * right * (s - 1.0)
    };
    at.iter().map(read).collect()
}

fn slopes(widths: &[f64], rises: &[f64]) -> Vec<f64> {
    let last = rises.len() - 1;
    let mut slopes = vec![end_slope([widths[0], widths[1]], [rises[0], rises[1]])];
    for at in 1..=last {
        let (before, after) = (rises[at - 1], rises[at]);
        // A turning point, or a flat side: any other slope would overshoot it.
        if before * after <= 0.0 {
            slopes.push(0.0);
            continue;
        }
        let weight_before = 2.0 * widths[at] + widths[at - 1];
        let weight_after = widths[at] + 2.0 * widths[at - 1];
        slopes.push((weight_before + weight_after) / (weight_before / before + weight_after / after));
    }
    slopes.push(end_slope([widths[last], widths[last - 1]], [rises[last], rises[last - 1]]));
    slopes
}

/// The slope at an end by three points, limited so that the curve keeps its direction.
fn end_slope(widths: [f64; 2], rises: [f64; 2]) -> f64 {
    let [near, far] = widths;
    let slope = ((2.0 * near + far) * rises[0] - near * rises[1]) / (near + far);
    if slope * rises[0] <= 0.0 {
        0.0
    } else if rises[0] * rises[1] <= 0.0 && slope.abs() > 3.0 * rises[0].abs() {
        3.0 * rises[0]
    } else {
        slope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_points_as_worked_out_by_hand() {
        // Rises 1 and 7: slopes 0 (the one-sided -2 turns back), 6 / (3/1 + 3/7) = 1.75, and 10.
        let curve = through(&[0.0, 1.0, 2.0], &[0.0, 1.0, 8.0], &[0.0, 0.5, 1.0, 1.5, 2.0]);
        assert_eq!(curve, [0.0, 0.28125, 1.0, 3.46875, 8.0]);
    }

    #[test]
    fn straight_lines_stay_straight_and_turns_do_not_overshoot() {
        let at: Vec<f64> = (0..=40).map(|step| f64::from(step) / 10.0).collect();
        for (x, y) in at.iter().zip(through(&[0.0, 4.0], &[4.0, 2.0], &at)) {
            assert!((y - (4.0 - x / 2.0)).abs() < 1e-12);
        }
        for (x, y) in at.iter().zip(through(&[0.0, 1.0, 4.0], &[4.0, 3.0, 0.0], &at)) {
            assert!((y - (4.0 - x)).abs() < 1e-12);
        }
        let turning = through(&[0.0, 1.0, 2.0, 3.0, 4.0], &[9.0, 2.0, 2.0, 1.0, 1.5], &at);
        assert!(turning.iter().all(|y| (1.0..=9.0).contains(y)), "{turning:?}");
        assert!(turning[..=30].windows(2).all(|pair| pair[1] <= pair[0]), "{turning:?}");
    }
}
