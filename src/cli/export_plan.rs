//! What `evo export` writes: one variant, or several with a rule that chooses among them by sizes.
//!
//! There are several where the candidate is several binaries, one for each set of constants, and where `dispatch` asks
//! for the portfolio of the leaderboard.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use evo_device::binary_notes;
use evo_device::host::translate::SHIPPED_HEADERS;
use evo_export::dispatch::{Dispatch, DispatchRule, DispatchVariant};
use evo_export::files::{ExportFile, ExportFormat, ExportUnit, files};
use evo_export::formula::ExportError;
use evo_export::model::{ExportModel, model};
use evo_export::source::{PlainSource, neighboring, plain};
use evo_protocol::binary::{Binary, KernelSource};
use evo_protocol::device::DeviceKind;
use evo_protocol::export::{EXPORT_SCHEMA, ExportJudgement, ExportManifest, ExportNumbers, ExportedFile};
use evo_protocol::leaderboard::{LeaderboardSection, PortfolioSet, RankedEntry};
use evo_protocol::specialization::Specialization;
use evo_space::genome::{Configuration, ContentHash};
use serde_json::{Value, json};

use super::error::CliError;
use super::judge::AskedCandidate;
use super::one_args::TestOneArgs;
use super::{candidate as named, session};
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
    pub variants: Vec<VariantWish<'a>>,
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
    kind: DeviceKind,
    formats: &[ExportFormat],
) -> Result<ExportPlan<'a>, CliError> {
    let candidate = &asked.candidate;
    let kernel = session::kernel_of(&candidate.file)?;
    let problems = session::problems(kernel, kind, &arguments.one.problems)?;
    let wants = formats.contains(&ExportFormat::Dispatch);
    let section = section(arguments, asked, kernel)?;
    let is_champion = candidate.provenance.kind == CandidateKind::Champion;
    let several =
        section.as_ref().filter(|_| wants && is_champion).map(|section| portfolio(arguments, section));
    let (several, mut without_dispatch) = match several.transpose() {
        Ok(several) => (several, None),
        Err(why) => (None, Some(why)),
    };
    let (members, rule) = match several {
        Some((members, rule)) => (members, Some(rule)),
        None => (vec![(None, candidate.configuration.clone())], None),
    };
    let sets = distinct(problems.iter().map(|problem| constants_of(&kernel.specialize, problem)));
    if members.len() * sets.len() == 1 && wants && without_dispatch.is_none() {
        let why = "there is one variant, and nothing to choose; `@champion` of a leaderboard with a portfolio has more";
        without_dispatch = Some(why.to_string());
    }
    let judged = match (arguments.unchecked, section.is_some()) {
        (true, _) => ExportJudgement::Unchecked,
        (false, true) => ExportJudgement::Recorded,
        (false, false) => ExportJudgement::Now,
    };
    let judged_on = match judged {
        ExportJudgement::Unchecked => None,
        ExportJudgement::Recorded => section.as_ref().map(|section| section.device.name.clone()),
        ExportJudgement::Now => {
            Some(asked.setup.choice.name.clone().unwrap_or_else(|| asked.setup.choice.spec.clone()))
        }
    };
    let several = members.len() * sets.len() > 1;
    let mut variants = Vec::new();
    for (number, configuration) in &members {
        for constants in &sets {
            let served =
                problems.iter().filter(|problem| constants_of(&kernel.specialize, problem) == *constants);
            variants.push(VariantWish {
                file: &candidate.file,
                kernel,
                configuration: configuration.clone(),
                constants: constants.clone(),
                problems: served.copied().collect(),
                source_hash: candidate.provenance.source_hash.clone().filter(|_| members.len() == 1),
                judged,
                judged_on: judged_on.clone(),
                numbers: section.as_ref().and_then(|section| numbers(section, configuration)),
                folder: if several { folder(*number, constants, members.len()) } else { String::new() },
            });
        }
    }
    let dispatch = several.then(|| dispatch(kernel, &variants, &sets, rule, &problems));
    Ok(ExportPlan { variants, judged, dispatch, without_dispatch })
}

/// What the leaderboard says of a candidate that it vouches for.
fn section(
    arguments: &ExportArgs,
    asked: &AskedCandidate,
    kernel: &KernelSpec,
) -> Result<Option<LeaderboardSection>, CliError> {
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
    variants: &[VariantWish<'_>],
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
    let variant = |(wish, problems): (&VariantWish<'_>, BTreeSet<&str>)| DispatchVariant {
        folder: wish.folder.clone(),
        label: format!("{} {}", wish.configuration, wish.constants).trim_end().to_string(),
        problems: problems.into_iter().map(String::from).collect(),
    };
    let timed = problems.iter().filter(|problem| problem.timed);
    Dispatch {
        kernel: kernel.name.clone(),
        sizes: kernel.problems.first().into_iter().flat_map(|first| first.sizes.keys().cloned()).collect(),
        variants: variants.iter().zip(chosen).map(variant).collect(),
        rules,
        measured: timed.map(|problem| (problem.name.clone(), sizes(problem))).collect(),
        ..rule
    }
}

/// A longer file is not a header.
const HEADER_MAX: u64 = 1 << 20;

#[derive(Clone, Debug)]
pub struct VariantWish<'a> {
    pub file: &'a SpaceFile,
    pub kernel: &'a KernelSpec,
    pub configuration: Configuration,
    pub constants: Specialization,
    /// Problems of the target that it serves.
    pub problems: Vec<&'a ProblemSpec>,
    pub source_hash: Option<ContentHash>,
    pub judged: ExportJudgement,
    pub judged_on: Option<String>,
    pub numbers: Option<ExportNumbers>,
    /// Folder in the export; empty for the export itself.
    pub folder: String,
}

#[derive(Debug)]
pub struct ExportedVariant<'a> {
    pub wish: VariantWish<'a>,
    pub model: ExportModel,
    pub files: Vec<ExportFile>,
    pub missing: Vec<(ExportFormat, String)>,
}

struct Cubin {
    arch: String,
    image: Vec<u8>,
    binary: Binary,
}

/// Makes the files of a variant; nothing is written.
pub fn make<'a>(
    wish: VariantWish<'a>,
    formats: &[ExportFormat],
    arch: Option<&str>,
) -> Result<ExportedVariant<'a>, CliError> {
    let VariantWish { kernel, configuration, constants, .. } = &wish;
    let rendered = render_for(kernel, configuration, constants).map_err(|verdict| {
        CliError::usage(format!("`{configuration}` does not render: {}", verdict.message))
    })?;
    let label = match constants.is_empty() {
        true => format!("{} {configuration}", kernel.name),
        false => format!("{} {configuration}, for {constants}", kernel.name),
    };
    let title =
        [label.clone(), format!("Exported by evo {}: no macro is left to set.", env!("CARGO_PKG_VERSION"))];
    let source = plain(&rendered, &title);
    let headers = headers(&source, &rendered, wish.file)?;
    let compiled = match formats.iter().any(|format| format.needs_cubin()) {
        true => compiled(&source, &rendered, arch)?,
        false => Err("no format needs it".to_string()),
    };
    let cubin = compiled.as_ref().ok();
    // The symbol in the cubin, or that of a plain name.
    let symbol_of =
        |entry: &str| cubin.and_then(|cubin| binary_notes::symbol_of(&cubin.image, entry)).map(String::from);
    let model = model(kernel, configuration, constants, &symbol_of).map_err(refusal)?;
    let candidate = formats.iter().copied().filter(|format| *format != ExportFormat::Dispatch);
    let (made, missing): (Vec<ExportFormat>, Vec<ExportFormat>) =
        candidate.partition(|format| cubin.is_some() || !format.needs_cubin());
    let why = compiled.as_ref().err().cloned().unwrap_or_default();
    let missing: Vec<_> = missing.into_iter().map(|format| (format, why.clone())).collect();
    let example = wish.problems.iter().find(|problem| problem.timed).or(wish.problems.first());
    let unit = ExportUnit {
        model: &model,
        label: &label,
        hash: &rendered.variant_hash,
        source: &source,
        headers: &headers,
        cubin: cubin.map(|cubin| (cubin.arch.as_str(), binary_notes::image(&cubin.image))),
        example: &example.map(|problem| sizes(problem)).unwrap_or_default(),
        evo: env!("CARGO_PKG_VERSION"),
    };
    let mut files = files(&unit, &made).map_err(refusal)?;
    let manifest = manifest(&wish, &model, &source, cubin, &missing, &files);
    let text = serde_json::to_string_pretty(&manifest).unwrap_or_default();
    files.push(ExportFile::of("manifest.json", format!("{text}\n"), ""));
    Ok(ExportedVariant { wish, model, files, missing })
}

fn sizes(problem: &ProblemSpec) -> Vec<(String, i64)> {
    problem.sizes.iter().map(|(name, value)| (name.clone(), value.as_int().unwrap_or(0))).collect()
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
) -> Result<Result<Cubin, String>, CliError> {
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
fn headers(
    source: &PlainSource,
    rendered: &KernelSource,
    file: &SpaceFile,
) -> Result<Vec<(String, String)>, CliError> {
    let search = SearchPath::default().with_options(rendered.options.iter().map(String::as_str));
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

fn manifest(
    wish: &VariantWish<'_>,
    model: &ExportModel,
    source: &PlainSource,
    cubin: Option<&Cubin>,
    missing: &[(ExportFormat, String)],
    files: &[ExportFile],
) -> ExportManifest {
    let mut reasons: BTreeMap<String, String> =
        missing.iter().map(|(format, why)| (format.as_str().to_string(), why.clone())).collect();
    for (name, is_null, why) in [
        ("numbers", wish.numbers.is_none(), "no leaderboard has this candidate"),
        ("judged_on", wish.judged_on.is_none(), "it was not judged (`--unchecked`)"),
        ("arch", cubin.is_none(), "there is no cubin"),
        ("toolchain", cubin.is_none(), "there is no cubin"),
        ("source_hash", wish.source_hash.is_none(), "it is not known"),
    ] {
        if is_null {
            reasons.insert(name.to_string(), why.to_string());
        }
    }
    let file = |exported: &ExportFile| {
        let entry =
            ExportedFile { hash: ContentHash::of(&exported.contents), bytes: exported.contents.len() as u64 };
        (exported.path.clone(), entry)
    };
    let arguments = json!({ "sizes": model.sizes, "buffers": model.buffers, "scalars": model.scalars });
    let launches: Value = json!({ "entries": model.entries, "steps": model.steps });
    ExportManifest {
        schema: EXPORT_SCHEMA.to_string(),
        version: 1,
        evo: env!("CARGO_PKG_VERSION").to_string(),
        kernel: wish.kernel.name.clone(),
        configuration: wish.configuration.clone(),
        configuration_hash: wish.configuration.hash(),
        constants: wish.constants.clone(),
        source_hash: wish.source_hash.clone(),
        judged: wish.judged,
        judged_on: wish.judged_on.clone(),
        arch: cubin.map(|cubin| cubin.arch.clone()),
        toolchain: cubin.map(|cubin| cubin.binary.toolchain.clone()),
        compiler_options: source.options.clone(),
        arguments,
        launches,
        conditions: json!(model.conditions),
        alignment_bytes: model.alignment,
        resources: cubin.map(|cubin| cubin.binary.resources.clone()).unwrap_or_default(),
        numbers: wish.numbers.clone(),
        files: files.iter().map(file).collect(),
        reasons,
    }
}
