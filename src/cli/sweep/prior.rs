//! Earlier studies of the same kernel, for strategies that can use them.

use std::fs;
use std::path::{Path, PathBuf};

use evo_search::prior::PriorStudy;
use evo_search::strategy::Strategy;
use evo_space::space::SearchSpace;

use crate::cli::args::SweepArgs;
use crate::cli::exit_code::UsageError;
use crate::replay::Recording;

/// What was found: the studies and where each came from.
#[derive(Debug, Default)]
pub struct Prior {
    studies: Vec<PriorStudy>,
    /// Path and number of outcomes.
    sources: Vec<(PathBuf, usize)>,
}

impl Prior {
    /// The studies that `--prior` names; called before anything is written, since they can be at fault.
    pub fn named(arguments: &SweepArgs, space: &SearchSpace) -> Result<Prior, UsageError> {
        let mut prior = Prior::default();
        for path in &arguments.prior {
            let recording = Recording::open(path).map_err(|error| UsageError::of(&error))?;
            if !prior.add(path, &recording, space) {
                let text = format!(
                    "`{}` holds no configuration of this space\nhint: a prior has the same parameters",
                    path.display()
                );
                return Err(UsageError(text));
            }
        }
        Ok(prior)
    }

    /// Where none is named, those of `kernel` beside the study in `own`, without that one.
    pub fn or_beside(
        mut self,
        arguments: &SweepArgs,
        kernel: &str,
        space: &SearchSpace,
        own: &Path,
    ) -> Prior {
        if arguments.prior.is_empty() && !arguments.no_prior {
            for path in beside(own) {
                let recording = Recording::open(&path).ok().filter(|recording| recording.kernel == kernel);
                if let Some(recording) = recording {
                    self.add(&path, &recording, space);
                }
            }
        }
        self
    }

    /// Hands the studies to a strategy; what to tell people, if it takes them.
    pub fn give(&self, strategy: &mut dyn Strategy) -> Option<String> {
        if self.studies.is_empty() || !strategy.inherit(&self.studies) {
            return None;
        }
        let source = |(path, outcomes): &(PathBuf, usize)| format!("`{}` ({outcomes})", path.display());
        let list = self.sources.iter().map(source).collect::<Vec<_>>().join(", ");
        Some(format!(
            "the search starts from earlier outcomes of this kernel: {list}; `--no-prior` starts from nothing"
        ))
    }

    /// Adds what a recording says of this space; whether that is anything.
    fn add(&mut self, path: &Path, recording: &Recording, space: &SearchSpace) -> bool {
        let study = recording.study(0..recording.rows().len(), space);
        let says = !study.outcomes.is_empty();
        if says {
            self.sources.push((path.to_path_buf(), study.outcomes.len()));
            self.studies.push(study);
        }
        says
    }
}

/// The other studies in the folder of a study, in order of name.
fn beside(own: &Path) -> Vec<PathBuf> {
    let Some(entries) = own.parent().and_then(|out| fs::read_dir(out).ok()) else { return Vec::new() };
    let folders = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut studies: Vec<PathBuf> =
        folders.filter(|folder| folder != own && folder.join("journal.jsonl").is_file()).collect();
    studies.sort();
    studies
}
