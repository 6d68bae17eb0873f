//! The common form of all recordings: a space, and the result and the cost of each recorded configuration.

use std::collections::HashMap;

use evo_protocol::verdict::{VerdictClass, VerdictKind};
use evo_space::genome::{ContentHash, Genome};
use evo_space::space::SearchSpace;

use super::format::Format;

/// Measurements of one kernel on one GPU: of all its configurations, or of some.
#[derive(Debug)]
pub struct Recording {
    /// `kernel__gpu`.
    pub name: String,
    /// The kernel's name.
    pub kernel: String,
    /// The GPU's name.
    pub gpu: String,
    /// The problem size as text, such as `4096 4096`; empty if the file does not say.
    pub problem: String,
    /// The format of the file.
    pub format: Format,
    /// The configurations that are valid.
    pub space: SearchSpace,
    /// Nanoseconds in one unit of the file's objective.
    pub unit_ns: f64,
    /// Whether every valid point of the space has a row.
    pub exhaustive: bool,
    /// Hash of the file's text.
    pub content: ContentHash,
    /// What a person should know about how the file was read.
    pub notices: Vec<String>,
    pub(super) rows: Vec<Row>,
    pub(super) genomes: Vec<Genome>,
    pub(super) lookup: RowLookup,
}

/// The result and the cost of one configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Position in the file, counted from 0; rows that were left out do not count.
    pub number: usize,
    /// The class of `kind`.
    pub class: VerdictClass,
    /// The verdict, as precisely as the file tells.
    pub kind: VerdictKind,
    /// The measured time in nanoseconds; `None` if the configuration failed.
    pub objective_ns: Option<f64>,
    /// What its evaluation took.
    pub cost: Cost,
}

/// The cost of one evaluation in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Compiling.
    pub compile_ms: f64,
    /// Comparing the output with a reference.
    pub validate_ms: f64,
    /// Sum of the benchmark runs; 0 if there were none.
    pub runs_ms: f64,
    /// Overhead of the tuner that recorded it. It does not count as part of the evaluation.
    pub framework_ms: f64,
}

impl Cost {
    /// The cost of the first evaluation of a configuration: compiling, validation, runs.
    pub fn total_ms(&self) -> f64 {
        self.compile_ms + self.validate_ms + self.runs_ms
    }
}

/// How a point finds its row.
#[derive(Debug)]
pub(super) enum RowLookup {
    /// A row's number is the canonical index of its point.
    Canonical,
    /// Rows are in another order, or some are missing.
    Map(HashMap<Genome, u32>),
}

impl Recording {
    /// The row of a point; `None` if it was not recorded.
    pub fn row(&self, genome: &Genome) -> Option<&Row> {
        let number = match &self.lookup {
            RowLookup::Canonical => usize::try_from(self.space.index_of(genome)?).ok()?,
            RowLookup::Map(map) => *map.get(genome)? as usize,
        };
        self.rows.get(number)
    }

    /// All rows in the order of the file.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The point of a row, by the row's number, which must be below `rows().len()`.
    pub fn genome(&self, number: usize) -> Genome {
        self.genomes[number].clone()
    }
}
