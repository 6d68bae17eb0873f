//! Expressions of space files as C++ and as Python, with the meaning that they have in evo.
//!
//! Python's own arithmetic differs from ours where a result leaves 64 bits, and C++ differs everywhere. So both texts
//! compute with a small number type that comes with them (`templates/exact.hpp`, `templates/exact.py`), and whatever
//! has no value in evo has none there. What is known already, such as a parameter of the exported configuration, is
//! computed here.

use evo_kernel::spec::{self, LaunchSpec};
use evo_space::expr::Expr;
use evo_space::expr::tree::{Function, Kind, Relation, Tree};
use evo_space::genome::Configuration;
use evo_space::value::{Operator, Value};
use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// C++17, with `exact.hpp`.
    Cpp,
    /// Python 3.9, with `exact.py`.
    Python,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Meaning {
    Known(Value),
    Variable(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Literal,
    Exact,
    Truth,
    /// One of the above, or a text: decided at run time.
    Open,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TranslatedPart {
    /// As an operand it needs brackets unless it is a literal or a name.
    pub text: String,
    pub known: Option<Value>,
    form: Form,
}

impl TranslatedPart {
    fn of(form: Form, text: String) -> TranslatedPart {
        TranslatedPart { text, known: None, form }
    }
}

pub fn translate(
    expr: &Expr,
    language: Language,
    meaning: &dyn Fn(&str) -> Option<Meaning>,
) -> Result<TranslatedPart, String> {
    let names = expr.distinct_names();
    let meanings: Result<Vec<Meaning>, String> =
        names.iter().map(|name| meaning(name).ok_or_else(|| name.to_string())).collect();
    let translator = Translator { text: expr.text(), names, meanings: meanings?, language };
    Ok(translator.part(expr.tree()))
}

struct Translator<'a> {
    text: &'a str,
    names: &'a [std::sync::Arc<str>],
    meanings: Vec<Meaning>,
    language: Language,
}

impl Translator<'_> {
    fn word<'w>(&self, cpp: &'w str, python: &'w str) -> &'w str {
        if self.language == Language::Cpp { cpp } else { python }
    }

    /// A value as one of the number type.
    fn exact(&self, text: &str) -> String {
        format!("{}({text})", self.word("exact", "Exact"))
    }

    fn part(&self, tree: &Tree) -> TranslatedPart {
        self.folded(tree).unwrap_or_else(|| self.open(tree))
    }

    /// A part whose names are all known: its value, or that it has none.
    fn folded(&self, tree: &Tree) -> Option<TranslatedPart> {
        if matches!(tree.kind, Kind::List(_)) || !self.is_known(tree) {
            return None;
        }
        if let Kind::Literal(value) = &tree.kind {
            return Some(self.literal(value.clone()));
        }
        // The text of a node means what the node means, so its value is that of an expression of its own.
        let own = Expr::parse(self.text.get(tree.span.clone())?).ok()?;
        let scope = |name: &str| {
            let at = self.names.iter().position(|own| **own == *name)?;
            match &self.meanings[at] {
                Meaning::Known(value) => Some(value.clone()),
                Meaning::Variable(_) => None,
            }
        };
        Some(match own.evaluate(&scope) {
            Ok(value) => self.literal(value),
            Err(error) => {
                let text = format!("no_value({})", quoted(self.language, &error.message));
                TranslatedPart::of(Form::Exact, text)
            }
        })
    }

    fn is_known(&self, tree: &Tree) -> bool {
        if let Kind::Name(slot) = tree.kind {
            return matches!(self.meanings[slot], Meaning::Known(_));
        }
        let mut known = true;
        tree.for_children(&mut |child| known &= self.is_known(child));
        known
    }

    fn literal(&self, value: Value) -> TranslatedPart {
        TranslatedPart { text: literal(self.language, &value), form: Form::Literal, known: Some(value) }
    }

    fn open(&self, tree: &Tree) -> TranslatedPart {
        let truth = |text: String| TranslatedPart::of(Form::Truth, text);
        let exact = |text: String| TranslatedPart::of(Form::Exact, text);
        match &tree.kind {
            Kind::Literal(value) => self.literal(value.clone()),
            Kind::Name(slot) => match &self.meanings[*slot] {
                Meaning::Known(value) => self.literal(value.clone()),
                Meaning::Variable(name) => exact(name.clone()),
            },
            Kind::List(items) => truth(self.list(items)),
            Kind::Not(operand) => truth(format!("({}{})", self.word("!", "not "), self.condition(operand))),
            Kind::Negate(operand) => exact(format!("(-{})", self.number(operand, true))),
            Kind::Chain(first, rest) => self.chain(first, rest),
            Kind::Compare(first, rest) => self.compare(first, rest),
            Kind::All(operands) => self.joined(operands, true),
            Kind::Any(operands) => self.joined(operands, false),
            Kind::If { condition, then, otherwise } => {
                if let Some(TranslatedPart { known: Some(value), .. }) = self.folded(condition) {
                    return self.part(if value.is_true() { then } else { otherwise });
                }
                let (condition, then, otherwise) =
                    (self.condition(condition), self.wrapped(then), self.wrapped(otherwise));
                let text = match self.language {
                    Language::Cpp => format!("({condition} ? {then} : {otherwise})"),
                    Language::Python => format!("({then} if {condition} else {otherwise})"),
                };
                TranslatedPart::of(Form::Open, text)
            }
            Kind::Call(function, arguments) => self.call(*function, arguments),
        }
    }

    /// An operand of arithmetic; `alone` if no operand beside it is of the number type for sure.
    fn number(&self, tree: &Tree, alone: bool) -> String {
        let part = self.part(tree);
        match part.form {
            Form::Exact => part.text,
            Form::Literal if !alone && !matches!(part.known, Some(Value::Text(_))) => part.text,
            _ => self.exact(&part.text),
        }
    }

    /// In C++ a value whose type is decided at run time needs one type for all that it may be.
    fn wrapped(&self, tree: &Tree) -> String {
        let part = self.part(tree);
        match (self.language, part.form) {
            (Language::Python, _) | (_, Form::Exact | Form::Open) => part.text,
            _ => self.exact(&part.text),
        }
    }

    fn condition(&self, tree: &Tree) -> String {
        let part = self.part(tree);
        match (self.language, part.form) {
            (Language::Python, _) | (_, Form::Truth) => part.text,
            (Language::Cpp, Form::Literal) => part.known.is_some_and(|value| value.is_true()).to_string(),
            (Language::Cpp, _) => format!("is_true({})", part.text),
        }
    }

    fn chain(&self, first: &Tree, rest: &[(Operator, Tree)]) -> TranslatedPart {
        let right_is_exact = rest.first().is_some_and(|(_, tree)| self.part(tree).form == Form::Exact);
        let mut text = self.number(first, !right_is_exact);
        let mut is_infix = false;
        for (operator, operand) in rest {
            // What stands to the left is of the number type by now. Operators of one chain bind alike, from the left.
            let operand = self.number(operand, false);
            let function = match (self.language, operator) {
                (Language::Cpp, Operator::FloorDivide) => Some("floor_div"),
                (Language::Cpp, Operator::Remainder) => Some("floor_mod"),
                (Language::Cpp, Operator::Power) => Some("power"),
                _ => None,
            };
            is_infix = function.is_none();
            text = match function {
                Some(function) => format!("{function}({text}, {})", bare(&operand)),
                None => format!("{text} {} {operand}", operator.as_str()),
            };
        }
        TranslatedPart::of(Form::Exact, if is_infix { format!("({text})") } else { text })
    }

    fn compare(&self, first: &Tree, rest: &[(Relation, Tree)]) -> TranslatedPart {
        let links = rest.iter().filter(|(_, tree)| !matches!(tree.kind, Kind::List(_))).count();
        if rest.len() == 1 {
            let left = self.wrapped(first);
            return TranslatedPart::of(Form::Truth, self.link(&left, rest[0].0, &rest[0].1));
        }
        match self.language {
            Language::Python => {
                let mut text = format!("({}", self.part(first).text);
                for (relation, right) in rest {
                    let right = match &right.kind {
                        Kind::List(items) => self.list(items),
                        _ => self.part(right).text,
                    };
                    text.push_str(&format!(" {} {right}", relation.as_str()));
                }
                TranslatedPart::of(Form::Truth, text + ")")
            }
            // Each operand once, and none behind a link that does not hold.
            Language::Cpp => {
                let mut text = format!("[&] {{ exact left_0 = {}; ", self.wrapped(first));
                for (at, (relation, right)) in rest.iter().enumerate() {
                    let left = format!("left_{at}");
                    if at + 1 == rest.len() || at >= links {
                        text.push_str(&format!("return {}; }}()", self.link(&left, *relation, right)));
                        break;
                    }
                    let next = format!("left_{}", at + 1);
                    text.push_str(&format!("exact {next} = {}; ", self.wrapped(right)));
                    text.push_str(&format!("if (!({left} {} {next})) return false; ", relation.as_str()));
                }
                TranslatedPart::of(Form::Truth, text)
            }
        }
    }

    fn link(&self, left: &str, relation: Relation, right: &Tree) -> String {
        match (&right.kind, self.language) {
            (Kind::List(items), Language::Python) => {
                format!("({left} {} {})", relation.as_str(), self.list(items))
            }
            (Kind::List(items), Language::Cpp) => {
                let not = if relation == Relation::NotIn { "!" } else { "" };
                format!("({not}is_one_of({}, {}))", bare(left), self.list(items))
            }
            _ => format!("({left} {} {})", relation.as_str(), self.wrapped(right)),
        }
    }

    fn list(&self, items: &[Tree]) -> String {
        let items: Vec<String> = items.iter().map(|item| bare(&self.wrapped(item)).to_string()).collect();
        format!("{}{}{}", self.word("{", "["), items.join(", "), self.word("}", "]"))
    }

    /// `and` (`all`) or `or`: the first operand that decides, else the last.
    fn joined(&self, operands: &[Tree], all: bool) -> TranslatedPart {
        let parts: Vec<TranslatedPart> = operands.iter().map(|operand| self.part(operand)).collect();
        let is_truth = parts.iter().all(|part| part.form == Form::Truth);
        if self.language == Language::Python || is_truth {
            let word = if all { self.word(" && ", " and ") } else { self.word(" || ", " or ") };
            let texts: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
            let form = if is_truth { Form::Truth } else { Form::Open };
            return TranslatedPart::of(form, format!("({})", texts.join(word)));
        }
        let lazy: Vec<String> =
            operands.iter().map(|operand| format!("[&] {{ return {}; }}", self.wrapped(operand))).collect();
        let function = if all { "first_false" } else { "first_true" };
        TranslatedPart::of(Form::Open, format!("{function}({})", lazy.join(", ")))
    }

    fn call(&self, function: Function, arguments: &[Tree]) -> TranslatedPart {
        let (form, name) = match function {
            Function::Abs => (Form::Exact, self.word("absolute", "abs")),
            Function::CeilDiv => (Form::Exact, "ceil_div"),
            Function::Min => (Form::Open, "smallest"),
            Function::Max => (Form::Open, "largest"),
        };
        let operands = match form {
            Form::Open => self.list(arguments),
            _ => {
                let operand = |(at, own)| bare(&self.number(own, at == 0)).to_string();
                arguments.iter().enumerate().map(operand).collect::<Vec<_>>().join(", ")
            }
        };
        TranslatedPart::of(form, format!("{name}({operands})"))
    }
}

pub(crate) fn bare(text: &str) -> &str {
    match text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(inside) if is_balanced(inside) => inside,
        _ => text,
    }
}

/// Whether no bracket closes that the text has not opened. Texts in quotes count as they are; a wrong guess keeps brackets.
fn is_balanced(text: &str) -> bool {
    let mut depth = 0_i32;
    for letter in text.chars() {
        match letter {
            '"' => return false,
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}

/// A value as a literal. Negative numbers stand in brackets.
fn literal(language: Language, value: &Value) -> String {
    match value {
        Value::Bool(own) => match (language, own) {
            (Language::Cpp, own) => own.to_string(),
            (Language::Python, true) => "True".to_string(),
            (Language::Python, false) => "False".to_string(),
        },
        // C++ has no literal of its own for the least number: `-9223372036854775808` negates one that does not fit.
        Value::Int(i64::MIN) if language == Language::Cpp => "INT64_MIN".to_string(),
        Value::Int(own) if *own < 0 => format!("({own})"),
        Value::Int(own) => own.to_string(),
        // `Debug` writes the shortest text that is read back as the same number, and keeps `4.0` a float.
        Value::Float(own) if own.is_sign_negative() => format!("({own:?})"),
        Value::Float(own) => format!("{own:?}"),
        Value::Text(own) => match language {
            Language::Cpp => format!("std::string_view({}, {})", quoted(language, own), own.len()),
            Language::Python => quoted(language, own),
        },
    }
}

pub(crate) fn quoted(language: Language, text: &str) -> String {
    let mut literal = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => literal.extend(['\\', letter]),
            // `?` could begin a trigraph.
            ' '..='~' if letter != '?' || language == Language::Python => literal.push(letter),
            _ if language == Language::Cpp => {
                let mut bytes = [0; 4];
                let bytes = letter.encode_utf8(&mut bytes).bytes();
                bytes.for_each(|byte| literal.push_str(&format!("\\{byte:03o}")));
            }
            _ => literal.push_str(&format!("\\U{:08x}", u32::from(letter))),
        }
    }
    literal.push('"');
    literal
}

/// A formula over sizes. The texts compute a whole number, a fraction or a truth, as the place needs it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExportFormula {
    pub source: String,
    pub cpp: String,
    pub python: String,
    /// The whole number, where no size is read.
    pub known: Option<i64>,
}

impl ExportFormula {
    pub(crate) fn fixed(value: i64) -> ExportFormula {
        let text = value.to_string();
        ExportFormula { source: text.clone(), cpp: text.clone(), python: text, known: Some(value) }
    }

    pub(crate) fn truth(holds: bool) -> ExportFormula {
        let python = if holds { "True" } else { "False" }.to_string();
        ExportFormula { source: python.clone(), cpp: holds.to_string(), python, known: Some(holds.into()) }
    }
}

#[derive(Clone)]
pub(crate) struct FormulaNames<'a> {
    pub configuration: &'a Configuration,
    pub constants: &'a [(String, i64)],
    /// Name and identifier of each size.
    pub sizes: &'a [(String, String)],
    /// Name and identifier of the counter of a loop.
    pub turn: Option<(String, String)>,
}

impl FormulaNames<'_> {
    fn meaning(&self, name: &str) -> Option<Meaning> {
        let variable = |own: &(String, String)| Meaning::Variable(own.1.clone());
        if let Some(turn) = self.turn.as_ref().filter(|(own, _)| own == name) {
            return Some(variable(turn));
        }
        if let Some((_, value)) = self.constants.iter().find(|(own, _)| own == name) {
            return Some(Meaning::Known(Value::Int(*value)));
        }
        let size = self.sizes.iter().find(|(own, _)| own == name).map(variable);
        size.or_else(|| self.configuration.get(name).cloned().map(Meaning::Known))
    }

    fn codes(&self, expr: &Expr, place: &str) -> Exported<(String, String, Option<Value>)> {
        let code = |language| {
            translate(expr, language, &|name| self.meaning(name)).map_err(|name| {
                let text = format!("{place} = `{}` reads `{name}`, which is not a size", expr.text());
                ExportError::not_exportable(text)
            })
        };
        let (cpp, python) = (code(Language::Cpp)?, code(Language::Python)?);
        Ok((cpp.text, python.text, cpp.known))
    }

    pub(crate) fn whole(&self, expr: &Expr, place: &str) -> Exported<ExportFormula> {
        let (cpp, python, known) = self.codes(expr, place)?;
        let source = expr.text().to_string();
        let Some(value) = known else {
            let (cpp, python) = (format!("to_whole({})", bare(&cpp)), format!("to_whole({})", bare(&python)));
            return Ok(ExportFormula { source, cpp, python, known: None });
        };
        let whole = spec::whole(&value)
            .map_err(|why| ExportError::not_exportable(format!("{place} = `{source}` {why}")))?;
        Ok(ExportFormula { source, ..ExportFormula::fixed(whole) })
    }

    pub(crate) fn wholes(
        &self,
        list: &[Expr],
        place: impl Fn(usize) -> String,
    ) -> Exported<Vec<ExportFormula>> {
        list.iter().enumerate().map(|(axis, expr)| self.whole(expr, &place(axis))).collect()
    }

    /// What a formula gives; nothing where it reads a size.
    pub(crate) fn known(&self, expr: &Expr, place: &str) -> Exported<Option<Value>> {
        Ok(self.codes(expr, place)?.2)
    }

    pub(crate) fn number(&self, expr: &Expr, place: &str) -> Exported<ExportFormula> {
        let (cpp, python, _) = self.codes(expr, place)?;
        let cpp = format!("exact({}).number()", bare(&cpp));
        let python = format!("to_number({})", bare(&python));
        Ok(ExportFormula { source: expr.text().to_string(), cpp, python, known: None })
    }

    /// A formula of which only the truth counts: where it reads no size, it is known to be 1 or 0.
    pub(crate) fn condition(&self, expr: &Expr, place: &str) -> Exported<ExportFormula> {
        let (cpp, python, known) = self.codes(expr, place)?;
        let source = expr.text().to_string();
        Ok(match known {
            Some(value) => ExportFormula { source, ..ExportFormula::truth(value.is_true()) },
            None => ExportFormula {
                source,
                cpp: format!("is_true({})", bare(&cpp)),
                python: format!("bool({})", bare(&python)),
                known: None,
            },
        })
    }
}

pub(crate) fn place(key: &str, launch: &LaunchSpec) -> String {
    format!("{key} of launch `{}`", launch.entry)
}

pub type Exported<T> = Result<T, ExportError>;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    #[error("{0}")]
    NotExportable(String),
    /// A template of evo's own fails: a mistake in evo.
    #[error("the template `{name}` fails: {why}")]
    Template { name: String, why: String },
}

impl ExportError {
    pub(crate) fn not_exportable(text: impl Into<String>) -> ExportError {
        ExportError::NotExportable(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_ascii_and_end_where_they_should() {
        assert_eq!(quoted(Language::Cpp, "a\"b\\ é?\n"), r#""a\"b\\ \303\251\077\012""#);
        assert_eq!(quoted(Language::Python, "a\"b\\ é?\n"), r#""a\"b\\ \U000000e9?\U0000000a""#);
        assert_eq!(literal(Language::Cpp, &Value::text("a\0b")), r#"std::string_view("a\000b", 3)"#);
        assert_eq!(literal(Language::Cpp, &Value::Int(i64::MIN)), "INT64_MIN");
        assert_eq!(literal(Language::Python, &Value::Bool(true)), "True");
        assert_eq!(literal(Language::Python, &Value::Float(4.0)), "4.0");
        assert_eq!(literal(Language::Cpp, &Value::Float(-0.5)), "(-0.5)");
    }
}
