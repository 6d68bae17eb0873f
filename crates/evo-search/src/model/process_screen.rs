//! The predictions of a Gaussian process for a fixed set of points, kept up to date.
//!
//! Each point keeps its whitened covariances `v = L⁻¹ k` with the observations (see `process`). A new observation
//! appends one number to them by a step of forward substitution, `vₙ = (kₙ - Σ lₙᵢ vᵢ) / lₙₙ`: `n` multiplications a
//! point, where solving again would take `n²`. The mean then grows by `vₙ zₙ`, and the variance falls by `vₙ²`. All
//! this happens in single precision, block by block, in loops that compilers vectorize: 4,000 points with 1,000
//! observations take about a millisecond and 16 MB.

use super::cholesky::Reflection;
use super::likelihood::correlations;
use super::matrix::Matrix;
use super::process::GaussianProcess;
use crate::model::ModelPrediction;

/// Points of a block. A row of single-precision numbers for 512 points takes 2 KB, so the rows that one
/// loop reads and writes stay in the first-level cache.
const BLOCK: usize = 512;

#[derive(Clone, Debug)]
struct ScreenBlock {
    /// The features of the points, feature after feature.
    features: Vec<f32>,
    /// The whitened covariances with each observation, observation after observation.
    whitened: Vec<f32>,
    means: Vec<f32>,
    /// The variance that the observations explain: `vᵀ v`.
    explained: Vec<f32>,
    /// The variance that the points in flight will explain.
    awaited: Vec<f32>,
}

#[derive(Clone, Debug, Default)]
pub struct ProcessScreen {
    blocks: Vec<ScreenBlock>,
    points: usize,
    columns: usize,
    /// Number of observations taken in, and of points in flight after them.
    taken: usize,
    in_flight: usize,
    generation: u64,
    target_generation: u64,
    landings: u64,
    /// As of the last update: mean and standard deviation of the targets, and the variance of the signal.
    center: f64,
    scale: f64,
    signal: f64,
}

impl ProcessScreen {
    pub fn new(points: &Matrix) -> ProcessScreen {
        let columns = points.columns();
        let mut screen = ProcessScreen {
            points: points.rows(),
            columns,
            generation: u64::MAX,
            target_generation: u64::MAX,
            scale: 1.0,
            signal: 1.0,
            ..ProcessScreen::default()
        };
        // The last block is filled up with points at 0, so that every loop has a fixed length.
        let block = ScreenBlock {
            features: vec![0.0; columns * BLOCK],
            whitened: Vec::new(),
            means: vec![0.0; BLOCK],
            explained: vec![0.0; BLOCK],
            awaited: vec![0.0; BLOCK],
        };
        screen.blocks = vec![block; points.rows().div_ceil(BLOCK)];
        for (at, row) in points.iter().enumerate() {
            let features = &mut screen.blocks[at / BLOCK].features;
            row.iter()
                .enumerate()
                .for_each(|(column, value)| features[column * BLOCK + at % BLOCK] = *value as f32);
        }
        screen
    }

    /// Follows a process: takes in what it learned since the last update. If its hyperparameters or older
    /// observations changed, everything is computed again; if only targets changed, the means are.
    pub fn update(&mut self, process: &GaussianProcess) {
        let GaussianProcess { generation, target_generation, .. } = *process;
        if process.landings != self.landings {
            self.land();
            self.landings = process.landings;
        }
        if generation != self.generation {
            self.land();
            self.taken = 0;
            self.blocks.iter_mut().for_each(|block| block.whitened.clear());
        }
        // Means start at 0 again; the whitened covariances and the explained variance depend on points only and stay.
        let old = if target_generation == self.target_generation { self.taken } else { 0 };
        if old == 0 {
            for block in &mut self.blocks {
                block.means.fill(0.0);
                if self.taken == 0 {
                    block.explained.fill(0.0);
                }
            }
        }
        let lengths: Vec<f32> = process.hyperparameters().lengths().map(|length| length as f32).collect();
        // First, because means are sums over the whitened covariances of all observations.
        let rows = process.observations() + process.in_flight();
        for row in self.taken + self.in_flight..rows {
            self.take(row, process, &lengths);
        }
        let known = self.taken;
        (self.taken, self.in_flight) = (process.observations(), process.in_flight());
        self.explain(known);
        // The whitened target of a point in flight is 0, so means are sums over observations only.
        let targets = process.whitened[..self.taken].iter();
        for (observation, target) in targets.enumerate().skip(old) {
            for block in &mut self.blocks {
                let whitened = &block.whitened[observation * BLOCK..(observation + 1) * BLOCK];
                let target = *target as f32;
                block.means.iter_mut().zip(whitened).for_each(|(mean, v)| *mean += v * target);
            }
        }
        (self.generation, self.target_generation) = (generation, target_generation);
        let zero = process.in_units(0.0, 1.0);
        (self.center, self.scale, self.signal) = (zero.mean, zero.spread, process.hyperparameters().signal());
    }

    pub fn predictions(&self) -> impl Iterator<Item = ModelPrediction> + '_ {
        let lanes = self.blocks.iter().flat_map(|block| block.means.iter().zip(&block.explained));
        lanes.take(self.points).map(|(mean, explained)| ModelPrediction {
            mean: self.center + self.scale * f64::from(*mean),
            spread: self.scale * (self.signal - f64::from(*explained)).max(0.0).sqrt(),
        })
    }

    pub fn remaining(&self) -> impl Iterator<Item = f64> + '_ {
        let lanes = self.blocks.iter().flat_map(|block| block.explained.iter().zip(&block.awaited));
        lanes.take(self.points).map(|(explained, awaited)| {
            let variance = self.signal - f64::from(*explained);
            if variance > 0.0 { (1.0 - f64::from(*awaited) / variance).max(0.0) } else { 1.0 }
        })
    }

    pub(crate) fn abandon(&mut self, reflections: &[Reflection]) {
        self.reflect(reflections);
        self.in_flight -= 1;
        let rows = self.taken + self.in_flight;
        self.blocks.iter_mut().for_each(|block| block.whitened.truncate(rows * BLOCK));
    }

    /// One of the points in flight was measured. The screen must have seen all of them by then, and `update` must be next.
    pub(crate) fn reflect(&mut self, reflections: &[Reflection]) {
        for block in &mut self.blocks {
            for reflection in reflections {
                let pair = &mut block.whitened[reflection.at * BLOCK..(reflection.at + 2) * BLOCK];
                let (first, second) = pair.split_at_mut(BLOCK);
                reflection.of_rows(first, second);
            }
        }
    }

    fn land(&mut self) {
        for block in &mut self.blocks {
            block.whitened.truncate(self.taken * BLOCK);
            block.awaited.fill(0.0);
        }
        self.in_flight = 0;
    }

    fn take(&mut self, observation: usize, process: &GaussianProcess, lengths: &[f32]) {
        let input: Vec<f32> = process.inputs.row(observation).iter().map(|value| *value as f32).collect();
        let row: Vec<f32> = process.factor.row(observation).iter().map(|value| *value as f32).collect();
        let (before, diagonal) = (&row[..observation], row[observation]);
        let (signal, inverse) = (process.hyperparameters().signal() as f32, 1.0 / diagonal);
        let mut covariances = [0f32; BLOCK];
        for block in &mut self.blocks {
            // One buffer, which stays in the cache, holds squared distances, then covariances, then whitened ones.
            covariances.fill(0.0);
            for column in 0..self.columns {
                let features = &block.features[column * BLOCK..(column + 1) * BLOCK];
                let (here, precision) = (input[column], 1.0 / lengths[column]);
                for (square, feature) in covariances.iter_mut().zip(features) {
                    let apart = feature * precision - here;
                    *square += apart * apart;
                }
            }
            correlations(&mut covariances);
            covariances.iter_mut().for_each(|value| *value *= signal);
            subtract(&mut covariances, before, &block.whitened);
            covariances.iter_mut().for_each(|value| *value *= inverse);
            block.whitened.extend_from_slice(&covariances);
        }
    }

    /// Adds what the observations after the first `known` explain, and sums anew what those in flight will.
    fn explain(&mut self, known: usize) {
        let (taken, rows) = (self.taken, self.taken + self.in_flight);
        for block in &mut self.blocks {
            block.awaited.fill(0.0);
            let sums = [(&mut block.explained, known..taken), (&mut block.awaited, taken..rows)];
            for (sums, rows) in sums {
                for whitened in block.whitened[rows.start * BLOCK..rows.end * BLOCK].chunks_exact(BLOCK) {
                    sums.iter_mut().zip(whitened).for_each(|(sum, v)| *sum += v * v);
                }
            }
        }
    }
}

/// `weights[i]` times row `i` of `rows`, four rows at a time, so that `out` is read and written a quarter as often.
fn subtract(out: &mut [f32; BLOCK], weights: &[f32], rows: &[f32]) {
    let mut fours = weights.chunks_exact(4);
    let mut chunks = rows.chunks_exact(4 * BLOCK);
    for (w, rows) in fours.by_ref().zip(chunks.by_ref()) {
        let (first, rest) = rows.split_at(BLOCK);
        let (second, rest) = rest.split_at(BLOCK);
        let (third, fourth) = rest.split_at(BLOCK);
        let all = first.iter().zip(second).zip(third.iter().zip(fourth));
        for (out, ((a, b), (c, d))) in out.iter_mut().zip(all) {
            *out -= (w[0] * a + w[1] * b) + (w[2] * c + w[3] * d);
        }
    }
    for (weight, row) in fours.remainder().iter().zip(chunks.remainder().chunks_exact(BLOCK)) {
        out.iter_mut().zip(row).for_each(|(out, value)| *out -= weight * value);
    }
}

#[cfg(test)]
mod tests {
    use evo_space::sample::seeded;
    use rand::RngExt;

    use super::*;

    fn target(row: &[f64]) -> f64 {
        (3.0 * row[0]).sin() + row[1] * row[1] - 0.5 * row[2]
    }

    fn random(rows: usize, seed: u64) -> Matrix {
        let mut rng = seeded(seed);
        let rows: Vec<[f64; 3]> = (0..rows).map(|_| [(); 3].map(|()| rng.random::<f64>())).collect();
        Matrix::from_rows(&rows)
    }

    fn fit(process: &mut GaussianProcess, x: &Matrix, y: &[f64], seed: u64) {
        process.tune(x, y, &mut seeded(seed));
        process.learn(x, y);
    }

    #[track_caller]
    fn agrees(screen: &ProcessScreen, process: &GaussianProcess, points: &Matrix) {
        assert_eq!(screen.predictions().count(), points.rows());
        for (fast, row) in screen.predictions().zip(points.iter()) {
            let exact = process.predict_row(row);
            assert!((fast.mean - exact.mean).abs() < 2e-3, "{fast:?} is not {exact:?}");
            assert!((fast.spread - exact.spread).abs() < 6e-3, "{fast:?} is not {exact:?}");
        }
    }

    #[test]
    fn a_screen_follows_its_process_through_everything() {
        let (points, seen) = (random(700, 1), random(60, 2));
        let targets: Vec<f64> = seen.iter().map(target).collect();
        let mut process = GaussianProcess::new(3);
        let mut screen = ProcessScreen::new(&points);
        screen.update(&process);
        agrees(&screen, &process, &points);
        let first: Vec<usize> = (0..30).collect();
        fit(&mut process, &seen.select(&first), &targets[..30], 3);
        screen.update(&process);
        agrees(&screen, &process, &points);
        for (at, target) in targets.iter().enumerate().skip(30) {
            process.append(seen.row(at), *target);
            if at % 7 == 0 {
                screen.update(&process);
            }
        }
        screen.update(&process);
        agrees(&screen, &process, &points);
        let free: Vec<ModelPrediction> = screen.predictions().collect();
        for round in 0..3 {
            process.launch(points.row(7 * round));
            process.launch(points.row(7 * round + 1));
            screen.update(&process);
            assert!(screen.predictions().eq(free.iter().copied()), "points in flight move nothing");
            for (remaining, row) in screen.remaining().zip(points.iter()) {
                let (now, then) = process.predict_both(row);
                let exact = (then.spread / now.spread.max(1e-9)).min(1.0);
                assert!((remaining.sqrt() - exact).abs() * now.spread < 6e-3, "{remaining} is not {exact}");
            }
        }
        assert!(screen.remaining().nth(14).unwrap() < 0.5);
        process.land();
        screen.update(&process);
        assert!(screen.remaining().all(|share| share == 1.0));
        let logs: Vec<f64> = targets.iter().map(|target| (target + 2.0).ln()).collect();
        process.retarget(&logs);
        process.append(&[0.5, 0.5, 0.5], 0.1);
        screen.update(&process);
        agrees(&screen, &process, &points);
    }

    #[test]
    fn what_is_measured_or_given_up_in_flight_is_as_if_it_was_taken_in_anew() {
        let (points, seen) = (random(700, 4), random(60, 5));
        let targets: Vec<f64> = seen.iter().map(target).collect();
        let mut process = GaussianProcess::new(3);
        fit(&mut process, &seen, &targets, 6);
        let mut screen = ProcessScreen::new(&points);
        let (mut rng, mut flight) = (seeded(7), Vec::new());
        for round in 0..200 {
            if round >= 40 {
                let place = rng.random_range(0..flight.len());
                let row = points.row(flight.remove(place));
                match round % 5 {
                    0 => screen.abandon(&process.abandon(place)),
                    _ => screen.reflect(&process.measure(place, target(row))),
                }
            }
            flight.push(3 * round);
            process.launch(points.row(3 * round));
            screen.update(&process);
        }
        assert_eq!((process.observations(), process.in_flight()), (60 + 160 * 4 / 5, 40));
        agrees(&screen, &process, &points);
        let mut fresh = ProcessScreen::new(&points);
        fresh.update(&process);
        for (own, other) in screen.remaining().zip(fresh.remaining()) {
            assert!((own.sqrt() - other.sqrt()).abs() < 0.02, "{own} is not {other}");
        }
    }
}
