//! A folder in which evo runs, and what a call of it leaves.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use super::kernels::data;
use super::{answer, evo};

/// Lists of tests that stand beside a kernel of `tests/data/kernels`, and are none of its files.
const LISTS: [&str; 2] = ["rows.toml", "mistakes.toml"];

pub struct Stage {
    folder: TempDir,
    is_scripted: bool,
}

impl Stage {
    pub fn empty() -> Stage {
        Stage { folder: tempfile::tempdir().unwrap(), is_scripted: false }
    }

    /// The files of a folder of the repository, or, by a name alone, of `tests/data/kernels`.
    pub fn of(folder: &str) -> Stage {
        let stage = Stage::empty();
        let below = if folder.contains('/') { "" } else { "tests/data/kernels" };
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join(below).join(folder), stage.path(), |name| name);
        stage
    }

    /// Its device worker is played (`fake_worker.py`), for what is not about devices.
    pub fn scripted(self) -> Stage {
        Stage { is_scripted: true, ..self }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// A file, with the folders that lead to it.
    pub fn write(&self, name: &str, text: &str) -> &Stage {
        fs::create_dir_all(self.at(name).parent().unwrap()).unwrap();
        fs::write(self.at(name), text).unwrap();
        self
    }

    #[track_caller]
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    #[track_caller]
    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Replaces a text, which the file must have, wherever it has it.
    #[track_caller]
    pub fn edit(&self, name: &str, from: &str, to: &str) -> &Stage {
        let text = self.read(name);
        assert!(text.contains(from), "`{name}` has no {from:?}: {text}");
        self.write(name, &text.replace(from, to))
    }

    /// evo with these words.
    pub fn evo(&self, words: &str) -> Command {
        let mut command = evo(self.path(), words);
        if self.is_scripted {
            command.env("EVO_WORKER_PROGRAM", data("scripted_worker.sh"));
            command.env("EVO_TEST_PROGRAM", env!("CARGO_BIN_EXE_evo"));
        }
        command
    }

    pub fn run(&self, words: &str) -> Ran {
        Ran::of(words, &self.evo(words).output().unwrap())
    }

    /// The object of a command that ends so, which is asked for with `--json`.
    #[track_caller]
    pub fn answers(&self, words: &str, code: i32, status: &str) -> Value {
        answer::ended(&self.run(&format!("{words} --json")), &code.to_string(), status, true)
    }
}

/// A command that has ended.
pub struct Ran {
    pub words: String,
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(words: &str, output: &Output) -> Ran {
        let [out, err] =
            [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        Ran { words: words.to_string(), code: output.status.code(), out, err }
    }

    #[track_caller]
    pub fn ends(self, code: i32) -> Ran {
        assert_eq!(self.code, Some(code), "{self}");
        self
    }

    /// These texts are on stderr or stdout.
    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Ran {
        for part in parts {
            assert!(self.err.contains(part) || self.out.contains(part), "no `{part}`: {self}");
        }
        self
    }

    /// The last line of stdout.
    #[track_caller]
    pub fn object(&self) -> Value {
        let last = self.out.lines().last().unwrap_or_default();
        serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {self}"))
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ends with {:?}: {}\n{}", self.words, self.code, self.out, self.err)
    }
}

/// Copies a folder, files under the names that they get.
pub fn copy(from: &Path, to: &Path, named: fn(&str) -> &str) {
    for entry in fs::read_dir(from).unwrap_or_else(|error| panic!("{}: {error}", from.display())) {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            fs::create_dir_all(to.join(name)).unwrap();
            copy(&path, &to.join(name), named);
        } else if !LISTS.contains(&name) || !from.starts_with(data("kernels")) {
            fs::copy(&path, to.join(named(name))).unwrap();
        }
    }
}
