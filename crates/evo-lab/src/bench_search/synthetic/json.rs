//! Results on synthetic spaces for programs.

use serde_json::{Value, json};

use super::super::own_time;
use super::compare::{Quartiles, SyntheticComparison, SyntheticSpaceResult};
use crate::args::BenchSearchArgs;
use crate::synthetic::OPTIMUM_NS;

/// The whole answer: one object.
pub fn object(arguments: &BenchSearchArgs, comparison: &SyntheticComparison) -> Value {
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
            "own_time": own_time::object(&result.time),
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
        "own_time": own_time::object(&on.time),
    })
}
