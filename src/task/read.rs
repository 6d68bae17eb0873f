//! Values of a task's file with their places.

use evo_space::text::{printable, shortened};
use evo_space::value::Value as Number;
use serde_json::Value;

use super::error::TaskError;

/// Letters of a file's text that a message shows.
const SHOWN: usize = 80;

/// A value, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct TaskNode<'v> {
    pub(super) place: String,
    pub(super) value: &'v Value,
}

/// A text of a file, fit for a message.
pub(super) fn shown(text: &str) -> String {
    printable(&shortened(text, SHOWN)).into_owned()
}

pub(super) fn parsed(text: &str, lead: &str) -> Result<Value, TaskError> {
    serde_json::from_str(text).map_err(|error| {
        let place = match lead {
            "" => format!("line {}, column {}", error.line(), error.column()),
            lead => format!("{lead}, column {}", error.column()),
        };
        // The place is said already.
        let why = error.to_string();
        let why = why.split(" at line ").next().unwrap_or_default();
        TaskError::new(place, format!("it is not JSON: {why}"), "name the task's own file")
    })
}

impl<'v> TaskNode<'v> {
    pub(super) fn root(value: &'v Value, lead: &str) -> TaskNode<'v> {
        TaskNode { place: lead.to_string(), value }
    }

    fn beneath(&self, key: &str) -> String {
        let key = shown(key);
        if self.place.is_empty() { key } else { format!("{}.{key}", self.place) }
    }

    /// A field; null and absent are the same.
    pub(super) fn find(&self, key: &str) -> Option<TaskNode<'v>> {
        let value = self.value.get(key).filter(|own| !own.is_null())?;
        Some(TaskNode { place: self.beneath(key), value })
    }

    /// A field that the form demands.
    pub(super) fn need(&self, key: &str, hint: &str) -> Result<TaskNode<'v>, TaskError> {
        self.find(key).ok_or_else(|| {
            let place = if self.place.is_empty() { "the file" } else { self.place.as_str() };
            TaskError::new(place, format!("it has no `{key}`"), hint)
        })
    }

    /// The entries of an object, in the file's order.
    pub(super) fn entries(&self) -> Result<Vec<(&'v str, TaskNode<'v>)>, TaskError> {
        let Some(all) = self.value.as_object() else { return Err(self.wrong("it is not an object")) };
        let one = |(key, value): (&'v String, &'v Value)| {
            (key.as_str(), TaskNode { place: self.beneath(key), value })
        };
        Ok(all.iter().map(one).collect())
    }

    pub(super) fn items(&self) -> Result<Vec<TaskNode<'v>>, TaskError> {
        let Some(all) = self.value.as_array() else { return Err(self.wrong("it is not a list")) };
        let item = |(at, value)| TaskNode { place: format!("{}[{at}]", self.place), value };
        Ok(all.iter().enumerate().map(item).collect())
    }

    pub(super) fn text(&self) -> Result<&'v str, TaskError> {
        self.value.as_str().ok_or_else(|| self.wrong("it is not a text"))
    }

    /// A whole number from 0 that an extent can be.
    pub(super) fn extent(&self) -> Result<u64, TaskError> {
        let value = self.value.as_u64().filter(|own| *own <= i64::MAX as u64);
        value.ok_or_else(|| self.wrong("it is not a whole number from 0"))
    }

    pub(super) fn number(&self) -> Result<f64, TaskError> {
        let value = self.value.as_f64().filter(|own| own.is_finite());
        value.ok_or_else(|| self.wrong("it is not a number"))
    }

    /// Something of the wrong kind.
    pub(super) fn wrong(&self, what: &str) -> TaskError {
        TaskError::new(&self.place, what, format!("it is {}", shown(&self.value.to_string())))
    }

    /// Something that evo does not have.
    pub(super) fn unsupported(&self, what: &str, hint: &str) -> TaskError {
        TaskError::new(&self.place, format!("{what} is not supported"), hint)
    }
}

/// A result that can be an extent: whole, and 0 or more.
pub(super) fn whole(value: &Number) -> Option<u64> {
    match value {
        Number::Int(own) => u64::try_from(*own).ok(),
        Number::Float(own) => (own.fract() == 0.0 && (0.0..9e15).contains(own)).then_some(*own as u64),
        Number::Bool(_) | Number::Text(_) => None,
    }
}
