//! The engine's ports answered by a recording: no source, no compiler, no device.
//!
//! A variant travels through the engine like any other; what is prepared is the number of its row. Verdicts and costs are the recorded ones, booked but not waited for. No gate ran, and
//! every report says so: a replay is never passed off as a measurement, and nothing is confirmed.

use std::sync::mpsc::Sender;

use evo_protocol::device::{DeviceInfo, DeviceKind, DeviceLimits};
use evo_protocol::leaderboard::PairedProblem;
use evo_protocol::verdict::{Gate, GateReport, Verdict, VerdictKind};
use evo_space::genome::{Configuration, ContentHash};

use super::recording::{Recording, Row};
use crate::engine::ports::{
    BuildRecord, Compilers, Evaluate, Identity, JobOrder, Message, Recipe, Refused, Rivals,
};
use crate::journal::record::ProblemWork;
use crate::supervise::job::{Judgement, Standing};

/// Begins every replayed device's name.
pub const PREFIX: &str = "replay:";

/// The device that a replay's journal names: `replay:A100`.
pub fn info(recording: &Recording) -> DeviceInfo {
    DeviceInfo {
        kind: DeviceKind::Replay,
        name: format!("{PREFIX}{}", recording.gpu),
        arch: "replay".to_string(),
        uuid: recording.content.to_string(),
        driver: recording.format.as_str().to_string(),
        multiprocessors: 0,
        limits: DeviceLimits {
            threads_per_block: 0,
            block: [0; 3],
            grid: [0; 3],
            shared_static_bytes: 0,
            shared_optin_bytes: 0,
            registers_per_block: 0,
            cluster: 0,
            cooperative: false,
        },
        l2_bytes: 0,
        memory_bytes: 0,
        bandwidth: None,
        flops_f32: None,
        flops_f16: None,
    }
}

/// Configurations become the numbers of their rows.
#[derive(Debug)]
pub struct ReplayRecipe<'a> {
    recording: &'a Recording,
}

impl<'a> ReplayRecipe<'a> {
    /// A recipe for a recording's configurations.
    pub fn new(recording: &'a Recording) -> ReplayRecipe<'a> {
        ReplayRecipe { recording }
    }
}

/// A configuration's row in the recording; absent where it was not recorded.
pub type RowNumber = Option<usize>;

impl Recipe for ReplayRecipe<'_> {
    type Prepared = (Configuration, RowNumber);
    /// Milliseconds of compiling on record.
    type Binary = f64;
    type Job = RowNumber;

    fn prepare(&self, configuration: &Configuration) -> Result<(Configuration, RowNumber), Refused> {
        let genome = self.recording.space.genome(configuration);
        let row = genome.and_then(|genome| self.recording.row(&genome));
        Ok((configuration.clone(), row.map(|row| row.number)))
    }

    fn identity(&self, (configuration, _): &(Configuration, RowNumber)) -> Identity {
        // No two configurations share a row, and no journal of a replay names a source.
        let hash = configuration.hash();
        Identity { source: hash.clone(), text: None, plan: hash }
    }

    fn record(&self, _prepared: &(Configuration, RowNumber), compile_ms: &f64) -> BuildRecord {
        BuildRecord { compile_ms: *compile_ms, toolchain: "replay".to_string(), ..BuildRecord::default() }
    }

    fn job(
        &self,
        (_, row): &(Configuration, RowNumber),
        _compile_ms: &f64,
        _order: JobOrder,
    ) -> Result<RowNumber, Refused> {
        Ok(*row)
    }

    fn work(&self, _prepared: &(Configuration, RowNumber)) -> Vec<ProblemWork> {
        Vec::new()
    }
}

/// Answers each source at once with the compile time on record.
#[derive(Debug)]
pub struct ReplayCompilers {
    rows: Vec<Row>,
    jobs: usize,
    sender: Sender<Message<f64>>,
}

impl ReplayCompilers {
    /// Compilers that answer to `sender`; the engine keeps its look-ahead as for `jobs` processes.
    pub fn new(recording: &Recording, jobs: usize, sender: Sender<Message<f64>>) -> ReplayCompilers {
        ReplayCompilers { rows: recording.rows().to_vec(), jobs, sender }
    }
}

impl Compilers<(Configuration, RowNumber)> for ReplayCompilers {
    fn submit(&mut self, ticket: u64, (_, row): &(Configuration, RowNumber)) {
        let compile_ms = row.and_then(|row| self.rows.get(row)).map_or(0.0, |row| row.cost.compile_ms);
        // The engine may be gone already at the end of a run.
        let _ = self.sender.send(Message::Compiled(ticket, Ok(compile_ms)));
    }

    /// Every source has its answer already.
    fn cancel(&mut self) {}

    fn jobs(&self) -> usize {
        self.jobs
    }

    fn busy_seconds(&self) -> f64 {
        0.0
    }
}

/// Answers each job with the verdict on record.
#[derive(Debug)]
pub struct ReplayDevice {
    rows: Vec<Row>,
    what: String,
}

impl ReplayDevice {
    /// The device of a recording.
    pub fn new(recording: &Recording) -> ReplayDevice {
        let what =
            format!("replayed from a recording of `{}` ({})", recording.name, recording.format.as_str());
        ReplayDevice { rows: recording.rows().to_vec(), what }
    }

    fn verdict(&self, row: Option<&Row>) -> Verdict {
        let Some(row) = row else {
            let message = format!("not in the recording: {}", self.what);
            return Verdict::new(VerdictKind::StaticReject, message).with_cause("not_recorded");
        };
        let verdict = Verdict::new(row.kind, self.what.clone()).with("row", row.number);
        if verdict.is_pass() { verdict } else { verdict.with_cause("recorded") }
    }
}

impl Evaluate<RowNumber> for ReplayDevice {
    fn evaluate(&mut self, job: &RowNumber, _standing: &Standing) -> Judgement {
        let row = job.and_then(|row| self.rows.get(row));
        let not_run = |gate: &Gate| GateReport::not_run(*gate, "nothing ran: this is a replay");
        Judgement {
            verdict: self.verdict(row),
            gates: Gate::ALL.iter().map(not_run).collect(),
            measurements: Vec::new(),
            objective_ns: row.and_then(|row| row.objective_ns),
            attributes: Vec::new(),
            recovery: None,
            device_ms: row.map_or(0.0, |row| row.cost.validate_ms + row.cost.runs_ms),
            lost: false,
        }
    }

    fn pair(&mut self, _rivals: &Rivals<RowNumber>) -> Result<PairedProblem, String> {
        Err("a replay measures nothing".to_string())
    }

    fn noise_floor(&mut self, _job: &RowNumber, _problem: usize) -> Result<f64, String> {
        Err("a replay measures nothing".to_string())
    }
}

/// What must not change between the runs of a replayed study: the recording, and a space of the
/// caller's if there is one.
pub fn space_hash(recording: &Recording, space_text: &str) -> ContentHash {
    ContentHash::of_parts([recording.content.as_str().as_bytes(), space_text.as_bytes()])
}
