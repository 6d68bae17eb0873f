//! Spaces and templates that ship inside the binary, and the one way to open a space by name.
//!
//! A file on disk is never shadowed: `gemm` is the embedded space, `./gemm.toml` is the user's.

use std::path::{Path, PathBuf};

use evo_space::diagnostic::nearest;

pub use super::access::names;
use super::access::{SPACES, SpaceAccess};
use super::load::{self, LoadError};
use super::spec::SpaceFile;

pub const DEFAULT: &str = "attention_simt";

/// The name of an embedded one, or a path: something with a `/`, or that ends in `.toml` or `.json`.
pub fn looks_like_space(word: &str) -> bool {
    names().contains(&word) || is_path(word)
}

pub fn open(name_or_path: &str) -> Result<SpaceFile, LoadError> {
    open_with(name_or_path, SpaceAccess::default())
}

pub fn open_with(name_or_path: &str, access: SpaceAccess) -> Result<SpaceFile, LoadError> {
    if let Some((file, text)) = SPACES.iter().find(|(file, _)| file.trim_end_matches(".toml") == name_or_path)
    {
        let shown = format!("search_spaces/{file}");
        return load::load_text(PathBuf::from(name_or_path), &shown, (*text).to_string(), None, access);
    }
    let path = Path::new(name_or_path);
    if is_path(name_or_path) || path.exists() {
        return load::load_file_with(path, access);
    }
    Err(LoadError::Unknown {
        name: name_or_path.to_string(),
        hint: unknown_hint(name_or_path, Path::new(".")),
    })
}

fn unknown_hint(name: &str, folder: &Path) -> String {
    // A name with an ending means a file, and the embedded spaces are of no use then.
    if Path::new(name).extension().is_some() {
        return load::looked_in(Path::new(name));
    }
    if let Some(near) = nearest(name, names()) {
        return format!("did you mean `{near}`?");
    }
    let shipped = format!("shipped: {}", names().join(", "));
    let files = space_files(folder);
    let stems = || files.iter().map(|file| file.trim_start_matches("./").trim_end_matches(".toml"));
    match (&files[..], nearest(name, stems())) {
        ([], _) => format!("{shipped}; a file is named by its path"),
        (_, Some(near)) => format!("{shipped}; did you mean `./{near}.toml`?"),
        ([only], None) => format!("{shipped}; did you mean `{only}`?"),
        (several, None) => format!("{shipped}; space files here: {}", several.join(", ")),
    }
}

/// The space files of a folder, as `./NAME.toml` and in order. Other files end in `.toml` too, so the tables that they have
/// decide, and a file with a mistake in it is still recognized.
pub fn space_files(folder: &Path) -> Vec<String> {
    let is_space = |name: &String| {
        let text = name.ends_with(".toml").then(|| load::read_text(&folder.join(name)).ok()).flatten();
        let has = |table: &str| {
            let begins = |line: &str| {
                let rest = line.trim_start_matches('[').strip_prefix(table);
                rest.is_some_and(|rest| rest.trim_start().starts_with([']', '.', '=']))
            };
            text.iter().flat_map(|text| text.lines()).any(begins)
        };
        has("kernel") && has("parameters")
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut files: Vec<String> = names.filter(is_space).map(|name| format!("./{name}")).collect();
    files.sort();
    files
}

/// Reads a space from a text of evo's own, which can name embedded files only. `name` stands for it in messages.
pub fn from_text(name: &str, text: String) -> Result<SpaceFile, LoadError> {
    load::load_text(PathBuf::from(name), name, text, None, SpaceAccess::default())
}

fn is_path(word: &str) -> bool {
    word.contains('/') || word.ends_with(".toml") || word.ends_with(".json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_files_are_known_by_their_tables() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        write("Cargo.toml", "[package]\nname = \"kernel\"\n");
        assert_eq!(space_files(folder.path()), Vec::<String>::new());
        let hint = |name: &str| unknown_hint(name, folder.path());
        assert!(hint("nothere").ends_with("faults_heads; a file is named by its path"));
        write("other.toml", "[kernel]\nname = \"other\n[parameters]\n");
        assert_eq!(space_files(folder.path()), ["./other.toml"]);
        assert!(hint("nothere").ends_with("faults_heads; did you mean `./other.toml`?"));
        write("another.toml", "kernel = {}\n[parameters]\n");
        assert_eq!(space_files(folder.path()), ["./another.toml", "./other.toml"]);
        assert!(hint("othr").ends_with("; did you mean `./other.toml`?"));
        assert!(hint("xyz").ends_with("here: ./another.toml, ./other.toml"));
    }
}
