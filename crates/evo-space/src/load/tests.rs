//! What a person sees when the space part of a file is wrong.

use super::read_space;
use crate::diagnostic::Diagnostics;
use crate::document;
use crate::value::Value;
use crate::watch::SpaceWatch;

fn errors(text: &str) -> String {
    let mut diagnostics = Diagnostics::default();
    let space = document::parse(text, &mut diagnostics)
        .and_then(|root| read_space(&root, &SpaceWatch::default(), &mut diagnostics));
    assert!(space.is_none(), "{text} is sound");
    assert!(!diagnostics.is_empty(), "refused without an error");
    diagnostics.render("space.toml", text)
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
    error: `BLOCK_M` has the value `16` twice
     --> space.toml:3:31
      |
    3 | BLOCK_M = { values = [16, 32, 16], default = 32 }
      |                               ^^

    error: the default `3` is not among the values
     --> space.toml:4:45
      |
    4 | NUM_WARPS = { values = [1, 2, 4], default = 3, hepl = "warps" }
      |                                             ^
      |
      = hint: the values are `1`, `2`, `4`

    error: unknown key `hepl` in a parameter
     --> space.toml:4:48
      |
    4 | NUM_WARPS = { values = [1, 2, 4], default = 3, hepl = "warps" }
      |                                                ^^^^
      |
      = hint: did you mean `help`?

    error: `VEC` has no values
     --> space.toml:5:1
      |
    5 | VEC = []
      | ^^^
      |
      = hint: list at least one

    error: `bad-name` cannot be a parameter's name
     --> space.toml:6:1
      |
    6 | "bad-name" = [1]
      | ^^^^^^^^^^
      |
      = hint: names are made of letters, digits and `_`, and are not words such as `and` or `if`

    error: expected a series of whole numbers, found `xor`
     --> space.toml:7:12
      |
    7 | SWIZZLE = "xor"
      |            ^^^
      |
      = hint: values that are texts are a list: `["xor"]`; a series is `range(32, 1025, 32)`, which ends before 1025, `pow2(1, 64)`, or a union such as `pow2(1, 64) | 48`

    error: `STAGES` has no `values`
     --> space.toml:8:1
      |
    8 | STAGES = { default = 2 }
      | ^^^^^^
      |
      = hint: write `STAGES = { values = [1, 2, 4] }`

    error: `DEPTH` has the value `1.0` twice
     --> space.toml:9:13
      |
    9 | DEPTH = [1, 1.0, [2], nan, 99999999999999999999]
      |             ^^^
      |
      = hint: `1.0` equals `1`

    error: expected a number, a boolean or a text, found a list
     --> space.toml:9:18
      |
    9 | DEPTH = [1, 1.0, [2], nan, 99999999999999999999]
      |                  ^^^

    error: a value is a finite number
     --> space.toml:9:23
      |
    9 | DEPTH = [1, 1.0, [2], nan, 99999999999999999999]
      |                       ^^^

    error: `99999999999999999999` does not fit 64 bits
     --> space.toml:9:28
      |
    9 | DEPTH = [1, 1.0, [2], nan, 99999999999999999999]
      |                            ^^^^^^^^^^^^^^^^^^^^

    error: expected a value, found `==`
      --> space.toml:12:22
       |
    12 | require = "BLOCK_M % == 0"
       |                      ^^
       |
       = hint: an operator stands between two values, as in `A * B`

    error: this constraint has no `require`
      --> space.toml:14:1
       |
    14 | [[constraints]]
       | ^^^^^^^^^^^^^^^
       |
       = hint: write `require = "A % B == 0"`

    error: unknown key `requires` in a constraint
      --> space.toml:15:1
       |
    15 | requires = "VEC > 0"
       | ^^^^^^^^
       |
       = hint: did you mean `require`?

    error: expected an expression as a text, found an integer
      --> space.toml:18:11
       |
    18 | require = 5
       |           ^

    error: expected a text, found an integer
      --> space.toml:19:11
       |
    19 | because = 5
       |           ^
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
    error: constraint reads `BLOK`, which is not a parameter
     --> space.toml:2:17
      |
    2 | constraints = ["BLOK % 2 == 0 and WARPS > 1", "SWIZZLE == 1", "BLOCK in ['a']", "SWIZZLE * 2 < BLOCK", "abs(SWIZZLE) = 3"]
      |                 ^^^^
      |
      = hint: did you mean `BLOCK`?

    error: constraint reads `WARPS`, which is not a parameter
     --> space.toml:2:35
      |
    2 | constraints = ["BLOK % 2 == 0 and WARPS > 1", "SWIZZLE == 1", "BLOCK in ['a']", "SWIZZLE * 2 < BLOCK", "abs(SWIZZLE) = 3"]
      |                                   ^^^^^
      |
      = hint: the parameters are `BLOCK`, `SWIZZLE`

    error: compares a text with a number
     --> space.toml:2:48
      |
    2 | constraints = ["BLOK % 2 == 0 and WARPS > 1", "SWIZZLE == 1", "BLOCK in ['a']", "SWIZZLE * 2 < BLOCK", "abs(SWIZZLE) = 3"]
      |                                                ^^^^^^^^^^^^
      |
      = hint: the values of `SWIZZLE` are `none`, `pad`, `xor`

    error: looks for a number among texts
     --> space.toml:2:64
      |
    2 | constraints = ["BLOK % 2 == 0 and WARPS > 1", "SWIZZLE == 1", "BLOCK in ['a']", "SWIZZLE * 2 < BLOCK", "abs(SWIZZLE) = 3"]
      |                                                                ^^^^^^^^^^^^^^
      |
      = hint: the values of `BLOCK` are `16`, `32`

    error: a text is used as a number
     --> space.toml:2:82
      |
    2 | constraints = ["BLOK % 2 == 0 and WARPS > 1", "SWIZZLE == 1", "BLOCK in ['a']", "SWIZZLE * 2 < BLOCK", "abs(SWIZZLE) = 3"]
      |                                                                                  ^^^^^^^
      |
      = hint: the values of `SWIZZLE` are `none`, `pad`, `xor`

    error: `=` is not an operator here
     --> space.toml:2:118
      |
    2 | constraints = ["BLOK % 2 == 0 and WARPS > 1", "SWIZZLE == 1", "BLOCK in ['a']", "SWIZZLE * 2 < BLOCK", "abs(SWIZZLE) = 3"]
      |                                                                                                                      ^
      |
      = hint: compare with `==`
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
    error: the space has no valid point: these 2 constraints exclude each other
     --> space.toml:6:11
      |
    6 | require = "A <= B"
      |           ^^^^^^^^

    error: … and this constraint
     --> space.toml:8:11
      |
    8 | require = "A > B"
      |           ^^^^^^^
      |
      = hint: it is there because: tiles must nest
    "#);
    let text = "constraints = ['A % 2 == 0', 'A // (A - A) > 0', 'A > 7']\n[parameters]\nA = [1, 2, 3]\n";
    insta::assert_snapshot!(errors(text), @r#"
    error: no point satisfies this constraint, so the space has no valid point
     --> space.toml:1:30
      |
    1 | constraints = ['A % 2 == 0', 'A // (A - A) > 0', 'A > 7']
      |                              ^^^^^^^^^^^^^^^^^^
      |
      = hint: it has no value at some points: division by zero: 2 // 0 at A=2

    error: no point satisfies this constraint, so the space has no valid point
     --> space.toml:1:50
      |
    1 | constraints = ['A % 2 == 0', 'A // (A - A) > 0', 'A > 7']
      |                                                  ^^^^^^^
    "#);
}

#[test]
fn files_without_parameters() {
    insta::assert_snapshot!(errors("[kernel]\nname = 'x'\n"), @r#"
    error: the file has no `parameters`
     --> space.toml:1:1
      |
    1 | [kernel]
      | ^
      |
      = hint: write for example `[parameters]` and below it `BLOCK = [64, 128, 256]`
    "#);
    insta::assert_snapshot!(errors("parameters = 5\n"), @r#"
    error: expected a table of parameters, found an integer
     --> space.toml:1:14
      |
    1 | parameters = 5
      |              ^
      |
      = hint: write for example `[parameters]` and below it `BLOCK = [64, 128, 256]`
    "#);
    insta::assert_snapshot!(errors("{\"parameters\": {}, \"constraints\": {}}"), @r#"
    error: `parameters` is empty
     --> space.toml:1:16
      |
    1 | {"parameters": {}, "constraints": {}}
      |                ^^
      |
      = hint: write for example `"parameters": {…}` with `"BLOCK": [64, 128, 256]`

    error: expected a list of constraints, found an object
     --> space.toml:1:35
      |
    1 | {"parameters": {}, "constraints": {}}
      |                                   ^^
      |
      = hint: write `"constraints": [{…}]` with `"require": "A % B == 0"`
    "#);
}

#[test]
fn both_notations_give_the_same_space() {
    let read = |text: &str| {
        let mut diagnostics = Diagnostics::default();
        let root = document::parse(text, &mut diagnostics).unwrap();
        read_space(&root, &SpaceWatch::default(), &mut diagnostics).unwrap()
    };
    let toml = read(
        "[parameters]\nB = { values = [1, 2.5, 'x', false], default = 'x', help = 'h' }\nA = [3]\n\
         [[constraints]]\nrequire = \"B == 'x' or B > 2\"\nbecause = 'why'",
    );
    let json = read(
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
        let mut diagnostics = Diagnostics::default();
        let root = document::parse(text, &mut diagnostics).unwrap();
        assert!(read_space(&root, &SpaceWatch::default(), &mut diagnostics).is_none());
        let span = diagnostics.list()[0].span.clone().unwrap();
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
            let mut diagnostics = Diagnostics::default();
            let root = document::parse(&text, &mut diagnostics).unwrap();
            let space = read_space(&root, &SpaceWatch::default(), &mut diagnostics);
            let space = space.unwrap_or_else(|| panic!("{}", diagnostics.render("space.toml", &text)));
            let expected: Vec<Value> = expected.iter().map(|value| Value::Int(*value)).collect();
            assert_eq!(space.parameters()[0].values, expected, "{series}");
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
    insta::assert_snapshot!(
        errors(
            r#"[parameters]
STEP = "range(1, 9, 0)"
EMPTY = { values = "pow2(1, 4) | range(9, 9)" }
NAME = "xor"
POWER = "pow2(1, 48)"
"#
        ),
        @r#"
    error: the step of `range(1, 9, 0)` is 0, expected 1 or more
     --> space.toml:2:9
      |
    2 | STEP = "range(1, 9, 0)"
      |         ^^^^^^^^^^^^^^
      |
      = hint: a series is `range(32, 1025, 32)`, which ends before 1025, `pow2(1, 64)`, or a union such as `pow2(1, 64) | 48`

    error: `range(9, 9)` has no values
     --> space.toml:3:34
      |
    3 | EMPTY = { values = "pow2(1, 4) | range(9, 9)" }
      |                                  ^^^^^^^^^^^
      |
      = hint: a series is `range(32, 1025, 32)`, which ends before 1025, `pow2(1, 64)`, or a union such as `pow2(1, 64) | 48`

    error: expected a series of whole numbers, found `xor`
     --> space.toml:4:9
      |
    4 | NAME = "xor"
      |         ^^^
      |
      = hint: values that are texts are a list: `["xor"]`; a series is `range(32, 1025, 32)`, which ends before 1025, `pow2(1, 64)`, or a union such as `pow2(1, 64) | 48`

    error: `48` in `pow2(1, 48)` is not a power of two
     --> space.toml:5:10
      |
    5 | POWER = "pow2(1, 48)"
      |          ^^^^^^^^^^^
      |
      = hint: a series is `range(32, 1025, 32)`, which ends before 1025, `pow2(1, 64)`, or a union such as `pow2(1, 64) | 48`
    "#
    );
}

#[test]
fn series_with_other_words_and_numbers() {
    insta::assert_snapshot!(
        errors(
            r#"[parameters]
NEAR = "rnage(4)"
LARGE = "range(0, 9000000000)"
WORD = { values = "range(BLOCK)" }
MANY = "range(1, 2, 3, 4)"
OFF = { values = "range(32, 129, 32)", default = 48 }
"#
        ),
        @r#"
    error: unknown series `rnage`
     --> space.toml:2:9
      |
    2 | NEAR = "rnage(4)"
      |         ^^^^^^^^
      |
      = hint: did you mean `range`?

    error: more than 65535 values
     --> space.toml:3:10
      |
    3 | LARGE = "range(0, 9000000000)"
      |          ^^^^^^^^^^^^^^^^^^^^
      |
      = hint: a series is `range(32, 1025, 32)`, which ends before 1025, `pow2(1, 64)`, or a union such as `pow2(1, 64) | 48`

    error: `BLOCK` in `range(BLOCK)` is not a whole number
     --> space.toml:4:20
      |
    4 | WORD = { values = "range(BLOCK)" }
      |                    ^^^^^^^^^^^^
      |
      = hint: a series is `range(32, 1025, 32)`, which ends before 1025, `pow2(1, 64)`, or a union such as `pow2(1, 64) | 48`

    error: `range(1, 2, 3, 4)` has the wrong number of numbers, expected one to three
     --> space.toml:5:9
      |
    5 | MANY = "range(1, 2, 3, 4)"
      |         ^^^^^^^^^^^^^^^^^
      |
      = hint: a series is `range(32, 1025, 32)`, which ends before 1025, `pow2(1, 64)`, or a union such as `pow2(1, 64) | 48`

    error: the default `48` is not among the values
     --> space.toml:6:50
      |
    6 | OFF = { values = "range(32, 129, 32)", default = 48 }
      |                                                  ^^
      |
      = hint: the values are `32`, `64`, `96`, `128`
    "#
    );
}
