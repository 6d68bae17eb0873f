//! A stream cut into lines of bounded length. A line that is too long is read to its end and not kept.

use std::io::{self, BufRead};

use serde_json::Value;

/// Bytes of a request. The longest kernel in use has some hundred kilobytes.
pub const REQUEST_MAX: usize = 1 << 20;
/// Bytes of a line that is too long in which its `id` is looked for.
const PREFIX: usize = 64 << 10;

#[derive(Clone, Debug, PartialEq)]
pub enum RequestLine {
    Text(String),
    /// Its length in bytes, and its `id` where that stands near its beginning.
    TooLong {
        bytes: usize,
        id: Value,
    },
    /// Not UTF-8 from this byte on.
    NotText {
        at: usize,
        id: Value,
    },
}

/// The next line that is not blank, with its number from 1; `None` at the end. `number` is that of the line before.
pub fn next(input: &mut impl BufRead, number: &mut u64) -> io::Result<Option<(u64, RequestLine)>> {
    loop {
        let Some(line) = one(input)? else { return Ok(None) };
        *number += 1;
        if !matches!(&line, RequestLine::Text(text) if text.trim().is_empty()) {
            return Ok(Some((*number, line)));
        }
    }
}

fn one(input: &mut impl BufRead) -> io::Result<Option<RequestLine>> {
    let (mut kept, mut bytes, mut ended) = (Vec::new(), 0usize, false);
    while !ended {
        let part = match input.fill_buf() {
            Ok(part) => part,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if part.is_empty() {
            if bytes == 0 {
                return Ok(None);
            }
            break;
        }
        let end = part.iter().position(|byte| *byte == b'\n');
        let length = end.unwrap_or(part.len());
        let room = (REQUEST_MAX + 1).saturating_sub(kept.len());
        kept.extend_from_slice(&part[..length.min(room)]);
        bytes += length;
        ended = end.is_some();
        // The newline counts for the stream and not for the line; an empty line is one all the same.
        input.consume(length + usize::from(ended));
        if ended && bytes == 0 {
            return Ok(Some(RequestLine::Text(String::new())));
        }
    }
    Ok(Some(whole(kept, bytes)))
}

/// What a line or a file of so many bytes is, of which these were kept.
pub fn whole(kept: Vec<u8>, bytes: usize) -> RequestLine {
    if bytes > REQUEST_MAX {
        return RequestLine::TooLong { bytes, id: id_of(&kept[..kept.len().min(PREFIX)]) };
    }
    match String::from_utf8(kept) {
        Ok(text) => RequestLine::Text(text),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            RequestLine::NotText { at, id: id_of(error.as_bytes()) }
        }
    }
}

/// The `id` of an object whose text is not whole or not sound, as far as it can be told: a text or an integer under the
/// key `id` of the outermost object. Null where there is none.
pub fn id_of(text: &[u8]) -> Value {
    let text = String::from_utf8_lossy(text);
    let (mut depth, mut at) = (0usize, 0);
    while let Some(byte) = text.as_bytes().get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let Some(end) = end_of_text(&text, at) else { return Value::Null };
                let rest = text[end..].trim_start();
                if depth == 1 && &text[at..end] == "\"id\"" && rest.starts_with(':') {
                    return scalar(rest[1..].trim_start());
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    Value::Null
}

/// Behind the closing quote of the text that begins at `at`.
fn end_of_text(text: &str, at: usize) -> Option<usize> {
    let mut is_escaped = false;
    for (offset, byte) in text.as_bytes()[at + 1..].iter().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return Some(at + offset + 2),
            _ => {}
        }
    }
    None
}

/// The text or integer that `text` begins with.
fn scalar(text: &str) -> Value {
    let end = match text.starts_with('"') {
        true => end_of_text(text, 0),
        false => text.find([',', '}', ' ', '\t', '\r']),
    };
    let value = end.and_then(|end| serde_json::from_str::<Value>(&text[..end]).ok());
    value.filter(|value| value.is_string() || value.is_i64()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(input: &[u8], expected: &[(u64, RequestLine)]) {
        // A small buffer, so that lines fall across its borders.
        let mut reader = BufReader::with_capacity(7, input);
        let (mut number, mut found) = (0, Vec::new());
        while let Some(line) = next(&mut reader, &mut number).unwrap() {
            found.push(line);
        }
        assert_eq!(found, expected);
    }

    #[test]
    fn lines_are_cut_and_bounded() {
        let text = |text: &str| RequestLine::Text(text.to_string());
        check(b"", &[]);
        check(b"\n\n  \n", &[]);
        check(
            b"{\"id\":1}\n\nlonger than the buffer\nhalf",
            &[(1, text("{\"id\":1}")), (3, text("longer than the buffer")), (4, text("half"))],
        );
        let mut long =
            format!("{{\"id\": \"x\", \"a\": \"{}\"}}\nnext\n", "y".repeat(REQUEST_MAX)).into_bytes();
        let bytes = long.iter().position(|byte| *byte == b'\n').unwrap();
        check(&long, &[(1, RequestLine::TooLong { bytes, id: json!("x") }), (2, text("next"))]);
        long = vec![b'z'; REQUEST_MAX];
        check(&long, &[(1, RequestLine::Text("z".repeat(REQUEST_MAX)))]);
        check(b"{\"id\": 7, \"b\": \"\xff\"}", &[(1, RequestLine::NotText { at: 16, id: json!(7) })]);
    }

    #[test]
    fn an_id_is_read_from_what_is_broken() {
        for (text, id) in [
            (r#"{"id": "a7", "task": "#, json!("a7")),
            (r#"{"task": {"id": 3}, "x": ["id", {"id": 1}], "id" : -4 }}}}"#, json!(-4)),
            (r#"{"a": "\"id\": 5", "id": {"b": 1}"#, Value::Null),
            (r#"{"id": "never ends"#, Value::Null),
            (r#"{"id": 12"#, Value::Null),
            (r#"["id", 3]"#, Value::Null),
            ("garbage", Value::Null),
            (r#"{"id": "é\n"}"#, json!("é\n")),
        ] {
            assert_eq!(id_of(text.as_bytes()), id, "{text}");
        }
    }
}
