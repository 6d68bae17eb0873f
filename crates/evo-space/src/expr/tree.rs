//! The expression tree. Operators of one precedence stand in one node, so that a long sum is wide
//! and not deep: nothing that walks the tree can overflow the stack.

use crate::number::Operator;
use crate::span::Span;
use crate::value::Value;

/// A node with its place in the expression's text.
#[derive(Clone, Debug)]
pub struct Tree {
    /// What the node is, with its operands.
    pub kind: Kind,
    /// Its bytes in the expression's text.
    pub span: Span,
}

impl Tree {
    /// Visits the direct operands.
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

/// A node that was made and not read from a text: its place is empty.
impl From<Kind> for Tree {
    fn from(kind: Kind) -> Tree {
        Tree { kind, span: 0..0 }
    }
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum Kind {
    /// A number, a text, `True` or `False`.
    Literal(Value),
    /// Position among the expression's names.
    Name(usize),
    /// Only to the right of `in` and `not in`.
    List(Vec<Tree>),
    /// `not a`.
    Not(Box<Tree>),
    /// `-a`.
    Negate(Box<Tree>),
    /// Operators of one precedence, from left to right.
    Chain(Box<Tree>, Vec<(Operator, Tree)>),
    /// `a < b <= c` means `a < b and b <= c`.
    Compare(Box<Tree>, Vec<(Relation, Tree)>),
    /// `and`, with Python's value: the first false operand, else the last.
    All(Vec<Tree>),
    /// `or`: the first true operand, else the last.
    Any(Vec<Tree>),
    /// `then if condition else otherwise`.
    If {
        /// Decides which of the others is evaluated.
        condition: Box<Tree>,
        /// The value if the condition is true.
        then: Box<Tree>,
        /// The value if it is not.
        otherwise: Box<Tree>,
    },
    /// `min(a, b)` and the like.
    Call(Function, Vec<Tree>),
}

/// A comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Relation {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterEqual,
    /// `in`, with a list to the right
    In,
    /// `not in`, with a list to the right
    NotIn,
}

impl Relation {
    /// The comparison as written.
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
}

/// A built-in function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// `min(a, b, …)`: the least; the first of equals.
    Min,
    /// `max(a, b, …)`: the greatest; the first of equals.
    Max,
    /// `abs(a)`
    Abs,
    /// `ceil_div(a, b)`: `a / b` rounded up.
    CeilDiv,
}

impl Function {
    /// Every function.
    pub const ALL: [Function; 4] = [Function::Min, Function::Max, Function::Abs, Function::CeilDiv];

    /// The name as written.
    pub fn as_str(self) -> &'static str {
        match self {
            Function::Min => "min",
            Function::Max => "max",
            Function::Abs => "abs",
            Function::CeilDiv => "ceil_div",
        }
    }

    /// Fewest and most arguments.
    pub fn arity(self) -> (usize, usize) {
        match self {
            Function::Min | Function::Max => (1, usize::MAX),
            Function::Abs => (1, 1),
            Function::CeilDiv => (2, 2),
        }
    }
}
