//! Values of a T1 file with their places.

use evo_space::text::{printable, shortened};
use serde_json::Value;

use super::error::T1Error;
use crate::first_file::is_plain;

/// Letters of a file's text that a message shows.
const SHOWN: usize = 80;

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

    /// A text that may stand anywhere in a file: nothing in it ends a line or a literal.
    pub(super) fn plain(&self) -> Result<&'v str, T1Error> {
        let text = self.text()?;
        match is_plain(text) {
            true => Ok(text),
            false => Err(self.wrong("it has a quote, a backslash or a control character")),
        }
    }

    /// A name of C, as macros, variables and keys of a space file have it.
    pub(super) fn name(&self) -> Result<&'v str, T1Error> {
        let text = self.text()?;
        let is_word = text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        match is_word && !text.is_empty() && !text.starts_with(|c: char| c.is_ascii_digit()) {
            true => Ok(text),
            false => Err(self.wrong("it is not a name of letters, digits and `_`")),
        }
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
            what: format!("{} is not supported", shown(what)),
            hint: hint.to_string(),
        }
    }
}

/// The start of a text, for messages.
fn shown(text: &str) -> String {
    printable(&shortened(text, SHOWN)).into_owned()
}

/// An expression with Python's words for C's signs.
pub(super) fn spelled(text: &str) -> String {
    text.replace("&&", " and ").replace("||", " or ").trim().to_string()
}
