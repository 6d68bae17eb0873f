//! Benchmark files: candidates, modes, shapes and peers. All mistakes of a file are told at once, each with its place.

use std::cell::RefCell;
use std::io::Read;
use std::path::{Path, PathBuf};

use evo_protocol::measurement::TimingMode;
use evo_space::diagnostic::Diagnostics;
use evo_space::document::{self, Node, Span};

use crate::kernel::label::{LABEL_HINT, is_label};
use crate::kernel::load::LoadError;
use crate::kernel::load::peers::{self, PeerFile};
use crate::kernel::spec::PeerSpec;

pub const KEYS: &[&str] = &["name", "space", "candidates", "modes", "problems", "peers"];
const CANDIDATE_KEYS: &[&str] = &["name", "words", "config", "source", "launch"];
/// A benchmark file has some hundred lines.
const BYTES_MAX: u64 = 1 << 20;
const CANDIDATES_MAX: usize = 100;

/// What a benchmark file asks for, or a command line without one.
#[derive(Clone, Debug, Default)]
pub struct BenchFile {
    pub path: PathBuf,
    pub text: String,
    /// The run's name; empty for the kernel's.
    pub name: String,
    /// An embedded space, or the path of a space file.
    pub space: String,
    /// Empty where the file names none.
    pub candidates: Vec<BenchCandidate>,
    /// Empty where the file names none.
    pub modes: Vec<TimingMode>,
    /// Names with their places; empty for all.
    pub problems: Vec<(String, Span)>,
    /// Whether its problems are tables, and so shapes of its own.
    pub has_shapes: bool,
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

impl BenchCandidate {
    pub fn of_words(text: &str) -> BenchCandidate {
        let words = text.split_whitespace().map(String::from).collect();
        BenchCandidate { words, ..BenchCandidate::default() }
    }
}

impl BenchFile {
    /// An error at a place of the file, rendered as its own mistakes are.
    pub fn error(&self, diagnostics: &Diagnostics) -> LoadError {
        LoadError::invalid(self.path.clone(), &self.path.display().to_string(), &self.text, diagnostics)
    }
}

type Field<'a> = document::Field<'a, PeerFile<'a>>;

/// Reads a benchmark file; `None` where the file is a space.
pub fn read_bench_file(path: &Path) -> Result<Option<BenchFile>, LoadError> {
    let mut text = String::new();
    let read = crate::regular::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_string(&mut text));
    if read.is_err() || text.len() as u64 > BYTES_MAX {
        // Whoever opens it as a space says what is wrong with it.
        return Ok(None);
    }
    let diagnostics = RefCell::default();
    let root = document::parse(&text, &mut diagnostics.borrow_mut());
    // It names a space and describes none.
    let is_bench = |root: &Node| ["space", "parameters", "kernel"].map(|key| root.get(key).is_some());
    let Some(root) = root.filter(|root| is_bench(root) == [true, false, false]) else { return Ok(None) };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let place = PeerFile { path, text: &text, folder: Some(folder) };
    let found = file(&Field::new(&root, "a benchmark file", &place, &diagnostics), folder);
    let diagnostics = diagnostics.into_inner();
    match found {
        Some(file) if diagnostics.is_empty() => Ok(Some(file)),
        _ => {
            let shown = path.display().to_string();
            Err(LoadError::invalid(path.to_path_buf(), &shown, &text, &diagnostics))
        }
    }
}

fn file(root: &Field, folder: &Path) -> Option<BenchFile> {
    if let Some(grid) = root.node.get("grid") {
        let hint = "shapes are `[[problems]]` with name and sizes, and a size may list values: sizes = { B = [1, 4] }";
        return root.at(grid, "`grid`").refuse("a benchmark file has no `grid`", hint);
    }
    root.keys(KEYS)?;
    let path = root.context.path;
    let stem = path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| is_label(stem));
    let name = optional(root, "name", |field| label(field).map(Some));
    let space = optional(root, "space", |field| field.string().map(Some));
    let candidates = optional(root, "candidates", |field| candidates(field, folder));
    let modes = optional(root, "modes", modes);
    let first = root.node.get("problems").and_then(|problems| problems.items()?.first());
    let has_shapes = first.is_some_and(|problem| problem.entries().is_some());
    let problems = if has_shapes { Some(Vec::new()) } else { optional(root, "problems", problems) };
    let peers = peers::read(root);
    let space = space??;
    // An embedded space is a name; a file lies beside this one.
    let is_path = space.contains('/') || space.ends_with(".toml") || space.ends_with(".json");
    Some(BenchFile {
        path: path.to_path_buf(),
        text: root.context.text.to_string(),
        name: name?.unwrap_or_else(|| stem.unwrap_or("bench").to_string()),
        space: if is_path { folder.join(&space).display().to_string() } else { space },
        candidates: candidates?,
        modes: modes?,
        problems: problems?,
        has_shapes,
        peers: peers?,
    })
}

/// What `read` makes of a key, which messages call by its name alone.
fn optional<'a, T: Default>(
    table: &Field<'a>,
    key: &str,
    read: impl FnOnce(&Field<'a>) -> Option<T>,
) -> Option<T> {
    let Some(node) = table.node.get(key) else { return Some(T::default()) };
    read(&table.at(node, format!("`{key}`")))
}

fn label(field: &Field) -> Option<String> {
    let text = field.at(field.node, "a name").string()?;
    match is_label(&text) {
        true => Some(text),
        false => field.refuse(format!("`{text}` cannot be a name"), LABEL_HINT),
    }
}

/// The items of a list with something in it, which messages call `item`.
fn list<'a>(field: &Field<'a>, item: &str) -> Option<Vec<Field<'a>>> {
    match field.node.items() {
        Some(items) if !items.is_empty() => Some(items.iter().map(|node| field.at(node, item)).collect()),
        _ => {
            let hint = "leave it out for what is usual, or list what is meant";
            field.refuse(format!("{field} is a list with something in it"), hint)
        }
    }
}

fn candidates(field: &Field, folder: &Path) -> Option<Vec<BenchCandidate>> {
    let items = list(field, "a candidate")?;
    if items.len() > CANDIDATES_MAX {
        let message = format!("{} candidates, at most {CANDIDATES_MAX} take part", items.len());
        return field.wrong(message);
    }
    items.iter().map(|item| candidate(item, folder)).collect()
}

fn candidate(field: &Field, folder: &Path) -> Option<BenchCandidate> {
    if field.node.entries().is_none() {
        return Some(BenchCandidate::of_words(&field.string()?));
    }
    field.keys(CANDIDATE_KEYS)?;
    let text = |key: &str| optional(field, key, |field| field.string().map(Some));
    let path = |key: &str| text(key).map(|text| text.map(|text| folder.join(text)));
    Some(BenchCandidate {
        config: path("config")?,
        source: path("source")?,
        launch: path("launch")?,
        name: field.optional("name", label)?,
        ..BenchCandidate::of_words(&text("words")?.unwrap_or_default())
    })
}

fn modes(field: &Field) -> Option<Vec<TimingMode>> {
    let mut modes = Vec::new();
    for item in list(field, "a mode")? {
        let word = item.string()?;
        let Some(mode) = TimingMode::named(&word) else {
            return item.refuse(format!("`{word}` is not a mode"), "there are hot, cold and eager");
        };
        if !modes.contains(&mode) {
            modes.push(mode);
        }
    }
    Some(modes)
}

fn problems(field: &Field) -> Option<Vec<(String, Span)>> {
    let items = list(field, "a problem")?;
    items.iter().map(|item| Some((item.string()?, item.node.span.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is refused is in `tests/data/refused.toml`.
    #[test]
    fn a_file_says_what_takes_part() {
        let text = "space = \"k.toml\"\ncandidates = [\"32 8 4\", { name = \"mine\", source = \"m.cu\" }]\n\
                    modes = [\"hot\", \"cold\", \"hot\"]\nproblems = [\"a\", \"b\"]\n\
                    [[peers]]\nname = \"p\"\ncommand = [\"python3\", \"p.py\"]\ntimeout_s = 2\n\
                    [[peers]]\nname = \"torch\"\n";
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let path = folder.path().join("b.toml");
            std::fs::write(&path, text).unwrap();
            read_bench_file(&path).unwrap()
        };
        let file = read(text).unwrap();
        assert!(file.space.ends_with("/k.toml") && file.name == "b", "{file:?}");
        assert_eq!(file.candidates[0].words, ["32", "8", "4"]);
        assert_eq!(file.candidates[1].name.as_deref(), Some("mine"));
        assert!(file.candidates[1].source.as_ref().unwrap().ends_with("m.cu"));
        assert_eq!(file.modes, [TimingMode::Hot, TimingMode::Cold]);
        assert_eq!((file.peers[0].place.1, file.peers[0].timeout_s), (7, Some(2.0)));
        assert!(file.peers[1].command.is_empty());
        assert!(read("[parameters]\nA = [1]\n").is_none(), "a space is not a benchmark file");
    }
}
