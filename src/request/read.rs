//! From the text of a request or the arguments of a tool to their types, whose reader is derived: what it finds wrong is said in
//! the words of our messages. The few rules between fields follow.

use std::io::{self, BufRead, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};

use evo_protocol::request::{CandidateKind, EvaluationRequest, ToolArguments, UNSERVED};
use evo_space::document::suggestion;
use serde::Deserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_path_to_error::deserialize;

use crate::kernel::access::open_beside;
use crate::kernel::catalog;

/// Bytes that are kept of what stands in answers and records.
const ID_MAX: usize = 256;
const TEXT_MAX: usize = 4096;

/// A space file of this size is refused before it is read.
const SPACE_MAX: u64 = 4 << 20;

/// What is wrong, and the way out.
type Mistake = (String, Option<String>);

pub fn request(text: &str) -> Result<EvaluationRequest, Box<RequestError>> {
    let body = text.trim_start_matches('\u{feff}');
    let refused = |(message, hint): Mistake, place| {
        let hint = hint.map(|hint| shortened(&hint, 400));
        let (id, message) = (id_of(body), shortened(&message, 400));
        Err(Box::new(RequestError { id, message, hint, place, is_too_long: false }))
    };
    if !body.trim_start().starts_with('{') {
        return refused(mistake("the request is not a JSON object", "it begins with `{`"), Some((1, 1)));
    }
    let mut reader = serde_json::Deserializer::from_str(body);
    let read = match deserialize::<_, EvaluationRequest>(&mut reader) {
        Ok(request) => match reader.end() {
            Ok(()) => Ok(request),
            Err(error) => Err((mistake(&error.to_string(), "one object is one request"), None)),
        },
        Err(error) => without_silent(body, &error).ok_or_else(|| {
            let (line, column) = (error.inner().line(), error.inner().column());
            let bytes = body.lines().nth(line.saturating_sub(1)).unwrap_or_default().bytes().take(column);
            // In characters: a byte within one does not count.
            let column = bytes.filter(|byte| byte & 0xc0 != 0x80).count();
            (explained(&error, "field"), Some((line as u32, column as u32)))
        }),
    };
    let read = read.and_then(|request| rules(&request).map(|()| request).map_err(|wrong| (wrong, None)));
    read.or_else(|(wrong, place)| refused(wrong, place))
}

/// The request without parts that this evo does not serve and that say nothing, where one of them is what is wrong: programs
/// write every part of the form.
fn without_silent(
    body: &str,
    error: &serde_path_to_error::Error<serde_json::Error>,
) -> Option<EvaluationRequest> {
    let text = error.inner().to_string();
    let name = text.strip_prefix("unknown field `")?.split('`').next()?;
    UNSERVED.iter().find(|(part, _)| *part == name)?;
    let mut value = serde_json::from_str(body).ok()?;
    drop_silent(&mut value);
    // As a text again: a configuration is kept as it was written.
    serde_json::from_str(&value.to_string()).ok()
}

fn drop_silent(value: &mut Value) {
    const PARTS: [&str; 6] = ["task", "candidate", "sources", "launches", "limits", "feedback"];
    let is_silent = |value: &Value| match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        other => other.is_null() || *other == Value::Bool(false),
    };
    match value {
        Value::Array(items) => items.iter_mut().for_each(drop_silent),
        Value::Object(fields) => {
            fields.retain(|name, value| !is_silent(value) || UNSERVED.iter().all(|(part, _)| part != name));
            let parts = fields.iter_mut().filter(|(name, _)| PARTS.contains(&name.as_str()));
            parts.for_each(|(_, value)| drop_silent(value));
        }
        _ => {}
    }
}

fn mistake(message: &str, hint: &str) -> Mistake {
    (message.to_string(), Some(hint.to_string()))
}

/// What the derived reader says, with the path of what is wrong. An unknown word is compared with those that are known.
fn explained(error: &serde_path_to_error::Error<serde_json::Error>, noun: &str) -> Mistake {
    let (path, text) = (shortened(&error.path().to_string(), 120), error.inner().to_string());
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    let quoted: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
    let ([name, known @ ..], true) = (&quoted[..], text.starts_with("unknown ")) else {
        let hint = "`evo explain --schema evaluate-request` prints what a request may have";
        let message =
            if matches!(path.as_str(), "." | "?") { text.to_string() } else { format!("`{path}`: {text}") };
        return (message, Some(hint.to_string()).filter(|_| noun == "field"));
    };
    let hint = suggestion(name, known.iter().copied(), || format!("one of: {}", known.join(", ")));
    let unserved = UNSERVED.iter().find(|(part, _)| part == name).filter(|_| noun == "field");
    match (unserved, text.starts_with("unknown field")) {
        (Some((_, hint)), true) => mistake(&format!("`{path}` is not served by this evo"), hint),
        (None, true) => mistake(&format!("unknown {noun} `{path}`"), &hint),
        _ => mistake(&format!("`{path}` is `{}`, which is unknown", shortened(name, 80)), &hint),
    }
}

/// Whether a program may name this space: an embedded one, or a space file below the folder that evo runs in. A space file
/// can name commands, so a stranger must not choose any file of this machine. An error is what is wrong with the field
/// that names it, and the way out.
pub fn space_beneath(name: &str) -> Result<(), (&'static str, &'static str)> {
    if catalog::names().contains(&name) {
        return Ok(());
    }
    match open_beside(Path::new("."), name, SPACE_MAX, false) {
        Ok(_) if catalog::looks_like_space(name) => Ok(()),
        Ok(_) => Err(("names a file that is not a space file", "a space file ends in `.toml` or `.json`")),
        Err(_) => Err((
            "names neither an embedded space nor a file below this folder",
            "paths are relative to the folder in which evo was started, and stay inside it",
        )),
    }
}

/// Holds the arguments of a call to their types, and to those that its tool takes; an error is what is wrong.
pub fn check_arguments(given: &Value, takes: &[String], required: &[&str]) -> Result<(), String> {
    let unknown = given.as_object().into_iter().flatten().find(|(name, _)| !takes.contains(name));
    if let Some((name, _)) = unknown {
        let hint =
            suggestion(name, takes.iter().map(String::as_str), || format!("known: {}", takes.join(", ")));
        return Err(format!("unknown argument `{}`: {hint}", shortened(name, 80)));
    }
    if let Some(missing) =
        required.iter().find(|name| takes.iter().any(|own| own == **name) && given[**name].is_null())
    {
        return Err(format!("`{missing}` is missing"));
    }
    let text = given.to_string();
    let read = deserialize::<_, ToolArguments>(&mut serde_json::Deserializer::from_str(&text));
    read.map(drop).map_err(|error| {
        let (message, hint) = explained(&error, "argument");
        hint.map_or(message.clone(), |hint| format!("{message}: {hint}"))
    })
}

fn shortened(text: &str, letters: usize) -> String {
    text.chars().take(letters).collect()
}

fn rules(request: &EvaluationRequest) -> Result<(), Mistake> {
    let EvaluationRequest { schema, version, id, candidate, limits, feedback, hypothesis, tag, .. } = request;
    let refuse = |is_wrong: bool, message: &str, hint: &str| match is_wrong {
        true => Err(mistake(message, hint)),
        false => Ok(()),
    };
    let size = |value: &Value| value.as_str().map_or_else(|| value.to_string().len(), str::len);
    let is_other = schema.as_ref().is_some_and(|name| name != "evo.evaluate.request");
    refuse(
        is_other || version.is_some_and(|version| version != 1),
        "`schema` and `version` are of another form",
        "this evo knows `evo.evaluate.request` in version 1",
    )?;
    refuse(
        !id.is_null() && !id.is_string() && !id.is_i64() && !id.is_u64(),
        "`id` is neither a text nor an integer",
        "an integer has 64 bits",
    )?;
    refuse(size(id) > ID_MAX, "`id` is too long", "at most 256 bytes are kept")?;
    let lengths =
        [("hypothesis", hypothesis.as_ref().map_or(0, String::len)), ("tag", tag.as_ref().map_or(0, size))];
    for (name, length) in lengths {
        let message = format!("`{name}` has {length} bytes");
        refuse(length > TEXT_MAX, &message, "at most 4096 bytes are kept of it")?;
    }
    let limits = limits.unwrap_or_default();
    let seconds = [("compile_s", limits.compile_s), ("run_s", limits.run_s), ("total_s", limits.total_s)];
    for (name, limit) in seconds.into_iter().filter_map(|(name, limit)| Some((name, limit?))) {
        let message = format!("`limits.{name}` is {limit}, which is out of range");
        refuse(!(0.1..=86_400.0).contains(&limit), &message, "it is 0.1 to 86400 seconds")?;
    }
    refuse(
        feedback.and_then(|feedback| feedback.bytes) > Some(65_536),
        "`feedback.bytes` is out of range",
        "it is 0 to 65536",
    )?;
    let Some(candidate) = candidate else {
        return refuse(
            !request.asks_task(),
            "the request has no `candidate`",
            "add \"candidate\": {\"kind\": \"cuda\", \"sources\": […]}",
        );
    };
    let count = candidate.sources.as_ref().map_or(0, Vec::len);
    match candidate.kind {
        CandidateKind::Configuration => refuse(
            count > 0,
            "a candidate of the kind `configuration` has `sources`",
            "say `\"kind\": \"cuda\"` or `\"template\"` for a source of its own",
        )?,
        _ => refuse(count != 1, &format!("`candidate.sources` has {count} sources"), "it has one")?,
    }
    let mut entries: Vec<&str> =
        candidate.launches.iter().flatten().map(|launch| launch.entry.as_str()).collect();
    entries.sort_unstable();
    let twice = entries.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| shortened(pair[0], 80));
    let message =
        format!("`candidate.launches` has two launches of `{}`", twice.as_deref().unwrap_or_default());
    refuse(twice.is_some(), &message, "name each entry once")
}

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
    let bad = |kept: &[u8], is_too_long, message, hint: &str| {
        let (id, hint) = (id_of(&String::from_utf8_lossy(kept)), Some(hint.to_string()));
        Err(Box::new(RequestError { id, message, hint, place: None, is_too_long }))
    };
    if bytes > REQUEST_MAX {
        let message = format!("the request has {bytes} bytes, and at most {REQUEST_MAX} are read");
        return bad(&kept, true, message, "a request holds one source");
    }
    String::from_utf8(kept).or_else(|error| {
        let valid = error.utf8_error().valid_up_to();
        let message = format!("the request is not UTF-8 from byte {valid} on");
        bad(error.as_bytes(), false, message, "JSON is a text in UTF-8")
    })
}

/// The first `id` of an object, a text or an integer, also where what follows is cut off or no JSON; null where there is none.
pub fn id_of(text: &str) -> Value {
    let mut id = Value::Null;
    let _ = serde_json::Deserializer::from_str(text).deserialize_map(IdSeeker(&mut id));
    if id.is_string() || id.is_i64() || id.is_u64() { id } else { Value::Null }
}

struct IdSeeker<'a>(&'a mut Value);

impl<'de> Visitor<'de> for IdSeeker<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            if name == "id" {
                *self.0 = map.next_value()?;
                break;
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::BufReader;

    use evo_protocol::request::{CandidateKind, EvaluationLevel, RequestedBaseline, Visibility};
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn refused(text: &str, parts: &[&str]) -> RequestError {
        let error = *request(text).unwrap_err();
        let shown = format!("{}; {}", error.message, error.hint.as_deref().unwrap_or(""));
        for part in parts {
            assert!(shown.contains(part), "no `{part}` in {shown}");
        }
        error
    }

    #[test]
    fn a_whole_request_is_read() {
        let text = r#"{"schema":"evo.evaluate.request","version":1,"id":"a7","task":{"space":"attn.toml"},
            "candidate":{"kind":"cuda","sources":[{"path":"k.cu","content":"int x;"}],"entry":"fwd",
            "configuration":{"BLOCK_M":64},
            "launches":[{"entry":"fwd","grid":["N",1],"block":[64],"shared":"4*N"}]},
            "level":"tiny","baseline":"@3FA9C0","limits":{"compile_s":120,"total_s":0.5},
            "feedback":{"bytes":100,"profile":true},"visibility":"owner","tag":{"generation":3}}"#;
        let read = request(text).unwrap();
        let candidate = read.candidate.as_ref().unwrap();
        assert_eq!((candidate.kind, candidate.source()), (CandidateKind::Cuda, Some("int x;")));
        assert_eq!(candidate.configuration.as_ref().unwrap().get(), "{\"BLOCK_M\":64}");
        let launches = candidate.launch_text().unwrap();
        assert_eq!(launches, r#"{"fwd":{"grid":["N",1],"block":[64],"shared_bytes":"4*N"}}"#);
        assert_eq!((&read.id, read.level), (&json!("a7"), Some(EvaluationLevel::Tiny)));
        assert_eq!(read.baseline, Some(RequestedBaseline::Hash("3fa9c0".into())));
        assert_eq!(read.limits.unwrap().total_s, Some(0.5));
        assert_eq!((read.feedback_bytes(), read.wants_profile()), (100, true));
        assert_eq!((read.visibility, &read.tag), (Some(Visibility::Owner), &Some(json!({"generation": 3}))));
        let silent =
            r#"{"candidate":{"kind":"configuration","flags":[]},"tune":null,"feedback":{"sass":false}}"#;
        assert_eq!(request(silent).unwrap().feedback.unwrap().bytes, None);
        let least = request(r#"{"candidate":{"kind":"configuration"}}"#).unwrap();
        assert_eq!((least.id, least.level, least.visibility), (Value::Null, None, None));
        assert!(request(r#"{"id":1,"ask":"task","hypothesis":"h"}"#).unwrap().asks_task());
    }

    #[test]
    fn mistakes_have_places_and_ids() {
        let error = refused(
            "{\"id\": 3,\n \"candidate\": {\"kind\": 7}}",
            &["`candidate.kind`: expected value", "--schema"],
        );
        assert_eq!((error.id, error.place), (json!(3), Some((2, 24))));
        assert_eq!(refused(r#"{"id":"b","candidate":[]}"#, &["`candidate`"]).id, json!("b"));
        refused(&format!("{{\"tag\": {}1{}}}", "[".repeat(200), "]".repeat(200)), &["recursion limit"]);
        refused(&format!(r#"{{"ask":"task","hypothesis":"{}"}}"#, "h".repeat(4097)), &["4096 bytes"]);
        let mistakes: BTreeMap<String, Vec<Vec<String>>> =
            toml::from_str(include_str!("mistakes.toml")).unwrap();
        for row in mistakes.values().flatten() {
            refused(&row[0], &row[1..].iter().map(String::as_str).collect::<Vec<_>>());
        }
    }

    #[test]
    fn arguments_of_a_call_are_those_of_its_tool() {
        let check = |given: Value, expected: &str| {
            let read = check_arguments(&given, &["space", "level", "seed"].map(String::from), &["space"]);
            assert_eq!(read.err().unwrap_or_default(), expected);
        };
        check(json!({ "space": "gemm", "seed": 7, "level": null }), "");
        check(json!({}), "`space` is missing");
        check(json!({ "spaec": "b" }), "unknown argument `spaec`: did you mean `space`?");
        check(json!({ "space": 3 }), "`space`: invalid type: integer `3`, expected a string");
        check(json!({ "space": "a", "seed": -1 }), "`seed`: invalid value: integer `-1`, expected u64");
        check(
            json!({ "space": "a", "level": "fulll" }),
            "`level` is `fulll`, which is unknown: did you mean `full`?",
        );
    }

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
