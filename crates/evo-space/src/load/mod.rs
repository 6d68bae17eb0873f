//! `[parameters]` and `[[constraints]]` of a space file to a `SearchSpace`; every error at once.

#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Diagnostics, Span, nearest};
use crate::document::{self, Data, Node, TableEntry};
use crate::explain::{STEPS, conflict_watched, removal};
use crate::expr::{Expr, ExprError, is_name};
use crate::index::Limits;
use crate::kinds;
use crate::space::{Constraint, Parameter, SearchSpace};
use crate::value::Value;
use crate::watch::SpaceWatch;

impl SearchSpace {
    /// Reads the `parameters` and `constraints` of a TOML or JSON text; every other key is ignored.
    ///
    /// # Errors
    /// All errors of the text at once, each with its place; `Diagnostics::render` prints them with carets.
    pub fn parse(text: &str) -> Result<SearchSpace, Diagnostics> {
        SearchSpace::parse_watched(text, &SpaceWatch::default())
    }

    /// The same under a watch.
    ///
    /// # Errors
    /// A space whose construction `watch` ended is an error too, which names the constraint that was being
    /// worked on.
    pub fn parse_watched(text: &str, watch: &SpaceWatch) -> Result<SearchSpace, Diagnostics> {
        let mut diagnostics = Diagnostics::default();
        let root = document::parse(text, &mut diagnostics);
        let space = root.and_then(|root| read_space(&root, watch, &mut diagnostics));
        space.ok_or(diagnostics)
    }
}

/// Reads `parameters` and `constraints` of a file's root table, and nothing else of it. `None` means
/// that `diagnostics` holds at least one new error. A space that is proven to have no
/// valid point is an error that names the constraints to blame.
pub fn read_space(root: &Node, watch: &SpaceWatch, diagnostics: &mut Diagnostics) -> Option<SearchSpace> {
    let before = diagnostics.list().len();
    let parameters = read_parameters(root, diagnostics);
    // After a bad parameter an unknown name in a constraint would be a second error for one mistake.
    let names_known = diagnostics.list().len() == before;
    let constraints = read_constraints(root, &parameters, names_known, watch, diagnostics);
    if diagnostics.list().len() > before {
        return None;
    }
    let place = root.get("parameters").map_or(0..0, |node| node.span.clone());
    let space = SearchSpace::watched(parameters, constraints, Limits::default(), watch);
    if watch.is_over() {
        refuse_unfinished(space.constraints(), watch, place, diagnostics);
        return None;
    }
    if space.count() == 0 {
        explain_empty(space.parameters(), space.constraints(), watch, place, diagnostics);
        return None;
    }
    Some(space)
}

fn refuse_unfinished(
    constraints: &[Constraint],
    watch: &SpaceWatch,
    place: Span,
    diagnostics: &mut Diagnostics,
) {
    let constraint = watch.constraint().and_then(|at| constraints.get(at));
    let span = constraint.and_then(|constraint| constraint.span.clone());
    let message = match span {
        Some(_) => "counting the valid points takes too long, and this constraint was being worked on",
        None => "counting the valid points takes too long",
    };
    let hint = "simplify it, or split it into constraints that read fewer parameters each";
    diagnostics.error_with_hint(span.unwrap_or(place), message, hint);
}

fn explain_empty(
    parameters: &[Parameter],
    constraints: &[Constraint],
    watch: &SpaceWatch,
    place: Span,
    diagnostics: &mut Diagnostics,
) {
    let guilty = conflict_watched(parameters, constraints, watch);
    let alone = |constraint: &Constraint| {
        let single = std::slice::from_ref(constraint);
        !conflict_watched(parameters, single, watch).is_empty()
    };
    match guilty.as_slice() {
        [] => diagnostics.error(place, "the space has no valid point"),
        [first, ..] if alone(&constraints[*first]) => {
            for at in &guilty {
                let failure = removal(parameters, &constraints[*at], STEPS, watch).failure;
                let message = "no point satisfies this constraint, so the space has no valid point";
                blame(&constraints[*at], message, failure, &place, diagnostics);
            }
        }
        [first, rest @ ..] => {
            let message = format!(
                "the space has no valid point: these {} constraints exclude each other",
                guilty.len()
            );
            blame(&constraints[*first], &message, None, &place, diagnostics);
            rest.iter()
                .for_each(|at| blame(&constraints[*at], "… and this constraint", None, &place, diagnostics));
        }
    }
}

fn blame(
    constraint: &Constraint,
    message: &str,
    failure: Option<String>,
    place: &Span,
    diagnostics: &mut Diagnostics,
) {
    let span = constraint.span.clone().unwrap_or_else(|| place.clone());
    let failure = failure.map(|failure| format!("it has no value at some points: {failure}"));
    let because = constraint.because.as_ref().map(|because| format!("it is there because: {because}"));
    diagnostics.push(Diagnostic {
        message: message.to_string(),
        span: Some(span),
        hint: failure.or(because),
    });
}

/// Positions are 16-bit numbers.
const MAX_VALUES: usize = u16::MAX as usize;

/// The search recurses once per parameter.
const MAX_PARAMETERS: usize = 500;

/// Longer names fill a screen, and are beyond what a compiler is told on a command line.
const MAX_NAME: usize = 128;

pub(crate) fn read_parameters(root: &Node, diagnostics: &mut Diagnostics) -> Vec<Parameter> {
    let example = "write for example `[parameters]` and below it `BLOCK = [64, 128, 256]`";
    let Some(node) = root.get("parameters") else {
        diagnostics.error_with_hint(
            root.span.start..root.span.start,
            "the file has no `parameters`",
            example,
        );
        return Vec::new();
    };
    let Some(entries) = node.entries() else {
        let message = format!("expected a table of parameters, found {}", node.kind());
        diagnostics.error_with_hint(node.span.clone(), message, example);
        return Vec::new();
    };
    if entries.is_empty() {
        diagnostics.error_with_hint(node.span.clone(), "`parameters` is empty", example);
    }
    if entries.len() > MAX_PARAMETERS {
        diagnostics.error(node.span.clone(), format!("more than {MAX_PARAMETERS} parameters"));
        return Vec::new();
    }
    entries.iter().filter_map(|entry| read_parameter(entry, diagnostics)).collect()
}

fn read_parameter(entry: &TableEntry, diagnostics: &mut Diagnostics) -> Option<Parameter> {
    let name = entry.key.as_str();
    if name.len() > MAX_NAME {
        let message = format!("the name of a parameter is longer than {MAX_NAME} letters");
        diagnostics.error(entry.key_span.clone(), message);
        return None;
    }
    if !is_name(name) {
        let hint = "names are made of letters, digits and `_`, and are not words such as `and` or `if`";
        diagnostics.error_with_hint(
            entry.key_span.clone(),
            format!("`{name}` cannot be a parameter's name"),
            hint,
        );
    }
    // Reading goes on after a bad name, so that mistakes in the values show at the same time.
    let (list, default, help) = match &entry.value.data {
        Data::List(_) | Data::Text(_) => (&entry.value, None, None),
        Data::Table(entries) => {
            refuse_unknown_keys(entries, &["values", "default", "help"], "a parameter", diagnostics);
            let Some(list) = entry.value.get("values") else {
                let hint = format!("write `{name} = {{ values = [1, 2, 4] }}`");
                diagnostics.error_with_hint(
                    entry.key_span.clone(),
                    format!("`{name}` has no `values`"),
                    hint,
                );
                return None;
            };
            (list, entry.value.get("default"), entry.value.get("help"))
        }
        _ => {
            let message = format!("expected a list of values, found {}", entry.value.kind());
            diagnostics.error_with_hint(
                entry.value.span.clone(),
                message,
                "a single value is a list too: `[4]`",
            );
            return None;
        }
    };
    let values = read_values(list, &entry.key_span, name, diagnostics)?;
    let help = help.and_then(|node| read_text(node, diagnostics));
    let default = default.map_or(Some(0), |node| read_default(node, &values, diagnostics))?;
    Some(Parameter { name: Arc::from(name), values, default, help })
}

fn read_values(list: &Node, key: &Span, name: &str, diagnostics: &mut Diagnostics) -> Option<Vec<Value>> {
    if let Data::Text(text) = &list.data {
        return read_series(list, text, MAX_VALUES, diagnostics);
    }
    let Data::List(items) = &list.data else {
        let message = format!("expected a list of values, found {}", list.kind());
        diagnostics.error_with_hint(list.span.clone(), message, "a single value is a list too: `[4]`");
        return None;
    };
    if items.is_empty() {
        diagnostics.error_with_hint(key.clone(), format!("`{name}` has no values"), "list at least one");
        return None;
    }
    if items.len() > MAX_VALUES {
        diagnostics.error(key.clone(), format!("`{name}` has more than {MAX_VALUES} values"));
        return None;
    }
    let before = diagnostics.list().len();
    let (places, values): (Vec<&Node>, Vec<Value>) =
        items.iter().filter_map(|item| Some((item, read_value(item, diagnostics)?))).unzip();
    refuse_repeated_values(name, &places, &values, diagnostics);
    (diagnostics.list().len() == before).then_some(values)
}

fn refuse_repeated_values(name: &str, places: &[&Node], values: &[Value], diagnostics: &mut Diagnostics) {
    // Nearly every list ascends, which is quicker to see than that no value repeats.
    if values.windows(2).all(|pair| pair[0].compare(&pair[1]) == Some(Ordering::Less)) {
        return;
    }
    let mut seen: HashMap<EqualityKey, &Value> = HashMap::with_capacity(values.len());
    for (item, value) in places.iter().zip(values) {
        let Some(earlier) = seen.insert(EqualityKey::of(value), value) else { continue };
        let message = format!("`{name}` has the value `{value}` twice");
        match earlier.to_string() {
            earlier if earlier == value.to_string() => diagnostics.error(item.span.clone(), message),
            earlier => {
                let hint = format!("`{value}` equals `{earlier}`");
                diagnostics.error_with_hint(item.span.clone(), message, hint);
            }
        }
    }
}

/// The same for values that compare equal, such as `4` and `4.0`.
#[derive(PartialEq, Eq, Hash)]
enum EqualityKey {
    Int(i64),
    /// The bits of a float that no integer equals.
    Float(u64),
    Text(Arc<str>),
}

impl EqualityKey {
    fn of(value: &Value) -> EqualityKey {
        match value {
            Value::Text(text) => EqualityKey::Text(text.clone()),
            // Equal values need equal keys, and `1`, `1.0` and `true` are equal.
            Value::Float(value) if value.fract() != 0.0 || value.abs() >= 9.2e18 => {
                EqualityKey::Float(value.to_bits())
            }
            Value::Float(value) => EqualityKey::Int(*value as i64),
            other => EqualityKey::Int(other.as_int().unwrap_or(0)),
        }
    }
}

fn read_default(node: &Node, values: &[Value], diagnostics: &mut Diagnostics) -> Option<usize> {
    let value = read_value(node, diagnostics)?;
    let position = values.iter().position(|candidate| *candidate == value);
    if position.is_none() {
        let shown: Vec<String> = values.iter().take(12).map(|value| format!("`{value}`")).collect();
        let more = if values.len() > shown.len() { ", …" } else { "" };
        let message = format!("the default `{value}` is not among the values");
        diagnostics.error_with_hint(
            node.span.clone(),
            message,
            format!("the values are {}{more}", shown.join(", ")),
        );
    }
    position
}

const EXAMPLE: &str = "a series is `range(32, 1025, 32)`, which ends before 1025, `pow2(1, 64)`, or a union such as \
                       `pow2(1, 64) | 48`";

const FUNCTIONS: [&str; 2] = ["range", "pow2"];

/// What is wrong, where in the text, and a way out.
struct Mistake {
    at: Span,
    message: String,
    hint: Option<String>,
}

/// Reads a series: whole numbers, ascending, each once.
fn read_series(
    node: &Node,
    text: &str,
    count_max: usize,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<Value>> {
    let mut values = BTreeSet::new();
    let mut begin = 0;
    for part in text.split('|') {
        let start = begin + (part.len() - part.trim_start().len());
        let at = start..start + part.trim().len();
        begin += part.len() + 1;
        if let Err(mistake) = add(part.trim(), &at, count_max, &mut values) {
            let hint = mistake.hint.unwrap_or_else(|| EXAMPLE.to_string());
            diagnostics.error_with_hint(inner_span(node, &mistake.at), mistake.message, hint);
            return None;
        }
    }
    Some(values.into_iter().map(Value::Int).collect())
}

fn add(part: &str, at: &Span, count_max: usize, values: &mut BTreeSet<i64>) -> Result<(), Mistake> {
    let wrong = |message: String| Mistake { at: at.clone(), message, hint: None };
    if let Ok(value) = part.parse::<i64>() {
        values.insert(value);
        return Ok(());
    }
    let call = part.strip_suffix(')').and_then(|own| own.split_once('('));
    let Some((name, inside)) = call else {
        let hint = Some(format!("values that are texts are a list: `[\"{part}\"]`; {EXAMPLE}"));
        return Err(Mistake { hint, ..wrong(format!("expected a series of whole numbers, found `{part}`")) });
    };
    let name = name.trim();
    let numbers: Result<Vec<i64>, Mistake> = inside
        .split(',')
        .map(|own| {
            let own = own.trim();
            own.parse().map_err(|_| wrong(format!("`{own}` in `{part}` is not a whole number")))
        })
        .collect();
    let found: Box<dyn Iterator<Item = i64>> = match (name, numbers?[..].as_ref()) {
        ("range", [end]) => Box::new(range(0, *end, 1)),
        ("range", [start, end]) => Box::new(range(*start, *end, 1)),
        ("range", [_, _, step]) if *step < 1 => {
            return Err(wrong(format!("the step of `{part}` is {step}, expected 1 or more")));
        }
        ("range", [start, end, step]) => Box::new(range(*start, *end, *step)),
        ("pow2", [low, high]) => {
            let power = |value: i64| value > 0 && value & (value - 1) == 0;
            if let Some(other) = [*low, *high].into_iter().find(|own| !power(*own)) {
                return Err(wrong(format!("`{other}` in `{part}` is not a power of two")));
            }
            let (low, high) = (*low, *high);
            Box::new(
                std::iter::successors(Some(low), |own| own.checked_mul(2))
                    .take_while(move |own| *own <= high),
            )
        }
        ("range", _) => {
            return Err(wrong(format!("`{part}` has the wrong number of numbers, expected one to three")));
        }
        ("pow2", _) => return Err(wrong(format!("`{part}` has the wrong number of numbers, expected two"))),
        (other, _) => {
            let hint = nearest(other, FUNCTIONS).map(|near| format!("did you mean `{near}`?"));
            return Err(Mistake { hint, ..wrong(format!("unknown series `{other}`")) });
        }
    };
    let mut is_empty = true;
    for value in found {
        is_empty = false;
        values.insert(value);
        if values.len() > count_max {
            return Err(wrong(format!("more than {count_max} values")));
        }
    }
    if is_empty { Err(wrong(format!("`{part}` has no values"))) } else { Ok(()) }
}

/// As in Python: the end does not occur.
fn range(start: i64, end: i64, step: i64) -> impl Iterator<Item = i64> {
    std::iter::successors(Some(start), move |own| own.checked_add(step)).take_while(move |own| *own < end)
}

/// Constraints of one space; the largest public spaces have a few dozen.
const MAX_CONSTRAINTS: usize = 10_000;

/// Bytes of all constraints together.
const MAX_BYTES: usize = 1 << 20;

/// Names in expressions are checked only if all parameters could be read, so that one mistake is
/// reported once.
pub(crate) fn read_constraints(
    root: &Node,
    parameters: &[Parameter],
    names_known: bool,
    watch: &SpaceWatch,
    diagnostics: &mut Diagnostics,
) -> Vec<Constraint> {
    let Some(node) = root.get("constraints") else { return Vec::new() };
    let Data::List(items) = &node.data else {
        let message = format!("expected a list of constraints, found {}", node.kind());
        let hint = "write `[[constraints]]` and below it `require = \"A % B == 0\"`";
        diagnostics.error_with_hint(node.span.clone(), message, hint);
        return Vec::new();
    };
    if let Some(why) = too_many(items) {
        let hint = "a space of this size is better listed: make a parameter of each group, whose values are its rows";
        diagnostics.error_with_hint(node.span.clone(), why, hint);
        return Vec::new();
    }
    let mut constraints = Vec::new();
    for (number, item) in items.iter().enumerate() {
        watch.at(Some(number));
        if watch.is_over() || diagnostics.is_full() {
            break;
        }
        let Some((expr, text, because)) = read_constraint(item, diagnostics) else { continue };
        // Kinds are checked only where all names are known, because one mistake should give one error.
        if names_known && check_names(&expr, text, parameters, diagnostics) {
            let errors = kinds::check(&expr, parameters);
            errors.iter().for_each(|error| expr_error(text, error, diagnostics));
        }
        let names: HashSet<&str> = expr.distinct_names().iter().map(|name| &**name).collect();
        let read = (0..parameters.len()).filter(|at| names.contains(&*parameters[*at].name)).collect();
        constraints.push(Constraint { expr, because, parameters: read, span: Some(text.span.clone()) });
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

/// The expression, the node that holds it, and the reason.
fn read_constraint<'a>(
    item: &'a Node,
    diagnostics: &mut Diagnostics,
) -> Option<(Expr, &'a Node, Option<String>)> {
    let Data::Table(entries) = &item.data else {
        return read_expr(item, diagnostics).map(|expr| (expr, item, None));
    };
    refuse_unknown_keys(entries, &["require", "because"], "a constraint", diagnostics);
    let because = item.get("because").and_then(|node| read_text(node, diagnostics));
    let Some(node) = item.get("require") else {
        let hint = "write `require = \"A % B == 0\"`";
        diagnostics.error_with_hint(item.span.clone(), "this constraint has no `require`", hint);
        return None;
    };
    read_expr(node, diagnostics).map(|expr| (expr, node, because))
}

fn check_names(expr: &Expr, node: &Node, parameters: &[Parameter], diagnostics: &mut Diagnostics) -> bool {
    let names: Vec<&str> = parameters.iter().map(|parameter| &*parameter.name).collect();
    let known: HashSet<&str> = names.iter().copied().collect();
    let mut sound = true;
    for (name, span) in expr.names().iter().filter(|(name, _)| !known.contains(name.as_str())) {
        sound = false;
        // Looking for a similar name takes far longer than the rest, and the reader has seen enough.
        if diagnostics.is_full() {
            break;
        }
        let mut error =
            ExprError::new(span.clone(), format!("constraint reads `{name}`, which is not a parameter"));
        error.hint = match nearest(name, names.iter().copied()) {
            Some(near) => Some(format!("did you mean `{near}`?")),
            None if names.len() <= 12 => Some(format!("the parameters are {}", quoted(&names))),
            None => None,
        };
        expr_error(node, &error, diagnostics);
    }
    sound
}

/// An expression that stands in the file as a text; errors point into the text.
pub(crate) fn read_expr(node: &Node, diagnostics: &mut Diagnostics) -> Option<Expr> {
    let Data::Text(text) = &node.data else {
        diagnostics
            .error(node.span.clone(), format!("expected an expression as a text, found {}", node.kind()));
        return None;
    };
    Expr::parse(text).map_err(|error| expr_error(node, &error, diagnostics)).ok()
}

pub(crate) fn expr_error(node: &Node, error: &ExprError, diagnostics: &mut Diagnostics) {
    let span = inner_span(node, &error.span);
    match &error.hint {
        Some(hint) => diagnostics.error_with_hint(span, &error.message, hint),
        None => diagnostics.error(span, &error.message),
    }
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

pub(crate) fn refuse_unknown_keys(
    entries: &[TableEntry],
    known: &[&str],
    what: &str,
    diagnostics: &mut Diagnostics,
) {
    for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
        if diagnostics.is_full() {
            return;
        }
        let hint = match nearest(&entry.key, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known keys are {}", quoted(known)),
        };
        diagnostics.error_with_hint(
            entry.key_span.clone(),
            format!("unknown key `{}` in {what}", entry.key),
            hint,
        );
    }
}

pub(crate) fn read_value(node: &Node, diagnostics: &mut Diagnostics) -> Option<Value> {
    let message = match &node.data {
        Data::Bool(value) => return Some(Value::Bool(*value)),
        Data::Int(value) => return Some(Value::Int(*value)),
        Data::Float(value) if value.is_finite() => return Some(Value::Float(*value)),
        Data::Text(text) if !text.chars().any(char::is_control) => return Some(Value::text(text.as_str())),
        Data::Float(_) => "a value is a finite number".to_string(),
        Data::Text(_) => "a value has no control characters".to_string(),
        Data::BigInt(digits) => format!("`{digits}` does not fit 64 bits"),
        Data::List(_) | Data::Table(_) | Data::Null => {
            format!("expected a number, a boolean or a text, found {}", node.kind())
        }
    };
    diagnostics.error(node.span.clone(), message);
    None
}

fn read_text(node: &Node, diagnostics: &mut Diagnostics) -> Option<String> {
    match &node.data {
        Data::Text(text) => Some(text.clone()),
        _ => {
            diagnostics.error(node.span.clone(), format!("expected a text, found {}", node.kind()));
            None
        }
    }
}

/// Names as a message lists them.
fn quoted(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
