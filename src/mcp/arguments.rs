//! What a call of a tool hands over, checked against what the tool takes.

use evo_space::diagnostic::nearest;
use serde_json::{Map, Value, json};

/// Bytes of a text: a source of some hundred kilobytes is the longest that anybody writes.
const TEXT_MAX: usize = 768 << 10;

/// One thing that a tool takes.
#[derive(Clone, Copy, Debug)]
pub struct ToolField {
    pub name: &'static str,
    pub kind: FieldKind,
    pub required: bool,
    pub about: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    Text,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Names of parameters and their values.
    Configuration,
    /// An integer of at least 0.
    Whole,
    Flag,
}

impl ToolField {
    /// One that a call may leave out.
    pub const fn optional(name: &'static str, kind: FieldKind, about: &'static str) -> ToolField {
        ToolField { name, kind, required: false, about }
    }

    /// One that a call must have.
    pub const fn required(name: &'static str, kind: FieldKind, about: &'static str) -> ToolField {
        ToolField { name, kind, required: true, about }
    }

    /// Its JSON Schema.
    pub fn schema(&self) -> Value {
        let mut schema = match self.kind {
            FieldKind::Text => json!({ "type": "string" }),
            FieldKind::OneOf(words) => json!({ "type": "string", "enum": words }),
            FieldKind::Configuration => json!({
                "type": "object",
                "additionalProperties": { "type": ["string", "number", "boolean"] },
            }),
            FieldKind::Whole => json!({ "type": "integer", "minimum": 0 }),
            FieldKind::Flag => json!({ "type": "boolean" }),
        };
        schema["description"] = self.about.into();
        schema
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        let name = self.name;
        let fits = match self.kind {
            FieldKind::Text | FieldKind::OneOf(_) => value.is_string(),
            FieldKind::Configuration => value.is_object(),
            FieldKind::Whole => value.is_u64(),
            FieldKind::Flag => value.is_boolean(),
        };
        if !fits {
            return Err(format!("`{name}` has to be {}", self.kind.said()));
        }
        if let Some(text) = value.as_str() {
            if text.len() > TEXT_MAX {
                return Err(format!("`{name}` has {} bytes, and at most {TEXT_MAX} are read", text.len()));
            }
            if text.contains('\0') {
                return Err(format!("`{name}` contains a NUL character"));
            }
        }
        match (self.kind, value.as_str()) {
            (FieldKind::OneOf(words), Some(word)) if !words.contains(&word) => {
                let near = nearest(word, words.iter().copied());
                let hint = near.map_or_else(String::new, |near| format!(": did you mean `{near}`?"));
                Err(format!("`{name}` is one of {}, not `{word}`{hint}", words.join(", ")))
            }
            _ => Ok(()),
        }
    }
}

impl FieldKind {
    fn said(self) -> &'static str {
        match self {
            FieldKind::Text | FieldKind::OneOf(_) => "a text",
            FieldKind::Configuration => "an object of parameters and values",
            FieldKind::Whole => "an integer of at least 0",
            FieldKind::Flag => "true or false",
        }
    }
}

/// Arguments that fit their tool.
#[derive(Clone, Debug, Default)]
pub struct GivenArguments(Map<String, Value>);

impl GivenArguments {
    /// Checks the arguments of a call.
    pub fn read(arguments: Option<&Value>, fields: &[ToolField]) -> Result<GivenArguments, String> {
        let given = match arguments {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(own)) => own.clone(),
            Some(_) => return Err("`arguments` has to be an object".to_string()),
        };
        for (name, value) in &given {
            let Some(field) = fields.iter().find(|field| field.name == name) else {
                let known: Vec<&str> = fields.iter().map(|field| field.name).collect();
                let hint = match nearest(name, known.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if known.is_empty() => "it takes nothing".to_string(),
                    None => format!("it takes {}", known.join(", ")),
                };
                return Err(format!("unknown argument `{name}`: {hint}"));
            };
            field.check(value)?;
        }
        match fields.iter().find(|field| field.required && !given.contains_key(field.name)) {
            Some(field) => Err(format!("`{}` is missing: {}", field.name, field.about)),
            None => Ok(GivenArguments(given)),
        }
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// Whether a flag is set.
    pub fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The digits of an integer.
    pub fn whole(&self, name: &str) -> Option<String> {
        Some(self.0.get(name)?.as_u64()?.to_string())
    }

    pub fn object(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[ToolField] = &[
        ToolField::required("space", FieldKind::Text, "which space"),
        ToolField::optional("level", FieldKind::OneOf(&["quick", "full"]), "how far"),
        ToolField::optional("seed", FieldKind::Whole, "of the inputs"),
    ];

    fn refused(arguments: Value) -> String {
        GivenArguments::read(Some(&arguments), FIELDS).unwrap_err()
    }

    #[test]
    fn what_fits_is_taken() {
        let given = GivenArguments::read(Some(&json!({ "space": "gemm", "seed": 7 })), FIELDS).unwrap();
        assert_eq!((given.text("space"), given.whole("seed").as_deref()), (Some("gemm"), Some("7")));
        assert_eq!((given.text("level"), given.flag("level")), (None, false));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_what_is_near() {
        assert_eq!(refused(json!({})), "`space` is missing: which space");
        assert_eq!(refused(json!({ "spaec": "gemm" })), "unknown argument `spaec`: did you mean `space`?");
        assert_eq!(refused(json!({ "space": 3 })), "`space` has to be a text");
        assert_eq!(refused(json!({ "space": "a", "seed": -1 })), "`seed` has to be an integer of at least 0");
        assert_eq!(
            refused(json!({ "space": "a", "level": "fulll" })),
            "`level` is one of quick, full, not `fulll`: did you mean `full`?"
        );
        assert_eq!(refused(json!({ "space": "a\0b" })), "`space` contains a NUL character");
        assert!(refused(json!({ "space": "a".repeat(1 << 20) })).contains("at most"));
        assert_eq!(refused(json!([])), "`arguments` has to be an object");
    }
}
