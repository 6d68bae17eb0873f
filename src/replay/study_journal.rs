//! Reads the journal of an earlier study of ours. The space is that of the space file which the journal
//! names, if that file is still there and the same; else the recorded configurations are the space.

use super::draft::{Draft, DraftRow, Valid};
use super::error::Fault;
use super::format::Format;
use super::observed::Observed;
use super::recording::Cost;
use crate::evaluation::Evaluation;
use crate::genome::ContentHash;
use crate::journal::reader;
use crate::journal::record::{FORMAT, StudyHeader};
use crate::journal::replay::History;
use crate::kernel::catalog;
use crate::space::space::SearchSpace;
use crate::verdict::{Gate, VerdictClass};

/// Reads a journal's text.
pub(super) fn read(text: &str) -> Result<Draft, Fault> {
    let journal = reader::parse(text.as_bytes());
    let mut notices = Vec::new();
    if journal.torn {
        notices.push("the journal's last line is torn and is left out".to_string());
    }
    if let Some(first) = journal.rejected.first() {
        let (line, reason, count) = (first.line, &first.reason, journal.rejected.len());
        notices.push(format!(
            "{count} damaged lines of the journal are left out, the first is line {line}: {reason}"
        ));
    }
    let history = History::replay(journal);
    let Some(header) = &history.header else {
        return Err(
            Fault::new("the journal has no readable header").with_hint("a study's journal begins with one")
        );
    };
    if header.format > FORMAT {
        let cause = format!("the journal has format {}; this evo reads up to {FORMAT}", header.format);
        return Err(Fault::new(cause).with_hint("use a newer evo"));
    }
    let mut observed = Observed::default();
    let mut rows = Vec::new();
    // Our own trouble says nothing about a variant.
    let telling = |one: &&Evaluation| one.verdict.kind.class() != VerdictClass::Harness;
    for one in history.evaluations.iter().filter(telling) {
        let pairs = one.configuration.iter().map(|(name, value)| (name, value.clone()));
        observed.add(pairs).map_err(|fault| fault.in_row(one.number))?;
        rows.push(row(one));
    }
    let (parameters, positions) = observed.finish();
    rows.iter_mut().zip(positions).for_each(|(row, positions)| row.positions = positions);
    let valid = match space(header) {
        Ok(space) => Valid::Space(Box::new(space)),
        Err(why) => {
            notices.push(format!("the space of the study cannot be had: {why}"));
            Valid::Listed
        }
    };
    Ok(Draft {
        kernel: header.kernel.clone(),
        gpu: header.device.name.trim_start_matches("replay:").to_string(),
        problem: header.problems.join(", "),
        format: Format::Journal,
        unit_ns: 1.0,
        parameters,
        valid,
        exhaustive: false,
        repeats: true,
        rows,
        notices,
    })
}

fn row(one: &Evaluation) -> DraftRow {
    let checks = [Gate::Launch, Gate::TinyShapes, Gate::FullShapes, Gate::Repeatability];
    let reports = one.gates.iter().filter(|report| checks.contains(&report.gate));
    // A twin has its original's gates, which cost nothing again.
    let validate_ms = reports.map(|report| report.elapsed_ms).sum::<f64>().min(one.device_ms);
    let cost = Cost {
        compile_ms: one.compile_ms,
        validate_ms,
        runs_ms: one.device_ms - validate_ms,
        framework_ms: 0.0,
    };
    DraftRow {
        name: Some(one.number.to_string()),
        positions: Vec::new(),
        kind: one.verdict.kind,
        objective_ns: one.objective_ns.filter(|_| one.verdict.is_pass()),
        cost,
    }
}

/// The space of the file that the header names, or why not.
fn space(header: &StudyHeader) -> Result<SearchSpace, String> {
    let name = &header.space;
    let file = catalog::open(name).map_err(|_| format!("`{name}` is not to be found from here"))?;
    let source = file.kernel.as_ref().map_or("", |kernel| kernel.source.text.as_str());
    if ContentHash::of_parts([file.text.as_bytes(), source.as_bytes()]) != header.space_hash {
        return Err(format!("`{name}` is not what it was when the study was made"));
    }
    Ok(file.space)
}
