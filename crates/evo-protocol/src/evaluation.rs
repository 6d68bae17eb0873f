//! An evaluation: configuration to verdict, gates and measurements. The unit of the journal.

use evo_space::genome::{Configuration, ContentHash};
use serde::{Deserialize, Serialize};

use crate::binary::EntryResources;
use crate::facts::Facts;
use crate::measurement::Measurement;
use crate::verdict::{Gate, GateReport, GateState, Verdict, VerdictKind};

/// Everything that became known of one configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Position in the study, from 0, in the order of proposal.
    pub number: u64,
    /// Bookkeeping slice of the search.
    pub generation: u32,
    pub configuration: Configuration,
    pub configuration_hash: ContentHash,
    /// Who proposed it: `default`, `exhaustive`, `random`, `crossover`, `mutation`, …
    pub origin: String,
    /// What the strategy's model expected of it; none where no model proposed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expectation>,
    pub verdict: Verdict,
    /// One report a gate, in order; gates not reached are `not_run`.
    pub gates: Vec<GateReport>,
    #[serde(default)]
    pub measurements: Vec<Measurement>,
    /// What is minimized, nanoseconds: the weighted geometric mean over timed problems. For
    /// `too_slow` a lower bound.
    pub objective_ns: Option<f64>,
    #[serde(default)]
    pub resources: Vec<EntryResources>,
    /// The same in brief with what the launches add: what a search may learn from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Facts>,
    /// Hash of rendered source, of the binary, of the code in it.
    pub source_hash: Option<ContentHash>,
    pub binary_hash: Option<ContentHash>,
    pub code_hash: Option<ContentHash>,
    /// The evaluation whose identical source or code answered for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<u64>,
    #[serde(default)]
    pub compile_ms: f64,
    /// Time in the device lane.
    #[serde(default)]
    pub device_ms: f64,
    /// What it took to get the lane going again: `R0` nothing, `R1`/`R2` new process (and canary).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
}

/// What a strategy expected of a configuration when it proposed it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expectation {
    /// Central value of the objective, in its unit: half of the outcomes are expected below.
    pub objective_ns: f64,
    /// One standard deviation below and above, of the logarithm where the model works with that.
    pub low_ns: f64,
    pub high_ns: f64,
    /// Probability to fail, from 0 to 1.
    pub risk: f64,
}

/// A recovery after a failure (`docs/design/supervision.md`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    pub code: String,
    pub elapsed_ms: f64,
}

impl Expectation {
    /// Whether it can be kept: files hold no number beyond the finite ones.
    pub fn is_sound(&self) -> bool {
        let numbers = [self.objective_ns, self.low_ns, self.high_ns, self.risk];
        numbers.iter().all(|number| number.is_finite())
            && self.low_ns <= self.high_ns
            && (0.0..=1.0).contains(&self.risk)
    }
}

impl Evaluation {
    /// Whether it counts against a budget of evaluations: what was passed over cost a compilation only.
    pub fn is_counted(&self) -> bool {
        self.verdict.kind != VerdictKind::PassedOver
    }

    /// The report of one gate.
    pub fn gate(&self, gate: Gate) -> Option<&GateReport> {
        self.gates.iter().find(|report| report.gate == gate)
    }

    /// Whether every gate up to and including `last` passed.
    pub fn passed_through(&self, last: Gate) -> bool {
        Gate::ALL
            .iter()
            .take_while(|gate| **gate <= last)
            .all(|gate| self.gate(*gate).is_some_and(|report| report.state == GateState::Pass))
    }
}
