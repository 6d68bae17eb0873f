//! `[[peers]]`: other people's implementations, by command. Space files and benchmark files write them alike.

use std::path::{Path, PathBuf};

use evo_space::diagnostic::place;
use evo_space::document::{Data, Field, Node};

use crate::label::{LABEL_HINT, is_label};
use crate::spec::PeerSpec;

const KEYS: &[&str] = &["name", "command", "timeout_s"];
const WORDS_MAX: usize = 100;
const TIMEOUT_MAX_S: f64 = 3600.0;

#[derive(Clone, Copy, Debug)]
pub struct PeerFile<'a> {
    pub path: &'a Path,
    pub text: &'a str,
    /// Where its commands run; an embedded space has none, and no commands.
    pub folder: Option<&'a Path>,
}

pub fn read(file: &Field<'_, PeerFile<'_>>) -> Option<Vec<PeerSpec>> {
    let Some(node) = file.node.get("peers") else { return Some(Vec::new()) };
    let field = file.at(node, "`peers`");
    let Some(items) = node.items() else {
        let message = format!("`peers` is {}, expected a list of tables", node.kind());
        return field.refuse(message, "write [[peers]]");
    };
    let mut peers: Vec<PeerSpec> = Vec::new();
    for item in items {
        let item = field.at(item, "a peer");
        let Some(peer) = peer(&item) else { continue };
        if peers.iter().any(|other| other.name == peer.name) {
            item.error(format!("two peers are called `{}`", peer.name));
        }
        peers.push(peer);
    }
    Some(peers)
}

fn peer(field: &Field<'_, PeerFile<'_>>) -> Option<PeerSpec> {
    field.keys(KEYS)?;
    let name = field.need("name", "add name = \"…\"", |own| match &own.node.data {
        Data::Text(name) if is_label(name) => Some(name.clone()),
        _ => own.refuse("the name of a peer is a short text", LABEL_HINT),
    })?;
    let command = field.or("command", Vec::new(), command)?;
    let timeout_s = field.optional("timeout_s", timeout)?;
    let file = field.context;
    let (line, column) = place(file.text, field.node.get("command").unwrap_or(field.node).span.start);
    let folder = file.folder.map(Path::to_path_buf).unwrap_or_default();
    Some(PeerSpec { name, command, folder, timeout_s, place: (PathBuf::from(file.path), line, column) })
}

fn command(field: &Field<'_, PeerFile<'_>>) -> Option<Vec<String>> {
    if field.context.folder.is_none() {
        return field.wrong("an embedded space cannot have a peer by command");
    }
    let word = |item: &Node| match &item.data {
        Data::Text(text) if !text.contains('\0') => Some(text.clone()),
        _ => None,
    };
    let words = field.node.items().and_then(|items| items.iter().map(word).collect::<Option<Vec<String>>>());
    match words {
        Some(words) if (1..=WORDS_MAX).contains(&words.len()) && !words[0].trim().is_empty() => Some(words),
        _ => {
            let message = format!("`command` of a peer is a list of 1 to {WORDS_MAX} words");
            field.refuse(message, "command = [\"python3\", \"peer.py\"]")
        }
    }
}

fn timeout(field: &Field<'_, PeerFile<'_>>) -> Option<f64> {
    match field.number()? {
        seconds if (0.1..=TIMEOUT_MAX_S).contains(&seconds) => Some(seconds),
        _ => field.wrong(format!("`timeout_s` is from 0.1 to {TIMEOUT_MAX_S} seconds")),
    }
}
