//! `evo-lab bench-search --synthetic`: how near strategies come to a known optimum in spaces too large to list.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::results::{OwnTime, own_time_object, own_time_text, share};
use super::runs::each;
use crate::args::BenchSearchArgs;
use crate::error::LabError;
use crate::synthetic::{self, OPTIMUM_NS, Synthetic, SyntheticOptions, SyntheticRun};

/// The answer on the spaces of these names, or on all of them.
pub fn answer(arguments: &BenchSearchArgs, names: &[String]) -> Result<String, LabError> {
    let spaces = open(names)?;
    let mut compared = arguments.known_strategies()?;
    // Results are counted against random search, so it always runs.
    if !compared.contains(&YARDSTICK) {
        compared.push(YARDSTICK);
    }
    let comparison = compare(arguments, spaces, &compared)?;
    Ok(if arguments.json { format!("{}\n", object(arguments, &comparison)) } else { text(&comparison) })
}

/// The strategy that the others are compared with.
const YARDSTICK: &str = "random";

struct SyntheticComparison {
    spaces: Vec<Synthetic>,
    /// Evaluations after which results are shown.
    stages: [usize; 3],
    results: Vec<SyntheticResult>,
}

struct SyntheticResult {
    strategy: String,
    spaces: Vec<SyntheticSpaceResult>,
    time: Option<OwnTime>,
}

struct SyntheticSpaceResult {
    /// The best over the optimum at each stage.
    stages: [Quartiles; 3],
    runs: usize,
    /// Runs that end below the median of `YARDSTICK`.
    ahead: usize,
    time: Option<OwnTime>,
}

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
        // Not interpolated, since some of them may be infinite.
        let at = |part: f64| best[((best.len() - 1) as f64 * part).round() as usize];
        Quartiles { low: at(0.25), median: at(0.5), high: at(0.75) }
    }
}

impl SyntheticResult {
    fn mean(&self, stage: usize) -> f64 {
        let logarithms = self.spaces.iter().map(|on| on.stages[stage].median.ln());
        (logarithms.sum::<f64>() / self.spaces.len() as f64).exp()
    }

    /// How many runs end below the median of `YARDSTICK`, and how many there are.
    fn ahead(&self) -> (usize, usize) {
        let sum = |count: &dyn Fn(&SyntheticSpaceResult) -> usize| self.spaces.iter().map(count).sum();
        (sum(&|on| on.ahead), sum(&|on| on.runs))
    }
}

fn open(names: &[String]) -> Result<Vec<Synthetic>, LabError> {
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

fn compare(
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
    let all = each(strategies.len() * spaces.len() * runs, arguments.jobs, one)?;
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

fn text(comparison: &SyntheticComparison) -> String {
    let names = comparison.results.iter().map(|result| result.strategy.len());
    let width = names.max().unwrap_or(0).max(8);
    let mut text = String::new();
    for (number, space) in comparison.spaces.iter().enumerate() {
        let _ = writeln!(text, "{}", title(space));
        text += &header("strategy", width, comparison);
        text.push('\n');
        for SyntheticResult { strategy, spaces, .. } in &comparison.results {
            let on = &spaces[number];
            let stages = on.stages.map(|quartiles| format!("{:>25}", range(quartiles))).concat();
            let ahead = share(on.ahead, on.runs);
            let _ = writeln!(text, "{strategy:width$}{stages}  {ahead:>11}  {:>20}", own_time_text(&on.time));
        }
        text.push('\n');
    }
    if comparison.spaces.len() > 1 {
        text += &overall(comparison, width);
    }
    text += "the best found over the optimum, which is known: the middle run, and the range of the middle half of all \
             runs\n(-: nothing that worked yet); ahead: runs that end below the median of `random`; own time: the \
             strategy's, per proposal\n";
    text
}

fn title(space: &Synthetic) -> String {
    let valid: f64 = space.space.valid().to_string().parse().unwrap_or(f64::INFINITY);
    let about = if space.space.is_exact() { "" } else { "at most " };
    let parameters = space.space.parameters().len();
    format!("{}: {}; {parameters} parameters, {about}{valid:.1e} points", space.name(), space.about())
}

fn header(first: &str, width: usize, comparison: &SyntheticComparison) -> String {
    let stages = comparison.stages.map(|stage| format!("{:>25}", format!("after {stage}"))).concat();
    format!("{first:width$}{stages}  {:>11}  {:>20}", "ahead", "own time median, p95")
}

/// One line per strategy, best first.
fn overall(comparison: &SyntheticComparison, width: usize) -> String {
    let mut ranked: Vec<&SyntheticResult> = comparison.results.iter().collect();
    ranked.sort_by(|one, other| one.mean(2).total_cmp(&other.mean(2)));
    let mut text =
        format!("all spaces: geometric mean of the medians\n{}", header("strategy", width, comparison));
    text += "  worst space\n";
    for result in ranked {
        let stages = [0, 1, 2].map(|stage| format!("{:>25}", number(result.mean(stage)))).concat();
        let (ahead, runs) = result.ahead();
        let finals = result.spaces.iter().map(|on| on.stages[2].median).zip(&comparison.spaces);
        let worst = finals.max_by(|one, other| one.0.total_cmp(&other.0));
        let worst =
            worst.map_or("-".to_string(), |(ratio, space)| format!("{} {}", number(ratio), space.name()));
        let strategy = &result.strategy;
        let (ahead, time) = (share(ahead, runs), own_time_text(&result.time));
        let _ = writeln!(text, "{strategy:width$}{stages}  {ahead:>11}  {time:>20}  {worst}");
    }
    text + "\n"
}

fn range(Quartiles { low, median, high }: Quartiles) -> String {
    format!("{} ({} to {})", number(median), number(low), number(high))
}

fn number(ratio: f64) -> String {
    if ratio.is_finite() { format!("{ratio:.3}") } else { "-".to_string() }
}

fn object(arguments: &BenchSearchArgs, comparison: &SyntheticComparison) -> Value {
    let spaces = comparison.spaces.iter().map(|space| {
        let about = json!({
            "about": space.about(),
            "parameters": space.space.parameters().len(),
            // A text, since it can be too large for every number type.
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
            "own_time": own_time_object(&result.time),
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

fn on_space(on: &SyntheticSpaceResult, comparison: &SyntheticComparison) -> Value {
    let stages = on.stages.iter().zip(comparison.stages).map(|(quartiles, evaluations)| {
        let Quartiles { low, median, high } = quartiles;
        json!({ "evaluations": evaluations, "low": low, "median": median, "high": high })
    });
    json!({
        "best_over_optimum": stages.collect::<Vec<_>>(),
        "better_than_random": on.ahead,
        "runs": on.runs,
        "own_time": own_time_object(&on.time),
    })
}
