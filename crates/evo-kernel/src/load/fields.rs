//! Typed reading of the tree: every helper complains at the right place and goes on.
//!
//! A reader that gets `None` has already been complained for; it only stops building that part, so
//! that one pass over a file finds all of its errors.

use std::path::{Path, PathBuf};

use evo_space::diagnostic::{Diagnostic, Diagnostics, nearest};
use evo_space::document::{Data, Node, Span, TableEntry};
use evo_space::expr::{Expr, ExprError};
use evo_space::space::Parameter;
use evo_space::value::Value;

use super::names::KnownNames;
use crate::access;
use crate::apart::Renderer;
use crate::label::{LABEL_HINT, is_label};

/// Values shown of a parameter with many.
const SHOWN_VALUES: usize = 24;

/// One file being read.
pub(super) struct Reader<'a> {
    /// The file's text, for places inside texts.
    pub(super) text: &'a str,
    /// Where files that it names are looked for; embedded spaces have none.
    pub(super) folder: Option<&'a Path>,
    /// Whether they may be outside that folder.
    pub(super) allow_outside: bool,
    /// Where templates of files are rendered.
    pub(super) renderer: Renderer,
    pub(super) diagnostics: &'a mut Diagnostics,
}

/// A table whose keys are all known.
pub(super) struct Fields<'n> {
    pub(super) node: &'n Node,
    entries: &'n [TableEntry],
    /// What the table describes, for messages: "argument `q`".
    what: String,
}

impl<'n> Fields<'n> {
    pub(super) fn get(&self, key: &str) -> Option<&'n Node> {
        self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// `key` of what the table describes.
    pub(super) fn name(&self, key: &str) -> String {
        format!("`{key}` of {}", self.what)
    }
}

impl Reader<'_> {
    pub(super) fn error(&mut self, span: &Span, message: impl Into<String>) {
        self.diagnostics.error(span.clone(), message);
    }

    pub(super) fn hinted(&mut self, span: &Span, message: impl Into<String>, hint: Option<String>) {
        self.diagnostics.push(Diagnostic { message: message.into(), span: Some(span.clone()), hint });
    }

    fn wrong_kind(&mut self, node: &Node, what: &str, expected: &str) {
        self.error(&node.span, format!("{what} is {}, expected {expected}", node.kind()));
    }

    /// The fields of a table, after complaining of keys that are not `known`.
    pub(super) fn fields<'n>(&mut self, node: &'n Node, what: &str, known: &[&str]) -> Option<Fields<'n>> {
        let Data::Table(entries) = &node.data else {
            self.wrong_kind(node, what, "a table");
            return None;
        };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            if self.diagnostics.is_full() {
                break;
            }
            let hint = match nearest(&entry.key, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known keys: {}", known.join(", ")),
            };
            self.hinted(&entry.key_span, format!("unknown key `{}` in {what}", entry.key), Some(hint));
        }
        Some(Fields { node, entries, what: what.to_string() })
    }

    /// The value of a key that must be there; the complaint points at the table.
    pub(super) fn required<'n>(&mut self, fields: &Fields<'n>, key: &str, hint: &str) -> Option<&'n Node> {
        let found = fields.get(key);
        if found.is_none() {
            let message = format!("{} has no `{key}`", fields.what);
            self.hinted(&fields.node.span, message, Some(hint.to_string()));
        }
        found
    }

    pub(super) fn list<'n>(&mut self, node: &'n Node, what: &str, items: &str) -> Option<&'n [Node]> {
        if let Data::List(list) = &node.data {
            return Some(list);
        }
        self.wrong_kind(node, what, &format!("a list of {items}"));
        None
    }

    pub(super) fn string(&mut self, node: &Node, what: &str) -> Option<String> {
        match &node.data {
            Data::Text(text) if text.trim().is_empty() => {
                self.error(&node.span, format!("{what} is empty"));
                None
            }
            Data::Text(text) => Some(text.clone()),
            _ => {
                self.wrong_kind(node, what, "a text");
                None
            }
        }
    }

    /// The name of an argument, one of `known`.
    pub(super) fn argument_name(&mut self, node: &Node, what: &str, known: &[String]) -> Option<String> {
        let name = self.string(node, what)?;
        if known.contains(&name) {
            return Some(name);
        }
        let hint = match nearest(&name, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("arguments: {}", known.join(", ")),
        };
        self.hinted(&node.span, format!("{what}: no argument is called `{name}`"), Some(hint));
        None
    }

    /// The parameter's own value that a node means.
    pub(super) fn parameter_value(&mut self, node: &Node, parameter: &Parameter) -> Option<Value> {
        let written = match &node.data {
            Data::Bool(value) => Some(Value::Bool(*value)),
            Data::Int(value) => Some(Value::Int(*value)),
            Data::Float(value) => Some(Value::Float(*value)),
            Data::Text(text) => Some(Value::text(text.clone())),
            Data::BigInt(_) | Data::List(_) | Data::Table(_) | Data::Null => None,
        };
        let found = written.as_ref().and_then(|written| parameter.values.iter().find(|own| *own == written));
        if let Some(own) = found {
            return Some(own.clone());
        }
        let mut values: Vec<String> =
            parameter.values.iter().take(SHOWN_VALUES).map(ToString::to_string).collect();
        if parameter.values.len() > SHOWN_VALUES {
            values.push(format!("… ({} in all)", parameter.values.len()));
        }
        let name = &parameter.name;
        let message = match written {
            Some(Value::Text(text)) => format!("the text `{text}` is not a value of `{name}`"),
            Some(other) => format!("{other} is not a value of `{name}`"),
            None => format!("`{name}` is {}", node.kind()),
        };
        self.hinted(&node.span, message, Some(format!("allowed are {}", values.join(", "))));
        None
    }

    pub(super) fn boolean(&mut self, node: &Node, what: &str) -> Option<bool> {
        if let Data::Bool(value) = &node.data {
            return Some(*value);
        }
        self.wrong_kind(node, what, "true or false");
        None
    }

    /// An integer of at least `least`.
    pub(super) fn integer(&mut self, node: &Node, what: &str, least: i64) -> Option<i64> {
        match &node.data {
            Data::Int(value) if *value >= least => return Some(*value),
            Data::Int(value) => {
                self.error(&node.span, format!("{what} is {value}, expected at least {least}"))
            }
            Data::BigInt(digits) => self.error(&node.span, format!("{what} is {digits}, beyond 64 bits")),
            _ => self.wrong_kind(node, what, "an integer"),
        }
        None
    }

    /// A finite number.
    pub(super) fn number(&mut self, node: &Node, what: &str) -> Option<f64> {
        match &node.data {
            Data::Int(value) => return Some(*value as f64),
            Data::Float(value) if value.is_finite() => return Some(*value),
            Data::Float(value) => {
                self.error(&node.span, format!("{what} is {value}, expected a finite number"))
            }
            _ => self.wrong_kind(node, what, "a number"),
        }
        None
    }

    /// A finite number above 0, or from 0 where `zero` is allowed.
    pub(super) fn positive(&mut self, node: &Node, what: &str, zero: bool) -> Option<f64> {
        let value = self.number(node, what)?;
        if value > 0.0 || (zero && value == 0.0) {
            return Some(value);
        }
        let expected = if zero { "0 or more" } else { "more than 0" };
        self.error(&node.span, format!("{what} is {value}, expected {expected}"));
        None
    }

    /// One of some words.
    pub(super) fn choice<T: Copy>(&mut self, node: &Node, what: &str, words: &[(&str, T)]) -> Option<T> {
        let word = self.string(node, what)?;
        if let Some((_, value)) = words.iter().find(|(own, _)| *own == word) {
            return Some(*value);
        }
        let names = words.iter().map(|(own, _)| *own);
        let hint = match nearest(&word, names.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("one of: {}", names.collect::<Vec<_>>().join(", ")),
        };
        self.hinted(&node.span, format!("{what} is `{word}`, which is unknown"), Some(hint));
        None
    }

    /// An expression over `names`, written as a text, a number or a boolean.
    pub(super) fn expression(&mut self, node: &Node, what: &str, names: &KnownNames) -> Option<Expr> {
        let text = match &node.data {
            Data::Text(text) => text.clone(),
            Data::Int(value) => value.to_string(),
            Data::Float(value) if value.is_finite() => format!("{value:?}"),
            Data::Bool(value) => Value::Bool(*value).to_string(),
            _ => {
                self.wrong_kind(node, what, "an expression (a text or a number)");
                return None;
            }
        };
        match Expr::parse(&text) {
            Ok(expr) => self.with_known_names(node, expr, what, names),
            Err(error) => {
                self.expression_error(node, &text, what, error);
                None
            }
        }
    }

    fn expression_error(&mut self, node: &Node, text: &str, what: &str, error: ExprError) {
        let span = self.span_inside(node, text, &error.span);
        self.hinted(&span, format!("{what}: {}", error.message), error.hint);
    }

    fn with_known_names(&mut self, node: &Node, expr: Expr, what: &str, names: &KnownNames) -> Option<Expr> {
        let mut sound = true;
        for (name, span) in expr.names() {
            if let Some(complaint) = names.complaint(&name) {
                let span = self.span_inside(node, expr.text(), &span);
                self.hinted(&span, format!("{what}: {}", complaint.message), complaint.hint);
                sound = false;
            }
        }
        sound.then_some(expr)
    }

    /// The place in the file of a part of a text value; the whole value where escapes in the file
    /// make the two differ.
    fn span_inside(&self, node: &Node, text: &str, span: &Span) -> Span {
        let raw = self.text.get(node.span.clone()).unwrap_or_default();
        match raw.find(text).map(|at| node.span.start + at) {
            Some(start) if span.end <= text.len() => start + span.start..start + span.end,
            _ => node.span.clone(),
        }
    }

    /// A list of one to three expressions, or a single one.
    pub(super) fn extents(&mut self, node: &Node, what: &str, names: &KnownNames) -> Option<Vec<Expr>> {
        let Data::List(items) = &node.data else {
            return Some(vec![self.expression(node, what, names)?]);
        };
        if items.is_empty() || items.len() > 3 {
            self.error(&node.span, format!("{what} has {} entries, expected one to three", items.len()));
            return None;
        }
        let list: Vec<Option<Expr>> = items.iter().map(|item| self.expression(item, what, names)).collect();
        list.into_iter().collect()
    }

    /// A file named in this one: relative to its folder.
    pub(super) fn path_beside(&self, name: &str) -> PathBuf {
        access::path_beside(self.folder, name)
    }

    /// A name that may become a file's, and stands in reports.
    pub(super) fn label(&mut self, node: &Node, what: &str) -> Option<String> {
        let text = self.string(node, what)?;
        if is_label(&text) {
            return Some(text);
        }
        self.hinted(
            &node.span,
            format!("{what} is `{text}`, which cannot be a name"),
            Some(LABEL_HINT.into()),
        );
        None
    }
}
