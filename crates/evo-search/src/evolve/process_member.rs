//! Which observations the Gaussian process of a search learns, when it is tuned, and which points of a pool it screens.
//!
//! With `n` observations, each new one takes `O(n²)` time for the process and `O(n)` for every screened
//! point. So the process learns the best observations and some of the others, and in a large pool it screens
//! only the points that look best to the trees.

use rand_chacha::ChaCha8Rng;

use crate::model::ModelPrediction;
use crate::model::matrix::Matrix;
use crate::model::process::{GaussianProcess, best_and_random};
use crate::model::process_screen::ProcessScreen;

/// Most observations right after tuning; up to `PAUSE_MAX` more are appended before the next. Set on
/// 2026-11-21: it bounds the time of a proposal (docs/SEARCH.md, Why it is cheap).
const CAPACITY: usize = 256;

const FEWEST: usize = 4;

/// Tuning takes 0.2 to 0.5 s with 1,000 observations known (docs/SEARCH.md), so it cannot follow each.
const PAUSE_MAX: usize = 64;

/// The whitened covariances of a point take `4 * (CAPACITY + PAUSE_MAX)` bytes, 4 MB in all.
const SCREENED_MAX: usize = 3072;

#[derive(Debug, Default)]
pub(crate) struct ProcessMember {
    process: GaussianProcess,
    rows: Matrix,
    known: Vec<usize>,
    next_tuning: usize,
    pool: Option<Matrix>,
    screen: Option<ProcessScreen>,
    screened: Vec<u32>,
    /// The features of the points in flight, in order, whether or not the process has taken them in.
    flight: Vec<Vec<f64>>,
    /// An observation that `learn` has not taken in yet, and its place in the flight of the process.
    arrived: Option<(usize, usize)>,
}

impl ProcessMember {
    pub(crate) fn new(columns: usize, pool: Option<Matrix>) -> ProcessMember {
        ProcessMember {
            process: GaussianProcess::new(columns),
            rows: Matrix::with_columns(columns),
            next_tuning: FEWEST,
            pool,
            ..ProcessMember::default()
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        !self.known.is_empty()
    }

    pub(crate) fn push(&mut self, row: &[f64], place: Option<usize>) {
        if let Some(place) = place {
            self.flight.remove(place);
            self.arrived = (self.in_flight() > 0).then_some((self.rows.rows(), place));
        }
        self.rows.push(row);
    }

    pub(crate) fn retarget(&mut self, targets: &[f64]) {
        if self.is_ready() {
            let known: Vec<f64> = self.known.iter().map(|at| targets[*at]).collect();
            self.process.retarget(&known);
        }
    }

    /// Learns the observations that were pushed. `promise` says how good the points of the pool look (lower
    /// is better); it is called only if the pool is too large to be screened whole.
    pub(crate) fn learn(
        &mut self,
        targets: &[f64],
        promise: impl FnOnce() -> Vec<f64>,
        rng: &mut ChaCha8Rng,
    ) {
        let all = self.rows.rows();
        if all >= self.next_tuning {
            // The total time of tuning stays proportional to the last one.
            self.next_tuning = all + (all / 4).clamp(2, PAUSE_MAX);
            // The best are near where the process is asked; the others tell it where not to look.
            self.known = best_and_random(targets, CAPACITY, CAPACITY * 2 / 3, rng);
            let x = self.rows.select(&self.known);
            let y: Vec<f64> = self.known.iter().map(|at| targets[*at]).collect();
            let flies = self.in_flight() > 0;
            self.process.tune(&x, &y, rng);
            self.process.learn(&x, &y);
            self.choose_screened(promise);
            if flies {
                self.flight.iter().for_each(|row| self.process.launch(row));
            }
        } else if self.is_ready() {
            let newest = self.known.last().map_or(0, |last| last + 1);
            for (at, target) in targets.iter().enumerate().take(all).skip(newest) {
                self.known.push(at);
                self.take(at, *target);
            }
        }
        self.arrived = None;
        self.follow();
    }

    fn take(&mut self, at: usize, target: f64) {
        if self.process.observations() == 0 {
            return self.process.append(self.rows.row(at), target);
        }
        let place = match self.arrived {
            Some((own, place)) if own == at => place,
            // It was not in flight: it takes off now, as the last one.
            _ => {
                self.process.launch(self.rows.row(at));
                self.follow();
                self.in_flight() - 1
            }
        };
        let reflections = self.process.measure(place, target);
        self.screen.iter_mut().for_each(|screen| screen.reflect(&reflections));
    }

    fn follow(&mut self) {
        if let Some(screen) = &mut self.screen {
            screen.update(&self.process);
        }
    }

    pub(crate) fn launch<'r>(&mut self, rows: impl Iterator<Item = &'r [f64]>) {
        for row in rows {
            self.process.launch(row);
            self.flight.push(row.to_vec());
        }
        self.follow();
    }

    /// The point in flight at `place` will not become an observation.
    pub(crate) fn abandon(&mut self, place: usize) {
        self.flight.remove(place);
        if self.in_flight() > 0 {
            let reflections = self.process.abandon(place);
            self.screen.iter_mut().for_each(|screen| screen.abandon(&reflections));
            self.follow();
        }
    }

    pub(crate) fn land(&mut self) {
        self.process.land();
        self.follow();
    }

    /// Takes in the points in flight, if the process has none of them.
    pub(crate) fn relaunch(&mut self) {
        if self.in_flight() == 0 && self.is_ready() {
            self.flight.iter().for_each(|row| self.process.launch(row));
            self.follow();
        }
    }

    /// Number of points in flight, whether or not the process has taken them in.
    pub(crate) fn flight(&self) -> usize {
        self.flight.len()
    }

    /// Number of points in flight that the process has taken in.
    pub(crate) fn in_flight(&self) -> usize {
        self.process.in_flight()
    }

    /// The prediction for a point; `None` before the first tuning. The second one holds once the points in
    /// flight are measured, if they are as expected.
    pub(crate) fn predict(&self, row: &[f64]) -> Option<(ModelPrediction, ModelPrediction)> {
        self.is_ready().then(|| self.process.predict_both(row))
    }

    pub(crate) fn screened(&self) -> impl Iterator<Item = (usize, ModelPrediction)> + '_ {
        let predictions = self.screen.iter().flat_map(ProcessScreen::predictions);
        self.screened.iter().map(|at| *at as usize).zip(predictions)
    }

    /// What is left of the variance once the points in flight are measured, 0 to 1.
    pub(crate) fn remaining(&self) -> impl Iterator<Item = (usize, f64)> + '_ {
        let remaining = self.screen.iter().flat_map(ProcessScreen::remaining);
        self.screened.iter().map(|at| *at as usize).zip(remaining)
    }

    fn choose_screened(&mut self, promise: impl FnOnce() -> Vec<f64>) {
        let Some(pool) = &self.pool else { return };
        if pool.rows() <= SCREENED_MAX {
            if self.screen.is_none() {
                self.screened = (0..pool.rows() as u32).collect();
                self.screen = Some(ProcessScreen::new(pool));
            }
            return;
        }
        let promise = promise();
        let mut order: Vec<u32> = (0..pool.rows() as u32).collect();
        let before = |a: &u32, b: &u32| promise[*a as usize].total_cmp(&promise[*b as usize]).then(a.cmp(b));
        order.select_nth_unstable_by(SCREENED_MAX, before);
        order.truncate(SCREENED_MAX);
        // Selection leaves an arbitrary order; ascending positions depend on the set alone.
        order.sort_unstable();
        let rows: Vec<usize> = order.iter().map(|at| *at as usize).collect();
        self.screen = Some(ProcessScreen::new(&pool.select(&rows)));
        self.screened = order;
    }
}
