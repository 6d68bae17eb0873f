//! `evo bench-search --synthetic`: how near strategies come to a known optimum in spaces beyond listing.

mod text;

use evo_search::registry::StrategyOptions;
use serde_json::{Value, json};

use super::{OwnTime, parallel, strategies};
use crate::cli::args::BenchSearchArgs;
use crate::cli::exit_code::{ExitCode, UsageError};
use crate::replay::synthetic::run::{self, SyntheticOptions, SyntheticRun};
use crate::replay::synthetic::{self, OPTIMUM_NS, Synthetic};

/// What others are compared with.
const YARDSTICK: &str = "random";

/// All strategies on all spaces.
struct Comparison {
    spaces: Vec<Synthetic>,
    /// Evaluations after which results are shown.
    stages: [usize; 3],
    results: Vec<Result>,
}

/// How one strategy did.
struct Result {
    strategy: String,
    spaces: Vec<OnSpace>,
    time: Option<OwnTime>,
}

/// How it did on one space.
struct OnSpace {
    /// The best over the optimum at each stage.
    stages: [Quartiles; 3],
    runs: usize,
    /// Runs that end below the median of `YARDSTICK`.
    ahead: usize,
    time: Option<OwnTime>,
}

/// Of the best over the optimum: the middle run, and those between which half of all runs lie. Infinite
/// while a run met nothing but failures.
#[derive(Clone, Copy)]
struct Quartiles {
    low: f64,
    median: f64,
    high: f64,
}

impl Quartiles {
    fn of(runs: &[SyntheticRun], evaluations: usize) -> Quartiles {
        let mut best: Vec<f64> = runs.iter().map(|run| run.best_after(evaluations)).collect();
        best.sort_by(f64::total_cmp);
        // Not interpolated, since some may be infinite.
        let at = |part: f64| best[((best.len() - 1) as f64 * part).round() as usize];
        Quartiles { low: at(0.25), median: at(0.5), high: at(0.75) }
    }
}

impl Result {
    /// The geometric mean of the medians at a stage.
    fn mean(&self, stage: usize) -> f64 {
        let logarithms = self.spaces.iter().map(|on| on.stages[stage].median.ln());
        (logarithms.sum::<f64>() / self.spaces.len() as f64).exp()
    }

    /// Runs that end below the median of `YARDSTICK`, and all.
    fn ahead(&self) -> (usize, usize) {
        let sum = |count: &dyn Fn(&OnSpace) -> usize| self.spaces.iter().map(count).sum();
        (sum(&|on| on.ahead), sum(&|on| on.runs))
    }
}

/// Runs the command on the spaces of these names, or on all.
pub fn run(arguments: &BenchSearchArgs, names: &[String]) -> anyhow::Result<ExitCode> {
    let spaces = open(names)?;
    let mut compared = strategies(&arguments.strategies)?;
    if !compared.contains(&YARDSTICK) {
        compared.push(YARDSTICK);
    }
    let comparison = compare(arguments, spaces, &compared)?;
    let text = if arguments.json {
        format!("{}\n", object(arguments, &comparison))
    } else {
        text::text(&comparison)
    };
    crate::cli::stdout(&text)?;
    Ok(ExitCode::Done)
}

/// The named spaces without repetitions, or all.
fn open(names: &[String]) -> std::result::Result<Vec<Synthetic>, UsageError> {
    let all: Vec<String> = synthetic::names().map(str::to_string).collect();
    let names = if names.is_empty() { &all } else { names };
    let mut spaces: Vec<Synthetic> = Vec::new();
    for name in names {
        if spaces.iter().all(|space| space.name() != name) {
            spaces.push(Synthetic::open(name).map_err(|error| UsageError::of(&error))?);
        }
    }
    Ok(spaces)
}

fn compare(
    arguments: &BenchSearchArgs,
    spaces: Vec<Synthetic>,
    strategies: &[&str],
) -> anyhow::Result<Comparison> {
    let runs = arguments.runs as usize;
    let evaluations = arguments.evaluations as usize;
    let one = |number: usize| {
        let (run, place) = (number % runs, number / runs);
        let (space, strategy) = (place % spaces.len(), place / spaces.len());
        let seed = arguments.seed.wrapping_add(run as u64);
        let strategy_options = StrategyOptions { seed, population: arguments.population as usize };
        let options = SyntheticOptions { strategy: strategy_options, batch: arguments.batch, evaluations };
        run::run(&spaces[space], strategies[strategy], options)
    };
    let all = parallel::each(strategies.len() * spaces.len() * runs, arguments.jobs, one)?;
    let of = |strategy: usize, space: usize| &all[(strategy * spaces.len() + space) * runs..][..runs];
    let yardstick = strategies.iter().position(|name| *name == YARDSTICK).expect("it was added");
    let stages = [evaluations / 10, evaluations / 3, evaluations];
    let time = |runs: &[SyntheticRun]| {
        let times = runs.iter().flat_map(|run| run.own_ms.iter().copied());
        if arguments.no_overhead { None } else { OwnTime::of_times(times) }
    };
    let on_space = |strategy: usize, space: usize| {
        let runs = of(strategy, space);
        let bar = Quartiles::of(of(yardstick, space), evaluations).median;
        OnSpace {
            stages: stages.map(|stage| Quartiles::of(runs, stage)),
            runs: runs.len(),
            ahead: runs.iter().filter(|run| run.best_after(evaluations) < bar).count(),
            time: time(runs),
        }
    };
    let result = |(number, name): (usize, &&str)| Result {
        strategy: name.to_string(),
        spaces: (0..spaces.len()).map(|space| on_space(number, space)).collect(),
        time: time(&all[number * spaces.len() * runs..][..spaces.len() * runs]),
    };
    let results = strategies.iter().enumerate().map(result).collect();
    Ok(Comparison { results, stages, spaces })
}

/// Results for programs: one object.
fn object(arguments: &BenchSearchArgs, comparison: &Comparison) -> Value {
    let spaces = comparison.spaces.iter().map(|space| {
        let about = json!({
            "about": space.about(),
            "parameters": space.space.parameters().len(),
            // A text, since it can be beyond every number type.
            "valid": space.space.valid().to_string(),
            "is_exact": space.space.is_exact(),
            "optimum_ns": OPTIMUM_NS,
        });
        (space.name().to_string(), about)
    });
    let strategies = comparison.results.iter().map(|result| {
        let on_spaces = result.spaces.iter().zip(&comparison.spaces);
        let on_spaces = on_spaces.map(|(on, space)| (space.name().to_string(), on_space(on, comparison)));
        let (ahead, runs) = result.ahead();
        let means = [0, 1, 2].map(|stage| result.mean(stage));
        let value = json!({
            "geometric_mean": means,
            "better_than_random": ahead,
            "runs": runs,
            "own_time": super::json::own_time(&result.time),
            "spaces": on_spaces.collect::<serde_json::Map<_, _>>(),
        });
        (result.strategy.to_string(), value)
    });
    json!({
        "runs": arguments.runs,
        "seed": arguments.seed,
        "batch": arguments.batch,
        "evaluations": comparison.stages,
        "spaces": spaces.collect::<serde_json::Map<_, _>>(),
        "strategies": strategies.collect::<serde_json::Map<_, _>>(),
    })
}

fn on_space(on: &OnSpace, comparison: &Comparison) -> Value {
    let stages = on.stages.iter().zip(comparison.stages).map(|(quartiles, evaluations)| {
        let Quartiles { low, median, high } = quartiles;
        json!({ "evaluations": evaluations, "low": low, "median": median, "high": high })
    });
    json!({
        "best_over_optimum": stages.collect::<Vec<_>>(),
        "better_than_random": on.ahead,
        "runs": on.runs,
        "own_time": super::json::own_time(&on.time),
    })
}
