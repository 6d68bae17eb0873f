//! The folder of the self-test: a small space, a cache and studies of its own, and evo started in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io};

use evo::cli::selftest::scratch;
use evo::journal::error::JournalError;
use evo::journal::reader;
use evo::journal::record::JournalRecord;
use evo::process;
use evo_protocol::verdict::VerdictKind;
use tempfile::TempDir;

/// A run that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(300);

/// Right, wrong, out of bounds and uncompilable variants, each of them three times.
const SPACE: &str = include_str!("crash.toml");
const KERNEL: &str = include_str!("crash.cu");
const NAIVE: &str = include_str!("naive.cu");

/// Configurations and what became of them; how fast a right one was depends on the machine.
pub type Verdicts = BTreeMap<String, String>;

pub struct CrashStage {
    folder: TempDir,
    program: PathBuf,
}

impl CrashStage {
    pub fn new() -> io::Result<CrashStage> {
        let folder = tempfile::Builder::new().prefix("evo-crash-").tempdir()?;
        for (name, text) in [("crash.toml", SPACE), ("naive.cu", NAIVE)] {
            fs::write(folder.path().join(name), text)?;
        }
        Ok(CrashStage { folder, program: process::worker_program()? })
    }

    /// The cache, whose path marks every process of this self-test.
    pub fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    /// Prepares a study: its sources differ from those of all others, so that they are compiled again.
    pub fn prepare(&self, study: &str) -> io::Result<()> {
        fs::write(self.folder.path().join("crash.cu"), format!("// {study}\n{KERNEL}"))
    }

    pub fn start(&self, study: &str) -> io::Result<Sweep> {
        let mut command = Command::new(&self.program);
        command.args(["sweep", "crash.toml", "--device", "host", "--strategy", "exhaustive"]);
        command.args(["--finalists", "0", "--jobs", "2", "--resume=or-begin", "--no-prior"]);
        command.args(["--study", study, "--seed", "1"]);
        command.current_dir(self.folder.path()).env("EVO_CACHE_DIR", self.cache());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let journal = self.study(study).join("journal.jsonl");
        let before = lines(&journal);
        Ok(Sweep { child: process::spawn(command)?, journal, before, began: Instant::now() })
    }

    pub fn study(&self, study: &str) -> PathBuf {
        self.folder.path().join("evidence").join(study)
    }

    /// What the study's journal says, read as it is on the disk.
    pub fn journal(&self, study: &str) -> Result<StudyState, JournalError> {
        let path = self.study(study).join("journal.jsonl");
        match path.exists() {
            true => Ok(StudyState::of(&reader::read(&path)?.records)),
            false => Ok(StudyState::default()),
        }
    }

    /// What is left of files that were being written: by compilers, by the cache, in the study's folder.
    pub fn scratch(&self, study: &str) -> Vec<PathBuf> {
        let files = fs::read_dir(self.study(study)).into_iter().flatten().flatten();
        let hidden = files.filter(|entry| entry.file_name().to_string_lossy().starts_with('.'));
        scratch(&self.cache()).into_iter().chain(hidden.map(|entry| entry.path())).collect()
    }
}

#[derive(Debug, Default)]
pub struct StudyState {
    pub verdicts: Verdicts,
    /// Configurations with more than one verdict.
    pub doubled: Vec<String>,
    pub not_final: Vec<String>,
}

impl StudyState {
    fn of(records: &[JournalRecord]) -> StudyState {
        let mut state = StudyState::default();
        for record in records {
            match record {
                JournalRecord::Evaluation(one) => {
                    let name = one.configuration.to_string();
                    let kind = one.verdict.kind;
                    let right = matches!(kind, VerdictKind::Pass | VerdictKind::TooSlow | VerdictKind::Noisy);
                    let verdict = if right { "right".to_string() } else { one.verdict.label() };
                    state.not_final.retain(|other| *other != name);
                    if state.verdicts.insert(name.clone(), verdict).is_some() {
                        state.doubled.push(name);
                    }
                }
                JournalRecord::NotFinal(one) => state.not_final.push(one.configuration.to_string()),
                _ => {}
            }
        }
        state
    }
}

/// A running sweep, and the lines that its journal had before.
pub struct Sweep {
    child: Child,
    journal: PathBuf,
    before: usize,
    began: Instant,
}

fn lines(journal: &Path) -> usize {
    fs::read(journal).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count())
}

impl Sweep {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for so many lines of the journal; whether they came before the end of the run.
    pub fn wait_for(&mut self, own: usize) -> io::Result<bool> {
        while lines(&self.journal) < self.before + own {
            if self.has_ended()? {
                return Ok(false);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(true)
    }

    pub fn has_ended(&mut self) -> io::Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits for the end of the run; an error if it does not come.
    pub fn finish(mut self) -> io::Result<ExitStatus> {
        while !self.has_ended()? {
            if self.began.elapsed() > PATIENCE {
                return Err(io::Error::other(format!("the sweep hangs: {} s", PATIENCE.as_secs())));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        self.child.wait()
    }

    /// SIGKILL for evo alone.
    pub fn kill(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

impl Drop for Sweep {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
