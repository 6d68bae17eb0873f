//! The insight of a study whose `study.json` has none, or one of before its last run.
//!
//! A journal does not hold the space itself, so this takes the points that were tried for the space. That serves for
//! which parameters mattered and for the model's calibration; how random search would have done, and which values were
//! never tried, follow only where all valid points were tried.

use evo_journal::record::StudyHeader;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::VerdictClass;
use evo_search::insight::Insight;
use evo_space::genome::Genome;
use evo_space::space::{Parameter, SearchSpace};
use serde_json::Value as Json;

use super::columns::{TriedParameter, tried};

/// The insight that `study.json` holds, if it is that of these evaluations.
pub fn saved(file: &Json, evaluations: &[Evaluation]) -> Option<Insight> {
    let insight: Insight = serde_json::from_value(file.get("insight")?.clone()).ok()?;
    let telling = |one: &&Evaluation| {
        !matches!(one.verdict.kind.class(), VerdictClass::Harness | VerdictClass::PassedOver)
    };
    (insight.evaluations == evaluations.iter().filter(telling).count()).then_some(insight)
}

/// The insight that the evaluations themselves give; `None` without any.
pub fn computed(header: &StudyHeader, evaluations: &[Evaluation]) -> Option<Insight> {
    let columns = tried(header, evaluations);
    if columns.is_empty() || columns.iter().any(|own| own.values.is_empty()) {
        return None;
    }
    let genome = |one: &Evaluation| -> Option<Genome> {
        let at = |own: &TriedParameter| u16::try_from(own.position(&one.configuration)?).ok();
        Some(Genome::from(columns.iter().map(at).collect::<Option<Vec<u16>>>()?))
    };
    let points: Vec<Genome> = evaluations.iter().filter_map(genome).collect();
    let parameters = columns.iter().map(|own| Parameter {
        name: own.name.as_str().into(),
        values: own.values.clone(),
        default: 0,
        help: None,
    });
    let space = SearchSpace::of_points(parameters.collect(), points);
    let mut insight = Insight::of(&space, evaluations, header.seed);
    insight.untried.clear();
    if space.count().to_string() != header.valid {
        insight.random = None;
    }
    Some(insight)
}
