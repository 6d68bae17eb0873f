//! The parameters of a study with the values that its evaluations have, in the order of the space.

use std::cmp::Ordering;

use evo_journal::record::StudyHeader;
use evo_protocol::evaluation::Evaluation;
use evo_space::genome::Configuration;
use evo_space::value::Value;

/// A parameter and its tried values.
#[derive(Clone, Debug)]
pub struct TriedParameter {
    pub name: String,
    /// In the order of the space where the header lists it, else from small to large.
    pub values: Vec<Value>,
}

impl TriedParameter {
    /// The position of a configuration's value.
    pub fn position(&self, configuration: &Configuration) -> Option<usize> {
        let value = configuration.get(&self.name)?;
        self.values.iter().position(|own| own == value)
    }
}

/// The parameters of the evaluations that were made.
pub fn tried(header: &StudyHeader, evaluations: &[Evaluation]) -> Vec<TriedParameter> {
    let Some(first) = evaluations.first() else { return Vec::new() };
    let mut all: Vec<TriedParameter> = first
        .configuration
        .iter()
        .map(|(name, _)| TriedParameter { name: name.to_string(), values: Vec::new() })
        .collect();
    for one in evaluations {
        for parameter in &mut all {
            if let Some(value) = one.configuration.get(&parameter.name)
                && !parameter.values.contains(value)
            {
                parameter.values.push(value.clone());
            }
        }
    }
    for parameter in &mut all {
        order(header, parameter);
    }
    all
}

fn order(header: &StudyHeader, parameter: &mut TriedParameter) {
    let defined = header.definition.iter().flat_map(|own| &own.parameters);
    let listed = defined.into_iter().find(|own| own.name == parameter.name).map(|own| own.values.as_slice());
    let place = |value: &Value| {
        let text = value.to_string();
        listed.and_then(|values| values.iter().position(|own| *own == text)).unwrap_or(usize::MAX)
    };
    let by_value = |a: &Value, b: &Value| {
        a.compare(b).unwrap_or_else(|| match (a.as_float(), b.as_float()) {
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            _ => Ordering::Equal,
        })
    };
    parameter.values.sort_by(|a, b| place(a).cmp(&place(b)).then_with(|| by_value(a, b)));
}
