//! How random search would have done with the same number of evaluations.
//!
//! The estimate needs one function: for any time, the chance that a valid point drawn at random is at
//! least as fast. It comes from the whole space if all of it was evaluated; from the study's own random
//! draws if there are enough of them; otherwise from two forests (one for time, one for failure) that
//! predict a sample of the space, each prediction a normal distribution of log time. The forests have seen
//! mostly fast points, so their answer is labeled as a model's estimate.

use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use serde::{Deserialize, Serialize};

use super::importance::forest;
use crate::insight::{ENOUGH, Fate, Observation, thinned};
use crate::model::ModelPrediction;
use crate::model::acquisition::below;
use crate::model::features::Features;
use crate::model::validity::ValidityModel;

/// Most observations that the forests learn from, and most points that they predict. Both bound the time
/// at the end of a sweep; a sample of 1,024 also limits the smallest chance that can be told from none.
const MOST: usize = 1000;
const SAMPLE: usize = 1024;

/// The sample of a space that is not counted exactly, where each point has to be searched for.
const SAMPLE_INEXACT: usize = 128;

/// The part of a prediction's spread that is taken for the spread of times. The rest is the forest's own
/// uncertainty, which does not make any point faster. Measured on five recordings on 2026-11-21: with the
/// whole spread the estimate promised random search 7 to 20 % too much; between 0.6 and 1 its medians
/// turn from too pessimistic to too optimistic (docs/insight.md).
const SPREAD: f64 = 0.75;

/// Most draws whose chances are multiplied one by one, as drawing without replacement needs. Beyond, and
/// in spaces of unknown size, draws with replacement are a good approximation and need only a power.
const STEPS: usize = 100_000;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RandomSearch {
    pub basis: Basis,
    pub evaluations: usize,
    /// Of the best time that random search finds; `None` if half of all random searches find nothing that works.
    pub median_ns: Option<f64>,
    pub quarter_ns: Option<f64>,
    pub three_quarters_ns: Option<f64>,
    pub chance_as_good: f64,
    /// Evaluations after which half of all random searches have found such a time; `None` if it is rarer
    /// than the sample can show.
    pub median_to_match: Option<u64>,
    /// The best time after fewer evaluations, on a grid of 1 in 128 of the logarithm of the range.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub course: Vec<RandomStep>,
}

/// `None` where so many of the searches have found nothing yet that passes within the measured range.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RandomStep {
    pub evaluations: usize,
    pub quarter_ns: Option<f64>,
    pub median_ns: Option<f64>,
    pub three_quarters_ns: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    WholeSpace,
    OwnDraws,
    Model,
}

/// Operators whose points are spread over the whole space whatever was measured before, and stand for it as random draws
/// do; the second was one of earlier versions.
const UNIFORM: [&str; 2] = ["random", "quasi_random"];

enum Chances {
    /// From points that were drawn: the sorted times of the ones that passed, and how many were drawn.
    Counted { times: Vec<f64>, drawn: usize },
    /// From predictions of log time and of the probability to fail.
    Predicted(Vec<(ModelPrediction, f64)>),
}

pub(super) fn random_search(
    space: &SearchSpace,
    known: &[Observation<'_>],
    seed: u64,
) -> Option<RandomSearch> {
    let times = known.iter().filter_map(Observation::measured);
    let (low, high) =
        times.fold((f64::INFINITY, 0.0_f64), |(low, high), time| (low.min(time), high.max(time)));
    if low > high {
        return None;
    }
    let (basis, chances) = chances(space, known, seed)?;
    let points = if space.is_exact() { space.count() as f64 } else { f64::INFINITY };
    let evaluations = known.len();
    let reached = |quantile: f64| {
        let misses = |time: f64| none_of(chances.at_most(time), evaluations, points) > 1.0 - quantile;
        // A model cannot promise a time below the best that was measured.
        least(low, high, misses)
    };
    let as_good = chances.at_most(low * 1.01);
    Some(RandomSearch {
        basis,
        evaluations,
        median_ns: reached(0.5),
        quarter_ns: reached(0.25),
        three_quarters_ns: reached(0.75),
        chance_as_good: 1.0 - none_of(as_good, evaluations, points),
        median_to_match: chances.can_tell(as_good).then(|| draws_to_find(as_good, points)),
        course: course(&chances, (low, high), evaluations, points),
    })
}

const GRID: usize = 128;

fn course(chances: &Chances, (low, high): (f64, f64), evaluations: usize, points: f64) -> Vec<RandomStep> {
    let time = |at: usize| low * (high / low).powf(at as f64 / (GRID - 1) as f64);
    // Rounding may put the time that equals an end beyond it.
    let grid: Vec<(f64, f64)> =
        (0..GRID).map(time).map(|time| (time, chances.at_most(time * (1.0 + 1e-9)))).collect();
    let step = |evaluations: usize| {
        let missed: Vec<f64> = grid.iter().map(|(_, share)| none_of(*share, evaluations, points)).collect();
        let reached = |quantile: f64| {
            let at = missed.iter().position(|missed| *missed <= 1.0 - quantile)?;
            Some(grid[at].0)
        };
        RandomStep {
            evaluations,
            quarter_ns: reached(0.25),
            median_ns: reached(0.5),
            three_quarters_ns: reached(0.75),
        }
    };
    let powers =
        (0..usize::BITS - 1).flat_map(|power| [1usize << power, (1usize << power) + (1usize << power) / 2]);
    let mut counts: Vec<usize> = powers.take_while(|count| *count < evaluations).collect();
    counts.push(evaluations);
    counts.dedup();
    counts.into_iter().map(step).collect()
}

fn chances(space: &SearchSpace, known: &[Observation<'_>], seed: u64) -> Option<(Basis, Chances)> {
    if space.is_exact() && known.len() as u128 >= space.count() {
        return Some((Basis::WholeSpace, counted(&known.iter().collect::<Vec<_>>())));
    }
    let is_uniform = |one: &&Observation<'_>| UNIFORM.contains(&one.evaluation.origin.as_str());
    let own: Vec<&Observation<'_>> = known.iter().filter(is_uniform).collect();
    // From few draws nothing follows about the best of many.
    if own.len() >= ENOUGH && own.len() * 2 >= known.len() {
        return Some((Basis::OwnDraws, counted(&own)));
    }
    predicted(space, known, seed).map(|chances| (Basis::Model, chances))
}

fn counted(drawn: &[&Observation<'_>]) -> Chances {
    let mut times: Vec<f64> = drawn.iter().filter_map(|one| one.measured()).collect();
    times.sort_by(f64::total_cmp);
    Chances::Counted { times, drawn: drawn.len() }
}

fn predicted(space: &SearchSpace, known: &[Observation<'_>], seed: u64) -> Option<Chances> {
    // With their lower bound: leaving slow variants out would make the space look faster than it is.
    let kept = thinned(known.iter().collect(), MOST);
    let (genomes, targets): (Vec<_>, Vec<f64>) =
        kept.iter().filter_map(|one| Some((&one.genome, one.log_time()?))).unzip();
    if genomes.len() < ENOUGH {
        return None;
    }
    let mut rng = seeded(seed);
    let features = Features::new(space);
    let forest = forest(&features, features.codes(genomes), &targets, &mut rng);
    let mut validity = ValidityModel::new(features.scales().clone());
    let failed: Vec<bool> = kept.iter().map(|one| one.fate == Fate::Failed).collect();
    validity.learn(features.codes(kept.iter().map(|one| &one.genome)), &failed, &mut rng);
    let wanted = if space.is_exact() { SAMPLE } else { SAMPLE_INEXACT };
    let sample = space.sample_distinct(wanted, &mut rng);
    let asked = sample.iter().map(|genome| {
        let row = features.code_row(genome);
        (forest.predict_codes(&row), validity.failure(&row))
    });
    Some(Chances::Predicted(asked.collect())).filter(|_| !sample.is_empty())
}

impl Chances {
    fn at_most(&self, time: f64) -> f64 {
        match self {
            Chances::Counted { times, drawn } => {
                times.partition_point(|own| *own <= time) as f64 / (*drawn).max(1) as f64
            }
            Chances::Predicted(all) => {
                let chance = |(told, risk): &(ModelPrediction, f64)| {
                    let above = time.ln() - told.mean;
                    let share = if told.spread > 0.0 {
                        below(above / (SPREAD * told.spread))
                    } else {
                        f64::from(above >= 0.0)
                    };
                    (1.0 - risk) * share
                };
                all.iter().map(chance).sum::<f64>() / all.len().max(1) as f64
            }
        }
    }

    fn can_tell(&self, chance: f64) -> bool {
        let asked = match self {
            Chances::Counted { drawn, .. } => *drawn,
            Chances::Predicted(all) => all.len(),
        };
        chance > 0.0 && chance * asked as f64 >= 1.0
    }
}

/// The chance that `draws` different points all miss a `share` of all `points`.
fn none_of(share: f64, draws: usize, points: f64) -> f64 {
    if points.is_infinite() || draws > STEPS {
        return (1.0 - share).powf(draws as f64);
    }
    (0..draws).map(|drawn| miss(share, drawn, points)).product()
}

/// The chance of one draw without replacement: each miss leaves one point fewer to draw from.
fn miss(share: f64, drawn: usize, points: f64) -> f64 {
    if points.is_infinite() {
        return 1.0 - share;
    }
    1.0 - (share * points / (points - drawn as f64).max(1.0)).min(1.0)
}

/// The number of draws after which the chance to have missed the share falls to a half.
fn draws_to_find(share: f64, points: f64) -> u64 {
    let mut none = 1.0;
    for drawn in 0..STEPS {
        none *= miss(share, drawn, points);
        if none <= 0.5 {
            return drawn as u64 + 1;
        }
    }
    (0.5_f64.ln() / (-share).ln_1p()).ceil() as u64
}

/// The least time, at least `low`, that is not missed; `None` if every time is. Bisection in log time
/// begins at `high` and goes beyond, because a model may expect more than the largest measured time.
fn least(low: f64, high: f64, misses: impl Fn(f64) -> bool) -> Option<f64> {
    // Rounding may put a time that equals the best a little above it.
    if !misses(low * (1.0 + 1e-9)) {
        return Some(low);
    }
    let mut above = high * (1.0 + 1e-9);
    while misses(above) {
        above *= 2.0;
        if !above.is_finite() {
            return None;
        }
    }
    let (mut missed, mut reached) = (low.ln(), above.ln());
    while reached - missed > 1e-9 {
        let middle = 0.5 * (missed + reached);
        if misses(middle.exp()) { missed = middle } else { reached = middle }
    }
    Some(reached.exp())
}
