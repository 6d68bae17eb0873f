//! What the engine needs from the rest of the program, as small traits, so that it is tested
//! without compilers and devices.

use std::sync::mpsc::{Receiver, Sender, channel};

use evo_protocol::binary::{Binary, CompileOutcome, KernelSource};
use evo_protocol::device::Telemetry;
use evo_protocol::facts::Facts;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Gate, Verdict};
use evo_space::genome::{Configuration, ContentHash};

use crate::compile::facts;
use crate::journal::record::{PairedProblem, ProblemWork};
use crate::supervise::job::{Job, Standing};
use crate::supervise::lane::LaneResult;

/// Compilers that answer with `Message::Compiled`.
pub trait Compilers {
    /// Queues one source; never blocks.
    fn submit(&mut self, ticket: u64, source: KernelSource);
    /// Stops compiling everything that was submitted and not answered; an answer under way may still come.
    fn cancel(&mut self);
    /// How many compile at once.
    fn jobs(&self) -> usize;
    /// Seconds of compiling, summed over processes.
    fn busy_seconds(&self) -> f64;
}

/// A device behind its supervisor; lives in the lane's thread.
pub trait Evaluate: Send {
    /// Gates and timing of one job. A failing job is a result; so is a lost device.
    fn evaluate(&mut self, job: &Job, standing: &Standing) -> LaneResult;
    /// `finalist` against `baseline` on a timed problem, interleaved, in fresh processes.
    fn pair(&mut self, rivals: &Rivals) -> Result<PairedProblem, String>;
    /// Relative difference between a job and itself.
    fn noise_floor(&mut self, job: &Job, problem: usize) -> Result<f64, String>;
    /// Clocks, power and heat now; `None` where nobody can tell.
    fn telemetry(&mut self) -> Option<Telemetry> {
        None
    }
}

/// A finalist and what it is compared with.
#[derive(Clone, Debug)]
pub struct Rivals {
    pub baseline: Job,
    pub finalist: Job,
    /// Position among the timed problems.
    pub problem: usize,
    /// Relative difference between a job and itself.
    pub noise_floor: f64,
}

/// Turns a configuration into something to compile and to judge.
pub trait Recipe {
    /// Renders, resolves and checks against static limits.
    fn prepare(&self, configuration: &Configuration) -> Result<Prepared, Refused>;
    /// The job for a compiled variant; an error is a verdict on its resources.
    fn job(&self, prepared: &Prepared, build: Build<'_>) -> Result<Job, Refused>;
    /// What is known of a compiled variant before it runs.
    fn facts(&self, _prepared: &Prepared, binary: &Binary) -> Facts {
        facts::facts_of(&binary.resources, &[], "")
    }
    /// What one call amounts to, per timed problem.
    fn work(&self, prepared: &Prepared) -> Vec<ProblemWork>;
}

/// A compiled variant on its way to the device.
#[derive(Debug)]
pub struct Build<'a> {
    pub number: u64,
    pub label: String,
    pub binary: &'a Binary,
    /// The hash compiled into that binary: of the configuration whose source was compiled.
    pub variant_hash: ContentHash,
    /// Ask for every gate at full depth and for all timing modes.
    pub deep: bool,
}

/// A configuration refused before compiling.
#[derive(Debug)]
pub struct Refused {
    pub gate: Gate,
    pub verdict: Box<Verdict>,
}

/// A configuration ready for the compilers.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub source: KernelSource,
    pub tiny: Vec<ProblemPlan>,
    pub checked: Vec<ProblemPlan>,
    pub timed: Vec<ProblemPlan>,
}

impl Prepared {
    /// A hash of everything but the code that decides the outcome: grids, blocks, shapes. Two
    /// configurations with the same machine code may still differ here.
    pub fn plan_hash(&self) -> ContentHash {
        let text = |plans: &Vec<ProblemPlan>| serde_json::to_vec(plans).unwrap_or_default();
        let parts = [text(&self.tiny), text(&self.checked), text(&self.timed)];
        ContentHash::of_parts(parts.iter().map(Vec::as_slice))
    }
}

/// What threads tell the engine.
#[derive(Debug)]
pub enum Message {
    /// A compiler's answer to a ticket.
    Compiled(u64, CompileOutcome),
    /// The lane's answer.
    Lane(Box<LaneAnswer>),
    /// Ctrl-C or SIGTERM, the n-th.
    Interrupt(u32),
}

/// The lane's answers, one for each task in order.
#[derive(Debug)]
pub enum LaneAnswer {
    Evaluated { number: u64, result: Box<LaneResult> },
    Paired(Result<PairedProblem, String>),
    NoiseFloor(Result<f64, String>),
    Telemetry(Option<Telemetry>),
}

/// Where messages arrive. Made first, because compilers and signal watchers need its sender.
#[derive(Debug)]
pub struct Inbox {
    pub(crate) sender: Sender<Message>,
    pub(crate) receiver: Receiver<Message>,
}

impl Inbox {
    /// An empty inbox.
    pub fn new() -> Inbox {
        let (sender, receiver) = channel();
        Inbox { sender, receiver }
    }

    /// A way to send to it.
    pub fn sender(&self) -> Sender<Message> {
        self.sender.clone()
    }
}

impl Default for Inbox {
    fn default() -> Inbox {
        Inbox::new()
    }
}
