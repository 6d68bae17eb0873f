//! The `result` of `evo evaluate`: verdict, score and decision, and what they rest on. What is not known is null, with
//! its reason.

use std::collections::BTreeMap;

use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::PairedProblem;
use evo_protocol::measurement::Measurement;
use evo_protocol::plan::ProblemPlan;
use serde_json::{Value, json};

use super::benchmark::{Told, blocks};
use evo_timing::acceptance::{RivalDecision, Ruling};

/// A candidate as far as it was judged.
#[derive(Debug)]
pub struct Evaluated<'a> {
    /// Absent before there is a verdict.
    pub evaluation: Option<&'a Evaluation>,
    pub correct: bool,
    /// Absent before it is decided.
    pub ruling: Option<&'a Ruling>,
    /// Weighted geometric mean speed-up over the canonical problems.
    pub score: Option<f64>,
    /// Why there is no comparison.
    pub not_compared: &'a str,
    pub problems: Vec<EvaluatedProblem<'a>>,
    /// The bottleneck that a profiler names, or why none is known.
    pub bottleneck: Result<String, String>,
    pub next_step: String,
}

/// One timed problem.
#[derive(Debug)]
pub struct EvaluatedProblem<'a> {
    pub plan: &'a ProblemPlan,
    pub canonical: bool,
    /// In the mode that ranks.
    pub time: Option<&'a Measurement>,
    pub pair: Option<&'a PairedProblem>,
    /// The least time that the device's peaks allow over the measured one.
    pub roofline_ratio: Option<f64>,
}

/// An object and why some of its fields are null, by dotted path.
pub type Reasoned = (Value, BTreeMap<String, String>);

const NOT_PASSED: &str = "the candidate did not pass, and a failure has no number";
const NOT_YET: &str = "the command ended before it was known";
const NOT_REPORTED: &str = "the compiler does not report it; the host's reports no registers";
const NO_PEAK: &str = "the work of a call or the peaks of the device are not known";
/// Bytes of a log that are shown.
const LOG_MAX: usize = 8 << 10;

/// The result as it is known.
pub fn result(own: &Evaluated<'_>) -> Reasoned {
    let mut told = Told::default();
    let verdict = own.evaluation.map(|one| &one.verdict);
    told.tell("verdict", verdict.map(|own| json!(own.kind)), NOT_YET);
    told.tell("class", verdict.map(|own| json!(own.kind.class())), NOT_YET);
    let cause = verdict.and_then(|own| own.cause.as_ref()).map(|cause| json!(cause));
    told.tell(
        "cause",
        cause,
        if verdict.is_some() { "the verdict has no cause beyond its name" } else { NOT_YET },
    );
    told.tell("message", verdict.map(|own| json!(own.message)), NOT_YET);
    told.tell("correct", verdict.map(|_| json!(own.correct)), NOT_YET);
    let score = own.score.filter(|score| own.correct && score.is_finite());
    told.tell("score", score.map(Value::from), if own.correct { own.not_compared } else { NOT_PASSED });
    let accepted = own.ruling.map(|own| json!(own.decision == RivalDecision::Keep));
    told.tell("accepted", accepted, NOT_YET);
    told.tell("decision", own.ruling.map(|own| json!(own.decision)), NOT_YET);
    told.tell("why", own.ruling.map(|own| json!(own.why)), NOT_YET);
    let problems: Vec<Value> =
        own.problems.iter().enumerate().map(|(at, one)| problem(own, at, one, &mut told)).collect();
    told.tell("problems", Some(problems.into()), NOT_YET);
    told.tell("gates", Some(json!(own.evaluation.map(|one| &one.gates[..]).unwrap_or_default())), NOT_YET);
    let resources = own.evaluation.map(|one| &one.resources[..]).unwrap_or_default();
    let resources = json!(resources);
    for (at, entry) in resources.as_array().into_iter().flatten().enumerate() {
        let absent = entry.as_object().into_iter().flatten().filter(|(_, value)| value.is_null());
        told.reasons.extend(absent.map(|(name, _)| (format!("resources.{at}.{name}"), NOT_REPORTED.into())));
    }
    told.tell("resources", Some(resources), NOT_YET);
    let (bottleneck, unknown) = match &own.bottleneck {
        Ok(word) => (Some(Value::from(word.as_str())), ""),
        Err(why) => (None, why.as_str()),
    };
    told.tell("bottleneck", bottleneck, unknown);
    let log = own.evaluation.and_then(log_tail);
    told.tell("log_tail", log.map(Value::from), "nothing was logged");
    told.tell("next_step", Some(own.next_step.as_str().into()), NOT_YET);
    let reasons = told.reasons.into_iter().map(|(name, why)| (format!("result.{name}"), why)).collect();
    (Value::Object(told.fields), reasons)
}

fn problem(own: &Evaluated<'_>, at: usize, one: &EvaluatedProblem<'_>, all: &mut Told) -> Value {
    let mut told = Told::default();
    let absent = if own.correct { own.not_compared } else { NOT_PASSED };
    let time = one.time.filter(|_| own.correct);
    let p50_ns = time.map(|own| own.p50_ns);
    told.tell("problem", Some(one.plan.name.as_str().into()), "");
    told.tell("sizes", Some(json!(one.plan.sizes)), "");
    told.tell("canonical", Some(one.canonical.into()), "");
    told.number("p50_ns", p50_ns, NOT_PASSED);
    told.number("p90_ns", time.map(|own| own.p90_ns), NOT_PASSED);
    let pair = one.pair.filter(|_| own.correct);
    told.number("against_p50_ns", pair.map(|pair| pair.baseline_ns), absent);
    // The comparison has the candidate's time over the rival's; a speed-up is its inverse.
    told.number("speedup", pair.map(|pair| 1.0 / pair.ratio), absent);
    told.number("speedup_low", pair.map(|pair| 1.0 / pair.ratio_high), absent);
    told.number("speedup_high", pair.map(|pair| 1.0 / pair.ratio_low), absent);
    told.tell("decision", pair.map(|pair| json!(pair.decision)), absent);
    let unknown = if time.is_some() { NO_PEAK } else { NOT_PASSED };
    let tflops = one.plan.flops.zip(p50_ns).map(|(flops, time)| flops / time / 1e3);
    told.number("tflops", tflops, unknown);
    told.number("roofline_ratio", one.roofline_ratio.filter(|_| time.is_some()), unknown);
    told.tell("ctas", Some(blocks(one.plan).into()), "");
    let reasons = told.reasons.into_iter().map(|(name, why)| (format!("problems.{at}.{name}"), why));
    all.reasons.extend(reasons);
    Value::Object(told.fields)
}

/// The end of what a compiler or a worker said.
fn log_tail(evaluation: &Evaluation) -> Option<String> {
    let evidence = &evaluation.verdict.evidence;
    let log = ["log", "log_tail"].iter().find_map(|name| evidence.get(name)?.as_str())?;
    let mut from = log.len().saturating_sub(LOG_MAX);
    while !log.is_char_boundary(from) {
        from += 1;
    }
    Some(log[from..].to_string()).filter(|log| !log.is_empty())
}

/// The decision for people, a line each.
pub fn text(result: &Value, rival: &str) -> String {
    let mut text = String::new();
    for one in result["problems"].as_array().into_iter().flatten() {
        let (Some(speedup), Some(low), Some(high)) =
            (one["speedup"].as_f64(), one["speedup_low"].as_f64(), one["speedup_high"].as_f64())
        else {
            continue;
        };
        let name = one["problem"].as_str().unwrap_or_default();
        text += &format!("  {name:<20} {speedup:.3}x  95 % [{low:.3}, {high:.3}] over {rival}\n");
    }
    if let Some(score) = result["score"].as_f64() {
        text += &format!("score    {score:.3}x over the {rival}, paired in fresh processes\n");
    }
    let word = |name: &str| result[name].as_str().unwrap_or("?").to_string();
    text + &format!("decision {}: {}\nnext     {}\n", word("decision"), word("why"), word("next_step"))
}

#[cfg(test)]
mod tests {
    use evo_protocol::verdict::{Verdict, VerdictKind};
    use evo_space::genome::Configuration;

    use super::*;
    use evo_journal::example as fake;
    use evo_supervise::job::example;

    #[test]
    fn a_failure_has_no_number_and_every_null_a_reason() {
        let verdict = Verdict::new(VerdictKind::WrongAnswer, "off").with("log", "é".repeat(LOG_MAX));
        let evaluation = fake::evaluation(0, Configuration::new(Vec::new()), "user", verdict);
        let plan = example::plan("p", 1.0);
        let problem =
            EvaluatedProblem { plan: &plan, canonical: true, time: None, pair: None, roofline_ratio: None };
        let own = Evaluated {
            evaluation: Some(&evaluation),
            correct: false,
            ruling: None,
            score: Some(2.0),
            not_compared: "no",
            problems: vec![problem],
            bottleneck: Err("no".into()),
            next_step: "go".into(),
        };
        let (result, reasons) = super::result(&own);
        assert_eq!((&result["score"], &result["correct"]), (&Value::Null, &false.into()));
        assert!(result["log_tail"].as_str().unwrap().len() <= LOG_MAX);
        for (name, value) in result.as_object().unwrap() {
            assert_eq!(value.is_null(), reasons.contains_key(&format!("result.{name}")), "{name}");
        }
        for (name, value) in result["problems"][0].as_object().unwrap() {
            let path = format!("result.problems.0.{name}");
            assert_eq!(value.is_null(), reasons.contains_key(&path), "{name}");
        }
    }
}
