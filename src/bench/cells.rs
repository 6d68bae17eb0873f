//! What is known of each implementation on each shape while a benchmark runs.

use evo_protocol::leaderboard::PairedDecision;
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::ProblemPlan;
use serde::Serialize;
use serde_json::Value;

use super::row::RowStatus;

/// Whose an implementation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ImplementationKind {
    /// A candidate.
    Own,
    /// Somebody else's.
    Peer,
}

/// Somebody who answers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Implementation {
    pub name: String,
    pub kind: ImplementationKind,
    pub version: Option<String>,
}

/// Samples of one mode.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BlockSeries {
    /// Nanoseconds a call, in order.
    pub samples_ns: Vec<f64>,
    pub medians_ns: Vec<f64>,
    /// Medians of the second of two blocks in a row, for the noise floor; only of one implementation.
    pub echoes_ns: Vec<f64>,
}

/// One implementation on one shape.
#[derive(Clone, Debug)]
pub struct BenchCell {
    /// Position among the implementations.
    pub implementation: usize,
    /// Position among the shapes.
    pub shape: usize,
    pub status: RowStatus,
    /// Why it is not `pass`.
    pub reason: String,
    pub correct: Option<bool>,
    /// The numbers of `report::parity`.
    pub parity: Option<Value>,
    /// The problem as a candidate resolves it.
    pub plan: Option<ProblemPlan>,
    pub series: Vec<(TimingMode, BlockSeries)>,
}

impl BenchCell {
    /// A cell that nobody has looked at.
    pub fn new(implementation: usize, shape: usize) -> BenchCell {
        BenchCell {
            implementation,
            shape,
            status: RowStatus::NotRun,
            reason: NOT_REACHED.to_string(),
            correct: None,
            parity: None,
            plan: None,
            series: Vec::new(),
        }
    }

    /// Says why there is no more to come.
    pub fn end(&mut self, status: RowStatus, reason: impl Into<String>) {
        self.status = status;
        self.reason = reason.into();
        self.series.clear();
    }

    /// Whether it has answered rightly and nothing has gone wrong since.
    pub fn may_be_timed(&self) -> bool {
        self.correct == Some(true) && self.status == RowStatus::NotRun && self.reason == NOT_TIMED
    }

    /// Whether nothing that comes can change it.
    pub fn reason_is_final(&self) -> bool {
        self.reason != NOT_REACHED && self.reason != NOT_TIMED
    }

    /// Notes a right answer, which is still to be timed.
    pub fn is_right(&mut self) {
        self.correct = Some(true);
        self.status = RowStatus::NotRun;
        self.reason = NOT_TIMED.to_string();
    }

    /// The series of a mode, made where it is not there.
    pub fn series_of(&mut self, mode: TimingMode) -> &mut BlockSeries {
        let known = self.series.iter().position(|(own, _)| *own == mode);
        let at = known.unwrap_or_else(|| {
            self.series.push((mode, BlockSeries::default()));
            self.series.len() - 1
        });
        &mut self.series[at].1
    }

    /// What is known of a mode.
    pub fn seen(&self, mode: TimingMode) -> Option<&BlockSeries> {
        self.series.iter().find(|(own, _)| *own == mode).map(|(_, series)| series)
    }
}

/// Before anybody has looked.
pub const NOT_REACHED: &str = "the run ended before this";
/// Between the gates and the clock.
pub const NOT_TIMED: &str = "it was not timed";

/// A ratio of times with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeRatioToPeer {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
    /// Unknown without a noise floor.
    pub decision: Option<PairedDecision>,
}
