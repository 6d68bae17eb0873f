//! A stream cut into lines of bounded length. A line that is too long is read to its end and not kept.

use std::io::{self, BufRead, Read};
use std::sync::mpsc::{Receiver, sync_channel};

use serde_json::Value;

/// Bytes of a request. The longest kernel in use has some hundred kilobytes.
pub const REQUEST_MAX: usize = 1 << 20;
/// Lines that are read before their turn.
const AHEAD: usize = 4;

/// Why a request cannot be answered with a verdict: its author has to mend it.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestError {
    /// What the request is told apart by; null where it is not JSON.
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
    let bad = |is_too_long, message, hint: &str| {
        let hint = Some(hint.to_string());
        Err(Box::new(RequestError { id: Value::Null, message, hint, place: None, is_too_long }))
    };
    if bytes > REQUEST_MAX {
        let message = format!("the request has {bytes} bytes, and at most {REQUEST_MAX} are read");
        return bad(true, message, "a request holds one source");
    }
    String::from_utf8(kept).or_else(|error| {
        let valid = error.utf8_error().valid_up_to();
        let message = format!("the request is not UTF-8 from byte {valid} on");
        bad(false, message, "JSON is a text in UTF-8")
    })
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

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
}
