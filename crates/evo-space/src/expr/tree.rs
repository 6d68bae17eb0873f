//! The expression tree. Operators of one precedence stand in one node, so that a long sum is wide
//! and not deep: nothing that walks the tree can overflow the stack.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::diagnostic::Span;
use crate::expr::ExprError;
use crate::value::{Number, NumberError, Operator, Value};

#[derive(Clone, Debug)]
pub struct Tree {
    pub kind: Kind,
    pub span: Span,
}

impl Tree {
    pub fn visit<'a>(&'a self, visit: &mut dyn FnMut(&'a Tree)) {
        visit(self);
        self.for_children(&mut |child| child.visit(visit));
    }

    pub fn for_children<'a>(&'a self, visit: &mut dyn FnMut(&'a Tree)) {
        match &self.kind {
            Kind::Literal(_) | Kind::Name(_) => {}
            Kind::Not(operand) | Kind::Negate(operand) => visit(operand),
            Kind::List(list) | Kind::All(list) | Kind::Any(list) | Kind::Call(_, list) => {
                list.iter().for_each(visit);
            }
            Kind::Chain(first, rest) => {
                visit(first);
                rest.iter().for_each(|(_, operand)| visit(operand));
            }
            Kind::Compare(first, rest) => {
                visit(first);
                rest.iter().for_each(|(_, operand)| visit(operand));
            }
            Kind::If { condition, then, otherwise } => {
                [condition, then, otherwise].into_iter().for_each(|t| visit(t))
            }
        }
    }
}

impl From<Kind> for Tree {
    fn from(kind: Kind) -> Tree {
        Tree { kind, span: 0..0 }
    }
}

#[derive(Clone, Debug)]
pub enum Kind {
    Literal(Value),
    /// Position among the expression's names.
    Name(usize),
    /// Only to the right of `in` and `not in`.
    List(Vec<Tree>),
    Not(Box<Tree>),
    Negate(Box<Tree>),
    Chain(Box<Tree>, Vec<(Operator, Tree)>),
    /// `a < b <= c` means `a < b and b <= c`.
    Compare(Box<Tree>, Vec<(Relation, Tree)>),
    /// `and`, with Python's value: the first false operand, else the last.
    All(Vec<Tree>),
    /// `or`: the first true operand, else the last.
    Any(Vec<Tree>),
    If {
        condition: Box<Tree>,
        then: Box<Tree>,
        otherwise: Box<Tree>,
    },
    Call(Function, Vec<Tree>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    /// `in`, with a list to the right
    In,
    /// `not in`, with a list to the right
    NotIn,
}

impl Relation {
    pub fn as_str(self) -> &'static str {
        match self {
            Relation::Equal => "==",
            Relation::NotEqual => "!=",
            Relation::Less => "<",
            Relation::LessEqual => "<=",
            Relation::Greater => ">",
            Relation::GreaterEqual => ">=",
            Relation::In => "in",
            Relation::NotIn => "not in",
        }
    }

    /// Of two values in some order, or in none; `in` stands for each of its items. Values of different kinds are unequal,
    /// and only asking for their order fails.
    #[inline]
    pub fn holds(self, order: Option<Ordering>) -> Option<bool> {
        Some(match self {
            Relation::Equal | Relation::In => order == Some(Ordering::Equal),
            Relation::NotEqual | Relation::NotIn => order != Some(Ordering::Equal),
            Relation::Less => order?.is_lt(),
            Relation::LessEqual => order?.is_le(),
            Relation::Greater => order?.is_gt(),
            Relation::GreaterEqual => order?.is_ge(),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    Min,
    Max,
    Abs,
    CeilDiv,
}

impl Function {
    pub const ALL: [Function; 4] = [Function::Min, Function::Max, Function::Abs, Function::CeilDiv];

    pub fn as_str(self) -> &'static str {
        match self {
            Function::Min => "min",
            Function::Max => "max",
            Function::Abs => "abs",
            Function::CeilDiv => "ceil_div",
        }
    }
}

/// What names mean during evaluation; any function from a name to its value is one.
pub trait Scope {
    fn get(&self, name: &str) -> Option<Value>;
}

impl<F: Fn(&str) -> Option<Value>> Scope for F {
    fn get(&self, name: &str) -> Option<Value> {
        self(name)
    }
}

pub(super) struct Context<'a> {
    pub names: &'a [Arc<str>],
    pub scope: &'a dyn Scope,
}

type Evaluated = Result<Value, ExprError>;

pub(super) fn evaluate(tree: &Tree, context: &Context<'_>) -> Evaluated {
    match &tree.kind {
        Kind::Literal(value) => Ok(value.clone()),
        Kind::Name(slot) => {
            let name = &context.names[*slot];
            let unknown = || ExprError::new(tree.span.clone(), format!("unknown name `{name}`"));
            context.scope.get(name).ok_or_else(unknown)
        }
        Kind::List(_) => Err(ExprError::new(tree.span.clone(), "a list stands only after `in`")),
        Kind::Not(operand) => Ok(Value::Bool(!evaluate(operand, context)?.is_true())),
        Kind::Negate(operand) => {
            let value = number(operand, &evaluate(operand, context)?)?;
            value.negate().map(Value::from).map_err(|error| blame(tree, error))
        }
        Kind::Chain(first, rest) => chain(first, rest, context),
        Kind::Compare(first, rest) => compare_all(first, rest, context),
        Kind::All(operands) => first_that(operands, context, false),
        Kind::Any(operands) => first_that(operands, context, true),
        Kind::If { condition, then, otherwise } => {
            let chosen = if evaluate(condition, context)?.is_true() { then } else { otherwise };
            evaluate(chosen, context)
        }
        Kind::Call(function, arguments) => call(*function, arguments, tree, context),
    }
}

/// The first operand whose truth is `wanted`, else the last.
fn first_that(operands: &[Tree], context: &Context<'_>, wanted: bool) -> Evaluated {
    let mut value = Value::Bool(!wanted);
    for operand in operands {
        value = evaluate(operand, context)?;
        if value.is_true() == wanted {
            break;
        }
    }
    Ok(value)
}

fn chain(first: &Tree, rest: &[(Operator, Tree)], context: &Context<'_>) -> Evaluated {
    let mut total = number(first, &evaluate(first, context)?)?;
    for (operator, operand) in rest {
        let right = number(operand, &evaluate(operand, context)?)?;
        total = Number::apply(*operator, total, right).map_err(|error| {
            let place = match error {
                // The divisor alone is to blame. Other failures take both sides to explain.
                NumberError::DivisionByZero => operand.span.clone(),
                _ => first.span.start..operand.span.end,
            };
            let sum = format!("{} {} {}", Value::from(total), operator.as_str(), Value::from(right));
            ExprError::new(place, format!("{error}: {sum}"))
        })?;
    }
    Ok(total.into())
}

fn compare_all(first: &Tree, rest: &[(Relation, Tree)], context: &Context<'_>) -> Evaluated {
    let mut left_tree = first;
    let mut left = evaluate(first, context)?;
    for (comparison, right_tree) in rest {
        if let Kind::List(items) = &right_tree.kind {
            // As in Python: an item without a value is an error even behind one that is equal.
            let items: Result<Vec<Value>, ExprError> =
                items.iter().map(|item| evaluate(item, context)).collect();
            let found = items?.contains(&left);
            // The last of the chain: the parser lets nothing follow a list.
            return Ok(Value::Bool(found == (*comparison == Relation::In)));
        }
        let right = evaluate(right_tree, context)?;
        let holds = comparison.holds(left.compare(&right)).ok_or_else(|| {
            let (a, b) = (left.kind(), right.kind());
            let message = format!("{a} `{left}` and {b} `{right}` have no order");
            ExprError::new(left_tree.span.start..right_tree.span.end, message)
        })?;
        if !holds {
            return Ok(Value::Bool(false));
        }
        (left_tree, left) = (right_tree, right);
    }
    Ok(Value::Bool(true))
}

fn call(function: Function, arguments: &[Tree], tree: &Tree, context: &Context<'_>) -> Evaluated {
    let values =
        arguments.iter().map(|argument| evaluate(argument, context)).collect::<Result<Vec<_>, _>>()?;
    let wanted = match function {
        Function::Min => Ordering::Less,
        Function::Max => Ordering::Greater,
        Function::Abs => {
            let value = number(&arguments[0], &values[0])?;
            return value.absolute().map(Value::from).map_err(|error| blame(tree, error));
        }
        Function::CeilDiv => {
            let (a, b) = (number(&arguments[0], &values[0])?, number(&arguments[1], &values[1])?);
            return Number::ceil_div(a, b).map(Value::from).map_err(|error| blame(tree, error));
        }
    };
    let mut best = values[0].clone();
    for (value, argument) in values.iter().zip(arguments).skip(1) {
        let order = value.compare(&best).ok_or_else(|| {
            let message = format!("{} `{value}` and {} `{best}` have no order", value.kind(), best.kind());
            ExprError::new(argument.span.clone(), message)
        })?;
        // The first of equals stays, as in Python.
        if order == wanted {
            best = value.clone();
        }
    }
    Ok(best)
}

fn number(tree: &Tree, value: &Value) -> Result<Number, ExprError> {
    value
        .as_number()
        .ok_or_else(|| ExprError::new(tree.span.clone(), format!("the text `{value}` is used as a number")))
}

fn blame(tree: &Tree, error: NumberError) -> ExprError {
    ExprError::new(tree.span.clone(), error.to_string())
}
