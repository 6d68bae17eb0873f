//! Values of a T1 file with their places.

use serde_json::Value;

use super::error::T1Error;

/// A value, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct T1Node<'v> {
    pub(super) place: String,
    pub(super) value: &'v Value,
}

impl<'v> T1Node<'v> {
    pub(super) fn root(value: &'v Value) -> T1Node<'v> {
        T1Node { place: String::new(), value }
    }

    /// A field; null and absent are the same.
    pub(super) fn find(&self, key: &str) -> Option<T1Node<'v>> {
        let value = self.value.get(key).filter(|own| !own.is_null())?;
        let place = if self.place.is_empty() { key.to_string() } else { format!("{}.{key}", self.place) };
        Some(T1Node { place, value })
    }

    /// A field that the format demands.
    pub(super) fn need(&self, key: &str) -> Result<T1Node<'v>, T1Error> {
        self.find(key).ok_or_else(|| {
            let place = if self.place.is_empty() { "the file".to_string() } else { self.place.clone() };
            T1Error {
                place,
                what: format!("it has no `{key}`"),
                hint: "version 1.0.0 of the format demands it".into(),
            }
        })
    }

    pub(super) fn items(&self) -> Result<Vec<T1Node<'v>>, T1Error> {
        let Some(all) = self.value.as_array() else { return Err(self.wrong("it is not a list")) };
        let item = |(at, value)| T1Node { place: format!("{}[{at}]", self.place), value };
        Ok(all.iter().enumerate().map(item).collect())
    }

    pub(super) fn text(&self) -> Result<&'v str, T1Error> {
        self.value.as_str().ok_or_else(|| self.wrong("it is not a text"))
    }

    /// A text, or a number as one.
    pub(super) fn expression(&self) -> Result<String, T1Error> {
        match self.value {
            Value::String(text) => Ok(spelled(text)),
            Value::Number(number) => Ok(number.to_string()),
            _ => Err(self.wrong("it is neither a text nor a number")),
        }
    }

    pub(super) fn wrong(&self, what: &str) -> T1Error {
        T1Error {
            place: self.place.clone(),
            what: what.to_string(),
            hint: "github.com/odgaard/TuningSchema has the format".to_string(),
        }
    }

    /// Something that the format has and evo does not.
    pub(super) fn unsupported(&self, what: &str, hint: &str) -> T1Error {
        T1Error {
            place: self.place.clone(),
            what: format!("{what} is not supported"),
            hint: hint.to_string(),
        }
    }
}

/// An expression with Python's words for C's signs.
pub(super) fn spelled(text: &str) -> String {
    text.replace("&&", " and ").replace("||", " or ").trim().to_string()
}
