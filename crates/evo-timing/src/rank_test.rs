//! Mann-Whitney's test and Cliff's delta of two sets of samples. Both are informational: samples of one device correlate,
//! so that the test sees differences where there are none. Nothing is decided by them.

use super::stats::sorted;

/// The two-sided p-value of the Mann-Whitney U test by the normal approximation, with the corrections for ties and for
/// continuity (Mann and Whitney 1947; as `scipy.stats.mannwhitneyu(method="asymptotic")` computes it). `None` where a
/// side has no sample, and where all samples are equal.
pub fn mann_whitney_p(first: &[f64], second: &[f64]) -> Option<f64> {
    let (n1, n2) = (first.len() as f64, second.len() as f64);
    let n = n1 + n2;
    let u = u_statistic(first, second)?;
    let all = sorted(&[first, second].concat());
    let ties: f64 =
        all.chunk_by(|a, b| a == b).map(|group| group.len() as f64).map(|size| size.powi(3) - size).sum();
    let variance = n1 * n2 / 12.0 * ((n + 1.0) - ties / (n * (n - 1.0)));
    if variance <= 0.0 || !variance.is_finite() {
        return None;
    }
    let larger = u.max(n1 * n2 - u);
    let z = (larger - n1 * n2 / 2.0 - 0.5) / variance.sqrt();
    Some((2.0 * upper_tail(z)).clamp(0.0, 1.0))
}

/// Cliff 1993: how much more often a sample of the first set is larger than one of the second than it is smaller,
/// from -1 to 1. `None` where a side has no sample.
pub fn cliffs_delta(first: &[f64], second: &[f64]) -> Option<f64> {
    let u = u_statistic(first, second)?;
    Some(2.0 * u / (first.len() as f64 * second.len() as f64) - 1.0)
}

/// Pairs in which the first set's sample is larger; ties count half.
fn u_statistic(first: &[f64], second: &[f64]) -> Option<f64> {
    if first.is_empty() || second.is_empty() || first.iter().chain(second).any(|sample| !sample.is_finite()) {
        return None;
    }
    let others = sorted(second);
    let pairs = first.iter().map(|sample| {
        let below = others.partition_point(|other| other < sample) as f64;
        let not_above = others.partition_point(|other| other <= sample) as f64;
        below + (not_above - below) / 2.0
    });
    Some(pairs.sum())
}

/// P(Z > z) of the standard normal distribution: half of erfc(z / √2), which is the Chebyshev fit of Numerical Recipes
/// (third edition, 6.2.2 `erfccheb` in its short form); relative error below 1.2e-7.
fn upper_tail(z: f64) -> f64 {
    const FIT: [f64; 10] = [
        -1.265_512_23,
        1.000_023_68,
        0.374_091_96,
        0.096_784_18,
        -0.186_288_06,
        0.278_868_07,
        -1.135_203_98,
        1.488_515_87,
        -0.822_152_23,
        0.170_872_77,
    ];
    let x = z / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.5 * x.abs());
    let power = FIT.iter().rev().fold(0.0, |sum, factor| sum * t + factor);
    let erfc = t * (-x * x + power).exp();
    0.5 * if x >= 0.0 { erfc } else { 2.0 - erfc }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values() {
        // The example of scipy's page: U = 17, p = 0.11134688653314041 with method="asymptotic".
        let (males, females) = ([19.0, 22.0, 16.0, 29.0, 24.0], [20.0, 11.0, 17.0, 12.0]);
        assert_eq!(u_statistic(&males, &females), Some(17.0));
        let p = mann_whitney_p(&males, &females).unwrap();
        assert!((p - 0.111_346_886_533).abs() < 1e-7, "{p}");
        assert_eq!(mann_whitney_p(&females, &males), Some(p));
        assert_eq!(cliffs_delta(&males, &females), Some(0.7));
        assert_eq!(cliffs_delta(&females, &males), Some(-0.7));
    }

    #[test]
    fn tails_of_the_normal_distribution() {
        for (z, p) in [(0.0, 0.5), (1.0, 0.158_655_254), (1.959_963_985, 0.025), (4.0, 3.167_124e-5)] {
            assert!((upper_tail(z) / p - 1.0).abs() < 1e-6, "{z}");
            assert!((upper_tail(-z) - (1.0 - p)).abs() < 1e-6, "{z}");
        }
    }

    #[test]
    fn ties_and_nothing() {
        assert_eq!(mann_whitney_p(&[1.0; 5], &[1.0; 5]), None);
        assert_eq!(cliffs_delta(&[1.0; 5], &[1.0; 5]), Some(0.0));
        assert_eq!((mann_whitney_p(&[], &[1.0]), cliffs_delta(&[1.0], &[])), (None, None));
        assert_eq!(mann_whitney_p(&[f64::NAN], &[1.0]), None);
        // By hand: U = 2.5 + 2.5 + 3 = 8; ties of two and of three, so the variance is 9/12 × (7 − (6 + 24)/30) = 4.5.
        let p = mann_whitney_p(&[2.0, 2.0, 3.0], &[1.0, 1.0, 2.0]).unwrap();
        assert!((p - 2.0 * upper_tail((8.0 - 4.5 - 0.5) / 4.5f64.sqrt())).abs() < 1e-12, "{p}");
    }
}
