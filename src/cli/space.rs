//! `evo space`: how many points a space has, what each constraint removes, samples, lists, neighbors,
//! and why a point is not valid.

mod check;
mod json;
mod neighbors;
mod request;
mod rows;
mod stream;
mod summary;

use std::time::Instant;

use evo_space::genome::{Configuration, Genome};
use evo_space::rng::seeded;
use evo_space::space::SearchSpace;

use self::request::Request;
use super::args::SpaceArgs;
use super::exit_code::{ExitCode, UsageError};
use super::words;
use crate::kernel::catalog;

/// More samples than anybody reads; each is a line.
const MAX_SAMPLES: usize = 1_000_000;

/// More lines than this are announced on stderr.
const MANY_LINES: u128 = 1_000_000;

/// A space, and what was asked about it.
struct Job<'a> {
    arguments: &'a SpaceArgs,
    /// As the command line calls it.
    name: &'a str,
    space: &'a SearchSpace,
    /// From the name to the index being ready.
    seconds: f64,
}

/// Runs the command.
pub fn run(arguments: &SpaceArgs) -> anyhow::Result<ExitCode> {
    let request = Request::of(arguments)?;
    let start = Instant::now();
    let name = arguments.source.space.as_str();
    let file = catalog::open(name).map_err(UsageError::from)?;
    let seconds = start.elapsed().as_secs_f64();
    let job = Job { arguments, name, space: &file.space, seconds };
    match request {
        Request::Summary if arguments.json => job.print_json(json::Answer::default())?,
        Request::Summary => super::stdout(&summary::text(&job))?,
        Request::Sample(count) => job.sample(count)?,
        Request::Check(values) => return job.check(values),
        Request::Neighbors(values) => job.neighbors(values)?,
        Request::List => job.list()?,
    }
    Ok(ExitCode::Done)
}

impl Job<'_> {
    fn print_json(&self, answer: json::Answer) -> anyhow::Result<()> {
        super::stdout(&(json::object(self, answer)? + "\n"))
    }

    fn sample(&self, count: usize) -> anyhow::Result<()> {
        if count > MAX_SAMPLES {
            return Err(UsageError(format!("--sample takes at most {MAX_SAMPLES}")).into());
        }
        let rng = &mut seeded(self.arguments.seed);
        let fixed = self.fixed()?;
        let genomes = if self.arguments.stratified {
            self.space.sample_stratified(count, rng)
        } else if fixed.is_empty() {
            self.space.sample_distinct(count, rng)
        } else {
            self.space.fixed(&fixed).sample_distinct(count, rng)
        };
        if genomes.len() < count {
            let few = genomes.len();
            match (self.space.is_exact(), fixed.is_empty()) {
                (true, true) => eprintln!("note: the space has only {few} valid points"),
                (true, false) => eprintln!("note: with these values there are only {few} valid points"),
                (false, _) => eprintln!("note: the search found only {few} valid points before it gave up"),
            }
        }
        let sample: Vec<Configuration> =
            genomes.iter().map(|genome| self.space.configuration(genome)).collect();
        if self.arguments.json {
            let seed = Some(self.arguments.seed);
            return self.print_json(json::Answer { seed, sample: Some(sample), ..Default::default() });
        }
        super::stdout(&sample.iter().map(|configuration| format!("{configuration}\n")).collect::<String>())
    }

    fn check(&self, values: &[String]) -> anyhow::Result<ExitCode> {
        let (configuration, genome) = self.point(values)?;
        let checked = check::Checked { space: self.space, configuration, genome };
        if self.arguments.json {
            self.print_json(json::Answer { check: Some(checked.json()), ..Default::default() })?;
        } else {
            super::stdout(&checked.text())?;
        }
        Ok(checked.exit_code())
    }

    /// The point that some values mean; what is not given takes its default.
    fn point(&self, values: &[String]) -> Result<(Configuration, Genome), UsageError> {
        words::point(self.space, self.name, values)
            .map_err(|message| UsageError(words::with_hint(message, self.name)))
    }

    /// What `--fix` says: parameters and value positions.
    fn fixed(&self) -> Result<Vec<(usize, u16)>, UsageError> {
        words::assignments(self.space.parameters(), &self.arguments.fix)
            .map_err(|message| UsageError(words::with_hint(message, self.name)))
    }
}
