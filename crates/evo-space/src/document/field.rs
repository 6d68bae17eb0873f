//! Typed reading of the tree: every helper complains at the right place and goes on.
//!
//! A reader that gets `None` has already been complained for; it only stops building that part, so
//! that one pass over a file finds all of its errors.

use std::cell::RefCell;
use std::fmt;

use super::{Data, Node, Span, TableEntry};
use crate::diagnostic::{Diagnostic, Diagnostics, suggestion};

/// A value of a file, with what messages call it (`` `grid` of launch `scale` ``) and where complaints go.
pub struct Field<'a, C = ()> {
    pub node: &'a Node,
    what: String,
    /// What the readers of one kind of file know beside the value.
    pub context: &'a C,
    diagnostics: &'a RefCell<Diagnostics>,
}

impl<C> fmt::Display for Field<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl<'a, C> Field<'a, C> {
    pub fn new(
        node: &'a Node,
        what: impl Into<String>,
        context: &'a C,
        diagnostics: &'a RefCell<Diagnostics>,
    ) -> Field<'a, C> {
        Field { node, what: what.into(), context, diagnostics }
    }

    /// Another value of the same file, or this one by another name.
    pub fn at<'b>(&self, node: &'b Node, what: impl Into<String>) -> Field<'b, C>
    where
        'a: 'b,
    {
        Field::new(node, what, self.context, self.diagnostics)
    }

    /// What lies under a path of keys, or as far on the way to it as there is something.
    pub fn below(&self, path: &[&str]) -> Field<'a, C> {
        let mut node = self.node;
        for key in path {
            let Some(inner) = node.get(key) else { break };
            node = inner;
        }
        self.at(node, &self.what)
    }

    /// The same value for readers that know something else.
    pub fn with<'b, D>(&self, context: &'b D) -> Field<'b, D>
    where
        'a: 'b,
    {
        Field::new(self.node, &self.what, context, self.diagnostics)
    }

    /// The value by the name that a text in its table gives it: `` argument `q` ``, or `an argument` without one.
    pub fn titled(&self, kind: &str, key: &str, otherwise: &str) -> Field<'a, C> {
        let title = self.node.text(key).map(|name| format!("{kind} `{name}`"));
        self.at(self.node, title.unwrap_or_else(|| otherwise.to_string()))
    }

    pub(crate) fn complaints(&self) -> usize {
        self.diagnostics.borrow().list().len()
    }

    /// Whether there are so many that nobody reads more.
    pub(crate) fn is_full(&self) -> bool {
        self.diagnostics.borrow().is_full()
    }

    pub fn complain(&self, span: &Span, message: impl Into<String>, hint: Option<String>) {
        let (message, span) = (message.into(), Some(span.clone()));
        self.diagnostics.borrow_mut().push(Diagnostic { message, span, hint });
    }

    pub fn error(&self, message: impl Into<String>) {
        self.complain(&self.node.span, message, None);
    }

    pub fn hinted(&self, message: impl Into<String>, hint: impl Into<String>) {
        self.complain(&self.node.span, message, Some(hint.into()));
    }

    /// Complains, and gives nothing.
    pub fn wrong<T>(&self, message: impl Into<String>) -> Option<T> {
        self.error(message);
        None
    }

    pub fn refuse<T>(&self, message: impl Into<String>, hint: impl Into<String>) -> Option<T> {
        self.hinted(message, hint);
        None
    }

    pub fn wrong_kind<T>(&self, expected: &str) -> Option<T> {
        self.wrong(format!("{self} is {}, expected {expected}", self.node.kind()))
    }

    /// Complains where this is not a table, and of keys that are not `known`.
    pub fn keys(&self, known: &[&str]) -> Option<()> {
        let entries = self.entries("a table")?;
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            if self.is_full() {
                break;
            }
            let listed = || format!("known keys: {}", known.join(", "));
            let hint = suggestion(&entry.key, known.iter().copied(), listed);
            self.complain(&entry.key_span, format!("unknown key `{}` in {self}", entry.key), Some(hint));
        }
        Some(())
    }

    /// The entries of a table whose keys are names of something else.
    pub fn entries(&self, expected: &str) -> Option<&'a [TableEntry]> {
        self.node.entries().or_else(|| self.wrong_kind(expected))
    }

    /// The value of a key, called `` `key` of … ``.
    pub fn get(&self, key: &str) -> Option<Field<'a, C>> {
        self.node.get(key).map(|node| self.at(node, format!("`{key}` of {self}")))
    }

    /// The value of a key that must be there; the complaint points at the table.
    pub fn required(&self, key: &str, hint: &str) -> Option<Field<'a, C>> {
        self.get(key).or_else(|| self.refuse(format!("{self} has no `{key}`"), hint))
    }

    pub fn need<T>(&self, key: &str, hint: &str, read: impl FnOnce(&Field<'a, C>) -> Option<T>) -> Option<T> {
        read(&self.required(key, hint)?)
    }

    /// What `read` makes of a key, or what an absent one means.
    pub fn or<T>(&self, key: &str, absent: T, read: impl FnOnce(&Field<'a, C>) -> Option<T>) -> Option<T> {
        self.get(key).map_or(Some(absent), |field| read(&field))
    }

    /// What `read` makes of a key that may be absent; the outer `None` is a complaint.
    pub fn optional<T>(&self, key: &str, read: impl FnOnce(&Field<'a, C>) -> Option<T>) -> Option<Option<T>> {
        self.or(key, None, |field| read(field).map(Some))
    }

    /// The items of a list, each by the list's name.
    pub fn list(&self, items: &str) -> Option<Vec<Field<'a, C>>> {
        let Data::List(list) = &self.node.data else { return self.wrong_kind(&format!("a list of {items}")) };
        Some(list.iter().map(|item| self.at(item, &self.what)).collect())
    }

    /// What `read` makes of a list's items. All of them are read, so that one pass shows the errors of all.
    pub fn each<T>(&self, items: &str, read: impl FnMut(&Field<'a, C>) -> Option<T>) -> Option<Vec<T>> {
        let found: Vec<_> = self.list(items)?.iter().map(read).collect();
        found.into_iter().collect()
    }

    pub fn string(&self) -> Option<String> {
        match &self.node.data {
            Data::Text(text) if text.trim().is_empty() => self.wrong(format!("{self} is empty")),
            Data::Text(text) => Some(text.clone()),
            _ => self.wrong_kind("a text"),
        }
    }

    pub fn boolean(&self) -> Option<bool> {
        if let Data::Bool(value) = self.node.data { Some(value) } else { self.wrong_kind("true or false") }
    }

    pub fn integer(&self, least: i64) -> Option<i64> {
        match &self.node.data {
            Data::Int(value) if *value >= least => Some(*value),
            Data::Int(value) => self.wrong(format!("{self} is {value}, expected at least {least}")),
            Data::BigInt(digits) => self.wrong(format!("{self} is {digits}, beyond 64 bits")),
            _ => self.wrong_kind("an integer"),
        }
    }

    pub fn number(&self) -> Option<f64> {
        match self.node.data {
            Data::Int(value) => Some(value as f64),
            Data::Float(value) if value.is_finite() => Some(value),
            Data::Float(value) => self.wrong(format!("{self} is {value}, expected a finite number")),
            _ => self.wrong_kind("a number"),
        }
    }

    /// A finite number above 0, or from 0 where `zero` is allowed.
    pub fn positive(&self, zero: bool) -> Option<f64> {
        let value = self.number()?;
        if value > 0.0 || (zero && value == 0.0) {
            return Some(value);
        }
        let expected = if zero { "0 or more" } else { "more than 0" };
        self.wrong(format!("{self} is {value}, expected {expected}"))
    }

    pub fn choice<T: Copy>(&self, words: &[(&str, T)]) -> Option<T> {
        let word = self.string()?;
        if let Some((_, value)) = words.iter().find(|(name, _)| *name == word) {
            return Some(*value);
        }
        let names = words.iter().map(|(name, _)| *name);
        let hint =
            suggestion(&word, names.clone(), || format!("one of: {}", names.collect::<Vec<_>>().join(", ")));
        self.refuse(format!("{self} is `{word}`, which is unknown"), hint)
    }
}
