//! `[[peers]]`: other people's implementations, by command. Space files and benchmark files write them alike.

use std::path::{Path, PathBuf};

use evo_space::diagnostic::{Diagnostics, nearest};
use evo_space::document::{Data, Node};

use crate::label::{LABEL_HINT, is_label};
use crate::spec::PeerSpec;

const KEYS: &[&str] = &["name", "command", "timeout_s"];
const WORDS_MAX: usize = 100;
/// Seconds that one answer may take at most.
const TIMEOUT_MAX_S: f64 = 3600.0;

#[derive(Clone, Copy, Debug)]
pub struct PeerFile<'a> {
    pub path: &'a Path,
    pub text: &'a str,
    /// Where its commands run; an embedded space has none, and no commands.
    pub folder: Option<&'a Path>,
}

pub fn read(
    node: Option<&Node>,
    file: &PeerFile<'_>,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<PeerSpec>> {
    let Some(node) = node else { return Some(Vec::new()) };
    let Data::List(items) = &node.data else {
        let message = format!("`peers` is {}, expected a list of tables", node.kind());
        diagnostics.error_with_hint(node.span.clone(), message, "write [[peers]]");
        return None;
    };
    let mut peers: Vec<PeerSpec> = Vec::new();
    let before = diagnostics.list().len();
    for item in items {
        let Some(peer) = peer(item, file, diagnostics) else { continue };
        if peers.iter().any(|other| other.name == peer.name) {
            diagnostics.error(item.span.clone(), format!("two peers are called `{}`", peer.name));
        }
        peers.push(peer);
    }
    (diagnostics.list().len() == before).then_some(peers)
}

fn peer(node: &Node, file: &PeerFile<'_>, diagnostics: &mut Diagnostics) -> Option<PeerSpec> {
    let Some(entries) = node.entries() else {
        diagnostics.error(node.span.clone(), format!("a peer is {}, expected a table", node.kind()));
        return None;
    };
    for entry in entries.iter().filter(|entry| !KEYS.contains(&entry.key.as_str())) {
        let hint = match nearest(&entry.key, KEYS.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known keys: {}", KEYS.join(", ")),
        };
        let message = format!("unknown key `{}` in a peer", entry.key);
        diagnostics.error_with_hint(entry.key_span.clone(), message, hint);
    }
    let name = match node.get("name").map(|own| (&own.data, own)) {
        Some((Data::Text(name), _)) if is_label(name) => name.clone(),
        Some((_, own)) => {
            let message = "the name of a peer is a short text";
            diagnostics.error_with_hint(own.span.clone(), message, LABEL_HINT);
            return None;
        }
        None => {
            diagnostics.error_with_hint(node.span.clone(), "a peer has no `name`", "add name = \"…\"");
            return None;
        }
    };
    let command = match node.get("command") {
        Some(own) => command(own, file, diagnostics)?,
        None => Vec::new(),
    };
    let timeout_s = match node.get("timeout_s") {
        Some(own) => Some(timeout(own, diagnostics)?),
        None => None,
    };
    let at = node.get("command").unwrap_or(node);
    let (line, column) = place(file.text, at.span.start);
    Some(PeerSpec {
        name,
        command,
        folder: file.folder.map(Path::to_path_buf).unwrap_or_default(),
        timeout_s,
        place: (PathBuf::from(file.path), line, column),
    })
}

fn command(node: &Node, file: &PeerFile<'_>, diagnostics: &mut Diagnostics) -> Option<Vec<String>> {
    if file.folder.is_none() {
        diagnostics.error(node.span.clone(), "an embedded space cannot have a peer by command");
        return None;
    }
    let word = |item: &Node| match &item.data {
        Data::Text(text) if !text.contains('\0') => Some(text.clone()),
        _ => None,
    };
    let words: Option<Vec<String>> = match &node.data {
        Data::List(items) => items.iter().map(word).collect(),
        _ => None,
    };
    match words {
        Some(words) if (1..=WORDS_MAX).contains(&words.len()) && !words[0].trim().is_empty() => Some(words),
        _ => {
            let hint = "command = [\"python3\", \"peer.py\"]";
            let message = format!("`command` of a peer is a list of 1 to {WORDS_MAX} words");
            diagnostics.error_with_hint(node.span.clone(), message, hint);
            None
        }
    }
}

fn timeout(node: &Node, diagnostics: &mut Diagnostics) -> Option<f64> {
    let seconds = match node.data {
        Data::Int(value) => value as f64,
        Data::Float(value) => value,
        _ => f64::NAN,
    };
    if (0.1..=TIMEOUT_MAX_S).contains(&seconds) {
        return Some(seconds);
    }
    diagnostics.error(node.span.clone(), format!("`timeout_s` is from 0.1 to {TIMEOUT_MAX_S} seconds"));
    None
}

/// Line and column of a byte, from 1 and in characters.
pub fn place(text: &str, at: usize) -> (u32, u32) {
    let before = text.get(..at).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (u32::try_from(line).unwrap_or(u32::MAX), u32::try_from(column).unwrap_or(u32::MAX))
}
