//! How a search begins: the strategy that is chosen where the user names none, earlier studies of the same kernel for
//! strategies that can use them, and the ranking of `evo micro`. A sweep that is cut short is a random sample, and `evolve`
//! finds more with the same budget.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use evo_protocol::device::DeviceKind;
use evo_search::registry::{FULL, SWEPT_WHOLE_BELOW};
use evo_search::strategy::{PriorStudy, Strategy};
use evo_search::{Origin, SeedRoom, Seeded};
use evo_space::space::SearchSpace;
use evo_space::text::counted;

use crate::budget::Budget;
use crate::cli::{CliError, Result};
use crate::journal::micro_file::{self, MICRO, MicroSubject};
use crate::journal::reader::JOURNAL;
use crate::replay::{Recording, RecordingError};
use crate::study::{Study, StudyFolder, studies};

#[derive(Clone, Debug, Default)]
pub struct Prior {
    studies: Vec<PriorStudy>,
    /// Path and number of outcomes.
    sources: Vec<(PathBuf, usize)>,
}

impl Prior {
    /// A file without a point of this space is an error.
    pub fn open(paths: &[PathBuf], space: &SearchSpace) -> Result<Prior> {
        let mut prior = Prior::default();
        for path in paths {
            let recording = Recording::open(path).map_err(|error| match &error {
                RecordingError::Read { .. } => CliError::from(error)
                    .with_hint("`--prior` takes a recording, or the folder of a study with its journal"),
                _ => CliError::from(error),
            })?;
            if !prior.add(path, &recording, space) {
                let text = format!("`{}` has no configuration of this space", path.display());
                return Err(CliError::usage(text).with_hint("a prior has the same parameters"));
            }
        }
        Ok(prior)
    }

    /// What cannot be read or is of another space is left out: the user did not ask for it.
    pub fn beside(kernel: &str, space: &SearchSpace, own: &Study) -> Prior {
        let mut prior = Prior::default();
        let mut others = studies(own.out()).unwrap_or_default();
        others.retain(|study| study.name != own.header().study);
        // In order of name, because the same seed has to meet the same priors.
        others.sort_by(|a, b| a.name.cmp(&b.name));
        for StudyFolder { folder: study, .. } in others {
            let text = study.read(JOURNAL).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let recording = text.and_then(|text| Recording::of_text(&text, JOURNAL, None).ok());
            if let Some(recording) = recording.filter(|recording| recording.kernel == kernel) {
                prior.add(study.path(), &recording, space);
            }
        }
        prior
    }

    /// What to tell people, if there are any.
    pub fn give(&self, strategy: &mut dyn Strategy, name: &str) -> Option<String> {
        if self.studies.is_empty() {
            return None;
        }
        let source = |(path, outcomes): &(PathBuf, usize)| format!("`{}` ({outcomes})", path.display());
        let list = self.sources.iter().map(source).collect::<Vec<_>>().join(", ");
        Some(match strategy.inherit(&self.studies) {
            true => format!(
                "the search starts from earlier outcomes of this kernel: {list}; `--no-prior` ignores them"
            ),
            false => format!(
                "`{name}` ignores earlier outcomes of this kernel: {list}; `--strategy evolve` starts from them"
            ),
        })
    }

    /// Only points of this space; whether there are any.
    fn add(&mut self, path: &Path, recording: &Recording, space: &SearchSpace) -> bool {
        let study = recording.study(0..recording.rows().len(), space);
        let has_outcomes = !study.outcomes.is_empty();
        if has_outcomes {
            self.sources.push((path.to_path_buf(), study.outcomes.len()));
            self.studies.push(study);
        }
        has_outcomes
    }
}

/// With the ranking of `evo micro` in the evidence folder, where there is one for this kernel, space and architecture and
/// generation 0 has room for it; and what to tell people.
pub fn seeded<'a>(
    kernel: &str,
    space: &'a SearchSpace,
    population: usize,
    study: &Study,
    strategy: Box<dyn Strategy + 'a>,
) -> (Box<dyn Strategy + 'a>, Option<String>) {
    let header = study.header();
    // An operator's name stays with its evaluation, also of an earlier run.
    let evaluations = study.history.evaluations.iter().filter(|one| one.is_counted());
    let before = evaluations.clone().filter(|one| one.origin == Origin::MICRO.0).count();
    let room = SeedRoom::of(population, evaluations.count(), before);
    if room.seeds == 0 {
        return (strategy, None);
    }
    let subject = MicroSubject { kernel, space_hash: &header.space_hash, arch: &header.device.arch, space };
    let path = study.out().place(MICRO).display().to_string();
    let (points, source) = match micro_file::read(study.out(), &subject) {
        Ok(None) => return (strategy, None),
        Err(reason) => return (strategy, Some(format!("`{path}` is ignored: {reason}"))),
        Ok(Some(seeds)) => seeds,
    };
    let known: BTreeSet<_> =
        study.history.evaluations.iter().filter_map(|one| space.genome(&one.configuration)).collect();
    let default = space.default_genome();
    let fresh: Vec<_> =
        points.into_iter().filter(|point| *point != default && !known.contains(point)).collect();
    let count = fresh.len().min(room.seeds);
    if count == 0 {
        let notice = format!("`{path}` ({source}) has no configuration that this study has not evaluated");
        return (strategy, Some(notice));
    }
    let notice = format!(
        "generation 0 takes up to {count} configurations from `{path}` ({source}); `--no-micro` leaves them out"
    );
    (Box::new(Seeded::new(strategy, fresh, room)), Some(notice))
}

pub const EXHAUSTIVE: &str = "exhaustive";

/// The share of a wall budget that the search gets; the rest is for confirmation.
const SEARCH_SHARE: f64 = 0.75;

/// What is counted on, on the low side, so that a sweep which begins also ends: two cores of a host made 1 to 4
/// evaluations/s, and an H200 swept seven spaces at 17 to 92 (`evidence/h200`, 2026-11-21). A replay waits for nothing.
fn per_second(kind: DeviceKind) -> u32 {
    match kind {
        DeviceKind::Cuda => 15,
        DeviceKind::Host => 1,
        DeviceKind::Replay => 2_000,
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct StrategyChoice {
    pub strategy: &'static str,
    pub why: String,
}

/// `done` of the valid configurations have been evaluated by the run that is resumed.
pub fn choose_strategy(
    (valid, done): (u128, u64),
    kind: DeviceKind,
    budget: &Budget,
    population: u32,
) -> StrategyChoice {
    let evolve = |why: String| StrategyChoice { strategy: FULL, why: format!("`{FULL}` searches: {why}") };
    if valid >= SWEPT_WHOLE_BELOW {
        return evolve(format!("{valid} valid configurations are too many to evaluate all of them"));
    }
    let by_generation = budget.generations.map(|count| u64::from(count) * u64::from(population));
    let limit = budget.evaluations.into_iter().chain(by_generation).min();
    if let Some(limit) = limit.filter(|limit| u128::from(*limit) < valid) {
        let verb = if limit == 1 { "does" } else { "do" };
        let all = format!("the {valid} valid configurations");
        return evolve(format!("{} {verb} not cover {all}", counted(limit, "evaluation")));
    }
    let (left, pace) = (valid.saturating_sub(u128::from(done)), per_second(kind));
    let covers = |seconds: f64| seconds * SEARCH_SHARE * f64::from(pace) >= left as f64;
    if let Some(seconds) = budget.wall.map(|wall| wall.as_secs_f64()).filter(|wall| !covers(*wall)) {
        let pace = counted(pace, "evaluation");
        return evolve(format!("{seconds:.0} s may not be enough for {left} configurations, at {pace}/s"));
    }
    let within = if *budget == Budget::default() { "" } else { ", which the budget covers" };
    let all = match valid {
        1 => "the only valid configuration".to_string(),
        _ => format!("all {valid} valid configurations"),
    };
    StrategyChoice { strategy: EXHAUSTIVE, why: format!("`{EXHAUSTIVE}` evaluates {all}{within}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reason begins with the strategy's name.
    #[test]
    fn everything_is_evaluated_only_where_the_budget_covers_it() {
        let all = "`exhaustive` evaluates all 1000 valid configurations";
        let covered = format!("{all}, which the budget covers");
        let evolve = |why: &str| format!("`evolve` searches: {why}");
        let few = |count| evolve(&format!("{count} evaluations do not cover the 1000 valid configurations"));
        let many =
            |count| evolve(&format!("{count} valid configurations are too many to evaluate all of them"));
        let slow = evolve("1333 s may not be enough for 1000 configurations, at 1 evaluation/s");
        for (valid, limits, generations, why) in [
            (1000, &[][..], None, all.to_string()),
            (1000, &["1000"], None, covered.clone()),
            (1000, &["999"], None, few(999)),
            (1000, &[], Some(63), covered.clone()),
            (1000, &[], Some(62), few(992)),
            (1000, &["5000"], Some(2), few(32)),
            (1000, &["1334s"], None, covered),
            (1000, &["1333s"], None, slow),
            (1 << 80, &["99h"], None, many("1208925819614629174706176")),
            (2000, &[], None, many("2000")),
        ] {
            let budget = Budget { generations, ..Budget::default() };
            let budget = limits.iter().fold(budget, |budget, limit| budget.with_limit(limit).unwrap());
            let choice = choose_strategy((valid, 0), DeviceKind::Host, &budget, 16);
            assert_eq!(
                (choice.strategy, choice.why.as_str()),
                (why.split('`').nth(1).unwrap(), why.as_str())
            );
        }
        let minute = Budget::default().with_limit("60s").unwrap();
        let strategy = |done, kind| choose_strategy((1000, done), kind, &minute, 16).strategy;
        use DeviceKind::{Cuda, Host, Replay};
        let all = [(0, Replay), (990, Host), (500, Cuda)].map(|(done, kind)| strategy(done, kind));
        assert_eq!((all, strategy(0, Cuda)), ([EXHAUSTIVE; 3], FULL));
    }
}
