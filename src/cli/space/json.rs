//! `evo space --json`: everything known about a space, as one object.

use evo_space::Size;
use evo_space::explain::Removal;
use evo_space::genome::{Configuration, Genome};
use evo_space::sample::seeded;
use evo_space::space::{Parameter, SearchSpace};
use evo_space::value::Value;
use num_bigint::BigUint;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::SpaceInquiry;
use crate::report::templates::page;

#[derive(Serialize, JsonSchema)]
pub struct SpaceJson<'a> {
    space: &'a str,
    /// An integer of any size.
    #[schemars(with = "i64")]
    cartesian: Box<RawValue>,
    /// Number of valid points, an integer of any size; null if it could not be counted.
    #[schemars(with = "Option<i64>")]
    valid: Option<Box<RawValue>>,
    #[serde(flatten)]
    estimate: Option<Estimate>,
    /// Reading, counting, and the kernel part if there is one.
    seconds: f64,
    parameters: Vec<ParameterJson<'a>>,
    constraints: Vec<ConstraintJson<'a>>,
    default: Configuration,
    default_is_valid: bool,
    /// The default that the file states, where the nearest valid point took its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    default_stated: Option<&'a Configuration>,
    groups: usize,
    nodes: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference: Option<&'a str>,
    /// What the file checks less than its author may think.
    warnings: &'a [String],
    #[serde(flatten)]
    answer: SpaceAnswer,
}

#[derive(Serialize, JsonSchema)]
struct Estimate {
    #[schemars(with = "i64")]
    valid_at_most: Box<RawValue>,
    /// Null beyond the range of floats, as the next.
    valid_estimate: f64,
    /// One standard deviation of the estimate; if that is 0, what one hit would have meant.
    valid_spread: f64,
}

pub fn raw(number: &BigUint) -> serde_json::Result<Box<RawValue>> {
    RawValue::from_string(number.to_string())
}

fn estimate(size: Size) -> serde_json::Result<(Option<Box<RawValue>>, Option<Estimate>)> {
    Ok(match size {
        Size::Exact(valid) => (Some(raw(&valid)?), None),
        Size::Unknown { at_most, estimate, spread } => {
            let valid_at_most = raw(&at_most)?;
            (None, Some(Estimate { valid_at_most, valid_estimate: estimate, valid_spread: spread }))
        }
    })
}

#[derive(Default, Serialize, JsonSchema)]
pub struct SpaceAnswer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<Vec<Configuration>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<CheckJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub neighbors: Option<NeighborsJson>,
}

#[derive(Serialize, JsonSchema)]
pub struct NeighborsJson {
    pub of: Configuration,
    pub kind: String,
    /// An integer of any size; null where counting would mean to find them all first.
    #[schemars(with = "Option<u64>")]
    pub count: Option<Box<RawValue>>,
    pub points: Vec<Configuration>,
}

#[derive(Serialize, JsonSchema)]
struct ParameterJson<'a> {
    name: &'a str,
    #[schemars(with = "Vec<serde_json::Value>")]
    values: &'a [Value],
    /// Values that no valid point has.
    #[schemars(with = "Vec<serde_json::Value>")]
    unused: Vec<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<&'a str>,
}

impl<'a> ParameterJson<'a> {
    fn new(parameter: &'a Parameter, occurring: &[u16]) -> ParameterJson<'a> {
        let mut used = vec![false; parameter.values.len()];
        occurring.iter().for_each(|at| used[usize::from(*at)] = true);
        let unused = parameter.values.iter().zip(used).filter(|(_, used)| !used).map(|(value, _)| value);
        ParameterJson {
            name: &parameter.name,
            values: &parameter.values,
            unused: unused.collect(),
            help: parameter.help.as_deref(),
        }
    }
}

#[derive(Serialize, JsonSchema)]
struct ConstraintJson<'a> {
    require: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<&'a str>,
    removed_share: f64,
    /// Counted (true) or sampled (false).
    removed_share_exact: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

pub fn object(inquiry: &SpaceInquiry, answer: SpaceAnswer) -> serde_json::Result<String> {
    let space = inquiry.space;
    let default = space.default_genome();
    let domains = space.effective_domains();
    let removals = space.removals(&inquiry.arguments.limits.access().watch());
    let constraints = space.constraints().iter().zip(&removals);
    let shape = space.shape();
    let (valid, estimate) = estimate(space.size())?;
    let object = SpaceJson {
        space: inquiry.name,
        cartesian: raw(&space.cartesian())?,
        valid,
        estimate,
        seconds: inquiry.seconds,
        parameters: space
            .parameters()
            .iter()
            .zip(&domains)
            .map(|(parameter, domain)| ParameterJson::new(parameter, domain))
            .collect(),
        constraints: constraints
            .map(|(constraint, removal): (_, &Removal)| ConstraintJson {
                require: constraint.expr.text(),
                because: constraint.because.as_deref(),
                removed_share: removal.share,
                removed_share_exact: removal.exact,
                failure: removal.failure.clone(),
            })
            .collect(),
        default: space.configuration(&default),
        default_is_valid: space.contains(&default),
        default_stated: inquiry.replaced.map(|replaced| &replaced.stated),
        groups: shape.groups,
        nodes: shape.nodes,
        reference: inquiry.reference.as_deref(),
        warnings: &inquiry.warnings,
        answer,
    };
    serde_json::to_string(&object)
}

#[derive(Serialize, JsonSchema)]
pub struct CheckJson {
    configuration: Configuration,
    pub valid: bool,
    #[schemars(with = "Option<i64>")]
    index: Option<Box<RawValue>>,
    violations: Vec<ViolationJson>,
    nearest_valid: Option<Configuration>,
}

#[derive(Serialize, JsonSchema)]
struct ViolationJson {
    require: String,
    because: Option<String>,
    error: Option<String>,
    #[serde(skip)]
    values: String,
}

impl CheckJson {
    pub fn of(space: &SearchSpace, configuration: Configuration, genome: &Genome) -> CheckJson {
        let violations = space.explain(genome);
        let nearest = space.repair(genome, &mut seeded(0)).filter(|_| !violations.is_empty());
        let value = |at: &usize| {
            let name = &space.parameters()[*at].name;
            configuration.get(name).map(|value| format!("{name}={value}"))
        };
        let violations = violations.iter().map(|violation| ViolationJson {
            require: violation.constraint.expr.text().to_string(),
            because: violation.constraint.because.clone(),
            error: violation.error.as_ref().map(|error| error.message.clone()),
            values: violation.constraint.parameters.iter().filter_map(value).collect::<Vec<_>>().join(" "),
        });
        CheckJson {
            valid: violations.len() == 0,
            violations: violations.collect(),
            index: space.index_of(genome).and_then(|index| raw(&BigUint::from(index)).ok()),
            nearest_valid: nearest.map(|genome| space.configuration(&genome)),
            configuration,
        }
    }

    pub fn text(&self) -> String {
        let violations = self.violations.iter().map(|own| json!({ "of": own, "values": own.values }));
        let values = json!({
            "valid": self.valid,
            "configuration": self.configuration.to_string(),
            "index": self.index.as_ref().map(|index| index.get()),
            "violations": violations.collect::<Vec<_>>(),
            "nearest": self.nearest_valid.as_ref().map(Configuration::to_string),
        });
        page("check.txt.j2", &values)
    }
}
