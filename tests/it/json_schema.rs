//! As much of JSON Schema as the committed schemas use. An unknown keyword fails, so that nothing is skipped in
//! silence.

use serde_json::Value;

/// What in `value` is not what the schema says; `None` where all of it is.
pub fn fault(schema: &Value, value: &Value) -> Option<String> {
    Validator { root: schema }.fault(schema, value, "")
}

/// A field of `value` that the schema does not list, by its path; `None` where it lists all of them. A reader may expect
/// more fields one day, and the schema is to name those of today.
pub fn unlisted(schema: &Value, value: &Value, path: &str) -> Option<String> {
    let below = |name: &str| format!("{path}.{name}");
    match (value, schema["properties"].as_object()) {
        (Value::Object(fields), Some(known)) => fields.iter().find_map(|(name, own)| match known.get(name) {
            Some(schema) => unlisted(schema, own, &below(name)),
            None => Some(below(name)),
        }),
        (Value::Object(fields), None) if schema["additionalProperties"].is_object() => {
            fields.iter().find_map(|(name, own)| unlisted(&schema["additionalProperties"], own, &below(name)))
        }
        (Value::Array(items), _) => items.iter().find_map(|own| unlisted(&schema["items"], own, &below("0"))),
        _ => None,
    }
}

struct Validator<'a> {
    root: &'a Value,
}

/// Keywords that say nothing about a value.
const SILENT: [&str; 8] = ["$schema", "$id", "$defs", "title", "description", "default", "format", "pattern"];

impl Validator<'_> {
    fn fault(&self, schema: &Value, value: &Value, path: &str) -> Option<String> {
        match schema {
            Value::Bool(true) => return None,
            Value::Bool(false) => return Some(format!("`{path}` may not be there")),
            _ => {}
        }
        let keywords = schema.as_object().unwrap_or_else(|| panic!("`{path}`: {schema} cannot be a schema"));
        keywords.iter().find_map(|(keyword, rule)| self.broken(keyword, rule, schema, value, path))
    }

    fn broken(
        &self,
        keyword: &str,
        rule: &Value,
        schema: &Value,
        value: &Value,
        path: &str,
    ) -> Option<String> {
        let all = |rule: &Value| rule.as_array().unwrap().clone();
        let must = |holds: bool| (!holds).then(|| format!("`{path}` is {value}, against {keyword} {rule}"));
        match keyword {
            silent if SILENT.contains(&silent) => None,
            "type" => must(types(rule).iter().any(|name| is_of(value, name))),
            "const" => must(rule == value),
            "enum" => must(all(rule).contains(value)),
            "minimum" => must(value.as_f64().is_none_or(|own| own >= rule.as_f64().unwrap())),
            "maximum" => must(value.as_f64().is_none_or(|own| own <= rule.as_f64().unwrap())),
            "minItems" => must(value.as_array().is_none_or(|own| own.len() as u64 >= rule.as_u64().unwrap())),
            "maxItems" => must(value.as_array().is_none_or(|own| own.len() as u64 <= rule.as_u64().unwrap())),
            "$ref" => {
                let name = rule.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                self.fault(&self.root["$defs"][name], value, path)
            }
            "anyOf" | "oneOf" => {
                let faults: Option<Vec<String>> =
                    all(rule).iter().map(|one| self.fault(one, value, path)).collect();
                faults.map(|faults| format!("`{path}`: none of {keyword}: {}", faults.join("; ")))
            }
            "allOf" => all(rule).iter().find_map(|one| self.fault(one, value, path)),
            "required" => {
                let object = value.as_object()?;
                let names = all(rule);
                let missing = names.iter().find(|name| !object.contains_key(name.as_str().unwrap()))?;
                Some(format!("`{path}` has no {missing}"))
            }
            "properties" => {
                let object = value.as_object()?;
                let known = rule.as_object().unwrap().iter();
                let pairs = known.filter_map(|(name, one)| Some((name, one, object.get(name)?)));
                pairs.into_iter().find_map(|(name, one, own)| self.fault(one, own, &format!("{path}.{name}")))
            }
            "additionalProperties" => {
                let known = schema["properties"].as_object();
                let is_known = |name: &String| known.is_some_and(|known| known.contains_key(name));
                let mut others = value.as_object()?.iter().filter(|(name, _)| !is_known(name));
                others.find_map(|(name, own)| self.fault(rule, own, &format!("{path}.{name}")))
            }
            "items" => {
                let mut items = value.as_array()?.iter().enumerate();
                items.find_map(|(number, own)| self.fault(rule, own, &format!("{path}.{number}")))
            }
            other => panic!("`{path}`: the keyword `{other}` is not known here"),
        }
    }
}

fn types(rule: &Value) -> Vec<&str> {
    match rule {
        Value::Array(names) => names.iter().map(|name| name.as_str().unwrap()).collect(),
        name => vec![name.as_str().unwrap()],
    }
}

fn is_of(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        // Integers of any size come as floats where they do not fit.
        "integer" => value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|own| own.fract() == 0.0),
        other => panic!("the type `{other}` is not known here"),
    }
}

#[test]
fn the_validator_sees_what_is_wrong() {
    let schema = serde_json::json!({
        "type": "object",
        "required": ["a"],
        "properties": { "a": { "$ref": "#/$defs/A" }, "b": { "type": ["string", "null"] } },
        "anyOf": [{ "required": ["b"] }, { "properties": { "a": { "const": 1 } } }],
        "$defs": { "A": { "type": "integer", "minimum": 0 } },
    });
    let check = |value: Value, expected: Option<&str>| {
        assert_eq!(fault(&schema, &value).as_deref(), expected, "{value}");
    };
    check(serde_json::json!({ "a": 1 }), None);
    check(serde_json::json!({ "a": 2, "b": null }), None);
    check(serde_json::json!({}), Some("`` has no \"a\""));
    check(serde_json::json!({ "a": -1, "b": "x" }), Some("`.a` is -1, against minimum 0"));
    check(serde_json::json!({ "a": 1, "b": 2 }), Some("`.b` is 2, against type [\"string\",\"null\"]"));
    let neither = "``: none of anyOf: `` has no \"b\"; `.a` is 2, against const 1";
    check(serde_json::json!({ "a": 2 }), Some(neither));
}

#[test]
fn fields_that_a_schema_does_not_list_are_seen() {
    let items = serde_json::json!({ "type": "array", "items": { "properties": { "a": {} } } });
    let schema = serde_json::json!({ "properties": { "rows": items, "any": { "type": "object" } } });
    let check = |value: Value, expected: Option<&str>| {
        assert_eq!(unlisted(&schema, &value, "result").as_deref(), expected, "{value}");
    };
    check(serde_json::json!({ "rows": [{ "a": 1 }], "any": { "x": 1 } }), None);
    check(serde_json::json!({ "rows": [{ "a": 1 }, { "b": 1 }] }), Some("result.rows.0.b"));
    check(serde_json::json!({ "other": null }), Some("result.other"));
}
