//! What a search tells a mutator.

use evo_protocol::mutator::{MutatorExpected, MutatorImportance, MutatorKnowledge, MutatorValues};
use evo_search::insight::{ExpectedPoint, Insight, ParameterShare, Values};
use serde_json::json;

/// Points that were never tried, with their expected times.
pub const EXPECTED: usize = 10;

/// What the search tells the mutator.
pub fn knowledge(own: &Insight, expected: Vec<ExpectedPoint>) -> MutatorKnowledge {
    let values = |all: &[Values]| {
        let one = |own: &Values| MutatorValues {
            parameter: own.parameter.clone(),
            values: own.values.iter().map(|value| json!(value)).collect(),
        };
        all.iter().map(one).collect()
    };
    let importance = own.importance.iter().flat_map(|own| &own.parameters);
    let share = |own: &ParameterShare| MutatorImportance { parameter: own.name.clone(), share: own.share };
    let told = |own: ExpectedPoint| MutatorExpected {
        configuration: own.configuration,
        objective_ns: own.objective_ns,
        low_ns: own.low_ns,
        high_ns: own.high_ns,
    };
    MutatorKnowledge {
        evaluations: own.evaluations,
        explained: own.importance.as_ref().map(|own| own.explained),
        importance: importance.map(share).collect(),
        untried: values(&own.untried),
        never_passed: values(&own.never_passed),
        dead: own.dead.iter().map(|own| own.parameter.clone()).collect(),
        expected: expected.into_iter().map(told).collect(),
    }
}
