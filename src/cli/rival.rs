//! What a candidate is compared with: what `--against` names, or the best that is known.

use evo_space::genome::Genome;

use super::candidate;
use super::{CliError, Result, TestOneArgs, words};
use crate::engine::candidate::{
    CandidateError, CandidateRequest, ConfigurationChoice, ResolvedCandidate, TextChoice, resolve,
};
use crate::journal::iterations::{Incumbent, SOURCES, incumbent_name};
use crate::journal::own_folder::OwnFolder;
use crate::kernel::spec::SpaceFile;

#[derive(Debug)]
pub struct ChosenRival {
    pub resolved: ResolvedCandidate,
    /// As messages and files name it.
    pub name: String,
    pub why: String,
    /// The number of the evaluation that made it the incumbent.
    pub incumbent: Option<u64>,
    pub notes: Vec<String>,
}

/// What `--against` names, in the space of the candidate.
pub fn named(one: &TestOneArgs, against: &str) -> Result<ChosenRival> {
    // The space of the candidate, as its words name it.
    let space = words::named_space(&one.words).space()?;
    let mut resolved = one.other(&space, against.split_whitespace().map(String::from), Default::default())?;
    one.add_grid(&mut resolved.file);
    let why = "`--against` names it".to_string();
    Ok(ChosenRival { resolved, name: against.to_string(), why, incumbent: None, notes: Vec::new() })
}

/// The best that is known: the incumbent, else the champion, else the default configuration.
pub fn best(
    one: &TestOneArgs,
    folder: &OwnFolder,
    incumbent: Result<Option<Incumbent>, String>,
) -> Result<ChosenRival> {
    let mut notes = Vec::new();
    match incumbent {
        Ok(Some(own)) => match of_incumbent(one, folder, &own) {
            Ok(rival) => return Ok(rival),
            Err(error) => notes.push(format!("the incumbent cannot be built again: {}", error.first_line())),
        },
        Ok(None) => {}
        Err(why) => notes.push(why),
    }
    let before = if notes.is_empty() { "there is no incumbent yet" } else { "the incumbent cannot be used" };
    // A study that is named for the candidate says nothing about the champion.
    let mut anywhere = one.clone();
    anywhere.candidate.study = None;
    match named(&anywhere, "@champion") {
        Ok(own) => Ok(ChosenRival { why: before.to_string(), notes, ..own }),
        Err(error) => {
            let why = format!("{before}, and no champion: {}", error.first_line());
            Ok(ChosenRival { why, notes, ..named(&anywhere, "@baseline")? })
        }
    }
}

fn of_incumbent(one: &TestOneArgs, folder: &OwnFolder, own: &Incumbent) -> Result<ChosenRival> {
    let file = words::named_space(&one.words).open(one.run.limits.access())?;
    let genome = file.space.genome(&own.configuration);
    let genome = genome
        .ok_or_else(|| CliError::usage(format!("`{}` is not a point of this space", own.configuration)))?;
    let place = |name: &Option<String>| name.as_ref().map(|name| folder.place(SOURCES).join(name));
    let (source, launch) = (place(&own.source_file), place(&own.launch_file));
    let [source, launch] = [&source, &launch].map(|path| path.as_deref().map(TextChoice::File));
    let mut resolved = built(one, file, genome, source, launch).map_err(candidate::error)?;
    one.add_grid(&mut resolved.file);
    let mut notes = Vec::new();
    if own.source_hash.is_some() && own.source_hash != resolved.provenance.source_hash {
        notes.push("the incumbent's source was edited since it was accepted".to_string());
    }
    let number = own.number;
    Ok(ChosenRival {
        resolved,
        name: incumbent_name(number),
        why: "it is the best accepted so far".into(),
        incumbent: Some(number),
        notes,
    })
}

pub fn built(
    one: &TestOneArgs,
    file: SpaceFile,
    genome: Genome,
    source: Option<TextChoice<'_>>,
    launch: Option<TextChoice<'_>>,
) -> Result<ResolvedCandidate, CandidateError> {
    let configuration = ConfigurationChoice::Words(genome);
    let (out, device) = (&one.candidate.out, candidate::kind_of(&one.run.device));
    resolve(
        file,
        &CandidateRequest { configuration, source, launch, out, study: None, device, render_apart: true },
    )
}
