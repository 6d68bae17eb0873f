//! Reads the space and answers the one question that was asked about it.

use std::time::Instant;

use evo_protocol::device::DeviceLimits;
use evo_space::genome::Configuration;
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;

use super::inquiry::{SpaceInquiry, SpaceQuestion};
use super::json::{CheckJson, SpaceAnswer, object};
use super::{rows, summary};
use crate::cli::answer::Answer;
use crate::cli::call::Call;
use crate::cli::error::CliError;
use crate::cli::exit_code::ExitCode;
use crate::cli::output;
use crate::cli::space_args::SpaceArgs;
use crate::cli::words;
use crate::kernel::limits::constraints;
use crate::kernel::lint;
use crate::kernel::spec::{ProblemSpec, ReplacedDefault, SpaceFile};

const MAX_SAMPLES: usize = 1_000_000;

pub fn run(arguments: &SpaceArgs, call: &Call) -> Result<Answer, CliError> {
    let question = SpaceQuestion::of(arguments)?;
    let start = Instant::now();
    let name = &words::space_name(arguments.space.as_deref())?;
    let file = words::space(name, arguments.access.access())?;
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
            output::stdout(&summary::text(&inquiry))?;
            inquiry.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
        }
        SpaceQuestion::Sample(count) => return sample(&inquiry, count),
        SpaceQuestion::Check(values) => return check(&inquiry, values),
        SpaceQuestion::Neighbors(values) => rows::print_neighbors(&inquiry, values)?,
        SpaceQuestion::List => return rows::print(&inquiry),
    }
    Ok(ExitCode::Done.into())
}

fn launchable(file: &SpaceFile, name: &str, device: &str) -> Result<SearchSpace, CliError> {
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

fn answer(inquiry: &SpaceInquiry, exit: ExitCode, answer: SpaceAnswer) -> Result<Answer, CliError> {
    Ok(Answer::text(exit, object(inquiry, answer)?))
}

fn sample(inquiry: &SpaceInquiry, count: usize) -> Result<Answer, CliError> {
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

fn check(inquiry: &SpaceInquiry, values: &[String]) -> Result<Answer, CliError> {
    let (configuration, genome) = inquiry.point(values)?;
    let check = CheckJson::of(inquiry.space, configuration, &genome);
    let exit = if check.valid { ExitCode::Done } else { ExitCode::Failed };
    if inquiry.arguments.json {
        return answer(inquiry, exit, SpaceAnswer { check: Some(check), ..SpaceAnswer::default() });
    }
    output::stdout(&check.text())?;
    Ok(exit.into())
}
