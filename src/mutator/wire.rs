//! Lines of a mutator: read within bounds, and told apart from what is not the protocol.

use evo_protocol::mutator::{MUTATOR_LINE_MAX, MUTATOR_VERSION, MutatorAnswer, MutatorProposal};
use evo_space::text::{printable_line, shortened};
use serde_json::Value;

/// Bytes of a name.
const NAME_MAX: usize = 200;
/// Bytes of a thought, and of a cost's text.
const TEXT_MAX: usize = 16 << 10;
/// Letters of a line that are shown.
const SHOWN: usize = 120;

/// A line of a mutator.
#[derive(Clone, Debug, PartialEq)]
pub enum MutatorLine {
    /// An answer to the message of this number.
    Answer { id: u64, answer: MutatorAnswer },
    /// A message of a type that this evo does not know.
    Unknown { id: u64, kind: String },
}

/// Reads a line without its end.
///
/// # Errors
/// Why it is not the protocol, in one sentence.
pub fn read(line: &[u8]) -> Result<MutatorLine, String> {
    if line.len() > MUTATOR_LINE_MAX {
        return Err(format!("a line of {} bytes, and at most {MUTATOR_LINE_MAX} are read", line.len()));
    }
    let start = shown(&String::from_utf8_lossy(&line[..line.len().min(4 * SHOWN)]));
    let text = std::str::from_utf8(line).map_err(|_| format!("a line that is not UTF-8: `{start}`"))?;
    let value: Value =
        serde_json::from_str(text).map_err(|_| format!("a line that is not JSON: `{start}`"))?;
    let version = value["v"].as_u64().ok_or_else(|| format!("a message without `v`: `{start}`"))?;
    if version != u64::from(MUTATOR_VERSION) {
        return Err(format!("a message of version {version}, and this evo knows {MUTATOR_VERSION}"));
    }
    let id = value["id"].as_u64().ok_or_else(|| format!("a message without `id`: `{start}`"))?;
    let kind = value["type"].as_str().ok_or_else(|| format!("a message without `type`: `{start}`"))?;
    if !["ready", "proposals", "error"].contains(&kind) {
        return Ok(MutatorLine::Unknown { id, kind: shown(kind) });
    }
    let kind = kind.to_string();
    let answer = serde_json::from_value(value)
        .map_err(|error| format!("`{kind}` that cannot be read: {}", shown(&error.to_string())))?;
    Ok(MutatorLine::Answer { id, answer })
}

/// Whether a proposal has the right form; what its edits do is another question.
///
/// # Errors
/// What is wrong with it, in words for its author.
pub fn check(proposal: &MutatorProposal) -> Result<(), String> {
    let MutatorProposal { source, edits, genome, launch, .. } = proposal;
    let given = [source.is_some(), edits.is_some(), genome.is_some()];
    let given = given.iter().filter(|is_given| **is_given).count();
    if given != 1 {
        return Err(format!("it has {given} of `source`, `edits` and `genome`, expected exactly one"));
    }
    if genome.is_some() && launch.is_some() {
        return Err("`launch` belongs to a source, and it has a `genome`".to_string());
    }
    if proposal.name.len() > NAME_MAX {
        return Err(format!("its name has more than {NAME_MAX} bytes"));
    }
    if proposal.thought.as_ref().is_some_and(|own| own.len() > TEXT_MAX) {
        return Err(format!("its thought has more than {TEXT_MAX} bytes"));
    }
    if proposal.cost.as_ref().is_some_and(|own| own.to_string().len() > TEXT_MAX) {
        return Err(format!("its cost has more than {TEXT_MAX} bytes"));
    }
    Ok(())
}

/// The start of a text in one line, for messages.
pub fn shown(text: &str) -> String {
    printable_line(&shortened(text.trim(), SHOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<MutatorLine, String> {
        read(text.as_bytes())
    }

    #[test]
    fn unknown_fields_are_ignored_and_unknown_types_are_told_apart() {
        let ready = MutatorAnswer::Ready { name: Some("m".into()) };
        assert_eq!(
            read_text(r#"{"v":1,"type":"ready","id":3,"name":"m","more":[1]}"#),
            Ok(MutatorLine::Answer { id: 3, answer: ready })
        );
        let line = r#"{"v":1,"type":"proposals","id":4,"x":0,"proposals":[{"genome":{"A":1},"y":{}}]}"#;
        let Ok(MutatorLine::Answer { id: 4, answer: MutatorAnswer::Proposals { proposals } }) =
            read_text(line)
        else {
            panic!("{line}")
        };
        assert_eq!(check(&proposals[0]), Ok(()));
        assert_eq!(
            read_text(r#"{"v":1,"type":"dance","id":1}"#),
            Ok(MutatorLine::Unknown { id: 1, kind: "dance".into() })
        );
        // In one line, whatever it holds.
        assert_eq!(
            read_text(r#"{"v":1,"type":"a\nb","id":1}"#),
            Ok(MutatorLine::Unknown { id: 1, kind: r"a\nb".into() })
        );
    }

    #[test]
    fn what_is_not_the_protocol_is_said() {
        for (line, part) in [
            ("words", "not JSON: `words`"),
            ("[]", "without `v`"),
            (r#"{"v":2,"type":"ready","id":1}"#, "of version 2"),
            (r#"{"v":1,"type":"ready"}"#, "without `id`"),
            (r#"{"v":1,"type":"ready","id":-1}"#, "without `id`"),
            (r#"{"v":1,"id":1}"#, "without `type`"),
            (r#"{"v":1,"type":"proposals","id":1}"#, "`proposals` that cannot be read"),
            (r#"{"v":1,"type":"proposals","id":1,"proposals":[{"edits":[{"search":1}]}]}"#, "cannot be read"),
        ] {
            let why = read_text(line).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
        assert!(read(b"\xff{").unwrap_err().contains("not UTF-8"));
        assert!(read(&vec![b' '; MUTATOR_LINE_MAX + 1]).unwrap_err().contains("bytes"));
        assert!(read_text(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn a_proposal_is_exactly_one_thing() {
        let none = MutatorProposal::default();
        assert!(check(&none).unwrap_err().contains("0 of"));
        let source = MutatorProposal { source: Some("x".into()), ..none.clone() };
        assert_eq!(check(&source), Ok(()));
        let both = MutatorProposal { edits: Some(Vec::new()), ..source.clone() };
        assert!(check(&both).unwrap_err().contains("2 of"));
        let placed = MutatorProposal { genome: Some([].into()), launch: Some([].into()), ..none };
        assert!(check(&placed).unwrap_err().contains("`launch` belongs"));
        let long = MutatorProposal { name: "x".repeat(201), ..source };
        assert!(check(&long).is_err());
    }
}
