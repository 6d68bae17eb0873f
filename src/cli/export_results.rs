//! `evo export STUDY --format t4|kernel-tuner|optuna|csv`: a study's results as files that other tools read.

use std::path::Path;

use evo_export::files::ExportFile;
use evo_export::results::{StudyResults, kernel_tuner, optuna, t4};
use evo_protocol::evaluation::Evaluation;
use evo_space::value::Value;
use serde_json::json;

use super::answer::Answer;
use super::call::Call;
use super::error::CliError;
use super::exit_code::ExitCode;
use super::export::ExportArgs;
use super::{export, output};
use crate::journal::error::JournalError;
use crate::journal::own_folder::OwnFolder;
use crate::journal::reader;
use crate::journal::replay::History;
use crate::report::csv;

/// The forms, with their files.
pub const RESULT_FORMATS: [(&str, &str); 4] = [
    ("t4", "t4-results.json"),
    ("kernel-tuner", "kernel-tuner-cache.json"),
    ("optuna", "optuna-journal.log"),
    ("csv", "results.csv"),
];

/// Whether forms of results are asked for.
pub fn is_asked(arguments: &ExportArgs) -> Result<bool, CliError> {
    let is_result = |name: &&String| RESULT_FORMATS.iter().any(|(own, _)| *own == name.trim());
    let count = arguments.formats.iter().filter(is_result).count();
    if count > 0 && count < arguments.formats.len() {
        let text = "`--format` mixes forms of a study's results and forms of a candidate";
        return Err(CliError::usage(text).with_hint("call `evo export` once for each"));
    }
    Ok(count > 0)
}

/// Runs the command.
pub fn run(arguments: &ExportArgs, call: &Call) -> Result<Answer, CliError> {
    export::check(&arguments.to, arguments.force)?;
    if arguments.verify || arguments.arch.is_some() || arguments.unchecked {
        return Err(CliError::usage(
            "`--verify`, `--unchecked` and `--arch` are for candidates, not for results",
        ));
    }
    let [study] = &arguments.one.words[..] else {
        let text = "results are those of one study: `evo export STUDY --format t4 --to FOLDER`";
        return Err(CliError::usage(text)
            .with_hint("a study is named by its folder under `--out`, or by a path with a `/`"));
    };
    let history = history(&arguments.one.candidate.out, study)?;
    let Some(header) = &history.header else {
        return Err(CliError::usage(format!("the journal of `{study}` has no header")));
    };
    if history.evaluations.is_empty() {
        return Err(CliError::usage(format!("nothing in study `{study}` has a verdict yet")));
    }
    let parameters = parameters(&history.evaluations);
    let began = header.started_at.trim_end_matches('Z');
    let results = StudyResults {
        kernel: &header.kernel,
        device: &header.device.name,
        study: &header.study,
        parameters: &parameters,
        problems: &header.problems,
        evaluations: &history.evaluations,
        began,
    };
    let mut files = Vec::new();
    for (format, path) in RESULT_FORMATS {
        if !arguments.formats.iter().any(|own| own.trim() == format) {
            continue;
        }
        let contents = match format {
            "t4" => format!("{:#}\n", t4(&results)).into_bytes(),
            "kernel-tuner" => format!("{:#}\n", kernel_tuner(&results)).into_bytes(),
            "optuna" => optuna(&results).into_bytes(),
            _ => csv::table(&history.evaluations),
        };
        files.push(ExportFile { path: path.to_string(), contents, about: "" });
    }
    export::write(&arguments.to, &files)?;
    call.know(|facts| facts.device = Some(header.device.name.clone()));
    let folder = arguments.to.display().to_string();
    let formats: Vec<_> = RESULT_FORMATS
        .iter()
        .filter(|(_, path)| files.iter().any(|own| own.path == *path))
        .map(|(format, _)| json!({ "format": format, "variant": "", "written": true, "reason": null }))
        .collect();
    if !call.is_json() {
        output::stdout(&format!(
            "{} evaluations of `{study}` exported to {folder}\n",
            history.evaluations.len()
        ))?;
    }
    let mut answer = Answer::object(ExitCode::Done, &json!({})).in_brief(json!({
        "folder": folder, "judged": null, "variants": [], "formats": formats, "verified": [],
    }));
    answer.reasons.insert("result.judged".into(), "these are results, and no candidate".into());
    for at in 0..formats.len() {
        answer.reasons.insert(format!("result.formats.{at}.reason"), "it was written".into());
    }
    Ok(answer)
}

fn history(out: &Path, study: &str) -> Result<History, CliError> {
    let path = if study.contains('/') { study.into() } else { out.join(study) };
    let folder = OwnFolder::open(&path).map_err(|error| {
        let text = format!("there is no study `{study}`: cannot open `{}`: {error}", path.display());
        CliError::bad_file(text, &path)
            .with_hint("`evo history` lists studies; `--out` names the folder that they are in")
    })?;
    if !folder.has_file("journal.jsonl") {
        let text = format!("`{}` is not a study: it has no journal", path.display());
        return Err(CliError::bad_file(text, &path));
    }
    let journal = reader::read_in(&folder).map_err(|error: JournalError| CliError::from(error))?;
    Ok(History::replay(journal))
}

/// Names and the values that occur, ascending.
fn parameters(evaluations: &[Evaluation]) -> Vec<(String, Vec<Value>)> {
    let mut found: Vec<(String, Vec<Value>)> = Vec::new();
    for (name, value) in evaluations.iter().flat_map(|own| own.configuration.iter()) {
        match found.iter_mut().find(|(own, _)| own == name) {
            Some((_, values)) if values.contains(value) => {}
            Some((_, values)) => values.push(value.clone()),
            None => found.push((name.to_string(), vec![value.clone()])),
        }
    }
    for (_, values) in &mut found {
        values.sort_by(|a, b| a.compare(b).unwrap_or(std::cmp::Ordering::Equal));
    }
    found
}
