//! A running mean that forgets: what a task costs changes while a search moves to other variants.

/// The weight of the newest value, once there are enough. Small, because most variants leave the device at once and a
/// few stay long: the mean must not follow every burst.
const NEWEST: f64 = 0.06;

/// A value counts for at most this many times the mean: one hang says little about the next variant.
const MOST: f64 = 8.0;

/// An exponentially weighted mean of values that are not negative.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mean {
    value: f64,
    count: u32,
}

impl Mean {
    /// Takes a value in; what is not finite or is negative is left out.
    pub(super) fn add(&mut self, value: f64) {
        if !(value.is_finite() && value >= 0.0) {
            return;
        }
        let known = if self.value > 0.0 { value.min(MOST * self.value) } else { value };
        self.count = self.count.saturating_add(1);
        // The plain mean at first, so that the first value does not weigh more than the second.
        self.value += (known - self.value) * NEWEST.max(1.0 / f64::from(self.count));
    }

    /// The mean; `None` before the first value.
    pub(super) fn value(&self) -> Option<f64> {
        (self.count > 0).then_some(self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[f64]) -> Option<f64> {
        let mut mean = Mean::default();
        values.iter().for_each(|value| mean.add(*value));
        mean.value()
    }

    #[test]
    fn it_begins_as_the_plain_mean_and_follows_what_comes() {
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[2.0, 4.0]), Some(3.0));
        let followed = of(&[vec![1.0; 20], vec![5.0; 90]].concat()).unwrap();
        assert!((4.9..5.0).contains(&followed), "{followed}");
    }

    #[test]
    fn one_hang_moves_it_little_and_nonsense_not_at_all() {
        let usual = vec![0.2; 40];
        let after = of(&[usual.clone(), vec![10.0]].concat()).unwrap();
        assert!(after < 0.3, "{after}");
        assert_eq!(
            of(&[usual, vec![f64::NAN, f64::INFINITY, -1.0]].concat()).map(|one| (one * 1e9).round()),
            Some(2e8)
        );
    }
}
