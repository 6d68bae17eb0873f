//! The faults of the space `faults_heads`: several axes, a flag, and two outputs of which one is a gradient.

use super::row::FaultRow;

/// Every fault that is a value of the parameter `FAULT`.
pub const HEADS: &[FaultRow] = &[
    FaultRow::new(
        "diagonal",
        &["W3"],
        "leaves out the diagonal of a causal sum",
        &["wrong_answer:causal"],
        &["CAUSAL=1"],
    ),
    FaultRow::new(
        "swapped_inputs",
        &["W8"],
        "takes keys for values and values for keys",
        &["wrong_answer"],
        &["`o`"],
    ),
    FaultRow::new(
        "swapped_axes",
        &["W9"],
        "exchanges batch and head, which shows where there are several",
        &["wrong_answer"],
        &["`o`"],
    ),
    FaultRow::new(
        "swapped_layout",
        &["W9"],
        "reads positions before heads, another layout of the same shape",
        &["wrong_answer", "nondeterministic", "oob_read"],
        &["`o`", "output", "outside"],
    ),
    FaultRow::new(
        "gradient",
        &["W18"],
        "has a wrong sign in the gradient; the output is right",
        &["wrong_answer"],
        &["`dv`"],
    ),
    FaultRow::new(
        "statistics",
        &["W18"],
        "keeps a wrong sum for the way back, which nothing reads",
        &["wrong_answer"],
        &["`sum`"],
    ),
    FaultRow::new(
        "dropped_terms",
        &["W6"],
        "leaves out one term in 100, from the hundredth on",
        &["wrong_answer"],
        &["`o`"],
    ),
    FaultRow::new("half_sum", &["W6"], "adds up in half precision", &["wrong_answer:precision"], &["error"]),
    FaultRow::new(
        "unset_sum",
        &["W13"],
        "adds to an output that nobody set to zero",
        &["wrong_answer", "nondeterministic"],
        &["`dv`"],
    ),
    FaultRow::honest("atomic_sum", &["W15"], "adds by float atomics in any order, which its file allows"),
];
