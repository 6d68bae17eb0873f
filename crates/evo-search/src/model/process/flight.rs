//! Points of a process that are being measured.
//!
//! They are the last rows of its factor. Their measurements are taken for the present expectations, which moves no mean
//! and narrows what is expected around them. When one of them is measured, it is exchanged with those before it until
//! it is the first of them, and becomes an observation: the factor of the same points in another order, which takes a
//! reflection of two columns for each exchange (`Cholesky::exchange`). Taking all of them back, learning one and taking
//! the others in anew gives the same to rounding, at `O(n²)` for each of them.

use super::GaussianProcess;
use crate::model::cholesky::Reflection;

impl GaussianProcess {
    /// Takes in a point that is being measured, after those that are in flight already. Its measurement is taken for
    /// the present expectation, so that no mean changes, and the variance falls around the point. In whitened form that
    /// is a `z` of 0. `land` takes all such points back.
    pub fn launch(&mut self, row: &[f64]) {
        if self.targets.is_empty() {
            return;
        }
        self.append_input(row);
        self.whitened.push(0.0);
        self.in_flight += 1;
    }

    /// Takes back all points in flight.
    pub fn land(&mut self) {
        let observations = self.observations();
        self.inputs.truncate(observations);
        self.factor.truncate(observations);
        self.whitened.truncate(observations);
        self.landings += u64::from(self.in_flight > 0);
        self.in_flight = 0;
    }

    /// Learns the target of the point in flight at `place`. Whatever else was whitened by the factor is to be
    /// reflected in turn, as the answer says.
    pub(crate) fn measure(&mut self, place: usize, y: f64) -> Vec<Reflection> {
        assert!(place < self.in_flight, "it is in flight");
        let first = self.observations();
        let reflections = (first..first + place).rev().map(|at| self.exchange(at)).collect();
        self.in_flight -= 1;
        self.take_target(y);
        reflections
    }

    /// Takes back the point in flight at `place` alone: it becomes the last one and is dropped. The answer is that
    /// of `measure`.
    pub(crate) fn abandon(&mut self, place: usize) -> Vec<Reflection> {
        assert!(place < self.in_flight, "it is in flight");
        let (first, last) = (self.observations() + place, self.factor.size() - 1);
        let reflections = (first..last).map(|at| self.exchange(at)).collect();
        self.inputs.truncate(last);
        self.factor.truncate(last);
        self.whitened.truncate(last);
        self.in_flight -= 1;
        reflections
    }

    /// Exchanges two neighbors in flight, whose whitened targets are 0 before and after.
    fn exchange(&mut self, at: usize) -> Reflection {
        self.inputs.exchange(at);
        self.factor.exchange(at)
    }
}

#[cfg(test)]
mod tests {
    //! Points in flight against points that were measured.

    use crate::model::process::GaussianProcess;
    use crate::model::process::tests::{grid, plain};

    #[test]
    fn points_in_flight_narrow_what_is_expected_and_move_nothing() {
        let (x, y) = grid(5);
        let mut process = plain(2);
        let (first, here, far) = ([0.31, 0.4], [0.33, 0.42], [0.9, 0.05]);
        process.launch(&first);
        assert_eq!(process.in_flight(), 0, "nothing is expected before the first observation");
        process.learn(&x, &y);
        let before = process.predict_row(&here);
        assert_eq!(process.predict_both(&here), (before, before));
        let expected = process.predict_row(&first).mean;
        process.launch(&first);
        let (now, then) = process.predict_both(&here);
        assert_eq!((process.in_flight(), process.observations(), now), (1, 25, before));
        assert!(then.mean == before.mean && then.spread < 0.7 * before.spread, "{then:?}");
        assert!(process.predict_both(&far).1.spread > 0.95 * process.predict_row(&far).spread);
        // The same as measuring what is expected, to rounding.
        let mut measured = plain(2);
        measured.learn(&x, &y);
        measured.append(&first, expected);
        let exact = measured.predict_row(&here);
        assert!((then.mean - exact.mean).abs() < 1e-9 && (then.spread - exact.spread).abs() < 1e-9);
        // Afterwards the process goes on as if nothing had been in flight.
        process.land();
        assert_eq!((process.in_flight(), process.predict_row(&here)), (0, before));
        process.append(&first, expected);
        assert_eq!(process.predict_row(&here), exact);
    }

    #[test]
    fn measuring_out_of_order_is_learning_in_that_order() {
        let (x, y) = grid(5);
        let flight = [[0.31, 0.4], [0.33, 0.42], [0.9, 0.05], [0.62, 0.61], [0.11, 0.95]];
        let mut process = plain(2);
        process.learn(&x, &y);
        flight.iter().for_each(|row| process.launch(row));
        let mut fresh = plain(2);
        fresh.learn(&x, &y);
        // The fourth is measured, then what was the second; the first is given up, and one more is launched.
        process.measure(3, 0.7);
        process.measure(1, -0.2);
        process.abandon(0);
        process.launch(&[0.5, 0.55]);
        [(3, 0.7), (1, -0.2)].into_iter().for_each(|(at, y)| fresh.append(&flight[at], y));
        [flight[2], flight[4], [0.5, 0.55]].iter().for_each(|row| fresh.launch(row));
        assert_eq!((process.observations(), process.in_flight()), (27, 3));
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        let same = |process: &GaussianProcess, fresh: &GaussianProcess| {
            for row in [[0.1, 0.1], [0.3, 0.41], [0.8, 0.3], [0.51, 0.56]] {
                let (own, other) = (process.predict_both(&row), fresh.predict_both(&row));
                assert!(
                    near(own.0.mean, other.0.mean) && near(own.0.spread, other.0.spread),
                    "{own:?} {other:?}"
                );
                assert!(
                    near(own.1.mean, other.1.mean) && near(own.1.spread, other.1.spread),
                    "{own:?} {other:?}"
                );
            }
        };
        same(&process, &fresh);
        // Targets may change meanwhile.
        let targets: Vec<f64> = y.iter().copied().chain([0.7, -0.2]).map(|y| (y + 2.0).ln()).collect();
        process.retarget(&targets);
        fresh.retarget(&targets);
        same(&process, &fresh);
        process.land();
        fresh.land();
        same(&process, &fresh);
    }
}
