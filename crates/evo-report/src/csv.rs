//! `results.csv`: one evaluation a row, for spreadsheets and data frames.

use std::borrow::Cow;
use std::collections::BTreeSet;

use evo_protocol::evaluation::Evaluation;
use evo_space::text::printable;
use serde_json::Value;

use super::columns::{Column, FILE, Row, parameter_head};

/// The table of a study's evaluations: the columns of `FILE`, the parameters after `origin`, and the median of each
/// problem in each timing mode.
pub fn table(evaluations: &[Evaluation]) -> Vec<u8> {
    let split = FILE.iter().position(|(name, _)| *name == "origin").map_or(0, |at| at + 1);
    let (before, after) = FILE.split_at(split);
    let names = |columns: &[Column]| columns.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>();
    let parameters = evaluations.iter().take(1).flat_map(|evaluation| evaluation.configuration.iter());
    let parameters = parameters.map(|(name, _)| parameter_head(name, FILE.iter().map(|(name, _)| *name)));
    let measurements = evaluations.iter().flat_map(|evaluation| &evaluation.measurements);
    let timed: BTreeSet<(&str, &str)> =
        measurements.map(|timed| (timed.problem.as_str(), timed.mode.as_str())).collect();
    let mut head = names(before);
    head.extend(parameters.map(Cow::into_owned));
    head.extend(names(after));
    head.extend(timed.iter().map(|(problem, mode)| format!("{problem}:{mode}_p50_ns")));
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut write = |texts: Vec<String>| {
        // Writing into memory cannot fail: every row has the header's length.
        let _ = writer.write_record(texts.iter().map(|text| cell(text).into_owned()));
    };
    write(head);
    for row in Row::all(evaluations) {
        let evaluation = row.evaluation;
        let median = |(problem, mode): &(&str, &str)| {
            let mut measurements = evaluation.measurements.iter();
            measurements
                .find(|timed| timed.problem == *problem && timed.mode.as_str() == *mode)
                .map_or(String::new(), |timed| timed.p50_ns.to_string())
        };
        let texts = before.iter().map(|(_, value)| text(&value(&row)));
        let texts = texts.chain(evaluation.configuration.iter().map(|(_, value)| value.to_string()));
        let texts = texts.chain(after.iter().map(|(_, value)| text(&value(&row))));
        write(texts.chain(timed.iter().map(median)).collect());
    }
    writer.into_inner().unwrap_or_default()
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        number => {
            number.as_f64().filter(|_| number.is_f64()).map_or(number.to_string(), |value| value.to_string())
        }
    }
}

/// A text as the cell of a table that a spreadsheet may open: control characters are written out, and what would be
/// taken for a formula gets a `'` in front, as spreadsheets write it themselves. Numbers stay numbers.
pub fn cell(text: &str) -> Cow<'_, str> {
    let shown = printable(text);
    if shown.starts_with(['=', '+', '-', '@', '\t']) && text.parse::<f64>().is_err() {
        return Cow::Owned(format!("'{shown}"));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula_or_moves_the_cursor() {
        let check = |text: &str, expected: &str| assert_eq!(cell(text), expected);
        check("row-major", "row-major");
        check("-4", "-4");
        check("-1.5e3", "-1.5e3");
        check("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0");
        check("+1+1", "'+1+1");
        check("-2+3", "'-2+3");
        check("@SUM(A1)", "'@SUM(A1)");
        check("\t=1", "'\t=1");
        check("a\x1b[2Jb", r"a\u001b[2Jb");
        check("two\nlines", "two\nlines");
    }
}
