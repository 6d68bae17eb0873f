//! Small programs over the values of parameters: what a feature is computed by.
//!
//! A formula is in postfix form and works on floats. Where an expression has no value (a division by
//! zero, a text used as a number) the result is NaN, and the feature says so with a value of its own.

use std::sync::Arc;

use evo_space::expr::tree::{Comparison, Function, Kind, Tree};
use evo_space::number::{Number, Operator};
use evo_space::parameter::Parameter;
use evo_space::value::Value;

/// One step of a formula.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    Push(f64),
    /// The number that stands for a parameter's value.
    Load(usize),
    Operate(Operator),
    Negate,
    Absolute,
    CeilDiv,
    Least(usize),
    Greatest(usize),
    Compare(Comparison),
    /// Whether the first of so many equals one of the others.
    Member(usize),
    Not,
    /// Whether all, or any, of so many hold.
    All(usize),
    Any(usize),
    /// The second if the first holds, else the third.
    Select,
}

/// The numbers that stand for the values of each parameter: the values themselves, or their positions
/// where one of them is a text.
#[derive(Clone, Debug)]
pub struct Numbers(Vec<Vec<f64>>);

impl Numbers {
    /// For the parameters of a space.
    pub fn new(parameters: &[Parameter]) -> Numbers {
        let numbers = |parameter: &Parameter| {
            let own: Option<Vec<f64>> = parameter.values.iter().map(Value::as_float).collect();
            own.unwrap_or_else(|| (0..parameter.values.len()).map(|at| at as f64).collect())
        };
        Numbers(parameters.iter().map(numbers).collect())
    }

    /// Those of one parameter.
    pub fn of(&self, slot: usize) -> &[f64] {
        &self.0[slot]
    }
}

/// A program with one result.
#[derive(Clone, Debug, PartialEq)]
pub struct Formula(Vec<Step>);

impl Formula {
    /// From steps that leave one value.
    pub fn new(steps: Vec<Step>) -> Formula {
        Formula(steps)
    }

    /// `first operator second`.
    pub fn pair(first: Formula, operator: Operator, second: Formula) -> Formula {
        let mut steps = first.0;
        steps.extend(second.0);
        steps.push(Step::Operate(operator));
        Formula(steps)
    }

    /// From an expression, whose names stand for these slots; `None` if texts take part in other ways
    /// than being equal to a parameter's values.
    pub fn of_tree(tree: &Tree, slots: &[usize], parameters: &[Parameter]) -> Option<Formula> {
        let mut steps = Vec::new();
        Compiler { slots, parameters }.compile(tree, &mut steps)?;
        Some(Formula(steps))
    }

    /// The parameters it reads, ascending.
    pub fn slots(&self) -> Vec<usize> {
        let load = |step: &Step| if let Step::Load(slot) = step { Some(*slot) } else { None };
        let mut slots: Vec<usize> = self.0.iter().filter_map(load).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// The value at a point.
    pub fn evaluate(&self, positions: &[u16], numbers: &Numbers, stack: &mut Vec<f64>) -> f64 {
        stack.clear();
        for step in &self.0 {
            match step {
                Step::Push(value) => stack.push(*value),
                Step::Load(slot) => stack.push(numbers.0[*slot][usize::from(positions[*slot])]),
                step => {
                    let first = stack.len() - step.operands();
                    let value = apply(*step, &stack[first..]);
                    stack.truncate(first);
                    stack.push(value);
                }
            }
        }
        stack.pop().unwrap_or(f64::NAN)
    }

    /// As a person would write it, with the names of a space.
    pub fn text(&self, parameters: &[Parameter]) -> String {
        let mut stack: Vec<String> = Vec::new();
        for step in &self.0 {
            let text = match step {
                Step::Push(value) => value.to_string(),
                Step::Load(slot) => parameters[*slot].name.to_string(),
                step => {
                    let operands = stack.split_off(stack.len() - step.operands());
                    step.text(&operands)
                }
            };
            stack.push(text);
        }
        let text = stack.pop().unwrap_or_default();
        if is_bracketed(&text) { text[1..text.len() - 1].to_string() } else { text }
    }
}

/// Whether the first bracket is closed by the last character, and not before.
fn is_bracketed(text: &str) -> bool {
    let mut depth = 0i32;
    let closes = text.char_indices().find_map(|(at, character)| {
        depth += i32::from(character == '(') - i32::from(character == ')');
        (depth == 0).then_some(at)
    });
    text.starts_with('(') && closes == Some(text.len() - 1)
}

impl Step {
    fn operands(self) -> usize {
        match self {
            Step::Push(_) | Step::Load(_) => 0,
            Step::Negate | Step::Absolute | Step::Not => 1,
            Step::Operate(_) | Step::CeilDiv | Step::Compare(_) => 2,
            Step::Select => 3,
            Step::Least(n) | Step::Greatest(n) | Step::Member(n) | Step::All(n) | Step::Any(n) => n,
        }
    }

    fn text(self, operands: &[String]) -> String {
        let joined = |word: &str| format!("({})", operands.join(word));
        match self {
            Step::Push(_) | Step::Load(_) => String::new(),
            Step::Negate => format!("-{}", operands[0]),
            Step::Not => format!("not {}", operands[0]),
            Step::Operate(operator) => joined(&format!(" {} ", operator.as_str())),
            Step::Absolute => format!("abs({})", operands[0]),
            Step::CeilDiv => format!("ceil_div({})", operands.join(", ")),
            Step::Least(_) => format!("min({})", operands.join(", ")),
            Step::Greatest(_) => format!("max({})", operands.join(", ")),
            Step::Compare(comparison) => joined(match comparison {
                Comparison::Equal | Comparison::In => " == ",
                Comparison::NotEqual | Comparison::NotIn => " != ",
                Comparison::Less => " < ",
                Comparison::LessEqual => " <= ",
                Comparison::Greater => " > ",
                Comparison::GreaterEqual => " >= ",
            }),
            Step::Member(_) => format!("({} in [{}])", operands[0], operands[1..].join(", ")),
            Step::All(_) => joined(" and "),
            Step::Any(_) => joined(" or "),
            Step::Select => format!("({} if {} else {})", operands[1], operands[0], operands[2]),
        }
    }
}

fn apply(step: Step, operands: &[f64]) -> f64 {
    let truth = |holds: bool| f64::from(u8::from(holds));
    let fold = |with: fn(f64, f64) -> f64| operands[1..].iter().fold(operands[0], |a, b| with(a, *b));
    let number = |result: Option<Number>| result.map_or(f64::NAN, Number::as_float);
    let [a, b] = [0, 1].map(|at| operands.get(at).copied().unwrap_or(f64::NAN));
    match step {
        // Handled by the caller.
        Step::Push(_) | Step::Load(_) => f64::NAN,
        // These are most of all, and are the same as below.
        Step::Operate(Operator::Multiply) => a * b,
        Step::Operate(Operator::Add) => a + b,
        Step::Operate(Operator::Subtract) => a - b,
        _ if operands.iter().any(|operand| operand.is_nan()) && !matches!(step, Step::Select) => f64::NAN,
        Step::Operate(operator) => number(Number::apply(operator, Number::Float(a), Number::Float(b)).ok()),
        Step::CeilDiv => number(Number::ceil_div(Number::Float(a), Number::Float(b)).ok()),
        Step::Negate => -a,
        Step::Absolute => a.abs(),
        Step::Not => truth(a == 0.0),
        Step::Least(_) => fold(f64::min),
        Step::Greatest(_) => fold(f64::max),
        Step::Compare(comparison) => truth(match comparison {
            Comparison::Equal | Comparison::In => a == b,
            Comparison::NotEqual | Comparison::NotIn => a != b,
            Comparison::Less => a < b,
            Comparison::LessEqual => a <= b,
            Comparison::Greater => a > b,
            Comparison::GreaterEqual => a >= b,
        }),
        Step::Member(_) => truth(operands[1..].contains(&a)),
        Step::All(_) => truth(operands.iter().all(|operand| *operand != 0.0)),
        Step::Any(_) => truth(operands.iter().any(|operand| *operand != 0.0)),
        Step::Select => operands[if a != 0.0 { 1 } else { 2 }],
    }
}

struct Compiler<'a> {
    slots: &'a [usize],
    parameters: &'a [Parameter],
}

impl Compiler<'_> {
    /// Appends the steps of a tree.
    fn compile(&self, tree: &Tree, steps: &mut Vec<Step>) -> Option<()> {
        match &tree.kind {
            Kind::Literal(value) => steps.push(Step::Push(value.as_float()?)),
            Kind::Name(name) => {
                let slot = self.slots[*name];
                self.is_numeric(slot).then_some(())?;
                steps.push(Step::Load(slot));
            }
            Kind::List(_) => return None,
            Kind::Not(operand) => self.all(&[operand], Step::Not, steps)?,
            Kind::Negate(operand) => self.all(&[operand], Step::Negate, steps)?,
            Kind::Chain(first, rest) => {
                self.compile(first, steps)?;
                for (operator, operand) in rest {
                    self.all(&[operand], Step::Operate(*operator), steps)?;
                }
            }
            Kind::Compare(first, rest) => self.comparisons(first, rest, steps)?,
            Kind::All(operands) => self.all(&references(operands), Step::All(operands.len()), steps)?,
            Kind::Any(operands) => self.all(&references(operands), Step::Any(operands.len()), steps)?,
            Kind::If { condition, then, otherwise } => {
                self.all(&[condition, then, otherwise], Step::Select, steps)?;
            }
            Kind::Call(function, arguments) => {
                let step = match function {
                    Function::Min => Step::Least(arguments.len()),
                    Function::Max => Step::Greatest(arguments.len()),
                    Function::Abs => Step::Absolute,
                    Function::CeilDiv => Step::CeilDiv,
                };
                self.all(&references(arguments), step, steps)?;
            }
        }
        Some(())
    }

    fn all(&self, operands: &[&Tree], step: Step, steps: &mut Vec<Step>) -> Option<()> {
        operands.iter().try_for_each(|operand| self.compile(operand, steps))?;
        steps.push(step);
        Some(())
    }

    /// `a < b < c` is `a < b and b < c`.
    fn comparisons(&self, first: &Tree, rest: &[(Comparison, Tree)], steps: &mut Vec<Step>) -> Option<()> {
        let mut left = first;
        for (comparison, right) in rest {
            let items = match &right.kind {
                Kind::List(items) => items.as_slice(),
                _ => std::slice::from_ref(right),
            };
            if let Some((slot, positions)) = self.texts(left, items) {
                steps.push(Step::Load(slot));
                steps.extend(positions.iter().map(|position| Step::Push(*position)));
            } else {
                self.compile(left, steps)?;
                items.iter().try_for_each(|item| self.compile(item, steps))?;
            }
            match (comparison, &right.kind) {
                (Comparison::In, _) => steps.push(Step::Member(items.len() + 1)),
                (Comparison::NotIn, _) => steps.extend([Step::Member(items.len() + 1), Step::Not]),
                (comparison, _) => steps.push(Step::Compare(*comparison)),
            }
            left = right;
        }
        if rest.len() > 1 {
            steps.push(Step::All(rest.len()));
        }
        Some(())
    }

    /// A parameter with texts compared with literals: its slot, and the positions of the literals
    /// (-1 for one that it does not have).
    fn texts(&self, left: &Tree, items: &[Tree]) -> Option<(usize, Vec<f64>)> {
        let Kind::Name(name) = &left.kind else { return None };
        let slot = self.slots[*name];
        if self.is_numeric(slot) {
            return None;
        }
        let position = |item: &Tree| match &item.kind {
            Kind::Literal(value) => {
                let position = self.parameters[slot].position(value);
                Some(position.map_or(-1.0, |position| position as f64))
            }
            _ => None,
        };
        Some((slot, items.iter().map(position).collect::<Option<Vec<f64>>>()?))
    }

    fn is_numeric(&self, slot: usize) -> bool {
        self.parameters[slot].values.iter().all(|value| !matches!(value, Value::Text(_)))
    }
}

fn references(trees: &[Tree]) -> Vec<&Tree> {
    trees.iter().collect()
}

/// The slot of each of an expression's names; `None` if one is no parameter.
pub fn slots_of(names: &[Arc<str>], parameters: &[Parameter]) -> Option<Vec<usize>> {
    let slot = |name: &Arc<str>| parameters.iter().position(|parameter| parameter.name == *name);
    names.iter().map(slot).collect()
}

#[cfg(test)]
mod tests {
    use evo_space::expr::{Expr, Lookup};

    use super::*;
    use crate::conformance::space_of;

    const SPACE: &str =
        "[parameters]\nA = [1, 2, 3, 8]\nB = [0, 1, 5]\nC = [\"x\", \"y\", \"z\"]\nD = [true, false]\n";

    /// At every point the formula says what the expression says; where that fails, no number.
    #[track_caller]
    fn check(text: &str, shown: &str) {
        let space = space_of(SPACE);
        let expr = Expr::parse(text).unwrap();
        let slots = slots_of(expr.distinct_names(), space.parameters()).unwrap();
        let formula = Formula::of_tree(expr.tree(), &slots, space.parameters()).unwrap();
        let numbers = Numbers::new(space.parameters());
        let mut stack = Vec::new();
        for genome in space.iter() {
            let configuration = space.configuration(&genome);
            let expected = expr.evaluate(&Lookup(|name: &str| configuration.get(name).cloned()));
            let expected = expected.ok().and_then(|value| value.as_float());
            let value = formula.evaluate(genome.positions(), &numbers, &mut stack);
            assert_eq!((!value.is_nan()).then_some(value), expected, "{text} at {configuration}");
        }
        assert_eq!(formula.text(space.parameters()), shown);
    }

    #[test]
    fn formulas_say_what_expressions_say() {
        check("A * B + 3", "(A * B) + 3");
        check("A / B", "A / B");
        check("A // 2 % 3 - B ** 2", "((A // 2) % 3) - (B ** 2)");
        check("1 < A <= 3", "(1 < A) and (A <= 3)");
        check("(A > B) and (B != 1)", "(A > B) and (B != 1)");
        check("min(A, B, 2) + max(A, B) + abs(B - 4)", "(min(A, B, 2) + max(A, B)) + abs((B - 4))");
        check("A / B if B > 0 else -A", "(A / B) if (B > 0) else -A");
        check("ceil_div(A, 3)", "ceil_div(A, 3)");
        check("C == \"y\"", "C == 1");
        check("A in [1, 8] or C not in [\"x\", \"nothing\"]", "(A in [1, 8]) or not (C in [0, -1])");
        check("not D", "not D");
    }

    #[test]
    fn texts_are_no_numbers() {
        let space = space_of(SPACE);
        for text in ["C", "C < \"y\" or min(C, \"a\") == \"a\"", "\"a\" == \"b\""] {
            let expr = Expr::parse(text).unwrap();
            let slots = slots_of(expr.distinct_names(), space.parameters()).unwrap();
            assert_eq!(Formula::of_tree(expr.tree(), &slots, space.parameters()), None, "{text}");
        }
        assert_eq!(slots_of(&[Arc::from("unknown")], space.parameters()), None);
    }
}
