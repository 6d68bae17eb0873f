//! What a space is made of: parameters and the constraints between them. Expressions that mix texts and numbers in a
//! way that no values can make right are found before any evaluation.

use std::sync::Arc;

use crate::diagnostic::Span;
use crate::expr::tree::{Function, Kind, Relation, Tree};
use crate::expr::{Expr, ExprError, Scope};
use crate::text::quoted;
use crate::value::Value;

pub fn first_values(values: &[Value], count: usize) -> String {
    quoted(&values[..count.min(values.len())]) + if values.len() > count { ", …" } else { "" }
}

/// A name and the values it may take, in the order that defines steps between neighbors.
#[derive(Clone, Debug)]
pub struct Parameter {
    pub name: Arc<str>,
    /// At least one value, no value twice.
    pub values: Vec<Value>,
    pub default: usize,
    pub help: Option<String>,
}

impl Parameter {
    /// The position of `value`, compared as expressions compare (`4 == 4.0`).
    pub fn position(&self, value: &Value) -> Option<usize> {
        self.values.iter().position(|candidate| candidate == value)
    }

    pub fn default_value(&self) -> &Value {
        &self.values[self.default]
    }
}

#[derive(Clone, Debug)]
pub struct Constraint {
    pub expr: Expr,
    /// The author's reason, shown when it refuses something.
    pub because: Option<String>,
    /// Positions of the parameters it reads, ascending.
    pub parameters: Vec<usize>,
    pub span: Option<Span>,
}

impl Constraint {
    /// Whether it holds; an error (such as a division by zero) refuses the point as well.
    pub fn evaluate(&self, scope: &dyn Scope) -> Result<bool, ExprError> {
        self.expr.evaluate(scope).map(|value| value.is_true())
    }
}

#[derive(Clone, Copy, PartialEq)]
struct Kinds {
    number: bool,
    text: bool,
}

const NUMBER: Kinds = Kinds { number: true, text: false };

impl Kinds {
    fn of(value: &Value) -> Kinds {
        let text = matches!(value, Value::Text(_));
        Kinds { number: !text, text }
    }

    fn or(self, other: Kinds) -> Kinds {
        Kinds { number: self.number || other.number, text: self.text || other.text }
    }

    fn meets(self, other: Kinds) -> bool {
        self.number && other.number || self.text && other.text
    }

    fn name(self) -> &'static str {
        if self.text { "text" } else { "number" }
    }
}

pub fn check_kinds(expr: &Expr, parameters: &[Parameter]) -> Vec<ExprError> {
    let parameter = |name: &str| parameters.iter().find(|parameter| &*parameter.name == name);
    let named: Vec<_> = expr.distinct_names().iter().map(|name| parameter(name)).collect();
    let of_values = |parameter: &Parameter| {
        let none = Kinds { number: false, text: false };
        parameter.values.iter().map(Kinds::of).fold(none, Kinds::or)
    };
    // An unknown name has its own error, so it must not cause a second one here.
    let unknown = Kinds { number: true, text: true };
    let kinds = named.iter().map(|named| named.map_or(unknown, of_values)).collect();
    let mut checker = Checker { named, kinds, errors: Vec::new() };
    checker.kinds(expr.tree());
    checker.errors
}

struct Checker<'a> {
    named: Vec<Option<&'a Parameter>>,
    kinds: Vec<Kinds>,
    errors: Vec<ExprError>,
}

impl Checker<'_> {
    fn kinds(&mut self, tree: &Tree) -> Kinds {
        match &tree.kind {
            Kind::Literal(value) => Kinds::of(value),
            Kind::Name(slot) => self.kinds[*slot],
            Kind::Not(operand) => {
                self.kinds(operand);
                NUMBER
            }
            Kind::Compare(first, rest) => self.compare(first, rest),
            Kind::If { condition, then, otherwise } => {
                self.kinds(condition);
                self.kinds(then).or(self.kinds(otherwise))
            }
            Kind::Negate(_) | Kind::Chain(..) | Kind::Call(Function::Abs | Function::CeilDiv, _) => {
                tree.for_children(&mut |operand| self.numeric(operand));
                NUMBER
            }
            Kind::List(list)
            | Kind::All(list)
            | Kind::Any(list)
            | Kind::Call(Function::Min | Function::Max, list) => {
                list.iter().map(|operand| self.kinds(operand)).reduce(Kinds::or).unwrap_or(NUMBER)
            }
        }
    }

    fn numeric(&mut self, tree: &Tree) {
        if !self.kinds(tree).number {
            let error = ExprError::new(tree.span.clone(), "a text is used as a number");
            self.push(error, &[tree]);
        }
    }

    fn compare(&mut self, first: &Tree, rest: &[(Relation, Tree)]) -> Kinds {
        let (mut left_tree, mut left) = (first, self.kinds(first));
        for (comparison, tree) in rest {
            let right = self.kinds(tree);
            let empty = matches!(&tree.kind, Kind::List(items) if items.is_empty());
            // A parameter that mixes texts and numbers may meet either.
            if !left.meets(right) && !empty {
                let place = left_tree.span.start..tree.span.end;
                let message = match comparison {
                    Relation::In | Relation::NotIn => {
                        format!("looks for a {} among {}s", left.name(), right.name())
                    }
                    _ => format!("compares a {} with a {}", left.name(), right.name()),
                };
                self.push(ExprError::new(place, message), &[left_tree, tree]);
            }
            (left_tree, left) = (tree, right);
        }
        NUMBER
    }

    /// The hint names the values of the first parameter involved.
    fn push(&mut self, error: ExprError, involved: &[&Tree]) {
        let parameter = involved.iter().find_map(|tree| match tree.kind {
            Kind::Name(slot) => self.named[slot],
            _ => None,
        });
        self.errors.push(match parameter {
            Some(Parameter { name, values, .. }) => {
                error.hint(format!("the values of `{name}` are {}", first_values(values, 6)))
            }
            None => error.hint("texts are only compared with texts, and never computed with"),
        });
    }
}
