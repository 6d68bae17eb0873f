//! Time against work along each axis of a grid: a point that costs far more than its neighbor predicts is flagged. A
//! kernel that works through the batch one item after another shows itself so.

/// How far above its neighbor's prediction a time may be.
const BAD: f64 = 3.0;

#[derive(Clone, Debug, PartialEq)]
pub struct ScalingPoint {
    /// Its position on each axis, as a value.
    pub axes: Vec<i64>,
    /// Operations, else bytes, else elements; above 0.
    pub work: f64,
    pub time_ns: f64,
    /// The share of the device that its blocks can occupy, up to 1; 1 where it is not known.
    pub fill: f64,
}

/// For each point, whether it scales badly; unknown where it has no smaller neighbor on any axis.
///
/// The neighbor of a point on an axis is the one with the next smaller value there and the same values elsewhere. It
/// predicts its own time, times the ratio of work as far as its own blocks filled the device: work that idle
/// multiprocessors can take costs nothing.
pub fn scales_badly(points: &[ScalingPoint]) -> Vec<Option<bool>> {
    let judged = |point: &ScalingPoint| {
        let axes = 0..point.axes.len();
        let neighbors: Vec<&ScalingPoint> = axes.filter_map(|axis| neighbor(points, point, axis)).collect();
        let is_bad = |own: &&ScalingPoint| point.time_ns > BAD * predicted(own, point.work);
        (!neighbors.is_empty()).then(|| neighbors.iter().any(is_bad))
    };
    points.iter().map(judged).collect()
}

fn neighbor<'p>(points: &'p [ScalingPoint], point: &ScalingPoint, axis: usize) -> Option<&'p ScalingPoint> {
    let is_on_line = |other: &&ScalingPoint| {
        other.axes.len() == point.axes.len()
            && (0..point.axes.len()).all(|at| match at == axis {
                true => other.axes[at] < point.axes[at],
                false => other.axes[at] == point.axes[at],
            })
    };
    points.iter().filter(is_on_line).max_by_key(|other| other.axes[axis])
}

fn predicted(neighbor: &ScalingPoint, work: f64) -> f64 {
    let ratio = work / neighbor.work * neighbor.fill.clamp(0.0, 1.0);
    // Less work than the neighbor's never predicts more than the ratio says: a mask that halves the work, for example.
    neighbor.time_ns * if work < neighbor.work { work / neighbor.work } else { ratio.max(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(axes: &[i64], work: f64, time_ns: f64, fill: f64) -> ScalingPoint {
        ScalingPoint { axes: axes.to_vec(), work, time_ns, fill }
    }

    #[test]
    fn time_in_proportion_to_work_is_fine_and_three_times_more_is_not() {
        let points = [
            point(&[1, 128], 1.0, 100.0, 1.0),
            point(&[8, 128], 8.0, 800.0, 1.0),
            point(&[1, 512], 16.0, 1600.0, 1.0),
            point(&[8, 512], 128.0, 40_000.0, 1.0),
        ];
        // The first has nobody to predict it.
        assert_eq!(scales_badly(&points), [None, Some(false), Some(false), Some(true)]);
        // The worst of several axes decides, and only the next smaller value counts.
        let row: Vec<ScalingPoint> =
            [(1, 100.0), (2, 700.0), (4, 1400.0)].map(|(b, time)| point(&[b], b as f64, time, 1.0)).into();
        assert_eq!(scales_badly(&row), [None, Some(true), Some(false)]);
    }

    #[test]
    fn a_kernel_that_serializes_the_batch_is_seen_on_a_device_that_it_leaves_idle() {
        // 16 blocks on 132 multiprocessors, whatever the batch is.
        let serial = |b: i64| point(&[b], b as f64, 100.0 * b as f64, 16.0 / 132.0);
        assert_eq!(scales_badly(&[serial(1), serial(8)]), [None, Some(true)]);
        // One that uses the idle ones takes no longer; on a full device the same times are in proportion.
        let parallel = |b: i64| point(&[b], b as f64, 100.0, (16.0 * b as f64 / 132.0).min(1.0));
        assert_eq!(scales_badly(&[parallel(1), parallel(8)]), [None, Some(false)]);
        let full = |b: i64| point(&[b], b as f64, 100.0 * b as f64, 1.0);
        assert_eq!(scales_badly(&[full(1), full(8)]), [None, Some(false)]);
    }

    #[test]
    fn less_work_on_a_larger_value_predicts_less_time() {
        let points = [point(&[0], 2.0, 200.0, 1.0), point(&[1], 1.0, 100.0, 1.0)];
        assert_eq!(scales_badly(&points), [None, Some(false)]);
        let points = [point(&[0], 8.0, 800.0, 0.1), point(&[1], 1.0, 400.0, 1.0)];
        assert_eq!(scales_badly(&points), [None, Some(true)]);
        assert_eq!(scales_badly(&[]), []);
    }
}
