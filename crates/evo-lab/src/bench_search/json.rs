//! Scores for programs: one object.

use serde_json::{Value, json};

use super::data::ScoredSpace;
use super::results::{PerRun, SpaceResult, StrategyResult, own_time_object};
use crate::args::BenchSearchArgs;
use crate::score::TargetReached;

/// The whole answer.
pub fn object(arguments: &BenchSearchArgs, results: &[StrategyResult], spaces: &[ScoredSpace]) -> Value {
    let budgets = spaces.iter().map(|space| {
        let yardstick = &space.yardstick;
        let budget = json!({
            "configurations": yardstick.prices.len(),
            "optimum_ns": yardstick.optimum(),
            "start_ms": yardstick.grid[0],
            "end_ms": yardstick.end_ms(),
            "run_until_ms": yardstick.run_until_ms(),
            "random_evaluations": yardstick.evaluations,
        });
        (space.recording.name.clone(), budget)
    });
    let strategies = results.iter().map(|result| (result.strategy.to_string(), strategy(result)));
    json!({
        "runs": arguments.runs,
        "seed": arguments.seed,
        "batch": arguments.batch,
        "in_flight": arguments.in_flight,
        "lanes": arguments.lanes,
        "overhead": !arguments.no_overhead,
        "spaces": budgets.collect::<serde_json::Map<_, _>>(),
        "strategies": strategies.collect::<serde_json::Map<_, _>>(),
    })
}

fn strategy(result: &StrategyResult) -> Value {
    let spaces = result.spaces.iter().map(|on| (on.space.recording.name.clone(), on_space(on)));
    json!({
        "score": result.aggregate.map(|all| all.score),
        "spread": result.aggregate.map(|all| all.spread),
        "own_time": own_time_object(&result.time),
        "spaces": spaces.collect::<serde_json::Map<_, _>>(),
    })
}

fn on_space(on: &SpaceResult) -> Value {
    let [within_5, within_1] = on.score.reached.map(reached);
    json!({
        "score": on.score.score,
        "final": on.score.curve.last(),
        "runs": on.score.runs,
        "within_5_percent": within_5,
        "within_1_percent": within_1,
        "own_time": own_time_object(&on.time),
        "per_run": per_run(on.per_run),
        "lanes": on.on_lanes(|played| played.busy).map(|busy| json!({
            "busy": busy,
            "simulated_s": on.on_lanes(|played| played.simulated_ms / 1e3),
            "own_s": on.on_lanes(|played| played.own_ms / 1e3),
        })),
    })
}

fn per_run(PerRun { distinct, failures, repeats, illegal }: PerRun) -> Value {
    json!({ "distinct": distinct, "failures": failures, "repeats": repeats, "illegal": illegal })
}

fn reached(reached: TargetReached) -> Value {
    json!({ "evaluations_median": reached.evaluations, "runs_stuck": reached.stuck })
}
