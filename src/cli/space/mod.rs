//! `evo space`: how many points a space has, what each constraint removes, samples, lists, neighbors,
//! and why a point is not valid. One question is asked at a time.

mod json;
mod rows;

use std::time::Instant;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use evo_protocol::device::DeviceLimits;
use evo_space::explain::{SpaceShape, ratio};
use evo_space::genome::{Configuration, Genome};
use evo_space::sample::seeded;
use evo_space::space::{Parameter, SearchSpace};
use evo_space::text::counted;
use evo_space::{Neighborhood, Size};
use num_bigint::BigUint;
use serde_json::json;

use self::json::{CheckJson, SpaceAnswer, object};
use super::limits::{LimitArgs, OPENING};
use super::{Answer, Call, CliError, ExitCode, Result, output, words};
use crate::kernel::limits::constraints;
use crate::kernel::lint;
use crate::kernel::spec::{ProblemSpec, ReplacedDefault, SpaceFile};
use crate::report::templates::page;

pub use self::json::SpaceJson;
pub use self::rows::RowsAnswer;

const MAX_SAMPLES: usize = 1_000_000;

pub fn run(arguments: &SpaceArgs, call: &Call) -> Result<Answer> {
    let question = SpaceQuestion::of(arguments)?;
    let start = Instant::now();
    let name = &words::space_name(arguments.space.as_deref())?;
    let file = words::space(name, arguments.limits.access())?;
    let seconds = start.elapsed().as_secs_f64();
    let warnings = file.kernel.as_ref().map_or(Vec::new(), |kernel| {
        lint::warnings(kernel, &file.space.configuration(&file.space.default_genome()))
    });
    let reference = file.kernel.as_ref().and_then(|kernel| kernel.check.reference.command_line());
    let within = match &arguments.device {
        Some(device) => Some(launchable(&file, name, device)?),
        None => None,
    };
    let space = within.as_ref().unwrap_or(&file.space);
    let replaced = file.replaced_default.as_ref();
    let inquiry = SpaceInquiry { arguments, call, name, space, seconds, reference, replaced, warnings };
    match question {
        SpaceQuestion::Summary if arguments.json => {
            return answer(&inquiry, ExitCode::Done, SpaceAnswer::default());
        }
        SpaceQuestion::Summary => {
            output::stdout(&summary(&inquiry))?;
            inquiry.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
        }
        SpaceQuestion::Sample(count) => return sample(&inquiry, count),
        SpaceQuestion::Check(values) => return check(&inquiry, values),
        SpaceQuestion::Neighbors(values) => return rows::print_neighbors(&inquiry, values),
        SpaceQuestion::List => return rows::print(&inquiry),
    }
    Ok(ExitCode::Done.into())
}

fn summary(inquiry: &SpaceInquiry) -> String {
    let space = inquiry.space;
    let domains = space.effective_domains();
    let parameter = |(parameter, domain): (&Parameter, &Vec<u16>)| {
        let (all, occurring) = (parameter.values.len(), domain.len());
        let values = parameter.values.iter().enumerate().map(|(at, value)| {
            let shown = if at == parameter.default { format!("[{value}]") } else { value.to_string() };
            // An empty domain means an empty space; there no value needs to be told from the others.
            let occurs = domain.is_empty() || domain.binary_search(&(at as u16)).is_ok();
            if occurs { shown } else { format!("({shown})") }
        });
        json!({
            "name": parameter.name, "values": values.collect::<Vec<_>>(), "default": parameter.default,
            "help": parameter.help, "is_whole": occurring == all,
            "count": if occurring == all { all.to_string() } else { format!("{occurring}/{all}") },
        })
    };
    let removals = space.removals(&inquiry.arguments.limits.access().watch());
    let constraints = space.constraints().iter().zip(removals).map(|(constraint, removal)| {
        json!({
            "text": constraint.expr.text(), "because": constraint.because, "share": percent(removal.share),
            "is_exact": removal.exact, "failure": removal.failure,
        })
    });
    let cartesian = space.cartesian();
    let values = json!({
        "name": inquiry.name,
        "parameters": space.parameters().iter().zip(&domains).map(parameter).collect::<Vec<_>>(),
        "constraints": constraints.collect::<Vec<_>>(),
        "cartesian": grouped(&cartesian),
        "valid": size(&space.size(), &cartesian),
        "is_valid": space.contains(&space.default_genome()),
        "stated": inquiry.replaced.map(|own| own.stated.to_string()),
        "linked": linked(space.shape()),
        "reference": inquiry.reference,
        "ms": inquiry.seconds * 1e3,
    });
    page("space.txt.j2", &values)
}

fn size(size: &Size, cartesian: &BigUint) -> String {
    match size {
        Size::Exact(valid) => format!("{} ({})", grouped(valid), percent(ratio(valid, cartesian))),
        Size::Unknown { at_most, estimate: 0.0, spread } => {
            let fewer = rounded(*spread);
            format!("at most {}, a sample met none (one in it would mean {fewer})", grouped(at_most))
        }
        Size::Unknown { at_most, estimate, spread } => {
            let (about, spread) = (rounded(*estimate), rounded(*spread));
            format!("at most {}, about {about} (± {spread}, estimated)", grouped(at_most))
        }
    }
}

fn rounded(estimate: f64) -> String {
    if estimate.is_infinite() {
        return "1e308 or more".to_string();
    }
    let shown = format!("{estimate:.2e}");
    let digits = shown.parse::<f64>().unwrap_or(estimate);
    // Beyond this nobody counts zeros.
    if digits < 1e15 { grouped(&BigUint::from(digits.round() as u64)) } else { shown }
}

fn linked(shape: SpaceShape) -> String {
    let SpaceShape { groups, largest, nodes } = shape;
    let nodes = counted(grouped(&nodes.into()), "diagram node");
    match groups {
        0 => format!("no parameters; {nodes}"),
        1 => format!("1 group of {largest} parameters; {nodes}"),
        _ => format!("{groups} groups of parameters, the largest of {largest}; {nodes}"),
    }
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

fn launchable(file: &SpaceFile, name: &str, device: &str) -> Result<SearchSpace> {
    let Some(kernel) = &file.kernel else {
        let text = format!("`{name}` describes no kernel, so no device limits it");
        return Err(CliError::usage(text).with_hint("leave out `--device`"));
    };
    let found = match device {
        "host" => Some(("host", evo_device::host::limits())),
        arch => DeviceLimits::of_arch(arch).map(|limits| ("cuda", limits)),
    };
    let Some((kind, limits)) = found else {
        let text = format!("the limits of `{device}` are not known");
        return Err(
            CliError::usage(text).with_hint("`host`, or an architecture from sm_75 on, such as `sm_90`")
        );
    };
    let runs = |own: &&ProblemSpec| own.device.as_deref().is_none_or(|device| device == kind);
    let problems: Vec<&ProblemSpec> = kernel.problems.iter().filter(runs).collect();
    let (space, replaced) =
        ReplacedDefault::mend(constraints::within(&file.space, &kernel.launches, &problems, &limits));
    if let Some(replaced) = replaced {
        output::say(&format!("note: on `{device}` {}", replaced.note()));
    }
    Ok(space)
}

fn answer(inquiry: &SpaceInquiry, exit: ExitCode, answer: SpaceAnswer) -> Result<Answer> {
    Ok(Answer::text(exit, object(inquiry, answer)?))
}

fn sample(inquiry: &SpaceInquiry, count: usize) -> Result<Answer> {
    if count > MAX_SAMPLES {
        return Err(CliError::usage(format!("--sample takes at most {MAX_SAMPLES}")));
    }
    let (arguments, space) = (inquiry.arguments, inquiry.space);
    let rng = &mut seeded(arguments.seed);
    let fixed = inquiry.fixed()?;
    let genomes = if arguments.stratified {
        space.sample_stratified(count, rng)
    } else if fixed.is_empty() {
        space.sample_distinct(count, rng)
    } else {
        space.fixed(&fixed).sample_distinct(count, rng)
    };
    if genomes.len() < count {
        let few = genomes.len();
        match (space.is_exact(), fixed.is_empty()) {
            (true, true) => eprintln!("note: the space has only {few} valid points"),
            (true, false) => eprintln!("note: with these values there are only {few} valid points"),
            (false, _) => eprintln!("note: the search found only {few} valid points before it gave up"),
        }
    }
    let sample: Vec<Configuration> = genomes.iter().map(|genome| space.configuration(genome)).collect();
    if arguments.json {
        let seed = Some(arguments.seed);
        let sample = SpaceAnswer { seed, sample: Some(sample), ..SpaceAnswer::default() };
        return answer(inquiry, ExitCode::Done, sample);
    }
    output::stdout(&sample.iter().map(|configuration| format!("{configuration}\n")).collect::<String>())?;
    Ok(ExitCode::Done.into())
}

fn check(inquiry: &SpaceInquiry, values: &[String]) -> Result<Answer> {
    let (configuration, genome) = inquiry.point(values)?;
    let check = CheckJson::of(inquiry.space, configuration, &genome);
    let exit = if check.valid { ExitCode::Done } else { ExitCode::Failed };
    if inquiry.arguments.json {
        return answer(inquiry, exit, SpaceAnswer { check: Some(check), ..SpaceAnswer::default() });
    }
    output::stdout(&check.text())?;
    Ok(exit.into())
}

pub struct SpaceInquiry<'a> {
    pub arguments: &'a SpaceArgs,
    pub call: &'a Call,
    pub name: &'a str,
    pub space: &'a SearchSpace,
    /// From the name to the index being ready.
    pub seconds: f64,
    pub reference: Option<String>,
    /// What the default was, where the file states one that is not valid.
    pub replaced: Option<&'a ReplacedDefault>,
    pub warnings: Vec<String>,
}

impl SpaceInquiry<'_> {
    /// Parameters that are not given take their default.
    pub fn point(&self, values: &[String]) -> Result<(Configuration, Genome)> {
        words::point(self.space, self.name, values).map_err(|message| words::bad_point(message, self.name))
    }

    /// The values of `--fix`: parameters and value positions.
    pub fn fixed(&self) -> Result<Vec<(usize, u16)>> {
        words::assignments(self.space.parameters(), &self.arguments.fix)
            .map_err(|message| words::bad_point(message, self.name))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SpaceQuestion<'a> {
    Summary,
    Sample(usize),
    Check(&'a [String]),
    Neighbors(&'a [String]),
    List,
}

impl<'a> SpaceQuestion<'a> {
    /// Options that do not go together are refused.
    pub fn of(arguments: &'a SpaceArgs) -> Result<SpaceQuestion<'a>> {
        let asked = [
            arguments.sample.map(|count| ("--sample", SpaceQuestion::Sample(count))),
            arguments.check.as_ref().map(|values| ("--check", SpaceQuestion::Check(values))),
            arguments.neighbors.as_ref().map(|values| ("--neighbors", SpaceQuestion::Neighbors(values))),
            arguments.list.then_some(("--list", SpaceQuestion::List)),
        ];
        let mut asked = asked.into_iter().flatten();
        let request = match (asked.next(), asked.next()) {
            (None, _) => SpaceQuestion::Summary,
            (Some((_, only)), None) => only,
            (Some((first, _)), Some((second, _))) => {
                let hint = "ask one thing at a time, in two commands";
                return Err(together(first, second, hint));
            }
        };
        arguments.belongs(request)?;
        Ok(request)
    }
}

#[derive(Debug, Args)]
pub struct SpaceArgs {
    /// Space file (TOML or JSON), or the name of an embedded space [default: the folder's only space file, or attention_simt]
    pub space: Option<String>,
    /// Print N random valid configurations
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub sample: Option<usize>,
    /// Seed of the sample
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    pub seed: u64,
    /// With --sample: spread evenly over the canonical order
    #[arg(long)]
    pub stratified: bool,
    /// With --sample or --list: only configurations with these values
    #[arg(long, value_name = "NAME=VALUE", num_args = 1..)]
    pub fix: Vec<String>,
    /// Explain why this configuration is valid or not; missing values take their default
    #[arg(long, value_name = "NAME=VALUE", num_args = 1..)]
    pub check: Option<Vec<String>>,
    /// Print the valid neighbors of a configuration; missing values take their default
    #[arg(long, value_name = "NAME=VALUE", num_args = 0..)]
    pub neighbors: Option<Vec<String>>,
    /// With --neighbors: which points count as neighbors [default: hamming]
    #[arg(long, value_parser = PossibleValuesParser::new(
        NEIGHBOR_KINDS.map(|(name, help, _)| PossibleValue::new(name).help(help)),
    ))]
    pub kind: Option<String>,
    /// Print every valid configuration, in canonical order
    #[arg(long)]
    pub list: bool,
    /// With --list: the format of a row [default: csv]
    #[arg(long, value_enum)]
    pub format: Option<RowFormat>,
    /// Count what this device can launch: `host`, or an architecture such as `sm_90`
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
    /// With --list or --neighbors: print at most N
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub rows: Option<u128>,
    /// With --list: skip the first N
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub offset: Option<u128>,
    #[command(flatten)]
    pub limits: LimitArgs<OPENING>,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

/// Which valid points count as neighbors of a configuration.
pub const NEIGHBOR_KINDS: [(&str, &str, Neighborhood); 4] = [
    ("hamming", "Exactly one parameter differs", Neighborhood::Hamming),
    (
        "hamming-adjacent",
        "One parameter differs, to the nearest valid value on either side",
        Neighborhood::HammingAdjacent,
    ),
    (
        "adjacent",
        "Every parameter stays or moves to the nearest value on either side that occurs in valid points",
        Neighborhood::Adjacent,
    ),
    ("strictly-adjacent", "Every parameter stays or moves by one position", Neighborhood::StrictlyAdjacent),
];

/// What a listed configuration looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
    /// A header with the names, then a line of values each
    Csv,
    /// A JSON object a line
    Jsonl,
    /// NAME=VALUE, as other commands take them
    Text,
}

impl SpaceArgs {
    fn belongs(&self, request: SpaceQuestion) -> Result<()> {
        let sample = matches!(request, SpaceQuestion::Sample(_));
        let neighbors = matches!(request, SpaceQuestion::Neighbors(_));
        let list = request == SpaceQuestion::List;
        let needs = [
            ("--stratified", self.stratified, sample, "--sample"),
            ("--fix", !self.fix.is_empty(), sample || list, "--sample or --list"),
            ("--kind", self.kind.is_some(), neighbors, "--neighbors"),
            ("--format", self.format.is_some(), list, "--list"),
            ("--rows", self.rows.is_some(), list || neighbors, "--list or --neighbors"),
            ("--offset", self.offset.is_some(), list, "--list"),
        ];
        for (option, given, fits, wanted) in needs {
            if given && !fits {
                let wanted = wanted.replace(" or ", "` or `");
                return Err(CliError::usage(format!("`{option}` has no effect here"))
                    .with_hint(format!("it belongs to `{wanted}`")));
            }
        }
        if self.stratified && !self.fix.is_empty() {
            let hint = "a sample with fixed values is always uniform: leave out `--stratified`";
            return Err(together("--stratified", "--fix", hint));
        }
        if self.json && list && self.format.is_some_and(|format| format != RowFormat::Jsonl) {
            return Err(together("--json", "--format", "`--list --json` prints a JSON object a line"));
        }
        Ok(())
    }
}

fn together(first: &str, second: &str, hint: &str) -> CliError {
    CliError::usage(format!("`{first}` and `{second}` do not go together")).with_hint(hint)
}

pub fn grouped(number: &BigUint) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|chunk| std::str::from_utf8(chunk).ok()).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_say_how_sure_they_are() {
        let check = |shown: Size, expected: &str| {
            assert_eq!(size(&shown, &BigUint::from(1_000_000u32)), expected);
        };
        let unknown = |estimate: f64, spread: f64| Size::Unknown {
            at_most: BigUint::from(300_000u32),
            estimate,
            spread,
        };
        check(Size::Exact(BigUint::from(29_000u16)), "29,000 (2.90 %)");
        check(unknown(123_456.7, 98.76), "at most 300,000, about 123,000 (± 99, estimated)");
        check(unknown(1.234e18, 5e16), "at most 300,000, about 1.23e18 (± 5.00e16, estimated)");
        let infinite = "at most 300,000, about 1e308 or more (± 1e308 or more, estimated)";
        check(unknown(f64::INFINITY, f64::INFINITY), infinite);
        check(unknown(0.0, 4.4), "at most 300,000, a sample met none (one in it would mean 4)");
    }
}
