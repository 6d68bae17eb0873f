//! The protocol's revisions. Up to 2025-11-25 a session begins with `initialize`; from 2026-07-28 on there is no session,
//! and each request carries its version. A client of either era is served, request by request.

use serde_json::{Map, Value, json};

use super::wire::{INVALID_PARAMS, UNSUPPORTED_VERSION, WireError};

/// Revisions whose requests each carry their version, the newest first.
const MODERN: &[&str] = &["2026-07-28"];

/// Revisions with sessions, the newest first. 2025-03-26 is left out: its clients may send batches.
const LEGACY: &[&str] = &["2025-11-25", "2025-06-18", "2024-11-05"];

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// How long a client may keep what does not change while the program runs, milliseconds.
const KEPT_MS: u64 = 3_600_000;

/// How a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

/// The era of a request.
pub fn of(params: &Map<String, Value>) -> Result<Era, WireError> {
    let meta = params.get("_meta").and_then(Value::as_object);
    let Some(version) = meta.and_then(|meta| meta.get(VERSION)) else { return Ok(Era::Legacy) };
    let Some(version) = version.as_str() else {
        return Err(WireError::new(INVALID_PARAMS, format!("`_meta.{VERSION}` has to be a text")));
    };
    if !MODERN.contains(&version) {
        let supported: Vec<&str> = supported().collect();
        let mut error = WireError::new(UNSUPPORTED_VERSION, "Unsupported protocol version");
        error.data = Some(json!({ "supported": supported, "requested": version }));
        return Err(error);
    }
    match meta.and_then(|meta| meta.get(CAPABILITIES)) {
        Some(Value::Object(_)) => Ok(Era::Modern),
        _ => Err(WireError::new(INVALID_PARAMS, format!("`_meta.{CAPABILITIES}` has to be an object"))),
    }
}

/// Every revision that is served.
pub fn supported() -> impl Iterator<Item = &'static str> {
    MODERN.iter().chain(LEGACY).copied()
}

/// The revision of a session whose client asks for one: that one, or the newest with sessions.
pub fn of_session(asked: Option<&str>) -> &'static str {
    LEGACY.iter().find(|own| Some(**own) == asked).copied().unwrap_or(LEGACY[0])
}

/// Who answers.
pub fn server_info() -> Value {
    json!({ "name": "evo", "title": "evo", "version": env!("CARGO_PKG_VERSION") })
}

impl Era {
    pub fn result(self, mut result: Value) -> Value {
        if self == Era::Modern {
            result["resultType"] = "complete".into();
            result["_meta"] = json!({ SERVER: server_info() });
        }
        result
    }

    /// The same for a result that stays the same while the program runs.
    pub fn lasting(self, mut result: Value) -> Value {
        if self == Era::Modern {
            result["ttlMs"] = KEPT_MS.into();
            result["cacheScope"] = "public".into();
        }
        self.result(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(meta: Value) -> Map<String, Value> {
        Map::from_iter([("_meta".to_string(), meta)])
    }

    #[test]
    fn a_request_says_its_era() {
        assert_eq!(of(&Map::new()), Ok(Era::Legacy));
        assert_eq!(of(&params(json!({ "progressToken": 1 }))), Ok(Era::Legacy));
        assert_eq!(of(&params(json!({ VERSION: "2026-07-28", CAPABILITIES: {} }))), Ok(Era::Modern));
    }

    #[test]
    fn a_request_of_another_revision_hears_which_are_served() {
        let unknown = of(&params(json!({ VERSION: "1900-01-01", CAPABILITIES: {} }))).unwrap_err();
        assert_eq!(unknown.code, UNSUPPORTED_VERSION);
        let data = unknown.data.unwrap();
        assert_eq!((&data["requested"], &data["supported"][0]), (&json!("1900-01-01"), &json!("2026-07-28")));
        assert_eq!(of(&params(json!({ VERSION: "2026-07-28" }))).unwrap_err().code, INVALID_PARAMS);
        assert_eq!(of(&params(json!({ VERSION: 3 }))).unwrap_err().code, INVALID_PARAMS);
    }

    #[test]
    fn a_session_gets_the_revision_that_it_asks_for_or_the_newest() {
        assert_eq!(of_session(Some("2025-06-18")), "2025-06-18");
        assert_eq!(of_session(Some("2025-03-26")), "2025-11-25");
        assert_eq!(of_session(None), "2025-11-25");
    }

    #[test]
    fn only_modern_results_say_that_they_are_complete() {
        assert_eq!(Era::Legacy.lasting(json!({ "tools": [] })), json!({ "tools": [] }));
        let modern = Era::Modern.lasting(json!({ "tools": [] }));
        assert_eq!((&modern["resultType"], &modern["cacheScope"]), (&json!("complete"), &json!("public")));
    }
}
