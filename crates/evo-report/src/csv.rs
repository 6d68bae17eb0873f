//! `results.csv`: one evaluation a row, for spreadsheets and data frames.

use std::borrow::Cow;
use std::collections::BTreeSet;

use evo_protocol::evaluation::{Evaluation, Expectation};
use evo_space::text::printable;

/// The table of a study's evaluations.
pub fn table(evaluations: &[Evaluation]) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let cells =
        |texts: Vec<String>| texts.iter().map(|text| cell(text).into_owned()).collect::<Vec<String>>();
    // Writing into memory cannot fail: every row has the header's length.
    let _ = writer.write_record(cells(header(evaluations)));
    for evaluation in evaluations {
        let _ = writer.write_record(cells(row(evaluation, &modes(evaluations))));
    }
    writer.into_inner().unwrap_or_default()
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

/// Problem and mode of every measurement in the study.
fn modes(evaluations: &[Evaluation]) -> BTreeSet<(String, &'static str)> {
    let measurements = evaluations.iter().flat_map(|evaluation| &evaluation.measurements);
    measurements.map(|one| (one.problem.clone(), one.mode.as_str())).collect()
}

fn header(evaluations: &[Evaluation]) -> Vec<String> {
    let mut names: Vec<String> = ["number", "generation", "origin"].map(String::from).into();
    if let Some(first) = evaluations.first() {
        names.extend(first.configuration.iter().map(|(name, _)| name.to_string()));
    }
    let fixed = [
        "verdict",
        "cause",
        "message",
        "objective_ns",
        "registers",
        "shared_static_bytes",
        "spill_bytes",
        "compile_ms",
        "device_ms",
        "at_ms",
        "duplicate_of",
        "taken_over_from",
        "source_hash",
        "binary_hash",
        "code_hash",
        "expected_ns",
        "expected_low_ns",
        "expected_high_ns",
        "expected_risk",
    ];
    names.extend(fixed.map(String::from));
    names.extend(modes(evaluations).into_iter().map(|(problem, mode)| format!("{problem}:{mode}_p50_ns")));
    names
}

fn row(evaluation: &Evaluation, modes: &BTreeSet<(String, &'static str)>) -> Vec<String> {
    let mut cells =
        vec![evaluation.number.to_string(), evaluation.generation.to_string(), evaluation.origin.clone()];
    cells.extend(evaluation.configuration.iter().map(|(_, value)| value.to_string()));
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let text = |value: &Option<evo_space::genome::ContentHash>| {
        value.as_ref().map(|hash| hash.to_string()).unwrap_or_default()
    };
    let most = |of: fn(&evo_protocol::binary::EntryResources) -> Option<u64>| {
        evaluation.resources.iter().filter_map(of).max().map(|value| value.to_string()).unwrap_or_default()
    };
    cells.extend([
        evaluation.verdict.kind.to_string(),
        evaluation.verdict.cause.clone().unwrap_or_default(),
        evaluation.verdict.message.clone(),
        number(evaluation.objective_ns),
        most(|entry| entry.registers.map(u64::from)),
        most(|entry| entry.shared_static_bytes),
        most(|entry| Some(entry.spill_store_bytes? + entry.spill_load_bytes?)),
        format!("{:.3}", evaluation.compile_ms),
        format!("{:.3}", evaluation.device_ms),
        evaluation.at_ms.map(|at| at.to_string()).unwrap_or_default(),
        evaluation.duplicate_of.map(|number| number.to_string()).unwrap_or_default(),
        evaluation.taken_over_from.as_ref().map(|source| source.study.clone()).unwrap_or_default(),
        text(&evaluation.source_hash),
        text(&evaluation.binary_hash),
        text(&evaluation.code_hash),
    ]);
    let expected = |of: fn(&Expectation) -> f64| number(evaluation.expected.as_ref().map(of));
    cells.extend([
        expected(|one| one.objective_ns),
        expected(|one| one.low_ns),
        expected(|one| one.high_ns),
        expected(|one| one.risk),
    ]);
    for (problem, mode) in modes {
        let found =
            evaluation.measurements.iter().find(|one| one.problem == *problem && one.mode.as_str() == *mode);
        cells.push(number(found.map(|one| one.p50_ns)));
    }
    cells
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
