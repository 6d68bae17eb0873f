//! The one object that a command prints with `--json`: its own fields and the envelope around them, whatever
//! happens (`docs/json.md`). Pure: the caller knows the clock and the exit code.

use evo_protocol::envelope::CommandEnvelope;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The answer of a command that has nothing beside its `result`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ResultAlone<R> {
    pub result: R,
}

/// Gives fields of an envelope that are null their reasons, where they have none yet.
pub fn explain_nulls(envelope: &mut CommandEnvelope) {
    let early = "the command ended before this was known";
    let (absent, no_result) = match envelope.error {
        Some(_) => (early, early),
        None => ("this command has none", "the command's own fields are the result"),
    };
    let fields = json!(envelope);
    for (path, reason) in [
        ("candidate", absent),
        ("device", absent),
        ("conditions", absent),
        ("limits", absent),
        ("result", no_result),
        ("limits.compile_s", "the command compiles nothing within a limit"),
        ("limits.device_s", "the command runs nothing within a limit"),
        ("limits.tool_s", "the command runs no outside program"),
        ("limits.total_s", "off: `--limit total=TIME` sets it"),
    ] {
        let field = fields.pointer(&format!("/{}", path.replace('.', "/")));
        if field.is_some_and(Value::is_null) {
            envelope.reasons.entry(path.to_string()).or_insert_with(|| reason.to_string());
        }
    }
}

/// Fields that come before the command's own, because readers look for them first.
const FIRST: [&str; 5] = ["schema", "version", "status", "exit_code", "error"];

/// The object's text, without a final newline: the command's own fields, which is the text of a JSON object, with the
/// envelope's around them. Where both have a field, the command's own stays, because programs read it already.
pub fn object(envelope: &CommandEnvelope, own: &str) -> serde_json::Result<String> {
    // Read for its keys only: as text it keeps integers of any size.
    let known: Map<String, Value> = serde_json::from_str(own)?;
    let (mut fields, mut last) = (Vec::new(), Vec::new());
    for (name, value) in serde_json::to_value(envelope)?.as_object().into_iter().flatten() {
        let half = if FIRST.contains(&name.as_str()) { &mut fields } else { &mut last };
        half.extend((!known.contains_key(name)).then(|| format!("{}:{value}", Value::from(name.as_str()))));
    }
    let own = own.trim();
    let own = own.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(own).trim();
    fields.extend(Some(own.to_string()).filter(|own| !own.is_empty()));
    fields.extend(last);
    Ok(format!("{{{}}}", fields.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_fields_stay_and_keep_every_digit() {
        let envelope = CommandEnvelope { schema: "evo.space".into(), version: 1, ..Default::default() };
        let own = r#"{"valid":123456789012345678901234567890,"device":{"name":"x"},"version":2}"#;
        let text = object(&envelope, own).unwrap();
        assert!(text.contains(r#""valid":123456789012345678901234567890,"#), "{text}");
        let read: Map<String, Value> = serde_json::from_str(&text).unwrap();
        assert_eq!((&read["version"], &read["device"]["name"]), (&2.into(), &"x".into()));
        assert_eq!((&read["schema"], &read["status"]), (&"evo.space".into(), &"pass".into()));
        assert!(
            text.starts_with(r#"{"schema":"evo.space","status":"pass","exit_code":0,"error":null,"valid""#)
        );
        assert!(object(&envelope, "{}").unwrap().starts_with(r#"{"schema":"evo.space","version":1,"#));
        assert!(object(&envelope, "[1]").is_err());
    }
}
