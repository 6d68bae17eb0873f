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
fn mistakes_have_places_and_hints() {
    let texts = include_str!("mistakes.txt").split("#### ").skip(1);
    let shown = texts
        .filter_map(|text| text.split_once('\n'))
        .map(|(title, text)| format!("#### {title}\n{}", errors(text)));
    insta::assert_snapshot!(shown.collect::<String>());
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
