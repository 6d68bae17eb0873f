//! One record as one line: `{"crc":"…","record":{…}}` with a checksum over the record's own text.
//!
//! The text is kept as it was written (`RawValue`), so the check covers every byte that carries meaning.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

#[derive(Serialize, Deserialize)]
struct Envelope<'a> {
    crc: &'a str,
    #[serde(borrow)]
    record: &'a RawValue,
}

/// With its newline.
pub fn encode(record: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::value::to_raw_value(record)?;
    let mut line = serde_json::to_string(&Envelope { crc: &checksum(text.get()), record: &text })?;
    line.push('\n');
    Ok(line)
}

/// `line` has no newline.
pub fn decode<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    let text = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_string())?;
    let envelope: Envelope<'_> =
        serde_json::from_str(text).map_err(|error| format!("not a record: {error}"))?;
    // Valid JSON is not proof: a flipped digit in a time would still parse, and would rank.
    if checksum(envelope.record.get()) != envelope.crc {
        return Err("the checksum does not match".to_string());
    }
    serde_json::from_str(envelope.record.get()).map_err(|error| format!("not a known record: {error}"))
}

fn checksum(text: &str) -> String {
    // 64 bits are plenty against accidents, which are all that this guards against, and keep lines short.
    blake3::hash(text.as_bytes()).to_hex().as_str()[..16].to_string()
}
