//! `results.csv`: one evaluation a row, for spreadsheets and data frames.

use std::collections::BTreeSet;

use evo_protocol::evaluation::{Evaluation, Expectation};

/// The table of a study's evaluations.
pub fn table(evaluations: &[Evaluation]) -> Vec<u8> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Writing into memory cannot fail: every row has the header's length.
    let _ = writer.write_record(header(evaluations));
    for evaluation in evaluations {
        let _ = writer.write_record(row(evaluation, &modes(evaluations)));
    }
    writer.into_inner().unwrap_or_default()
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
        "duplicate_of",
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
        evaluation.duplicate_of.map(|number| number.to_string()).unwrap_or_default(),
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
