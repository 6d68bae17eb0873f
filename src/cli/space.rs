//! `evo space`: how many points a space has, what each constraint removes, samples, and why a point
//! is not valid.

use std::fmt::Write as _;
use std::time::Instant;

use num_bigint::BigUint;
use serde::Serialize;
use serde_json::value::RawValue;

use super::args::SpaceArgs;
use super::exit_code::{ExitCode, UsageError};
use super::words;
use crate::genome::{Configuration, Genome};
use crate::kernel::catalog;
use crate::space::explain::{Removal, ratio};
use crate::space::parameter::Parameter;
use crate::space::rng::seeded;
use crate::space::space::SearchSpace;

/// More samples than anybody reads; each is a line.
const MAX_SAMPLES: usize = 1_000_000;

/// Values shown of a parameter with many.
const SHOWN_VALUES: usize = 12;

/// Runs the command.
pub fn run(arguments: &SpaceArgs) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let file = catalog::open(&arguments.source.space).map_err(UsageError::from)?;
    let seconds = start.elapsed().as_secs_f64();
    let space = &file.space;
    let sample = arguments.sample.map(|count| sample(space, count, arguments.seed)).transpose()?;
    let checked = match &arguments.check {
        Some(pairs) => Some(check(&arguments.source.space, pairs)?),
        None => None,
    };
    let code = checked.as_ref().map_or(ExitCode::Done, |checked| checked.exit_code(space));
    let output = if arguments.json {
        json(arguments, space, seconds, sample, checked)?
    } else if let Some(checked) = checked {
        checked.text(space)
    } else if let Some(sample) = sample {
        sample.iter().map(|configuration| format!("{configuration}\n")).collect()
    } else {
        summary(&arguments.source.space, space, seconds)
    };
    super::stdout(&output)?;
    Ok(code)
}

fn sample(space: &SearchSpace, count: usize, seed: u64) -> Result<Vec<Configuration>, UsageError> {
    if count > MAX_SAMPLES {
        return Err(UsageError(format!("--sample takes at most {MAX_SAMPLES}")));
    }
    let genomes = space.sample_distinct(count, &mut seeded(seed));
    if genomes.len() < count {
        eprintln!("note: the space has only {} valid points", genomes.len());
    }
    Ok(genomes.iter().map(|genome| space.configuration(genome)).collect())
}

/// A configuration to be judged.
struct Checked {
    configuration: Configuration,
    genome: Genome,
}

fn check(space: &str, pairs: &[String]) -> anyhow::Result<Checked> {
    let words: Vec<String> = std::iter::once(space.to_string()).chain(pairs.iter().cloned()).collect();
    let (_, configuration, genome) = words::parse(&words)?;
    Ok(Checked { configuration, genome })
}

impl Checked {
    fn exit_code(&self, space: &SearchSpace) -> ExitCode {
        if space.contains(&self.genome) { ExitCode::Done } else { ExitCode::Failed }
    }

    fn text(&self, space: &SearchSpace) -> String {
        let violations = space.explain(&self.genome);
        if violations.is_empty() {
            let index =
                space.index_of(&self.genome).map_or(String::new(), |index| format!("\nindex  {index}"));
            return format!("valid  {}{index}\n", self.configuration);
        }
        let mut text = format!("invalid  {}\n", self.configuration);
        for violation in &violations {
            let _ = writeln!(text, "  violates `{}`", violation.constraint.expr.text());
            if let Some(error) = &violation.error {
                let _ = writeln!(text, "    it has no value here: {}", error.message);
            }
            let _ = writeln!(text, "    where {}", self.values_read(space, &violation.constraint.parameters));
            if let Some(because) = &violation.constraint.because {
                let _ = writeln!(text, "    because {because}");
            }
        }
        let repaired = space.repair(&self.genome, &mut seeded(0));
        if let Some(repaired) = repaired {
            let _ = writeln!(text, "  nearest valid  {}", space.configuration(&repaired));
        }
        text
    }

    fn values_read(&self, space: &SearchSpace, parameters: &[usize]) -> String {
        let pairs = parameters.iter().filter_map(|at| {
            let name = &space.parameters()[*at].name;
            self.configuration.get(name).map(|value| format!("{name}={value}"))
        });
        pairs.collect::<Vec<_>>().join(" ")
    }

    fn json(&self, space: &SearchSpace) -> CheckJson {
        let violations = space.explain(&self.genome);
        let nearest = space.repair(&self.genome, &mut seeded(0)).filter(|_| !violations.is_empty());
        CheckJson {
            configuration: self.configuration.clone(),
            valid: violations.is_empty(),
            index: space.index_of(&self.genome).and_then(|index| raw(&index.into()).ok()),
            violations: violations
                .iter()
                .map(|violation| ViolationJson {
                    require: violation.constraint.expr.text().to_string(),
                    because: violation.constraint.because.clone(),
                    error: violation.error.as_ref().map(|error| error.message.clone()),
                })
                .collect(),
            nearest_valid: nearest.map(|genome| space.configuration(&genome)),
        }
    }
}

fn summary(name: &str, space: &SearchSpace, seconds: f64) -> String {
    let mut text = format!("{name}\n\nparameters\n");
    let width = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let names = width(&mut space.parameters().iter().map(|parameter| parameter.name.len()));
    for parameter in space.parameters() {
        let help = parameter.help.as_ref().map_or(String::new(), |help| format!("  # {help}"));
        let values = values_line(parameter);
        let _ = writeln!(text, "  {:names$}  {:>5}  {values}{help}", parameter.name, parameter.values.len());
    }
    if !space.constraints().is_empty() {
        text.push_str("\nconstraints, with the share of all points that each refuses on its own\n");
    }
    for (constraint, removal) in space.constraints().iter().zip(space.removals()) {
        let about = if removal.exact { ' ' } else { '~' };
        let because = constraint.because.as_ref().map_or(String::new(), |because| format!("  # {because}"));
        let _ = writeln!(text, "  {about}{:>7}  {}{because}", percent(removal.share), constraint.expr.text());
        if let Some(failure) = &removal.failure {
            let _ = writeln!(text, "            has no value at some points, and refuses them: {failure}");
        }
    }
    let cartesian = space.cartesian();
    let share = percent(ratio(space.valid(), &cartesian));
    let default = space.contains(&space.default_genome());
    let _ = writeln!(text, "\ncartesian  {}", grouped(&cartesian));
    let _ = writeln!(text, "valid      {} ({share})", grouped(space.valid()));
    let _ = writeln!(text, "default    {}", if default { "valid" } else { "not valid" });
    let _ = writeln!(text, "ready in   {:.1} ms", seconds * 1e3);
    text
}

/// The values, the default in brackets.
fn values_line(parameter: &Parameter) -> String {
    let count = parameter.values.len();
    let show = |at: usize| {
        let value = &parameter.values[at];
        if at == parameter.default { format!("[{value}]") } else { value.to_string() }
    };
    if count <= SHOWN_VALUES {
        return (0..count).map(show).collect::<Vec<_>>().join(" ");
    }
    let head = (0..SHOWN_VALUES - 2).map(show).collect::<Vec<_>>().join(" ");
    let default = match parameter.default {
        hidden if (SHOWN_VALUES - 2..count - 1).contains(&hidden) => format!(" {} …", show(hidden)),
        _ => String::new(),
    };
    format!("{head} …{default} {}", show(count - 1))
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        0.0 => "0 %".to_string(),
        small if small < 0.01 => "<0.01 %".to_string(),
        most if most > 99.99 && most < 100.0 => ">99.99 %".to_string(),
        _ => format!("{percent:.2} %"),
    }
}

/// Digits in groups of three.
fn grouped(number: &BigUint) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|chunk| std::str::from_utf8(chunk).ok()).collect();
    groups.join(",")
}

#[derive(Serialize)]
struct SpaceJson<'a> {
    space: &'a str,
    /// Number of points, valid or not; an integer of any size.
    cartesian: Box<RawValue>,
    /// Number of valid points; an integer of any size.
    valid: Box<RawValue>,
    /// From the name to the index being ready: reading, counting, and the kernel part if there is one.
    seconds: f64,
    parameters: Vec<ParameterJson<'a>>,
    constraints: Vec<ConstraintJson<'a>>,
    default: Configuration,
    default_is_valid: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sample: Option<Vec<Configuration>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<CheckJson>,
}

#[derive(Serialize)]
struct ParameterJson<'a> {
    name: &'a str,
    values: &'a [crate::space::value::Value],
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<&'a str>,
}

impl<'a> From<&'a Parameter> for ParameterJson<'a> {
    fn from(parameter: &'a Parameter) -> ParameterJson<'a> {
        ParameterJson { name: &parameter.name, values: &parameter.values, help: parameter.help.as_deref() }
    }
}

#[derive(Serialize)]
struct ConstraintJson<'a> {
    require: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<&'a str>,
    /// Share of all points that it refuses on its own, 0 to 1.
    removed_share: f64,
    /// Counted (true) or sampled (false).
    removed_share_exact: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
}

#[derive(Serialize)]
struct CheckJson {
    configuration: Configuration,
    valid: bool,
    index: Option<Box<RawValue>>,
    violations: Vec<ViolationJson>,
    nearest_valid: Option<Configuration>,
}

#[derive(Serialize)]
struct ViolationJson {
    require: String,
    because: Option<String>,
    error: Option<String>,
}

fn json(
    arguments: &SpaceArgs,
    space: &SearchSpace,
    seconds: f64,
    sample: Option<Vec<Configuration>>,
    checked: Option<Checked>,
) -> anyhow::Result<String> {
    let default = space.default_genome();
    let removals = space.removals();
    let constraints = space.constraints().iter().zip(&removals);
    let object = SpaceJson {
        space: &arguments.source.space,
        cartesian: raw(&space.cartesian())?,
        valid: raw(space.valid())?,
        seconds,
        parameters: space.parameters().iter().map(ParameterJson::from).collect(),
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
        seed: sample.as_ref().map(|_| arguments.seed),
        sample,
        check: checked.map(|checked| checked.json(space)),
    };
    Ok(serde_json::to_string(&object)? + "\n")
}

/// An integer of any size as JSON.
fn raw(number: &BigUint) -> serde_json::Result<Box<RawValue>> {
    RawValue::from_string(number.to_string())
}
