//! JSON-RPC 2.0 messages, and the two eras of the protocol. Up to 2025-11-25 a session begins with `initialize`; from
//! 2026-07-28 on there is no session, and each request carries its version. A client of either era is served, request by
//! request.

use serde_json::{Map, Value, json};

pub const PARSE_ERROR: i64 = -32700;
pub const INVALID_REQUEST: i64 = -32600;
pub const METHOD_NOT_FOUND: i64 = -32601;
pub const INVALID_PARAMS: i64 = -32602;
/// The protocol's own: the request names a revision that is not served.
const UNSUPPORTED_VERSION: i64 = -32022;

/// Revisions whose requests each carry their version, the newest first.
const MODERN: &[&str] = &["2026-07-28"];
/// Revisions with sessions, the newest first. 2025-03-26 is left out: its clients may send batches.
const LEGACY: &[&str] = &["2025-11-25", "2025-06-18", "2024-11-05"];

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// How long a client may keep what does not change while the program runs, milliseconds.
const KEPT_MS: u64 = 3_600_000;

#[derive(Clone, Debug, PartialEq)]
pub enum McpMessage {
    Request {
        id: Value,
        method: String,
        params: Map<String, Value>,
    },
    Notification {
        method: String,
        params: Map<String, Value>,
    },
    /// An answer to a request; this server makes none.
    Response,
}

#[derive(Clone, Debug, PartialEq)]
pub struct WireError {
    pub code: i64,
    message: String,
    data: Option<Value>,
}

impl WireError {
    pub fn new(code: i64, message: impl Into<String>) -> WireError {
        WireError { code, message: message.into(), data: None }
    }
}

/// Reads a line. An error comes with the request's id, or null where it has none that can be told.
pub fn read(text: &str) -> Result<McpMessage, (Value, WireError)> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        (Value::Null, WireError::new(PARSE_ERROR, format!("the line is not JSON: {error}")))
    })?;
    let Value::Object(mut fields) = value else {
        let text = "a message is a JSON object; batches are not served";
        return Err((Value::Null, WireError::new(INVALID_REQUEST, text)));
    };
    let id = fields.remove("id");
    let wrong = |text: &str| {
        let id = id.clone().filter(is_id).unwrap_or_default();
        Err((id, WireError::new(INVALID_REQUEST, text)))
    };
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return wrong("`jsonrpc` has to be \"2.0\"");
    }
    let method = match fields.remove("method") {
        Some(Value::String(method)) => method,
        Some(_) => return wrong("`method` has to be a text"),
        None if fields.contains_key("result") || fields.contains_key("error") => {
            return Ok(McpMessage::Response);
        }
        None => return wrong("the message has no `method`"),
    };
    if id.as_ref().is_some_and(|id| !is_id(id)) {
        return wrong("`id` has to be a text or an integer");
    }
    let params = match fields.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return wrong("`params` has to be an object"),
    };
    Ok(match id {
        Some(id) => McpMessage::Request { id, method, params },
        None => McpMessage::Notification { method, params },
    })
}

/// Whether a request can be told apart by this.
pub fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

pub fn response(id: &Value, answered: Result<Value, WireError>) -> Value {
    match answered {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(WireError { code, message, data }) => {
            let mut error = json!({ "code": code, "message": message });
            if let Some(data) = data {
                error["data"] = data;
            }
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        }
    }
}

pub fn versions() -> Vec<&'static str> {
    [MODERN, LEGACY].concat()
}

/// The revision of a session whose client asks for one: that one, or the newest with sessions.
pub fn session_version(asked: Option<&str>) -> &'static str {
    LEGACY.iter().find(|version| Some(**version) == asked).unwrap_or(&LEGACY[0])
}

pub fn server_info() -> Value {
    json!({ "name": "evo", "title": "evo", "version": env!("CARGO_PKG_VERSION") })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

impl Era {
    pub fn of(params: &Map<String, Value>) -> Result<Era, WireError> {
        let meta = params.get("_meta").and_then(Value::as_object);
        let Some(version) = meta.and_then(|meta| meta.get(VERSION)) else { return Ok(Era::Legacy) };
        let Some(version) = version.as_str() else {
            return Err(WireError::new(INVALID_PARAMS, format!("`_meta.{VERSION}` has to be a text")));
        };
        if !MODERN.contains(&version) {
            let data = Some(json!({ "supported": versions(), "requested": version }));
            return Err(WireError {
                data,
                ..WireError::new(UNSUPPORTED_VERSION, "Unsupported protocol version")
            });
        }
        match meta.and_then(|meta| meta.get(CAPABILITIES)) {
            Some(Value::Object(_)) => Ok(Era::Modern),
            _ => Err(WireError::new(INVALID_PARAMS, format!("`_meta.{CAPABILITIES}` has to be an object"))),
        }
    }

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

    #[test]
    fn messages_are_told_apart_and_what_is_none_is_answered_where_it_has_an_id() {
        let request = read(r#"{"jsonrpc": "2.0", "id": "a", "method": "ping"}"#).unwrap();
        assert_eq!(
            request,
            McpMessage::Request { id: "a".into(), method: "ping".into(), params: Map::new() }
        );
        let notification = read(r#"{"jsonrpc": "2.0", "method": "x", "params": {"a": 1}}"#).unwrap();
        assert!(matches!(notification, McpMessage::Notification { params, .. } if params["a"] == 1));
        assert_eq!(read(r#"{"jsonrpc": "2.0", "id": 1, "result": {}}"#), Ok(McpMessage::Response));
        for (text, id, code) in [
            ("{", Value::Null, PARSE_ERROR),
            ("[]", Value::Null, INVALID_REQUEST),
            ("3", Value::Null, INVALID_REQUEST),
            (r#"{"id": 7, "method": "ping"}"#, 7.into(), INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#, Value::Null, INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}"#, Value::Null, INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}"#, 1.into(), INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": 1}"#, 1.into(), INVALID_REQUEST),
            (r#"{"jsonrpc": "2.0", "id": 1, "method": 4}"#, 1.into(), INVALID_REQUEST),
        ] {
            let (told, error) = read(text).unwrap_err();
            assert_eq!((told, error.code), (id, code), "{text}");
        }
    }

    #[test]
    fn a_request_says_its_era_and_hears_which_are_served() {
        let of = |meta: Value| Era::of(json!({ "_meta": meta }).as_object().unwrap());
        assert_eq!(Era::of(&Map::new()), Ok(Era::Legacy));
        assert_eq!(of(json!({ "progressToken": 1 })), Ok(Era::Legacy));
        assert_eq!(of(json!({ VERSION: "2026-07-28", CAPABILITIES: {} })), Ok(Era::Modern));
        let unknown = of(json!({ VERSION: "1900-01-01", CAPABILITIES: {} })).unwrap_err();
        let data = unknown.data.unwrap();
        assert_eq!((unknown.code, &data["requested"]), (UNSUPPORTED_VERSION, &json!("1900-01-01")));
        assert_eq!(data["supported"][0], "2026-07-28");
        assert_eq!(of(json!({ VERSION: "2026-07-28" })).unwrap_err().code, INVALID_PARAMS);
        assert_eq!(of(json!({ VERSION: 3 })).unwrap_err().code, INVALID_PARAMS);
        assert_eq!(session_version(Some("2025-06-18")), "2025-06-18");
        assert_eq!(
            (session_version(Some("2025-03-26")), session_version(None)),
            ("2025-11-25", "2025-11-25")
        );
        assert_eq!(Era::Legacy.lasting(json!({ "tools": [] })), json!({ "tools": [] }));
        let modern = Era::Modern.lasting(json!({ "tools": [] }));
        assert_eq!((&modern["resultType"], &modern["cacheScope"]), (&json!("complete"), &json!("public")));
    }
}
