//! `reference = { command = […] }`: a program of the task's that computes expected outputs.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use evo_protocol::worker::CommandReference;
use evo_space::document::Node;

use super::fields::{Fields, Reader};
use crate::access::{self, ARRAY_MAX};

const KEYS: &[&str] = &["command", "files", "dtype", "serve", "timeout_s", "parameters"];

/// Seconds for one case where the file does not say it, and at most: the worker that waits for it has 300.
const TIMEOUT_S: f64 = 60.0;
const TIMEOUT_MAX_S: f64 = 240.0;

/// Words of a command, and files beside it.
const WORDS_MAX: usize = 100;

/// Reads the table.
pub(super) fn read(reader: &mut Reader, node: &Node) -> Option<CommandReference> {
    let fields = reader.fields(node, "`reference` of `check`", KEYS)?;
    let Some(folder) = reader.folder.map(Path::to_path_buf) else {
        let hint = "write the space to a file, beside the files of its command".to_string();
        reader.hinted(&node.span, "an embedded space cannot have a reference by command", Some(hint));
        return None;
    };
    let words = fields.get("command").and_then(|node| words(reader, node, &fields, "command"));
    let named = words.as_ref().and_then(|words| named_files(reader, fields.get("command")?, words));
    let more = match fields.get("files") {
        Some(node) => files(reader, node, &fields),
        None => Some(Vec::new()),
    };
    let single = match fields.get("dtype") {
        Some(node) => {
            let known = [("float64", false), ("f64", false), ("float32", true), ("f32", true)];
            reader.choice(node, &fields.name("dtype"), &known)
        }
        None => Some(false),
    };
    let serve = match fields.get("serve") {
        Some(node) => reader.boolean(node, &fields.name("serve")),
        None => Some(false),
    };
    let timeout = match fields.get("timeout_s") {
        Some(node) => timeout(reader, node, &fields.name("timeout_s")),
        None => Some(TIMEOUT_S),
    };
    let mut files = named?;
    files.extend(more?);
    files.sort();
    files.dedup();
    // A worker does not run in the folder from which the space file was named.
    let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
    Some(CommandReference {
        command: words?,
        folder: absolute(folder),
        single: single?,
        serve: serve?,
        timeout_ms: (timeout? * 1e3) as u64,
        files: files.into_iter().map(absolute).collect(),
    })
}

fn timeout(reader: &mut Reader, node: &Node, what: &str) -> Option<f64> {
    let seconds = reader.positive(node, what, false)?;
    if !(0.1..=TIMEOUT_MAX_S).contains(&seconds) {
        let message = format!("{what} is {seconds}, expected 0.1 to {TIMEOUT_MAX_S} seconds");
        reader.error(&node.span, message);
        return None;
    }
    Some(seconds)
}

fn words(reader: &mut Reader, node: &Node, fields: &Fields, key: &str) -> Option<Vec<String>> {
    let what = fields.name(key);
    let items = reader.list(node, &what, "words, such as [\"python3\", \"ref.py\"]")?;
    if items.is_empty() || items.len() > WORDS_MAX {
        let message = format!("{what} has {} words, expected 1 to {WORDS_MAX}", items.len());
        reader.error(&node.span, message);
        return None;
    }
    let words: Vec<_> = items.iter().map(|item| reader.string(item, &what)).collect();
    let words: Vec<String> = words.into_iter().collect::<Option<_>>()?;
    if words.iter().any(|word| word.contains('\0')) {
        reader.error(&node.span, format!("{what} has a zero character"));
        return None;
    }
    Some(words)
}

/// The words that name files below the space's folder: an edit of one makes other answers. Other words are arguments,
/// unless they lead out of the folder.
fn named_files(reader: &mut Reader, node: &Node, words: &[String]) -> Option<Vec<PathBuf>> {
    let folder = reader.folder?;
    let mut found = Vec::new();
    for (position, word) in words.iter().enumerate() {
        let is_program = position == 0;
        // A program without a slash is looked for in `PATH`, and an absolute one is the machine's.
        if is_program && (!word.contains('/') || word.starts_with('/')) {
            continue;
        }
        match access::open_beside(folder, word, ARRAY_MAX, reader.allow_outside) {
            Ok(_) => found.push(reader.path_beside(word)),
            Err(cause) if access::is_outside(&cause) && folder.join(word).is_file() => {
                let path = folder.join(word);
                let hint =
                    "copy the file beside the space file, or pass `--allow-outside` if you trust the space";
                let message = format!("`command` of `reference` names `{}`: {cause}", path.display());
                reader.hinted(&node.span, message, Some(hint.to_string()));
                return None;
            }
            Err(cause) if is_program => {
                let path = folder.join(word);
                let message = format!("`command` of `reference`: cannot use `{}`: {cause}", path.display());
                let hint = "a program with a `/` is taken from the space file's folder".to_string();
                reader.hinted(&node.span, message, Some(hint));
                return None;
            }
            Err(_)
                if evo_system::regular::irregular(&folder.join(word))
                    .is_some_and(|what| what != "a folder") =>
            {
                let what = evo_system::regular::irregular(&folder.join(word)).unwrap_or_default();
                let message = format!("`command` of `reference` names `{word}`, which is {what}");
                reader.hinted(&node.span, message, Some("name a regular file".to_string()));
                return None;
            }
            Err(cause) => {
                // Looks like a file, and is none: said now, and not by a Python that cannot open it.
                let is_path = word.ends_with(".py") || word.ends_with(".sh");
                if is_path && cause.kind() == ErrorKind::NotFound {
                    let message = format!("`command` of `reference`: there is no file `{word}`");
                    let hint = format!("looked for `{}`", reader.path_beside(word).display());
                    reader.hinted(&node.span, message, Some(hint));
                    return None;
                }
            }
        }
    }
    Some(found)
}

fn files(reader: &mut Reader, node: &Node, fields: &Fields) -> Option<Vec<PathBuf>> {
    let what = fields.name("files");
    let items = reader.list(node, &what, "file names")?;
    if items.len() > WORDS_MAX {
        reader.error(&node.span, format!("{what} has {} entries, expected at most {WORDS_MAX}", items.len()));
        return None;
    }
    let found: Vec<_> = items.iter().map(|item| reader.existing_file(item, &what)).collect();
    found.into_iter().collect()
}
