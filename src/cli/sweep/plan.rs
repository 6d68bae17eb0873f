//! The plan of a sweep: its arguments after every check that needs neither a compiler nor a device. Nothing
//! is written while a plan is made.

use std::num::NonZeroU32;
use std::path::Path;

use evo_protocol::device::{DeviceInfo, DeviceKind};
use evo_protocol::verdict::VERDICT_VERSION;
use evo_search::registry;
use evo_search::strategy::Strategy;
use evo_space::space::SearchSpace;

use super::search::{EXHAUSTIVE, Prior, choose_strategy};
use super::subject::{LiveSubject, ReplayedSubject, sanitize_plan};
use crate::budget::{Budget, CommandClock};
use crate::cli::args::{ResumeMode, SweepArgs};
use crate::cli::{CliError, Result, cache, seed};
use crate::engine::{Options, SanitizePlan};
use crate::journal::record::{FORMAT, StudyHeader, now};
use crate::kernel::limits::constraints::DeviceSpace;
use crate::replay::device::PREFIX;
use crate::study::{StudyRequest, StudyWish, resumed};

/// A search that would not end by itself gets this many generations.
const DEFAULT_GENERATIONS: u32 = 50;

type AskedBudget = (Option<String>, Option<u32>);

pub struct SweepPlan<'a> {
    pub arguments: &'a SweepArgs,
    pub subject: SweepSubject,
    pub options: Options,
    pub strategy: String,
    pub choice: Option<String>,
    /// What differs from the run that is resumed, because the user wants it so.
    pub changes: Vec<String>,
    /// The user's, the resumed study's, or a random one.
    pub seed: u64,
    /// As the user gave it, or as the run had it that is continued.
    pub asked: AskedBudget,
    /// Searches for the best configuration of each problem: the user's wish, or the resumed study's.
    pub per_problem: bool,
    /// What the user names; else it is looked for beside the study.
    pub prior: Option<Prior>,
    default_study: String,
}

pub enum SweepSubject {
    Live(Box<LiveSubject>),
    Replayed(Box<ReplayedSubject>),
}

impl SweepSubject {
    pub fn space(&self) -> &SearchSpace {
        match self {
            SweepSubject::Live(live) => live.space(),
            SweepSubject::Replayed(replayed) => &replayed.recording.space,
        }
    }

    pub fn within(&self) -> Option<&DeviceSpace> {
        match self {
            SweepSubject::Live(live) => live.within.as_ref(),
            SweepSubject::Replayed(_) => None,
        }
    }

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

impl SweepPlan<'_> {
    pub fn of(arguments: &SweepArgs, clock: CommandClock) -> Result<SweepPlan<'_>> {
        let population = NonZeroU32::new(arguments.population)
            .ok_or_else(|| CliError::usage("`--pop 0`: a generation has at least one evaluation"))?;
        let subject = match arguments.device.strip_prefix(PREFIX) {
            Some(recording) => {
                let replayed = ReplayedSubject::open(arguments, Path::new(recording))?;
                SweepSubject::Replayed(Box::new(replayed))
            }
            None => SweepSubject::Live(Box::new(LiveSubject::open(arguments)?)),
        };
        arguments.strategy.as_deref().map_or(Ok(()), registry::check)?;
        let prior = match arguments.prior.as_slice() {
            [] => None,
            paths => Some(Prior::open(paths, subject.space())?),
        };
        // A replay has nothing to confirm finalists with.
        let (finalists, sanitize) = match &subject {
            SweepSubject::Live(live) => {
                (arguments.finalists, sanitize_plan(arguments.sanitize, live.demands_sanitizer())?)
            }
            SweepSubject::Replayed(_) => (0, SanitizePlan::default()),
        };
        let asked = (arguments.budget.clone(), arguments.generations);
        let options = Options {
            budget: budget(arguments, &asked)?,
            clock,
            population,
            finalists,
            valid: subject.space().count(),
            run_all: arguments.run_all,
            remeasure: arguments.remeasure,
            sanitize,
        };
        let mut plan = SweepPlan {
            arguments,
            options,
            strategy: String::new(),
            choice: None,
            changes: Vec::new(),
            seed: 0,
            asked,
            per_problem: arguments.per_problem,
            prior,
            default_study: subject.default_study(),
            subject,
        };
        plan.request().check()?;
        let (before, done) = resumed(&plan.request()).unzip();
        plan.changes = before.as_ref().map_or_else(Vec::new, |before| changes(arguments, before));
        if let Some(before) = before.as_ref().filter(|_| plan.asked == (None, None)) {
            plan.keep_budget(before)?;
        }
        plan.seed = match arguments.seed.or_else(|| before.as_ref().map(|before| before.seed)) {
            Some(seed) => seed,
            None => seed::random()?,
        };
        plan.per_problem |= before.as_ref().is_some_and(|before| before.per_problem);
        plan.choose_strategy(done.unwrap_or(0));
        Ok(plan)
    }

    /// That of the run that is continued, where the user gives none.
    fn keep_budget(&mut self, before: &StudyHeader) -> Result<()> {
        self.asked = (before.budget.clone(), before.generations);
        self.options.budget = budget(self.arguments, &self.asked)?;
        let (limit, generations) = &self.asked;
        let limit = limit.iter().map(|text| format!("`--budget {text}`"));
        let words: Vec<String> = limit.chain(generations.map(|count| format!("`--gen {count}`"))).collect();
        let told = format!("the budget is that of the run before: {}", words.join(" "));
        self.changes.extend((!words.is_empty()).then_some(told));
        Ok(())
    }

    fn choose_strategy(&mut self, done: u64) {
        self.strategy = match &self.arguments.strategy {
            Some(name) => name.clone(),
            None => {
                let kind = match &self.subject {
                    SweepSubject::Live(live) => live.setup.choice.kind,
                    SweepSubject::Replayed(_) => DeviceKind::Replay,
                };
                let (valid, population) = (self.options.valid, self.options.population.get());
                let choice = choose_strategy((valid, done), kind, &self.options.budget, population);
                self.choice = Some(choice.why);
                choice.strategy.to_string()
            }
        };
        if self.strategy != EXHAUSTIVE && self.options.budget == Budget::default() {
            self.options.budget.generations = Some(DEFAULT_GENERATIONS);
        }
    }

    pub fn request(&self) -> StudyRequest<'_> {
        StudyRequest {
            out: &self.arguments.out,
            name: self.arguments.study.as_deref(),
            default_name: &self.default_study,
            wish: wish(self.arguments),
        }
    }

    /// The header of a study on that device which does not say yet what is compiled and judged.
    pub fn header(&self, device: DeviceInfo) -> StudyHeader {
        StudyHeader {
            format: FORMAT,
            verdict_version: VERDICT_VERSION,
            evo: env!("CARGO_PKG_VERSION").to_string(),
            kernel: self.subject.kernel().to_string(),
            valid: self.options.valid.to_string(),
            seed: self.seed,
            strategy: self.strategy.clone(),
            budget: self.asked.0.clone(),
            generations: self.asked.1,
            population: self.options.population.get(),
            demands_sanitizer: self.options.sanitize.demanded,
            device,
            environment: cache::look(),
            started_at: now(),
            // The study's own name is known once its folder is.
            ..StudyHeader::default()
        }
    }

    pub fn strategy(&self) -> Result<Box<dyn Strategy + '_>> {
        Ok(registry::create(&self.strategy, self.subject.space(), self.seed)?)
    }
}

fn wish(arguments: &SweepArgs) -> StudyWish {
    // Whoever asks for anything of their own means a new search.
    let is_plain = arguments.seed.is_none()
        && arguments.strategy.is_none()
        && !arguments.remeasure
        && !arguments.per_problem
        && !arguments.no_prior
        && !arguments.no_micro
        && arguments.prior.is_empty();
    match arguments.resume {
        Some(ResumeMode::Existing) => StudyWish::Resume,
        Some(ResumeMode::OrBegin) => StudyWish::ResumeOrBegin,
        None if is_plain => StudyWish::BeginUnlessComplete,
        None => StudyWish::Begin,
    }
}

fn changes(arguments: &SweepArgs, before: &StudyHeader) -> Vec<String> {
    let seed = arguments.seed.filter(|seed| *seed != before.seed).map(|seed| {
        format!("the study was searched with seed {} before; from now on with {seed}", before.seed)
    });
    let strategy = arguments.strategy.as_ref().filter(|name| **name != before.strategy);
    let strategy = strategy.map(|name| {
        format!("the study was searched by `{}` before; from now on by `{name}`", before.strategy)
    });
    let apart = (arguments.per_problem && !before.per_problem).then(|| {
        "the study was searched for the least mean before; from now on for the best of each problem; what was too slow in \
         the mean is not measured again, as a new study (`--study NAME`) would"
            .to_string()
    });
    seed.into_iter().chain(strategy).chain(apart).collect()
}

fn budget(arguments: &SweepArgs, (limit, generations): &AskedBudget) -> Result<Budget> {
    let mut budget = Budget { generations: *generations, ..Budget::default() };
    if budget.generations == Some(0) {
        return Err(CliError::usage("`--gen 0`: nothing would be evaluated"));
    }
    if let Some(text) = limit {
        budget = budget.with_limit(text)?;
    }
    // The engine ends in order when its wall time is used up, with everything written.
    budget.wall = budget.wall.into_iter().chain(arguments.limits.total).min();
    Ok(budget)
}
