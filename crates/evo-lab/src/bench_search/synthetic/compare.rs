//! All strategies on all synthetic spaces, and how near each came to the optimum.

use super::super::own_time::OwnTime;
use super::super::parallel;
use crate::args::BenchSearchArgs;
use crate::error::LabError;
use crate::synthetic::{self, Synthetic, SyntheticOptions, SyntheticRun};

/// The strategy that the others are compared with.
pub const YARDSTICK: &str = "random";

/// All strategies on all spaces.
pub struct SyntheticComparison {
    pub spaces: Vec<Synthetic>,
    /// Evaluations after which results are shown.
    pub stages: [usize; 3],
    pub results: Vec<SyntheticResult>,
}

/// How one strategy did.
pub struct SyntheticResult {
    /// Its name.
    pub strategy: String,
    pub spaces: Vec<SyntheticSpaceResult>,
    pub time: Option<OwnTime>,
}

/// How it did on one space.
pub struct SyntheticSpaceResult {
    /// The best over the optimum at each stage.
    pub stages: [Quartiles; 3],
    pub runs: usize,
    /// Runs that end below the median of `YARDSTICK`.
    pub ahead: usize,
    pub time: Option<OwnTime>,
}

/// Quartiles over runs of the best time over the optimum. Infinite while a run has met only failures.
#[derive(Clone, Copy)]
pub struct Quartiles {
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

impl Quartiles {
    pub fn of(runs: &[SyntheticRun], evaluations: usize) -> Quartiles {
        let mut best: Vec<f64> = runs.iter().map(|run| run.best_after(evaluations)).collect();
        best.sort_by(f64::total_cmp);
        // Not interpolated, since some of them may be infinite.
        let at = |part: f64| best[((best.len() - 1) as f64 * part).round() as usize];
        Quartiles { low: at(0.25), median: at(0.5), high: at(0.75) }
    }
}

impl SyntheticResult {
    /// The geometric mean of the medians at a stage.
    pub fn mean(&self, stage: usize) -> f64 {
        let logarithms = self.spaces.iter().map(|on| on.stages[stage].median.ln());
        (logarithms.sum::<f64>() / self.spaces.len() as f64).exp()
    }

    /// How many runs end below the median of `YARDSTICK`, and how many there are.
    pub fn ahead(&self) -> (usize, usize) {
        let sum = |count: &dyn Fn(&SyntheticSpaceResult) -> usize| self.spaces.iter().map(count).sum();
        (sum(&|on| on.ahead), sum(&|on| on.runs))
    }
}

/// The named spaces without repetitions, or all.
pub fn open(names: &[String]) -> Result<Vec<Synthetic>, LabError> {
    let all: Vec<String> = synthetic::names().map(str::to_string).collect();
    let names = if names.is_empty() { &all } else { names };
    let mut spaces: Vec<Synthetic> = Vec::new();
    for name in names {
        if spaces.iter().all(|space| space.name() != name) {
            spaces.push(
                Synthetic::open(name).map_err(|error| LabError::bad_input(&error, Some(error.hint())))?,
            );
        }
    }
    Ok(spaces)
}

/// Runs each strategy on each space and compares them.
pub fn compare(
    arguments: &BenchSearchArgs,
    spaces: Vec<Synthetic>,
    strategies: &[&str],
) -> Result<SyntheticComparison, LabError> {
    let runs = arguments.runs as usize;
    let evaluations = arguments.evaluations as usize;
    let one = |number: usize| {
        let (run, place) = (number % runs, number / runs);
        let (space, strategy) = (place % spaces.len(), place / spaces.len());
        // All strategies get the same seeds, so that their runs differ by strategy alone.
        let seed = arguments.seed.wrapping_add(run as u64);
        let options = SyntheticOptions { seed, batch: arguments.batch, evaluations };
        synthetic::run(&spaces[space], strategies[strategy], options)
    };
    let all = parallel::each(strategies.len() * spaces.len() * runs, arguments.jobs, one)?;
    let of = |strategy: usize, space: usize| &all[(strategy * spaces.len() + space) * runs..][..runs];
    let yardstick = strategies.iter().position(|name| *name == YARDSTICK).expect("the command adds it");
    // Early, middle and late: a strategy can be ahead at one stage and behind at another.
    let stages = [evaluations / 10, evaluations / 3, evaluations];
    let time = |runs: &[SyntheticRun]| {
        let times = runs.iter().flat_map(|run| run.own_ms.iter().copied());
        if arguments.no_overhead { None } else { OwnTime::of(times) }
    };
    let on_space = |strategy: usize, space: usize| {
        let runs = of(strategy, space);
        let bar = Quartiles::of(of(yardstick, space), evaluations).median;
        SyntheticSpaceResult {
            stages: stages.map(|stage| Quartiles::of(runs, stage)),
            runs: runs.len(),
            ahead: runs.iter().filter(|run| run.best_after(evaluations) < bar).count(),
            time: time(runs),
        }
    };
    let result = |(number, name): (usize, &&str)| SyntheticResult {
        strategy: name.to_string(),
        spaces: (0..spaces.len()).map(|space| on_space(number, space)).collect(),
        time: time(&all[number * spaces.len() * runs..][..spaces.len() * runs]),
    };
    let results = strategies.iter().enumerate().map(result).collect();
    Ok(SyntheticComparison { results, stages, spaces })
}
