//! The words and flags by which a command line names one candidate: `[SPACE] 32 8 4`, `--config FILE`, `--source FILE`,
//! `@champion`, `@17`. What they mean is found out by `engine::candidate`.

use std::path::{Path, PathBuf};

use clap::Args;
use evo_device::probe;
use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::Evaluation;
use evo_space::genome::ContentHash;

use super::{CliError, Result, words};
use crate::engine::candidate::{
    self, CandidateError, CandidateRequest, ConfigurationChoice, ResolvedCandidate, TextChoice,
};
use crate::kernel::access::SpaceAccess;
use crate::study::NameError;

/// Flags of every command that takes one candidate, beside its words.
#[derive(Debug, Clone, Args)]
pub struct CandidateArgs {
    /// The configuration in this JSON file: an object of parameters, or an object that holds one as `configuration`
    #[arg(long, value_name = "FILE", help_heading = "Candidate")]
    pub config: Option<PathBuf>,
    /// This CUDA source in place of the space's: same entries, arguments and reference; a `.j2` is rendered
    #[arg(long, value_name = "FILE", help_heading = "Candidate")]
    pub source: Option<PathBuf>,
    /// With --source: {"ENTRY": {"grid": […], "block": […], "shared_bytes": …}} over sizes, as JSON
    #[arg(long, value_name = "FILE", help_heading = "Candidate")]
    pub launch: Option<PathBuf>,
    /// With `@…`: the folder of the leaderboard and the studies
    #[arg(long = "out", value_name = "DIR", default_value = "evidence", help_heading = "Candidate")]
    pub out: PathBuf,
    /// With `@…`: the study, by name or folder [default: the newest of the kernel]
    #[arg(long = "study", value_name = "NAME", help_heading = "Candidate")]
    pub study: Option<String>,
}

impl CandidateArgs {
    pub fn is_given(&self) -> bool {
        self.config.is_some() || self.source.is_some() || self.launch.is_some()
    }

    /// What files about it are named by: the hash of a source of its own, else of its configuration.
    pub fn hash<'e>(&self, evaluation: &'e Evaluation) -> &'e ContentHash {
        let own_source = evaluation.source_hash.as_ref().filter(|_| self.source.is_some());
        own_source.unwrap_or(&evaluation.configuration_hash)
    }
}

/// A candidate in one option. An empty one, as an unset variable of a script leaves it, would mean the usual candidate.
pub fn named(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("it names no candidate".to_string()),
        _ => Ok(text.to_string()),
    }
}

pub fn is_looked_up(word: &str) -> bool {
    word.starts_with('@') && word != "@baseline"
}

/// The kind of device that `--device` or `--arch` means; none where the command needs no device (`any`).
pub fn kind_of(device: &str) -> Option<DeviceKind> {
    match device {
        "host" => Some(DeviceKind::Host),
        // The champion of the device that the command is going to use.
        "auto" => probe::choose(device).ok().map(|choice| choice.kind),
        _ if device.starts_with("cuda") || device.starts_with("sm_") => Some(DeviceKind::Cuda),
        _ => None,
    }
}

/// The candidate that words and flags name; `device` is a value of `--device` or `--arch`, or `any`. A violated
/// constraint is not a mistake of the command line.
pub fn resolve(
    words: &[String],
    arguments: &CandidateArgs,
    device: &str,
    access: SpaceAccess,
) -> Result<ResolvedCandidate> {
    let named = words::named_space(words);
    let configuration = choice(named.values, arguments)?;
    let file = named.open(access)?;
    let configuration = match configuration {
        Some(choice) => choice,
        None => ConfigurationChoice::Words(named.genome(&file)?),
    };
    let request = CandidateRequest {
        configuration,
        source: arguments.source.as_deref().map(TextChoice::File),
        launch: arguments.launch.as_deref().map(TextChoice::File),
        out: &arguments.out,
        study: arguments.study.as_deref(),
        device: kind_of(device),
        render_apart: access.render_apart,
    };
    let resolved = candidate::resolve(file, &request).map_err(error)?;
    if resolved.provenance.source_changed {
        let from = resolved.provenance.from.as_deref().unwrap_or_default();
        eprintln!("note: the kernel's source has changed since study `{from}` measured this configuration");
    }
    Ok(resolved)
}

/// What else than values names the configuration; nothing where values do. Two of them are a mistake.
fn choice<'a>(values: &[String], arguments: &'a CandidateArgs) -> Result<Option<ConfigurationChoice<'a>>> {
    let name = values.iter().find(|word| word.starts_with('@'));
    let others: Vec<&str> = values.iter().filter(|word| Some(*word) != name).map(String::as_str).collect();
    let mut given: Vec<String> = Vec::new();
    given.extend(name.map(|name| format!("`{name}`")));
    given.extend((!others.is_empty()).then(|| format!("the words `{}`", others.join(" "))));
    given.extend(arguments.config.as_deref().map(|path| format!("`--config {}`", path.display())));
    if given.len() > 1 {
        let text = format!("two candidates at once: {}", given.join(" and "));
        return Err(CliError::usage(text).with_hint("name one: words, `--config FILE`, or `@NAME`"));
    }
    if let (None, Some(study)) = (name, &arguments.study) {
        let text = format!("`--study {study}` names where a candidate is looked for, and none is");
        return Err(CliError::usage(text).with_hint("add `@champion`, `@NUMBER` or `@HASH`"));
    }
    Ok(match (name, &arguments.config) {
        (Some(name), _) => Some(ConfigurationChoice::Name(name.clone())),
        (None, Some(path)) => Some(ConfigurationChoice::Text(TextChoice::File(path))),
        (None, None) if values.is_empty() => Some(ConfigurationChoice::Default),
        (None, None) => None,
    })
}

pub fn error(error: CandidateError) -> CliError {
    match error {
        CandidateError::Refused { file, text, hint } => {
            let refused = match file {
                Some(file) => CliError::bad_file(text, Path::new(&file)),
                None => CliError::usage(text),
            };
            refused.with_hint_of(hint)
        }
        CandidateError::File(error) => error.into(),
        CandidateError::Name(NameError::Refused { text, hint }) => CliError::usage(text).with_hint(hint),
        CandidateError::Name(NameError::Journal(error)) => error.into(),
    }
}
