//! JSON-RPC 2.0 messages: what comes in, and what goes out.

use serde_json::{Map, Value, json};

/// The text is not JSON.
pub const PARSE_ERROR: i64 = -32700;
/// The JSON is not a message.
pub const INVALID_REQUEST: i64 = -32600;
/// There is no such method.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// The method does not take these parameters.
pub const INVALID_PARAMS: i64 = -32602;
/// The protocol's own: the request names a revision that is not served.
pub const UNSUPPORTED_VERSION: i64 = -32022;

/// A message from the client.
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

/// Why something is not answered with a result.
#[derive(Clone, Debug, PartialEq)]
pub struct WireError {
    pub code: i64,
    pub message: String,
    pub data: Option<Value>,
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
    let Value::Object(mut own) = value else {
        let text = "a message is a JSON object; batches are not served";
        return Err((Value::Null, WireError::new(INVALID_REQUEST, text)));
    };
    let has_id = own.contains_key("id");
    let id = own.remove("id").unwrap_or_default();
    let is_id = id.is_string() || id.is_i64() || id.is_u64();
    let wrong = |text: &str| {
        let told = if is_id { id.clone() } else { Value::Null };
        (told, WireError::new(INVALID_REQUEST, text))
    };
    if own.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(wrong("`jsonrpc` has to be \"2.0\""));
    }
    let Some(method) = own.remove("method") else {
        let is_answer = own.contains_key("result") || own.contains_key("error");
        return if is_answer { Ok(McpMessage::Response) } else { Err(wrong("the message has no `method`")) };
    };
    let Value::String(method) = method else { return Err(wrong("`method` has to be a text")) };
    if has_id && !is_id {
        return Err(wrong("`id` has to be a text or an integer"));
    }
    let params = match own.remove("params") {
        None => Map::new(),
        Some(Value::Object(params)) => params,
        Some(_) => return Err(wrong("`params` has to be an object")),
    };
    Ok(match has_id {
        true => McpMessage::Request { id, method, params },
        false => McpMessage::Notification { method, params },
    })
}

/// A result of a request.
pub fn result(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// That a request, or a line that is not one, has no result.
pub fn failure(id: &Value, error: WireError) -> Value {
    let mut told = json!({ "code": error.code, "message": error.message });
    if let Some(data) = error.data {
        told["data"] = data;
    }
    json!({ "jsonrpc": "2.0", "id": id, "error": told })
}

/// A message that is not answered.
pub fn notification(method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "method": method, "params": params })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_notifications_and_answers_are_told_apart() {
        let read = |text: &str| read(text).unwrap();
        let request = read(r#"{"jsonrpc": "2.0", "id": "a", "method": "ping"}"#);
        assert_eq!(
            request,
            McpMessage::Request { id: "a".into(), method: "ping".into(), params: Map::new() }
        );
        let told = read(r#"{"jsonrpc": "2.0", "method": "x", "params": {"a": 1}}"#);
        assert!(matches!(told, McpMessage::Notification { params, .. } if params["a"] == 1));
        assert_eq!(read(r#"{"jsonrpc": "2.0", "id": 1, "result": {}}"#), McpMessage::Response);
    }

    #[test]
    fn what_is_not_a_message_is_answered_where_it_has_an_id() {
        let check = |text: &str, id: Value, code: i64| {
            let (told, error) = read(text).unwrap_err();
            assert_eq!((told, error.code), (id, code), "{text}");
        };
        check("{", Value::Null, PARSE_ERROR);
        check("[]", Value::Null, INVALID_REQUEST);
        check("3", Value::Null, INVALID_REQUEST);
        check(r#"{"id": 7, "method": "ping"}"#, 7.into(), INVALID_REQUEST);
        check(r#"{"jsonrpc": "2.0", "id": null, "method": "ping"}"#, Value::Null, INVALID_REQUEST);
        check(r#"{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}"#, Value::Null, INVALID_REQUEST);
        check(r#"{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}"#, 1.into(), INVALID_REQUEST);
        check(r#"{"jsonrpc": "2.0", "id": 1}"#, 1.into(), INVALID_REQUEST);
        check(r#"{"jsonrpc": "2.0", "id": 1, "method": 4}"#, 1.into(), INVALID_REQUEST);
    }
}
