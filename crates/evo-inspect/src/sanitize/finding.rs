//! A record as people and programs read it.

use std::collections::BTreeSet;

use evo_compile::strong::base_name;
use evo_protocol::entry_name::base;
use evo_protocol::verdict::{SanitizerCheck, Verdict, VerdictKind};
use evo_protocol::worker::BufferSpan;
use schemars::JsonSchema;
use serde::Serialize;

use super::records::SanitizerRecord;

/// How far from a buffer an access is still told with that buffer's name, bytes.
const NEAR_BYTES: u64 = 64 << 10;

/// What the tool did not say is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct SanitizerFinding {
    /// The check, or `evo` for what the worker itself saw.
    pub tool: String,
    /// The tool's word, such as `Precise`; for `evo` the verdict.
    pub kind: Option<String>,
    /// `error` or `warning`.
    pub level: String,
    pub what: String,
    /// `read`, `write` or `atomic`.
    pub access: Option<String>,
    pub size_bytes: Option<u64>,
    pub entry: Option<String>,
    /// The source as the compiler saw it: `evo render` prints it.
    pub file: Option<String>,
    /// From 1.
    pub line: Option<u64>,
    /// x, y, z of the first thread.
    pub thread: Option<[u64; 3]>,
    /// x, y, z of its block.
    pub block: Option<[u64; 3]>,
    /// As `0x…`.
    pub address: Option<String>,
    /// The argument in whose buffer the address lies, or near which.
    pub argument: Option<String>,
}

impl SanitizerFinding {
    /// The `tool` of what the worker itself saw.
    pub const OF_EVO: &str = "evo";

    /// The `level` of what is told and decides nothing.
    pub const WARNING: &str = "warning";

    pub fn of(
        check: SanitizerCheck,
        record: &SanitizerRecord,
        entries: &[String],
        buffers: &[BufferSpan],
    ) -> SanitizerFinding {
        let what = record.text("what.text").or_else(|| record.find(|path| leaf(path) == "text"));
        let what = what.unwrap_or("the tool does not say what it found").to_string();
        let sides = SIDES.map(|side| access_side(record, side));
        let address = record
            .find(|path| is_of_device(path) && ["address", "accessAddress"].contains(&leaf(path)))
            .and_then(number);
        let path = ["where.path", "where.file", "what.source.where.path"];
        let path = path.iter().find_map(|path| record.text(path));
        let line = record.text("where.line").and_then(number).or(sides[0].1.as_ref().map(|(_, line)| *line));
        let place = path.map(str::to_string).zip(line);
        let place = place.or_else(|| place_in(&what));
        SanitizerFinding {
            tool: check.as_str().to_string(),
            kind: record.text("kind").map(str::to_string),
            level: if record.is_warning() { SanitizerFinding::WARNING } else { "error" }.to_string(),
            access: access(record, &sides, &what),
            size_bytes: record.text("what.size").and_then(number).or_else(|| size_in(&what)),
            entry: entry(record, &what, entries),
            line: place.as_ref().map(|(_, line)| *line),
            file: place.map(|(file, _)| file).or_else(|| path.map(str::to_string)),
            thread: three(record, "threadIdx"),
            block: three(record, "blockIdx"),
            argument: address.and_then(|address| argument(address, buffers)),
            address: address.map(|address| format!("{address:#x}")),
            what: race(record, &sides).map_or_else(|| what.clone(), |told| format!("{what}: {told}")),
        }
    }

    pub fn of_worker(kind: &str, message: &str) -> SanitizerFinding {
        SanitizerFinding {
            tool: SanitizerFinding::OF_EVO.to_string(),
            kind: Some(kind.to_string()),
            level: "error".to_string(),
            what: message.to_string(),
            ..SanitizerFinding::default()
        }
    }

    pub fn is_error(&self) -> bool {
        self.level == "error"
    }

    /// Of what the worker saw.
    pub(super) fn verdict(&self) -> Verdict {
        // The kind was written from this list.
        let kind = self.kind.as_deref().and_then(VerdictKind::named).unwrap_or(VerdictKind::CrashOther);
        Verdict::new(kind, self.what.clone())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RaceOver {
    /// A flag: all of its accesses are on lines where every access to shared memory is volatile, atomic or ordered.
    Flag,
    /// Anything else, such as data behind a flag.
    Data,
}

pub(super) fn race_over(record: &SanitizerRecord, strong_lines: &BTreeSet<String>) -> Option<RaceOver> {
    let mut names = Vec::new();
    for side in SIDES {
        let texts = |leaf: &str| {
            let path = format!("what.{side}.where.{leaf}");
            record.all(move |known| known == path).collect::<Vec<_>>()
        };
        // One access may race with several others, each with its file and its line.
        let (files, lines) = (texts("path"), texts("line"));
        if files.is_empty() || files.len() != lines.len() {
            return None;
        }
        names.extend(files.iter().zip(lines).map(|(file, line)| format!("{}:{line}", base_name(file))));
    }
    Some(if names.iter().all(|name| strong_lines.contains(name)) { RaceOver::Flag } else { RaceOver::Data })
}

fn leaf(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

fn is_of_device(path: &str) -> bool {
    !path.starts_with("hostStack")
}

pub(super) fn number(text: &str) -> Option<u64> {
    let text = text.trim().replace(',', "");
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The two accesses of a race, as records of racecheck name them (seen in 2025.3.1).
const SIDES: [&str; 2] = ["source", "destination"];

/// The direction of an access, and its file and line.
type AccessSide = (Option<String>, Option<(String, u64)>);

fn access_side(record: &SanitizerRecord, side: &str) -> AccessSide {
    let text = |leaf: &str| record.text(&format!("what.{side}.{leaf}"));
    let place = text("where.path").map(str::to_string).zip(text("where.line").and_then(number));
    (text("direction").map(str::to_ascii_lowercase), place)
}

/// `write at k.cu:3 and read at k.cu:7, 256 hazards`: the line of a finding names one of the two only.
fn race(record: &SanitizerRecord, [source, destination]: &[AccessSide; 2]) -> Option<String> {
    let told = |(direction, place): &AccessSide| {
        let at = place.as_ref().map_or(String::new(), |(file, line)| format!(" at {file}:{line}"));
        direction.as_ref().map(|direction| format!("{direction}{at}"))
    };
    let hazards = record.text("what.destination.count").and_then(number);
    let hazards = hazards.map_or(String::new(), |count| format!(", {count} hazards"));
    Some(format!("{} and {}{hazards}", told(source)?, told(destination)?))
}

fn access(record: &SanitizerRecord, sides: &[AccessSide; 2], what: &str) -> Option<String> {
    if let [(Some(source), _), (Some(destination), _)] = sides {
        // Two different accesses have no one word; the text has both.
        return (source == destination).then(|| source.clone());
    }
    let said = record.find(|path| is_of_device(path) && leaf(path) == "direction").unwrap_or(what);
    let said = said.to_ascii_lowercase();
    let known = ["atomic", "write", "read"].into_iter();
    // A race is between two accesses, of which one alone would be half of it.
    let mut named = known.filter(|word| said.contains(word));
    named.next().filter(|word| *word == "atomic" || named.next().is_none()).map(str::to_string)
}

/// `… of size 4 bytes`.
fn size_in(what: &str) -> Option<u64> {
    let (_, rest) = what.split_once("of size ")?;
    rest.split_whitespace().next().and_then(number)
}

/// `… in kernel.cu:41`.
fn place_in(what: &str) -> Option<(String, u64)> {
    let (_, rest) = what.split_once(" in ")?;
    let word = rest.split_whitespace().next()?;
    let (file, line) = word.rsplit_once(':')?;
    Some((file.to_string(), line.parse().ok()?))
}

/// The kernel: an entry of the candidate among the functions that the record names, or the innermost one.
fn entry(record: &SanitizerRecord, what: &str, entries: &[String]) -> Option<String> {
    let functions =
        || record.all(|path| is_of_device(path) && ["func", "kernel", "name"].contains(&leaf(path)));
    let known = functions().find_map(|name| entries.iter().find(|entry| base(entry) == base(name)));
    let in_text = || {
        let words = what.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
        words.filter_map(|word| entries.iter().find(|entry| base(entry) == word)).next()
    };
    known.or_else(in_text).cloned().or_else(|| record.text("where.func").map(|name| base(name).to_string()))
}

fn three(record: &SanitizerRecord, name: &str) -> Option<[u64; 3]> {
    let one = |axis: &str| {
        let own = format!("who.{name}.{axis}");
        let end = format!(".{name}.{axis}");
        record.text(&own).or_else(|| record.find(|path| path.ends_with(&end))).and_then(number)
    };
    Some([one("x")?, one("y")?, one("z")?])
}

fn argument(address: u64, buffers: &[BufferSpan]) -> Option<String> {
    let distance = |buffer: &BufferSpan| {
        let last = buffer.address.saturating_add(buffer.bytes.max(1) - 1);
        buffer.address.saturating_sub(address).max(address.saturating_sub(last))
    };
    let nearest = buffers.iter().min_by_key(|buffer| distance(buffer))?;
    (distance(nearest) <= NEAR_BYTES).then(|| nearest.name.clone())
}

#[cfg(test)]
mod tests {
    use super::super::records::read_records;
    use super::*;

    fn told((check, record): (SanitizerCheck, &str)) -> String {
        let text = format!("<ComputeSanitizerOutput><record>{record}</record></ComputeSanitizerOutput>");
        let list = read_records(text.as_bytes()).unwrap();
        let span = |name: &str, address, bytes| BufferSpan { name: name.into(), address, bytes };
        let buffers = [span("x", 0x1000, 0x100), span("y", 0x20000, 0x400)];
        let found = SanitizerFinding::of(check, &list.records[0], &["scale".to_string()], &buffers);
        format!("{record}\n  {}", serde_json::to_string(&found).unwrap())
    }

    /// Records of every check, as the tool wrote them, are read whole in `tests/it/sanitize.rs`.
    #[test]
    fn what_a_record_says_is_found_wherever_it_stands() {
        use SanitizerCheck::{Initcheck, Memcheck, Racecheck};
        let side = |name: &str, direction: &str, line: u32| {
            format!(
                "<{name}><direction>{direction}</direction><where><func>scale</func><path>k.cu</path>\
                 <line>{line}</line></where></{name}>"
            )
        };
        let race = |one: &str, other: &str| {
            let (source, destination) = (side("source", one, 3), side("destination", other, 7));
            format!("<level>Error</level><what><text>Race condition</text>{source}{destination}</what>")
        };
        let at = |address: &str| format!("<what><accessAddress>{address}</accessAddress></what>");
        let rows = [
            (
                Racecheck,
                "<level>Error</level><what><text>Race reported between Write access at scale(int *)+0x90 in \
                 block_error.cu:41 and Read access at scale(int *)+0x100 in block_error.cu:51 [508 hazards]\
                 </text></what>",
            ),
            (Initcheck, "<what><text>Uninitialized __global__ memory read of size 1,024 bytes</text></what>"),
            (Racecheck, &race("Write", "Read")),
            (Racecheck, &race("Write", "Write")),
            (
                Memcheck,
                "<who><threadIdx><x>3</x><y>4</y><z>5</z></threadIdx>\
                 <blockIdx><x>2</x><y>1</y><z>6</z></blockIdx></who>",
            ),
            (Memcheck, &at("0x1000")),
            (Memcheck, &at("0xff0")),
            (Memcheck, &at("0x1ffff")),
            // Far from every buffer.
            (Memcheck, &at("0x87654320")),
            (Memcheck, &at("words")),
        ];
        insta::assert_snapshot!(rows.map(told).join("\n"));
    }
}
