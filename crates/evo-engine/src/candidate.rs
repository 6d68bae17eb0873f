//! Candidates: one notation for every command that takes one. Each becomes a space file whose kernel it is, and a
//! configuration of it, so that it goes through the recipe and the gates of a sweep's variants.
//!
//! A source takes the place of the space's text and is judged by its content: it is called `candidate.cu` wherever its
//! file lies, so that caches, hashes and messages know nothing of the file's name.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evo_compile::search_path::SearchPath;
use evo_compile::toolbox::Toolbox;
use evo_kernel::access::{SOURCE_MAX, open_beside};
use evo_kernel::apart::{RenderFailure, Renderer};
use evo_kernel::launch_file::LaunchFile;
use evo_kernel::load::LoadError;
use evo_kernel::load::candidate::{configuration, launch_geometry};
use evo_kernel::render::HASH_SYMBOL;
use evo_kernel::signature::{self, SourceEntry, Taker};
use evo_kernel::spec::{KernelSpec, KernelText, SourceKind, SpaceFile};
use evo_protocol::binary::{HEADER_END, KernelSource};
use evo_protocol::device::DeviceKind;
use evo_report::study::{NameError, NamedEvaluation, PREFIX_MIN, StudySearch};
use evo_space::diagnostic::nearest;
use evo_space::genome::{Configuration, ContentHash, Genome};
use evo_space::space::SearchSpace;
use serde::Serialize;
use thiserror::Error;

use crate::prepared::source_of;

const TEMPLATE_SUFFIX: &str = ".j2";
const SOURCE_NAME: &str = "candidate.cu";
/// A configuration or a geometry has some hundred bytes.
const JSON_MAX: u64 = 1 << 20;
const NAMES: &[&str] = &["champion", "baseline", "previous"];

#[derive(Clone, Debug)]
pub enum ConfigurationChoice<'a> {
    Default,
    Words(Genome),
    Text(TextChoice<'a>),
    /// `@champion`, `@17`, `@3fa9c0`: the word with its `@`.
    Name(String),
}

#[derive(Clone, Copy, Debug)]
pub enum TextChoice<'a> {
    File(&'a Path),
    Given { name: &'a str, text: &'a str },
}

impl TextChoice<'_> {
    pub fn name(self) -> String {
        match self {
            TextChoice::File(path) => path.display().to_string(),
            TextChoice::Given { name, .. } => name.to_string(),
        }
    }

    fn read(self, what: &str, limit: u64) -> Result<String, CandidateError> {
        match self {
            TextChoice::File(path) => read_text(path, what, limit),
            TextChoice::Given { text, .. } => Ok(text.to_string()),
        }
    }
}

#[derive(Clone, Debug)]
pub struct CandidateRequest<'a> {
    pub configuration: ConfigurationChoice<'a>,
    pub source: Option<TextChoice<'a>>,
    pub launch: Option<TextChoice<'a>>,
    pub out: &'a Path,
    pub study: Option<&'a str>,
    /// The kind of device that the candidate is meant for, where it is known.
    pub device: Option<DeviceKind>,
    pub render_apart: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CandidateKind {
    Baseline,
    Configuration,
    ConfigFile,
    Source,
    Champion,
    Previous,
    Number,
    Hash,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Provenance {
    pub kind: CandidateKind,
    pub from: Option<String>,
    pub number: Option<u64>,
    /// Of the configuration.
    pub hash: ContentHash,
    /// Of the rendered source with the files that it includes; null where it does not render.
    pub source_hash: Option<ContentHash>,
    /// What a source stands in for: the hash of the space's own source at this configuration.
    pub parent: Option<ContentHash>,
    pub launch_hash: Option<ContentHash>,
    /// Whether the study that is named measured another source at this configuration: the kernel was edited since.
    pub source_changed: bool,
}

#[derive(Debug)]
pub struct ResolvedCandidate {
    pub file: SpaceFile,
    /// It may violate constraints: that is a verdict.
    pub configuration: Configuration,
    pub genome: Genome,
    /// The text that gave its launches their geometry, as it was read then: the file may change while it is judged.
    pub launch: Option<String>,
    pub provenance: Provenance,
}

/// Why a command line names no candidate. Always the caller's to mend.
#[derive(Debug, Error)]
pub enum CandidateError {
    /// With the file that cannot be used, where it is one.
    #[error("{text}")]
    Refused { file: Option<String>, text: String, hint: Option<String> },
    #[error(transparent)]
    File(#[from] LoadError),
    #[error(transparent)]
    Name(#[from] NameError),
}

fn refused(text: impl Into<String>, hint: impl Into<String>) -> CandidateError {
    CandidateError::Refused { file: None, text: text.into(), hint: Some(hint.into()) }
}

fn unusable(file: &str, text: impl Into<String>, hint: impl Into<String>) -> CandidateError {
    CandidateError::Refused { file: Some(file.into()), text: text.into(), hint: Some(hint.into()) }
}

pub fn resolve(file: SpaceFile, request: &CandidateRequest<'_>) -> Result<ResolvedCandidate, CandidateError> {
    if request.launch.is_some() && request.source.is_none() {
        let text = "`--launch` gives the geometry of a source, and there is no `--source`";
        return Err(refused(text, "launches of the space itself are in its file"));
    }
    if let (Some(_), ConfigurationChoice::Name(name)) = (request.source, &request.configuration) {
        let text = format!("two candidates at once: `{name}` and `--source`");
        let hint = "a source takes its configuration from words or from `--config FILE`";
        return Err(refused(text, hint));
    }
    let (genome, kind, named) = choose(&file, request)?;
    let configuration = file.space.configuration(&genome);
    let from = match (&request.configuration, request.source) {
        (_, Some(source)) => Some(source.name()),
        (ConfigurationChoice::Text(given), _) => Some(given.name()),
        _ => named.as_ref().map(|own| own.study.clone()),
    };
    let mut candidate = ResolvedCandidate {
        provenance: Provenance {
            kind: if request.source.is_some() { CandidateKind::Source } else { kind },
            from,
            number: named.as_ref().map(|own| own.number),
            hash: configuration.hash(),
            source_hash: None,
            parent: None,
            launch_hash: None,
            source_changed: false,
        },
        file,
        configuration,
        genome,
        launch: None,
    };
    candidate.take_source(request)?;
    candidate.compare_source(request, named.as_ref())?;
    Ok(candidate)
}

fn choose(
    file: &SpaceFile,
    request: &CandidateRequest<'_>,
) -> Result<(Genome, CandidateKind, Option<NamedEvaluation>), CandidateError> {
    let default = || (file.space.default_genome(), CandidateKind::Baseline, None);
    match &request.configuration {
        ConfigurationChoice::Default => Ok(default()),
        ConfigurationChoice::Words(genome) => Ok((genome.clone(), CandidateKind::Configuration, None)),
        ConfigurationChoice::Text(given) => {
            let kind = match given {
                TextChoice::File(_) => CandidateKind::ConfigFile,
                TextChoice::Given { .. } => CandidateKind::Configuration,
            };
            let (name, text) = (given.name(), given.read("the configuration", JSON_MAX)?);
            let written = configuration(&name, &text, file.space.parameters())?;
            let genome = file.space.genome(&written);
            Ok((genome.ok_or_else(|| stranger(&written, &file.space, &name))?, kind, None))
        }
        ConfigurationChoice::Name(word) => {
            if word == "@baseline" {
                return Ok(default());
            }
            let hint = || format!("name a space with a kernel to look for `{word}`");
            let kernel = kernel_of(file, ": it has no studies", hint)?;
            let CandidateRequest { out, study, device, .. } = *request;
            let (own, kind) = named(&StudySearch { out, study, device, kernel: &kernel.name }, word)?;
            let place = format!("evaluation {} of study `{}`", own.number, own.study);
            let genome = file.space.genome(&own.configuration);
            let genome = genome.ok_or_else(|| stranger(&own.configuration, &file.space, &place))?;
            Ok((genome, kind, Some(own)))
        }
    }
}

fn kernel_of<'f>(
    file: &'f SpaceFile,
    lacks: &str,
    hint: impl FnOnce() -> String,
) -> Result<&'f KernelSpec, CandidateError> {
    let text = || format!("`{}` describes a space without a kernel{lacks}", file.path.display());
    file.kernel.as_ref().ok_or_else(|| refused(text(), hint()))
}

/// The members of the kernel's portfolio, the champion first: of the board in `out`, or of the study that is named.
pub fn portfolio(
    file: &SpaceFile,
    out: &Path,
    study: Option<&str>,
    device: Option<DeviceKind>,
) -> Result<Vec<NamedEvaluation>, CandidateError> {
    let kernel = kernel_of(file, ": it has no portfolio", || "name a space with a kernel".into())?;
    Ok(StudySearch { out, study, device, kernel: &kernel.name }.portfolio()?)
}

/// What `@champion`, `@previous`, `@17` and `@3fa9c0` mean, in every command: an evaluation of a study.
pub fn named(
    search: &StudySearch<'_>,
    word: &str,
) -> Result<(NamedEvaluation, CandidateKind), CandidateError> {
    let name = word.strip_prefix('@').unwrap_or(word);
    let is_number = !name.is_empty() && name.chars().all(|c| c.is_ascii_digit());
    let is_prefix = (PREFIX_MIN..=32).contains(&name.len()) && name.chars().all(|c| c.is_ascii_hexdigit());
    let hash = || search.hash(&name.to_ascii_lowercase());
    match name {
        "champion" => Ok((search.champion(false)?, CandidateKind::Champion)),
        "previous" => Ok((search.champion(true)?, CandidateKind::Previous)),
        _ => match name.parse::<u64>().ok().filter(|_| is_number) {
            Some(number) => match search.number(number) {
                // A hash may begin with digits alone.
                Err(error) if is_prefix => {
                    hash().map(|own| (own, CandidateKind::Hash)).map_err(|_| error.into())
                }
                found => Ok((found?, CandidateKind::Number)),
            },
            None if is_prefix => Ok((hash()?, CandidateKind::Hash)),
            None => Err(unknown(word, name)),
        },
    }
}

fn unknown(word: &str, name: &str) -> CandidateError {
    let hint = match nearest(name, NAMES.iter().copied().filter(|known| *known != name)) {
        Some(near) => format!("did you mean `@{near}`?"),
        None => {
            "`@champion`, `@previous`, `@baseline`, `@17` (an evaluation of a study), `@3fa9c0` (the first \
                 digits of a hash); in `evo restore` also `@best`, `@iteration-17`"
                .to_string()
        }
    };
    refused(format!("there is no candidate `{word}`"), hint)
}

fn stranger(configuration: &Configuration, space: &SearchSpace, place: &str) -> CandidateError {
    let mut differences = differences(configuration, space);
    let more = differences.len().saturating_sub(10);
    differences.truncate(10);
    if more > 0 {
        differences.push(format!("… and {more} more"));
    }
    let text = format!("{place} is not a point of this space:\n  {}", differences.join("\n  "));
    refused(text, "it belongs to another space file, or to this one before an edit")
}

pub fn differences(configuration: &Configuration, space: &SearchSpace) -> Vec<String> {
    let mut differences = Vec::new();
    for parameter in space.parameters() {
        let name = &parameter.name;
        match configuration.get(name) {
            None => differences.push(format!("it has no value for `{name}`")),
            Some(value) if parameter.position(value).is_none() => {
                differences.push(format!("`{name}={value}` is not among the values of `{name}`"));
            }
            Some(_) => {}
        }
    }
    let known = |name: &str| space.parameters().iter().any(|own| &*own.name == name);
    for (name, value) in configuration.iter().filter(|(name, _)| !known(name)) {
        differences.push(format!("the space has no parameter `{name}` (`{name}={value}`)"));
    }
    differences
}

impl ResolvedCandidate {
    fn take_source(&mut self, request: &CandidateRequest<'_>) -> Result<(), CandidateError> {
        let Some(source) = request.source else { return Ok(()) };
        let shown = source.name();
        let hint = || format!("`{shown}` needs entries, arguments and a reference to stand in for");
        let kernel = kernel_of(&self.file, "", hint)?;
        let text = source.read("the source", SOURCE_MAX)?;
        if text.trim().is_empty() {
            let text = format!("the source `{shown}` is empty");
            return Err(unusable(&shown, text, "it has to define the entry points"));
        }
        let geometry = match request.launch {
            None => Vec::new(),
            Some(launch) => {
                let own = launch.read("the launch file", JSON_MAX)?;
                self.provenance.launch_hash = Some(ContentHash::of(own.as_bytes()));
                let geometry = launch_geometry(&launch.name(), &own, &self.file, kernel)?;
                self.launch = Some(own);
                geometry
            }
        };
        self.provenance.parent = self.rendered(request).map(|(_, hash)| hash);
        let parameters: Vec<String> =
            self.file.space.parameters().iter().map(|own| own.name.to_string()).collect();
        let Some(kernel) = &mut self.file.kernel else { return Ok(()) };
        kernel.source = own_text(kernel, &shown, &text, request.render_apart, &parameters)?;
        for own in geometry {
            for launch in kernel.launches.iter_mut().filter(|launch| launch.entry == own.entry) {
                launch.grid = own.grid.clone().unwrap_or_else(|| launch.grid.clone());
                launch.block = own.block.clone().unwrap_or_else(|| launch.block.clone());
                launch.shared_bytes = own.shared_bytes.clone().or_else(|| launch.shared_bytes.clone());
            }
        }
        Ok(())
    }

    fn compare_source(
        &mut self,
        request: &CandidateRequest<'_>,
        named: Option<&NamedEvaluation>,
    ) -> Result<(), CandidateError> {
        // A template that does not render is a verdict, which the gates give.
        let Some((source, hash)) = self.rendered(request) else { return Ok(()) };
        if let (Some(own), Some(kernel)) = (request.source, &self.file.kernel) {
            check_entries(kernel, &source, &own.name())?;
        }
        let measured = named.and_then(|own| own.source_hash.as_ref());
        let changed = measured.is_some_and(|measured| *measured != hash);
        if let Some(own) = named.filter(|own| own.by_content && changed) {
            let NamedEvaluation { study, number, .. } = own;
            let text = format!(
                "evaluation {number} of study `{study}` had another source: the kernel or a file that it includes was \
                 edited since"
            );
            let hint =
                format!("`@{number}` with `--study {study}` takes its configuration with today's source");
            return Err(refused(text, hint));
        }
        self.provenance.source_changed = changed;
        self.provenance.source_hash = Some(hash);
        Ok(())
    }

    /// With the files that it includes; nothing where it does not render.
    fn rendered(&self, request: &CandidateRequest<'_>) -> Option<(KernelSource, ContentHash)> {
        let kernel = self.file.kernel.as_ref()?;
        let search = match request.device {
            Some(kind) => SearchPath::of_environment(kind, &Toolbox::from_env()),
            None => SearchPath::default(),
        };
        source_of(kernel, &self.configuration, &search).ok()
    }
}

fn own_text(
    kernel: &KernelSpec,
    shown: &str,
    text: &str,
    render_apart: bool,
    parameters: &[String],
) -> Result<KernelText, CandidateError> {
    let is_template = shown.ends_with(TEMPLATE_SUFFIX);
    let kind = match (is_template, kernel.source.kind) {
        (true, _) => SourceKind::Template,
        (false, SourceKind::Plain) => SourceKind::Plain,
        (false, SourceKind::Template | SourceKind::Given) => SourceKind::Given,
    };
    let name = if is_template { format!("{SOURCE_NAME}{TEMPLATE_SUFFIX}") } else { SOURCE_NAME.to_string() };
    // Somebody's template, whoever wrote the space's own.
    let renderer = if render_apart { Renderer::Apart(Arc::default()) } else { Renderer::Here };
    let own =
        KernelText { kind, path: PathBuf::from(name), text: without_header(text).to_string(), renderer };
    if is_template {
        let known: Vec<&str> = parameters.iter().map(String::as_str).collect();
        let errors = match own.renderer.check(&own.path, &own.text, &known) {
            Ok(errors) => errors,
            Err(RenderFailure::Template(error)) => vec![error],
            Err(RenderFailure::Machine(message)) => return Err(refused(message, "try again")),
        };
        if let Some(error) = errors.first() {
            let text = format!("the template `{shown}` cannot be used: {error}");
            return Err(CandidateError::Refused { file: Some(shown.into()), text, hint: error.hint.clone() });
        }
    }
    Ok(own)
}

/// A text without a byte order mark and without the header that `evo render` puts in front: it gets one of its own.
fn without_header(text: &str) -> &str {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some((header, own)) = text.split_once(HEADER_END) else { return text };
    // Lines that somebody put in front of the header are theirs.
    let is_evos = |line: &str| line.starts_with("//") || line.contains(HASH_SYMBOL);
    if !header.lines().all(is_evos) {
        return text;
    }
    match own.split_once('\n') {
        Some((first, rest)) if first.starts_with("#line ") => rest,
        _ => own,
    }
}

/// Refuses a source without an entry point, or with one that takes other arguments than the space gives.
fn check_entries(kernel: &KernelSpec, source: &KernelSource, shown: &str) -> Result<(), CandidateError> {
    for entry in &source.entries {
        match signature::find(&source.text, entry) {
            // An option may rename a function.
            SourceEntry::Absent if source.options.iter().any(|option| option.ends_with(entry.as_str())) => {}
            SourceEntry::Absent => {
                let names = signature::names(&source.text);
                let names: Vec<String> = names.iter().take(8).map(|name| format!("`{name}`")).collect();
                let hint = match names.len() {
                    0 => format!("define it: `extern \"C\" __global__ void {entry}(…)`"),
                    _ => format!("its `__global__` functions are {}", names.join(", ")),
                };
                let text =
                    format!("the source `{shown}` has no entry `{entry}`, which `{}` launches", kernel.name);
                return Err(unusable(shown, text, hint));
            }
            SourceEntry::Unreadable => {}
            SourceEntry::Read(_) => {
                let Some(declared) = signature::declared(kernel, entry) else { continue };
                let taker = Taker { is_alone: kernel.launches.len() == 1, ..Taker::default() };
                if let Some(table) = signature::mismatch(&source.text, entry, &declared, taker) {
                    let text = format!(
                        "`{entry}` of the source `{shown}` takes other arguments than `{}` passes:\n{table}",
                        kernel.name
                    );
                    let hint = "a source keeps the entries and arguments of its space; geometry may change with \
                                `--launch`";
                    return Err(unusable(shown, text, hint));
                }
            }
        }
    }
    Ok(())
}

fn read_text(path: &Path, what: &str, limit: u64) -> Result<String, CandidateError> {
    let name = path.to_string_lossy();
    let read = || -> io::Result<String> {
        let mut text = String::new();
        // One byte more than was allowed shows a file that grows meanwhile.
        open_beside(Path::new(""), &name, limit, true)?.take(limit + 1).read_to_string(&mut text)?;
        Ok(text)
    };
    read().map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => "check the path; it is taken from the folder that evo runs in",
            io::ErrorKind::PermissionDenied => "make it readable for you",
            io::ErrorKind::InvalidData => "it is a text in UTF-8",
            _ => "name a regular file",
        };
        unusable(&name, format!("cannot read {what} `{name}`: {error}"), hint)
    })
}

#[derive(Clone, Copy, Debug)]
pub struct RestoreRequest<'a> {
    pub configuration: &'a Configuration,
    /// Its rendered source, where that is not the space's own.
    pub source: Option<&'a str>,
    pub launch: Option<&'a str>,
    pub source_hash: Option<&'a ContentHash>,
    pub device: DeviceKind,
}

#[derive(Clone, Debug, Default)]
pub struct RestoredFiles {
    pub configuration: String,
    pub source: String,
    pub launch: String,
    pub has_launch: bool,
    /// Of the source that was measured.
    pub source_hash: Option<ContentHash>,
    /// Whether the space's own source is another one today.
    pub source_changed: bool,
    pub notes: Vec<String>,
}

/// An error says why there is nothing to restore.
pub fn restored(file: &SpaceFile, request: &RestoreRequest<'_>) -> Result<RestoredFiles, String> {
    let RestoreRequest { configuration, source, launch, source_hash, device } = *request;
    let space = file.path.display();
    let kernel = file.kernel.as_ref();
    let kernel = kernel.ok_or_else(|| format!("`{space}` describes a space without a kernel"))?;
    let genome = file.space.genome(configuration);
    let genome = genome.ok_or_else(|| format!("`{configuration}` is not a point of `{space}` any more"))?;
    // In the space's own order and spelling, which decide the hash.
    let configuration = file.space.configuration(&genome);
    let launches = LaunchFile::of(kernel, &configuration);
    let mut notes: Vec<String> = Vec::new();
    if launch.is_none() {
        notes.extend(launches.left_out.iter().map(|entry| {
            format!(
                "`{entry}` is launched in several ways, which a launch file cannot hold: the space's stay"
            )
        }));
    }
    let (source, source_changed) = match source {
        Some(text) => (text.to_string(), false),
        None => {
            let search = SearchPath::of_environment(device, &Toolbox::from_env());
            let (own, hash) = source_of(kernel, &configuration, &search)
                .map_err(|verdict| format!("`{configuration}` does not render: {}", verdict.message))?;
            (own.text, source_hash.is_some_and(|measured| *measured != hash))
        }
    };
    Ok(RestoredFiles {
        configuration: format!("{:#}\n", serde_json::json!(configuration)),
        source,
        has_launch: launch.is_some() || launches.is_usable(),
        launch: launch.map_or_else(|| launches.text(), String::from),
        source_hash: source_hash.cloned(),
        source_changed,
        notes,
    })
}
