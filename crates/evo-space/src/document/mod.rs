//! A TOML or JSON file as a tree in which every key and value knows its place.
//!
//! Both formats become the same tree, so the readers of spaces and kernels see one form and every
//! error can point at line and column.
//!
//! The TOML parser recovers after an error, so that several mistakes show at once. After a missing `]` it
//! reads the rest of the file as items of the list and reports every line, but never the
//! bracket: here the bracket is found and everything after it is left out.

mod field;
mod json;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue, Error};
use toml_parser::Source;
use toml_parser::lexer::TokenKind;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::text::is_json;
use crate::value::Value;

pub use crate::diagnostic::{Span, suggestion};
pub use field::Field;

/// Reads TOML or JSON (told apart by the first character that is not white space: `{` is JSON).
/// A file that is not well-formed leaves an error in `diagnostics` and gives `None`.
pub fn parse(text: &str, diagnostics: &mut Diagnostics) -> Option<Node> {
    if is_json(text) { json::parse(text, diagnostics) } else { parse_toml(text, diagnostics) }
}

fn parse_toml(text: &str, diagnostics: &mut Diagnostics) -> Option<Node> {
    let (table, errors) = DeTable::parse_recoverable(text);
    report(text, &errors, diagnostics);
    let before = diagnostics.list().len();
    let span = table.span();
    let entries = toml_entries(table.into_inner(), diagnostics);
    let sound = errors.is_empty() && diagnostics.list().len() == before;
    sound.then_some(Node { span, data: Data::Table(entries) })
}

fn toml_entries(table: DeTable<'_>, diagnostics: &mut Diagnostics) -> Vec<TableEntry> {
    let entry = |(key, value): (Spanned<DeString<'_>>, _)| {
        let (key_span, value) = (key.span(), toml_node(value, diagnostics)?);
        Some(TableEntry { key: key.into_inner().into_owned(), key_span, value })
    };
    let mut entries: Vec<TableEntry> = table.into_iter().filter_map(entry).collect();
    // The parser's map sorts by key; people mean the order in which they wrote.
    entries.sort_by_key(|entry| entry.key_span.start);
    entries
}

fn toml_node(value: Spanned<DeValue<'_>>, diagnostics: &mut Diagnostics) -> Option<Node> {
    let span = value.span();
    let mut refused = |message: &str| {
        diagnostics.error(span.clone(), message);
        None
    };
    let data = match value.into_inner() {
        DeValue::String(text) => Data::Text(text.into_owned()),
        DeValue::Boolean(value) => Data::Bool(value),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(value) => Data::Int(value),
            Err(_) => Data::BigInt(number.to_string()),
        },
        DeValue::Float(number) => match number.as_str().parse() {
            Ok(value) => Data::Float(value),
            Err(_) => return refused("this is not a number"),
        },
        DeValue::Datetime(_) => return refused("dates have no use here"),
        DeValue::Array(items) => {
            Data::List(items.into_iter().filter_map(|item| toml_node(item, diagnostics)).collect())
        }
        DeValue::Table(table) => Data::Table(toml_entries(table, diagnostics)),
    };
    Some(Node { span, data })
}

#[derive(Clone, Debug)]
pub struct Node {
    pub span: Span,
    pub data: Data,
}

#[derive(Clone, Debug)]
pub enum Data {
    Bool(bool),
    Int(i64),
    /// An integer that does not fit 64 bits, as its decimal digits.
    BigInt(String),
    /// A float; TOML has infinities and NaN too.
    Float(f64),
    /// A text without its quotes, escapes resolved.
    Text(String),
    List(Vec<Node>),
    /// Entries in file order; no key twice.
    Table(Vec<TableEntry>),
    Null,
}

#[derive(Clone, Debug)]
pub struct TableEntry {
    pub key: String,
    pub key_span: Span,
    pub value: Node,
}

impl Node {
    pub fn entries(&self) -> Option<&[TableEntry]> {
        if let Data::Table(entries) = &self.data { Some(entries) } else { None }
    }

    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries()?.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    pub fn items(&self) -> Option<&[Node]> {
        if let Data::List(items) = &self.data { Some(items) } else { None }
    }

    pub fn text(&self, key: &str) -> Option<&str> {
        if let Data::Text(text) = &self.get(key)?.data { Some(text) } else { None }
    }

    /// What is not a list, a table or too large.
    pub fn value(&self) -> Option<Value> {
        match &self.data {
            Data::Bool(value) => Some(Value::Bool(*value)),
            Data::Int(value) => Some(Value::Int(*value)),
            Data::Float(value) => Some(Value::Float(*value)),
            Data::Text(text) => Some(Value::text(text.as_str())),
            Data::BigInt(_) | Data::List(_) | Data::Table(_) | Data::Null => None,
        }
    }

    /// `an integer`, `a text`, …, for messages.
    pub fn kind(&self) -> &'static str {
        match &self.data {
            Data::Bool(_) => "a boolean",
            Data::Int(_) | Data::BigInt(_) => "an integer",
            Data::Float(_) => "a float",
            Data::Text(_) => "a text",
            Data::List(_) => "a list",
            Data::Table(_) => "a table",
            Data::Null => "null",
        }
    }
}

/// Errors that are looked at; each costs a walk through the text.
const MAX_ERRORS: usize = 50;

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
    let mut open = Vec::new();
    for token in Source::new(text).lex().take_while(|token| token.span().start() < at) {
        match token.kind() {
            TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket => open.push(token.span().start()),
            TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket => drop(open.pop()),
            _ => {}
        }
    }
    open.pop()
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
    use crate::text::shortened;

    fn shape(node: &Node) -> String {
        match &node.data {
            Data::Bool(value) => value.to_string(),
            Data::Int(value) => value.to_string(),
            Data::BigInt(digits) => format!("big {digits}"),
            Data::Float(value) => format!("{value:?}"),
            Data::Text(text) => format!("{text:?}"),
            Data::List(items) => format!("[{}]", items.iter().map(shape).collect::<Vec<_>>().join(", ")),
            Data::Table(entries) => {
                let pair = |entry: &TableEntry| format!("{}: {}", entry.key, shape(&entry.value));
                format!("{{{}}}", entries.iter().map(pair).collect::<Vec<_>>().join(", "))
            }
            Data::Null => "null".to_string(),
        }
    }

    #[test]
    fn texts_become_trees_or_complaints() {
        // The object is the first level.
        let nested = |depth: usize| format!("{{\"a\": {}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
        let deep = [nested(100), nested(101), nested(100_000), nested(100).replace("[]", "[é]")];
        let texts = [
            // TOML keeps the order of the file.
            "[z]\nb = 1\na = [1, 2.5, 'x', true]\n[a]\n",
            "[[c]]\nx = 0x10\n[[c]]\nx = 1_000\n",
            "x = 99999999999999999999",
            "a.b = 1\na.c = { d = -inf }",
            // JSON becomes the same tree.
            r#" {"a": [1, -2, 2.5e-3, -0, 1E5], "b": {"c": "x\n\u00e9\ud83d\ude00\/"}, "d": null, "e": [true, {}, []]}"#,
            "{\"n\": 199730046861096889759}",
            // A bracket left open is the only complaint.
            "a = 1\nb = [1, 2\nc = 3\n[d]\ne = [4]\nf = 5\n",
            "b = [\"]\", # ]\n  1,\n[[c]]\nx = 1\n[[d]]\n",
            "b = [{ x = 1 }, { y = ']' }\nc = 3\nd = 4\n",
            // Separate mistakes are all told.
            "a = 1\na = 2\n",
            "d = 1979-05-27\n",
            "a = x\nb = 1\nc = y\n",
            // Malformed JSON is pointed at.
            "{",
            "{\"a\" 1}",
            "{\"a\": 1,}",
            "{\"a\": 1} x",
            "{\"a\": 1, \"a\": 2}",
            "{\"a\": 01}",
            "{\"a\": 1.}",
            "{\"a\": nan}",
            "{\"a\": 'x'}",
            "{\"a\": \"x\n\"}",
            "{\"a\": \"\\x\"}",
            "{\"a\": \"\\ud800\"}",
            "{\"é\": é}",
        ];
        let shown = texts.map(String::from).into_iter().chain(deep).map(|text| {
            let mut diagnostics = Diagnostics::default();
            let tree = parse(&text, &mut diagnostics).map(|node| format!("  {}\n", shape(&node)));
            let complaints = diagnostics.render("f", &text);
            format!("{}\n{}{complaints}\n", shortened(&text, 150), tree.unwrap_or_default())
        });
        insta::assert_snapshot!(shown.collect::<String>());
    }

    #[test]
    fn spans_cover_keys_and_values() {
        let text = "[parameters]\nA = { values = [1, 22] }\n";
        let node = parse(text, &mut Diagnostics::default()).unwrap();
        let entry = &node.get("parameters").unwrap().entries().unwrap()[0];
        assert_eq!(&text[entry.key_span.clone()], "A");
        let Data::List(values) = &entry.value.get("values").unwrap().data else { panic!("no list") };
        assert_eq!(&text[values[1].span.clone()], "22");
    }

    #[test]
    fn an_item_is_no_statement() {
        assert!(["[parameters]", "[[launches]]", "BLOCK_M = [1]"].into_iter().all(begins_statement));
        assert!(!["[1, 2],", "[[1]]", "{ name = 1 },", "\"a = b\",", ""].into_iter().any(begins_statement));
    }
}
