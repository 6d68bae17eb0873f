//! An expression compiled for evaluation at many points.

use super::code::{Atom, Texts};
use super::lower::{Domains, lower};
use super::machine::{Program, Register, Registers};
use crate::expr::Expr;
use crate::expr::tree::{Kind, Tree};
use crate::number::Number;
use crate::value::Value;

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
    /// The registers before a run: constants are set, all others are empty.
    initial: Registers,
    /// The names that the tree reads, ascending; each is the register of its position here.
    names: Vec<usize>,
    texts: Texts,
}

/// Memory for evaluations, which any number of compiled expressions can use in turn.
#[derive(Clone, Debug, Default)]
pub struct Scratch(Registers);

impl Expr {
    /// Compiles the expression. `domains` holds the values that each of `distinct_names` can have, at
    /// least one each.
    pub fn compile(&self, domains: &[Vec<Value>]) -> CompiledExpr {
        CompiledExpr::new(self.tree(), domains)
    }
}

impl CompiledExpr {
    /// Compiles a tree whose names count in `domains`: the values that each name can have, at least
    /// one for each name that the tree reads.
    pub fn new(tree: &Tree, domains: &[Vec<Value>]) -> CompiledExpr {
        let mut names = Vec::new();
        visit_names(tree, &mut |name| names.push(name));
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

    /// The same for an expression whose names are all floats: quicker, because no value is converted.
    /// Texts are not numbers, so a text as the value is `None` too.
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

fn visit_names(tree: &Tree, visit: &mut dyn FnMut(usize)) {
    if let Kind::Name(name) = &tree.kind {
        visit(*name);
    }
    tree.for_children(&mut |child| visit_names(child, visit));
}
