//! The engine's ports answered by a recording: no source, no compiler, no device.
//!
//! A variant travels through the engine like any other; where a kernel would name its entry points, it
//! names its row. Verdicts and costs are the recorded ones, booked but not waited for. No gate ran, and
//! every report says so: a replay is never passed off as a measurement, and nothing is confirmed.

use std::path::PathBuf;
use std::sync::mpsc::Sender;

use evo_protocol::binary::{Binary, HEADER_END, KernelSource};
use evo_protocol::device::{DeviceInfo, DeviceKind, DeviceLimits};
use evo_protocol::measurement::RankingMode;
use evo_protocol::verdict::{Gate, GateReport, Verdict, VerdictKind};
use evo_protocol::worker::{CheckPlan, ReferencePlan};
use evo_space::genome::{Configuration, ContentHash};

use super::recording::{Recording, Row};
use crate::engine::ports::{Build, Compilers, Evaluate, Message, Prepared, Recipe, Refused, Rivals};
use crate::journal::record::{PairedProblem, ProblemWork};
use crate::supervise::job::{Job, Standing};
use crate::supervise::lane::LaneResult;

/// Begins every replayed device's name.
pub const PREFIX: &str = "replay:";

/// What stands for the row of a configuration that was not recorded.
const NO_ROW: &str = "none";

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

/// Configurations become the names of their rows.
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

impl Recipe for ReplayRecipe<'_> {
    fn prepare(&self, configuration: &Configuration) -> Result<Prepared, Refused> {
        let genome = self.recording.space.genome(configuration);
        let row = genome.and_then(|genome| self.recording.row(&genome));
        let source = KernelSource {
            text: format!("{HEADER_END}{configuration}"),
            options: Vec::new(),
            entries: vec![row.map_or(NO_ROW.to_string(), |row| row.number.to_string())],
            file_name: String::new(),
            variant_hash: configuration.hash(),
        };
        Ok(Prepared { source, tiny: Vec::new(), checked: Vec::new(), timed: Vec::new() })
    }

    fn job(&self, prepared: &Prepared, build: Build<'_>) -> Result<Job, Refused> {
        let check = CheckPlan {
            reference: ReferencePlan::Kernel,
            atol: None,
            rtol: None,
            trusted_factor: 1.0,
            seed: 0,
            seeds: 0,
            families: Vec::new(),
            deterministic: true,
            repeats: 0,
        };
        Ok(Job {
            number: build.number,
            label: build.label,
            variant_hash: build.variant_hash,
            binary: build.binary.clone(),
            entries: prepared.source.entries.clone(),
            reference: None,
            check,
            tiny: Vec::new(),
            checked: Vec::new(),
            timed: Vec::new(),
            ranking: RankingMode::Hot,
            deep: build.deep,
        })
    }

    fn work(&self, _prepared: &Prepared) -> Vec<ProblemWork> {
        Vec::new()
    }
}

fn row_of<'a>(rows: &'a [Row], entries: &[String]) -> Option<&'a Row> {
    rows.get(entries.first()?.parse::<usize>().ok()?)
}

/// Answers each source at once with the compile time on record.
#[derive(Debug)]
pub struct ReplayCompilers {
    rows: Vec<Row>,
    jobs: usize,
    sender: Sender<Message>,
}

impl ReplayCompilers {
    /// Compilers that answer to `sender`; the engine keeps its look-ahead as for `jobs` processes.
    pub fn new(recording: &Recording, jobs: usize, sender: Sender<Message>) -> ReplayCompilers {
        ReplayCompilers { rows: recording.rows().to_vec(), jobs, sender }
    }
}

impl Compilers for ReplayCompilers {
    fn submit(&mut self, ticket: u64, source: KernelSource) {
        let row = row_of(&self.rows, &source.entries);
        let code_hash = source.code_hash();
        let binary = Binary {
            hash: code_hash.clone(),
            code_hash,
            path: PathBuf::new(),
            resources: Vec::new(),
            toolchain: "replay".to_string(),
            compile_ms: row.map_or(0.0, |row| row.cost.compile_ms),
            cached: true,
            log: String::new(),
        };
        // The engine may be gone already at the end of a run.
        let _ = self.sender.send(Message::Compiled(ticket, Ok(binary)));
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

impl Evaluate for ReplayDevice {
    fn evaluate(&mut self, job: &Job, _standing: &Standing) -> LaneResult {
        let row = row_of(&self.rows, &job.entries);
        let not_run = |gate: &Gate| GateReport::not_run(*gate, "nothing ran: this is a replay");
        LaneResult {
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

    fn pair(&mut self, _rivals: &Rivals) -> Result<PairedProblem, String> {
        Err("a replay measures nothing".to_string())
    }

    fn noise_floor(&mut self, _job: &Job, _problem: usize) -> Result<f64, String> {
        Err("a replay measures nothing".to_string())
    }
}

/// What must not change between the runs of a replayed study: the recording, and a space of the
/// caller's if there is one.
pub fn space_hash(recording: &Recording, space_text: &str) -> ContentHash {
    ContentHash::of_parts([recording.content.as_str().as_bytes(), space_text.as_bytes()])
}
