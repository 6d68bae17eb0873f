//! Compiled expressions against the trees that they come from.

use super::*;
use crate::code::Texts;
use crate::expr::Expr;
use crate::lower::{Domains, conjuncts};
use crate::value::Value;

/// Runs the compiled form on every combination of values for `a` and `b`.
fn check(text: &str) {
    let expr = Expr::parse(text).unwrap();
    let values: Vec<Value> = [-3, 0, 1, 2, 7, i64::MAX]
        .map(Value::Int)
        .into_iter()
        .chain([Value::Float(0.5), Value::Float(-4.0), Value::text(""), Value::text("x")])
        .collect();
    let texts = Texts::collect(values.iter(), [expr.tree()].into_iter());
    let atoms: Vec<Atom> = values.iter().map(|value| texts.atom(value)).collect();
    let domain = vec![atoms.clone(); 2];
    let slots: Vec<usize> = expr.distinct_names().iter().map(|name| usize::from(&**name == "b")).collect();
    for code in conjuncts(expr.tree(), &slots, &Domains { values: &domain, texts: &texts }) {
        let mut registers = Registers::new(2);
        let program = Program::new(&code, &mut registers);
        for a in &atoms {
            for b in &atoms {
                registers.set(0, Some(*a));
                registers.set(1, Some(*b));
                let expected = code.evaluate(&[*a, *b]);
                assert_eq!(program.run(&mut registers), expected, "{text}: {code:?} at {a:?} {b:?}");
            }
        }
    }
}

#[test]
fn programs_mean_what_the_code_means() {
    check("a + b * 2 - 3 < a // b");
    check("a % b == 1 or b / a > 0.5");
    check("a ** b <= 8 and not a == b");
    check("(a or b) != (b and a)");
    check("a in [1, b, 'x'] or b not in [2, 7]");
    check("a in [] or b < 0");
    check("a in [1, 2 // b, -3] or a not in [b, 1 // b]");
    check("(1 // a if b else 2 // b) > 0");
    check("min(a, b, 1) < max(b, 0.5) or abs(a) > ceil_div(b, a)");
    check("-a < b <= 7 < a");
    check("'x' == a or a * b > 9223372036854775807 - 1");
}

#[test]
fn a_register_without_a_value_fails_only_who_reads_it() {
    let read = |first: bool| {
        let truth = Code::Constant(Atom::bool(first));
        let code = Code::Any(vec![truth, Code::Slot(0)]);
        let mut registers = Registers::new(1);
        let program = Program::new(&code, &mut registers);
        program.run(&mut registers)
    };
    assert_eq!(read(true), Some(Atom::bool(true)));
    assert_eq!(read(false), None);
}
