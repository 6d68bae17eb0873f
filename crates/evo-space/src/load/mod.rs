//! `[parameters]` and `[[constraints]]` of a space file to a `SearchSpace`; every error at once.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::diagnostic::{Diagnostics, Span, nearest};
use crate::document::{self, Data, Field, Node, TableEntry};
use crate::explain::{STEPS, conflict, removal};
use crate::expr::{Expr, ExprError, is_name};
use crate::index::Limits;
use crate::parameter::{check_kinds, first_values};
use crate::space::{Constraint, Parameter, SearchSpace};
use crate::text::quoted;
use crate::value::Value;
use crate::watch::SpaceWatch;

impl SearchSpace {
    /// Reads the `parameters` and `constraints` of a TOML or JSON text; every other key is ignored. All errors come at
    /// once, each with its place; `Diagnostics::render` prints them with carets.
    pub fn parse(text: &str) -> Result<SearchSpace, Diagnostics> {
        SearchSpace::parse_watched(text, &SpaceWatch::default())
    }

    /// The same under a watch. A space whose construction it ended is an error too, which names the constraint that was
    /// being worked on.
    pub fn parse_watched(text: &str, watch: &SpaceWatch) -> Result<SearchSpace, Diagnostics> {
        let diagnostics = RefCell::default();
        let root = document::parse(text, &mut diagnostics.borrow_mut());
        let read = |root: Node| read_space(&Field::new(&root, "the file", &(), &diagnostics), watch);
        root.and_then(read).ok_or_else(|| diagnostics.take())
    }
}

/// Reads `parameters` and `constraints` of a file's root table, and nothing else of it. `None` means that there is at least
/// one new complaint. A space that is proven to have no valid point is an error that names the constraints to blame.
pub fn read_space<C>(root: &Field<C>, watch: &SpaceWatch) -> Option<SearchSpace> {
    let root = &root.with(&());
    let before = root.complaints();
    let parameters = read_parameters(root);
    // After a bad parameter an unknown name in a constraint would be a second error for one mistake.
    let names_known = root.complaints() == before;
    let constraints = read_constraints(root, &parameters, names_known, watch);
    if root.complaints() > before {
        return None;
    }
    let place = root.get("parameters")?;
    let space = SearchSpace::watched(parameters, constraints, Limits::default(), watch);
    if watch.is_over() {
        let constraint = watch.constraint().and_then(|at| space.constraints().get(at)?.span.clone());
        let message = match constraint {
            Some(_) => "counting the valid points takes too long, and this constraint was being worked on",
            None => "counting the valid points takes too long",
        };
        let hint = "simplify it, or split it into constraints that read fewer parameters each";
        place.complain(&constraint.unwrap_or(place.node.span.clone()), message, Some(hint.to_string()));
        return None;
    }
    if space.count() == 0 {
        explain_empty(&place, space.parameters(), space.constraints(), watch);
        return None;
    }
    Some(space)
}

fn explain_empty(place: &Field, parameters: &[Parameter], constraints: &[Constraint], watch: &SpaceWatch) {
    let guilty = conflict(parameters, constraints, watch);
    let alone = |at: usize| !conflict(parameters, &constraints[at..=at], watch).is_empty();
    let blame = |at: usize, message: &str, failure: Option<String>| {
        let constraint = &constraints[at];
        let failure = failure.map(|failure| format!("it has no value at some points: {failure}"));
        let because = constraint.because.as_ref().map(|because| format!("it is there because: {because}"));
        place.complain(constraint.span.as_ref().unwrap_or(&place.node.span), message, failure.or(because));
    };
    match guilty.as_slice() {
        [] => place.error("the space has no valid point"),
        [first, ..] if alone(*first) => {
            for at in &guilty {
                let failure = removal(parameters, &constraints[*at], STEPS, watch).failure;
                let message = "no point satisfies this constraint, so the space has no valid point";
                blame(*at, message, failure);
            }
        }
        [first, rest @ ..] => {
            let count = guilty.len();
            let message =
                format!("the space has no valid point: these {count} constraints exclude each other");
            blame(*first, &message, None);
            rest.iter().for_each(|at| blame(*at, "… and this constraint", None));
        }
    }
}

/// Positions are 16-bit numbers.
const MAX_VALUES: usize = u16::MAX as usize;

/// The search recurses once per parameter.
const MAX_PARAMETERS: usize = 500;

/// Longer names fill a screen, and are beyond what a compiler is told on a command line.
const MAX_NAME: usize = 128;

fn read_parameters(root: &Field) -> Vec<Parameter> {
    let example = "write for example `[parameters]` and below it `BLOCK = [64, 128, 256]`";
    let Some(field) = root.get("parameters") else {
        let start = root.node.span.start;
        root.complain(&(start..start), "the file has no `parameters`", Some(example.to_string()));
        return Vec::new();
    };
    let Some(entries) = field.node.entries() else {
        field.hinted(format!("expected a table of parameters, found {}", field.node.kind()), example);
        return Vec::new();
    };
    if entries.is_empty() {
        field.hinted("`parameters` is empty", example);
    }
    if entries.len() > MAX_PARAMETERS {
        field.error(format!("more than {MAX_PARAMETERS} parameters"));
        return Vec::new();
    }
    entries.iter().filter_map(|entry| read_parameter(&field, entry)).collect()
}

pub(crate) fn read_parameter(parent: &Field, entry: &TableEntry) -> Option<Parameter> {
    let name = entry.key.as_str();
    let at_key = |message: String, hint: &str| {
        parent.complain(&entry.key_span, message, Some(hint.to_string()).filter(|hint| !hint.is_empty()));
    };
    if name.len() > MAX_NAME {
        at_key(format!("the name of a parameter is longer than {MAX_NAME} letters"), "");
        return None;
    }
    if !is_name(name) {
        let hint = "names are made of letters, digits and `_`, and are not words such as `and` or `if`";
        at_key(format!("`{name}` cannot be a parameter's name"), hint);
    }
    // Reading goes on after a bad name, so that mistakes in the values show at the same time.
    let field = parent.at(&entry.value, "a parameter");
    let (list, default, help) = match &field.node.data {
        Data::Table(_) => {
            field.keys(&["values", "default", "help"])?;
            let Some(list) = field.get("values") else {
                let hint = format!("write `{name} = {{ values = [1, 2, 4] }}`");
                at_key(format!("`{name}` has no `values`"), &hint);
                return None;
            };
            (list, field.get("default"), field.get("help"))
        }
        _ => (field, None, None),
    };
    let values = match &list.node.data {
        Data::Text(text) => read_series(&list, text)?,
        Data::List(items) if items.is_empty() => {
            at_key(format!("`{name}` has no values"), "list at least one");
            return None;
        }
        Data::List(items) if items.len() > MAX_VALUES => {
            at_key(format!("`{name}` has more than {MAX_VALUES} values"), "");
            return None;
        }
        Data::List(items) => read_values(&list, items, name)?,
        _ => {
            let message = format!("expected a list of values, found {}", list.node.kind());
            return list.refuse(message, "a single value is a list too: `[4]`");
        }
    };
    let help = help.and_then(|field| read_text(&field));
    let default = default.map_or(Some(0), |field| read_default(&field, &values))?;
    Some(Parameter { name: Arc::from(name), values, default, help })
}

fn read_values(list: &Field, items: &[Node], name: &str) -> Option<Vec<Value>> {
    let before = list.complaints();
    let read = items.iter().map(|item| list.at(item, "")).filter_map(|item| Some((read_value(&item)?, item)));
    let (values, places): (Vec<Value>, Vec<Field>) = read.unzip();
    let is_text = |at: &usize| matches!(values[*at], Value::Text(_));
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].compare(&values[*b]).unwrap_or_else(|| is_text(a).cmp(&is_text(b))));
    for (earlier, at) in order.windows(2).map(|pair| (pair[0], pair[1])) {
        if values[earlier] == values[at] {
            let (earlier, value) = (values[earlier].to_string(), values[at].to_string());
            let hint = (earlier != value).then(|| format!("`{value}` equals `{earlier}`"));
            list.complain(&places[at].node.span, format!("`{name}` has the value `{value}` twice"), hint);
        }
    }
    (list.complaints() == before).then_some(values)
}

fn read_default(field: &Field, values: &[Value]) -> Option<usize> {
    let value = read_value(field)?;
    values.iter().position(|candidate| *candidate == value).or_else(|| {
        let hint = format!("the values are {}", first_values(values, 12));
        field.refuse(format!("the default `{value}` is not among the values"), hint)
    })
}

const EXAMPLE: &str = "a series is `range(32, 1025, 32)`, which ends before 1025, `pow2(1, 64)`, or a union such as \
                       `pow2(1, 64) | 48`";

/// Reads a series: whole numbers, ascending, each once.
fn read_series(field: &Field, text: &str) -> Option<Vec<Value>> {
    let mut values = BTreeSet::new();
    let mut begin = 0;
    for part in text.split('|') {
        let start = begin + (part.len() - part.trim_start().len());
        let at = start..start + part.trim().len();
        begin += part.len() + 1;
        if let Err((message, hint)) = add(part.trim(), &mut values) {
            let hint = hint.unwrap_or_else(|| EXAMPLE.to_string());
            field.complain(&inner_span(field.node, &at), message, Some(hint));
            return None;
        }
    }
    Some(values.into_iter().map(Value::Int).collect())
}

fn add(part: &str, values: &mut BTreeSet<i64>) -> Result<(), (String, Option<String>)> {
    let wrong = |message: String| Err((message, None));
    if let Ok(value) = part.parse::<i64>() {
        values.insert(value);
        return Ok(());
    }
    let Some((name, inside)) = part.strip_suffix(')').and_then(|call| call.split_once('(')) else {
        let hint = format!("values that are texts are a list: `[\"{part}\"]`; {EXAMPLE}");
        return Err((format!("expected a series of whole numbers, found `{part}`"), Some(hint)));
    };
    let mut numbers: Vec<i64> = Vec::new();
    for word in inside.split(',').map(str::trim) {
        match word.parse() {
            Ok(number) => numbers.push(number),
            Err(_) => return wrong(format!("`{word}` in `{part}` is not a whole number")),
        }
    }
    let is_power = |value: i64| value > 0 && value & (value - 1) == 0;
    // As in Python, the end of a range does not occur. Powers of two are stepped to by doubling.
    let (start, last, step) = match (name.trim(), &numbers[..]) {
        ("range", [end]) => (0, end.saturating_sub(1), Some(1)),
        ("range", [start, end]) => (*start, end.saturating_sub(1), Some(1)),
        ("range", [_, _, step]) if *step < 1 => {
            return wrong(format!("the step of `{part}` is {step}, expected 1 or more"));
        }
        ("range", [start, end, step]) => (*start, end.saturating_sub(1), Some(*step)),
        ("pow2", [low, high]) => match [*low, *high].into_iter().find(|value| !is_power(*value)) {
            Some(other) => return wrong(format!("`{other}` in `{part}` is not a power of two")),
            None => (*low, *high, None),
        },
        ("range", _) => {
            return wrong(format!("`{part}` has the wrong number of numbers, expected one to three"));
        }
        ("pow2", _) => return wrong(format!("`{part}` has the wrong number of numbers, expected two")),
        (other, _) => {
            let hint = nearest(other, ["range", "pow2"]).map(|near| format!("did you mean `{near}`?"));
            return Err((format!("unknown series `{other}`"), hint));
        }
    };
    let next = |value: &i64| step.map_or_else(|| value.checked_mul(2), |step| value.checked_add(step));
    let found = std::iter::successors(Some(start), next).take_while(|value| *value <= last);
    values.extend(found.take(MAX_VALUES + 1));
    match values.len() {
        count if count > MAX_VALUES => wrong(format!("more than {MAX_VALUES} values")),
        _ if start > last => wrong(format!("`{part}` has no values")),
        _ => Ok(()),
    }
}

/// Constraints of one space; the largest public spaces have a few dozen.
const MAX_CONSTRAINTS: usize = 10_000;

/// Of all constraints together.
const MAX_BYTES: usize = 1 << 20;

/// Names in expressions are checked only if all parameters could be read, so that one mistake is
/// reported once.
fn read_constraints(
    root: &Field,
    parameters: &[Parameter],
    names_known: bool,
    watch: &SpaceWatch,
) -> Vec<Constraint> {
    let Some(field) = root.get("constraints") else { return Vec::new() };
    let Some(items) = field.node.items() else {
        let message = format!("expected a list of constraints, found {}", field.node.kind());
        field.hinted(message, "write `[[constraints]]` and below it `require = \"A % B == 0\"`");
        return Vec::new();
    };
    if let Some(why) = too_many(items) {
        let hint = "a space of this size is better listed: make a parameter of each group, whose values are its rows";
        field.hinted(why, hint);
        return Vec::new();
    }
    let mut constraints = Vec::new();
    for (number, item) in items.iter().enumerate() {
        watch.at(Some(number));
        if watch.is_over() || root.is_full() {
            break;
        }
        let item = root.at(item, "a constraint");
        let Some((expr, text, because)) = read_constraint(&item) else { continue };
        // Kinds are checked only where all names are known, because one mistake should give one error.
        if names_known && check_names(&expr, &text, parameters) {
            check_kinds(&expr, parameters).iter().for_each(|error| expr_error(&text, error));
        }
        let names: HashSet<&str> = expr.distinct_names().iter().map(|name| &**name).collect();
        let read = (0..parameters.len()).filter(|at| names.contains(&*parameters[*at].name)).collect();
        let span = Some(text.node.span.clone());
        constraints.push(Constraint { expr, because, parameters: read, span });
    }
    constraints
}

/// Why there are more constraints than evo counts with. Each costs about two hundred times the memory of its text
/// until the space is ready.
fn too_many(items: &[Node]) -> Option<String> {
    if items.len() > MAX_CONSTRAINTS {
        return Some(format!("more than {MAX_CONSTRAINTS} constraints"));
    }
    let length = |item: &Node| match (&item.data, item.get("require").map(|node| &node.data)) {
        (Data::Text(text), _) | (_, Some(Data::Text(text))) => text.len(),
        _ => 0,
    };
    let bytes: usize = items.iter().map(length).sum();
    (bytes > MAX_BYTES).then(|| format!("more than {} KiB of constraints", MAX_BYTES >> 10))
}

/// The expression, the value that holds it, and the reason.
fn read_constraint<'a>(item: &Field<'a>) -> Option<(Expr, Field<'a>, Option<String>)> {
    if item.node.entries().is_none() {
        return read_expr(item).map(|expr| (expr, item.at(item.node, ""), None));
    }
    item.keys(&["require", "because"])?;
    let because = item.get("because").and_then(|field| read_text(&field));
    let Some(field) = item.get("require") else {
        return item.refuse("this constraint has no `require`", "write `require = \"A % B == 0\"`");
    };
    read_expr(&field).map(|expr| (expr, field, because))
}

fn check_names(expr: &Expr, field: &Field, parameters: &[Parameter]) -> bool {
    let names: Vec<&str> = parameters.iter().map(|parameter| &*parameter.name).collect();
    let known: HashSet<&str> = names.iter().copied().collect();
    let mut sound = true;
    for (name, span) in expr.names().iter().filter(|(name, _)| !known.contains(name.as_str())) {
        sound = false;
        // Looking for a similar name takes far longer than the rest, and the reader has seen enough.
        if field.is_full() {
            break;
        }
        let hint = match nearest(name, names.iter().copied()) {
            Some(near) => Some(format!("did you mean `{near}`?")),
            None if names.len() <= 12 => Some(format!("the parameters are {}", quoted(&names))),
            None => None,
        };
        let message = format!("constraint reads `{name}`, which is not a parameter");
        field.complain(&inner_span(field.node, span), message, hint);
    }
    sound
}

/// An expression that stands in the file as a text; errors point into the text.
pub(crate) fn read_expr(field: &Field) -> Option<Expr> {
    let Data::Text(text) = &field.node.data else {
        return field.wrong(format!("expected an expression as a text, found {}", field.node.kind()));
    };
    Expr::parse(text).map_err(|error| expr_error(field, &error)).ok()
}

fn expr_error(field: &Field, error: &ExprError) {
    field.complain(&inner_span(field.node, &error.span), &error.message, error.hint.clone());
}

/// The place in the file of a part of a text; of the whole text where escapes make that uncertain.
pub(crate) fn inner_span(node: &Node, part: &Span) -> Span {
    let Data::Text(text) = &node.data else { return node.span.clone() };
    // How much longer the source is tells the quotes apart: a pair, three on each side, or those and a
    // first line break, which TOML drops. Escapes give other differences.
    let quotes = match node.span.len().checked_sub(text.len()) {
        Some(2) => 1,
        Some(6) if text.contains('\n') => 3,
        Some(7) if text.contains('\n') => 4,
        _ => return node.span.clone(),
    };
    let start = node.span.start + quotes;
    start + part.start..start + part.end.max(part.start)
}

pub(crate) fn read_value(field: &Field) -> Option<Value> {
    match &field.node.data {
        Data::Float(value) if !value.is_finite() => field.wrong("a value is a finite number"),
        Data::Text(text) if text.chars().any(char::is_control) => {
            field.wrong("a value has no control characters")
        }
        Data::BigInt(digits) => field.wrong(format!("`{digits}` does not fit 64 bits")),
        _ => field.node.value().or_else(|| {
            field.wrong(format!("expected a number, a boolean or a text, found {}", field.node.kind()))
        }),
    }
}

fn read_text(field: &Field) -> Option<String> {
    match &field.node.data {
        Data::Text(text) => Some(text.clone()),
        _ => field.wrong(format!("expected a text, found {}", field.node.kind())),
    }
}
