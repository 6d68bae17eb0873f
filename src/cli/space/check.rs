//! `evo space --check`: whether a configuration is valid, and why not.

use std::fmt::Write as _;

use evo_protocol::schema::ConfigurationObject;
use evo_space::genome::{Configuration, Genome};
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use num_bigint::BigUint;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::integers::raw;
use crate::cli::exit_code::ExitCode;

pub struct Checked<'a> {
    pub space: &'a SearchSpace,
    pub configuration: Configuration,
    pub genome: Genome,
}

impl Checked<'_> {
    pub fn exit_code(&self) -> ExitCode {
        if self.space.contains(&self.genome) { ExitCode::Done } else { ExitCode::Failed }
    }

    pub fn text(&self) -> String {
        let violations = self.space.explain(&self.genome);
        if violations.is_empty() {
            let index =
                self.space.index_of(&self.genome).map_or(String::new(), |index| format!("\nindex  {index}"));
            return format!("valid  {}{index}\n", self.configuration);
        }
        let mut text = format!("invalid  {}\n", self.configuration);
        for violation in &violations {
            let _ = writeln!(text, "  violates `{}`", violation.constraint.expr.text());
            if let Some(error) = &violation.error {
                let _ = writeln!(text, "    it has no value here: {}", error.message);
            }
            let _ = writeln!(text, "    where {}", self.values_read(&violation.constraint.parameters));
            if let Some(because) = &violation.constraint.because {
                let _ = writeln!(text, "    because {because}");
            }
        }
        let repaired = self.space.repair(&self.genome, &mut seeded(0));
        if let Some(repaired) = repaired {
            let _ = writeln!(text, "  nearest valid  {}", self.space.configuration(&repaired));
        }
        text
    }

    fn values_read(&self, parameters: &[usize]) -> String {
        let pairs = parameters.iter().filter_map(|at| {
            let name = &self.space.parameters()[*at].name;
            self.configuration.get(name).map(|value| format!("{name}={value}"))
        });
        pairs.collect::<Vec<_>>().join(" ")
    }

    pub fn json(&self) -> CheckJson {
        let violations = self.space.explain(&self.genome);
        let nearest = self.space.repair(&self.genome, &mut seeded(0)).filter(|_| !violations.is_empty());
        CheckJson {
            configuration: self.configuration.clone(),
            valid: violations.is_empty(),
            index: self.space.index_of(&self.genome).and_then(|index| raw(&BigUint::from(index)).ok()),
            violations: violations
                .iter()
                .map(|violation| ViolationJson {
                    require: violation.constraint.expr.text().to_string(),
                    because: violation.constraint.because.clone(),
                    error: violation.error.as_ref().map(|error| error.message.clone()),
                })
                .collect(),
            nearest_valid: nearest.map(|genome| self.space.configuration(&genome)),
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub struct CheckJson {
    #[schemars(with = "ConfigurationObject")]
    configuration: Configuration,
    valid: bool,
    #[schemars(with = "Option<i64>")]
    index: Option<Box<RawValue>>,
    violations: Vec<ViolationJson>,
    #[schemars(with = "Option<ConfigurationObject>")]
    nearest_valid: Option<Configuration>,
}

#[derive(Serialize, JsonSchema)]
struct ViolationJson {
    require: String,
    because: Option<String>,
    error: Option<String>,
}
