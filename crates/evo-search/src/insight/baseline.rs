//! How random search would have done with as many evaluations.
//!
//! All that is needed is, for any time, the chance that a valid point drawn at random is at least as fast.
//! It comes from the whole space where all of it was evaluated; from the study's own random draws
//! where they are many; otherwise from forests (time and failing) asked about a sample of the space,
//! each prediction a normal distribution of log time. The latter is an estimate by something that has seen
//! mostly fast points, and is called so.

use evo_space::rng::seeded;
use evo_space::space::SearchSpace;
use serde::{Deserialize, Serialize};

use super::importance::forest;
use super::{ENOUGH, Fate, Observation, thinned};
use crate::model::Prediction;
use crate::model::features::Features;
use crate::model::normal::below;
use crate::model::validity::ValidityModel;

/// Most observations that the forests learn from, and points that they are asked about.
const MOST: usize = 1000;
const SAMPLE: usize = 1024;

/// The same for a space whose points must be searched for.
const SAMPLE_INEXACT: usize = 128;

/// The part of a prediction's spread that is taken for a spread of times; the rest is doubt of the forest, which
/// does not make points fast. Between 0.6 and 1 the medians told for recorded spaces turn from too
/// pessimistic to too optimistic (docs/insight.md).
const SPREAD: f64 = 0.75;

/// Operators that draw uniformly from the space.
const UNIFORM: [&str; 2] = ["random", "quasi_random"];

/// Draws up to which the chances are multiplied one by one; beyond, and in spaces that are as good as
/// endless, by a power.
const STEPS: usize = 100_000;

/// What random search is expected to reach with as many evaluations.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RandomSearch {
    pub basis: Basis,
    /// How many evaluations it gets: as many as the study made.
    pub evaluations: usize,
    /// The best time of half of such searches is below; none where so many would find nothing at all.
    pub median_ns: Option<f64>,
    /// The same for the luckiest and for three quarters of them.
    pub quarter_ns: Option<f64>,
    pub three_quarters_ns: Option<f64>,
    /// The chance that such a search finds something as good as the study's best, within a hundredth.
    pub chance_as_good: f64,
    /// Evaluations after which half of such searches have found it; none where that is beyond what can be told.
    pub median_to_match: Option<u64>,
}

/// What the statement rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Every valid point was evaluated.
    WholeSpace,
    /// The study's own uniform draws.
    OwnDraws,
    /// Predictions for a uniform sample of the space.
    Model,
}

/// The chance that a valid point drawn at random is measured and takes at most so long.
enum Chances {
    /// From points that were drawn: sorted times of those that passed, and how many were drawn.
    Counted { times: Vec<f64>, drawn: usize },
    /// From predictions of log time and the risk to fail.
    Predicted(Vec<(Prediction, f64)>),
}

/// None with too little to go by, or where nothing passed.
pub(super) fn random_search(
    space: &SearchSpace,
    known: &[Observation<'_>],
    seed: u64,
) -> Option<RandomSearch> {
    let times = known.iter().filter_map(|one| match one.fate {
        Fate::Measured(time) => Some(time),
        _ => None,
    });
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
        // A model cannot promise what nobody has seen.
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
    })
}

fn chances(space: &SearchSpace, known: &[Observation<'_>], seed: u64) -> Option<(Basis, Chances)> {
    if space.is_exact() && known.len() as u128 >= space.count() {
        return Some((Basis::WholeSpace, counted(known.iter())));
    }
    let is_uniform = |one: &&Observation<'_>| UNIFORM.contains(&one.evaluation.origin.as_str());
    let own = known.iter().filter(is_uniform).count();
    // Few draws know nothing of how good the best of many would be.
    if own >= ENOUGH && own * 2 >= known.len() {
        return Some((Basis::OwnDraws, counted(known.iter().filter(is_uniform))));
    }
    predicted(space, known, seed).map(|chances| (Basis::Model, chances))
}

fn counted<'a, 'b: 'a>(drawn: impl Iterator<Item = &'a Observation<'b>>) -> Chances {
    let (mut times, mut count) = (Vec::new(), 0);
    for one in drawn {
        count += 1;
        if let Fate::Measured(time) = one.fate {
            times.push(time);
        }
    }
    times.sort_by(f64::total_cmp);
    Chances::Counted { times, drawn: count }
}

fn predicted(space: &SearchSpace, known: &[Observation<'_>], seed: u64) -> Option<Chances> {
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
                let chance = |(told, risk): &(Prediction, f64)| {
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

    /// Whether a chance is more than a sample can tell from none.
    fn can_tell(&self, chance: f64) -> bool {
        let asked = match self {
            Chances::Counted { drawn, .. } => *drawn,
            Chances::Predicted(all) => all.len(),
        };
        chance > 0.0 && chance * asked as f64 >= 1.0
    }
}

/// The chance that none of `draws` different points is among the `share` of `points`.
fn none_of(share: f64, draws: usize, points: f64) -> f64 {
    if points.is_infinite() || draws > STEPS {
        return (1.0 - share).powf(draws as f64);
    }
    let good = share * points;
    let missed = |drawn| 1.0 - (good / (points - drawn as f64).max(1.0)).min(1.0);
    (0..draws).map(missed).product()
}

/// After how many draws the chance to have found nothing falls to a half.
fn draws_to_find(share: f64, points: f64) -> u64 {
    let good = share * points;
    let mut none = 1.0;
    for drawn in 0..STEPS {
        let left = (points - drawn as f64).max(1.0);
        none *= if points.is_infinite() { 1.0 - share } else { 1.0 - (good / left).min(1.0) };
        if none <= 0.5 {
            return drawn as u64 + 1;
        }
    }
    (0.5_f64.ln() / (-share).ln_1p()).ceil() as u64
}

/// The least time from `low` on that is not missed; none if every time is. A model may expect more than
/// the largest that came, so `high` is where looking begins.
fn least(low: f64, high: f64, misses: impl Fn(f64) -> bool) -> Option<f64> {
    // Rounding may put what equals the best a little above it.
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
