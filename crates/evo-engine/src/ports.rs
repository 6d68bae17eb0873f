//! What the engine needs from the rest of the program, as small traits: tests need neither compilers nor devices.
//!
//! Three values travel from a configuration to its verdict: what was prepared, what was compiled, what
//! the device is handed. Their types belong to the [`Recipe`]; the engine passes them on and looks only
//! at the hashes by which it finds duplicates ([`Identity`]) and at what the journal keeps of a build
//! ([`BuildRecord`]). A recording therefore needs no source, no binary and no launch plan.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use evo_protocol::binary::EntryResources;
use evo_protocol::device::Telemetry;
use evo_protocol::evaluation::{Facts, MeasurementKey};
use evo_protocol::leaderboard::PairedProblem;
use evo_protocol::verdict::{Gate, GateReport, Verdict};
use evo_protocol::worker::SERIES_MS;
use evo_space::genome::{Configuration, ContentHash};

use evo_journal::record::{LaneAccount, ProblemWork};
use evo_supervise::job::{Judgement, Standing};
use evo_supervise::lane::Renewal;

pub trait Recipe {
    type Prepared;
    type Binary: Clone + Send + 'static;
    type Job: Clone + Send + 'static;

    /// Renders, resolves and checks against the limits that are known before compiling.
    fn prepare(&self, configuration: &Configuration) -> Result<Self::Prepared, Refused>;
    fn identity(&self, prepared: &Self::Prepared) -> Identity;
    fn record(&self, prepared: &Self::Prepared, binary: &Self::Binary) -> BuildRecord;
    /// The job for a compiled variant; an error is a verdict on its resources.
    fn job(
        &self,
        prepared: &Self::Prepared,
        binary: &Self::Binary,
        order: JobOrder,
    ) -> Result<Self::Job, Refused>;
    /// The same variant, to be compiled so that the device sees every access; `None` where no device does.
    fn instrumented(&self, _prepared: &Self::Prepared) -> Option<Self::Prepared> {
        None
    }
    /// Gives a job that build, or the reason why there is none.
    fn add_instrumented(&self, _job: &mut Self::Job, _answer: &CompileAnswer<Self::Binary>) {}
    /// What one call amounts to: one entry for each timed problem, in the order of their positions.
    fn work(&self, prepared: &Self::Prepared) -> Vec<ProblemWork>;
}

pub type CompileAnswer<B> = Result<B, Box<Verdict>>;

/// Compilers that answer with [`Message::Compiled`].
pub trait Compilers<P> {
    /// Queues one source; never blocks.
    fn submit(&mut self, ticket: u64, prepared: &P);
    /// Stops compiling everything that was submitted and not answered; an answer under way may still come.
    fn cancel(&mut self);
    fn jobs(&self) -> usize;
    /// Seconds of compiling, summed over processes.
    fn busy_seconds(&self) -> f64;
    /// In a replay they say nothing: its runs must not depend on the clock.
    fn are_timed(&self) -> bool {
        true
    }
}

pub trait Evaluate<J>: Send {
    /// Gates and timing of one job. A failing job is a result; so is a lost device.
    fn evaluate(&mut self, job: &J, standing: &Standing) -> Judgement;
    /// Says that fresh processes will be wanted soon, so that they can open while something else runs.
    fn expect_pairs(&mut self) {}
    /// `finalist` against `baseline` on timed problems, interleaved, in fresh processes; an answer for each problem.
    fn pair(&mut self, rivals: &Rivals<J>) -> Vec<PairAnswer>;
    fn noise_floor(&mut self, job: &J, problems: usize) -> Result<f64, String>;
    /// Clocks, power and heat now; `None` where they cannot be read.
    fn telemetry(&mut self) -> Option<Telemetry> {
        None
    }
    /// Does what needs no job, before the first one: the first proposals are being compiled meanwhile.
    fn begin(&mut self) {}

    /// Sees to the worker that a judgement says is owed, which may take minutes.
    fn renew(&mut self) -> Option<Renewal> {
        None
    }
}

/// A tool that looks for faults in what a job launches, where no time is taken.
pub trait Sanitizer<J>: Send {
    /// Whether it looks at anything; if not, it says why at once.
    fn is_there(&self) -> bool;
    /// Begins what can go on while jobs are timed: configurations that will be looked at, in this order.
    fn look_ahead(&mut self, _configurations: Vec<Configuration>) {}
    /// Looks at a job, which is that of a configuration, for so long at most.
    fn sanitize(
        &mut self,
        job: &J,
        configuration: &Configuration,
        within: Option<Duration>,
    ) -> SanitizerAnswer;
}

#[derive(Clone, Debug)]
pub struct SanitizerAnswer {
    pub report: GateReport,
    pub verdict: Option<Verdict>,
    pub looked: bool,
    pub is_late: bool,
}

impl SanitizerAnswer {
    /// Without a look at anything.
    pub(super) fn unlooked(report: GateReport) -> SanitizerAnswer {
        SanitizerAnswer { report, verdict: None, looked: false, is_late: false }
    }
}

pub struct LanePart<J> {
    pub device: Box<dyn Evaluate<J>>,
    pub sanitizer: Box<dyn Sanitizer<J>>,
    /// With name, host and device.
    pub account: LaneAccount,
    pub utilization: Option<Utilization>,
}

pub type Utilization = Box<dyn Fn() -> Option<f64> + Send>;

impl<J> LanePart<J> {
    pub fn only(device: Box<dyn Evaluate<J>>, sanitizer: Box<dyn Sanitizer<J>>) -> Vec<LanePart<J>> {
        vec![LanePart { device, sanitizer, account: LaneAccount::default(), utilization: None }]
    }
}

#[derive(Clone, Debug)]
pub struct NoSanitizer(pub &'static str);

impl NoSanitizer {
    pub(super) fn answer(&self) -> SanitizerAnswer {
        let mut report = GateReport::not_run(Gate::Sanitize, self.0);
        report.evidence.insert("tool", "compute-sanitizer");
        SanitizerAnswer::unlooked(report)
    }
}

impl<J> Sanitizer<J> for NoSanitizer {
    fn is_there(&self) -> bool {
        false
    }

    fn sanitize(
        &mut self,
        _job: &J,
        _configuration: &Configuration,
        _within: Option<Duration>,
    ) -> SanitizerAnswer {
        self.answer()
    }
}

#[derive(Clone, Debug)]
pub struct Identity {
    /// Equal for equal source text, included files and options: such configurations are compiled once.
    pub source: ContentHash,
    /// Hash of the whole text and of the included files, for the journal; absent where there is no source.
    pub text: Option<ContentHash>,
    /// Equal for equal grids, blocks and shapes: the part of the outcome that machine code does not decide.
    pub plan: ContentHash,
    /// Hash of what all variants of the run share; absent where verdicts are never taken over.
    pub conditions: Option<ContentHash>,
}

impl Identity {
    /// The measurement key: what has to be equal for a verdict to hold for another run or after an edit.
    ///
    /// - `source`: the rendered text below evo's header, which names the configuration and nothing else; the contents
    ///   of every file that it includes; compiler options, in which the parameters of a plain source stand; names of
    ///   the entry points.
    /// - `plan`: for every problem and small shape, whether timed or only checked, all launches with grid, block,
    ///   shared bytes, cluster and attributes; every buffer with type, extents, role and fill, every scalar with its
    ///   value; sizes, weights, operations and bytes.
    /// - `conditions`: versions of the verdicts and the gates, the class of device, the compiler, the check settings
    ///   with the reference and the input files, the timing mode that ranks, the sandbox (`cli::sweep::conditions`).
    ///
    /// The seed of the inputs is left out: each run draws other inputs by the same recipe. So is the machine code,
    /// which source, options and compiler decide; where the source differs, equal machine code takes its place
    /// (`take_over`).
    pub fn key(&self) -> Option<MeasurementKey> {
        let conditions = self.conditions.clone()?;
        Some(MeasurementKey { source: self.source.clone(), plan: self.plan.clone(), conditions })
    }
}

#[derive(Clone, Debug, Default)]
pub struct BuildRecord {
    pub compile_ms: f64,
    pub resources: Vec<EntryResources>,
    pub binary_hash: Option<ContentHash>,
    /// Equal for equal machine code; absent where it is unknown, and then nothing is shared.
    pub code_hash: Option<ContentHash>,
    /// What a strategy may learn from; empty facts are not kept.
    pub facts: Option<Facts>,
    pub toolchain: String,
}

#[derive(Clone, Debug)]
pub struct JobOrder {
    pub number: u64,
    /// `BLOCK_M=32 NUM_WARPS=8 …`, for messages.
    pub label: String,
    /// Of the configuration whose source was compiled: another than the variant's where sources are equal.
    pub variant_hash: ContentHash,
    pub deep: Option<DeepOrder>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeepOrder {
    pub series_ms: u32,
    pub busy: bool,
    pub sampling_max: Option<Duration>,
}

impl DeepOrder {
    /// For a variant that is judged alone: nobody waits for anything else.
    pub const ALONE: DeepOrder = DeepOrder { series_ms: SERIES_MS, busy: false, sampling_max: None };

    /// A confirmation should not take longer than a quarter of the search, and there are some twelve series in it.
    pub fn after(search: Duration) -> DeepOrder {
        let share = (search.as_millis() / 50).min(u128::from(SERIES_MS)) as u32;
        DeepOrder { series_ms: share.max(SERIES_MIN_MS), busy: true, sampling_max: None }
    }
}

/// Shorter series would ask hardly more than a contender has answered.
const SERIES_MIN_MS: u32 = 80;

#[derive(Debug)]
pub struct Refused {
    pub gate: Gate,
    pub verdict: Box<Verdict>,
}

#[derive(Clone, Debug)]
pub struct Rivals<J> {
    pub baseline: J,
    pub finalist: J,
    pub problems: Vec<usize>,
    /// Relative difference between a job and itself.
    pub noise_floor: f64,
    /// How long the comparison may take beyond its least number of processes; `None` without a limit.
    pub within: Option<Duration>,
}

pub type PairAnswer = Result<PairedProblem, String>;

#[derive(Debug)]
pub enum Message<B> {
    Compiled(u64, CompileAnswer<B>),
    Lane(usize, Box<LaneAnswer>),
    Interrupt(u32),
}

#[derive(Debug)]
pub enum LaneAnswer {
    /// Comes before the answer to a variant of the common queue, where there are several lanes.
    Taken {
        number: u64,
    },
    /// In times of the first lane, of which this one takes `ratio` times as long.
    Evaluated {
        number: u64,
        ratio: f64,
        result: Box<Judgement>,
    },
    /// A known job in the lane's own times.
    Anchored {
        number: u64,
        result: Box<Judgement>,
    },
    Called,
    /// Comes after the answer to a job whose worker died, where a successor had to be waited for.
    Renewed(Box<Renewal>),
}

impl LaneAnswer {
    pub(crate) fn judgement(&self) -> Option<&Judgement> {
        match self {
            LaneAnswer::Evaluated { result, .. } | LaneAnswer::Anchored { result, .. } => Some(result),
            _ => None,
        }
    }
}

/// Where messages arrive. Made first, because compilers and signal watchers need its sender.
#[derive(Debug)]
pub struct Inbox<B> {
    pub(super) sender: Sender<Message<B>>,
    pub(super) receiver: Receiver<Message<B>>,
}

impl<B> Inbox<B> {
    pub fn sender(&self) -> Sender<Message<B>> {
        self.sender.clone()
    }
}

impl<B> Default for Inbox<B> {
    fn default() -> Inbox<B> {
        let (sender, receiver) = channel();
        Inbox { sender, receiver }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finalist_of_a_short_search_is_asked_for_less_time() {
        let series = |seconds: u64| DeepOrder::after(Duration::from_secs(seconds)).series_ms;
        assert_eq!([0, 1, 5, 10, 15, 1_000_000].map(series), [80, 80, 100, 200, 300, 300]);
        assert_eq!(DeepOrder::ALONE.series_ms, 300);
    }
}
