//! Values of other tools' JSON files, with their places. Such a file is refused at its first mistake, by name and place.

use evo_space::text::{printable, printable_line, shortened};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct ForeignError {
    /// Keys and indices from the file's root: `inputs.A.dtype`; a line of a file with one object a line before it.
    pub place: String,
    pub what: String,
    pub hint: String,
}

impl ForeignError {
    /// An error with a way out. What it quotes from a file comes in one line.
    pub fn new(place: impl Into<String>, what: impl Into<String>, hint: impl Into<String>) -> ForeignError {
        let [place, what] = [place.into(), what.into()].map(|text: String| printable_line(&text));
        ForeignError { place, what, hint: hint.into() }
    }
}

pub type Read<T> = Result<T, ForeignError>;

/// The JSON of a text; `lead` says where in a file it stands, if it is not the file itself.
pub fn parsed(text: &str, lead: &str, hint: &str) -> Read<Value> {
    serde_json::from_str(text).map_err(|error| {
        let place = match lead {
            "" => format!("line {}, column {}", error.line(), error.column()),
            lead => format!("{lead}, column {}", error.column()),
        };
        // The place is said already.
        let why = error.to_string();
        let why = why.split(" at line ").next().unwrap_or_default();
        ForeignError::new(place, format!("it is not JSON: {why}"), hint)
    })
}

/// Letters of a file's text that a message shows.
const SHOWN: usize = 80;

pub fn shown(text: &str) -> String {
    printable(&shortened(text, SHOWN)).into_owned()
}

#[derive(Clone, Debug)]
pub struct ForeignNode<'v> {
    pub place: String,
    pub value: &'v Value,
    /// The way out where something is missing.
    missing: &'static str,
    /// Where the format is described; the value itself where it is nowhere.
    format: Option<&'static str>,
}

impl<'v> ForeignNode<'v> {
    pub fn root(
        value: &'v Value,
        lead: &str,
        missing: &'static str,
        format: Option<&'static str>,
    ) -> ForeignNode<'v> {
        ForeignNode { place: lead.to_string(), value, missing, format }
    }

    pub fn at(&self, place: String, value: &'v Value) -> ForeignNode<'v> {
        ForeignNode { place, value, ..*self }
    }

    fn beneath(&self, key: &str, value: &'v Value) -> ForeignNode<'v> {
        let key = shown(key);
        self.at(if self.place.is_empty() { key } else { format!("{}.{key}", self.place) }, value)
    }

    /// A field; null and absent are the same.
    pub fn find(&self, key: &str) -> Option<ForeignNode<'v>> {
        self.value.get(key).filter(|value| !value.is_null()).map(|value| self.beneath(key, value))
    }

    /// A field that the form demands.
    pub fn need(&self, key: &str) -> Read<ForeignNode<'v>> {
        self.need_or(key, self.missing)
    }

    pub fn need_or(&self, key: &str, hint: &str) -> Read<ForeignNode<'v>> {
        self.find(key).ok_or_else(|| {
            let place = if self.place.is_empty() { "the file" } else { self.place.as_str() };
            ForeignError::new(place, format!("it has no `{key}`"), hint)
        })
    }

    pub fn entries(&self) -> Read<Vec<(&'v str, ForeignNode<'v>)>> {
        let all = self.value.as_object().ok_or_else(|| self.wrong("it is not an object"))?;
        Ok(all.iter().map(|(key, value)| (key.as_str(), self.beneath(key, value))).collect())
    }

    pub fn items(&self) -> Read<Vec<ForeignNode<'v>>> {
        let all = self.value.as_array().ok_or_else(|| self.wrong("it is not a list"))?;
        Ok(all
            .iter()
            .enumerate()
            .map(|(at, value)| self.at(format!("{}[{at}]", self.place), value))
            .collect())
    }

    /// The items of a field; none where it is absent.
    pub fn list(&self, key: &str) -> Read<Vec<ForeignNode<'v>>> {
        self.find(key).map_or(Ok(Vec::new()), |list| list.items())
    }

    /// The text of a field that may be absent.
    pub fn word(&self, key: &str) -> Read<Option<&'v str>> {
        self.find(key).map(|word| word.text()).transpose()
    }

    pub fn text(&self) -> Read<&'v str> {
        self.value.as_str().ok_or_else(|| self.wrong("it is not a text"))
    }

    /// A whole number from 0 that an extent can be.
    pub fn extent(&self) -> Read<u64> {
        let value = self.value.as_u64().filter(|value| *value <= i64::MAX as u64);
        value.ok_or_else(|| self.wrong("it is not a whole number from 0"))
    }

    pub fn number(&self) -> Read<f64> {
        let value = self.value.as_f64().filter(|value| value.is_finite());
        value.ok_or_else(|| self.wrong("it is not a number"))
    }

    pub fn wrong(&self, what: &str) -> ForeignError {
        let hint =
            self.format.map_or_else(|| format!("it is {}", shown(&self.value.to_string())), str::to_string);
        ForeignError::new(&self.place, what, hint)
    }

    pub fn unsupported(&self, what: &str, hint: &str) -> ForeignError {
        ForeignError::new(&self.place, format!("{what} is not supported"), hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_says_stays_in_one_line() {
        let error = ForeignError::new("outputs.y\n", "the type `a\nb` is not supported", "use f32");
        assert_eq!(error.to_string(), r"outputs.y\n: the type `a\nb` is not supported");
    }
}
