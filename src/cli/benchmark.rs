//! `evo benchmark`: one configuration through every gate, its time, and its time beside the default configuration's in
//! the same run.

use serde_json::Value;

use super::aim::Aim;
use super::answer::Answer;
use super::call::Call;
use super::error::CliError;
use super::one_args::TestOneArgs;
use super::trial::{self, Bench};
use super::verdict_answer;
use crate::engine::single;
use crate::report::benchmark::{self, Compared, Measured};

/// Runs the command.
pub fn run(arguments: &TestOneArgs, call: &Call) -> Result<Answer, CliError> {
    let tried = trial::run(arguments, call, Aim::Times, against_default)?;
    let (single, device) = (&tried.single, tried.device.as_ref());
    let measured = Measured {
        evaluation: &single.evaluation,
        plans: tried.job.as_ref().map(|job| &job.timed[..]).unwrap_or_default(),
        mode: tried.mode,
        device,
        is_persistent: tried.is_persistent,
        compared: tried.found.as_ref(),
    };
    let mut own = crate::report::single::json(&tried.setting, &single.evaluation, &single.attributes);
    let figures = benchmark::fields(&measured);
    if let (Value::Object(own), Value::Object(fields)) = (&mut own, figures.fields) {
        own.extend(fields);
    }
    let text = benchmark::text(&own);
    let mut answer = verdict_answer::show(arguments, call, &tried, Aim::Times, own, &text)?;
    answer.reasons.extend(figures.reasons);
    if let (Some(Value::Object(result)), Value::Object(flat)) = (&mut answer.result, figures.flat) {
        result.extend(flat);
    }
    Ok(answer)
}

/// The comparison with the default configuration.
pub fn against_default(bench: &mut Bench<'_>) -> Result<Compared, CliError> {
    let space = &bench.file.space;
    let (genome, configuration) = (space.default_genome(), space.configuration(&space.default_genome()));
    let mut compared = Compared::with(configuration.clone());
    if let Some(refused) = single::constraint_verdict(space, &configuration) {
        compared.missing =
            Some(format!("the default configuration is not valid: {}", refused.verdict.message));
        return Ok(compared);
    }
    let setup = bench.setup;
    let judged =
        single::job(bench.recipe, genome, configuration, false, |prepared| trial::compile(setup, prepared))?;
    let (begun, baseline) = match judged {
        Ok(pair) => pair,
        Err(refused) => {
            compared.missing =
                Some(format!("the default configuration is refused: {}", refused.verdict.label()));
            return Ok(compared);
        }
    };
    let judged = begun.judged(bench.lane.evaluate(&baseline, &Default::default()));
    if judged.lost {
        return Err(CliError::device("the device was lost while the default configuration was judged"));
    }
    if !judged.evaluation.may_rank() {
        let label = judged.evaluation.verdict.label();
        compared.missing = Some(format!("the default configuration does not pass its gates: {label}"));
        return Ok(compared);
    }
    let against = single::compare(bench.lane, &baseline, bench.job, bench.job.timed.len());
    compared.noise_floor = against.noise_floor;
    compared.problems = against.problems;
    Ok(compared)
}
