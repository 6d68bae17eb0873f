//! A space file, TOML or JSON, to `SpaceFile`: all of its errors at once, each with its place.
//!
//! `space::load` reads parameters and constraints; the files here read the kernel's part, a section
//! each. A file may describe a space alone (no `kernel`); then nothing below `kernel` may be there.
//!
//! Files that people name where a space file is wanted: a kernel's source, or a file in another notation. Read as TOML,
//! they would give an error for each line and not the one that helps.

use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evo_space::SpaceWatch;
use evo_space::diagnostic::{Diagnostic, Diagnostics, place};
use evo_space::document;
use evo_space::load::read_space;
use thiserror::Error;

use crate::access::{self, SpaceAccess};
use crate::apart::Renderer;
use crate::load::fields::{Field, KnownNames, Scope, WrittenArgument};
use crate::load::peers::PeerFile;
use crate::spec::{KernelSpec, ReferenceSpec, ReplacedDefault, SpaceFile};

mod arguments;
pub mod candidate;
mod check;
mod fields;
pub mod goals;
mod launches;
pub mod peers;
mod problems;
mod prove;
mod source;

/// Sections of a file that has a kernel, beside the space itself.
const KERNEL_KEYS: &[&str] =
    &["arguments", "launches", "prepare", "problems", "check", "objective", "goals", "peers", "diagnose"];

const COMMON_KEYS: &[&str] = &["kernel", "parameters", "constraints", "description", "note"];

/// Further keys of a file that describes a space alone, as benchmark collections write them.
const SPACE_KEYS: &[&str] = &["name", "expected_cartesian", "expected_valid", "rank_sum", "source"];

/// A space file of a person or a program is far smaller. Read as a tree, a file takes up to a hundred times its size.
const MAX_BYTES: u64 = 4 << 20;

/// Why there is no space: always the user's to mend.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file has errors; `rendered` shows all of them with their places.
    #[error("{rendered}")]
    Invalid {
        path: PathBuf,
        count: usize,
        rendered: String,
        /// Line and column of the first one, from 1; absent where it concerns the file as a whole.
        first: Option<(u32, u32)>,
    },
    #[error("cannot read the space file `{}`: {cause}", .path.display())]
    Unreadable {
        path: PathBuf,
        // Part of the message, so that whoever prints only that loses nothing.
        cause: io::Error,
        hint: String,
    },
    #[error("`{}` is {what}, and a space file is TOML or JSON", .path.display())]
    NotASpace { path: PathBuf, what: &'static str, hint: String },
    #[error("no space `{name}` here")]
    Unknown { name: String, hint: String },
}

impl LoadError {
    /// The errors of a file's text; `shown` names it in messages.
    pub fn invalid(path: PathBuf, shown: &str, text: &str, diagnostics: &Diagnostics) -> LoadError {
        let count = diagnostics.list().len();
        assert!(count > 0, "a file is refused only with a complaint");
        let (rendered, first) = (diagnostics.render(shown, text), diagnostics.first_place(text));
        LoadError::Invalid { path, count, rendered, first }
    }

    /// What a person can do about it; the errors of a file that was read carry their own hints in place.
    pub fn hint(&self) -> Option<&str> {
        match self {
            LoadError::Invalid { .. } => None,
            LoadError::Unreadable { hint, .. }
            | LoadError::NotASpace { hint, .. }
            | LoadError::Unknown { hint, .. } => Some(hint),
        }
    }

    /// The file, with line and column of its first error where there is one; `None` where there is no file.
    pub fn place(&self) -> Option<(&Path, Option<(u32, u32)>)> {
        match self {
            LoadError::Invalid { path, first, .. } => Some((path, *first)),
            LoadError::Unreadable { path, .. } | LoadError::NotASpace { path, .. } => Some((path, None)),
            LoadError::Unknown { .. } => None,
        }
    }
}

/// Reads a space file with the usual limits; files that it names are looked for beside it, then among the embedded
/// ones.
pub fn load_file(path: &Path) -> Result<SpaceFile, LoadError> {
    load_file_with(path, SpaceAccess::default())
}

pub fn load_file_with(path: &Path, access: SpaceAccess) -> Result<SpaceFile, LoadError> {
    if let Some(other) = other_kind(path) {
        return Err(other);
    }
    let text = read_text(path).map_err(|cause| {
        let hint = way_out(path, &cause);
        LoadError::Unreadable { path: path.to_path_buf(), cause, hint }
    })?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    load_text(path.to_path_buf(), &path.display().to_string(), text, Some(folder), access)
}

pub(super) fn read_text(path: &Path) -> io::Result<String> {
    read_capped(evo_system::regular::open(path)?, MAX_BYTES)
}

fn read_capped(file: File, limit: u64) -> io::Result<String> {
    let mut text = String::new();
    // One byte more, which tells a file of exactly the limit from a longer one.
    file.take(limit + 1).read_to_string(&mut text)?;
    if text.len() as u64 > limit {
        let message = format!("it is larger than {} MiB", limit >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

pub(super) fn looked_in(path: &Path) -> String {
    if path.is_absolute() {
        return "check the path, or name an embedded space".to_string();
    }
    let folder = std::env::current_dir().unwrap_or_default();
    format!("looked for it in `{}`", folder.display())
}

fn way_out(path: &Path, cause: &io::Error) -> String {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let embedded = access::names().contains(&stem);
    match cause.kind() {
        io::ErrorKind::NotFound if embedded => format!("the embedded space is called `{stem}`"),
        io::ErrorKind::NotFound => looked_in(path),
        io::ErrorKind::IsADirectory => "name a file in that folder".to_string(),
        io::ErrorKind::PermissionDenied => "make it readable for you".to_string(),
        io::ErrorKind::InvalidInput => "write the space to a file first".to_string(),
        _ => "a space file is a TOML or JSON text in UTF-8".to_string(),
    }
}

/// Reads the text of a space file. `shown` names it in messages; without a `folder` it can only
/// name embedded files.
pub(super) fn load_text(
    path: PathBuf,
    shown: &str,
    text: String,
    folder: Option<&Path>,
    access: SpaceAccess,
) -> Result<SpaceFile, LoadError> {
    let diagnostics = RefCell::default();
    let watch = access.watch();
    let renderer = if access.render_apart { Renderer::Apart(Arc::default()) } else { Renderer::Here };
    let scope = Scope {
        folder,
        allow_outside: access.allow_outside,
        renderer,
        ..Scope::of_text(&text, KnownNames::default())
    };
    let mut file = read(&path, scope, &diagnostics, &watch);
    let mut diagnostics = diagnostics.into_inner();
    if watch.is_over() {
        file = None;
        let (limit, patience) = (access.limit.as_secs_f64(), access.patience().as_secs_f64());
        let hint = format!(
            "opening the space took longer than {limit} s of processor time, or {patience} s in all; \
             `--limit space=TIME` allows more"
        );
        let message = "the space takes too long to open".into();
        diagnostics.push(Diagnostic { message, span: None, hint: Some(hint) });
    }
    match file {
        Some(file) if diagnostics.is_empty() => Ok(file),
        _ => Err(LoadError::invalid(path, shown, &text, &diagnostics)),
    }
}

fn read(
    path: &Path,
    scope: Scope,
    diagnostics: &RefCell<Diagnostics>,
    watch: &SpaceWatch,
) -> Option<SpaceFile> {
    let text = scope.text;
    let node = document::parse(text, &mut diagnostics.borrow_mut())?;
    let scope = Scope { names: KnownNames::of_file(&node), arguments: WrittenArgument::all(&node), ..scope };
    let root = Field::new(&node, "the file", &scope, diagnostics);
    let has_kernel = node.get("kernel").is_some();
    root.keys(&[COMMON_KEYS, KERNEL_KEYS, if has_kernel { &[] } else { SPACE_KEYS }].concat())?;
    let kernel = match has_kernel {
        true => read_kernel(path, &root).map(Some),
        false => {
            let first = KERNEL_KEYS.iter().find_map(|key| section(&root, key));
            if let Some(first) = &first {
                let hint = "add [kernel] with name and template or source";
                first.hinted(format!("{first} needs a `kernel`"), hint);
            }
            first.is_none().then_some(None)
        }
    };
    let space = read_space(&root, watch);
    // Both parts are read before either ends this, so that one pass shows the errors of both.
    let (space, mut kernel) = (space?, kernel?);
    if let (Some(kernel), Some(field)) = (&mut kernel, section(&root, "diagnose")) {
        kernel.diagnose = goals::read_diagnose(&field, space.parameters()).unwrap_or_default();
    }
    // Only in a sound file, whose default cannot fail for a reason that is already reported.
    let is_sound = diagnostics.borrow().is_empty();
    let (space, replaced_default) = match &kernel {
        Some(kernel) if is_sound => {
            check::parameters_fit(&root, &space, &kernel.check);
            let (space, replaced) = ReplacedDefault::mend(space);
            prove::default_works(&root, &space, kernel);
            (space, replaced)
        }
        _ => (space, None),
    };
    let (path, text) = (path.to_path_buf(), text.to_string());
    Some(SpaceFile { path, text, space, replaced_default, kernel })
}

fn section<'a>(root: &Field<'a>, key: &str) -> Option<Field<'a>> {
    root.node.get(key).map(|node| root.at(node, format!("`{key}`")))
}

fn read_kernel(path: &Path, root: &Field) -> Option<KernelSpec> {
    let kernel = section(root, "kernel")?;
    let header = source::read(&kernel);
    let needed = |key: &str, hint: &str| {
        section(root, key).or_else(|| kernel.refuse(format!("the kernel has no `{key}`"), hint))
    };
    let arguments = needed("arguments", "add an [[arguments]] table for each argument of the entry point");
    let launches = needed("launches", "add [[launches]] with entry, grid and block");
    let problems = needed("problems", "add [[problems]] with name and sizes");
    let check = needed("check", "add [check] with reference = …: a variant is nothing without a check");
    let arguments = arguments.and_then(|field| arguments::read(&field));
    let launches = launches.and_then(|field| launches::read(&field));
    let prepare = arguments.as_deref().and_then(|arguments| source::read_prepare(root, arguments));
    let problems = problems.and_then(|field| problems::read(&field));
    let check = check.and_then(|field| check::read(&field, arguments.as_deref()));
    let objective = goals::read_objective(section(root, "objective").as_ref());
    let folder = root.context.folder;
    let shown = folder.map_or_else(PathBuf::new, |_| path.to_path_buf());
    let peer_file = PeerFile { path: &shown, text: root.context.text, folder };
    let peers = peers::read(&root.with(&peer_file));
    let goals = section(root, "goals").map_or(Some(None), |field| goals::read_goals(&field).map(Some));
    let (header, (launches, loops), check) = (header?, launches?, check?);
    let mut options = header.options;
    if folder.is_some() {
        let reference = match &check.reference {
            ReferenceSpec::Kernel { source, .. } => Some(source),
            _ => None,
        };
        let prepare = prepare.iter().flatten().map(|prepare| &prepare.source);
        let texts = std::iter::once(&header.source).chain(reference).chain(prepare);
        options.extend(source::include_options(&header.include_dirs, texts));
    }
    if let (Some(field), Some(problems)) = (kernel.get("specialize"), &problems) {
        problems::check_specialize(&field, &header.specialize, problems);
    }
    Some(KernelSpec {
        name: header.name,
        source: header.source,
        options,
        specialize: header.specialize,
        is_persistent: header.is_persistent,
        arguments: arguments?,
        launches,
        loops,
        prepare: prepare?,
        problems: problems?,
        check,
        objective: objective?,
        peers: peers?,
        goals: goals?,
        // Read once the parameters are known.
        diagnose: Vec::new(),
    })
}

/// The line, from 1, on which a problem has its name.
pub fn problem_line(text: &str, problem: &str) -> Option<u32> {
    let root = document::parse(text, &mut Diagnostics::default())?;
    let mut names = root.get("problems")?.items()?.iter().filter(|item| item.text("name") == Some(problem));
    Some(place(text, names.next()?.get("name")?.span.start).0)
}

/// Files of a folder that are looked at for one that names a source, and the longest that is.
const LOOKED_AT: usize = 200;
const SPACE_BYTES: u64 = 1 << 20;

/// What the name of a file says that it is, if that rules out a space; `None` where there is no such file.
fn other_kind(path: &Path) -> Option<LoadError> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    let name_it = "name the space file, `my_space.toml` or `my_space.json`";
    // Sources lead to the space files that name them.
    let (what, hint) = match extension.as_str() {
        "cu" | "cuh" => ("CUDA source", None),
        "c" | "cc" | "cpp" | "cxx" | "h" | "hpp" => ("C++ source", None),
        "j2" | "jinja" => ("a template", None),
        "ptx" | "cubin" | "so" => {
            let hint = "evo compiles variants from source: name a space file with `source = \"my.cu\"`";
            ("compiled code", Some(hint))
        }
        "py" => ("Python", Some(name_it)),
        "yaml" | "yml" => ("YAML", Some("write the same keys as TOML or JSON")),
        "jsonl" => ("a list of JSON objects", Some(name_it)),
        _ => return None,
    };
    path.is_file().then(|| {
        let hint = hint.map_or_else(|| about_source(path, what), str::to_string);
        LoadError::NotASpace { path: path.to_path_buf(), what, hint }
    })
}

/// The space files beside a source that name it, else how such a file begins.
fn about_source(path: &Path, what: &str) -> String {
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return "name the space file".to_string();
    };
    let spaces = spaces_of(path, name);
    if let Some(first) = spaces.first() {
        return format!("`{first}` is a space file that names it");
    }
    let way = match what {
        "CUDA source" => format!("`evo init {name}` writes a first one"),
        "a template" => format!("write one with `template = \"{name}\"` in `[kernel]` and name that"),
        _ => format!("write one with `source = \"{name}\"` in `[kernel]` and name that"),
    };
    format!("a space file says what is tuned, how the kernel is launched and what a correct answer is; {way}")
}

fn spaces_of(path: &Path, name: &str) -> Vec<String> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let quoted = format!("\"{name}\"");
    let names_it = |space: &PathBuf| {
        space.extension().is_some_and(|end| end == "toml" || end == "json")
            && fs::metadata(space).is_ok_and(|found| found.is_file() && found.len() <= SPACE_BYTES)
            && fs::read_to_string(space).is_ok_and(|text| text.contains("kernel") && text.contains(&quoted))
    };
    let entries = fs::read_dir(folder).into_iter().flatten().take(LOOKED_AT).flatten();
    let paths = entries.map(|entry| path.with_file_name(entry.file_name()));
    let mut found: Vec<String> = paths.filter(names_it).map(|space| space.display().to_string()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_told_from_a_space_and_leads_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let said = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            let Some(LoadError::NotASpace { what, hint, .. }) = other_kind(&path) else { panic!("{name}") };
            format!("{what}; {hint}").replace(&folder.path().display().to_string(), "")
        };
        let kernel = "extern \"C\" __global__ void k() {}";
        assert_eq!(
            said("k.cu", kernel),
            "CUDA source; a space file says what is tuned, how the \
             kernel is launched and what a correct answer is; `evo init k.cu` writes a first one"
        );
        std::fs::write(folder.path().join("mine.toml"), "[kernel]\nsource = \"k.cu\"\n").unwrap();
        assert!(said("k.cu", kernel).ends_with("; `/mine.toml` is a space file that names it"));
        assert!(other_kind(&folder.path().join("none.cu")).is_none(), "a file that is not there");
        assert_eq!(said("k.yaml", "kernel:\n  name: k\n"), "YAML; write the same keys as TOML or JSON");
    }

    #[test]
    fn a_problem_is_found_by_its_name() {
        let text = "[[problems]]\nname = \"a\"\n\n[[problems]]\nsizes = { N = 1 }\nname = \"b\"\n";
        assert_eq!((problem_line(text, "a"), problem_line(text, "b")), (Some(2), Some(6)));
        assert_eq!((problem_line(text, "c"), problem_line("[", "a")), (None, None));
        assert_eq!(problem_line("{\"problems\": [\n{\"name\": \"a\"}]}", "a"), Some(2));
    }
}
