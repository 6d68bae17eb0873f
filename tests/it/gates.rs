//! A check inside the gates is left out by the self-test alone, and what was judged without one never ranks. What then slips
//! through is tested in `crates/evo-selftest/tests/`.

use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::{Gate, GateReport, GateState};
use serde_json::Value;

/// Only the self-test can leave a check out. Whoever else calls it makes results that nobody should believe.
#[test]
fn nobody_else_leaves_checks_out() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("src"), root.join("crates")];
    let mut callers = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            if path.components().any(|part| part.as_os_str() == "tests") {
                continue;
            }
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            if code.contains("CheckSet::without(") || code.contains("check.checks = ") {
                callers.push(path.strip_prefix(root).unwrap().display().to_string());
            }
        }
    }
    callers.sort();
    assert_eq!(callers, ["crates/evo-selftest/src/gates/mod.rs"]);
}

#[test]
fn what_was_judged_without_a_check_never_ranks() {
    let journal = include_str!("../data/golden/journal.jsonl");
    let record = journal.lines().find_map(|line| {
        let value: Value = serde_json::from_str(line).unwrap();
        serde_json::from_value::<Evaluation>(value["record"].clone()).ok()
    });
    let mut evaluation = record.expect("the journal has an evaluation");
    let passed = |gate: &Gate| GateReport { state: GateState::Pass, ..GateReport::not_run(*gate, "") };
    evaluation.gates = Gate::ALL.iter().map(passed).collect();
    assert!(evaluation.may_rank());
    evaluation.gates[3].evidence.insert(CheckSet::EVIDENCE, vec![GateCheck::Bias.as_str()]);
    assert!(!evaluation.may_rank());
}
