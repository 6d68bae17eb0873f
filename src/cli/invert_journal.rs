//! The journal of the candidate's study, for copies that `evo invert` harms. Each is on the disk once it is measured.

use evo_protocol::invert::{InvertDose, InvertRow};

use super::call::Call;
use super::candidate_folder;
use super::error::CliError;
use super::invert_args::InvertArgs;
use super::invert_harmed::HarmBench;
use crate::journal::diagnostic::{DiagnosticVariant, UnharmedVariant};
use crate::journal::reader::JOURNAL;
use crate::journal::record::now;
use crate::study::DiagnosticJournal;

/// An open journal, or why there is none.
pub struct HarmJournal {
    beside: UnharmedVariant,
    open: Result<DiagnosticJournal, String>,
    place: String,
}

impl HarmJournal {
    /// The journal of the study that names the candidate, or of the one that a sweep of its kernel would begin with.
    /// Where no study has begun, or another process writes to it, harmed copies are in no journal.
    pub fn open(
        arguments: &InvertArgs,
        call: &Call,
        bench: &HarmBench<'_, '_>,
    ) -> Result<HarmJournal, CliError> {
        let (kernel, device) = (&bench.kernel()?.name, bench.facts().device);
        let of = (kernel.as_str(), device.kind.as_str());
        let folder = candidate_folder::open(&arguments.one.candidate, of, &call.facts());
        let folder = folder.map_err(|(path, error)| format!("cannot open `{}`: {error}", path.display()));
        let place = folder.as_ref().map_or(String::new(), |own| own.place(JOURNAL).display().to_string());
        let open = folder.and_then(|folder| {
            DiagnosticJournal::open(&folder, kernel, device).map_err(|error| error.to_string())
        });
        Ok(HarmJournal { beside: bench.unharmed(), open, place })
    }

    /// Appends a harmed copy. A journal that cannot be written ends nothing: rows and files have it too.
    pub fn keep(&mut self, row: &InvertRow, lightens: bool, dose: &InvertDose) {
        let Ok(journal) = &mut self.open else { return };
        let one = DiagnosticVariant {
            beside: self.beside.clone(),
            pathology: row.pathology.clone(),
            resource: row.resource.clone(),
            lightens,
            dose: dose.clone(),
            at: now(),
        };
        if let Err(error) = journal.record(one) {
            self.open = Err(error.to_string());
        }
    }

    /// Where all of them are, or why they are not.
    pub fn kept(&self) -> Result<String, String> {
        self.open.as_ref().map(|_| self.place.clone()).map_err(String::clone)
    }
}
