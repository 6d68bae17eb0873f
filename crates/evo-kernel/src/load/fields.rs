//! What the readers of a kernel's part add to `Field`: files, labels, and expressions over the names that they may read:
//! parameters, and sizes that every problem has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use evo_protocol::dtype::DType;
use evo_space::diagnostic::nearest;
use evo_space::document::{self, Data, Node, Span, suggestion};
use evo_space::expr::Expr;
use evo_space::space::Parameter;
use evo_space::value::Value;

use crate::access;
use crate::apart::Renderer;
use crate::label::{LABEL_HINT, is_label};
use crate::spec::ArgumentSpec;

const SHOWN_VALUES: usize = 24;

pub(super) type Field<'a> = document::Field<'a, Scope<'a>>;

#[derive(Clone)]
pub(super) struct Scope<'a> {
    /// The file's text, for places inside texts.
    pub(super) text: &'a str,
    /// Where files that it names are looked for; embedded spaces have none.
    pub(super) folder: Option<&'a Path>,
    pub(super) allow_outside: bool,
    pub(super) renderer: Renderer,
    pub(super) names: KnownNames,
    pub(super) arguments: Vec<WrittenArgument>,
}

impl<'a> Scope<'a> {
    /// For a file that names no others.
    pub(super) fn of_text(text: &'a str, names: KnownNames) -> Scope<'a> {
        let (folder, allow_outside, renderer) = (None, false, Renderer::Here);
        Scope { text, folder, allow_outside, renderer, names, arguments: Vec::new() }
    }

    pub(super) fn naming(&self, names: KnownNames) -> Scope<'a> {
        Scope { names, ..self.clone() }
    }

    /// Where launches may pass these arguments alone, and those that lie in a variable too.
    pub(super) fn passing<'s>(&self, arguments: impl Iterator<Item = &'s ArgumentSpec>) -> Scope<'a> {
        let there: Vec<&str> = arguments.map(ArgumentSpec::name).collect();
        let all = self.arguments.iter().filter(|own| there.contains(&own.name.as_str()));
        let arguments = all.map(|own| {
            let other = own.other.filter(|_| own.symbol.is_none());
            WrittenArgument { symbol: None, other, ..own.clone() }
        });
        let arguments = arguments.collect();
        Scope { arguments, ..self.clone() }
    }

    pub(super) fn path_beside(&self, name: &str) -> PathBuf {
        access::path_beside(self.folder, name)
    }
}

/// Builds a struct of fields that may be missing. All of them are read before the first missing one ends it, so that one
/// pass finds all of the errors.
macro_rules! read_all {
    ($name:ident { $($field:ident $(: $value:expr)?),* $(,)? }) => {{
        $($(let $field = $value;)?)*
        Some($name { $($field: $field?),* })
    }};
}
pub(super) use read_all;

/// An argument as the file has it, read before anything else, so that a mistake elsewhere in it does not make its uses
/// unknown.
#[derive(Clone)]
pub(super) struct WrittenArgument {
    pub(super) name: String,
    pub(super) dtype: String,
    /// The variable of the module that holds it.
    pub(super) symbol: Option<String>,
    pub(super) other: Option<&'static str>,
}

impl WrittenArgument {
    pub(super) fn all(root: &Node) -> Vec<WrittenArgument> {
        let items = root.get("arguments").and_then(Node::items).unwrap_or_default();
        let read = |item: &Node| {
            let text = |key: &str| item.text(key).map(str::to_string);
            let kinds = [
                (item.get("value").is_some(), "a scalar"),
                (item.get("kind").is_some(), "a tensor map"),
                (item.get("symbol").is_some(), "a variable of the module"),
            ];
            let other = kinds.into_iter().find(|(is_it, _)| *is_it).map(|(_, what)| what);
            let dtype = text("dtype").unwrap_or_default();
            Some(WrittenArgument { name: text("name")?, dtype, symbol: text("symbol"), other })
        };
        items.iter().filter_map(read).collect()
    }
}

/// An argument that a launch may pass, by its name.
pub(super) fn argument<'a>(field: &Field<'a>) -> Option<&'a WrittenArgument> {
    let name = field.string()?;
    let known = &field.context.arguments;
    known.iter().find(|own| own.name == name).or_else(|| {
        let names: Vec<&str> = known.iter().map(|own| own.name.as_str()).collect();
        let hint = suggestion(&name, names.iter().copied(), || format!("arguments: {}", names.join(", ")));
        field.refuse(format!("{field}: no argument is called `{name}`"), hint)
    })
}

/// The parameter's own value that a node means.
pub(super) fn parameter_value(field: &Field, parameter: &Parameter) -> Option<Value> {
    let written = field.node.value();
    let found = written.as_ref().and_then(|written| parameter.values.iter().find(|value| *value == written));
    if let Some(value) = found {
        return Some(value.clone());
    }
    let all = parameter.values.len();
    let more = (all > SHOWN_VALUES).then(|| format!("… ({all} in all)"));
    let values = parameter.values.iter().take(SHOWN_VALUES).map(ToString::to_string).chain(more);
    let name = &parameter.name;
    let message = match written {
        Some(Value::Text(text)) => format!("the text `{text}` is not a value of `{name}`"),
        Some(other) => format!("{other} is not a value of `{name}`"),
        None => format!("`{name}` is {}", field.node.kind()),
    };
    field.refuse(message, format!("allowed are {}", values.collect::<Vec<_>>().join(", ")))
}

/// An expression over the known names, written as a text, a number or a boolean.
pub(super) fn expression(field: &Field) -> Option<Expr> {
    let text = match &field.node.data {
        Data::Text(text) => text.clone(),
        Data::Int(value) => value.to_string(),
        Data::Float(value) if value.is_finite() => format!("{value:?}"),
        Data::Bool(value) => Value::Bool(*value).to_string(),
        _ => return field.wrong_kind("an expression (a text or a number)"),
    };
    let complain = |span: &Span, message: &str, hint| {
        field.complain(&span_inside(field, &text, span), format!("{field}: {message}"), hint);
    };
    let parsed = Expr::parse(&text);
    let expr = parsed.map_err(|error| complain(&error.span, &error.message, error.hint)).ok()?;
    let mut sound = true;
    for (name, span) in expr.names() {
        if let Some((message, hint)) = field.context.names.complaint(&name) {
            complain(&span, &message, Some(hint));
            sound = false;
        }
    }
    sound.then_some(expr)
}

/// The place in the file of a part of a text value; the whole value where escapes in the file
/// make the two differ.
fn span_inside(field: &Field, text: &str, span: &Span) -> Span {
    let place = &field.node.span;
    let raw = field.context.text.get(place.clone()).unwrap_or_default();
    match raw.find(text).map(|at| place.start + at) {
        Some(start) if span.end <= text.len() => start + span.start..start + span.end,
        _ => place.clone(),
    }
}

pub(super) fn expressions(field: &Field) -> Option<Vec<Expr>> {
    field.each("expressions", expression)
}

/// A list of one to three expressions, or a single one.
pub(super) fn extents(field: &Field) -> Option<Vec<Expr>> {
    match &field.node.data {
        Data::List(items) if items.is_empty() || items.len() > 3 => {
            field.wrong(format!("{field} has {} entries, expected one to three", items.len()))
        }
        Data::List(_) => expressions(field),
        _ => Some(vec![expression(field)?]),
    }
}

pub(super) fn dtype(field: &Field) -> Option<DType> {
    let words: Vec<_> = DType::ALL.iter().map(|dtype| (dtype.as_str(), *dtype)).collect();
    field.choice(&words)
}

/// A name that may become a file's, and stands in reports.
pub(super) fn label(field: &Field) -> Option<String> {
    let text = field.string()?;
    match is_label(&text) {
        true => Some(text),
        false => field.refuse(format!("{field} is `{text}`, which cannot be a name"), LABEL_HINT),
    }
}

/// A name that an expression could read here.
pub(super) fn known_name(field: &Field) -> Option<String> {
    let name = field.string()?;
    let Some((message, hint)) = field.context.names.complaint(&name) else { return Some(name) };
    field.refuse(format!("{field}: {message}"), hint)
}

/// What `read` makes of a list's tables, no two of which may have one name.
pub(super) fn named_tables<T>(
    items: &[Field],
    kind: &str,
    read: impl Fn(&Field) -> Option<T>,
    name: impl Fn(&T) -> &str,
) -> Option<Vec<T>> {
    let mut found: Vec<Option<T>> = Vec::new();
    for item in items {
        let table = read(item);
        if let (Some(table), Some(field)) = (&table, item.get("name"))
            && found.iter().flatten().any(|other| name(other) == name(table))
        {
            field.error(format!("two {kind} are called `{}`", name(table)));
        }
        found.push(table);
    }
    found.into_iter().collect()
}

pub(super) fn names_once(
    field: &Field,
    items: &str,
    read: impl Fn(&Field) -> Option<String>,
) -> Option<Vec<String>> {
    let items = field.list(items)?;
    let mut found: Vec<String> = Vec::new();
    for item in &items {
        match read(item) {
            Some(name) if found.contains(&name) => item.error(format!("{item} names `{name}` twice")),
            name => found.extend(name),
        }
    }
    (found.len() == items.len()).then_some(found)
}

#[derive(Clone, Debug, Default)]
pub(super) struct KnownNames {
    parameters: Vec<String>,
    /// Name and sizes of each problem that the expression is evaluated for.
    problems: Vec<(String, BTreeSet<String>)>,
    index: Option<String>,
}

impl KnownNames {
    /// The names in a file, read before anything else, so that a mistake in a parameter does not
    /// make its uses look unknown.
    pub(super) fn of_file(root: &Node) -> KnownNames {
        let keys = |node: Option<&Node>| -> Vec<String> {
            node.and_then(Node::entries).into_iter().flatten().map(|entry| entry.key.clone()).collect()
        };
        let problems = root.get("problems").and_then(Node::items).into_iter().flatten().enumerate();
        let problems = problems.map(|(position, problem)| {
            let number = || format!("number {}", position + 1);
            let name = problem.text("name").map_or_else(number, |name| format!("`{name}`"));
            (name, keys(problem.get("sizes")).into_iter().collect())
        });
        let problems = problems.collect();
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

    pub(super) fn with_index(&self, name: Option<String>) -> KnownNames {
        KnownNames { index: name.filter(|own| self.complaint(own).is_some()), ..self.clone() }
    }

    pub(super) fn parameters(&self) -> Vec<&str> {
        self.parameters.iter().map(String::as_str).collect()
    }

    pub(super) fn is_parameter(&self, name: &str) -> bool {
        self.parameters.iter().any(|own| own == name)
    }

    pub(super) fn sizes(&self) -> BTreeSet<&str> {
        self.problems.iter().flat_map(|(_, sizes)| sizes).map(String::as_str).collect()
    }

    /// What is wrong with a name, and a hint.
    fn complaint(&self, name: &str) -> Option<(String, String)> {
        if self.is_parameter(name) || self.index.as_deref() == Some(name) {
            return None;
        }
        let (with, without): (Vec<_>, Vec<_>) =
            self.problems.iter().partition(|(_, sizes)| sizes.contains(name));
        match (with.first(), without.first()) {
            (Some(_), None) => None,
            (Some((other, _)), Some((lacking, _))) => {
                let hint = format!("problem {other} has it; an expression is evaluated for every problem");
                Some((format!("problem {lacking} has no size `{name}`"), hint))
            }
            (None, _) => Some((format!("unknown name `{name}`"), self.suggestion(name))),
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
