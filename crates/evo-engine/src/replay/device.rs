//! The engine's ports answered by a recording: no source, no compiler, no device.
//!
//! What the engine hands around is the configuration's row in the recording, from which the compilers take the recorded
//! compile time and the device the recorded verdict. Nobody waits for stored costs. No gate ran, and every report says
//! so: a replay never passes for a measurement, and nothing is confirmed.

use std::sync::mpsc::Sender;

use evo_journal::record::ProblemWork;
use evo_protocol::device::{DeviceInfo, DeviceKind, DeviceLimits};
use evo_protocol::verdict::{Gate, GateReport, Verdict, VerdictKind};
use evo_space::genome::{Configuration, ContentHash};
use evo_supervise::job::{Judgement, Standing};

use super::{Recording, Row};
use crate::ports::{
    BuildRecord, Compilers, Evaluate, Identity, JobOrder, Message, PairAnswer, Recipe, Refused, Rivals,
};

pub const PREFIX: &str = "replay:";

/// The device that a replay's journal names, such as `replay:A100`. It has no limits: nothing runs on it.
pub fn info(recording: &Recording) -> DeviceInfo {
    DeviceInfo {
        kind: DeviceKind::Replay,
        name: format!("{PREFIX}{}", recording.gpu),
        arch: "replay".to_string(),
        uuid: recording.content.to_string(),
        driver: recording.format.as_str().to_string(),
        multiprocessors: 0,
        limits: DeviceLimits::default(),
        l2_bytes: 0,
        memory_bytes: 0,
        bandwidth: None,
        flops_f32: None,
        flops_f16: None,
    }
}

/// The hash of a configuration, and its row; `None` where it was not recorded.
pub type ReplayedVariant = (ContentHash, Option<Row>);

/// What compiling took, milliseconds.
pub type RecordedBuild = f64;

impl Recipe for &Recording {
    type Prepared = ReplayedVariant;
    type Binary = RecordedBuild;
    type Job = Option<Row>;

    fn prepare(&self, configuration: &Configuration) -> Result<ReplayedVariant, Refused> {
        let genome = self.space.genome(configuration);
        let row = genome.and_then(|genome| self.row(&genome)).cloned();
        Ok((configuration.hash(), row))
    }

    fn identity(&self, (hash, _): &ReplayedVariant) -> Identity {
        // No two configurations share a row, and the journal of a replay names no source.
        Identity { source: hash.clone(), text: None, plan: hash.clone(), conditions: None }
    }

    fn record(&self, _variant: &ReplayedVariant, build: &RecordedBuild) -> BuildRecord {
        BuildRecord { compile_ms: *build, toolchain: "replay".to_string(), ..BuildRecord::default() }
    }

    fn job(
        &self,
        (_, row): &ReplayedVariant,
        _build: &RecordedBuild,
        _order: JobOrder,
    ) -> Result<Option<Row>, Refused> {
        Ok(row.clone())
    }

    fn work(&self, _variant: &ReplayedVariant) -> Vec<ProblemWork> {
        Vec::new()
    }
}

/// Compilers that answer to `sender`. The engine proposes as far ahead as it does for `jobs` processes.
#[derive(Debug)]
pub struct ReplayCompilers {
    pub jobs: usize,
    pub sender: Sender<Message<RecordedBuild>>,
}

impl Compilers<ReplayedVariant> for ReplayCompilers {
    fn submit(&mut self, ticket: u64, (_, row): &ReplayedVariant) {
        let compile_ms = row.as_ref().map_or(0.0, |row| row.cost.compile_ms);
        // At the end of a run the engine may be gone already.
        let _ = self.sender.send(Message::Compiled(ticket, Ok(compile_ms)));
    }

    fn cancel(&mut self) {}

    fn jobs(&self) -> usize {
        self.jobs
    }

    fn busy_seconds(&self) -> f64 {
        0.0
    }

    fn are_timed(&self) -> bool {
        false
    }
}

#[derive(Debug)]
pub struct ReplayDevice {
    provenance: String,
}

impl ReplayDevice {
    pub fn new(recording: &Recording) -> ReplayDevice {
        let (name, format) = (&recording.name, recording.format.as_str());
        ReplayDevice { provenance: format!("replayed from a recording of `{name}` ({format})") }
    }

    fn verdict(&self, row: Option<&Row>) -> Verdict {
        let Some(row) = row else {
            let message = format!("not in the recording: {}", self.provenance);
            return Verdict::new(VerdictKind::StaticReject, message).with_cause("not_recorded");
        };
        let verdict = Verdict::new(row.kind, self.provenance.clone()).with("row", row.number);
        if verdict.is_pass() { verdict } else { verdict.with_cause("recorded") }
    }
}

const NOTHING_MEASURED: &str = "a replay measures nothing";

impl Evaluate<Option<Row>> for ReplayDevice {
    fn evaluate(&mut self, row: &Option<Row>, _standing: &Standing) -> Judgement {
        let row = row.as_ref();
        let not_run = |gate: &Gate| GateReport::not_run(*gate, "nothing ran: this is a replay");
        Judgement {
            verdict: self.verdict(row),
            // Gates that claim to pass would let a replay look like a measurement.
            gates: Gate::ALL.iter().map(not_run).collect(),
            objective_ns: row.and_then(|row| row.objective_ns),
            device_ms: row.map_or(0.0, |row| row.cost.validate_ms + row.cost.runs_ms),
            ..Judgement::begin()
        }
    }

    fn pair(&mut self, rivals: &Rivals<Option<Row>>) -> Vec<PairAnswer> {
        rivals.problems.iter().map(|_| Err(NOTHING_MEASURED.to_string())).collect()
    }

    fn noise_floor(&mut self, _row: &Option<Row>, _problems: usize) -> Result<f64, String> {
        Err(NOTHING_MEASURED.to_string())
    }
}

/// What must not change between the runs of a replayed study: the recording, and the caller's space if there is one.
pub fn space_hash(recording: &Recording, space_text: &str) -> ContentHash {
    ContentHash::of_parts([recording.content.as_str().as_bytes(), space_text.as_bytes()])
}
