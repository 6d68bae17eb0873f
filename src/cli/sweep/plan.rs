//! The plan of a sweep: its arguments after every check that needs neither a compiler nor a device. Nothing
//! is written while a plan is made.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use evo_search::registry::{self, StrategyOptions};
use evo_search::strategy::Strategy;
use evo_space::space::SearchSpace;

use super::live::LiveSubject;
use super::prior::{Prior, PriorSource};
use super::replayed::ReplayedSubject;
use crate::budget::Budget;
use crate::cli::args::SweepArgs;
use crate::cli::error::CliError;
use crate::cli::seed;
use crate::engine::Options;
use crate::replay::device::PREFIX;
use crate::study::{StudyRequest, resumed_seed};

/// A search that would not end by itself gets this many generations.
const DEFAULT_GENERATIONS: u32 = 50;

/// Everything that a sweep was asked to do.
pub struct SweepPlan {
    pub subject: SweepSubject,
    /// The strategy's name; known to exist.
    pub strategy: String,
    /// The user's, the resumed study's, or a random one.
    pub seed: u64,
    /// Evaluations in a generation.
    pub population: NonZeroU32,
    pub budget: Budget,
    /// How many of the best are confirmed; a replay has nothing to confirm them with.
    pub finalists: usize,
    pub run_all: bool,
    pub prior: PriorSource,
    /// The evidence folder.
    pub out: PathBuf,
    study: Option<String>,
    default_study: String,
    resume: bool,
    /// Events and the result as JSON lines.
    pub json: bool,
}

/// What is searched, and who answers.
pub enum SweepSubject {
    Live(Box<LiveSubject>),
    Replayed(Box<ReplayedSubject>),
}

impl SweepSubject {
    /// The space to search.
    pub fn space(&self) -> &SearchSpace {
        match self {
            SweepSubject::Live(live) => &live.file.space,
            SweepSubject::Replayed(replayed) => &replayed.recording.space,
        }
    }

    /// The kernel's name.
    pub fn kernel(&self) -> &str {
        match self {
            SweepSubject::Live(live) => live.kernel_name(),
            SweepSubject::Replayed(replayed) => &replayed.recording.kernel,
        }
    }

    fn default_study(&self) -> String {
        match self {
            SweepSubject::Live(live) => live.default_study(),
            SweepSubject::Replayed(replayed) => replayed.default_study(),
        }
    }
}

impl SweepPlan {
    /// Checks all arguments.
    pub fn of(arguments: &SweepArgs) -> Result<SweepPlan, CliError> {
        let population = NonZeroU32::new(arguments.population)
            .ok_or_else(|| CliError::usage("`--pop 0`: a generation has at least one evaluation"))?;
        let subject = match arguments.device.strip_prefix(PREFIX) {
            Some(recording) => {
                let replayed = ReplayedSubject::open(arguments, Path::new(recording))?;
                SweepSubject::Replayed(Box::new(replayed))
            }
            None => SweepSubject::Live(Box::new(LiveSubject::open(arguments)?)),
        };
        let default_strategy = registry::default_name(subject.space().count());
        let strategy = arguments.strategy.as_deref().unwrap_or(default_strategy);
        registry::check(strategy)?;
        let prior = match (arguments.prior.as_slice(), arguments.no_prior) {
            ([], true) => PriorSource::Nothing,
            ([], false) => PriorSource::Beside,
            (paths, _) => PriorSource::Named(Prior::open(paths, subject.space())?),
        };
        let finalists = match subject {
            SweepSubject::Live(_) => arguments.finalists,
            SweepSubject::Replayed(_) => 0,
        };
        let mut plan = SweepPlan {
            strategy: strategy.to_string(),
            seed: 0,
            population,
            budget: budget(arguments, strategy)?,
            finalists,
            run_all: arguments.run_all,
            prior,
            out: arguments.out.clone(),
            study: arguments.study.clone(),
            default_study: subject.default_study(),
            resume: arguments.resume,
            json: arguments.json,
            subject,
        };
        plan.request().check()?;
        plan.seed = match arguments.seed.or_else(|| resumed_seed(&plan.request())) {
            Some(seed) => seed,
            None => seed::random()?,
        };
        Ok(plan)
    }

    /// Where the study should live.
    pub fn request(&self) -> StudyRequest<'_> {
        StudyRequest {
            out: &self.out,
            name: self.study.as_deref(),
            default_name: &self.default_study,
            resume: self.resume,
        }
    }

    /// The strategy, at its beginning.
    pub fn strategy(&self) -> Result<Box<dyn Strategy + '_>, CliError> {
        let options = StrategyOptions { seed: self.seed, population: self.population.get() as usize };
        Ok(registry::create(&self.strategy, self.subject.space(), options)?)
    }

    /// Limits and sizes for the engine.
    pub fn options(&self) -> Options {
        Options {
            budget: self.budget.clone(),
            population: self.population,
            finalists: self.finalists,
            valid: self.subject.space().count(),
            run_all: self.run_all,
        }
    }
}

fn budget(arguments: &SweepArgs, strategy: &str) -> Result<Budget, CliError> {
    let mut budget = Budget { generations: arguments.generations, ..Budget::default() };
    if budget.generations == Some(0) {
        return Err(CliError::usage("`--gen 0`: nothing would be evaluated"));
    }
    if let Some(text) = &arguments.budget {
        budget = budget.with_limit(text)?;
    }
    if strategy != "exhaustive" && budget == Budget::default() {
        budget.generations = Some(DEFAULT_GENERATIONS);
    }
    Ok(budget)
}
