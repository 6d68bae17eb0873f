//! A file's content as its reader understands it, before it is checked.

use evo_protocol::verdict::VerdictKind;
use evo_space::space::SearchSpace;
use evo_space::value::Value;

use super::format::Format;
use super::recording::Cost;

/// Names with their values, in order.
pub type Parameters = Vec<(String, Vec<Value>)>;

/// The content of a file, before it is checked against its own parameters and constraints.
#[derive(Debug)]
pub struct Draft {
    pub kernel: String,
    pub gpu: String,
    pub problem: String,
    pub format: Format,
    pub unit_ns: f64,
    pub parameters: Parameters,
    pub valid: Valid,
    /// The file says that its rows are exactly the valid points.
    pub exhaustive: bool,
    /// Whether a configuration may have several rows, of which the first counts.
    pub repeats: bool,
    pub rows: Vec<DraftRow>,
    pub notices: Vec<String>,
}

/// What the file says about which configurations are valid.
#[derive(Debug)]
pub enum Valid {
    /// These expressions.
    Constraints(Vec<String>),
    /// Nothing: the recorded configurations are the valid ones.
    Listed,
    /// Another file's space.
    Space(Box<SearchSpace>),
}

/// One row of the file.
#[derive(Debug)]
pub struct DraftRow {
    /// The file's name for the row, where that is not its number.
    pub name: Option<String>,
    /// Positions in the value lists of the draft's parameters.
    pub positions: Vec<u16>,
    pub kind: VerdictKind,
    pub objective_ns: Option<f64>,
    pub cost: Cost,
}

impl DraftRow {
    /// The row's name in messages.
    pub fn shown(&self, number: usize) -> String {
        self.name.clone().unwrap_or_else(|| number.to_string())
    }
}
