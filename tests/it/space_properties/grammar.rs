//! Random expressions of the constraint language, all of it: written as people write them, with
//! thresholds taken from real points so that neither side of a comparison always wins.

use evo_space::expr::Expr;
use evo_space::value::Value;

use super::generator::{Choices, NamedValues};

/// How deep operators nest at most.
const DEPTH: usize = 3;

/// Writes expressions that read some of a space's parameters.
pub struct Grammar<'a, C> {
    pub choices: &'a mut C,
    /// All parameters of the space.
    pub parameters: &'a [NamedValues],
    /// Positions of those that this expression may read; at least one.
    pub readable: Vec<usize>,
}

impl<C: Choices> Grammar<'_, C> {
    /// A constraint.
    pub fn constraint(&mut self) -> String {
        match self.choices.below(10) {
            0 => self.constant(),
            1..=3 => self.customary(),
            _ => self.condition(DEPTH),
        }
    }

    /// What people write most.
    fn customary(&mut self) -> String {
        let (a, b, c) = (self.name(), self.name(), self.name());
        match self.choices.below(9) {
            0 => format!("{a} % {b} == 0"),
            1 => format!("{a} == 1 or {b} % {a} == 0"),
            2 => self.threshold(&format!("{a} * {b} * {c}")),
            3 => self.threshold(&format!("{a} + {b} - {c}")),
            4 => format!("{a} != {b} and {a} != {c} and {b} != {c}"),
            5 => self.threshold(&format!("({a} * {b} + 2) * {c} * 4")),
            6 => format!("{a} < {b} <= {c}"),
            7 => format!("{a} if {b} > 1 else {c}"),
            _ => {
                let (value, other) = (self.value_of_a_point(&a), self.literal());
                format!("{a} == {value} or {b} != {other}")
            }
        }
    }

    /// A constraint for values near the ends of 64 bits: the order of evaluation decides what overflows.
    pub fn overflowing(&mut self) -> String {
        let (a, b, c) = (self.name(), self.name(), self.name());
        let expression = match self.choices.below(10) {
            0 | 1 => format!("{a} * ({b} * {c})"),
            2 => format!("{a} * {b} * {c}"),
            3 => format!("{a} - ({b} - {c})"),
            4 => format!("{a} + ({b} + {c})"),
            5 => format!("{a} + {b} - {c} + 1"),
            6 => format!("-{a} * {b} // {c}"),
            7 => format!("abs({a} - {b}) % {c}"),
            8 => format!("({a} - {b}) * (1 + {c})"),
            _ => format!("ceil_div({a} * 2, {b}) - {c}"),
        };
        self.threshold(&expression)
    }

    /// A constraint that reads nothing.
    fn constant(&mut self) -> String {
        const TEXTS: [&str; 12] = [
            "1 == 1",
            "True",
            "'a' in ['b', 'a']",
            "'x'",
            "1 < 2 < 3",
            "2 ** 62 > 0",
            "0.1 + 0.2 != 0.3",
            "1 < 0",
            "''",
            "1 // 0 == 0",
            "2 ** 63 > 0",
            "1 == 1 or 1 // 0",
        ];
        let always = 7;
        // A constraint that fails everywhere hides all others, so it is rarer.
        let last = if self.choices.chance(15) { TEXTS.len() } else { always };
        TEXTS[self.choices.below(last)].to_string()
    }

    fn condition(&mut self, depth: usize) -> String {
        if depth > 0 && self.choices.chance(40) {
            let (a, b) = (self.condition(depth - 1), self.condition(depth - 1));
            return match self.choices.below(6) {
                0 => format!("{a} and {b}"),
                1 => format!("({a}) or ({b})"),
                2 => format!("({a} or {b})"),
                3 => format!("not ({a})"),
                4 => format!("not {a}"),
                _ => {
                    let c = self.condition(depth - 1);
                    format!("({a} if {b} else {c})")
                }
            };
        }
        match self.choices.below(9) {
            0..=2 => {
                let number = self.number(depth.max(1));
                self.threshold(&number)
            }
            3 => {
                let (a, b) = (self.number(depth), self.number(depth));
                format!("{a} {} {b}", self.comparison())
            }
            4 => {
                let (a, b, c) = (self.number(1), self.number(depth), self.number(1));
                format!("{a} {} {b} {} {c}", self.comparison(), self.comparison())
            }
            5 | 6 => self.membership(depth),
            7 => self.text_condition(),
            _ => self.number(depth),
        }
    }

    /// A comparison of an expression with a value that it has at some point.
    fn threshold(&mut self, expression: &str) -> String {
        let value = self.value_of_a_point(expression);
        match self.choices.below(5) {
            0 => format!("{value} {} {expression}", self.comparison()),
            _ => format!("{expression} {} {value}", self.comparison()),
        }
    }

    fn membership(&mut self, depth: usize) -> String {
        let left = self.number(depth.min(1));
        let items = (0..self.choices.below(5)).map(|_| match self.choices.below(6) {
            0 => self.number(1),
            1 => self.literal(),
            _ => self.value_of_a_point(&left),
        });
        let items = items.collect::<Vec<_>>().join(", ");
        let (open, close) = if self.choices.chance(50) { ("[", "]") } else { ("(", ")") };
        let word = if self.choices.chance(35) { "not in" } else { "in" };
        match self.choices.below(4) {
            0 => format!("{} < {left} {word} {open}{items}{close}", self.literal()),
            _ => format!("{left} {word} {open}{items}{close}"),
        }
    }

    fn text_condition(&mut self) -> String {
        let (a, b) = (self.name(), self.name());
        let value = self.value_of_a_point(&a);
        match self.choices.below(6) {
            0 => format!("{a} == {value}"),
            1 => format!("{a} != {b}"),
            2 => format!("{a} >= {value}"),
            3 => format!("{a} in ['row', {value}, 2.0, 'b']"),
            4 => format!("max({a}, {value}) == {a}"),
            _ => a,
        }
    }

    fn number(&mut self, depth: usize) -> String {
        if depth == 0 || self.choices.chance(20) {
            return if self.choices.chance(70) { self.name() } else { self.literal() };
        }
        let a = self.number(depth - 1);
        if self.choices.chance(15) {
            return match self.choices.below(4) {
                0 => format!("-{a}"),
                1 => format!("abs({a})"),
                2 if depth > 1 => format!("({})", self.condition(depth - 1)),
                _ => format!("+{a}"),
            };
        }
        let b = self.number(depth - 1);
        match self.choices.below(16) {
            0..=6 => format!("({a} {} {b})", self.operator()),
            7 | 8 => format!("{a} {} {b}", self.operator()),
            9 => format!("({a} - {b} + {})", self.number(depth - 1)),
            10 => format!("{a} * {b} * {}", self.number(depth - 1)),
            11 => format!("min({a}, {b})"),
            12 => format!("max({a}, {b}, {})", self.literal()),
            13 => format!("ceil_div({a}, {b})"),
            14 => format!("({a}) ** {}", ["2", "3", "-1", "0.5", "0", "62"][self.choices.below(6)]),
            // Conditions hold numbers one deep, so that a number one deep holds none.
            _ if depth > 1 => format!("({a} if {} else {b})", self.condition(depth - 1)),
            _ => format!("({a} - {b})"),
        }
    }

    fn operator(&mut self) -> &'static str {
        ["+", "+", "-", "-", "*", "*", "*", "/", "//", "%", "%", "**"][self.choices.below(12)]
    }

    fn comparison(&mut self) -> &'static str {
        ["==", "!=", "<", "<=", "<=", ">", ">="][self.choices.below(7)]
    }

    fn name(&mut self) -> String {
        let at = self.readable[self.choices.below(self.readable.len())];
        self.parameters[at].0.clone()
    }

    /// The expression's value where all parameters have random values; a literal if it has none there.
    fn value_of_a_point(&mut self, expression: &str) -> String {
        let chosen = self.parameters.iter().map(|(_, values)| &values[self.choices.below(values.len())]);
        let chosen: Vec<&Value> = chosen.collect();
        let lookup = |name: &str| {
            let at = self.parameters.iter().position(|(own, _)| own == name)?;
            Some(chosen[at].clone())
        };
        let value = Expr::parse(expression).ok().and_then(|expr| expr.evaluate(&lookup).ok());
        value.map_or_else(|| self.literal(), |value| written(&value))
    }

    fn literal(&mut self) -> String {
        const TEXTS: [&str; 14] = [
            "2.0",
            "0.5",
            "2.5",
            "1e300",
            "9223372036854775807",
            "3037000500",
            "4294967296",
            "9007199254740993",
            "'row'",
            "'b'",
            "''",
            "True",
            "false",
            "0x10",
        ];
        if self.choices.chance(75) {
            return written(&Value::Int(self.choices.below(20) as i64 - 4));
        }
        TEXTS[self.choices.below(TEXTS.len())].to_string()
    }
}

/// A value as an expression that gives it back.
pub fn written(value: &Value) -> String {
    match value {
        Value::Bool(true) => "True".to_string(),
        Value::Bool(false) => "False".to_string(),
        Value::Text(text) => format!("'{text}'"),
        Value::Int(i64::MIN) => format!("({} - 1)", i64::MIN + 1),
        Value::Int(number) if *number < 0 => format!("({number})"),
        Value::Float(number) if *number < 0.0 => format!("({number:?})"),
        other => other.to_string(),
    }
}
