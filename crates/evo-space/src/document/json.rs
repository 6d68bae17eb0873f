//! JSON as the tree: `serde_json` reads it value by value, and where each value lies in the text is its place. What is
//! wrong is said in the words of the other errors.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::diagnostic::{Diagnostic, Diagnostics, Span};
use crate::document::{Data, Node, TableEntry};

/// Nesting beyond this is refused, so that no input overflows the stack.
const MAX_DEPTH: usize = 100;

/// Reads one JSON value that fills the text. Reports the first error and gives `None`.
pub fn parse(text: &str, diagnostics: &mut Diagnostics) -> Option<Node> {
    // Skipped by its length and not cut off, because spans count from the start of the file.
    let start = text.len() - text.trim_start_matches('\u{feff}').len();
    let mut reader = JsonReader { text, duplicates: Vec::new() };
    let found = reader.read(start..text.len()).and_then(|raw| reader.node(raw, 1));
    let sound = reader.duplicates.is_empty();
    reader.duplicates.into_iter().for_each(|duplicate| diagnostics.push(duplicate));
    found.map_err(|error| diagnostics.push(error)).ok().filter(|_| sound)
}

struct JsonReader<'t> {
    text: &'t str,
    /// Kept aside and not returned, so that reading goes on and all of them are reported at once.
    duplicates: Vec<Diagnostic>,
}

/// The keys and values of an object, a key as often as it is there.
struct JsonPairs<'t>(Vec<(&'t RawValue, &'t RawValue)>);

impl<'t> Deserialize<'t> for JsonPairs<'t> {
    fn deserialize<D: Deserializer<'t>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'t> Visitor<'t> for Pairs {
            type Value = JsonPairs<'t>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<JsonPairs<'t>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(JsonPairs(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

impl<'t> JsonReader<'t> {
    fn read<T: Deserialize<'t>>(&self, part: Span) -> Result<T, Diagnostic> {
        serde_json::from_str(&self.text[part.clone()]).map_err(|error| self.mistake(&part, &error))
    }

    fn span(&self, raw: &RawValue) -> Span {
        let start = raw.get().as_ptr().addr() - self.text.as_ptr().addr();
        start..start + raw.get().len()
    }

    fn node(&mut self, raw: &'t RawValue, depth: usize) -> Result<Node, Diagnostic> {
        let span = self.span(raw);
        if depth > MAX_DEPTH {
            return Err(error(span.start..span.start + 1, format!("nesting is deeper than {MAX_DEPTH}"), ""));
        }
        let data = match raw.get().as_bytes()[0] {
            b'{' => {
                let JsonPairs(pairs) = self.read(span.clone())?;
                let (mut entries, mut known) = (Vec::new(), HashSet::new());
                for (key, value) in pairs {
                    let key_span = self.span(key);
                    let key: String = self.read(key_span.clone())?;
                    let value = self.node(value, depth + 1)?;
                    if known.insert(key.clone()) {
                        entries.push(TableEntry { key, key_span, value });
                    } else {
                        self.duplicates.push(error(key_span, format!("duplicate key `{key}`"), ""));
                    }
                }
                Data::Table(entries)
            }
            b'[' => {
                let items: Vec<&RawValue> = self.read(span.clone())?;
                Data::List(
                    items.into_iter().map(|item| self.node(item, depth + 1)).collect::<Result<_, _>>()?,
                )
            }
            b'"' => Data::Text(self.read(span.clone())?),
            b't' => Data::Bool(true),
            b'f' => Data::Bool(false),
            b'n' => Data::Null,
            _ => {
                let digits = raw.get();
                if digits.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit()) {
                    // Kept as text where it does not fit, because the message names the number and the reader knows
                    // what it is for.
                    digits.parse().map_or_else(|_| Data::BigInt(digits.to_string()), Data::Int)
                } else {
                    let value: f64 = digits.parse().unwrap_or(f64::INFINITY);
                    match value.is_finite() {
                        true => Data::Float(value),
                        false => return Err(error(span, format!("`{digits}` is not a number"), "")),
                    }
                }
            }
        };
        Ok(Node { span, data })
    }

    /// What `serde_json` found in a part of the text, in our words and at its place.
    fn mistake(&self, part: &Span, found: &serde_json::Error) -> Diagnostic {
        let text = self.text;
        let lines = text[part.start..].split_inclusive('\n').take(found.line().saturating_sub(1));
        let column = lines.map(str::len).sum::<usize>() + found.column();
        let mut at =
            if found.is_eof() { part.end } else { (part.start + column).saturating_sub(1).min(part.end) };
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let letter = text[at..].chars().next();
        let span = at..at + letter.map_or(0, char::len_utf8);
        // The word around the place.
        let around = |is_part: fn(char) -> bool| {
            let start = text[..at].trim_end_matches(is_part).len();
            start..text.len() - text[at..].trim_start_matches(is_part).len()
        };
        let before = text[..at].trim_end();
        if matches!(letter, Some('}' | ']')) && before.ends_with(',') {
            let comma = before.len() - 1..before.len();
            return error(comma, "a comma before the closing bracket", "remove the comma");
        }
        let message = found.to_string();
        let expected = match message.split(" at line ").next().unwrap_or_default() {
            "expected value" | "EOF while parsing a value" => "a value",
            "expected ident" => {
                let word = around(|c| c.is_ascii_alphanumeric());
                return error(word.clone(), format!("expected a value, found `{}`", &text[word]), "");
            }
            "key must be a string" | "EOF while parsing an object" => "a key in double quotes",
            "EOF while parsing a list" => "`,` or `]`",
            "trailing characters" => "the end of the file",
            "invalid number" => {
                let word = around(|c| matches!(c, '-' | '+' | '.' | 'e' | 'E' | '0'..='9'));
                return error(word.clone(), format!("`{}` is not a number", &text[word]), "");
            }
            own if own.contains("escape") || own.contains("code point") => {
                let start = text[..span.end].rfind('\\').unwrap_or(at);
                return error(start..at.max(start + 1), "unknown escape in a text", "");
            }
            own if own.starts_with("control character") || own.ends_with("a string") => {
                let control = text[at..].char_indices().find(|(_, letter)| *letter < ' ');
                let (end, letter) = control.map_or((at, '\n'), |(ahead, letter)| (at + ahead, letter));
                if letter != '\n' {
                    let message = format!("control character U+{:04X} in a text", u32::from(letter));
                    return error(end..end + 1, message, "write it as an escape");
                }
                let start = text[..end].rfind('"').unwrap_or(end);
                return error(start..end, "this text does not end on its line", "");
            }
            own => own.trim_start_matches("expected "),
        };
        let shown = letter.map_or("the end of the file".to_string(), |letter| format!("`{letter}`"));
        let hint = if letter == Some('\'') { "JSON texts stand in double quotes" } else { "" };
        error(span, format!("expected {expected}, found {shown}"), hint)
    }
}

fn error(span: Span, message: impl Into<String>, hint: &str) -> Diagnostic {
    let hint = Some(hint.to_string()).filter(|hint| !hint.is_empty());
    Diagnostic { message: message.into(), span: Some(span), hint }
}
