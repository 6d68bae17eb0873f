//! The errors of the TOML parser, without the noise that follows a bracket left open.
//!
//! The parser recovers after an error, so that several mistakes show at once. After a missing `]` it
//! reads the rest of the file as items of the list and reports every line, but never the
//! bracket: here the bracket is found and everything after it is left out.

use toml::de::Error;

use crate::diagnostic::{Diagnostic, Diagnostics};

/// Errors that are looked at; each costs a walk through the text.
const MAX_ERRORS: usize = 50;

/// Adds the parser's errors, one a line.
pub(crate) fn report(text: &str, errors: &[Error], diagnostics: &mut Diagnostics) {
    let mut last_line = None;
    let mut last_open = None;
    for error in errors.iter().take(MAX_ERRORS) {
        let span = error.span().unwrap_or(0..0);
        let at = span.start.min(text.len());
        let open = open_bracket(text, at);
        if let Some(bracket) = open
            && let Some(line) = swallowed_line(text, bracket, at)
        {
            let shown = &text[bracket..=bracket];
            let hint = format!("line {line} is still read as part of it");
            diagnostics.error_with_hint(bracket..bracket + 1, format!("this `{shown}` is not closed"), hint);
            return;
        }
        let line = line_of(text, at);
        // What follows an error on the same line, or in the same brackets, is noise.
        let noise = last_line == Some(line) || (open.is_some() && last_open == open);
        (last_line, last_open) = (Some(line), open);
        if !noise {
            diagnostics.error(span, words(error.message()));
        }
    }
    if let Some(rest) = errors.len().checked_sub(MAX_ERRORS).filter(|rest| *rest > 0) {
        let message = format!("{rest} more places are not valid TOML");
        diagnostics.push(Diagnostic { message, span: None, hint: None });
    }
}

/// The parser's words on one line and without a final period.
fn words(message: &str) -> String {
    let line = message.lines().map(str::trim).collect::<Vec<_>>().join(", ");
    let line = line.trim_end_matches('.');
    if line.is_empty() { "this is not valid TOML".to_string() } else { line.to_string() }
}

/// Counts from 1.
fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

/// The innermost bracket that is open before `at`, outside texts and comments.
fn open_bracket(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut open, mut position) = (Vec::new(), 0);
    while position < at {
        match bytes[position] {
            b'#' => position = end_of_line(text, position),
            quote @ (b'"' | b'\'') => position = end_of_text(bytes, position, quote),
            b'[' | b'{' => open.push(position),
            b']' | b'}' => drop(open.pop()),
            _ => {}
        }
        position += 1;
    }
    open.pop()
}

fn end_of_line(text: &str, from: usize) -> usize {
    text[from..].find('\n').map_or(text.len(), |length| from + length)
}

/// Where the text that begins at `from` ends: its last quote, or the end of its line.
fn end_of_text(bytes: &[u8], from: usize, quote: u8) -> usize {
    let long = bytes[from..].starts_with(&[quote; 3]);
    let mut at = if long { from + 3 } else { from + 1 };
    while at < bytes.len() {
        match bytes[at] {
            // Texts in single quotes have no escapes.
            b'\\' if quote == b'"' => at += 1,
            b'\n' if !long => return at,
            _ if long && bytes[at..].starts_with(&[quote; 3]) => return at + 2,
            byte if !long && byte == quote => return at,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

/// The first line after an open bracket that begins a statement, if there is one up to `at`.
fn swallowed_line(text: &str, bracket: usize, at: usize) -> Option<usize> {
    let first = line_of(text, bracket);
    let last = line_of(text, at);
    let mut lines = text.lines().enumerate().skip(first).take(last - first);
    lines.find(|(_, line)| begins_statement(line.trim_start())).map(|(index, _)| index + 1)
}

/// Whether a line reads `[name…` or `name =`; an item of a list does neither.
fn begins_statement(line: &str) -> bool {
    let name = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    let inner = line.trim_start_matches('[');
    let end = inner.find(|letter| !name(letter)).unwrap_or(inner.len());
    let (word, rest) = inner.split_at(end);
    // A nested list also begins with brackets, but seldom with a word that a bracket closes.
    let header = inner.len() < line.len() && rest.starts_with(']') && word.starts_with(char::is_alphabetic);
    let assignment = inner.len() == line.len() && !word.is_empty() && rest.trim_start().starts_with('=');
    header || assignment
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::parse;

    /// The errors of a text: line, marked part and message.
    fn check(text: &str, expected: &[&str]) {
        let mut diagnostics = Diagnostics::default();
        assert!(parse(text, &mut diagnostics).is_none(), "{text}");
        let shown = diagnostics.list().iter().map(|one| {
            let span = one.span.clone().unwrap_or(0..0);
            format!("{} `{}` {}", line_of(text, span.start), &text[span], one.message)
        });
        assert_eq!(shown.collect::<Vec<_>>(), expected, "{text}");
    }

    #[test]
    fn a_bracket_left_open_is_the_only_complaint() {
        check("a = 1\nb = [1, 2\nc = 3\n[d]\ne = [4]\nf = 5\n", &["2 `[` this `[` is not closed"]);
        check("b = [\"]\", # ]\n  1,\n[[c]]\nx = 1\n[[d]]\n", &["1 `[` this `[` is not closed"]);
        check("b = [{ x = 1 }, { y = ']' }\nc = 3\nd = 4\n", &["1 `[` this `[` is not closed"]);
    }

    #[test]
    fn separate_mistakes_are_all_told() {
        let expected = ["1 `x` string values must be quoted, expected literal string"];
        check("a = x\n", &expected);
        let mut diagnostics = Diagnostics::default();
        assert!(parse("a = x\nb = 1\nc = y\n", &mut diagnostics).is_none());
        assert_eq!(diagnostics.list().len(), 2, "{:?}", diagnostics.list());
    }

    #[test]
    fn an_item_is_no_statement() {
        let check = |line: &str, expected: bool| assert_eq!(begins_statement(line), expected, "{line}");
        check("[parameters]", true);
        check("[[launches]]", true);
        check("BLOCK_M = [1]", true);
        check("[1, 2],", false);
        check("[[1]]", false);
        check("{ name = 1 },", false);
        check("\"a = b\",", false);
        check("", false);
    }
}
