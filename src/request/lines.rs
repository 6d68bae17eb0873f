//! A stream cut into lines of bounded length. A line that is too long is read to its end and not kept.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, sync_channel};

use serde::Deserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// Bytes of a request. The longest kernel in use has some hundred kilobytes.
pub const REQUEST_MAX: usize = 1 << 20;
/// Lines that are read before their turn.
const AHEAD: usize = 4;

/// Why a request cannot be answered with a verdict: its author has to mend it.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestError {
    /// What the request is told apart by; null where it could not be read.
    pub id: Value,
    pub message: String,
    pub hint: Option<String>,
    /// Line and column in the request, from 1.
    pub place: Option<(u32, u32)>,
    /// It was not read.
    pub is_too_long: bool,
}

/// The text of a line, or why it cannot be a message.
pub type RequestLine = Result<String, Box<RequestError>>;

type NumberedLine = io::Result<(u64, RequestLine)>;

/// Reads a stream in a thread of its own, so that the next lines are there when their turn comes.
pub fn read_ahead(mut input: impl BufRead + Send + 'static) -> io::Result<Receiver<NumberedLine>> {
    let (sender, receiver) = sync_channel(AHEAD);
    std::thread::Builder::new().name("requests".into()).spawn(move || {
        let mut number = 0;
        while let Some(line) = next(&mut input, &mut number).transpose() {
            let is_end = line.is_err();
            if sender.send(line).is_err() || is_end {
                return;
            }
        }
    })?;
    Ok(receiver)
}

/// The next line that is not blank, with its number from 1; `None` at the end. `number` is that of the line before.
fn next(input: &mut impl BufRead, number: &mut u64) -> io::Result<Option<(u64, RequestLine)>> {
    loop {
        let mut kept = Vec::new();
        let mut bytes = input.by_ref().take(REQUEST_MAX as u64 + 1).read_until(b'\n', &mut kept)?;
        if bytes == 0 {
            return Ok(None);
        }
        *number += 1;
        // The newline counts for the stream and not for the line.
        if kept.pop_if(|last| *last == b'\n').is_some() {
            bytes -= 1;
        } else if bytes > REQUEST_MAX {
            bytes += input.skip_until(b'\n')?.saturating_sub(1);
        }
        match whole(kept, bytes) {
            Ok(text) if text.trim().is_empty() => {}
            line => return Ok(Some((*number, line))),
        }
    }
}

/// What a line or a file of so many bytes is, of which these were kept.
pub fn whole(kept: Vec<u8>, bytes: usize) -> RequestLine {
    let bad = |id, is_too_long, message, hint: &str| {
        let hint = Some(hint.to_string());
        Err(Box::new(RequestError { id, message, hint, place: None, is_too_long }))
    };
    if bytes > REQUEST_MAX {
        let message = format!("the request has {bytes} bytes, and at most {REQUEST_MAX} are read");
        return bad(id_of(&kept), true, message, "a request holds one source");
    }
    String::from_utf8(kept).or_else(|error| {
        let valid = error.utf8_error().valid_up_to();
        let message = format!("the request is not UTF-8 from byte {valid} on");
        bad(id_of(error.as_bytes()), false, message, "JSON is a text in UTF-8")
    })
}

/// The `id` of an object, a text or an integer, as far as it can be told where the text is not whole or not sound. Null
/// where there is none.
pub fn id_of(text: &[u8]) -> Value {
    let mut id = Value::Null;
    let text = String::from_utf8_lossy(text);
    // What is wrong behind the id changes nothing about it.
    let _ = serde_json::Deserializer::from_str(&text).deserialize_map(IdSeeker(&mut id));
    if id.is_string() || id.is_i64() || id.is_u64() { id } else { Value::Null }
}

struct IdSeeker<'a>(&'a mut Value);

impl<'de> Visitor<'de> for IdSeeker<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut fields: M) -> Result<(), M::Error> {
        while let Some(name) = fields.next_key::<Cow<'_, str>>()? {
            if name == "id" {
                *self.0 = fields.next_value()?;
                return Ok(());
            }
            fields.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(input: &[u8], expected: &[(u64, Result<&str, bool>)]) {
        // A small buffer, so that lines fall across its borders.
        let mut reader = BufReader::with_capacity(7, input);
        let (mut number, mut found) = (0, Vec::new());
        while let Some(line) = next(&mut reader, &mut number).unwrap() {
            found.push(line);
        }
        let found =
            found.iter().map(|(number, line)| (*number, line.as_deref().map_err(|error| error.is_too_long)));
        assert_eq!(found.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn lines_are_cut_and_bounded() {
        check(b"", &[]);
        check(b"\n\n  \n", &[]);
        check(
            b"{\"id\":1}\n\nlonger than the buffer\nhalf",
            &[(1, Ok("{\"id\":1}")), (3, Ok("longer than the buffer")), (4, Ok("half"))],
        );
        let long = format!("{{\"id\": \"x\", \"a\": \"{}\"}}\nnext\n", "y".repeat(REQUEST_MAX));
        check(long.as_bytes(), &[(1, Err(true)), (2, Ok("next"))]);
        let longest = "z".repeat(REQUEST_MAX);
        check(longest.as_bytes(), &[(1, Ok(&longest))]);
        check(b"{\"id\": 7, \"b\": \"\xff\"}", &[(1, Err(false))]);
        let error = whole(b"ab\xff".to_vec(), 3).unwrap_err();
        assert_eq!(error.message, "the request is not UTF-8 from byte 2 on");
    }

    #[test]
    fn an_id_is_read_from_what_is_broken() {
        for (text, id) in [
            (r#"{"id": "a7", "task": "#, json!("a7")),
            (r#"{"task": {"id": 3}, "x": ["id", {"id": 1}], "id" : -4 }}}}"#, json!(-4)),
            (r#"{"x": 1e999, "id": 1, "id": 2}"#, json!(1)),
            (r#"{"a": "\"id\": 5", "id": {"b": 1}"#, Value::Null),
            (r#"{"id": "never ends"#, Value::Null),
            (r#"["id", 3]"#, Value::Null),
            ("garbage", Value::Null),
            (r#"{"id": "é\n"}"#, json!("é\n")),
        ] {
            assert_eq!(id_of(text.as_bytes()), id, "{text}");
        }
    }
}
