//! Sources that hold the host half of a program beside the kernels: `main`, launches, helpers that allocate and print.
//!
//! Only the device half is compiled. What goes is replaced by blanks, so that no line moves. Directives stay, so that
//! branches and macros keep their meaning, but for those that include what only a host has (`<iostream>`). A
//! declaration goes if no execution space is written on it and if no word of the device half names it, directly or
//! through what it names. The result is what is judged, and what goes cannot run, so leaving something out hides
//! nothing.

mod items;
mod merge;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::PathBuf;

use evo_device::host::tokens::{CudaTokenKind, tokenize};
use evo_protocol::verdict::Verdict;

use crate::lines::{DirectiveLine, SourceLines, included};
use items::{ItemKind, SourceItem};

use super::standard::OF_HOSTS;

pub use merge::MergedSource;

#[derive(Debug, PartialEq)]
pub struct DeviceHalf<'a> {
    pub text: Cow<'a, str>,
    pub skipped: Vec<(String, usize)>,
    /// A line with host code that could not be told from device code.
    pub unclear: Option<usize>,
}

/// Words of which one makes a declaration the device's.
const SPACES: [&str; 6] =
    ["__global__", "__device__", "__constant__", "__shared__", "__managed__", "__grid_constant__"];

const HOST_WORDS: &str = "\
    thrust FILE argc argv cerr chrono cout cuInit endl exit fclose fopen fprintf fstream getenv gettimeofday \
    ifstream iostream map mt19937 ofstream ostream perror rand random_device runtime_error shared_ptr srand \
    string stringstream stderr thread unique_ptr unordered_map vector";

pub fn device_half<'a>(text: &'a str, entries: &[String], options: &[String]) -> DeviceHalf<'a> {
    let whole = |unclear| DeviceHalf { text: Cow::Borrowed(text), skipped: Vec::new(), unclear };
    let Some(lines) = SourceLines::read(text) else {
        return whole(suspicious_line(text));
    };
    let macros = Macros::of(&lines);
    let (items, open) = items::read(&lines, &|name| macros.takes_arguments.contains(name));
    if let Some(open) = open {
        let line = lines.line(lines.tokens[open].start);
        return whole(suspicious_line(text).map(|_| line));
    }
    let halves = Halves { lines: &lines, macros: &macros, items: &items };
    let included = lines.directives.iter().filter(|own| is_host_header(text, own));
    let included: Vec<_> = included.map(|own| own.range.clone()).collect();
    if included.is_empty() && !items.iter().any(|item| halves.is_of_hosts(item)) {
        return whole(None);
    }
    // A body that a word of the device stands in was not read as it was meant.
    if let Some(item) = items.iter().find(|item| halves.is_muddled(item)) {
        return whole(Some(lines.line(lines.tokens[item.tokens.start].start)));
    }
    let kept = halves.kept(entries, options);
    let left_out = items.iter().zip(&kept).filter(|(_, kept)| !**kept).map(|(item, _)| item);
    let (mut out, mut skipped) = (text.as_bytes().to_vec(), Vec::new());
    for item in left_out {
        let first = lines.tokens[item.tokens.start].start;
        blank(&mut out, &lines, first, lines.tokens[item.tokens.end - 1].end);
        if item.kind == ItemKind::Function && item.body < item.tokens.end {
            skipped.push((item.names.first().cloned().unwrap_or_default(), lines.line(first)));
        }
    }
    included.into_iter().for_each(|range| out[range].fill(b' '));
    // What is left names the library, or its headers were for the host.
    let names_thrust = String::from_utf8_lossy(&out).contains("thrust::");
    for directive in lines.directives.iter().filter(|own| {
        !names_thrust && included_header(text, own).is_some_and(|name| name.starts_with("thrust/"))
    }) {
        out[directive.range.clone()].fill(b' ');
    }
    let text = String::from_utf8(out).map_or(Cow::Borrowed(text), Cow::Owned);
    DeviceHalf { text, skipped, unclear: None }
}

/// `None` where no included file holds host code. `own` is the name of the source's file.
pub fn merged(text: &str, own: &str, folders: &[PathBuf]) -> Option<MergedSource> {
    merge::merge(text, own, folders, &has_host_code)
}

/// Whether a file has declarations of which a kernel can have nothing, or includes what only a host has.
fn has_host_code(text: &str) -> bool {
    let Some(lines) = SourceLines::read(text) else { return false };
    if lines.directives.iter().any(|own| is_host_header(text, own)) {
        return true;
    }
    let macros = Macros::of(&lines);
    let (items, _) = items::read(&lines, &|name| macros.takes_arguments.contains(name));
    let halves = Halves { lines: &lines, macros: &macros, items: &items };
    items.iter().any(|item| halves.is_of_hosts(item))
}

impl DeviceHalf<'_> {
    /// Adds to a refusal what was left out, where that may be why. `place` words a line of the source.
    pub fn explain(&self, verdict: &mut Verdict, place: &dyn Fn(usize) -> String) {
        let listed = |own: &[(String, usize)]| {
            let mut seen = HashSet::new();
            let all = own.iter().map(|(name, line)| format!("`{name}` ({})", place(*line)));
            // A file that is included twice has all of it twice.
            let all: Vec<String> = all.filter(|own| seen.insert(own.clone())).collect();
            all.join(", ")
        };
        let words: HashSet<&str> =
            verdict.message.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        let named = self.skipped.iter().filter(|(name, _)| words.contains(name.as_str())).cloned();
        let named: Vec<(String, usize)> = named.collect();
        if !named.is_empty() {
            let hint = format!(
                "\nhint: host code is left out: {}; mark what kernels call with `__device__`",
                listed(&named)
            );
            verdict.message.push_str(&hint);
        }
        if let Some(line) = self.unclear {
            let hint = format!(
                "\nhint: the host code near {} could not be told from device code; move the kernels to a file of their own",
                place(line)
            );
            verdict.message.push_str(&hint);
        }
        if !self.skipped.is_empty() {
            verdict.evidence.insert("host_code_left_out", listed(&self.skipped));
        }
    }
}

fn included_header<'a>(text: &'a str, directive: &DirectiveLine) -> Option<&'a str> {
    included(text, directive)?.name()
}

fn is_host_header(text: &str, directive: &DirectiveLine) -> bool {
    included_header(text, directive).is_some_and(|name| OF_HOSTS.split(' ').any(|own| own == name))
}

fn suspicious_line(text: &str) -> Option<usize> {
    let at = text.lines().position(|line| line.contains("<<<") || line.contains("int main("))?;
    Some(at + 1)
}

/// Writes blanks, but for ends of lines and directives.
fn blank(out: &mut [u8], lines: &SourceLines<'_>, start: usize, end: usize) {
    let overlaps = |range: &&Range<usize>| range.start < end && range.end > start;
    let kept: Vec<_> = lines.directives.iter().map(|own| &own.range).filter(overlaps).collect();
    for (at, byte) in out.iter_mut().enumerate().take(end).skip(start) {
        if !matches!(byte, b'\n' | b'\r') && !kept.iter().any(|range| range.contains(&at)) {
            *byte = b' ';
        }
    }
}

struct Macros<'a> {
    /// What the words of a macro's text are, for all of its definitions.
    words: HashMap<&'a str, Vec<&'a str>>,
    takes_arguments: HashSet<&'a str>,
    spaces: HashSet<&'a str>,
}

impl<'a> Macros<'a> {
    fn of(lines: &SourceLines<'a>) -> Macros<'a> {
        let (mut words, mut takes_arguments) = (HashMap::<&str, Vec<&str>>::new(), HashSet::new());
        for directive in lines.directives.iter().filter(|own| own.word == "define") {
            let all = lines.words_of(directive);
            let [_, name, text @ ..] = &all[..] else { continue };
            let own = &lines.text[directive.range.clone()];
            let behind = own.find(name).and_then(|at| own[at..].strip_prefix(name));
            if behind.is_some_and(|rest| rest.starts_with('(')) {
                takes_arguments.insert(*name);
            }
            words.entry(*name).or_default().extend(text);
        }
        let mut spaces: HashSet<&str> = HashSet::new();
        loop {
            let marks = |word: &&str| SPACES.contains(word) || spaces.contains(word);
            let more = words.iter().filter(|(_, text)| text.iter().any(marks)).map(|(name, _)| *name);
            let more: Vec<&str> = more.filter(|name| !spaces.contains(name)).collect();
            if more.is_empty() {
                break;
            }
            spaces.extend(more);
        }
        Macros { words, takes_arguments, spaces }
    }
}

struct Halves<'a> {
    lines: &'a SourceLines<'a>,
    macros: &'a Macros<'a>,
    items: &'a [SourceItem],
}

impl<'a> Halves<'a> {
    fn is_space(&self, at: usize) -> bool {
        let word = self.lines.word(at);
        SPACES.contains(&word) || self.macros.spaces.contains(word)
    }

    fn is_of_devices(&self, item: &SourceItem) -> bool {
        let end = if item.kind == ItemKind::Function { item.body } else { item.tokens.end };
        (item.tokens.start..end).any(|at| self.is_space(at))
    }

    /// Whether the body of a host function has an execution space other than that of a lambda.
    fn is_muddled(&self, item: &SourceItem) -> bool {
        let of_lambda = |at: usize| {
            let mut before = at;
            while before > item.body && (self.is_space(before) || self.lines.word(before) == "__host__") {
                before -= 1;
            }
            self.lines.word(before) == "]"
        };
        item.kind == ItemKind::Function
            && !self.is_of_devices(item)
            && (item.body..item.tokens.end).any(|at| self.is_space(at) && !of_lambda(at))
    }

    /// Whether a declaration can only be the host's: it launches, calls CUDA's host library, or uses what no kernel has.
    fn is_of_hosts(&self, item: &SourceItem) -> bool {
        let of_hosts = |at: usize| {
            let word = self.lines.word(at);
            let calls = word
                .strip_prefix("cuda")
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
            let launches = word == "<" && self.lines.word(at + 1) == "<" && self.lines.word(at + 2) == "<";
            calls || launches || HOST_WORDS.split(' ').any(|own| own == word)
        };
        let is_main =
            item.kind == ItemKind::Function && item.names.first().is_some_and(|name| name == "main");
        item.kind != ItemKind::Fixed
            && !self.is_of_devices(item)
            && (is_main || item.tokens.clone().any(of_hosts))
    }

    fn kept(&self, entries: &[String], options: &[String]) -> Vec<bool> {
        let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (at, item) in self.items.iter().enumerate() {
            item.names.iter().for_each(|name| by_name.entry(name).or_default().push(at));
        }
        let mut kept = vec![false; self.items.len()];
        // Words to look at, and whether they are called.
        let mut queue: Vec<(&str, bool)> = Vec::new();
        let is_main = |item: &SourceItem| item.names.first().is_some_and(|name| name == "main");
        // A folder may have any name, that of a host function too.
        let is_folder = |option: &&String| option.starts_with("-I") || option.starts_with("--include-path");
        for text in entries.iter().chain(options.iter().filter(|own| !is_folder(own))) {
            let words = tokenize(text);
            let words = words.iter().filter(|token| token.kind == CudaTokenKind::Word);
            queue.extend(words.map(|token| (token.text(text), true)));
        }
        for (at, item) in self.items.iter().enumerate() {
            let is_operator =
                item.names.first().is_some_and(|name| name == "operator") && !self.is_of_hosts(item);
            if item.kind == ItemKind::Fixed || self.is_of_devices(item) || is_operator {
                self.keep(at, &mut kept, &mut queue);
            }
        }
        let mut seen: HashSet<(&str, bool)> = HashSet::new();
        while let Some((word, called)) = queue.pop() {
            if !seen.insert((word, called)) {
                continue;
            }
            // What a macro stands for may be called, whatever it looks like.
            let text = self.macros.words.get(word).into_iter().flatten();
            queue.extend(text.map(|own| (*own, true)));
            for at in by_name.get(word).into_iter().flatten() {
                let item = &self.items[*at];
                // A variable of a kernel may have the name of a function of the host, so a function is named by a call,
                // or by its class.
                let named = called || item.kind != ItemKind::Function || item.names[0] != word;
                if named && !is_main(item) {
                    self.keep(*at, &mut kept, &mut queue);
                }
            }
        }
        kept
    }

    fn keep<'q>(&self, at: usize, kept: &mut [bool], queue: &mut Vec<(&'q str, bool)>)
    where
        'a: 'q,
    {
        if std::mem::replace(&mut kept[at], true) {
            return;
        }
        let lines = self.lines;
        let before = |own: usize| if own == 0 { "" } else { lines.word(own - 1) };
        let words = self.items[at].tokens.clone().filter(|own| lines.is_word(*own));
        // As in `int count`, `T* count` or `vector<T> count`.
        let declares =
            |own: &usize| *own > 0 && (lines.is_word(*own - 1) || matches!(before(*own), "*" | "&" | ">"));
        let declared: HashSet<&str> = words.clone().filter(declares).map(|own| lines.word(own)).collect();
        for own in words {
            let member = before(own) == "." || before(own) == ">" && own > 1 && lines.word(own - 2) == "-";
            if !member {
                let word = lines.word(own);
                // A name that is nowhere declared as a variable may be that of a function, handed over.
                let called = matches!(lines.word(own + 1), "(" | "<") || before(own) == "&";
                queue.push((word, called || !declared.contains(word)));
            }
        }
    }
}

#[cfg(test)]
mod tests;
