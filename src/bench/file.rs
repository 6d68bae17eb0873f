//! Benchmark files: candidates, modes, shapes and peers. All mistakes of a file are told at once, each with its place.

use std::io::Read;
use std::path::{Path, PathBuf};

use evo_protocol::measurement::TimingMode;
use evo_space::diagnostic::{Diagnostics, nearest};
use evo_space::document::{self, Data, Node, Span};
use evo_space::grid::{Grid, read_grid};

use crate::kernel::label::{LABEL_HINT, is_label};
use crate::kernel::load::LoadError;
use crate::kernel::load::peers::{self, PeerFile};
use crate::kernel::spec::PeerSpec;

const KEYS: &[&str] = &["name", "space", "candidates", "modes", "problems", "grid", "peers"];
const CANDIDATE_KEYS: &[&str] = &["name", "words", "config", "source", "launch"];
const MODES: [TimingMode; 3] = [TimingMode::Hot, TimingMode::Cold, TimingMode::Eager];
/// A benchmark file has some hundred lines.
const BYTES_MAX: u64 = 1 << 20;
/// Candidates of one run.
const CANDIDATES_MAX: usize = 100;

/// What a file asks for.
#[derive(Clone, Debug)]
pub struct BenchFile {
    pub path: PathBuf,
    pub text: String,
    /// The run's name.
    pub name: String,
    /// An embedded space, or the path of a space file.
    pub space: String,
    /// Empty where the file names none.
    pub candidates: Vec<BenchCandidate>,
    /// Empty where the file names none.
    pub modes: Vec<TimingMode>,
    /// Names with their places; empty for all.
    pub problems: Vec<(String, Span)>,
    pub grid: Option<Grid>,
    pub peers: Vec<PeerSpec>,
}

/// A candidate as a command line names it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BenchCandidate {
    /// As rows name it; made from the rest where absent.
    pub name: Option<String>,
    /// Values, `NAME=VALUE`, `@champion`; `@portfolio` alone stands for several.
    pub words: Vec<String>,
    pub config: Option<PathBuf>,
    pub source: Option<PathBuf>,
    pub launch: Option<PathBuf>,
}

impl BenchFile {
    /// An error at a place of the file, rendered as its own mistakes are.
    pub fn error(&self, diagnostics: &Diagnostics) -> LoadError {
        LoadError::Invalid {
            path: self.path.clone(),
            count: diagnostics.list().len(),
            rendered: diagnostics.render(&self.path.display().to_string(), &self.text),
            first: diagnostics.first_place(&self.text),
        }
    }
}

/// Whether a text is a benchmark file and not a space: it names a space and describes none.
fn is_bench(root: &Node) -> bool {
    root.get("space").is_some() && root.get("parameters").is_none() && root.get("kernel").is_none()
}

/// Reads a benchmark file; `None` where the file is a space.
pub fn read_bench_file(path: &Path) -> Result<Option<BenchFile>, LoadError> {
    let mut text = String::new();
    let read = crate::regular::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_string(&mut text));
    if read.is_err() || text.len() as u64 > BYTES_MAX {
        // Whoever opens it as a space says what is wrong with it.
        return Ok(None);
    }
    let mut diagnostics = Diagnostics::default();
    let root = document::parse(&text, &mut diagnostics);
    if !root.as_ref().is_some_and(is_bench) {
        return Ok(None);
    }
    let found =
        root.and_then(|root| BenchReader { path, text: &text, diagnostics: &mut diagnostics }.file(&root));
    match found {
        Some(file) if diagnostics.is_empty() => Ok(Some(file)),
        _ => Err(LoadError::Invalid {
            path: path.to_path_buf(),
            count: diagnostics.list().len(),
            rendered: diagnostics.render(&path.display().to_string(), &text),
            first: diagnostics.first_place(&text),
        }),
    }
}

struct BenchReader<'a> {
    path: &'a Path,
    text: &'a str,
    diagnostics: &'a mut Diagnostics,
}

impl BenchReader<'_> {
    fn file(&mut self, root: &Node) -> Option<BenchFile> {
        self.known(root, KEYS, "a benchmark file");
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let stem = self.path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| is_label(stem));
        let name = match root.get("name") {
            Some(node) => self.label(node),
            None => Some(stem.unwrap_or("bench").to_string()),
        };
        let space = root.get("space").and_then(|node| self.text_of(node, "`space`"));
        let candidates = match root.get("candidates") {
            Some(node) => self.candidates(node, folder),
            None => Some(Vec::new()),
        };
        let modes = root.get("modes").map_or(Some(Vec::new()), |node| self.modes(node));
        let problems = root.get("problems").map_or(Some(Vec::new()), |node| self.problems(node));
        if let (Some(node), Some(_)) = (root.get("problems"), root.get("grid")) {
            let message = "a file has `problems` or a `grid`, not both";
            self.diagnostics.error(node.span.clone(), message);
        }
        let grid = match root.get("grid") {
            Some(node) => Some(read_grid(node, self.diagnostics)?),
            None => None,
        };
        let place = PeerFile { path: self.path, text: self.text, folder: Some(folder) };
        let peers = peers::read(root.get("peers"), &place, self.diagnostics);
        let space = space?;
        // An embedded space is a name; a file lies beside this one.
        let is_path = space.contains('/') || space.ends_with(".toml") || space.ends_with(".json");
        let space = if is_path { folder.join(&space).display().to_string() } else { space };
        Some(BenchFile {
            path: self.path.to_path_buf(),
            text: self.text.to_string(),
            name: name?,
            space,
            candidates: candidates?,
            modes: modes?,
            problems: problems?,
            grid,
            peers: peers?,
        })
    }

    fn known(&mut self, node: &Node, known: &[&str], what: &str) {
        for entry in node.entries().into_iter().flatten() {
            if known.contains(&entry.key.as_str()) {
                continue;
            }
            let hint = match nearest(&entry.key, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known keys: {}", known.join(", ")),
            };
            let message = format!("unknown key `{}` in {what}", entry.key);
            self.diagnostics.error_with_hint(entry.key_span.clone(), message, hint);
        }
    }

    fn text_of(&mut self, node: &Node, what: &str) -> Option<String> {
        match &node.data {
            Data::Text(text) if !text.trim().is_empty() && !text.contains('\0') => Some(text.clone()),
            _ => {
                self.diagnostics.error(node.span.clone(), format!("{what} is a text"));
                None
            }
        }
    }

    fn label(&mut self, node: &Node) -> Option<String> {
        let text = self.text_of(node, "a name")?;
        if is_label(&text) {
            return Some(text);
        }
        self.diagnostics.error_with_hint(node.span.clone(), format!("`{text}` cannot be a name"), LABEL_HINT);
        None
    }

    fn list<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n [Node]> {
        match &node.data {
            Data::List(items) if !items.is_empty() => Some(items),
            _ => {
                let hint = "leave it out for what is usual, or list what is meant";
                let message = format!("{what} is a list with something in it");
                self.diagnostics.error_with_hint(node.span.clone(), message, hint);
                None
            }
        }
    }

    fn candidates(&mut self, node: &Node, folder: &Path) -> Option<Vec<BenchCandidate>> {
        let items = self.list(node, "`candidates`")?;
        if items.len() > CANDIDATES_MAX {
            let message = format!("{} candidates, at most {CANDIDATES_MAX} take part", items.len());
            self.diagnostics.error(node.span.clone(), message);
            return None;
        }
        items.iter().map(|item| self.candidate(item, folder)).collect()
    }

    fn candidate(&mut self, node: &Node, folder: &Path) -> Option<BenchCandidate> {
        let split = |text: String| text.split_whitespace().map(String::from).collect::<Vec<String>>();
        if node.entries().is_none() {
            let words = self.text_of(node, "a candidate")?;
            return Some(BenchCandidate { words: split(words), ..BenchCandidate::default() });
        }
        self.known(node, CANDIDATE_KEYS, "a candidate");
        let mut path = |key: &str| match node.get(key) {
            Some(own) => self.text_of(own, &format!("`{key}`")).map(|own| Some(folder.join(own))),
            None => Some(None),
        };
        let (config, source, launch) = (path("config")?, path("source")?, path("launch")?);
        let name = match node.get("name") {
            Some(own) => Some(self.label(own)?),
            None => None,
        };
        let words = match node.get("words") {
            Some(own) => split(self.text_of(own, "`words`")?),
            None => Vec::new(),
        };
        Some(BenchCandidate { name, words, config, source, launch })
    }

    fn modes(&mut self, node: &Node) -> Option<Vec<TimingMode>> {
        let mut modes = Vec::new();
        for item in self.list(node, "`modes`")? {
            let word = self.text_of(item, "a mode")?;
            let Some(mode) = MODES.into_iter().find(|mode| mode.as_str() == word) else {
                let message = format!("`{word}` is not a mode");
                let hint = "there are hot, cold and eager";
                self.diagnostics.error_with_hint(item.span.clone(), message, hint);
                return None;
            };
            if !modes.contains(&mode) {
                modes.push(mode);
            }
        }
        Some(modes)
    }

    fn problems(&mut self, node: &Node) -> Option<Vec<(String, Span)>> {
        let items = self.list(node, "`problems`")?;
        items.iter().map(|item| Some((self.text_of(item, "a problem")?, item.span.clone()))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Option<BenchFile>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.toml");
        std::fs::write(&path, text).unwrap();
        read_bench_file(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_says_what_takes_part() {
        let text = "space = \"k.toml\"\ncandidates = [\"32 8 4\", { name = \"mine\", source = \"m.cu\" }]\n\
                    modes = [\"hot\", \"cold\", \"hot\"]\nproblems = [\"a\", \"b\"]\n\
                    [[peers]]\nname = \"p\"\ncommand = [\"python3\", \"p.py\"]\ntimeout_s = 2\n\
                    [[peers]]\nname = \"torch\"\n";
        let file = read(text).unwrap().unwrap();
        assert!(file.space.ends_with("/k.toml") && file.name == "b", "{file:?}");
        assert_eq!(file.candidates[0].words, ["32", "8", "4"]);
        assert_eq!(file.candidates[1].name.as_deref(), Some("mine"));
        assert!(file.candidates[1].source.as_ref().unwrap().ends_with("m.cu"));
        assert_eq!(file.modes, [TimingMode::Hot, TimingMode::Cold]);
        assert_eq!((file.peers[0].place.1, file.peers[0].timeout_s), (7, Some(2.0)));
        assert!(file.peers[1].command.is_empty());
        assert!(read("[parameters]\nA = [1]\n").unwrap().is_none(), "a space is not a benchmark file");
    }

    #[test]
    fn all_mistakes_are_told_at_once() {
        let text = "space = \"softmax\"\nmodes = [\"warm\"]\ncandidate = []\nproblems = [\"a\"]\n\
                    [grid]\naxes = { N = [1] }\n[[peers]]\nname = \"a b\"\n";
        let error = read(text).unwrap_err();
        for part in ["`warm` is not a mode", "did you mean `candidates`?", "not both", "name of a peer"] {
            assert!(error.contains(part), "no `{part}` in: {error}");
        }
    }
}
