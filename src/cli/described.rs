//! What a command's object says of the candidate and of the conditions, for every command that has them.

use evo_protocol::device::DeviceInfo;
use serde_json::{Map, Value, json};

use super::call::Call;
use super::session;
use crate::engine::candidate::ResolvedCandidate;
use crate::report::envelope::CallFacts;

/// Notes the candidate as a command's object names it: what it is, and where it comes from. What it does not have is
/// left out.
pub fn candidate(call: &Call, resolved: &ResolvedCandidate) {
    let ResolvedCandidate { file, configuration, provenance, .. } = resolved;
    let mut fields = Map::new();
    fields.insert("space".into(), session::space_word(file).into());
    if let Some(kernel) = &file.kernel {
        fields.insert("kernel".into(), kernel.name.as_str().into());
    }
    if let Some(replaced) = &file.replaced_default {
        fields.insert("default_replaced".into(), replaced.note().into());
    }
    fields.insert("configuration".into(), json!(configuration));
    fields.insert("configuration_hash".into(), json!(configuration.hash()));
    if let Value::Object(from) = json!(provenance) {
        fields.extend(from.into_iter().filter(|(_, value)| !value.is_null()));
    }
    call.know(|facts| facts.candidate = Some(Value::Object(fields)));
}

/// The study that a candidate's name means, as it was noted; none for a candidate that no study names.
pub fn study(facts: &CallFacts) -> Option<String> {
    let candidate = facts.candidate.as_ref()?;
    let is_named = ["champion", "previous", "number", "hash"].iter().any(|kind| candidate["kind"] == *kind);
    candidate["from"].as_str().filter(|_| is_named).map(String::from)
}

/// The conditions of a run as a command's object names them.
pub fn conditions(device: &DeviceInfo, seed: u64, problems: &[String]) -> Value {
    json!({
        "device_kind": device.kind,
        "arch": device.arch,
        "driver": device.driver,
        "seed": seed,
        "problems": problems,
        "evo": env!("CARGO_PKG_VERSION"),
    })
}
