//! The tool's XML, read event by event: `<record>`s below `<ComputeSanitizerOutput>`.
//!
//! NVIDIA publishes no schema of it, and its elements differ between versions. So every text below a record is kept
//! under its path, and [`SanitizerRecord`] picks what it knows; what it does not know stays absent. A document that is
//! not whole, or not this one, is an error: its findings would be missing.

use std::fmt::Display;

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, Event};

pub(super) const BYTES_MAX: u64 = 64 << 20;
/// Elements within elements; records have five.
const DEPTH_MAX: usize = 32;
/// Records kept. The others are counted.
const KEPT: usize = 200;
const TEXTS_MAX: usize = 1024;
const TEXT_BYTES_MAX: usize = 4096;

const ROOT: &str = "ComputeSanitizerOutput";
const RECORD: &str = "record";

const CUT_OFF: &str = "the file with records ends in the middle";

fn not_xml(why: impl Display, at: u64) -> String {
    format!("the file with records is not XML: {why} (byte {at})")
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordList {
    pub records: Vec<SanitizerRecord>,
    pub total: u64,
    pub warnings: u64,
    pub foreign: u64,
}

impl RecordList {
    pub fn errors(&self) -> u64 {
        self.total - self.warnings - self.foreign
    }
}

/// One record: its texts by path, such as `what.text`; those of one path in the record's order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SanitizerRecord {
    texts: Vec<(String, String)>,
}

impl SanitizerRecord {
    /// The first of several: of frames, the innermost.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.find(|known| known == path)
    }

    pub fn find(&self, passes: impl Fn(&str) -> bool) -> Option<&str> {
        self.all(passes).next()
    }

    pub fn all(&self, passes: impl Fn(&str) -> bool) -> impl Iterator<Item = &str> {
        self.texts.iter().filter(move |(path, _)| passes(path)).map(|(_, text)| text.as_str())
    }

    /// Whether it says of itself that it is less than an error. One that says nothing is an error.
    pub fn is_warning(&self) -> bool {
        self.is_one_of("level", &["warning", "warn", "info"])
    }

    /// Whether it is about a call of the driver or about the tool itself.
    pub fn is_foreign(&self) -> bool {
        let kinds = ["api", "api error", "sanitizer", "sanitizer error", "internal", "internal error"];
        self.is_one_of("kind", &kinds)
    }

    fn is_one_of(&self, path: &str, words: &[&str]) -> bool {
        self.text(path).is_some_and(|text| words.iter().any(|word| text.eq_ignore_ascii_case(word)))
    }
}

/// Whatever was read before an error is dropped, because it may not be all.
pub fn read_records(bytes: &[u8]) -> Result<RecordList, String> {
    if bytes.len() as u64 > BYTES_MAX {
        return Err(format!("the file with records has more than {} MiB", BYTES_MAX >> 20));
    }
    let text = str::from_utf8(bytes);
    let text = text.map_err(|error| not_xml("it is not UTF-8", error.valid_up_to() as u64))?;
    let mut reader = Reader::from_str(text);
    reader.config_mut().expand_empty_elements = true;
    let mut document = Document::default();
    loop {
        let event = reader.read_event();
        let at = reader.buffer_position();
        let event = event.map_err(|error| match error {
            // A tag, a comment or a reference that the file ends in.
            quick_xml::Error::Syntax(_) => CUT_OFF.to_string(),
            other => not_xml(other, at),
        })?;
        match event {
            Event::Start(tag) | Event::Empty(tag) => document.start(tag.name().into_inner())?,
            Event::End(_) => document.close(),
            Event::Text(text) => document.content(&text.xml10_content(), at)?,
            Event::CData(text) => document.content(&text.xml10_content(), at)?,
            Event::GeneralRef(reference) => {
                let character = resolved(&reference, at)?;
                document.content(character.encode_utf8(&mut [0; 4]), at)?;
            }
            // The tool's files do not.
            Event::DocType(_) => return Err("the file with records declares a document type".to_string()),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => {}
            Event::Eof if document.has_root && document.open.is_empty() => return Ok(document.list),
            Event::Eof => return Err(CUT_OFF.to_string()),
        }
    }
}

#[derive(Default)]
struct Document {
    open: Vec<String>,
    has_root: bool,
    record: Option<SanitizerRecord>,
    text: String,
    list: RecordList,
}

impl Document {
    fn start(&mut self, name: &str) -> Result<(), String> {
        if self.open.is_empty() && (self.has_root || name != ROOT) {
            return Err(format!("the file with records begins with `<{}>`", clipped(name, 80)));
        }
        self.has_root = true;
        if self.open.len() >= DEPTH_MAX {
            return Err(format!(
                "the file with records has more than {DEPTH_MAX} elements inside each other"
            ));
        }
        if self.open.len() == 1 && name == RECORD {
            self.record = Some(SanitizerRecord::default());
        }
        self.open.push(clipped(name, 80).to_string());
        self.text.clear();
        Ok(())
    }

    fn close(&mut self) {
        // Text stands in the innermost elements alone; after one was closed it is the space between them.
        let text = std::mem::take(&mut self.text);
        let text = text.trim();
        if let Some(record) = &mut self.record
            && self.open.len() > 2
            && !text.is_empty()
            && record.texts.len() < TEXTS_MAX
        {
            record.texts.push((self.open[2..].join("."), text.to_string()));
        }
        self.open.pop();
        if self.open.len() == 1
            && let Some(mut record) = self.record.take()
        {
            record.texts.sort_by(|one, other| one.0.cmp(&other.0));
            self.list.total += 1;
            // Each counts once: a warning about a call is a warning.
            self.list.warnings += u64::from(record.is_warning());
            self.list.foreign += u64::from(record.is_foreign() && !record.is_warning());
            if self.list.records.len() < KEPT {
                self.list.records.push(record);
            }
        }
    }

    fn content(&mut self, text: &str, at: u64) -> Result<(), String> {
        if self.open.is_empty() && !text.trim().is_empty() {
            return Err(not_xml("there is text outside of all elements", at));
        }
        if self.record.is_some() {
            let room = TEXT_BYTES_MAX.saturating_sub(self.text.len());
            self.text.push_str(clipped(text, room));
        }
        Ok(())
    }
}

/// Only the five references that XML has itself, and numbers, are known: nothing expands.
fn resolved(reference: &BytesRef<'_>, at: u64) -> Result<char, String> {
    let unknown = || not_xml(format!("`&{};` means nothing", clipped(reference, 40)), at);
    match reference.resolve_char_ref().map_err(|_| unknown())? {
        Some(character) => Ok(character),
        None => resolve_xml_entity(reference).and_then(|text| text.chars().next()).ok_or_else(unknown),
    }
}

fn clipped(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(records: &str) -> String {
        format!(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<ComputeSanitizerOutput>{records}</ComputeSanitizerOutput>\n"
        )
    }

    const PRECISE: &str = "<record><kind>Precise</kind><level>Error</level>\
        <what><text>Invalid __global__ write of size 4 bytes</text><size>4</size></what>\
        <where><func>scale(float *, int)</func><path>scale.cu</path><line>5</line></where></record>";

    #[test]
    fn records_are_read_with_their_paths() {
        let list = read_records(document(PRECISE).as_bytes()).unwrap();
        assert_eq!((list.total, list.errors(), list.warnings, list.foreign), (1, 1, 0, 0));
        let record = &list.records[0];
        assert_eq!(record.text("what.text"), Some("Invalid __global__ write of size 4 bytes"));
        assert_eq!(record.text("where.line"), Some("5"));
        for empty in [document(""), document("\n  \n"), "<ComputeSanitizerOutput/>".to_string()] {
            assert_eq!(read_records(empty.as_bytes()).unwrap(), RecordList::default());
        }
    }

    #[test]
    fn names_of_templates_keep_their_brackets() {
        let text =
            "<record><where><func>k&lt;int, &#52;&gt;(float *)<![CDATA[ & more]]></func></where></record>";
        let list = read_records(document(text).as_bytes()).unwrap();
        assert_eq!(list.records[0].text("where.func"), Some("k<int, 4>(float *) & more"));
    }

    #[test]
    fn warnings_and_errors_of_calls_are_told_apart() {
        let of =
            |kind: &str, level: &str| format!("<record><kind>{kind}</kind><level>{level}</level></record>");
        let all = [of("Race", "Warning"), of("Api", "Error"), of("Race", "Error"), "<record/>".to_string()];
        let list = read_records(document(&all.concat()).as_bytes()).unwrap();
        assert_eq!((list.total, list.warnings, list.foreign, list.errors()), (4, 1, 1, 2));
    }

    #[test]
    fn what_is_something_else_is_an_error() {
        let (whole, deep) = (document(""), document(&"<a>".repeat(40)));
        let told = [
            "<html></html>",
            &whole.repeat(2),
            "<!DOCTYPE x [<!ENTITY a 'b'>]><ComputeSanitizerOutput/>",
            &document("&lol;"),
            &document("<record>&lol;</record>"),
            &document("<a></b>"),
            "words",
            "",
            &deep,
        ]
        .map(|text| read_records(text.as_bytes()).unwrap_err());
        insta::assert_snapshot!(told.join("\n"));
        assert!(read_records(b"<ComputeSanitizerOutput>\xff").unwrap_err().contains("not UTF-8"));
    }

    #[test]
    fn a_text_without_end_takes_little_memory() {
        let text = document(&format!("<record><what><text>{}</text></what></record>", "é".repeat(1 << 20)));
        let list = read_records(text.as_bytes()).unwrap();
        assert!(list.records[0].text("what.text").unwrap().len() <= TEXT_BYTES_MAX);
    }
}
