//! One evaluation in full, for `evo test-one`, `test` and `benchmark`: every gate with its evidence, the measurements, the
//! verdict; as text and as JSON.

use std::fmt::Write;

use evo_protocol::device::EntryAttributes;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Evidence, GateReport, GateState};
use evo_space::text::counted;
use serde_json::{Value, json};

use super::parity;
use super::text::time;

/// Where the evaluation took place.
#[derive(Clone, Debug)]
pub struct Setting {
    pub space: String,
    pub kernel: String,
    pub device: String,
    /// Of the inputs.
    pub seed: u64,
    /// A command that does the same again.
    pub repro: String,
}

/// The text form.
pub fn text(setting: &Setting, evaluation: &Evaluation, attributes: &[EntryAttributes]) -> String {
    let mut text = format!(
        "{} on {}: {}, seed {}\n",
        setting.kernel, setting.device, evaluation.configuration, setting.seed
    );
    for report in &evaluation.gates {
        let state = match report.state {
            GateState::Pass => "pass",
            GateState::Fail => "FAIL",
            GateState::NotRun => "not run",
        };
        let cases = if report.cases > 0 { counted(report.cases, "case") } else { String::new() };
        // The verdict below has all of it.
        let is_verdict = report.state == GateState::Fail && report.message == evaluation.verdict.message;
        let message = if is_verdict { first_line(&report.message) } else { report.message.clone() };
        let _ = write!(text, "  {:<14} {state:<8} {cases:>10}  {message}", report.gate.as_str());
        text = text.trim_end().to_string();
        text.push('\n');
        if !is_verdict {
            text += &evidence(&report.evidence);
        }
    }
    text += &parity::text(evaluation);
    text += &measurements(evaluation);
    text += &resources(evaluation, attributes);
    let _ = write!(text, "verdict: {}", evaluation.verdict.label());
    let message = &evaluation.verdict.message;
    // A compiler's log begins with what the message quotes of it.
    let is_quoted = evaluation.verdict.evidence.get(LOG).is_some();
    let message = if is_quoted { first_line(message) } else { message.clone() };
    if !message.is_empty() {
        let _ = write!(text, ": {message}");
    }
    text.push('\n');
    text += &evidence(&evaluation.verdict.evidence);
    if !evaluation.verdict.is_pass() {
        let _ = writeln!(text, "more: `evo explain {}`", evaluation.verdict.label());
    }
    let _ = writeln!(text, "again: {}", setting.repro);
    text
}

/// The evidence that holds a compiler's words.
const LOG: &str = "log";

/// Lines of a long text that are shown; `--json` has all of them.
const SHOWN_LINES: usize = 40;

/// A text of several lines below its name.
fn indented(text: &str) -> String {
    if !text.contains('\n') {
        return format!(" {text}");
    }
    let count = text.lines().count();
    let lines = text.lines().take(SHOWN_LINES);
    let mut shown = lines.fold(String::new(), |shown, line| shown + "\n        " + line.trim_end());
    if count > SHOWN_LINES {
        let _ = write!(shown, "\n        … {}, in `--json`", counted(count - SHOWN_LINES, "more line"));
    }
    shown
}

/// The first line of a text, with a sign that there are more.
fn first_line(text: &str) -> String {
    match text.split_once('\n') {
        Some((first, _)) => format!("{first} …"),
        None => text.to_string(),
    }
}

fn evidence(evidence: &Evidence) -> String {
    // The parity has lines of its own.
    let own = evidence.iter().filter(|(name, _)| *name != GateReport::PARITY);
    own.fold(String::new(), |mut text, (name, value)| {
        let _ = match value {
            Value::String(value) => writeln!(text, "      {name}:{}", indented(value)),
            value => writeln!(text, "      {name}: {value}"),
        };
        text
    })
}

fn measurements(evaluation: &Evaluation) -> String {
    let mut text = String::new();
    for one in &evaluation.measurements {
        let _ = writeln!(
            text,
            "  {:<20} {:<6} p50 {}  95 % [{}, {}]  p90 {}  {} × {}{}",
            one.problem,
            one.mode.as_str(),
            time(one.p50_ns),
            time(one.ci_low_ns),
            time(one.ci_high_ns),
            time(one.p90_ns),
            counted(one.samples, "sample"),
            one.batch,
            if one.outliers > 0 { format!(", {}", counted(one.outliers, "outlier")) } else { String::new() },
        );
    }
    if let Some(objective) = evaluation.objective_ns {
        let _ = writeln!(text, "  objective {}", time(objective));
    }
    text
}

fn resources(evaluation: &Evaluation, attributes: &[EntryAttributes]) -> String {
    let mut text = String::new();
    let number = |value: Option<u64>| value.map_or("-".to_string(), |value| value.to_string());
    for entry in &evaluation.resources {
        let _ = writeln!(
            text,
            "  {:<20} registers {}, stack {}, spills {}/{}, static shared {}",
            entry.entry,
            number(entry.registers.map(u64::from)),
            number(entry.stack_bytes),
            number(entry.spill_store_bytes),
            number(entry.spill_load_bytes),
            number(entry.shared_static_bytes)
        );
    }
    for (position, launch) in attributes.iter().enumerate() {
        if let Some(blocks) = launch.blocks_per_multiprocessor {
            let _ = writeln!(
                text,
                "  launch {position}: {} per multiprocessor",
                counted(blocks, "resident block")
            );
        }
    }
    text
}

/// How each problem is launched, for programs: a row for each launch, with its extents in x, y, z.
pub fn launches(plans: &[ProblemPlan]) -> Value {
    let rows = plans.iter().flat_map(|plan| {
        plan.launches.iter().map(|launch| {
            json!({
                "problem": plan.name,
                "entry": launch.entry,
                "grid": launch.grid,
                "block": launch.block,
                "cluster": launch.cluster,
                "shared_bytes": launch.shared_bytes,
            })
        })
    });
    Value::Array(rows.collect())
}

/// The fields of the object, whose `verdict` names the outcome; the envelope comes around them.
pub fn json(setting: &Setting, evaluation: &Evaluation, attributes: &[EntryAttributes]) -> Value {
    json!({
        "verdict": evaluation.verdict.kind,
        "cause": evaluation.verdict.cause,
        "message": evaluation.verdict.message,
        "evidence": evaluation.verdict.evidence,
        "class": evaluation.verdict.kind.class(),
        "space": setting.space,
        "kernel": setting.kernel,
        "device": setting.device,
        "seed": setting.seed,
        "configuration": evaluation.configuration,
        "configuration_hash": evaluation.configuration_hash,
        "gates": evaluation.gates,
        "measurements": evaluation.measurements,
        "objective_ns": evaluation.objective_ns,
        "resources": evaluation.resources,
        "attributes": attributes,
        "source_hash": evaluation.source_hash,
        "binary_hash": evaluation.binary_hash,
        "code_hash": evaluation.code_hash,
        "compile_ms": evaluation.compile_ms,
        "device_ms": evaluation.device_ms,
        "recovery": evaluation.recovery,
        "repro": setting.repro,
    })
}
