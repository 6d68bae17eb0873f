//! Text to tokens. Symbols of other languages are recognized here, because their hint is the same
//! wherever they stand.

use super::error::ExprError;
use super::hints;
use super::token::{ExprToken, ExprTokenKind};
use crate::value::Value;

/// Symbols of the language; longer ones first.
const SYMBOLS: [&str; 18] =
    ["//", "**", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "(", ")", "[", "]", ","];

/// Symbols that people bring from elsewhere, and what to write here; longer ones first.
const FOREIGN: [(&str, &str); 19] = [
    ("&&", "write `and`"),
    ("||", "write `or`"),
    ("===", "write `==`"),
    ("!==", "write `!=`"),
    ("<>", "write `!=`"),
    ("=>", "write `>=`"),
    ("=<", "write `<=`"),
    ("=!", "write `!=`"),
    ("->", "write `not a or b` where a implies b"),
    (":=", "compare with `==`"),
    ("<<", "multiply by a power of two: `a * 2 ** b`"),
    (">>", "divide by a power of two: `a // 2 ** b`"),
    ("=", "compare with `==`"),
    ("!", "write `not`"),
    ("&", "write `and`; there are no bit operations"),
    ("|", "write `or`; there are no bit operations"),
    ("^", "write `**` for a power; there are no bit operations"),
    ("~", "write `not`; there are no bit operations"),
    ("?", "write `a if condition else b`"),
];

/// Splits an expression; the last token is `End`. What is not a token ends the list early and comes as an
/// error beside it, because there may be a mistake further to the left that explains more.
pub fn tokens(text: &str) -> (Vec<ExprToken>, Option<ExprError>) {
    let mut list = Vec::new();
    let mut at = 0;
    let mut broken = None;
    while let Some(first) = text[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        match token(&text[at..], first) {
            Ok((kind, length)) => {
                list.push(ExprToken { kind, span: at..at + length });
                at += length;
            }
            Err(error) => {
                broken = Some(error.shifted(at));
                break;
            }
        }
    }
    // A token for the end spares the parser a check wherever it looks ahead.
    list.push(ExprToken { kind: ExprTokenKind::End, span: text.len()..text.len() });
    (list, broken)
}

fn token(rest: &str, first: char) -> Result<(ExprTokenKind, usize), ExprError> {
    let second = rest[first.len_utf8()..].chars().next();
    let digit_follows = second.is_some_and(|second| second.is_ascii_digit());
    match first {
        '0'..='9' => number(rest),
        '.' if digit_follows => number(rest),
        'a'..='z' | 'A'..='Z' | '_' => {
            let length = word_length(rest);
            Ok((ExprTokenKind::Word(rest[..length].to_string()), length))
        }
        '\'' | '"' => quoted(rest, first),
        _ => symbol(rest, first),
    }
}

fn word_length(rest: &str) -> usize {
    rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count()
}

fn quoted(rest: &str, quote: char) -> Result<(ExprTokenKind, usize), ExprError> {
    match rest[1..].find(quote) {
        Some(length) if rest[1..1 + length].contains('\\') => {
            let at = 1 + rest[1..].find('\\').unwrap_or(0);
            let hint = "texts are taken as they stand, without escapes";
            Err(ExprError::new(at..at + 1, "a text holds no backslash").hint(hint))
        }
        Some(length) => Ok((ExprTokenKind::Literal(Value::text(&rest[1..1 + length])), length + 2)),
        None => {
            Err(ExprError::new(0..rest.len(), "this text does not end")
                .hint(format!("close it with `{quote}`")))
        }
    }
}

/// The characters that could belong to a number are taken together, so that `12ab` is one error.
fn number(rest: &str) -> Result<(ExprTokenKind, usize), ExprError> {
    let bytes = rest.as_bytes();
    let mut length = 0;
    while let Some(byte) = bytes.get(length) {
        // `1e-3` is one number, but `0x1e-3` is a difference. A number never begins with a sign, so
        // `length` is at least 1 wherever the sign matters.
        let exponent_sign = matches!(byte, b'+' | b'-')
            && matches!(bytes[length - 1], b'e' | b'E')
            && !rest.starts_with("0x")
            && bytes.get(length + 1).is_some_and(u8::is_ascii_digit);
        if !(byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_') || exponent_sign) {
            break;
        }
        length += 1;
    }
    let text = &rest[..length];
    let value =
        number_value(text).map_err(|message| ExprError::new(0..length, message).hint(hints::number(text)))?;
    Ok((ExprTokenKind::Literal(value), length))
}

fn number_value(text: &str) -> Result<Value, String> {
    let no_number = || format!("`{text}` is not a number");
    // Between two digits; after `0x` too.
    let misplaced = |at: usize| {
        let around = [text[..at].chars().next_back(), text[at + 1..].chars().next()];
        !around.iter().all(|side| side.is_some_and(|c| c.is_ascii_hexdigit() || c == 'x'))
    };
    if text.match_indices('_').any(|(at, _)| misplaced(at)) {
        return Err(no_number());
    }
    let digits = text.replace('_', "");
    let too_big = || format!("`{text}` does not fit 64 bits");
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        let sound = !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        return if sound {
            i64::from_str_radix(hex, 16).map(Value::Int).map_err(|_| too_big())
        } else {
            Err(no_number())
        };
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        // As in Python, where `010` is an error and `00` is zero.
        if digits.len() > 1 && digits.starts_with('0') && digits.bytes().any(|byte| byte != b'0') {
            return Err(format!("`{text}` begins with a zero"));
        }
        return digits.parse().map(Value::Int).map_err(|_| too_big());
    }
    let sound =
        digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'));
    match digits.parse::<f64>() {
        Ok(value) if sound && value.is_finite() => Ok(Value::Float(value)),
        _ => Err(no_number()),
    }
}

fn symbol(rest: &str, first: char) -> Result<(ExprTokenKind, usize), ExprError> {
    let own = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol));
    let foreign = FOREIGN.iter().find(|(symbol, _)| rest.starts_with(symbol));
    match (own, foreign) {
        // `!=` is ours although `!` is foreign, `!==` is foreign although `!=` is ours.
        (Some(own), foreign) if foreign.is_none_or(|(symbol, _)| symbol.len() <= own.len()) => {
            Ok((ExprTokenKind::Symbol(own), own.len()))
        }
        (_, Some((symbol, hint))) => {
            Err(ExprError::new(0..symbol.len(), format!("`{symbol}` is not an operator here")).hint(*hint))
        }
        _ => {
            let shown: String = first.escape_debug().collect();
            let message = format!("unexpected character `{shown}`");
            Err(ExprError::new(0..first.len_utf8(), message).hint(hints::character(first)))
        }
    }
}
