//! Text to a tree: TOML here, JSON in `json`.

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::node::{Data, Node, TableEntry};
use super::{json, toml_syntax};
use crate::diagnostic::Diagnostics;
use crate::span::Span;
use crate::spelling;

/// Reads TOML or JSON (told apart by the first character that is not white space: `{` is JSON).
/// A file that is not well-formed leaves an error in `diagnostics` and gives `None`.
pub fn parse(text: &str, diagnostics: &mut Diagnostics) -> Option<Node> {
    if spelling::is_json(text) { json::parse(text, diagnostics) } else { parse_toml(text, diagnostics) }
}

fn parse_toml(text: &str, diagnostics: &mut Diagnostics) -> Option<Node> {
    let (table, errors) = DeTable::parse_recoverable(text);
    toml_syntax::report(text, &errors, diagnostics);
    let before = diagnostics.list().len();
    let span = table.span();
    let entries = toml_entries(table.into_inner(), diagnostics);
    let sound = errors.is_empty() && diagnostics.list().len() == before;
    sound.then_some(Node { span, data: Data::Table(entries) })
}

fn toml_entries(table: DeTable<'_>, diagnostics: &mut Diagnostics) -> Vec<TableEntry> {
    let mut entries: Vec<TableEntry> = table
        .into_iter()
        .filter_map(|(key, value): (Spanned<DeString<'_>>, _)| {
            let key_span = key.span();
            let value = toml_node(value, diagnostics)?;
            Some(TableEntry { key: key.into_inner().into_owned(), key_span, value })
        })
        .collect();
    // The parser's map sorts by key; people mean the order in which they wrote.
    entries.sort_by_key(|entry| entry.key_span.start);
    entries
}

fn toml_node(value: Spanned<DeValue<'_>>, diagnostics: &mut Diagnostics) -> Option<Node> {
    let span = value.span();
    let data = match value.into_inner() {
        DeValue::String(text) => Data::Text(text.into_owned()),
        DeValue::Boolean(value) => Data::Bool(value),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(value) => Data::Int(value),
            Err(_) => Data::BigInt(number.to_string()),
        },
        DeValue::Float(number) => match number.as_str().parse() {
            Ok(value) => Data::Float(value),
            Err(_) => return report(diagnostics, span, "this is not a number"),
        },
        DeValue::Datetime(_) => return report(diagnostics, span, "dates have no use here"),
        DeValue::Array(items) => {
            Data::List(items.into_iter().filter_map(|item| toml_node(item, diagnostics)).collect())
        }
        DeValue::Table(table) => Data::Table(toml_entries(table, diagnostics)),
    };
    Some(Node { span, data })
}

fn report(diagnostics: &mut Diagnostics, span: Span, message: &str) -> Option<Node> {
    diagnostics.error(span, message);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(node: &Node) -> String {
        match &node.data {
            Data::Bool(value) => value.to_string(),
            Data::Int(value) => value.to_string(),
            Data::BigInt(digits) => format!("big {digits}"),
            Data::Float(value) => format!("{value:?}"),
            Data::Text(text) => format!("{text:?}"),
            Data::List(items) => format!("[{}]", items.iter().map(shape).collect::<Vec<_>>().join(", ")),
            Data::Table(entries) => {
                let pair = |entry: &TableEntry| format!("{}: {}", entry.key, shape(&entry.value));
                format!("{{{}}}", entries.iter().map(pair).collect::<Vec<_>>().join(", "))
            }
            Data::Null => "null".to_string(),
        }
    }

    fn check(text: &str, expected: &str) {
        let mut diagnostics = Diagnostics::default();
        let node = parse(text, &mut diagnostics);
        assert!(diagnostics.is_empty(), "{:?}", diagnostics.list());
        assert_eq!(shape(&node.unwrap()), expected, "{text}");
    }

    fn check_error(text: &str, at: &str, message: &str) {
        let mut diagnostics = Diagnostics::default();
        assert!(parse(text, &mut diagnostics).is_none(), "{text}");
        let first = &diagnostics.list()[0];
        let span = first.span.clone().unwrap();
        assert_eq!((&text[span], first.message.as_str()), (at, message), "{text}");
    }

    #[test]
    fn toml_keeps_the_order_of_the_file() {
        check("[z]\nb = 1\na = [1, 2.5, 'x', true]\n[a]\n", r#"{z: {b: 1, a: [1, 2.5, "x", true]}, a: {}}"#);
        check("[[c]]\nx = 0x10\n[[c]]\nx = 1_000\n", "{c: [{x: 16}, {x: 1000}]}");
        check("x = 99999999999999999999", "{x: big 99999999999999999999}");
        check("a.b = 1\na.c = { d = -inf }", "{a: {b: 1, c: {d: -inf}}}");
    }

    #[test]
    fn spans_cover_keys_and_values() {
        let text = "[parameters]\nA = { values = [1, 22] }\n";
        let node = parse(text, &mut Diagnostics::default()).unwrap();
        let entry = &node.get("parameters").unwrap().entries().unwrap()[0];
        assert_eq!(&text[entry.key_span.clone()], "A");
        let Data::List(values) = &entry.value.get("values").unwrap().data else { panic!("no list") };
        assert_eq!(&text[values[1].span.clone()], "22");
    }

    #[test]
    fn malformed_toml_is_pointed_at() {
        check_error("a = 1\na = 2\n", "a", "duplicate key");
        check_error("d = 1979-05-27\n", "1979-05-27", "dates have no use here");
        let mut diagnostics = Diagnostics::default();
        assert!(parse("a = \nb = [1\n", &mut diagnostics).is_none());
        assert!(!diagnostics.is_empty());
    }
}
