//! Any text as an expression: refused with a place and a hint, or a tree that means the same when it
//! is written out with every bracket and read again.
#![no_main]

use evo_space::expr::tree::{Kind, Tree};
use evo_space::expr::{Expr, ExprError};
use evo_space::program::Scratch;
use evo_space::value::Value;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if text.len() > 2000 {
        return;
    }
    match Expr::parse(text) {
        Err(error) => {
            check_place(text, &error);
            assert!(error.hint.is_some(), "no hint: {}", error.message);
        }
        Ok(expr) => {
            check_meaning(&expr);
            check_compiled(&expr);
        }
    }
});

fn check_place(text: &str, error: &ExprError) {
    let place = text.get(error.span.clone());
    assert!(place.is_some_and(|place| text.is_empty() || !place.is_empty()), "{error:?}");
}

fn scope(name: &str) -> Option<Value> {
    Some(match name {
        "A" => Value::Int(12),
        "B" => Value::Int(-5),
        "C" => Value::Int(i64::MAX),
        "F" => Value::Float(2.5),
        "T" => Value::text("xor"),
        "Y" => Value::Bool(true),
        _ => Value::Int(0),
    })
}

fn check_meaning(expr: &Expr) {
    let value = expr.evaluate(&scope);
    if let Err(error) = &value {
        check_place(expr.text(), error);
    }
    let mut written = String::new();
    write(expr, expr.tree(), &mut written);
    let again = match Expr::parse(&written) {
        Ok(again) => again,
        // More brackets nest deeper.
        Err(error) => {
            assert!(
                error.message.contains("deeper") || error.message.contains("longer"),
                "{written}: {error}"
            );
            return;
        }
    };
    let shown = |value: Result<Value, ExprError>| match value {
        Ok(value) => format!("{} {value}", value.kind()),
        Err(error) => error.message,
    };
    assert_eq!(shown(value), shown(again.evaluate(&scope)), "{written}");
}

/// The compiled form has the tree's value, whether the names are constants to it or not.
fn check_compiled(expr: &Expr) {
    let names = expr.distinct_names();
    let values: Vec<Value> = names.iter().filter_map(|name| scope(name)).collect();
    let expected = expr.evaluate(&scope).ok();
    for others in [vec![], vec![Value::Int(3)], vec![Value::Float(0.5), Value::text("y")]] {
        let domain = |value: &Value| std::iter::once(value).chain(&others).cloned().collect();
        let domains: Vec<Vec<Value>> = values.iter().map(domain).collect();
        let found = expr.compile(&domains).evaluate(|name| &values[name], &mut Scratch::default());
        assert_eq!(found, expected, "{} beside {others:?}", expr.text());
    }
}

/// Writes a tree with a bracket around everything.
fn write(expr: &Expr, tree: &Tree, out: &mut String) {
    let list = |trees: &[Tree], between: &str, out: &mut String| {
        for (at, tree) in trees.iter().enumerate() {
            out.push_str(if at > 0 { between } else { "" });
            write(expr, tree, out);
        }
    };
    match &tree.kind {
        Kind::Literal(Value::Text(text)) => {
            let quote = if text.contains('\'') { '"' } else { '\'' };
            *out += &format!("{quote}{text}{quote}");
        }
        Kind::Literal(value) => *out += &value.to_string(),
        Kind::Name(at) => *out += &expr.distinct_names()[*at],
        Kind::List(items) => {
            out.push('[');
            list(items, ", ", out);
            out.push(']');
        }
        Kind::Call(function, arguments) => {
            *out += &format!("{}(", function.as_str());
            list(arguments, ", ", out);
            out.push(')');
        }
        kind => {
            out.push('(');
            match kind {
                Kind::Not(operand) => {
                    *out += "not ";
                    write(expr, operand, out);
                }
                Kind::Negate(operand) => {
                    *out += "-";
                    write(expr, operand, out);
                }
                Kind::Chain(first, rest) => {
                    // Operators of one precedence need no bracket among themselves, but a power does.
                    write(expr, first, out);
                    for (operator, operand) in rest {
                        *out += &format!(" {} ", operator.as_str());
                        write(expr, operand, out);
                    }
                }
                Kind::Compare(first, rest) => {
                    write(expr, first, out);
                    for (comparison, operand) in rest {
                        *out += &format!(" {} ", comparison.as_str());
                        write(expr, operand, out);
                    }
                }
                Kind::All(operands) => list(operands, " and ", out),
                Kind::Any(operands) => list(operands, " or ", out),
                Kind::If { condition, then, otherwise } => {
                    write(expr, then, out);
                    *out += " if ";
                    write(expr, condition, out);
                    *out += " else ";
                    write(expr, otherwise, out);
                }
                Kind::Literal(_) | Kind::Name(_) | Kind::List(_) | Kind::Call(..) => unreachable!("above"),
            }
            out.push(')');
        }
    }
}
