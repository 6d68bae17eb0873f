//! Malformed expressions: each is refused with a place inside it and with a way out.

use std::path::Path;

use evo_space::expr::{Expr, ExprError};
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use rand::RngExt;

use crate::space_properties::any_expression;

/// One a line; after `json:` as a JSON text.
fn corpus() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/malformed_expressions.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
    let read = |line: &str| match line.strip_prefix("json:") {
        Some(json) => serde_json::from_str(json).unwrap(),
        None => line.to_string(),
    };
    lines.map(read).collect()
}

/// What the parser says, or what the reader of a space says of an expression that only makes no sense.
fn refusal(text: &str) -> ExprError {
    let Err(error) = Expr::parse(text) else {
        let before = "constraints = [\"";
        let parameters = "A = [1, 2, 3]\nB = [2, 4]\nF = [0.5, 1.5]\nT = ['row', 'column']\n";
        let file = format!("{before}{text}\"]\n[parameters]\n{parameters}");
        let Err(diagnostics) = SearchSpace::parse(&file) else { panic!("`{text}` is sound") };
        let first = diagnostics.list()[0].clone();
        let span = first.span.unwrap();
        let span = span.start - before.len()..span.end - before.len();
        return ExprError { message: first.message, span, hint: first.hint };
    };
    error
}

/// The rules that every message keeps.
fn check(text: &str, error: &ExprError) {
    let place = text.get(error.span.clone());
    assert!(place.is_some(), "{text:?}: the place {:?} cuts a letter or lies outside", error.span);
    assert!(text.is_empty() || place != Some(""), "{text:?}: the place {:?} is empty", error.span);
    let hint = error.hint.as_deref().unwrap_or_default();
    assert!(!hint.is_empty(), "{text:?} has no hint: {}", error.message);
    for sentence in [error.message.as_str(), hint] {
        assert!(
            !sentence.ends_with('.') && !sentence.starts_with(char::is_uppercase),
            "{text:?}: {sentence}"
        );
    }
}

/// The expression, the caret below it with the message, the hint below that.
fn shown(text: &str, error: &ExprError) -> String {
    let visible = |part: &str| -> String {
        let hidden = |letter: char| letter.is_control() || ['\u{200b}', '\u{feff}'].contains(&letter);
        let letters = part.chars();
        letters.map(|c| if hidden(c) { c.escape_debug().to_string() } else { c.to_string() }).collect()
    };
    let indent = " ".repeat(visible(&text[..error.span.start]).chars().count());
    let carets = "^".repeat(visible(&text[error.span.clone()]).chars().count().max(1));
    let hint = error.hint.as_deref().unwrap_or_default();
    format!("{}\n{indent}{carets} {}\n{indent}hint: {hint}\n\n", visible(text), error.message)
}

#[test]
fn malformed_expressions_have_a_caret_and_a_hint() {
    let corpus = corpus();
    assert!(corpus.len() >= 150, "only {} expressions", corpus.len());
    let mut all = String::new();
    for text in &corpus {
        let error = refusal(text);
        check(text, &error);
        all.push_str(&shown(text, &error));
    }
    insta::assert_snapshot!(all);
}

/// Random expressions with random damage: whatever is refused is refused well.
#[test]
fn damaged_expressions_have_a_caret_and_a_hint() {
    const PIECES: [&str; 24] = [
        "(", ")", "[", "]", ",", "and", "or", "not", "in", "if", "else", "==", "=", "<", "**", "-", "1", "A",
        "'", ".", "é", " ", "min(", "0x",
    ];
    let mut rng = seeded(5);
    let (mut refused, cases) = (0, 4_000);
    for seed in 0..cases {
        let mut text = any_expression(seed);
        for _ in 0..rng.random_range(1..4) {
            let borders: Vec<usize> = (0..=text.len()).filter(|at| text.is_char_boundary(*at)).collect();
            let from = rng.random_range(0..borders.len());
            let to = (from + rng.random_range(0..3)).min(borders.len() - 1);
            let piece = PIECES[rng.random_range(0..PIECES.len())];
            text.replace_range(borders[from]..borders[to], piece);
        }
        if let Err(error) = Expr::parse(&text) {
            check(&text, &error);
            refused += 1;
        }
    }
    assert!(refused * 3 > cases, "only {refused} of {cases} are refused");
}
