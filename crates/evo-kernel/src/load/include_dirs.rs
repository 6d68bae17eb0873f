//! Folders for `#include`: those that `include_dirs` names, and the folder of a source that includes files beside it.

use std::path::{Path, PathBuf};

use evo_space::document::Node;

use super::fields::Reader;
use crate::access;
use crate::spec::{KernelText, OptionSpec};

/// The folders of `include_dirs`, in order.
pub(super) fn read(reader: &mut Reader, node: &Node, what: &str) -> Option<Vec<PathBuf>> {
    let items = reader.list(node, what, "folders")?;
    let found: Vec<_> = items.iter().map(|item| folder(reader, item, what)).collect();
    found.into_iter().collect()
}

fn folder(reader: &mut Reader, node: &Node, what: &str) -> Option<PathBuf> {
    let name = reader.string(node, what)?;
    let path = reader.path_beside(&name);
    let base = reader.folder.unwrap_or(Path::new("."));
    if !path.is_dir() {
        let hint = format!("looked for `{}`; folders are relative to the space file", path.display());
        reader.hinted(&node.span, format!("{what}: there is no folder `{name}`"), Some(hint));
        return None;
    }
    if !reader.allow_outside && !access::is_below(base, &path) {
        let hint = "copy the headers beside the space file, or pass `--allow-outside` if you trust the space";
        let message = format!("{what}: `{name}` is outside the folder of the space file");
        reader.hinted(&node.span, message, Some(hint.to_string()));
        return None;
    }
    Some(path)
}

/// The compiler's options for these folders, and for the folder of each text that includes a file that lies beside it.
pub(super) fn options<'t>(
    folders: &[PathBuf],
    texts: impl IntoIterator<Item = &'t KernelText>,
) -> Vec<OptionSpec> {
    let mut all: Vec<PathBuf> = folders.to_vec();
    for text in texts {
        let own = text.path.parent().unwrap_or(Path::new(""));
        let beside = included(&text.text).any(|name| own.join(name).is_file());
        if beside && !all.iter().any(|known| known == own) {
            all.push(own.to_path_buf());
        }
    }
    let option = |path: PathBuf| {
        let folder = if path.as_os_str().is_empty() { Path::new(".") } else { &path };
        OptionSpec { text: format!("-I{}", folder.display()), value: None, when: None }
    };
    all.into_iter().map(option).collect()
}

/// The names in the `#include` lines of a text, also in lines that a preprocessor or a template would leave out.
fn included(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let word = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
        let end = if word.starts_with('<') { '>' } else { '"' };
        word.strip_prefix(['<', '"'])?.split(end).next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_included_files_are_found_in_both_spellings() {
        let text =
            "#include \"a.cuh\"\n  # include <sub/b.cuh> // why\n// #include \"c\"\n#include MACRO\nint x;";
        assert_eq!(included(text).collect::<Vec<_>>(), ["a.cuh", "sub/b.cuh"]);
    }
}
