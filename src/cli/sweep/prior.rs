//! What a search begins with beside the strategy's own points: earlier studies of the same kernel, for strategies that can
//! use them, and the ranking of `evo micro`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use evo_search::strategy::{PriorStudy, Strategy};
use evo_search::{Origin, SeedRoom, Seeded};
use evo_space::space::SearchSpace;

use crate::cli::error::CliError;
use crate::journal::micro_file::{self, MICRO, MicroSeeds, MicroSubject};
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
    pub fn open(paths: &[PathBuf], space: &SearchSpace) -> Result<Prior, CliError> {
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
        MicroSeeds::Absent => return (strategy, None),
        MicroSeeds::Ignored(reason) => return (strategy, Some(format!("`{path}` is ignored: {reason}"))),
        MicroSeeds::Ranked { points, source } => (points, source),
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
