//! Tables of expressions and what they give; the corpus of malformed ones is shown as people see it.

use super::*;

fn scope(name: &str) -> Option<Value> {
    Some(match name {
        "A" => Value::Int(12),
        "B" => Value::Int(5),
        "ZERO" => Value::Int(0),
        "F" => Value::Float(2.5),
        "T" => Value::text("xor"),
        "YES" => Value::Bool(true),
        _ => return None,
    })
}

fn check(text: &str, expected: &str) {
    let value =
        Expr::parse(text).unwrap_or_else(|error| panic!("{text}: {error:?}")).evaluate(&Lookup(scope));
    let value = value.unwrap_or_else(|error| panic!("{text}: {error:?}"));
    assert_eq!(format!("{} {value}", value.kind()), expected, "{text}");
}

/// The error's message and the text it points at.
fn check_value_error(text: &str, expected: &str) {
    let error = Expr::parse(text).unwrap().evaluate(&Lookup(scope)).unwrap_err();
    assert_eq!(format!("{} @ {}", error.message, &text[error.span.clone()]), expected, "{text}");
}

#[test]
fn arithmetic_is_pythons() {
    check("1 + 2 * 3", "int 7");
    check("(1 + 2) * 3", "int 9");
    check("7 / 2", "float 3.5");
    check("6 / 2", "float 3.0");
    check("7 // 2", "int 3");
    check("-7 // 2", "int -4");
    check("7 // -2", "int -4");
    check("-7 % 3", "int 2");
    check("7 % -3", "int -2");
    check("-7.5 % 2", "float 0.5");
    check("-7.5 // 2", "float -4.0");
    check("2 ** 3 ** 2", "int 512");
    check("-2 ** 2", "int -4");
    check("2 ** -1", "float 0.5");
    check("10 - 3 - 2", "int 5");
    check("100 // 7 % 4 * 3", "int 6");
    check("+A - -B", "int 17");
    check("0x10 + 1_000 + .5 + 1e2", "float 1116.5");
    check("YES + YES", "int 2");
    check("min(A, B, 7) + max(A, F) + abs(-3) + ceil_div(A, B)", "int 23");
    check("min(F, B)", "float 2.5");
    check("max('a', \"b\")", "text b");
}

#[test]
fn logic_is_pythons() {
    check("A and B", "int 5");
    check("ZERO and 1 // ZERO", "int 0");
    check("A or 1 // ZERO", "int 12");
    check("not A == 12", "bool false");
    check("not ZERO and YES", "bool true");
    check("1 < 2 < 3 != 4", "bool true");
    check("3 > 2 > 2", "bool false");
    check("1 > 2 > 1 // ZERO", "bool false");
    check("A in [1, 12.0] and T not in ('none', 'pad')", "bool true");
    check("A in []", "bool false");
    check("not A in [12]", "bool false");
    check("T == 'xor' and T < 'yes' and T != 3", "bool true");
    check("1 if A > B else 1 // ZERO", "int 1");
    check("1 if ZERO else 2 if ZERO else 3", "int 3");
    check("True and true and not False and not false", "bool true");
    check("4 == 4.0", "bool true");
    check("9007199254740993 == 9007199254740992.0", "bool false");
}

#[test]
fn values_that_do_not_exist_are_errors() {
    check_value_error("1 + A // ZERO", "division by zero: 12 // 0 @ ZERO");
    check_value_error("A % (B - 5)", "division by zero: 12 % 0 @ (B - 5)");
    check_value_error(
        "9223372036854775807 + B",
        "the result does not fit 64 bits: 9223372036854775807 + 5 @ 9223372036854775807 + B",
    );
    check_value_error("2 ** 2000.5", "the result does not fit 64 bits: 2 ** 2000.5 @ 2 ** 2000.5");
    check_value_error("(-8) ** 0.5", "a negative number has no such power: -8 ** 0.5 @ (-8) ** 0.5");
    check_value_error("ceil_div(A, ZERO)", "division by zero @ ceil_div(A, ZERO)");
    check_value_error("A + T", "the text `xor` is used as a number @ T");
    check_value_error("A < T", "int `12` and text `xor` have no order @ A < T");
    check_value_error("max(A, T)", "text `xor` and int `12` have no order @ T");
    check_value_error("A + NONE", "unknown name `NONE` @ NONE");
}

#[test]
fn names_come_with_their_places() {
    let expr = Expr::parse("B + min(A, B) > 'C'").unwrap();
    let names: Vec<_> =
        expr.names().into_iter().map(|(name, span)| format!("{name}@{}", span.start)).collect();
    assert_eq!(names, ["B@0", "A@8", "B@11"]);
    assert_eq!(expr.text(), "B + min(A, B) > 'C'");
}

#[test]
fn malformed_expressions_are_pointed_at() {
    let corpus = [
        "",
        "   ",
        "A &&B",
        "A || B",
        "!A",
        "A = B",
        "A === B",
        "A <> B",
        "A => B",
        "A ^ 2",
        "A & B",
        "A << 2",
        "A ? B : 1",
        "A B",
        "A AND B",
        "A Or B",
        "A is B",
        "A mod B",
        "A +",
        "* A",
        "A + * B",
        "(A",
        "(A, B)",
        "A)",
        "A]",
        "[A]",
        "A in B",
        "A not B",
        "A in [1 2]",
        "A in [1] == B",
        "A in [1",
        "min(",
        "min()",
        "abs(1, 2)",
        "ceil_div(1)",
        "mim(A, B)",
        "sqrt(A)",
        "'open",
        "\"a\\n\"",
        "12ab",
        "1.2.3",
        "007",
        "1__0",
        "0x",
        "99999999999999999999",
        "1e999",
        "A if B",
        "A if B els C",
        "if A else B",
        "A.b",
        "A[0]",
        "A; B",
        "é > 1",
        "A > 1 and",
        "not",
        "lambda",
        "A == None",
        "1 < > 2",
        "A @ B",
        "A # c",
        "\u{0}",
        "A, B",
    ];
    let mut shown = String::new();
    for text in corpus {
        let error = Expr::parse(text).expect_err(text);
        let hint = error.hint.map_or(String::new(), |hint| format!(" (hint: {hint})"));
        shown.push_str(&format!("{text:?} {:?}: {}{hint}\n", error.span, error.message));
    }
    insta::assert_snapshot!(shown, @r#"
    "" 0..0: expected a value, found the end
    "   " 3..3: expected a value, found the end
    "A &&B" 2..4: `&&` is not an operator here (hint: write `and`)
    "A || B" 2..4: `||` is not an operator here (hint: write `or`)
    "!A" 0..1: `!` is not an operator here (hint: write `not`)
    "A = B" 2..3: `=` is not an operator here (hint: compare with `==`)
    "A === B" 2..5: `===` is not an operator here (hint: write `==`)
    "A <> B" 2..4: `<>` is not an operator here (hint: write `!=`)
    "A => B" 2..4: `=>` is not an operator here (hint: write `>=`)
    "A ^ 2" 2..3: `^` is not an operator here (hint: write `**` for a power; there are no bit operations)
    "A & B" 2..3: `&` is not an operator here (hint: write `and`; there are no bit operations)
    "A << 2" 2..4: `<<` is not an operator here (hint: multiply by a power of two: `a * 2 ** b`)
    "A ? B : 1" 2..3: `?` is not an operator here (hint: write `a if condition else b`)
    "A B" 2..3: expected an operator or the end, found `B`
    "A AND B" 2..5: expected an operator or the end, found `AND` (hint: did you mean `and`?)
    "A Or B" 2..4: expected an operator or the end, found `Or` (hint: did you mean `or`?)
    "A is B" 2..4: expected an operator or the end, found `is` (hint: compare with `==`)
    "A mod B" 2..5: expected an operator or the end, found `mod` (hint: write `%`)
    "A +" 3..3: expected a value, found the end
    "* A" 0..1: expected a value, found `*`
    "A + * B" 4..5: expected a value, found `*`
    "(A" 0..1: this bracket is never closed
    "(A, B)" 2..3: expected `)`, found `,` (hint: a list stands only after `in`)
    "A)" 1..2: expected an operator or the end, found `)` (hint: there is no bracket to close)
    "A]" 1..2: expected an operator or the end, found `]` (hint: there is no bracket to close)
    "[A]" 0..1: a list stands only after `in` (hint: write `A in [1, 2]`)
    "A in B" 5..6: expected a list after `in`, found `B` (hint: write `A in [1, 2]`)
    "A not B" 6..7: expected `in` after `not`, found `B`
    "A in [1 2]" 8..9: expected `,` or `]`, found `2`
    "A in [1] == B" 5..8: a list cannot be compared further
    "A in [1" 7..7: expected `,` or `]`, found the end
    "min(" 4..4: expected a value, found the end
    "min()" 0..5: `min` takes 1 or more argument, not 0
    "abs(1, 2)" 0..9: `abs` takes 1 argument, not 2
    "ceil_div(1)" 0..11: `ceil_div` takes 2 arguments, not 1
    "mim(A, B)" 0..3: unknown function `mim` (hint: did you mean `min`?)
    "sqrt(A)" 0..4: unknown function `sqrt` (hint: there are `min`, `max`, `abs`, `ceil_div`)
    "'open" 0..5: this text does not end (hint: close it with ')
    "\"a\\n\"" 2..3: a text holds no backslash
    "12ab" 0..4: `12ab` is not a number
    "1.2.3" 0..5: `1.2.3` is not a number
    "007" 0..3: `007` begins with a zero
    "1__0" 0..4: `1__0` is not a number
    "0x" 0..2: `0x` is not a number
    "99999999999999999999" 0..20: `99999999999999999999` does not fit 64 bits
    "1e999" 0..5: `1e999` is not a number
    "A if B" 6..6: expected `else`, found the end (hint: write `a if condition else b`)
    "A if B els C" 7..10: expected `else`, found `els` (hint: write `a if condition else b`)
    "if A else B" 0..2: expected a value, found `if`
    "A.b" 1..2: unexpected character `.`
    "A[0]" 1..2: expected an operator or the end, found `[`
    "A; B" 1..2: unexpected character `;`
    "é > 1" 0..2: unexpected character `é`
    "A > 1 and" 9..9: expected a value, found the end
    "not" 3..3: expected a value, found the end
    "lambda" 0..6: expected a value, found `lambda`
    "A == None" 5..9: expected a value, found `None`
    "1 < > 2" 4..5: expected a value, found `>`
    "A @ B" 2..3: unexpected character `@`
    "A # c" 2..3: unexpected character `#`
    "\0" 0..1: unexpected character `\0`
    "A, B" 1..2: expected an operator or the end, found `,`
    "#);
}

#[test]
fn no_input_overflows_the_stack() {
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(20_000), close.repeat(20_000));
    for text in [
        deep("(", ")"),
        deep("-", ""),
        deep("not ", ""),
        deep("1 ** ", ""),
        deep("1 if 1 else ", ""),
        deep("min(", ")"),
    ] {
        let error = Expr::parse(&text).unwrap_err();
        assert!(error.message.contains("deeper") || error.message.contains("longer"), "{}", error.message);
    }
    let wide = "1".to_string() + &" + 1".repeat(20_000);
    assert_eq!(Expr::parse(&wide).unwrap().evaluate(&Lookup(scope)).unwrap(), Value::Int(20_001));
    let most = format!("{}1{}", "(".repeat(49), ")".repeat(49));
    assert_eq!(Expr::parse(&most).unwrap().evaluate(&Lookup(scope)).unwrap(), Value::Int(1));
}
