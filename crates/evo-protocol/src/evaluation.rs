//! An evaluation: configuration to verdict, gates and measurements. The unit of the journal.

use evo_space::genome::{Configuration, ContentHash};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::binary::EntryResources;
use crate::check::CheckSet;
use crate::measurement::Measurement;
use crate::verdict::{Gate, GateReport, GateState, Verdict, VerdictKind};
use crate::words::words;

/// Everything that became known of one configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evaluation {
    /// Position in the study, from 0, in the order of proposal.
    pub number: u64,
    /// Bookkeeping slice of the search.
    pub generation: u32,
    pub configuration: Configuration,
    /// Names the configuration in binaries and files.
    pub configuration_hash: ContentHash,
    /// What proposed it: `default`, `exhaustive`, `random`, `crossover`, `mutation`, …
    pub origin: String,
    /// What the strategy's model expected of it; none where no model proposed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expectation>,
    /// The timed problem that it was proposed for, where problems are searched apart; none where it was for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aimed_at: Option<String>,
    pub verdict: Verdict,
    /// One report a gate, in order; gates not reached are `not_run`.
    pub gates: Vec<GateReport>,
    /// One for each timed problem and mode that was measured.
    pub measurements: Vec<Measurement>,
    /// What is minimized, nanoseconds: the weighted geometric mean over timed problems. For
    /// `too_slow` a lower bound.
    pub objective_ns: Option<f64>,
    /// What the compiler reports of each entry point.
    pub resources: Vec<EntryResources>,
    /// The same in brief with what the launches add: what a search may learn from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facts: Option<Facts>,
    pub source_hash: Option<ContentHash>,
    pub binary_hash: Option<ContentHash>,
    pub code_hash: Option<ContentHash>,
    /// The evaluation whose identical source or code answered for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duplicate_of: Option<u64>,
    /// What the verdict rests on; none where nothing was rendered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<MeasurementKey>,
    /// The study that measured it, where this one took the result over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_over_from: Option<TakenOver>,
    /// Milliseconds of compiling; 0 where another variant's binary was used.
    pub compile_ms: f64,
    /// Milliseconds in the device lane, without recovery.
    pub device_ms: f64,
    /// What it took to get the lane going again; absent where the process stayed well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// Which of the run's lanes judged it, from 0; none where there was one, and where no device saw it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_uuid: Option<String>,
    /// What the times that this device measured were divided by: how many times as long it takes as the first lane's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lane_ratio: Option<f64>,
    /// Milliseconds of the study's running time at the verdict: since the start of the command, and in a resumed
    /// study on top of the last stamp before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
}

/// What a verdict rests on, as three hashes. A verdict holds for whoever has an equal key: apart from chance, nothing
/// else decides it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct MeasurementKey {
    /// The source without evo's header, the files that it includes, the compiler's options, the entry points.
    pub source: ContentHash,
    /// Launches, arguments, sizes and weights of every problem and every small shape.
    pub plan: ContentHash,
    /// What all variants of a run share: the device, the compiler, the gates, how answers are checked.
    pub conditions: ContentHash,
}

/// Where a result was measured that another study took over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TakenOver {
    pub study: String,
    pub number: u64,
    /// When the run began that measured it: UTC, RFC 3339.
    pub at: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expectation {
    /// Central value of the objective, in its unit: half of the outcomes are expected below.
    pub objective_ns: f64,
    /// One standard deviation below and above, of the logarithm where the model works with that.
    pub low_ns: f64,
    /// See `low_ns`.
    pub high_ns: f64,
    /// Probability to fail, from 0 to 1.
    pub risk: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recovery {
    #[serde(rename = "code")]
    pub level: RecoveryLevel,
    /// Milliseconds from the failure to a worker that has passed its health check.
    pub elapsed_ms: f64,
}

words! {
    /// How much was in doubt after a failure. The level that leaves the process alone, `R0`, is the absence
    /// of a recovery.
    #[derive(PartialOrd, Ord, Hash, JsonSchema)]
    RecoveryLevel {
        /// The process: it hung or died in host code.
        R1 = "R1",
        /// The device: a launch did not end, an error was sticky, or the process broke the protocol.
        R2 = "R2",
        R3 = "R3",
    }
}

/// The [`Evaluation::origin`] of the default configuration, which every search proposes first.
pub const DEFAULT_ORIGIN: &str = "default";

impl Expectation {
    /// Whether it can be kept: JSON has no infinities and no NaN.
    pub fn is_sound(&self) -> bool {
        let numbers = [self.objective_ns, self.low_ns, self.high_ns, self.risk];
        numbers.iter().all(|number| number.is_finite())
            && self.low_ns <= self.high_ns
            && (0.0..=1.0).contains(&self.risk)
    }
}

impl Evaluation {
    /// Of which nothing is known beyond its verdict.
    pub fn new(number: u64, configuration: Configuration, origin: &str, verdict: Verdict) -> Evaluation {
        let (configuration_hash, origin) = (configuration.hash(), origin.to_string());
        Evaluation { number, configuration_hash, configuration, origin, verdict, ..Evaluation::default() }
    }

    pub fn is_default(&self) -> bool {
        self.origin == DEFAULT_ORIGIN
    }

    /// Whether it counts against a budget of evaluations: what was passed over cost a compilation only, and what was
    /// taken over was measured by another study.
    pub fn is_counted(&self) -> bool {
        self.verdict.kind != VerdictKind::PassedOver && self.taken_over_from.is_none()
    }

    /// Whether its time is that of a race, whose samples go on until they decide, and not of a screening.
    pub fn is_raced(&self) -> bool {
        self.verdict.evidence.get(Verdict::RACED).is_some_and(|own| *own == true)
    }

    /// Whether its objective is a time that can rank, and neither an estimate nor a lower bound.
    pub fn is_timed(&self) -> bool {
        self.verdict.is_pass() || self.is_raced()
    }

    pub fn gate(&self, gate: Gate) -> Option<&GateReport> {
        self.gates.iter().find(|report| report.gate == gate)
    }

    /// Whether every gate up to and including `last` passed.
    pub fn passed_through(&self, last: Gate) -> bool {
        Gate::ALL
            .iter()
            .take_while(|gate| **gate <= last)
            // A gate without a report did not run, which never counts as a pass.
            .all(|gate| self.gate(*gate).is_some_and(|report| report.state == GateState::Pass))
    }

    /// Takes in what a sanitizer says: its report among the gates, and the verdict on what it found.
    pub fn sanitized(&mut self, report: &GateReport, found: Option<&Verdict>) {
        self.gates.retain(|own| own.gate != report.gate);
        self.gates.push(report.clone());
        self.gates.sort_by_key(|own| own.gate);
        if let Some(verdict) = found {
            self.verdict = verdict.clone();
            self.objective_ns = None;
        }
    }

    /// Whether it may rank: every gate up to `honesty` passed, and a sanitizer that looked found nothing.
    /// `tiny_shapes` alone may be missing, and only where there was no shape to run; whoever shows the rank then
    /// says that tails were not checked. What the self-test judged without one of the checks never ranks.
    pub fn may_rank(&self) -> bool {
        let whole = |report: &GateReport| report.evidence.get(CheckSet::EVIDENCE).is_none();
        let good =
            |report: &GateReport| whole(report) && (report.state == GateState::Pass || report.lacks_shapes());
        let mut gates = Gate::ALL.iter().take_while(|gate| **gate <= Gate::Honesty);
        let faulty = |report: &GateReport| report.state == GateState::Fail;
        !self.gate(Gate::Sanitize).is_some_and(faulty) && gates.all(|gate| self.gate(*gate).is_some_and(good))
    }
}

/// Facts of a compiled variant. Of several kernels and launches each fact is the worst; `None` is not
/// known, as most are on the host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Facts {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registers: Option<f64>,
    /// Bytes per thread spilled to local memory, stores and loads together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spill_bytes: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stack_bytes: Option<f64>,
    /// Shared memory per block, static and dynamic, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_bytes: Option<f64>,
    /// Resident warps over the device's maximum, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occupancy: Option<f64>,
    /// Size of the compiled file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binary_bytes: Option<f64>,
}

impl Facts {
    pub const COUNT: usize = 6;

    pub const NAMES: [&'static str; Facts::COUNT] =
        ["registers", "spill_bytes", "stack_bytes", "shared_bytes", "occupancy", "binary_bytes"];

    pub fn values(&self) -> [Option<f64>; Facts::COUNT] {
        [
            self.registers,
            self.spill_bytes,
            self.stack_bytes,
            self.shared_bytes,
            self.occupancy,
            self.binary_bytes,
        ]
    }

    pub fn is_empty(&self) -> bool {
        self.values().iter().all(Option::is_none)
    }
}
