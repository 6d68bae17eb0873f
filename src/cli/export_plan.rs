//! What `evo export` writes: one variant, or several with a rule that chooses among them by sizes.
//!
//! There are several where the candidate is several binaries, one for each set of constants, and where `dispatch` asks
//! for the portfolio of the leaderboard.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

use evo_device::binary_notes;
use evo_device::host::translate::SHIPPED_HEADERS;
use evo_export::dispatch::{Dispatch, DispatchRule, DispatchVariant};
use evo_export::error::ExportError;
use evo_export::files::{ExportFile, ExportUnit, files};
use evo_export::format::ExportFormat;
use evo_export::model::{ExportModel, ModelRequest, Symbols, model};
use evo_export::record;
use evo_export::source::{PlainSource, plain};
use evo_protocol::binary::{Binary, KernelSource};
use evo_protocol::device::DeviceKind;
use evo_protocol::export::{EXPORT_SCHEMA, ExportJudgement, ExportManifest, ExportNumbers, ExportedFile};
use evo_protocol::leaderboard::{LeaderboardSection, PortfolioSet, RankedEntry};
use evo_protocol::plan::ProblemPlan;
use evo_protocol::specialization::Specialization;
use evo_space::genome::{Configuration, ContentHash};
use evo_system::scratch::ScratchFolder;
use serde_json::{Value, json};

use super::error::CliError;
use super::export_args::ExportArgs;
use super::judge::AskedCandidate;
use super::{candidate as named, session};
use crate::compile::search_path::SearchPath;
use crate::compile::{CompileSetupError, FarmOptions, compile_one};
use crate::engine::candidate::CandidateKind;
use crate::kernel::render::render_for;
use crate::kernel::resolve::resolve;
use crate::kernel::spec::{KernelSpec, ProblemSpec, SpaceFile};
use crate::kernel::specialize::{constants_of, distinct};
use crate::study::StudySearch;
use crate::tool::{ToolKind, ToolPlaces, find};

/// How far from the fastest a variant of a dispatch table may be.
const WITHIN: f64 = 0.05;

/// What is written.
#[derive(Debug)]
pub struct ExportPlan<'a> {
    pub variants: Vec<VariantWish<'a>>,
    pub judged: ExportJudgement,
    /// How variants are chosen, where that was asked for or there are several.
    pub dispatch: Option<Dispatch>,
    /// Why there is no such rule although it was asked for.
    pub without_dispatch: Option<String>,
}

/// A configuration that takes part.
struct ExportMember {
    number: Option<u64>,
    configuration: Configuration,
    numbers: Option<ExportNumbers>,
}

/// The rule by which members are chosen: positions of members, the last one without a condition.
struct MemberRule {
    steps: Vec<(Option<String>, usize)>,
    within: Option<f64>,
    worst_factor: Option<f64>,
    is_exact: bool,
}

/// Finds out what is to be written.
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
    let alone = || ExportMember {
        number: None,
        configuration: candidate.configuration.clone(),
        numbers: section.as_ref().and_then(|own| numbers(own, &candidate.configuration)),
    };
    let mut without_dispatch = None;
    let is_champion = candidate.provenance.kind == CandidateKind::Champion;
    let (members, rule) =
        match section.as_ref().filter(|_| wants && is_champion).map(|own| portfolio(arguments, own)) {
            Some(Ok((members, rule))) => (members, Some(rule)),
            Some(Err(why)) => {
                without_dispatch = Some(why);
                (vec![alone()], None)
            }
            None => (vec![alone()], None),
        };
    let sets = distinct(problems.iter().map(|own| constants_of(&kernel.specialize, own)));
    if members.len() * sets.len() == 1 && wants && without_dispatch.is_none() {
        let why = "there is one variant, and nothing to choose; `@champion` of a leaderboard with a portfolio has more";
        without_dispatch = Some(why.to_string());
    }
    let judged = match (arguments.unchecked, is_recorded(asked)) {
        (true, _) => ExportJudgement::Unchecked,
        (false, true) => ExportJudgement::Recorded,
        (false, false) => ExportJudgement::Now,
    };
    let judged_on = match judged {
        ExportJudgement::Unchecked => None,
        ExportJudgement::Recorded => section.as_ref().map(|own| own.device.name.clone()),
        ExportJudgement::Now => {
            Some(asked.setup.choice.name.clone().unwrap_or_else(|| asked.setup.choice.spec.clone()))
        }
    };
    let several = members.len() * sets.len() > 1;
    let mut variants = Vec::new();
    for member in &members {
        for constants in &sets {
            let own = problems.iter().filter(|own| constants_of(&kernel.specialize, own) == *constants);
            variants.push(VariantWish {
                file: &candidate.file,
                kernel,
                configuration: member.configuration.clone(),
                constants: constants.clone(),
                problems: own.copied().collect(),
                source_hash: candidate.provenance.source_hash.clone().filter(|_| members.len() == 1),
                judged,
                judged_on: judged_on.clone(),
                numbers: member.numbers.clone(),
                folder: if several { folder(member.number, constants, members.len()) } else { String::new() },
            });
        }
    }
    let dispatch = several.then(|| dispatch(kernel, &variants, &sets, rule, &problems));
    Ok(ExportPlan { variants, judged, dispatch, without_dispatch })
}

/// What the leaderboard says of a candidate that it names.
fn section(
    arguments: &ExportArgs,
    asked: &AskedCandidate,
    kernel: &KernelSpec,
) -> Result<Option<LeaderboardSection>, CliError> {
    if !is_recorded(asked) {
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
    let entry: &RankedEntry = section.entries().find(|own| own.configuration == *configuration)?;
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

/// The smallest set of the leaderboard that is fast enough everywhere, with its rule; or why there is none.
fn portfolio(
    arguments: &ExportArgs,
    section: &LeaderboardSection,
) -> Result<(Vec<ExportMember>, MemberRule), String> {
    let portfolio = section
        .portfolio
        .as_ref()
        .ok_or("the leaderboard has no portfolio: it needs several timed problems")?;
    let set: &PortfolioSet = portfolio
        .sets
        .iter()
        .filter(|own| own.within <= WITHIN + 1e-9)
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
    let place = |number: u64| set.members.iter().position(|own| own.number == number);
    let steps: Option<Vec<(Option<String>, usize)>> =
        rule.iter().map(|step| Some((step.when.clone(), place(step.number)?))).collect();
    let members = set.members.iter().map(|own| ExportMember {
        number: Some(own.number),
        configuration: own.configuration.clone(),
        numbers: numbers(section, &own.configuration),
    });
    let rule = MemberRule {
        steps: steps.ok_or("its rule names a variant that is not in it")?,
        within: Some(set.within),
        worst_factor: Some(set.worst_factor),
        is_exact: set.is_exact,
    };
    Ok((members.collect(), rule))
}

fn folder(number: Option<u64>, constants: &Specialization, members: usize) -> String {
    let own = number.filter(|_| members > 1).map(|number| format!("variant_{number}"));
    let values = constants.iter().map(|(name, value)| format!("{}_{value}", name.to_lowercase()));
    own.into_iter().chain(values).collect::<Vec<String>>().join("_")
}

/// The rule of all variants: which member, and of that the binary for the sizes.
fn dispatch(
    kernel: &KernelSpec,
    variants: &[VariantWish<'_>],
    sets: &[Specialization],
    rule: Option<MemberRule>,
    problems: &[&ProblemSpec],
) -> Dispatch {
    let rule = rule.unwrap_or(MemberRule {
        steps: vec![(None, 0)],
        within: None,
        worst_factor: None,
        is_exact: true,
    });
    let mut rules = Vec::new();
    for (when, member) in &rule.steps {
        for (at, constants) in sets.iter().enumerate() {
            let own = constants.iter().map(|(name, value)| format!("{name} == {value}"));
            let all: Vec<String> = when.iter().map(|when| format!("({when})")).chain(own).collect();
            let when = (!all.is_empty()).then(|| all.join(" and "));
            rules.push(DispatchRule { when, variant: member * sets.len() + at });
        }
    }
    let sizes = |own: &ProblemSpec| -> Vec<(String, i64)> {
        own.sizes.iter().map(|(name, value)| (name.clone(), value.as_int().unwrap_or(0))).collect()
    };
    // A problem belongs to the first variant that the rule gives it; the table says so for people.
    let chosen: BTreeMap<&str, usize> = problems
        .iter()
        .filter_map(|own| {
            let scope = |name: &str| own.sizes.get(name).cloned();
            let holds = |rule: &&DispatchRule| match &rule.when {
                None => true,
                Some(text) => evo_space::Expr::parse(text)
                    .is_ok_and(|expr| expr.evaluate(&scope).is_ok_and(|value| value.is_true())),
            };
            rules.iter().find(holds).map(|rule| (own.name.as_str(), rule.variant))
        })
        .collect();
    let variant = |(at, own): (usize, &VariantWish<'_>)| DispatchVariant {
        folder: own.folder.clone(),
        label: format!("{} {}", own.configuration, own.constants).trim_end().to_string(),
        problems: chosen
            .iter()
            .filter(|(_, chosen)| **chosen == at)
            .map(|(name, _)| name.to_string())
            .collect(),
    };
    Dispatch {
        kernel: kernel.name.clone(),
        sizes: kernel.problems.first().map(|own| own.sizes.keys().cloned().collect()).unwrap_or_default(),
        variants: variants.iter().enumerate().map(variant).collect(),
        rules,
        within: rule.within,
        worst_factor: rule.worst_factor,
        is_exact: rule.is_exact,
        measured: problems.iter().filter(|own| own.timed).map(|own| (own.name.clone(), sizes(own))).collect(),
    }
}

/// Whether the leaderboard vouches for a candidate.
fn is_recorded(asked: &AskedCandidate) -> bool {
    let from = &asked.candidate.provenance;
    matches!(from.kind, CandidateKind::Champion | CandidateKind::Previous) && !from.source_changed
}

/// A longer file is not a header.
const HEADER_MAX: u64 = 1 << 20;

/// A variant that is to be exported.
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
pub struct ExportedVariant {
    pub folder: String,
    pub model: ExportModel,
    pub files: Vec<ExportFile>,
    /// Why formats are missing.
    pub missing: Vec<(ExportFormat, String)>,
}

/// A compiled kernel.
struct Cubin {
    arch: String,
    image: Vec<u8>,
    binary: Binary,
}

/// Symbols of a compiled kernel, or those that plain names have.
#[derive(Debug)]
struct CubinSymbols<'a>(Option<&'a [u8]>);

impl Symbols for CubinSymbols<'_> {
    fn symbol_of(&self, entry: &str) -> Option<String> {
        binary_notes::symbol_of(self.0?, entry).map(String::from)
    }
}

/// Makes the files of a variant; nothing is written.
pub fn make(
    wish: &VariantWish<'_>,
    formats: &[ExportFormat],
    arch: Option<&str>,
) -> Result<ExportedVariant, CliError> {
    let VariantWish { kernel, configuration, constants, .. } = wish;
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
    let mut missing = Vec::new();
    let wants = formats.iter().any(|own| own.needs_cubin());
    let compiled =
        if wants { compiled(&source, &rendered, arch)? } else { Err("no format needs it".to_string()) };
    let symbols = CubinSymbols(compiled.as_ref().ok().map(|own| &own.image[..]));
    let model =
        model(&ModelRequest { kernel, configuration, constants, symbols: &symbols }).map_err(refusal)?;
    let mut made: Vec<ExportFormat> = Vec::new();
    for format in formats.iter().copied().filter(|own| *own != ExportFormat::Dispatch) {
        match (&compiled, format.needs_cubin()) {
            (Err(why), true) => missing.push((format, why.clone())),
            _ => made.push(format),
        }
    }
    let example: Vec<(String, i64)> = wish
        .problems
        .iter()
        .find(|own| own.timed)
        .or(wish.problems.first())
        .map(|own| {
            own.sizes.iter().map(|(name, value)| (name.clone(), value.as_int().unwrap_or(0))).collect()
        })
        .unwrap_or_default();
    let image = compiled.as_ref().ok().map(|own| (own.arch.as_str(), binary_notes::image(&own.image)));
    let unit = ExportUnit {
        model: &model,
        label: &label,
        hash: &rendered.variant_hash,
        source: &source,
        headers: &headers,
        cubin: image,
        example: &example,
        evo: env!("CARGO_PKG_VERSION"),
    };
    let mut files = files(&unit, &made).map_err(refusal)?;
    let binary = compiled.as_ref().ok();
    let manifest = manifest(wish, &model, &source, binary, &missing, &files);
    let text = serde_json::to_string_pretty(&manifest).unwrap_or_default();
    files.push(ExportFile {
        path: "manifest.json".into(),
        contents: format!("{text}\n").into_bytes(),
        about: "",
    });
    Ok(ExportedVariant { folder: wish.folder.clone(), model, files, missing })
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
    let folders = rendered.options.iter().filter(|own| own.starts_with("-I"));
    let own = KernelSource {
        text: source.text.clone(),
        options: source.options.iter().chain(folders).cloned().collect(),
        file_name: "kernel.cu".to_string(),
        ..rendered.clone()
    };
    let outcome = match compile_one(&FarmOptions::new(DeviceKind::Cuda, arch), own) {
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
    let mut open: Vec<String> = source.includes.clone();
    while let Some(name) = open.pop() {
        if found.iter().any(|(own, _)| *own == name) {
            continue;
        }
        if name.starts_with("evo/") {
            let own = SHIPPED_HEADERS.iter();
            let own = own.map(|(own, text)| (own.to_string(), evo_export::source::neighboring(text)));
            found.extend(own);
            continue;
        }
        let is_inside =
            !name.starts_with('/') && !name.split('/').any(|part| part == ".." || part.is_empty());
        let Some(path) = folders.iter().map(|own| own.join(&name)).find(|own| is_inside && own.is_file())
        else {
            continue;
        };
        let size = fs::metadata(&path).map_or(u64::MAX, |own| own.len());
        let text = fs::read_to_string(&path).ok().filter(|_| size <= HEADER_MAX);
        let text = text.ok_or_else(|| {
            CliError::bad_file(format!("the header `{}` is too long or not a text", path.display()), &path)
        })?;
        open.extend(evo_export::source::includes(&text));
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
    let mut because = |name: &str, is_null: bool, why: &str| {
        if is_null {
            reasons.insert(name.to_string(), why.to_string());
        }
    };
    because("numbers", wish.numbers.is_none(), "no leaderboard has this candidate");
    because("judged_on", wish.judged_on.is_none(), "it was not judged (`--unchecked`)");
    because("arch", cubin.is_none(), "there is no cubin");
    because("toolchain", cubin.is_none(), "there is no cubin");
    because("source_hash", wish.source_hash.is_none(), "it is not known");
    let file = |own: &ExportFile| {
        let entry = ExportedFile { hash: ContentHash::of(&own.contents), bytes: own.contents.len() as u64 };
        (own.path.clone(), entry)
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
        arch: cubin.map(|own| own.arch.clone()),
        toolchain: cubin.map(|own| own.binary.toolchain.clone()),
        compiler_options: source.options.clone(),
        arguments,
        launches,
        conditions: json!(model.conditions),
        alignment_bytes: model.alignment,
        resources: cubin.map(|own| own.binary.resources.clone()).unwrap_or_default(),
        numbers: wish.numbers.clone(),
        files: files.iter().map(file).collect(),
        reasons,
    }
}

/// What came of a comparison: nothing wrong, what is wrong, or why nobody could look.
pub enum LaunchLook {
    Same,
    Different(String),
    NotRun(String),
}

/// Compares `launch.hpp`.
pub fn in_cpp(wish: &VariantWish<'_>, own: &ExportedVariant, folder: &ScratchFolder) -> LaunchLook {
    let compiler = std::env::var("CXX").ok().filter(|own| !own.trim().is_empty());
    let candidates: Vec<String> =
        compiler.map_or(["c++", "g++", "clang++"].map(String::from).to_vec(), |own| vec![own]);
    let looked = look(wish, own, folder, |place| {
        let mut last =
            io::Error::new(io::ErrorKind::NotFound, "there is no C++ compiler: install g++ or set CXX");
        for words in &candidates {
            let mut words = words.split_whitespace();
            let Some(program) = words.next() else { continue };
            let made = Command::new(program)
                .args(words)
                .args(["-std=c++17", "-I.", "-o", "record", "record.cpp"])
                .current_dir(place)
                .output();
            match made {
                Ok(made) if made.status.success() => {
                    let ran = Command::new(place.join("record")).current_dir(place).output()?;
                    return Ok(Ok(String::from_utf8_lossy(&ran.stdout).into_owned()));
                }
                Ok(made) => return Ok(Err(String::from_utf8_lossy(&made.stderr).into_owned())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => last = error,
            }
        }
        Err(last)
    });
    looked.unwrap_or_else(|error| LaunchLook::NotRun(format!("launch.hpp was not compiled: {error}")))
}

/// Compares `launch_plan.py`.
pub fn in_python(wish: &VariantWish<'_>, own: &ExportedVariant, folder: &ScratchFolder) -> LaunchLook {
    let python = match find(ToolKind::Python, None, &ToolPlaces::of_environment()) {
        Ok(python) => python,
        Err(failure) => return LaunchLook::NotRun(failure.message),
    };
    let looked = look(wish, own, folder, |place| {
        let ran = Command::new(&python).args(["-B", "record.py"]).current_dir(place).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(if ran.status.success() { Ok(text(&ran.stdout)) } else { Err(text(&ran.stderr)) })
    });
    looked.unwrap_or_else(|error| LaunchLook::NotRun(format!("launch_plan.py was not run: {error}")))
}

/// Writes the programs and runs one: its output, or what it or its compiler complains of.
fn look(
    wish: &VariantWish<'_>,
    own: &ExportedVariant,
    folder: &ScratchFolder,
    run: impl FnOnce(&Path) -> io::Result<Result<String, String>>,
) -> io::Result<LaunchLook> {
    let plans = plans(wish);
    let sizes: Vec<BTreeMap<String, i64>> = plans.iter().map(|own| own.sizes.clone()).collect();
    let programs = record::programs(&own.model, &sizes).map_err(io::Error::other)?;
    let place = folder.path();
    for file in own.files.iter().chain(&programs) {
        let path = place.join(&file.path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, &file.contents)?;
    }
    let ran = run(place);
    // Two of them are called as CUDA's own headers, which the builds that follow in this folder must not find.
    for file in &programs {
        fs::remove_file(place.join(&file.path))?;
    }
    Ok(match ran? {
        Ok(printed) => match record::compare(&own.model, &printed, &plans) {
            Ok(()) => LaunchLook::Same,
            Err(why) => LaunchLook::Different(format!("it does not launch what evo launches {why}")),
        },
        Err(said) => {
            let first = said.lines().find(|line| line.contains("rror")).or(said.lines().next());
            LaunchLook::Different(format!("its launch code does not run: {}", first.unwrap_or_default()))
        }
    })
}

/// The plans of every problem that the variant serves, on whatever device.
fn plans(wish: &VariantWish<'_>) -> Vec<ProblemPlan> {
    let kernel = wish.kernel;
    let served = kernel.problems.iter().filter(|own| constants_of(&kernel.specialize, own) == wish.constants);
    served.filter_map(|own| resolve(kernel, &wish.configuration, own).ok()).collect()
}
