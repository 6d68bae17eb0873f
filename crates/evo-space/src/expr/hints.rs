//! What to write instead: habits from C, Python, SQL and mathematics are answered with the word of this language.

use super::tree::Function;
use crate::diagnostic::{nearest, suggestion};
use crate::expr::ExprTokenKind;
use crate::text::quoted;

pub const IF: &str = "write `a if condition else b`";

pub const MEMBERS: &str = "write `A in [1, 2]`";

pub const SPLIT: &str = "split it into several constraints";

/// A line for each habit: where it is met, its words with blanks between them, and the hint.
const TABLE: &str = include_str!("hints.tsv");

fn rows(place: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let rows = TABLE.lines().filter_map(|line| line.split_once('\t'));
    rows.filter(move |(own, _)| *own == place).filter_map(|(_, row)| row.split_once('\t'))
}

pub fn listed(place: &str, word: &str) -> Option<&'static str> {
    rows(place).find(|(words, _)| words.split(' ').any(|own| own == word)).map(|(_, hint)| hint)
}

/// A symbol that people bring from elsewhere, and what to write here; longer ones stand first.
pub fn foreign(rest: &str) -> Option<(&'static str, &'static str)> {
    rows("foreign").find(|(symbol, _)| rest.starts_with(symbol))
}

pub fn character(character: char) -> &'static str {
    listed("character", character.encode_utf8(&mut [0; 4])).unwrap_or(match character.is_alphabetic() {
        true => "names are made of the letters a to z, digits and `_`",
        false => "remove it",
    })
}

pub fn number(text: &str) -> String {
    let lower = text.to_lowercase();
    let after_digits = lower.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '_');
    let suffixes = ["u", "l", "f", "ul", "ll", "ull", "f32", "f64", "i32", "i64", "h", "d"];
    let is_hex = |hex: &str| !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let hint = match after_digits.strip_prefix('e') {
        // Before suffixes are looked for, because `d` and `f` are digits here.
        _ if lower.strip_prefix("0x").is_some_and(is_hex) => "integers reach 9223372036854775807",
        _ if lower.starts_with("0x") => "hexadecimal digits are 0 to 9 and a to f, as in `0x1f`",
        _ if lower.starts_with("0b") || lower.starts_with("0o") => {
            "write it in decimal, or with `0x` in hexadecimal"
        }
        _ if text.contains('_') && after_digits.is_empty() => {
            "an underscore stands between two digits, as in `1_000`"
        }
        _ if text.matches('.').count() > 1 => {
            "a number has one decimal point; write a range as `1 <= A <= 5`"
        }
        _ if are_digits(text) && text.starts_with('0') => {
            return format!("write `{}`", text.trim_start_matches('0'));
        }
        _ if are_digits(text) => "integers reach 9223372036854775807; `1e19` is a float",
        _ if suffixes.contains(&after_digits) => "a number has no suffix",
        Some("" | "+" | "-") => "an exponent has digits, as in `1e3`",
        Some(exponent) if are_digits(exponent.trim_start_matches(['+', '-'])) => "floats reach about 1.8e308",
        _ => "a name begins with a letter or `_`; put an operator after a number",
    };
    hint.to_string()
}

/// `before` is the text of the token before it, empty at the start.
pub fn value(found: &ExprTokenKind, before: &str) -> &'static str {
    match found {
        ExprTokenKind::Word(word) => {
            listed("value", word).unwrap_or("a value stands on both sides of `and` and of `or`")
        }
        ExprTokenKind::End if before.is_empty() => "write a condition, as in `A % B == 0`",
        ExprTokenKind::End => "write a value after it, or remove it",
        ExprTokenKind::Symbol(")" | "]") if before == "(" => "brackets hold a value",
        ExprTokenKind::Symbol(",") if ["", "(", "[", ","].contains(&before) => "remove the comma",
        ExprTokenKind::Symbol(")" | "]") if before.is_empty() => "there is no bracket to close",
        ExprTokenKind::Symbol(")" | "]" | ",") => "write a value before it",
        _ => "an operator stands between two values, as in `A * B`",
    }
}

pub fn operator(found: &ExprTokenKind, before: &str) -> String {
    let between = "put an operator between the two, or `and` between two conditions";
    let hint = match found {
        ExprTokenKind::Word(_) | ExprTokenKind::Literal(_) if before.ends_with(['\'', '"']) => {
            "a text that holds one kind of quote is written with the other"
        }
        // `NOT a` is read as one name followed by another.
        ExprTokenKind::Word(_) if before != "not" && before.eq_ignore_ascii_case("not") => {
            "did you mean `not`?"
        }
        ExprTokenKind::Word(word) => {
            let folded = word.to_lowercase();
            let near = || nearest(&folded, ["and", "or", "in", "if", "else"]).filter(|near| near != word);
            let near = || near().map(|near| format!("did you mean `{near}`?"));
            let hint = listed("operator", &folded).map(str::to_string);
            return hint.or_else(near).unwrap_or_else(|| between.to_string());
        }
        ExprTokenKind::Symbol("(") => "write `*` to multiply, or `and` between two conditions",
        ExprTokenKind::Symbol("[") => "there is no indexing; a parameter is its bare name",
        ExprTokenKind::Symbol(")" | "]") => "there is no bracket to close",
        ExprTokenKind::Symbol(",") => "join conditions with `and`; a list stands only after `in`",
        _ => between,
    };
    hint.to_string()
}

pub fn function(name: &str) -> String {
    let names = Function::ALL.map(Function::as_str);
    let all = || format!("there are {}; `*` multiplies", quoted(names));
    listed("function", name).map_or_else(|| suggestion(name, names, all), str::to_string)
}
