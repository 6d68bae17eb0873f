//! Where findings about one candidate are kept: beside its study.

use std::io;
use std::path::PathBuf;

use super::candidate::CandidateArgs;
use super::described;
use crate::journal::own_folder::OwnFolder;
use crate::report::envelope::CallFacts;

/// The folder of the study that names the candidate, or the one that a sweep of its kernel would begin with.
pub fn open(
    candidate: &CandidateArgs,
    (kernel, kind): (&str, &str),
    facts: &CallFacts,
) -> Result<OwnFolder, (PathBuf, io::Error)> {
    let named = described::study(facts);
    // A study may be named by its path.
    let path = candidate.study.as_ref().filter(|name| named.is_some() && name.contains('/'));
    let study = named.unwrap_or_else(|| format!("{kernel}-{kind}"));
    let place = path.map_or_else(|| candidate.out.join(&study), PathBuf::from);
    let opened = match path {
        Some(path) => OwnFolder::open(path.as_ref()),
        None => OwnFolder::create(&candidate.out).and_then(|out| out.create_folder(&study)),
    };
    opened.map_err(|error| (place, error))
}
