//! A source as tokens, with its preprocessor directives apart.

use std::ops::Range;

use evo_device::host::tokens::{CudaToken, CudaTokenKind, tokenize};

#[derive(Clone, Debug, PartialEq)]
pub struct DirectiveLine {
    pub word: String,
    pub range: Range<usize>,
}

pub struct SourceLines<'a> {
    pub text: &'a str,
    pub tokens: Vec<CudaToken>,
    pub directives: Vec<DirectiveLine>,
}

impl<'a> SourceLines<'a> {
    /// Nothing if a compiler may read the source otherwise than this does.
    pub fn read(text: &'a str) -> Option<SourceLines<'a>> {
        let all = tokenize(text);
        (!is_doubtful(text, &all)).then(|| SourceLines::of(text, &all))
    }

    /// As most compilers read it.
    pub fn likely(text: &'a str) -> SourceLines<'a> {
        SourceLines::of(text, &tokenize(text))
    }

    fn of(text: &'a str, all: &[CudaToken]) -> SourceLines<'a> {
        let (mut tokens, mut directives) = (Vec::new(), Vec::<DirectiveLine>::new());
        let mut last_end = 0;
        for (at, token) in all.iter().enumerate() {
            if directives.last().is_some_and(|own| own.range.contains(&token.start)) {
                continue;
            }
            // Only blanks and comments stand between the end of a line and the `#`.
            let before = &text[last_end..token.start];
            let starts = before.contains('\n') || at == 0;
            if starts && token.text(text) == "#" {
                let range = token.start..directive_end(text, token.start);
                let word = all.get(at + 1).filter(|next| range.contains(&next.start));
                let word = word.map_or(String::new(), |next| next.text(text).to_string());
                last_end = range.end;
                directives.push(DirectiveLine { word, range });
            } else {
                last_end = token.end;
                tokens.push(*token);
            }
        }
        SourceLines { text, tokens, directives }
    }

    pub fn word(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |token| token.text(self.text))
    }

    pub fn is_word(&self, at: usize) -> bool {
        self.tokens.get(at).is_some_and(|token| token.kind == CudaTokenKind::Word)
    }

    pub fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0;
        (open..self.tokens.len()).find(|at| {
            match self.word(*at) {
                "(" => depth += 1,
                ")" => depth -= 1,
                _ => {}
            }
            depth == 0
        })
    }

    pub fn line(&self, byte: usize) -> usize {
        self.text[..byte].matches('\n').count() + 1
    }
}

pub fn words_of<'a>(text: &'a str, directive: &DirectiveLine) -> Vec<&'a str> {
    let line = &text[directive.range.clone()];
    let tokens = tokenize(line);
    let words = tokens.iter().filter(|token| token.kind == CudaTokenKind::Word);
    words.map(|token| token.text(line)).collect()
}

/// Words after `#` that are followed by a file.
const INCLUSIONS: [&str; 4] = ["include", "include_next", "import", "embed"];

/// Operators that ask for a file as a directive would.
const QUESTIONS: [&str; 3] = ["__has_include", "__has_include_next", "__has_embed"];

#[derive(Clone, Debug, PartialEq)]
pub enum NamedFile<'a> {
    Quoted(&'a str),
    Bracketed(&'a str),
    /// What only the preprocessor can tell: a macro, or an expression of a template.
    Computed,
}

impl<'a> NamedFile<'a> {
    fn of(text: &'a str) -> NamedFile<'a> {
        let mut text = text.trim_start();
        while let Some((_, rest)) = text.strip_prefix("/*").and_then(|rest| rest.split_once("*/")) {
            text = rest.trim_start();
        }
        let name = |quoted: bool| {
            let rest = text.strip_prefix(if quoted { '"' } else { '<' })?;
            let (name, _) = rest.split_once(if quoted { '"' } else { '>' })?;
            (!name.contains(['{', '\n'])).then_some(name)
        };
        match (name(true), name(false)) {
            (Some(name), _) => NamedFile::Quoted(name),
            (None, Some(name)) => NamedFile::Bracketed(name),
            (None, None) => NamedFile::Computed,
        }
    }

    pub fn name(&self) -> Option<&'a str> {
        match self {
            NamedFile::Quoted(name) | NamedFile::Bracketed(name) => Some(name),
            NamedFile::Computed => None,
        }
    }
}

/// Of `#include` and the like. Nothing of another directive.
pub fn included<'a>(text: &'a str, directive: &DirectiveLine) -> Option<NamedFile<'a>> {
    let line = &text[directive.range.clone()];
    let word = INCLUSIONS.iter().find(|word| **word == directive.word)?;
    let behind = line.find(word).map_or("", |at| &line[at + word.len()..]);
    Some(NamedFile::of(behind))
}

pub fn named_files<'a>(text: &'a str, directive: &DirectiveLine) -> Vec<NamedFile<'a>> {
    let line = &text[directive.range.clone()];
    let questions = QUESTIONS.iter().flat_map(|word| line.match_indices(word));
    // `defined(__has_include)` asks for no file, and `__has_include_next` is met twice.
    let operands = questions.filter_map(|(at, word)| line[at + word.len()..].trim_start().strip_prefix('('));
    included(text, directive).into_iter().chain(operands.map(NamedFile::of)).collect()
}

/// Signs of which compilers make others: digraphs, and trigraphs where a standard before C++17 is asked for.
const OTHER_SIGNS: [&str; 4] = ["<%", "%>", "%:", "??"];

/// Whether the text has what compilers read in different ways, or what the tokenizer does not know: marks before raw
/// strings, comments that go on behind a backslash, blanks behind one.
fn is_doubtful(text: &str, tokens: &[CudaToken]) -> bool {
    let raw = ["LR\"", "uR\"", "UR\"", "8R\""].iter().any(|mark| text.contains(mark));
    let spliced = text.lines().any(|line| {
        let end = line.trim_end();
        end.ends_with('\\') && (end != line || end.contains("//"))
    });
    let other = tokens
        .windows(2)
        .any(|two| two[0].end == two[1].start && OTHER_SIGNS.contains(&&text[two[0].start..two[1].end]));
    raw || spliced || other || text.contains("??/")
}

/// Behind a text in quotes, in which no comment begins; behind its first quote where its line has no other.
fn text_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    loop {
        match bytes.get(at) {
            None | Some(b'\n') => return start + 1,
            Some(b'"') => return at + 1,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

fn directive_end(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = start;
    while at < bytes.len() {
        match bytes[at] {
            b'\n' => return at,
            b'\\' => at += if bytes[at + 1..].starts_with(b"\r\n") { 3 } else { 2 },
            b'"' => at = text_end(bytes, at),
            b'/' if bytes[at..].starts_with(b"/*") => {
                at = text[at + 2..].find("*/").map_or(bytes.len(), |length| at + length + 4);
            }
            b'/' if bytes[at..].starts_with(b"//") => {
                at = text[at..].find('\n').map_or(bytes.len(), |length| at + length);
            }
            _ => at += 1,
        }
    }
    bytes.len()
}
