//! Spaces and templates that ship inside the binary, and the one way to open a space by name.
//!
//! A file on disk is never shadowed: `gemm` is the embedded space, `./gemm.toml` is the user's.

use std::path::{Path, PathBuf};

use evo_space::diagnostic::nearest;

use super::access::SpaceAccess;
use super::embedded::SPACES;
pub use super::embedded::names;
use super::load::{self, LoadError};
use super::spec::SpaceFile;

/// The space that commands take when none is named.
pub const DEFAULT: &str = "attention_simt";

/// Whether a word on the command line means a space: the name of an embedded one, or a path
/// (something with a `/`, or that ends in `.toml` or `.json`).
pub fn looks_like_space(word: &str) -> bool {
    names().contains(&word) || is_path(word)
}

/// Opens an embedded space by name, else a file by path, with the usual limits.
pub fn open(name_or_path: &str) -> Result<SpaceFile, LoadError> {
    open_with(name_or_path, SpaceAccess::default())
}

/// The same with limits of the caller's.
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
    let hint = match nearest(name_or_path, names()) {
        // A name with an ending means a file, and the embedded spaces are of no use then.
        _ if path.extension().is_some() => load::looked_in(path),
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("embedded spaces: {}; a file is named by its path", names().join(", ")),
    };
    Err(LoadError::Unknown { name: name_or_path.to_string(), hint })
}

/// Reads a space from a text of evo's own, which can name embedded files only. `name` stands for it in messages.
pub fn from_text(name: &str, text: String) -> Result<SpaceFile, LoadError> {
    load::load_text(PathBuf::from(name), name, text, None, SpaceAccess::default())
}

fn is_path(word: &str) -> bool {
    word.contains('/') || word.ends_with(".toml") || word.ends_with(".json")
}
