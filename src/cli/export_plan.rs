//! What `evo export` writes: one variant, or several with a rule that chooses among them by sizes.
//!
//! There are several where the candidate is several binaries, one for each set of constants, and where `dispatch` asks
//! for the portfolio of the leaderboard.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::Args;
use evo_device::binary_notes;
use evo_device::host::translate::SHIPPED_HEADERS;
use evo_export::dispatch::{Dispatch, DispatchRule, DispatchVariant};
use evo_export::files::{ExportFile, ExportFormat, ExportUnit, files};
use evo_export::model::{ExportModel, model};
use evo_export::source::{PlainSource, neighboring, plain};
use evo_export::translate::ExportError;
use evo_protocol::binary::{Binary, KernelSource, Specialization};
use evo_protocol::device::DeviceKind;
use evo_protocol::export::{EXPORT_SCHEMA, ExportJudgement, ExportManifest, ExportNumbers, ExportedFile};
use evo_protocol::leaderboard::{LeaderboardSection, PortfolioSet, RankedEntry};
use evo_space::genome::{Configuration, ContentHash};
use serde_json::json;

use super::compile::CompileTarget;
use super::judge::AskedCandidate;
use super::{CliError, Result, TestOneArgs, candidate as named, session};
use crate::compile::search_path::SearchPath;
use crate::compile::{CompileSetupError, FarmOptions, compile_one};
use crate::engine::candidate::CandidateKind;
use crate::kernel::render::render_for;
use crate::kernel::signature::included;
use crate::kernel::spec::{KernelSpec, ProblemSpec, SpaceFile};
use crate::kernel::specialize::{constants_of, distinct};
use crate::study::StudySearch;

#[derive(Debug, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    pub one: TestOneArgs,
    /// The folder to write, which is made
    #[arg(long, value_name = "FOLDER")]
    pub to: PathBuf,
    /// Of a candidate: cu, cubin, torch, torch-op, tvm-ffi, cupy, cuda-core, dispatch, all; of a study: t4, kernel-tuner, optuna, csv
    #[arg(long = "format", value_name = "A,B", value_delimiter = ',', default_value = "all")]
    pub formats: Vec<String>,
    /// Architecture of the cubin [default: that of the device; none on the host device]
    #[arg(long, value_name = "ARCH")]
    pub arch: Option<String>,
    /// Run each form that can run here on evo's inputs, check its answers, and time it beside evo itself
    #[arg(long)]
    pub verify: bool,
    /// Replace the files of an earlier export in the folder
    #[arg(long)]
    pub force: bool,
    /// Skip the gates; the manifest says that the candidate was not judged
    #[arg(long, conflicts_with = "verify")]
    pub unchecked: bool,
    /// With `dispatch`: most variants
    #[arg(long = "variants-max", value_name = "K", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=32))]
    pub variants_max: u8,
}

/// How far from the fastest a variant of a dispatch table may be.
const WITHIN: f64 = 0.05;

#[derive(Debug)]
pub struct ExportPlan<'a> {
    pub variants: Vec<ExportVariant<'a>>,
    pub judged: ExportJudgement,
    /// How variants are chosen, where that was asked for or there are several.
    pub dispatch: Option<Dispatch>,
    /// Why there is no such rule although it was asked for.
    pub without_dispatch: Option<String>,
}

/// A configuration that takes part; with its number where the leaderboard has chosen it.
type ExportMember = (Option<u64>, Configuration);

pub fn plan<'a>(
    arguments: &ExportArgs,
    asked: &'a AskedCandidate,
    target: &'a CompileTarget,
    formats: &'a [ExportFormat],
) -> Result<ExportPlan<'a>> {
    let candidate = &asked.candidate;
    let kernel = session::kernel_of(&candidate.file)?;
    let problems = session::problems(kernel, target.kind, &arguments.one.problems)?;
    let wants = formats.contains(&ExportFormat::Dispatch);
    let section = section(arguments, asked, kernel)?;
    let is_champion = candidate.provenance.kind == CandidateKind::Champion;
    let found =
        section.as_ref().filter(|_| wants && is_champion).map(|section| portfolio(arguments, section));
    let mut without_dispatch = found.as_ref().and_then(|found| found.as_ref().err().cloned());
    let (members, rule) = match found {
        Some(Ok((members, rule))) => (members, Some(rule)),
        _ => (vec![(None, candidate.configuration.clone())], None),
    };
    let (judged, judged_on) = match (arguments.unchecked, &section) {
        (true, _) => (ExportJudgement::Unchecked, None),
        (false, Some(section)) => (ExportJudgement::Recorded, Some(section.device.name.clone())),
        (false, None) => (ExportJudgement::Now, Some(asked.setup.device_name())),
    };
    let origin = ExportOrigin {
        file: &candidate.file,
        formats,
        arch: (target.kind == DeviceKind::Cuda).then_some(target.arch.as_str()),
        source_hash: candidate.provenance.source_hash.clone().filter(|_| members.len() == 1),
        judged,
        judged_on,
    };
    let sets = distinct(problems.iter().map(|problem| constants_of(&kernel.specialize, problem)));
    let several = members.len() * sets.len() > 1;
    if !several && wants && without_dispatch.is_none() {
        let why = "there is one variant, and nothing to choose; `@champion` of a leaderboard with a portfolio has more";
        without_dispatch = Some(why.to_string());
    }
    let mut variants = Vec::new();
    for (number, configuration) in &members {
        let numbers = section.as_ref().and_then(|section| numbers(section, configuration));
        for mut variant in origin.variants(configuration, &problems, numbers.as_ref())? {
            if several {
                variant.folder = folder(*number, &variant.constants, members.len());
            }
            variants.push(variant);
        }
    }
    let dispatch = several.then(|| dispatch(kernel, &variants, &sets, rule, &problems));
    Ok(ExportPlan { variants, judged, dispatch, without_dispatch })
}

fn section(
    arguments: &ExportArgs,
    asked: &AskedCandidate,
    kernel: &KernelSpec,
) -> Result<Option<LeaderboardSection>> {
    let from = &asked.candidate.provenance;
    if !matches!(from.kind, CandidateKind::Champion | CandidateKind::Previous) || from.source_changed {
        return Ok(None);
    }
    let candidate = &arguments.one.candidate;
    let search = StudySearch {
        out: &candidate.out,
        study: candidate.study.as_deref(),
        kernel: &kernel.name,
        device: named::kind_of(&arguments.one.run.device),
    };
    search.confirmed().map(Some).map_err(|error| named::error(error.into()))
}

fn numbers(section: &LeaderboardSection, configuration: &Configuration) -> Option<ExportNumbers> {
    let entry: &RankedEntry = section.entries().find(|entry| entry.configuration == *configuration)?;
    Some(ExportNumbers {
        study: section.study.name.clone(),
        number: entry.number,
        device: section.device.name.clone(),
        driver: section.device.driver.clone(),
        confirmed_at: section.confirmed_at.clone(),
        ranking: section.ranking.as_str().to_string(),
        speedup: entry.speedup,
        noise_floor: section.noise_floor,
        problems: entry.results.clone(),
    })
}

/// The smallest set of the leaderboard that is fast enough everywhere, with the rule by which its members are chosen; or
/// why there is none.
fn portfolio(
    arguments: &ExportArgs,
    section: &LeaderboardSection,
) -> Result<(Vec<ExportMember>, Dispatch), String> {
    let portfolio = section
        .portfolio
        .as_ref()
        .ok_or("the leaderboard has no portfolio: it needs several timed problems")?;
    let set: &PortfolioSet = portfolio
        .sets
        .iter()
        .filter(|set| set.within <= WITHIN + 1e-9)
        .min_by(|a, b| a.members.len().cmp(&b.members.len()).then(a.worst_factor.total_cmp(&b.worst_factor)))
        .ok_or("the leaderboard has no set of variants within 5 %")?;
    let most = usize::from(arguments.variants_max);
    if set.members.len() > most {
        let count = set.members.len();
        return Err(format!(
            "{count} variants are needed to stay within 5 %, and `--variants-max` is {most}"
        ));
    }
    let rule = set.rule.as_ref().ok_or("problems of the same sizes need different variants")?;
    let rules = rule.iter().map(|step| {
        let member = set.members.iter().position(|member| member.number == step.number)?;
        Some(DispatchRule { when: step.when.clone(), variant: member })
    });
    let members = set.members.iter().map(|member| (Some(member.number), member.configuration.clone()));
    let rule = Dispatch {
        rules: rules.collect::<Option<_>>().ok_or("its rule names a variant that is not in it")?,
        within: Some(set.within),
        worst_factor: Some(set.worst_factor),
        is_exact: set.is_exact,
        ..Dispatch::default()
    };
    Ok((members.collect(), rule))
}

fn folder(number: Option<u64>, constants: &Specialization, members: usize) -> String {
    let variant = number.filter(|_| members > 1).map(|number| format!("variant_{number}"));
    let values = constants.iter().map(|(name, value)| format!("{}_{value}", name.to_lowercase()));
    variant.into_iter().chain(values).collect::<Vec<String>>().join("_")
}

/// The rule of all variants: which member, and of that the binary for the sizes.
fn dispatch(
    kernel: &KernelSpec,
    variants: &[ExportVariant<'_>],
    sets: &[Specialization],
    rule: Option<Dispatch>,
    problems: &[&ProblemSpec],
) -> Dispatch {
    let one = || Dispatch {
        rules: vec![DispatchRule { when: None, variant: 0 }],
        is_exact: true,
        ..Dispatch::default()
    };
    let rule = rule.unwrap_or_else(one);
    let mut rules = Vec::new();
    for step in &rule.rules {
        for (at, constants) in sets.iter().enumerate() {
            let values = constants.iter().map(|(name, value)| format!("{name} == {value}"));
            let all: Vec<String> = step.when.iter().map(|when| format!("({when})")).chain(values).collect();
            let when = (!all.is_empty()).then(|| all.join(" and "));
            rules.push(DispatchRule { when, variant: step.variant * sets.len() + at });
        }
    }
    // A problem belongs to the first variant that the rule gives it; the table says so for people.
    let mut chosen: Vec<BTreeSet<&str>> = vec![BTreeSet::new(); variants.len()];
    for problem in problems {
        let scope = |name: &str| problem.sizes.get(name).cloned();
        let holds = |rule: &&DispatchRule| match &rule.when {
            None => true,
            Some(text) => evo_space::Expr::parse(text)
                .is_ok_and(|expr| expr.evaluate(&scope).is_ok_and(|value| value.is_true())),
        };
        if let Some(rule) = rules.iter().find(holds) {
            chosen[rule.variant].insert(&problem.name);
        }
    }
    let variant = |(variant, problems): (&ExportVariant<'_>, BTreeSet<&str>)| DispatchVariant {
        folder: variant.folder.clone(),
        label: format!("{} {}", variant.configuration, variant.constants).trim_end().to_string(),
        problems: problems.into_iter().map(String::from).collect(),
    };
    let timed = problems.iter().filter(|problem| problem.timed);
    Dispatch {
        kernel: kernel.name.clone(),
        sizes: kernel.problems.first().into_iter().flat_map(|first| first.sizes.keys().cloned()).collect(),
        variants: variants.iter().zip(chosen).map(variant).collect(),
        rules,
        measured: timed.map(|problem| (problem.name.clone(), problem.whole_sizes())).collect(),
        ..rule
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// A longer file is not a header.
const HEADER_MAX: u64 = 1 << 20;

#[derive(Debug)]
pub struct ExportOrigin<'a> {
    pub file: &'a SpaceFile,
    pub formats: &'a [ExportFormat],
    /// What cubins are compiled for.
    pub arch: Option<&'a str>,
    pub source_hash: Option<ContentHash>,
    pub judged: ExportJudgement,
    pub judged_on: Option<String>,
}

/// A binary with its files, of which nothing is written yet.
#[derive(Debug)]
pub struct ExportVariant<'a> {
    pub kernel: &'a KernelSpec,
    pub configuration: Configuration,
    pub constants: Specialization,
    /// Problems of the target that it serves.
    pub problems: Vec<&'a ProblemSpec>,
    /// Folder in the export; empty for the export itself.
    pub folder: String,
    pub model: ExportModel,
    pub files: Vec<ExportFile>,
    pub missing: Vec<(ExportFormat, String)>,
}

struct Cubin {
    arch: String,
    image: Vec<u8>,
    binary: Binary,
}

impl<'a> ExportOrigin<'a> {
    pub fn variants(
        &self,
        configuration: &Configuration,
        problems: &[&'a ProblemSpec],
        numbers: Option<&ExportNumbers>,
    ) -> Result<Vec<ExportVariant<'a>>> {
        let kernel = session::kernel_of(self.file)?;
        let constants = |problem: &ProblemSpec| constants_of(&kernel.specialize, problem);
        let sets = distinct(problems.iter().map(|problem| constants(problem)));
        let variant = |set: Specialization| {
            let served = problems.iter().copied().filter(|problem| constants(problem) == set).collect();
            self.variant(configuration, set, served, numbers)
        };
        sets.into_iter().map(variant).collect()
    }

    fn variant(
        &self,
        configuration: &Configuration,
        constants: Specialization,
        problems: Vec<&'a ProblemSpec>,
        numbers: Option<&ExportNumbers>,
    ) -> Result<ExportVariant<'a>> {
        let kernel = session::kernel_of(self.file)?;
        let rendered = render_for(kernel, configuration, &constants).map_err(|verdict| {
            CliError::usage(format!("`{configuration}` does not render: {}", verdict.message))
        })?;
        let label = match constants.is_empty() {
            true => format!("{} {configuration}", kernel.name),
            false => format!("{} {configuration}, for {constants}", kernel.name),
        };
        let title = [label.clone(), format!("Exported by evo {VERSION}: no macro is left to set.")];
        let source = plain(&rendered, &title);
        let headers = headers(&source, &rendered, self.file)?;
        let compiled = match self.formats.iter().any(|format| format.needs_cubin()) {
            true => compiled(&source, &rendered, self.arch)?,
            false => Err("no format needs it".to_string()),
        };
        let cubin = compiled.as_ref().ok();
        // The symbol in the cubin, or that of a plain name.
        let symbol_of = |entry: &str| {
            cubin.and_then(|cubin| binary_notes::symbol_of(&cubin.image, entry)).map(String::from)
        };
        let model = model(kernel, configuration, &constants, &symbol_of).map_err(refusal)?;
        let candidate = self.formats.iter().copied().filter(|format| *format != ExportFormat::Dispatch);
        let (made, missing): (Vec<ExportFormat>, Vec<ExportFormat>) =
            candidate.partition(|format| cubin.is_some() || !format.needs_cubin());
        let why = compiled.as_ref().err().cloned().unwrap_or_default();
        let missing = missing.into_iter().map(|format| (format, why.clone())).collect();
        let example = problems.iter().find(|problem| problem.timed).or(problems.first());
        let unit = ExportUnit {
            model: &model,
            label: &label,
            hash: &rendered.variant_hash,
            source: &source,
            headers: &headers,
            cubin: cubin.map(|cubin| (cubin.arch.as_str(), binary_notes::image(&cubin.image))),
            example: &example.map(|problem| problem.whole_sizes()).unwrap_or_default(),
            evo: VERSION,
        };
        let files = files(&unit, &made).map_err(refusal)?;
        let (configuration, folder) = (configuration.clone(), String::new());
        let mut variant =
            ExportVariant { kernel, configuration, constants, problems, folder, model, files, missing };
        let manifest = self.manifest(&variant, &source, cubin, numbers);
        let text = serde_json::to_string_pretty(&manifest).unwrap_or_default();
        variant.files.push(ExportFile::of("manifest.json", format!("{text}\n"), ""));
        Ok(variant)
    }

    fn manifest(
        &self,
        variant: &ExportVariant<'_>,
        source: &PlainSource,
        cubin: Option<&Cubin>,
        numbers: Option<&ExportNumbers>,
    ) -> ExportManifest {
        let ExportVariant { kernel, configuration, constants, model, files, missing, .. } = variant;
        let mut reasons: BTreeMap<String, String> =
            missing.iter().map(|(format, why)| (format.as_str().to_string(), why.clone())).collect();
        for (name, is_null, why) in [
            ("numbers", numbers.is_none(), "no leaderboard has this candidate"),
            ("judged_on", self.judged_on.is_none(), "it was not judged (`--unchecked`)"),
            ("arch", cubin.is_none(), "there is no cubin"),
            ("toolchain", cubin.is_none(), "there is no cubin"),
            ("source_hash", self.source_hash.is_none(), "it is not known"),
        ] {
            if is_null {
                reasons.insert(name.to_string(), why.to_string());
            }
        }
        let file = |ExportFile { path, contents, .. }: &ExportFile| {
            (path.clone(), ExportedFile { hash: ContentHash::of(contents), bytes: contents.len() as u64 })
        };
        ExportManifest {
            schema: EXPORT_SCHEMA.to_string(),
            version: 1,
            evo: VERSION.to_string(),
            kernel: kernel.name.clone(),
            configuration: configuration.clone(),
            configuration_hash: configuration.hash(),
            constants: constants.clone(),
            source_hash: self.source_hash.clone(),
            judged: self.judged,
            judged_on: self.judged_on.clone(),
            arch: cubin.map(|cubin| cubin.arch.clone()),
            toolchain: cubin.map(|cubin| cubin.binary.toolchain.clone()),
            compiler_options: source.options.clone(),
            arguments: json!({ "sizes": model.sizes, "buffers": model.buffers, "scalars": model.scalars }),
            launches: json!({ "entries": model.entries, "steps": model.steps }),
            conditions: json!(model.conditions),
            alignment_bytes: model.alignment,
            resources: cubin.map(|cubin| cubin.binary.resources.clone()).unwrap_or_default(),
            numbers: numbers.cloned(),
            files: files.iter().map(file).collect(),
            reasons,
        }
    }
}

pub fn hand_out<'f>(folder: &Path, files: impl IntoIterator<Item = &'f ExportFile>) -> io::Result<()> {
    files.into_iter().try_for_each(|file| {
        let path = folder.join(&file.path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, &file.contents)
    })
}

fn refusal(error: ExportError) -> CliError {
    match error {
        ExportError::NotExportable(text) => CliError::usage(format!("it cannot be exported: {text}"))
            .with_hint("`docs/export.md` lists what exports carry"),
        other => CliError::harness(other.to_string()),
    }
}

/// The source as it is exported, compiled for an architecture; or why there is no cubin.
fn compiled(
    source: &PlainSource,
    rendered: &KernelSource,
    arch: Option<&str>,
) -> Result<Result<Cubin, String>> {
    let Some(arch) = arch else {
        return Ok(Err("no architecture is known on the host device: name one with `--arch`".to_string()));
    };
    let folders = rendered.options.iter().filter(|option| option.starts_with("-I"));
    let exported = KernelSource {
        text: source.text.clone(),
        options: source.options.iter().chain(folders).cloned().collect(),
        file_name: "kernel.cu".to_string(),
        ..rendered.clone()
    };
    let outcome = match compile_one(&FarmOptions::new(DeviceKind::Cuda, arch), exported) {
        Ok(outcome) => outcome,
        Err(error @ (CompileSetupError::NoNvrtc { .. } | CompileSetupError::Refused { .. })) => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            let first = first.strip_suffix("; looked at:").unwrap_or(first);
            return Ok(Err(format!("it is not compiled here: {first}")));
        }
        Err(error) => return Err(error.into()),
    };
    let binary = outcome.map_err(|verdict| {
        let text = format!("the exported source does not compile for {arch}: {}", verdict.message);
        if verdict.is_trouble() { CliError::harness(text) } else { CliError::usage(text) }
    })?;
    let image = fs::read(&binary.path)
        .map_err(|error| CliError::harness(format!("cannot read `{}`: {error}", binary.path.display())))?;
    Ok(Ok(Cubin { arch: arch.to_string(), image, binary }))
}

/// The files that the source includes and that are not the compiler's: evo's own, and those beside the space.
fn headers(source: &PlainSource, rendered: &KernelSource, file: &SpaceFile) -> Result<Vec<(String, String)>> {
    let search = SearchPath::default().with_options(&rendered.options);
    let beside = file.path.parent().map(Path::to_path_buf);
    let folders: Vec<PathBuf> = search.folders.into_iter().chain(beside).collect();
    let mut found: Vec<(String, String)> = Vec::new();
    let mut open: Vec<String> = included(&source.text).map(String::from).collect();
    while let Some(name) = open.pop() {
        if found.iter().any(|(other, _)| *other == name) {
            continue;
        }
        if name.starts_with("evo/") {
            let shipped = SHIPPED_HEADERS.iter();
            found.extend(shipped.map(|(name, text)| (name.to_string(), neighboring(text, ""))));
            continue;
        }
        let is_inside =
            !name.starts_with('/') && !name.split('/').any(|part| part == ".." || part.is_empty());
        let Some(path) =
            folders.iter().map(|folder| folder.join(&name)).find(|path| is_inside && path.is_file())
        else {
            continue;
        };
        let size = fs::metadata(&path).map_or(u64::MAX, |metadata| metadata.len());
        let text = fs::read_to_string(&path).ok().filter(|_| size <= HEADER_MAX);
        let text = text.ok_or_else(|| {
            CliError::bad_file(format!("the header `{}` is too long or not a text", path.display()), &path)
        })?;
        open.extend(included(&text).map(String::from));
        found.push((name, text));
    }
    found.sort();
    found.dedup();
    Ok(found)
}
