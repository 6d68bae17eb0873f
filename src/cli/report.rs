//! `evo report`: a study as `report.json`, `report.md`, `final_summary.md` and `report.html`.

use std::path::{Path, PathBuf};

use clap::Args;
use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::known::Known;
use evo_protocol::leaderboard::RankedEntry;
use evo_space::genome::Configuration;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Answer, Call, CliError, ExitCode, Result, output};
use crate::engine::candidate::{RestoreRequest, restored};
use crate::journal::iterations::{GateRun, Iteration};
use crate::journal::ladder::output_folder;
use crate::journal::line::numbered;
use crate::journal::own_folder::OwnFolder;
use crate::journal::reader::JOURNAL;
use crate::journal::record::StudyHeader;
use crate::kernel::catalog;
use crate::kernel::label::is_label;
use crate::kernel::spec::SpaceFile;
use crate::report::envelope::ResultAlone;
use crate::report::failures::passed;
use crate::report::standing::beside_peers;
use crate::report::study_report::{LoadedStudy, ReportMaterial, SourceText, StudyModel, StudyView};
use crate::study::{instead_of, studies};

const MARK: &str = "evo.report";
const MARK_WITHIN: u64 = 200;

pub fn run(arguments: &ReportArgs, call: &Call) -> Result<Answer> {
    let chosen = choose(&arguments.out, arguments.study.as_deref())?;
    let mut material = gather(&chosen, false)?;
    material.sources = sources(&material);
    let model = StudyModel::of(&material);
    let render = |view: StudyView| Ok((view.file_name(), rendered(&model, view)?));
    let texts = StudyView::FILES.into_iter().map(render).collect::<Result<Vec<_>>>()?;
    let folder = match &arguments.to {
        None => chosen.folder,
        Some(to) => OwnFolder::create(to).map_err(|error| {
            CliError::bad_file(format!("cannot make `{}`: {error}", to.display()), to)
                .with_hint("`--to` names another folder")
        })?,
    };
    // All of them first: a refusal writes nothing.
    texts.iter().try_for_each(|(name, _)| check_place(&folder, name))?;
    for (name, text) in &texts {
        write(&folder, name, text)?;
    }
    let files: Vec<String> = texts.iter().map(|(name, _)| folder.place(name).display().to_string()).collect();
    for damage in &material.study.damage {
        output::say(&format!("note: {damage}"));
    }
    call.show(&(files.join("\n") + "\n"))?;
    Ok(Answer::of(ExitCode::Done, &ResultAlone { result: result(&material, &files) }))
}

pub fn after_sweep(out: &OwnFolder, name: &str) -> Result<String> {
    let folder = out.folder(name).map_err(|error| CliError::harness(error.to_string()))?;
    let chosen = ChosenStudy { folder: folder.clone(), out: Some(out.clone()) };
    let material = gather(&chosen, false)?;
    let name = StudyView::Page.file_name();
    check_place(&folder, name)?;
    write(&folder, name, &rendered(&StudyModel::of(&material), StudyView::Page)?)?;
    Ok(folder.place(name).display().to_string())
}

pub fn rendered(model: &StudyModel<'_>, view: StudyView) -> Result<String> {
    view.render(model)
        .map_err(|error| CliError::harness(format!("`{}` does not render: {error:#}", view.file_name())))
}

pub fn gather(chosen: &ChosenStudy, is_live: bool) -> Result<ReportMaterial> {
    let mut material = ReportMaterial::of(LoadedStudy::read(&chosen.folder, is_live)?);
    let header = material.study.header.clone();
    if let Some(out) = &chosen.out {
        // Lines of a kernel stand in a folder of its own, whatever its studies are called.
        let name = format!("{}-{}", header.kernel, header.device.kind.as_str());
        if let Ok(folder) = out.folder(&name) {
            let lines = numbered::<Iteration>(&folder)?;
            let gates = numbered::<GateRun>(&folder)?;
            material.study.damage.extend(lines.notes.into_iter().chain(gates.notes));
            material.iterations = lines.lines.into_iter().filter(|own| own.kernel == header.kernel).collect();
            material.gates = gates.lines.into_iter().filter(|own| own.kernel == header.kernel).collect();
        }
        material.peers = beside_peers(out, &header.kernel, &header.device.name);
    }
    Ok(material)
}

/// The sources of baseline and winner, rendered again where that gives what was measured.
fn sources(material: &ReportMaterial) -> Result<[SourceText; 2], String> {
    let header = &material.study.header;
    if header.device.kind == DeviceKind::Replay {
        return Err("a recording holds no sources".into());
    }
    let (winner, base) = material.winner().zip(material.baseline()).ok_or("there is no winner to compare")?;
    let file = catalog::open(&header.space)
        .map_err(|_| format!("the space `{}` cannot be opened from here", header.space))?;
    let text = |one: &Evaluation, what: &str| source(&file, header, one, what);
    Ok([text(base, "the baseline")?, text(winner, "the winner")?])
}

fn source(
    file: &SpaceFile,
    header: &StudyHeader,
    one: &Evaluation,
    what: &str,
) -> Result<SourceText, String> {
    let source_hash = one.source_hash.as_ref().ok_or("the journal keeps no hash of their sources")?;
    let request = RestoreRequest {
        configuration: &one.configuration,
        source: None,
        launch: None,
        source_hash: Some(source_hash),
        device: header.device.kind,
    };
    let files = restored(file, &request)?;
    if files.source_changed {
        return Err(format!("the kernel was edited since evaluation {} was measured", one.number));
    }
    // The header names the configuration, which the parameters beside it say already.
    let text = match files.source.split_once(evo_protocol::binary::HEADER_END) {
        Some((_, body)) => body.to_string(),
        None => files.source,
    };
    Ok(SourceText { name: format!("{what} (evaluation {})", one.number), text })
}

fn check_place(folder: &OwnFolder, name: &str) -> Result<()> {
    const HINT: &str = "move it away, or name another folder with `--to`";
    CliError::refuse_irregular(folder, name, HINT)?;
    if !folder.exists(name) {
        return Ok(());
    }
    let path = folder.place(name);
    let refused =
        |why: String| CliError::bad_file(format!("`{}` {why}", path.display()), &path).with_hint(HINT);
    let start =
        folder.read_start(name, MARK_WITHIN).map_err(|error| refused(format!("cannot be read: {error}")))?;
    match String::from_utf8_lossy(&start).contains(MARK) {
        true => Ok(()),
        false => Err(refused("is there already, and evo did not write it".to_string())),
    }
}

fn write(folder: &OwnFolder, name: &str, text: &str) -> Result<()> {
    folder.replace(name, text.as_bytes(), true).map_err(|error| {
        let path = folder.place(name);
        CliError::lost_file(&path, &error).at(evo_protocol::envelope::ErrorPlace::file(&path))
    })
}

/// The `result` of `evo report`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Reported<'a> {
    study: &'a str,
    kernel: &'a str,
    device: &'a str,
    files: &'a [String],
    evaluations: usize,
    passed: usize,
    confirmed: bool,
    winner: Known<ReportedWinner<'a>>,
    notes: &'a [String],
}

#[derive(Debug, Serialize, JsonSchema)]
struct ReportedWinner<'a> {
    number: u64,
    configuration: &'a Configuration,
    time_ns: Known<f64>,
    speedup: Known<f64>,
    speedup_low: Known<f64>,
    speedup_high: Known<f64>,
}

fn result<'a>(material: &'a ReportMaterial, files: &'a [String]) -> Reported<'a> {
    let header = &material.study.header;
    let champion = material.section.as_ref().map(|section| &section.champion);
    let compared = |of: fn(&RankedEntry) -> Option<f64>| {
        Known::of(champion.and_then(of), "it was not compared with a baseline in paired runs")
    };
    let winner = material.winner().map(|winner| ReportedWinner {
        number: winner.number,
        configuration: &winner.configuration,
        time_ns: Known::of(
            champion.map(|champion| champion.objective_ns).or(winner.objective_ns),
            "its time is not in the journal",
        ),
        speedup: compared(|champion| champion.speedup),
        speedup_low: compared(|champion| champion.speedup_low),
        speedup_high: compared(|champion| champion.speedup_high),
    });
    Reported {
        study: &header.study,
        kernel: &header.kernel,
        device: &header.device.name,
        files,
        evaluations: material.evaluations().len(),
        passed: passed(material.evaluations()),
        confirmed: champion.is_some(),
        winner: Known::of(winner, "no variant passed"),
        notes: &material.study.damage,
    }
}

#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A study's name in --out, or the path of its folder [default: the study that was written last]
    pub study: Option<String>,
    /// The folder of the studies, the evaluations and the benchmarks
    #[arg(long, value_name = "DIR", default_value = "evidence")]
    pub out: PathBuf,
    /// Write to this folder, which is made [default: the study's own]
    #[arg(long, value_name = "FOLDER")]
    pub to: Option<PathBuf>,
    /// Serve the page on this machine and keep it up to date instead of writing files; only with the token in the
    /// address that is printed can it be read, and Ctrl-C ends it
    #[arg(long, conflicts_with_all = ["to", "json"])]
    pub watch: bool,
    /// Port on 127.0.0.1 for --watch [default: one that is free]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, requires = "watch")]
    pub port: u16,
    /// One JSON object on stdout
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug)]
pub struct ChosenStudy {
    pub folder: OwnFolder,
    /// The output folder around it, with the records of the same kernel.
    pub out: Option<OwnFolder>,
}

pub fn choose(out: &Path, study: Option<&str>) -> Result<ChosenStudy> {
    let around = output_folder(out)?;
    let Some(word) = study else { return newest(out, around) };
    let named = around.as_ref().filter(|_| is_label(word)).and_then(|around| around.folder(word).ok());
    if let Some(folder) = named.filter(|folder| folder.has_file(JOURNAL)) {
        return Ok(ChosenStudy { folder, out: around });
    }
    let path = Path::new(word);
    if !path.join(JOURNAL).is_file() {
        return Err(missing(out, word));
    }
    let folder = OwnFolder::open(path).map_err(|error| {
        CliError::bad_file(format!("cannot open `{}`: {error}", path.display()), path)
            .with_hint("links are not followed")
    })?;
    // The folder around a relative name of one part is the one that evo runs in.
    let around = path.canonicalize().ok().and_then(|own| own.parent().map(PathBuf::from));
    Ok(ChosenStudy { folder, out: around.and_then(|own| OwnFolder::open(&own).ok()) })
}

fn newest(out: &Path, around: Option<OwnFolder>) -> Result<ChosenStudy> {
    let none = |what: &str| {
        CliError::bad_file(format!("there is no {what} `{}`", out.display()), out)
            .with_hint("`evo sweep` makes one; `--out` names another folder")
    };
    let around = around.ok_or_else(|| none("folder"))?;
    let newest = studies(&around).unwrap_or_default().into_iter().next();
    let folder = newest.ok_or_else(|| none("study in"))?.folder;
    Ok(ChosenStudy { folder, out: Some(around) })
}

fn missing(out: &Path, word: &str) -> CliError {
    let around = output_folder(out).ok().flatten();
    let place = format!("in `{}`", out.display());
    let hint = instead_of(word, around.as_ref(), &place);
    CliError::bad_file(format!("there is no study `{word}`"), Path::new(word))
        .with_hint(hint.unwrap_or_else(|| format!("there is no study {place}")))
}
