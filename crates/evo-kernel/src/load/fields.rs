//! Typed reading of the tree: every helper complains at the right place and goes on.
//!
//! A reader that gets `None` has already been complained for; it only stops building that part, so
//! that one pass over a file finds all of its errors.
//!
//! Which names an expression of a space file may read: parameters, and sizes that every problem has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use evo_space::diagnostic::{Diagnostic, Diagnostics, nearest};
use evo_space::document::{Data, Node, Span, TableEntry};
use evo_space::expr::Expr;
use evo_space::space::Parameter;
use evo_space::value::Value;

use crate::access;
use crate::apart::Renderer;
use crate::label::{LABEL_HINT, is_label};

/// Values shown of a parameter with many.
const SHOWN_VALUES: usize = 24;

pub(super) struct Reader<'a> {
    /// The file's text, for places inside texts.
    pub(super) text: &'a str,
    /// Where files that it names are looked for; embedded spaces have none.
    pub(super) folder: Option<&'a Path>,
    /// Whether they may be outside that folder.
    pub(super) allow_outside: bool,
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

/// A hint for a name that is unknown: the known one that was meant, if one is near.
pub(super) fn suggestion<'k>(
    name: &str,
    known: impl IntoIterator<Item = &'k str>,
    otherwise: impl FnOnce() -> String,
) -> String {
    nearest(name, known).map_or_else(otherwise, |near| format!("did you mean `{near}`?"))
}

impl Reader<'_> {
    pub(super) fn error(&mut self, span: &Span, message: impl Into<String>) {
        self.diagnostics.error(span.clone(), message);
    }

    pub(super) fn hinted(&mut self, span: &Span, message: impl Into<String>, hint: Option<String>) {
        self.diagnostics.push(Diagnostic { message: message.into(), span: Some(span.clone()), hint });
    }

    /// Complains, and gives nothing.
    pub(super) fn refuse<T>(
        &mut self,
        span: &Span,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Option<T> {
        self.hinted(span, message, Some(hint.into()));
        None
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
            let hint =
                suggestion(&entry.key, known.iter().copied(), || format!("known keys: {}", known.join(", ")));
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

    /// What `read` makes of a key that must be there.
    pub(super) fn need<T>(
        &mut self,
        fields: &Fields,
        key: &str,
        hint: &str,
        read: impl FnOnce(&mut Self, &Node, &str) -> Option<T>,
    ) -> Option<T> {
        let node = self.required(fields, key, hint)?;
        read(self, node, &fields.name(key))
    }

    /// What `read` makes of a key, or what stands for an absent one.
    pub(super) fn value<T>(
        &mut self,
        fields: &Fields,
        key: &str,
        absent: T,
        read: impl FnOnce(&mut Self, &Node, &str) -> Option<T>,
    ) -> Option<T> {
        fields.get(key).map_or(Some(absent), |node| read(self, node, &fields.name(key)))
    }

    /// What `read` makes of a key that may be absent; the outer `None` is a complaint.
    pub(super) fn optional<T>(
        &mut self,
        fields: &Fields,
        key: &str,
        read: impl FnOnce(&mut Self, &Node, &str) -> Option<T>,
    ) -> Option<Option<T>> {
        self.value(fields, key, None, |reader, node, what| read(reader, node, what).map(Some))
    }

    /// What `read` makes of a list's items. All of them are read, so that one pass shows the errors of all.
    pub(super) fn each<T>(
        &mut self,
        node: &Node,
        what: &str,
        items: &str,
        mut read: impl FnMut(&mut Self, &Node) -> Option<T>,
    ) -> Option<Vec<T>> {
        let found: Vec<_> = self.list(node, what, items)?.iter().map(|item| read(self, item)).collect();
        found.into_iter().collect()
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

    pub(super) fn argument_name(&mut self, node: &Node, what: &str, known: &[String]) -> Option<String> {
        let name = self.string(node, what)?;
        if known.contains(&name) {
            return Some(name);
        }
        let hint = suggestion(&name, known.iter().map(String::as_str), || {
            format!("arguments: {}", known.join(", "))
        });
        self.refuse(&node.span, format!("{what}: no argument is called `{name}`"), hint)
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
        self.refuse(&node.span, message, format!("allowed are {}", values.join(", ")))
    }

    pub(super) fn boolean(&mut self, node: &Node, what: &str) -> Option<bool> {
        if let Data::Bool(value) = &node.data {
            return Some(*value);
        }
        self.wrong_kind(node, what, "true or false");
        None
    }

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

    pub(super) fn choice<T: Copy>(&mut self, node: &Node, what: &str, words: &[(&str, T)]) -> Option<T> {
        let word = self.string(node, what)?;
        if let Some((_, value)) = words.iter().find(|(own, _)| *own == word) {
            return Some(*value);
        }
        let names = words.iter().map(|(own, _)| *own);
        let hint =
            suggestion(&word, names.clone(), || format!("one of: {}", names.collect::<Vec<_>>().join(", ")));
        self.refuse(&node.span, format!("{what} is `{word}`, which is unknown"), hint)
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
                let span = self.span_inside(node, &text, &error.span);
                self.hinted(&span, format!("{what}: {}", error.message), error.hint);
                None
            }
        }
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

    pub(super) fn path_beside(&self, name: &str) -> PathBuf {
        access::path_beside(self.folder, name)
    }

    /// A name that may become a file's, and stands in reports.
    pub(super) fn label(&mut self, node: &Node, what: &str) -> Option<String> {
        let text = self.string(node, what)?;
        if is_label(&text) {
            return Some(text);
        }
        self.refuse(&node.span, format!("{what} is `{text}`, which cannot be a name"), LABEL_HINT)
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct KnownNames {
    parameters: Vec<String>,
    /// Name and sizes of each problem that the expression is evaluated for.
    problems: Vec<(String, BTreeSet<String>)>,
    /// The number of a loop's turn.
    index: Option<String>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Complaint {
    pub(super) message: String,
    pub(super) hint: Option<String>,
}

impl KnownNames {
    /// The names in a file, read before anything else, so that a mistake in a parameter does not
    /// make its uses look unknown.
    pub(super) fn of_file(root: &Node) -> KnownNames {
        let keys = |node: Option<&Node>| -> Vec<String> {
            node.and_then(Node::entries).into_iter().flatten().map(|entry| entry.key.clone()).collect()
        };
        let mut problems = Vec::new();
        if let Some(Data::List(list)) = root.get("problems").map(|node| &node.data) {
            for (position, problem) in list.iter().enumerate() {
                let name = match problem.get("name").map(|node| &node.data) {
                    Some(Data::Text(name)) => format!("`{name}`"),
                    _ => format!("number {}", position + 1),
                };
                problems.push((name, keys(problem.get("sizes")).into_iter().collect()));
            }
        }
        KnownNames { parameters: keys(root.get("parameters")), problems, index: None }
    }

    /// Without the parameters: for a reference, which no configuration may change.
    pub(super) fn sizes_only(&self) -> KnownNames {
        KnownNames { parameters: Vec::new(), ..self.clone() }
    }

    /// Without the sizes: for what is compiled once for all problems.
    pub(super) fn parameters_only(&self) -> KnownNames {
        KnownNames { problems: Vec::new(), ..self.clone() }
    }

    /// With the sizes of the first problem only: for tiny shapes.
    pub(super) fn first_problem(&self) -> KnownNames {
        KnownNames { problems: self.problems.iter().take(1).cloned().collect(), ..self.clone() }
    }

    /// With the number of a loop's turn.
    pub(super) fn with_index(&self, name: Option<String>) -> KnownNames {
        KnownNames { index: name.filter(|own| self.complaint(own).is_some()), ..self.clone() }
    }

    pub(super) fn parameters(&self) -> Vec<&str> {
        self.parameters.iter().map(String::as_str).collect()
    }

    pub(super) fn is_parameter(&self, name: &str) -> bool {
        self.parameters.iter().any(|own| own == name)
    }

    /// Sizes that any problem has.
    pub(super) fn sizes(&self) -> BTreeSet<&str> {
        self.problems.iter().flat_map(|(_, sizes)| sizes).map(String::as_str).collect()
    }

    pub(super) fn complaint(&self, name: &str) -> Option<Complaint> {
        if self.is_parameter(name) || self.index.as_deref() == Some(name) {
            return None;
        }
        let (with, without): (Vec<_>, Vec<_>) =
            self.problems.iter().partition(|(_, sizes)| sizes.contains(name));
        match (with.first(), without.first()) {
            (Some(_), None) => None,
            (Some((other, _)), Some((lacking, _))) => Some(Complaint {
                message: format!("problem {lacking} has no size `{name}`"),
                hint: Some(format!("problem {other} has it; an expression is evaluated for every problem")),
            }),
            (None, _) => Some(Complaint {
                message: format!("unknown name `{name}`"),
                hint: Some(self.suggestion(name)),
            }),
        }
    }

    fn suggestion(&self, name: &str) -> String {
        let sizes = self.sizes();
        let known: Vec<&str> =
            self.parameters().into_iter().chain(sizes).chain(self.index.as_deref()).collect();
        // Any two names of one letter are one slip apart, so for those only the case may differ.
        let likely = |near: &&str| name.len() > 1 || near.eq_ignore_ascii_case(name);
        match nearest(name, known.iter().copied()).filter(likely) {
            Some(near) => format!("did you mean `{near}`?"),
            None if known.is_empty() => "no names are known here".to_string(),
            None => format!("known names: {}", known.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use evo_space::diagnostic::Diagnostics;
    use evo_space::document;

    use super::*;

    const FILE: &str = "parameters = { BLOCK = [1], VEC = [2] }\n\
        problems = [{ name = \"a\", sizes = { N = 1, K = 2 } }, { sizes = { N = 3 } }]\n";

    fn names() -> KnownNames {
        KnownNames::of_file(&document::parse(FILE, &mut Diagnostics::default()).unwrap())
    }

    #[track_caller]
    fn check(names: &KnownNames, name: &str, expected: &str) {
        let shown = match names.complaint(name) {
            Some(complaint) => format!("{} | {}", complaint.message, complaint.hint.unwrap_or_default()),
            None => "fine".to_string(),
        };
        assert_eq!(shown, expected, "{name}");
    }

    #[test]
    fn parameters_and_common_sizes_are_known() {
        let all = names();
        check(&all, "BLOCK", "fine");
        check(&all, "N", "fine");
        check(
            &all,
            "K",
            "problem number 2 has no size `K` | problem `a` has it; an expression is evaluated for every problem",
        );
        check(&all, "BLOK", "unknown name `BLOK` | did you mean `BLOCK`?");
        check(&all, "n", "unknown name `n` | did you mean `N`?");
        check(&all, "M", "unknown name `M` | known names: BLOCK, VEC, K, N");
    }

    #[test]
    fn references_and_tiny_shapes_know_less_and_more() {
        check(&names().sizes_only(), "BLOCK", "unknown name `BLOCK` | known names: K, N");
        check(&names().first_problem(), "K", "fine");
        check(&KnownNames::default(), "K", "unknown name `K` | no names are known here");
    }
}
