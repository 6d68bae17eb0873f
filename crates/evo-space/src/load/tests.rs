//! What a person sees when the space part of a file is wrong.

use super::EXAMPLE;
use crate::diagnostic::{Diagnostic, clamp, place, spelled};
use crate::space::SearchSpace;
use crate::testing::space;
use crate::value::Value;

/// Place, marked part and message of each error, and its hint.
fn errors(text: &str) -> String {
    let diagnostics = SearchSpace::parse(text).unwrap_err();
    assert!(!diagnostics.is_empty(), "refused without an error");
    let mut list: Vec<Diagnostic> = diagnostics.list().iter().map(|error| spelled(error, text)).collect();
    list.sort_by_key(|error| error.span.clone().unwrap_or_default().start);
    let shown = list.iter().map(|error| {
        let span = clamp(&error.span.clone().unwrap_or_default(), text);
        let (line, column) = place(text, span.start);
        let hint = error.hint.as_ref().map(|hint| if hint == EXAMPLE { "SERIES" } else { hint });
        let hint = hint.map_or(String::new(), |hint| format!("    hint: {hint}\n"));
        format!("{line}:{column} `{}`: {}\n{hint}", &text[span], error.message)
    });
    shown.collect()
}

#[test]
fn all_errors_of_a_file_at_once() {
    let text = r#"
[parameters]
BLOCK_M = { values = [16, 32, 16], default = 32 }
NUM_WARPS = { values = [1, 2, 4], default = 3, hepl = "warps" }
VEC = []
"bad-name" = [1]
SWIZZLE = "xor"
STAGES = { default = 2 }
DEPTH = [1, 1.0, [2], nan, 99999999999999999999]

[[constraints]]
require = "BLOCK_M % == 0"

[[constraints]]
requires = "VEC > 0"

[[constraints]]
require = 5
because = 5
"#;
    insta::assert_snapshot!(errors(text), @r#"
    3:31 `16`: `BLOCK_M` has the value `16` twice
    4:45 `3`: the default `3` is not among the values
        hint: the values are `1`, `2`, `4`
    4:48 `hepl`: unknown key `hepl` in a parameter
        hint: did you mean `help`?
    5:1 `VEC`: `VEC` has no values
        hint: list at least one
    6:1 `"bad-name"`: `bad-name` cannot be a parameter's name
        hint: names are made of letters, digits and `_`, and are not words such as `and` or `if`
    7:12 `xor`: expected a series of whole numbers, found `xor`
        hint: values that are texts are a list: `["xor"]`; a series is `range(32, 1025, 32)`, which ends before 1025, `pow2(1, 64)`, or a union such as `pow2(1, 64) | 48`
    8:1 `STAGES`: `STAGES` has no `values`
        hint: write `STAGES = { values = [1, 2, 4] }`
    9:13 `1.0`: `DEPTH` has the value `1.0` twice
        hint: `1.0` equals `1`
    9:18 `[2]`: expected a number, a boolean or a text, found a list
    9:23 `nan`: a value is a finite number
    9:28 `99999999999999999999`: `99999999999999999999` does not fit 64 bits
    12:22 `==`: expected a value, found `==`
        hint: an operator stands between two values, as in `A * B`
    14:1 `[[constraints]]`: this constraint has no `require`
        hint: write `require = "A % B == 0"`
    15:1 `requires`: unknown key `requires` in a constraint
        hint: did you mean `require`?
    18:11 `5`: expected an expression as a text, found an integer
    19:11 `5`: expected a text, found an integer
    "#);
}

#[test]
fn names_and_kinds_in_constraints() {
    let text = r#"
constraints = ["BLOK % 2 == 0 and WARPS > 1", "SWIZZLE == 1", "BLOCK in ['a']", "SWIZZLE * 2 < BLOCK", "abs(SWIZZLE) = 3"]
[parameters]
BLOCK = [16, 32]
SWIZZLE = ["none", "pad", "xor"]
"#;
    insta::assert_snapshot!(errors(text), @r#"
    2:17 `BLOK`: constraint reads `BLOK`, which is not a parameter
        hint: did you mean `BLOCK`?
    2:35 `WARPS`: constraint reads `WARPS`, which is not a parameter
        hint: the parameters are `BLOCK`, `SWIZZLE`
    2:48 `SWIZZLE == 1`: compares a text with a number
        hint: the values of `SWIZZLE` are `none`, `pad`, `xor`
    2:64 `BLOCK in ['a']`: looks for a number among texts
        hint: the values of `BLOCK` are `16`, `32`
    2:82 `SWIZZLE`: a text is used as a number
        hint: the values of `SWIZZLE` are `none`, `pad`, `xor`
    2:118 `=`: `=` is not an operator here
        hint: compare with `==`
    "#);
}

#[test]
fn empty_spaces_name_the_constraints_to_blame() {
    let text = r#"
[parameters]
A = [1, 2, 3]
B = [1, 2, 3]
[[constraints]]
require = "A <= B"
[[constraints]]
require = "A > B"
because = "tiles must nest"
[[constraints]]
require = "B != 2"
"#;
    insta::assert_snapshot!(errors(text), @r#"
    6:11 `"A <= B"`: the space has no valid point: these 2 constraints exclude each other
    8:11 `"A > B"`: … and this constraint
        hint: it is there because: tiles must nest
    "#);
    let text = "constraints = ['A % 2 == 0', 'A // (A - A) > 0', 'A > 7']\n[parameters]\nA = [1, 2, 3]\n";
    insta::assert_snapshot!(errors(text), @r#"
    1:30 `'A // (A - A) > 0'`: no point satisfies this constraint, so the space has no valid point
        hint: it has no value at some points: division by zero: 2 // 0 at A=2
    1:50 `'A > 7'`: no point satisfies this constraint, so the space has no valid point
    "#);
}

#[test]
fn files_without_parameters() {
    insta::assert_snapshot!(errors("[kernel]\nname = 'x'\n"), @r#"
    1:1 ``: the file has no `parameters`
        hint: write for example `[parameters]` and below it `BLOCK = [64, 128, 256]`
    "#);
    insta::assert_snapshot!(errors("parameters = 5\n"), @r#"
    1:14 `5`: expected a table of parameters, found an integer
        hint: write for example `[parameters]` and below it `BLOCK = [64, 128, 256]`
    "#);
    insta::assert_snapshot!(errors("{\"parameters\": {}, \"constraints\": {}}"), @r#"
    1:16 `{}`: `parameters` is empty
        hint: write for example `"parameters": {…}` with `"BLOCK": [64, 128, 256]`
    1:35 `{}`: expected a list of constraints, found an object
        hint: write `"constraints": [{…}]` with `"require": "A % B == 0"`
    "#);
}

#[test]
fn both_notations_give_the_same_space() {
    let toml = space(
        "[parameters]\nB = { values = [1, 2.5, 'x', false], default = 'x', help = 'h' }\nA = [3]\n\
         [[constraints]]\nrequire = \"B == 'x' or B > 2\"\nbecause = 'why'",
    );
    let json = space(
        r#"{"parameters": {"B": {"values": [1, 2.5, "x", false], "default": "x", "help": "h"}, "A": [3]},
            "constraints": [{"require": "B == \"x\" or B > 2", "because": "why"}], "note": null}"#,
    );
    for space in [&toml, &json] {
        let names: Vec<&str> = space.parameters().iter().map(|parameter| &*parameter.name).collect();
        assert_eq!(names, ["B", "A"]);
        assert_eq!(space.parameters()[0].default_value(), &Value::text("x"));
        assert_eq!(space.parameters()[0].help.as_deref(), Some("h"));
        assert_eq!(space.constraints()[0].because.as_deref(), Some("why"));
        assert_eq!(space.count(), 2);
    }
}

#[test]
fn carets_point_into_the_text_of_an_expression() {
    let check = |text: &str, expected: &str| {
        let span = SearchSpace::parse(text).unwrap_err().list()[0].span.clone().unwrap();
        assert_eq!(&text[span], expected, "{text}");
    };
    check("parameters = {A = [1]}\nconstraints = ['A > XY']", "XY");
    check("parameters = {A = [1]}\nconstraints = [\"\"\"\nA >\n XY\"\"\"]", "XY");
    check(
        "parameters = {A = [1]}\nconstraints = [\"A > XY and 'a' == \\\"a\\\"\"]",
        "\"A > XY and 'a' == \\\"a\\\"\"",
    );
    check("{\"parameters\": {\"A\": [1]}, \"constraints\": [\"A > XY\"]}", "XY");
}

#[test]
fn series_are_lists_of_whole_numbers() {
    let check = |series: &str, expected: &[i64]| {
        for text in
            [format!("parameters = {{ A = \"{series}\" }}"), format!("parameters.A.values = '{series}'")]
        {
            let expected: Vec<Value> = expected.iter().map(|value| Value::Int(*value)).collect();
            assert_eq!(space(&text).parameters()[0].values, expected, "{series}");
        }
    };
    check("range(32, 161, 32)", &[32, 64, 96, 128, 160]);
    check("range(32, 160, 32)", &[32, 64, 96, 128]);
    check("range(3)", &[0, 1, 2]);
    check("range(-1, 2)", &[-1, 0, 1]);
    check("pow2(1, 16)", &[1, 2, 4, 8, 16]);
    check(" pow2(4,16)|12 | range( 10 , 13 ) ", &[4, 8, 10, 11, 12, 16]);
    check("range(9223372036854775806, 9223372036854775807, 5)", &[i64::MAX - 1]);
}

#[test]
fn series_that_are_none() {
    insta::assert_snapshot!(errors(r#"[parameters]
STEP = "range(1, 9, 0)"
EMPTY = { values = "pow2(1, 4) | range(9, 9)" }
POWER = "pow2(1, 48)"
NEAR = "rnage(4)"
LARGE = "range(0, 9000000000)"
WORD = { values = "range(BLOCK)" }
MANY = "range(1, 2, 3, 4)"
OFF = { values = "range(32, 129, 32)", default = 48 }
"#), @r#"
    2:9 `range(1, 9, 0)`: the step of `range(1, 9, 0)` is 0, expected 1 or more
        hint: SERIES
    3:34 `range(9, 9)`: `range(9, 9)` has no values
        hint: SERIES
    4:10 `pow2(1, 48)`: `48` in `pow2(1, 48)` is not a power of two
        hint: SERIES
    5:9 `rnage(4)`: unknown series `rnage`
        hint: did you mean `range`?
    6:10 `range(0, 9000000000)`: more than 65535 values
        hint: SERIES
    7:20 `range(BLOCK)`: `BLOCK` in `range(BLOCK)` is not a whole number
        hint: SERIES
    8:9 `range(1, 2, 3, 4)`: `range(1, 2, 3, 4)` has the wrong number of numbers, expected one to three
        hint: SERIES
    9:50 `48`: the default `48` is not among the values
        hint: the values are `32`, `64`, `96`, `128`
    "#);
}
