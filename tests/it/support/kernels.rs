//! Kernels of `tests/data/kernels`: a folder each with a space file, its sources, and what is expected of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use evo::kernel::load::load_file;
use evo::kernel::resolve::resolve;
use evo::kernel::spec::SpaceFile;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::Verdict;
use serde_json::Value;
use tempfile::TempDir;

use super::stage::copy;
use super::{BRIEF, evo};

/// A kernel in a folder of its own, for edits. evo runs beside it, so that nothing is found because of where evo runs.
pub struct Kernel {
    folder: TempDir,
}

impl Kernel {
    /// A copy of a folder of `tests/data/kernels`. Its space file is called `space.toml` there.
    pub fn copy(name: &str) -> Self {
        Self::of(None, name)
    }

    /// The same on top of a folder of the repository.
    pub fn of(folder: Option<&str>, name: &str) -> Self {
        let own = Self::empty();
        let below = folder.map(|own| Path::new(env!("CARGO_MANIFEST_DIR")).join(own));
        fn named(file: &str) -> &str {
            if file.ends_with(".toml") { "space.toml" } else { file }
        }
        let folders = below.into_iter().chain([data(&format!("kernels/{name}"))]);
        folders.for_each(|from| copy(&from, &own.root(), named));
        own
    }

    fn empty() -> Self {
        let own = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(own.root()).unwrap();
        own
    }

    /// A space that ships with evo, and the templates that it names.
    pub fn shipped(name: &str) -> Self {
        let own = Self::empty();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let space = fs::read_to_string(root.join(format!("search_spaces/{name}.toml"))).unwrap();
        for entry in fs::read_dir(root.join("templates")).unwrap() {
            let path = entry.unwrap().path();
            let file = path.file_name().unwrap().to_str().unwrap();
            if space.contains(&format!("\"{file}\"")) {
                fs::copy(&path, own.root().join(file)).unwrap();
            }
        }
        own.write("space.toml", &space);
        own
    }

    pub fn root(&self) -> PathBuf {
        self.folder.path().join("own")
    }

    pub fn space(&self) -> PathBuf {
        self.root().join("space.toml")
    }

    pub fn read(&self, file: &str) -> String {
        fs::read_to_string(self.root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    pub fn write(&self, file: &str, text: &str) -> &Self {
        fs::write(self.root().join(file), text).unwrap();
        self
    }

    /// Replaces the first of these texts, which the file must have.
    pub fn edit(&self, file: &str, from: &str, to: &str) -> &Self {
        self.change(&[file, from, to].map(String::from))
    }

    /// An edit of a list: a file (the space where there is none), a text that it must have, and what stands there
    /// instead; of which place, where it is not the first: `last` or `all`.
    pub fn change(&self, edit: &[String]) -> &Self {
        let words: Vec<&str> = edit.iter().map(String::as_str).collect();
        let (file, from, to, place) = match words[..] {
            [from, to] => ("space.toml", from, to, ""),
            [file, from, to] => (file, from, to, ""),
            [file, from, to, place] => (file, from, to, place),
            _ => panic!("no edit: {edit:?}"),
        };
        let text = self.read(file);
        assert!(text.contains(from), "`{file}` has no {from:?}");
        let text = match (place, text.rsplit_once(from)) {
            ("all", _) => text.replace(from, to),
            ("last", Some((before, behind))) => format!("{before}{to}{behind}"),
            _ => text.replacen(from, to, 1),
        };
        self.write(file, &text)
    }

    /// What is wrong with the space file, or `no error`.
    pub fn message(&self) -> String {
        let shown =
            load_file(&self.space()).map_or_else(|error| error.to_string(), |_| "no error".to_string());
        shown.replace(&format!("{}/", self.root().display()), "")
    }

    pub fn load(&self) -> SpaceFile {
        load_file(&self.space()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The plan of the default configuration for one of the problems.
    pub fn plan(&self, problem: usize) -> Result<ProblemPlan, Box<Verdict>> {
        let file = self.load();
        let kernel = file.kernel.as_ref().unwrap();
        resolve(kernel, &file.space.configuration(&file.space.default_genome()), &kernel.problems[problem])
    }

    /// evo with these words, in which the space file is `own/space.toml`.
    pub fn evo(&self, words: &str) -> Command {
        evo(self.folder.path(), words)
    }

    /// What `evo test-one --json` answers on the host device. What `cxx` names is a script of the folder.
    pub fn judged(&self, words: &str, cxx: Option<&str>) -> Value {
        let mut command = self.evo(&format!("test-one own/space.toml {words} --device host {BRIEF} --json"));
        if let Some(script) = cxx {
            command.env("CXX", format!("sh {}", self.root().join(script).display()));
        }
        let output = command.output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        assert_eq!(output.status.code().map(i64::from), answer["exit_code"].as_i64(), "{answer}");
        answer
    }
}

/// A file or folder of `tests/data`.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}
