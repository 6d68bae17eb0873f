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

use crate::lines::{SourceLines, included, words_of};
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
    let suspicious = text.lines().position(|line| line.contains("<<<") || line.contains("int main("));
    let suspicious = suspicious.map(|at| at + 1);
    let Some(halves) = Halves::read(text) else { return whole(suspicious) };
    let Halves { lines, items, .. } = &halves;
    let line = |token: usize| lines.line(lines.tokens[token].start);
    if let Some(open) = halves.open {
        return whole(suspicious.map(|_| line(open)));
    }
    if !halves.has_host_code() {
        return whole(None);
    }
    // A body that a word of the device stands in was not read as it was meant.
    if let Some(item) = items.iter().find(|item| halves.is_muddled(item)) {
        return whole(Some(line(item.tokens.start)));
    }
    let kept = halves.kept(entries, options);
    let left_out = items.iter().zip(&kept).filter(|(_, kept)| !**kept).map(|(item, _)| item);
    let (mut out, mut skipped) = (text.as_bytes().to_vec(), Vec::new());
    for item in left_out {
        let (first, last) = (item.tokens.start, item.tokens.end - 1);
        blank(&mut out, lines, lines.tokens[first].start..lines.tokens[last].end);
        if item.kind == ItemKind::Function && item.body < item.tokens.end {
            skipped.push((item.names.first().cloned().unwrap_or_default(), line(first)));
        }
    }
    // What is left names the library, or its headers were for the host.
    let names_thrust = String::from_utf8_lossy(&out).contains("thrust::");
    for directive in &lines.directives {
        let name = included(text, directive).and_then(|file| file.name()).unwrap_or_default();
        if is_host_header(name) || !names_thrust && name.starts_with("thrust/") {
            out[directive.range.clone()].fill(b' ');
        }
    }
    let text = String::from_utf8(out).map_or(Cow::Borrowed(text), Cow::Owned);
    DeviceHalf { text, skipped, unclear: None }
}

/// `None` where no included file holds host code. `own` is the name of the source's file.
pub fn merged(text: &str, own: &str, folders: &[PathBuf]) -> Option<MergedSource> {
    merge::merge(text, own, folders, &|text| Halves::read(text).is_some_and(|halves| halves.has_host_code()))
}

impl DeviceHalf<'_> {
    /// Adds to a refusal what was left out, where that may be why. `place` words a line of the source.
    pub fn explain(&self, verdict: &mut Verdict, place: &dyn Fn(usize) -> String) {
        let listed = |is_listed: &dyn Fn(&str) -> bool| {
            let all = self.skipped.iter().filter(|(name, _)| is_listed(name));
            let mut listed: Vec<String> = Vec::new();
            for text in all.map(|(name, line)| format!("`{name}` ({})", place(*line))) {
                // A file that is included twice has all of it twice.
                if !listed.contains(&text) {
                    listed.push(text);
                }
            }
            listed.join(", ")
        };
        let message = verdict.message.clone();
        let words = || message.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let named = listed(&|name| words().any(|word| word == name));
        if !named.is_empty() {
            let hint =
                format!("\nhint: host code is left out: {named}; mark what kernels call with `__device__`");
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
            verdict.evidence.insert("host_code_left_out", listed(&|_| true));
        }
    }
}

fn is_host_header(name: &str) -> bool {
    OF_HOSTS.split(' ').any(|own| own == name)
}

/// Writes blanks, but for ends of lines and directives.
fn blank(out: &mut [u8], lines: &SourceLines<'_>, bytes: Range<usize>) {
    let directives = lines.directives.iter().map(|own| &own.range);
    let kept: Vec<_> = directives.filter(|own| own.start < bytes.end && own.end > bytes.start).collect();
    for at in bytes {
        if !matches!(out[at], b'\n' | b'\r') && !kept.iter().any(|range| range.contains(&at)) {
            out[at] = b' ';
        }
    }
}

struct Halves<'a> {
    lines: SourceLines<'a>,
    items: Vec<SourceItem>,
    open: Option<usize>,
    /// What the words of a macro's text are, for all of its definitions.
    macros: HashMap<&'a str, Vec<&'a str>>,
    /// Words of which one makes a declaration the device's, macros that stand for one among them.
    spaces: HashSet<&'a str>,
}

impl<'a> Halves<'a> {
    /// `None` where compilers may read the source in another way.
    fn read(text: &'a str) -> Option<Halves<'a>> {
        let lines = SourceLines::read(text)?;
        let (mut macros, mut with_arguments) = (HashMap::<&str, Vec<&str>>::new(), HashSet::new());
        for directive in lines.directives.iter().filter(|own| own.word == "define") {
            let [_, name, words @ ..] = &words_of(text, directive)[..] else { continue };
            let definition = &text[directive.range.clone()];
            let behind = definition.find(name).map(|at| &definition[at + name.len()..]);
            if behind.is_some_and(|rest| rest.starts_with('(')) {
                with_arguments.insert(*name);
            }
            macros.entry(name).or_default().extend(words);
        }
        let mut spaces = HashSet::from(SPACES);
        let mut known = 0;
        while known < spaces.len() {
            known = spaces.len();
            let marked = macros.iter().filter(|(_, words)| words.iter().any(|word| spaces.contains(word)));
            let marked: Vec<&str> = marked.map(|(name, _)| *name).collect();
            spaces.extend(marked);
        }
        let (items, open) = items::read(&lines, &|name| with_arguments.contains(name));
        Some(Halves { lines, items, open, macros, spaces })
    }

    /// Whether there are declarations of which a kernel can have nothing, or what only a host has is included.
    fn has_host_code(&self) -> bool {
        let files = self.lines.directives.iter().filter_map(|own| included(self.lines.text, own)?.name());
        files.into_iter().any(is_host_header) || self.items.iter().any(|item| self.is_of_hosts(item))
    }

    fn is_space(&self, at: usize) -> bool {
        self.spaces.contains(self.lines.word(at))
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
        let is_main = item.kind == ItemKind::Function && item.is_called("main");
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
        // A folder may have any name, that of a host function too.
        let is_folder = |option: &&String| option.starts_with("-I") || option.starts_with("--include-path");
        for text in entries.iter().chain(options.iter().filter(|own| !is_folder(own))) {
            let words = tokenize(text);
            let words = words.iter().filter(|token| token.kind == CudaTokenKind::Word);
            queue.extend(words.map(|token| (token.text(text), true)));
        }
        for (at, item) in self.items.iter().enumerate() {
            let is_operator = item.is_called("operator") && !self.is_of_hosts(item);
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
            let text = self.macros.get(word).into_iter().flatten();
            queue.extend(text.map(|own| (*own, true)));
            for at in by_name.get(word).into_iter().flatten() {
                let item = &self.items[*at];
                // A variable of a kernel may have the name of a function of the host, so a function is named by a call,
                // or by its class.
                let named = called || item.kind != ItemKind::Function || item.names[0] != word;
                if named && !item.is_called("main") {
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
        let lines = &self.lines;
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
