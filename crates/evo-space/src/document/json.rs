//! A small JSON reader that keeps places, because space files in JSON deserve the same errors
//! as those in TOML. Strict, except that it says what it would have expected.
//!
//! It is our own code: `serde_json` keeps no places of values. `jsonc-parser`, which does and is well
//! kept, is made for a laxer language; the limit on nesting, repeated keys and integers beyond 64 bits
//! would still be checked here, and the messages would no longer match those of the other errors.

use std::collections::HashSet;

use crate::diagnostic::{Diagnostic, Diagnostics, Span};
use crate::document::{Data, Node, TableEntry};

/// Nesting beyond this is refused, so that no input overflows the stack.
const MAX_DEPTH: usize = 100;

/// Keys of a table that are compared one by one.
const SMALL_TABLE: usize = 32;

/// Reads one JSON value that fills the text. Reports the first error and gives `None`.
pub fn parse(text: &str, diagnostics: &mut Diagnostics) -> Option<Node> {
    // Skipped by its length and not cut off, because spans count from the start of the file.
    let start = text.len() - text.trim_start_matches('\u{feff}').len();
    let mut reader = JsonReader { text, at: start, depth: 0, duplicates: Vec::new() };
    let result = reader.document();
    let sound = reader.duplicates.is_empty();
    reader.duplicates.into_iter().for_each(|duplicate| diagnostics.push(duplicate));
    match result {
        Ok(node) => sound.then_some(node),
        Err(error) => {
            diagnostics.push(error);
            None
        }
    }
}

struct JsonReader<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    duplicates: Vec<Diagnostic>,
}

type Read<T> = Result<T, Diagnostic>;

impl JsonReader<'_> {
    fn document(&mut self) -> Read<Node> {
        let node = self.value()?;
        self.skip_space();
        if self.at < self.text.len() {
            return Err(self.unexpected("the end of the file"));
        }
        Ok(node)
    }

    fn value(&mut self) -> Read<Node> {
        self.skip_space();
        let start = self.at;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            // A whole letter, and none behind the text's end.
            let letter = self.text[start..].chars().next().map_or(0, char::len_utf8);
            let message = format!("nesting is deeper than {MAX_DEPTH}");
            return Err(error(start..start + letter, message, None));
        }
        let data = match self.peek() {
            Some(b'{') => self.table()?,
            Some(b'[') => self.list()?,
            Some(b'"') => Data::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(b't' | b'f' | b'n') => self.word()?,
            _ => return Err(self.unexpected("a value")),
        };
        self.depth -= 1;
        Ok(Node { span: start..self.at, data })
    }

    fn table(&mut self) -> Read<Data> {
        let mut entries: Vec<TableEntry> = Vec::new();
        // Looking through the entries for each key would make the work quadratic, and hashing keys would cost
        // the small tables that are nearly all.
        let mut known: HashSet<String> = HashSet::new();
        self.at += 1;
        self.skip_space();
        if self.take(b'}') {
            return Ok(Data::Table(entries));
        }
        loop {
            self.skip_space();
            let start = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("a key in double quotes"));
            }
            let key = self.string()?;
            let key_span = start..self.at;
            self.skip_space();
            if !self.take(b':') {
                return Err(self.unexpected("`:`"));
            }
            let value = self.value()?;
            let few = entries.len() < SMALL_TABLE;
            if entries.len() == SMALL_TABLE && known.is_empty() {
                known.extend(entries.iter().map(|entry| entry.key.clone()));
            }
            let is_known = match few {
                true => entries.iter().any(|entry| entry.key == key),
                false => !known.insert(key.clone()),
            };
            if is_known {
                // Kept aside and not returned, so that reading goes on and all of them are reported at
                // once.
                self.duplicates.push(error(key_span, format!("duplicate key `{key}`"), None));
            } else {
                entries.push(TableEntry { key, key_span, value });
            }
            if self.ends_list(b'}', "`,` or `}`")? {
                return Ok(Data::Table(entries));
            }
        }
    }

    fn list(&mut self) -> Read<Data> {
        let mut items = Vec::new();
        self.at += 1;
        self.skip_space();
        if self.take(b']') {
            return Ok(Data::List(items));
        }
        loop {
            items.push(self.value()?);
            if self.ends_list(b']', "`,` or `]`")? {
                return Ok(Data::List(items));
            }
        }
    }

    /// After an item: the closing bracket (true) or a comma (false).
    fn ends_list(&mut self, close: u8, expected: &str) -> Read<bool> {
        self.skip_space();
        if self.take(close) {
            return Ok(true);
        }
        let comma = self.at;
        if !self.take(b',') {
            return Err(self.unexpected(expected));
        }
        self.skip_space();
        if self.peek() == Some(close) {
            let hint = Some("remove the comma".to_string());
            return Err(error(comma..comma + 1, "a comma before the closing bracket", hint));
        }
        Ok(false)
    }

    fn number(&mut self) -> Read<Data> {
        let start = self.at;
        while matches!(self.peek(), Some(b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')) {
            self.at += 1;
        }
        let text = &self.text[start..self.at];
        let digits = text.strip_prefix('-').unwrap_or(text);
        let bad_zero = digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit();
        let whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if whole && !bad_zero {
            // Kept as text where it does not fit, because the message names the number and the reader knows
            // what it is for.
            return Ok(text.parse().map_or_else(|_| Data::BigInt(text.to_string()), Data::Int));
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() && !bad_zero && is_json_float(digits) => Ok(Data::Float(value)),
            _ => Err(error(start..self.at, format!("`{text}` is not a number"), None)),
        }
    }

    fn word(&mut self) -> Read<Data> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric()) {
            self.at += 1;
        }
        match &self.text[start..self.at] {
            "true" => Ok(Data::Bool(true)),
            "false" => Ok(Data::Bool(false)),
            "null" => Ok(Data::Null),
            other => Err(error(start..self.at, format!("expected a value, found `{other}`"), None)),
        }
    }

    fn string(&mut self) -> Read<String> {
        let start = self.at;
        self.at += 1;
        let mut value = String::new();
        loop {
            let rest = &self.text[self.at..];
            // All bytes that end a run are ASCII, so the run is never cut inside a character.
            let plain = rest.bytes().take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..b' ')).count();
            value.push_str(&rest[..plain]);
            self.at += plain;
            let rest = &rest[plain..];
            let Some(next) = rest.chars().next().filter(|next| *next != '\n') else {
                return Err(error(start..self.at, "this text does not end on its line", None));
            };
            self.at += next.len_utf8();
            match next {
                '"' => return Ok(value),
                '\\' => value.push(self.escape()?),
                next => {
                    let message = format!("control character U+{:04X} in a text", u32::from(next));
                    return Err(error(self.at - 1..self.at, message, Some("write it as an escape".into())));
                }
            }
        }
    }

    fn escape(&mut self) -> Read<char> {
        let start = self.at - 1;
        let kind = self.text[self.at..].chars().next().unwrap_or('\n');
        let simple = match kind {
            '"' | '\\' | '/' => Some(kind),
            'b' => Some('\u{8}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            _ => None,
        };
        if simple.is_some() || kind == 'u' {
            self.at += 1;
        }
        let decoded = simple.or_else(|| if kind == 'u' { self.unicode_escape() } else { None });
        decoded.ok_or_else(|| error(start..self.at, "unknown escape in a text", None))
    }

    /// Four hexadecimal digits, or two such escapes that make a surrogate pair.
    fn unicode_escape(&mut self) -> Option<char> {
        let high = self.hex4()?;
        if !(0xd800..0xdc00).contains(&high) {
            return char::from_u32(high);
        }
        if !self.text[self.at..].starts_with("\\u") {
            return None;
        }
        self.at += 2;
        // Characters beyond 16 bits are two surrogates, and one alone is not a character.
        let low = self.hex4().filter(|low| (0xdc00..0xe000).contains(low))?;
        char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
    }

    fn hex4(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        let value = digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(digits)?;
        self.at += 4;
        u32::from_str_radix(value, 16).ok()
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn unexpected(&self, expected: &str) -> Diagnostic {
        let found = self.text[self.at..].chars().next();
        let span = self.at..self.at + found.map_or(0, char::len_utf8);
        let found = found.map_or("the end of the file".to_string(), |found| format!("`{found}`"));
        let hint = (found == "`'`").then(|| "JSON texts stand in double quotes".to_string());
        error(span, format!("expected {expected}, found {found}"), hint)
    }
}

/// Digits on both sides of the point and in the exponent, as JSON wants.
fn is_json_float(digits: &str) -> bool {
    // Rust's parser takes `.5` and `5.`, which JSON does not have.
    let starts = digits.starts_with(|first: char| first.is_ascii_digit());
    let point = digits.find('.').is_none_or(|at| digits[at + 1..].starts_with(|c: char| c.is_ascii_digit()));
    starts && point
}

fn error(span: Span, message: impl Into<String>, hint: Option<String>) -> Diagnostic {
    Diagnostic { message: message.into(), span: Some(span), hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_error(text: &str, at: usize, expected: &str) {
        let mut diagnostics = Diagnostics::default();
        assert!(parse(text, &mut diagnostics).is_none(), "{text}");
        let first = &diagnostics.list()[0];
        assert!(text.get(first.span.clone().unwrap()).is_some(), "{text}");
        assert!(diagnostics.render("space.json", text).contains(expected), "{text}");
        assert_eq!((first.span.clone().unwrap().start, first.message.as_str()), (at, expected), "{text}");
    }

    #[test]
    fn agrees_with_serde_json_on_sound_input() {
        for text in [
            r#"{"a": [1, -2, 2.5e-3, 0, 1E5], "b": {"c": "x\n\u00e9\ud83d\ude00\/"}, "d": null, "e": [true, false]}"#,
            "{}",
            "  [ ]  ",
            "[[], {}]",
        ] {
            let mut diagnostics = Diagnostics::default();
            let node = parse(text, &mut diagnostics).unwrap();
            let expected: serde_json::Value = serde_json::from_str(text).unwrap();
            assert_eq!(to_json(&node), expected);
        }
    }

    fn to_json(node: &Node) -> serde_json::Value {
        match &node.data {
            Data::Bool(value) => (*value).into(),
            Data::Int(value) => (*value).into(),
            Data::Float(value) => (*value).into(),
            Data::BigInt(text) | Data::Text(text) => text.as_str().into(),
            Data::List(items) => items.iter().map(to_json).collect(),
            Data::Table(entries) => serde_json::Value::Object(
                entries.iter().map(|e| (e.key.clone(), to_json(&e.value))).collect(),
            ),
            Data::Null => serde_json::Value::Null,
        }
    }

    #[test]
    fn malformed_json_is_pointed_at() {
        check_error("{", 1, "expected a key in double quotes, found the end of the file");
        check_error("{\"a\" 1}", 5, "expected `:`, found `1`");
        check_error("{\"a\": 1,}", 7, "a comma before the closing bracket");
        check_error("{\"a\": 1} x", 9, "expected the end of the file, found `x`");
        check_error("{\"a\": 1, \"a\": 2}", 9, "duplicate key `a`");
        check_error("{\"a\": 01}", 6, "`01` is not a number");
        check_error("{\"a\": 1.}", 6, "`1.` is not a number");
        check_error("{\"a\": nan}", 6, "expected a value, found `nan`");
        check_error("{\"a\": 'x'}", 6, "expected a value, found `'`");
        check_error("{\"a\": \"x\n\"}", 6, "this text does not end on its line");
        check_error("{\"a\": \"\\x\"}", 7, "unknown escape in a text");
        check_error("{\"a\": \"\\ud800\"}", 7, "unknown escape in a text");
        check_error("{\"é\": é}", 7, "expected a value, found `é`");
        check_error(&"[".repeat(100_000), 100, "nesting is deeper than 100");
        check_error(&("[".repeat(100) + "é"), 100, "nesting is deeper than 100");
        check_error(&"[".repeat(100), 100, "nesting is deeper than 100");
    }

    #[test]
    fn big_integers_keep_their_digits() {
        let node =
            parse("{\"n\": 19973004686109688975936743433421016602247168}", &mut Diagnostics::default());
        let node = node.unwrap();
        assert!(
            matches!(&node.get("n").unwrap().data, Data::BigInt(digits) if digits.starts_with("1997300468610"))
        );
    }
}
