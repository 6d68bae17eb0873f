//! Where `evo invert` keeps what it found: `invert-<hash>.json` and `.md` in the folder of the candidate's study.

use std::io;
use std::path::Path;

use evo_protocol::device::DeviceKind;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::invert::InvertRow;

use super::call::Call;
use super::candidate_folder;
use super::error::CliError;
use super::invert_args::InvertArgs;
use crate::report::invert;

/// Digits of the candidate's hash in a file's name.
const DIGITS: usize = 12;

/// What was found.
pub struct Inverted {
    pub rows: Vec<InvertRow>,
    /// The problem that was timed.
    pub problem: String,
    /// Relative difference between the unharmed kernel and itself; absent where it could not be measured.
    pub noise_floor: Option<f64>,
    /// The journal that has each harmed copy, or why none has.
    pub journal: Result<String, String>,
    /// The version of the profiler that looked at harmed copies, or why none did.
    pub counters: Result<String, String>,
}

/// The candidate, and what is known of the call.
pub struct InvertSubject<'a> {
    pub evaluation: &'a Evaluation,
    pub kernel: &'a str,
    pub kind: DeviceKind,
    /// The device's name.
    pub device: &'a str,
    /// A command that does the same again.
    pub repro: &'a str,
}

/// Writes both files; the place of the first.
pub fn keep(
    arguments: &InvertArgs,
    call: &Call,
    subject: &InvertSubject<'_>,
    found: &Inverted,
) -> Result<String, CliError> {
    let InvertSubject { evaluation, kernel, kind, device, repro } = *subject;
    let own_source = evaluation.source_hash.as_ref().filter(|_| arguments.one.candidate.source.is_some());
    let hash = own_source.unwrap_or(&evaluation.configuration_hash).as_str();
    let name = format!("invert-{}", &hash[..DIGITS.min(hash.len())]);
    let of = (kernel, kind.as_str());
    let folder = candidate_folder::open(&arguments.one.candidate, of, &call.facts())
        .map_err(|(path, error)| unwritable(&path, &error))?;
    let rows = serde_json::to_string_pretty(&found.rows)
        .map_err(|error| CliError::harness(format!("the rows cannot be written: {error}")))?;
    let conditions = invert::InvertSetting {
        kernel,
        device,
        configuration: &evaluation.configuration.to_string(),
        problem: &found.problem,
        noise_floor: found.noise_floor,
        repro,
    };
    let files = [("json", format!("{rows}\n")), ("md", invert::markdown(&found.rows, &conditions))];
    for (extension, text) in files {
        let file = format!("{name}.{extension}");
        let write = folder.replace(&file, text.as_bytes(), true);
        write.map_err(|error| unwritable(&folder.place(&file), &error))?;
    }
    Ok(folder.place(&format!("{name}.json")).display().to_string())
}

fn unwritable(path: &Path, error: &io::Error) -> CliError {
    CliError::harness(format!("cannot write `{}`: {error}", path.display()))
}
