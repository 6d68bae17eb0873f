//! The one compiled form of expressions: a tree is lowered to `Code` (names become slots, texts become ranks, constants
//! fold) and compiled to a `Program` over registers. Trees are evaluated directly in `expr` only where an error has to
//! be explained; ordinary tests and the fuzz target `expression` hold the two evaluators against each other.

mod lower;
mod machine;

use crate::expr::Expr;
use crate::expr::tree::{Kind, Tree};
use crate::program::lower::lower;
use crate::value::{Number, Value};

pub(crate) use crate::program::lower::{Domains, Texts, alone_or, conjuncts};
pub(crate) use crate::program::machine::{Atom, Code, Program, Register, Registers, Step};

/// An expression in the form that counts spaces, for evaluation at many points.
///
/// It has the value that `Expr::evaluate` gives, several times faster, and no message where there is
/// none. Truth is 1 or 0 here, which is equal to `true` or `false`.
///
/// ```
/// use evo_space::expr::Expr;
/// use evo_space::program::Scratch;
/// use evo_space::value::Value;
///
/// let expr = Expr::parse("B != 0 and A / B > 1")?;
/// // The values that B and A can have: names count in order of appearance.
/// let domains = [[0, 1].map(Value::Int).to_vec(), [1, 2].map(Value::Int).to_vec()];
/// let compiled = expr.compile(&domains);
/// let mut scratch = Scratch::default();
/// let mut at = |b: usize, a: usize| compiled.evaluate(|name| &domains[name][[b, a][name]], &mut scratch);
/// assert_eq!(at(0, 1), Some(Value::Bool(false)));
/// assert_eq!(at(1, 1), Some(Value::Bool(true)));
/// # Ok::<(), evo_space::expr::ExprError>(())
/// ```
#[derive(Clone, Debug)]
pub struct CompiledExpr {
    program: Program,
    initial: Registers,
    /// The names that the tree reads, ascending; each is the register of its position here.
    names: Vec<usize>,
    texts: Texts,
}

/// Memory for evaluations, which any number of compiled expressions can use in turn.
#[derive(Clone, Debug, Default)]
pub struct Scratch(Registers);

impl Expr {
    /// `domains` holds the values that each of `distinct_names` can have, at least one each.
    pub fn compile(&self, domains: &[Vec<Value>]) -> CompiledExpr {
        CompiledExpr::new(self.tree(), domains)
    }
}

impl CompiledExpr {
    /// `domains` holds the values that each name can have, at least one for each that the tree reads.
    pub fn new(tree: &Tree, domains: &[Vec<Value>]) -> CompiledExpr {
        let mut names = Vec::new();
        tree.visit(&mut |tree| {
            if let Kind::Name(name) = &tree.kind {
                names.push(*name);
            }
        });
        names.sort_unstable();
        names.dedup();
        // Registers are numbered by the names that are read, so unused names of a scope cost nothing.
        let mut slots = vec![usize::MAX; domains.len()];
        names.iter().enumerate().for_each(|(slot, name)| slots[*name] = slot);
        let values = names.iter().flat_map(|name| &domains[*name]);
        let texts = Texts::collect(values, std::iter::once(tree));
        let atoms = |name: &usize| domains[*name].iter().map(|value| texts.atom(value)).collect();
        let values: Vec<Vec<Atom>> = names.iter().map(atoms).collect();
        let code = lower(tree, &slots, &Domains::new(&values, &texts));
        let mut initial = Registers::new(names.len());
        let program = Program::new(&code, &mut initial);
        CompiledExpr { program, initial, names, texts }
    }

    /// The value, `None` where evaluation fails. `value_of` is asked for each name that the tree
    /// reads, and answers with one of its values.
    pub fn evaluate<'v>(
        &self,
        value_of: impl Fn(usize) -> &'v Value,
        scratch: &mut Scratch,
    ) -> Option<Value> {
        self.run(|name| self.texts.atom(value_of(name)), scratch).map(|atom| self.texts.value(atom))
    }

    /// For names that are all floats: quicker, because no value is converted. A text as the value is `None` too.
    pub fn evaluate_floats(&self, value_of: impl Fn(usize) -> f64, scratch: &mut Scratch) -> Option<f64> {
        let value = self.run(|name| Atom::Number(Number::Float(value_of(name))), scratch)?;
        value.number().map(Number::as_float)
    }

    #[inline]
    fn run(&self, atom_of: impl Fn(usize) -> Atom, scratch: &mut Scratch) -> Option<Atom> {
        // Constants differ from program to program, and temporaries of the last run must not be read.
        scratch.0.reset(&self.initial);
        for (register, name) in self.names.iter().enumerate() {
            scratch.0.set(register as Register, Some(atom_of(*name)));
        }
        self.program.run(&mut scratch.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::Expr;
    use crate::value::Value;

    fn values() -> Vec<Value> {
        // Two of them are integers that no float holds, which tells exact comparison from one of floats.
        let integers = [-3, 0, 1, 2, 7, (1 << 53) + 1, i64::MAX].map(Value::Int);
        let others = [Value::Float(0.5), Value::Float(-4.0), Value::text(""), Value::text("x")];
        integers.into_iter().chain(others).collect()
    }

    /// For every combination of values of `a` and `b`: the value itself, and whether all conjuncts hold.
    #[track_caller]
    fn check(text: &str) {
        let values = &values();
        let expr = Expr::parse(text).unwrap();
        let names = expr.distinct_names();
        let compiled = expr.compile(&vec![values.to_vec(); names.len()]);
        let texts = Texts::collect(values.iter(), [expr.tree()].into_iter());
        let atoms: Vec<Atom> = values.iter().map(|value| texts.atom(value)).collect();
        let slots: Vec<usize> = names.iter().map(|name| usize::from(&**name == "b")).collect();
        let both = [atoms.clone(), atoms.clone()];
        let domains = Domains::new(&both, &texts);
        let mut registers = Registers::new(2);
        let codes = conjuncts(expr.tree(), &slots, &domains);
        let programs: Vec<Program> = codes.iter().map(|code| Program::new(code, &mut registers)).collect();
        let mut scratch = Scratch::default();
        for (at, a) in values.iter().enumerate() {
            for (bt, b) in values.iter().enumerate() {
                let pair = [a, b];
                let scope = |name: &str| Some(pair[usize::from(name == "b")].clone());
                let expected = expr.evaluate(&scope).ok();
                let value = compiled.evaluate(|name| pair[slots[name]], &mut scratch);
                assert_eq!(value, expected, "{text} at {a} {b}");
                assert_eq!(is_text(&value), is_text(&expected), "{text} at {a} {b}");
                registers.set(0, Some(atoms[at]));
                registers.set(1, Some(atoms[bt]));
                let holds = programs.iter().all(|program| program.holds(&mut registers));
                let expected = expected.is_some_and(|value| value.is_true());
                assert_eq!(holds, expected, "{text}: {codes:?} at {a} {b}");
            }
        }
    }

    fn is_text(value: &Option<Value>) -> bool {
        matches!(value, Some(Value::Text(_)))
    }

    #[test]
    fn programs_mean_what_the_tree_means() {
        let texts = [
            "a + b * 2 - 3 < a // b",
            "a % b == 1 or b / a > 0.5",
            "a ** b <= 8 and not a == b",
            "(a or b) != (b and a)",
            "a in [1, b, 'x'] or b not in [2, 7]",
            "a in [] or b < 0",
            "a in [1, 2 // b, -3] or a not in [b, 1 // b]",
            "(1 // a if b else 2 // b) > 0",
            "min(a, b, 1) < max(b, 0.5) or abs(a) > ceil_div(b, a)",
            "-a < b <= 7 < a",
            "'x' == a or a * b > 9223372036854775807 - 1",
            "b != 0 and a / b > 1",
            "1 if a else 'x'",
            "not (a or b // a > 1)",
            "1 // 0 == 1 and a",
        ];
        texts.into_iter().for_each(check);
    }

    #[test]
    fn a_register_without_a_value_fails_only_the_program_that_reads_it() {
        let read = |first: bool| {
            let code = Code::of(Step::Any, vec![Code::constant(Atom::bool(first)), Code::slot(0)]);
            let mut registers = Registers::new(1);
            let program = Program::new(&code, &mut registers);
            program.run(&mut registers)
        };
        assert_eq!(read(true), Some(Atom::bool(true)));
        assert_eq!(read(false), None);
    }

    #[test]
    fn one_scratch_serves_several_expressions() {
        let domain = [1, 2, 3].map(Value::Int).to_vec();
        let exprs = ["a + 10", "b * a - 1", "1 // (a - 1)"].map(|text| Expr::parse(text).unwrap());
        let compiled = exprs.each_ref().map(|expr| expr.compile(&vec![domain.clone(); 2]));
        let mut scratch = Scratch::default();
        let mut values = || compiled.each_ref().map(|own| own.evaluate(|name| &domain[name], &mut scratch));
        let expected = [Some(Value::Int(11)), Some(Value::Int(1)), None];
        assert_eq!(values(), expected);
        assert_eq!(values(), expected);
    }

    #[test]
    fn long_chains_do_not_nest() {
        let expr = Expr::parse(&format!("a{}", " + a".repeat(20_000))).unwrap();
        // Floats are added in the order in which they are written, so such a sum cannot become flat; one of integers does.
        for domain in [[0.5, 1.0].map(Value::Float), [0, 1].map(Value::Int)] {
            let compiled = expr.compile(&[domain.to_vec()]);
            let value = compiled.evaluate(|_| &domain[1], &mut Scratch::default());
            assert_eq!(value, Some(Value::Int(20_001)));
        }
    }
}
