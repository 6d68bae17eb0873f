//! Whether a metric moved between two profiles of kernels that make the same launches.

use evo_protocol::invert::MetricDirection;

use super::collect::ProfiledLaunch;
use super::metrics::{MetricUnit, metric_of};

/// Percent are averages over time, which differ from run to run: fewer points than this are chance.
const POINTS: f64 = 1.0;
/// Counts are exact where a kernel's path does not depend on time; where it does they differ by less than this share.
const SHARE: f64 = 1e-5;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MetricMovement {
    pub before: f64,
    pub after: f64,
    pub has_moved: bool,
}

/// Counts are summed over the launches; of an average it is the launch that went furthest in the direction.
pub fn movement(
    field: &str,
    direction: MetricDirection,
    before: &[ProfiledLaunch],
    after: &[ProfiledLaunch],
) -> Result<MetricMovement, String> {
    let metric = metric_of(field).ok_or_else(|| format!("`{field}` is not a metric"))?;
    let values = |launches: &[ProfiledLaunch]| -> Result<Vec<f64>, String> {
        let value = |own: &ProfiledLaunch| own.metrics.get(field).copied().flatten();
        let all: Option<Vec<f64>> = launches.iter().map(value).collect();
        all.filter(|all| !all.is_empty()).ok_or_else(|| format!("`{field}` has no value"))
    };
    let (before, after) = (values(before)?, values(after)?);
    let sign = match direction {
        MetricDirection::Up => 1.0,
        MetricDirection::Down => -1.0,
    };
    // Counts for each instruction do not add up over launches.
    let is_sum =
        matches!(metric.unit, MetricUnit::Count | MetricUnit::Bytes) && !metric.counter.ends_with(".ratio");
    let (before, after) = match is_sum {
        true => (before.iter().sum(), after.iter().sum()),
        false if before.len() == after.len() => {
            let pairs = before.into_iter().zip(after);
            let furthest =
                pairs.max_by(|one, other| (sign * (one.1 - one.0)).total_cmp(&(sign * (other.1 - other.0))));
            furthest.unwrap_or_default()
        }
        false => return Err(format!("launches are {} and not {}", after.len(), before.len())),
    };
    let least = match metric.unit {
        MetricUnit::Percent => POINTS,
        _ => SHARE * f64::abs(before),
    };
    Ok(MetricMovement { before, after, has_moved: sign * (after - before) > least })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launches(field: &str, values: &[Option<f64>]) -> Vec<ProfiledLaunch> {
        let launch = |value: &Option<f64>| ProfiledLaunch {
            entry: "k".into(),
            grid: [1, 1, 1],
            block: [32, 1, 1],
            metrics: [(field.to_string(), *value)].into(),
        };
        values.iter().map(launch).collect()
    }

    #[test]
    fn counts_are_summed_and_averages_are_those_of_the_launch_that_moved_most() {
        use MetricDirection::{Down, Up};
        let some = |all: &[f64]| all.iter().copied().map(Some).collect::<Vec<_>>();
        for (field, direction, before, after, expected) in [
            ("instructions", Up, &[100.0, 50.0][..], &[100.0, 51.0][..], (150.0, 151.0, true)),
            ("instructions", Up, &[100.0, 50.0], &[90.0, 60.0], (150.0, 150.0, false)),
            ("instructions", Down, &[100.0], &[101.0], (100.0, 101.0, false)),
            ("local_load_sectors", Up, &[0.0], &[8.0], (0.0, 8.0, true)),
            ("local_load_sectors", Up, &[0.0], &[0.0], (0.0, 0.0, false)),
            ("occupancy_percent", Down, &[80.0, 40.0], &[79.9, 20.0], (40.0, 20.0, true)),
            ("occupancy_percent", Down, &[80.0], &[79.5], (80.0, 79.5, false)),
            ("threads_per_instruction", Down, &[32.0, 32.0], &[32.0, 24.0], (32.0, 24.0, true)),
            // A count that a waiting loop changes by a little is not one that was changed on purpose.
            ("instructions", Up, &[1e9], &[1e9 + 100.0], (1e9, 1e9 + 100.0, false)),
        ] {
            let (before, after) = (launches(field, &some(before)), launches(field, &some(after)));
            let found = movement(field, direction, &before, &after).unwrap();
            assert_eq!((found.before, found.after, found.has_moved), expected, "{field}");
        }
    }

    #[test]
    fn what_has_no_value_has_not_moved_and_not_stayed() {
        let (some, none) = (launches("instructions", &[Some(1.0)]), launches("instructions", &[None]));
        let up = MetricDirection::Up;
        assert_eq!(movement("instructions", up, &some, &none).unwrap_err(), "`instructions` has no value");
        assert!(movement("instructions", up, &some, &[]).is_err());
        assert_eq!(movement("speed", up, &some, &some).unwrap_err(), "`speed` is not a metric");
        let (one, two) =
            (launches("l2_hit_percent", &[Some(1.0)]), launches("l2_hit_percent", &[Some(1.0); 2]));
        assert!(movement("l2_hit_percent", up, &one, &two).unwrap_err().contains("launches"));
    }
}
