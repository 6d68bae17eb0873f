//! The journal of a study that has begun, for variants that were harmed on purpose, and for nothing else.

use evo_protocol::device::{DeviceInfo, DeviceKind};
use thiserror::Error;

use evo_journal::diagnostic::DiagnosticVariant;
use evo_journal::error::JournalError;
use evo_journal::lock::StudyLock;
use evo_journal::own_folder::OwnFolder;
use evo_journal::reader::{self, JOURNAL};
use evo_journal::record::{FORMAT, JournalRecord};
use evo_journal::replay::History;
use evo_journal::writer::JournalWriter;

/// Why no journal takes harmed variants.
#[derive(Debug, Error)]
pub enum NoDiagnosticJournal {
    /// Nothing was searched here yet.
    #[error("no study has begun in `{folder}`")]
    NotBegun { folder: String },
    /// A replay measured nothing.
    #[error("the study in `{folder}` is a replay, in which nothing is measured")]
    Replayed { folder: String },
    /// It cannot be read, or somebody else writes to it.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// A journal at its end. While it is open, nobody else writes to the study.
#[derive(Debug)]
pub struct DiagnosticJournal {
    writer: JournalWriter,
    _lock: StudyLock,
}

impl DiagnosticJournal {
    /// Opens the journal in a study's folder, if it is one of this kernel on this device.
    pub fn open(
        folder: &OwnFolder,
        kernel: &str,
        device: &DeviceInfo,
    ) -> Result<DiagnosticJournal, NoDiagnosticJournal> {
        let shown = || folder.path().display().to_string();
        let path = folder.place(JOURNAL);
        if !folder.exists(JOURNAL) {
            return Err(NoDiagnosticJournal::NotBegun { folder: shown() });
        }
        let lock = StudyLock::take(folder)?;
        let journal = reader::read_in(folder)?;
        let length = journal.length;
        let header = History::replay(journal).header;
        let header = header.ok_or_else(|| JournalError::NoHeader { path: path.clone() })?;
        if header.format > FORMAT {
            return Err(JournalError::Newer { path, found: header.format, known: FORMAT }.into());
        }
        if header.device.kind == DeviceKind::Replay {
            return Err(NoDiagnosticJournal::Replayed { folder: shown() });
        }
        let named = |own: &DeviceInfo| format!("{} ({})", own.name, own.arch);
        let pairs = [
            ("kernel", header.kernel.clone(), kernel.to_string()),
            ("device", named(&header.device), named(device)),
        ];
        for (what, written, current) in pairs {
            if written != current {
                return Err(JournalError::Foreign { path, what, written, current }.into());
            }
        }
        Ok(DiagnosticJournal { writer: JournalWriter::append_after(folder, length)?, _lock: lock })
    }

    /// Appends a harmed variant; on return it is on the disk.
    ///
    /// # Errors
    /// The journal cannot be written; it then ends with the record before.
    pub fn record(&mut self, one: DiagnosticVariant) -> Result<(), JournalError> {
        self.writer.append(&JournalRecord::Diagnostic(Box::new(one)))
    }
}

#[cfg(test)]
mod tests {
    use evo_journal::diagnostic::UnharmedVariant;
    use evo_journal::example::header;
    use evo_journal::line;
    use evo_protocol::invert::{DiagnosticFlag, InvertDose};
    use evo_space::genome::Configuration;

    use super::*;

    fn harmed() -> DiagnosticVariant {
        let configuration = Configuration::new(Vec::new());
        DiagnosticVariant {
            beside: UnharmedVariant {
                configuration_hash: configuration.hash(),
                configuration,
                source_hash: None,
                code_hash: None,
                problem: "p".into(),
                noise_floor: None,
                begun: "2026-01-01T00:00:00Z".into(),
            },
            pathology: "barriers".into(),
            resource: "barriers".into(),
            lightens: false,
            dose: InvertDose {
                diagnostic: DiagnosticFlag,
                dose: 1.0,
                unit: "as many again".into(),
                what: "each barrier 2 times".into(),
                ratio: Some(0.01),
                ratio_low: Some(0.01),
                ratio_high: Some(0.01),
                verdict: "pass".into(),
                changed: Some(true),
                code_hash: None,
            },
            at: "2026-01-01T00:00:01Z".into(),
        }
    }

    /// A study's folder with a header and half a line.
    fn study() -> (tempfile::TempDir, OwnFolder) {
        let root = tempfile::tempdir().unwrap();
        let folder = OwnFolder::open(root.path()).unwrap();
        let text = line::encode(&JournalRecord::Study(Box::new(header()))).unwrap();
        std::fs::write(folder.place(JOURNAL), format!("{text}{{\"crc\":\"to")).unwrap();
        (root, folder)
    }

    #[test]
    fn a_begun_study_takes_them_behind_its_last_whole_line() {
        let (_root, folder) = study();
        let device = header().device;
        let mut journal = DiagnosticJournal::open(&folder, "fake", &device).unwrap();
        journal.record(harmed()).unwrap();
        let second = DiagnosticJournal::open(&folder, "fake", &device).unwrap_err();
        assert!(second.to_string().contains("is in use by process"), "{second}");
        drop(journal);
        let read = reader::read_in(&folder).unwrap();
        assert!(!read.torn && read.rejected.is_empty());
        let history = History::replay(read);
        assert_eq!(history.diagnostics, [harmed()]);
        assert!(history.evaluations.is_empty() && history.confirmations.is_empty());
    }

    #[test]
    fn what_is_no_such_study_is_refused_and_stays_as_it_is() {
        let (_root, folder) = study();
        let before = std::fs::read(folder.place(JOURNAL)).unwrap();
        let refused = |kernel: &str, device: &DeviceInfo| {
            DiagnosticJournal::open(&folder, kernel, device).unwrap_err().to_string()
        };
        let device = header().device;
        assert!(refused("other", &device).contains("belongs to another kernel"));
        let other = DeviceInfo { name: "another".into(), ..device.clone() };
        assert!(refused("fake", &other).contains("belongs to another device"));
        assert_eq!(std::fs::read(folder.place(JOURNAL)).unwrap(), before);
        let empty = tempfile::tempdir().unwrap();
        let folder = OwnFolder::open(empty.path()).unwrap();
        let none = DiagnosticJournal::open(&folder, "fake", &device).unwrap_err();
        assert!(matches!(none, NoDiagnosticJournal::NotBegun { .. }), "{none}");
        assert!(std::fs::read_dir(empty.path()).unwrap().next().is_none());
    }
}
