//! The run itself: the answers of the whole grid first, then times, shape by shape.
//!
//! Whatever goes wrong with one implementation on one shape is the reason in its row; only a lost device, a compiler
//! that does not work, and files that cannot be written end a run.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use evo_protocol::bench::{BenchRow, Implementation, ImplementationKind, RowStatus};
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::ProblemPlan;
use evo_space::genome::ContentHash;

use super::figures::{self, BenchCell, FigureContext, NOT_REACHED};
use super::own::{BuiltCandidate, Compile, OwnCandidate};
use super::scaling::{ScalingPoint, scales_badly};
use super::shapes::BenchShape;
use crate::kernel::spec::{KernelSpec, ReferenceSpec};
use crate::peer::PeerSeat;
use crate::report::judged::blocks;
use crate::supervise::blocks::BlockWorker;
use crate::supervise::lane::{Lane, LaneError};
use evo_system::scratch::ScratchPlace;

/// Keeps the rows that are finished.
pub type Keep<'k> = dyn FnMut(&[BenchRow], &[Implementation]) -> io::Result<()> + 'k;

/// Keeping rows may take one part in so many of a run's time.
const KEEPING_SHARE: u32 = 20;

/// What a peer's last block may take beyond the run's time.
const LAST_BLOCK: Duration = Duration::from_secs(5);

/// What to run.
#[derive(Debug)]
pub struct BenchOrder<'a> {
    pub lane: &'a mut Lane,
    pub kernel: &'a KernelSpec,
    pub own: Vec<OwnCandidate<'a>>,
    pub peers: Vec<PeerSeat>,
    pub shapes: &'a [BenchShape],
    pub modes: &'a [TimingMode],
    /// The mode that rates and ratios are of.
    pub ranking: TimingMode,
    /// Every implementation has two blocks in each.
    pub rounds: u32,
    /// Whether gates look as long as they do at a finalist.
    pub deep: bool,
    /// No shape is begun after this.
    pub until: Option<Instant>,
    pub seed: u64,
    /// The folder in which files for peers are made.
    pub cache: PathBuf,
}

/// What ends a run before its end.
#[derive(Debug)]
pub enum BenchError<E> {
    /// The compiler itself does not work.
    Compile(E),
    /// The device is gone.
    Lost(String),
    /// Rows or files for peers cannot be written.
    Files(io::Error),
}

impl<E> From<io::Error> for BenchError<E> {
    fn from(error: io::Error) -> BenchError<E> {
        BenchError::Files(error)
    }
}

/// Runs it; the rows, in the order of shapes, and whose they are.
///
/// # Errors
/// What ended the run early; the rows that were finished have been kept.
pub fn run<E>(
    order: BenchOrder<'_>,
    compile: &mut Compile<'_, E>,
    keep: &mut Keep<'_>,
) -> Result<(Vec<BenchRow>, Vec<Implementation>), BenchError<E>> {
    let one = |own: &OwnCandidate<'_>| Implementation {
        name: own.name.clone(),
        kind: ImplementationKind::Own,
        version: own.version.clone(),
    };
    let scratch = ScratchPlace::new(order.cache.join("peers"));
    scratch.probe()?;
    scratch.sweep();
    let implementations = order.own.iter().map(one).collect();
    let own = order.own.len();
    let cells = (0..order.shapes.len()).flat_map(|shape| (0..own).map(move |at| BenchCell::new(at, shape)));
    let cells = cells.collect();
    let mut runner = BenchRunner {
        order,
        keep,
        scratch,
        cells,
        implementations,
        rows: Vec::new(),
        carrier: None,
        kept: None,
        workers: BTreeMap::new(),
    };
    runner.judge_own(compile)?;
    runner.check_peers()?;
    let last = runner.order.until.map(|until| until + LAST_BLOCK);
    runner.order.peers.iter_mut().for_each(|peer| peer.answer_by(last));
    for shape in 0..runner.order.shapes.len() {
        runner.time_shape(shape)?;
        runner.finish(shape)?;
    }
    runner.scale();
    let BenchRunner { order, rows, implementations, .. } = runner;
    order.peers.into_iter().for_each(PeerSeat::end);
    Ok((rows, implementations))
}

/// A run under way.
pub(super) struct BenchRunner<'a, 'k> {
    pub(super) order: BenchOrder<'a>,
    keep: &'k mut Keep<'k>,
    pub(super) scratch: ScratchPlace,
    pub(super) cells: Vec<BenchCell>,
    pub(super) implementations: Vec<Implementation>,
    /// Of the shapes that are done.
    rows: Vec<BenchRow>,
    /// Hands inputs to peers and judges what they answer.
    carrier: Option<BlockWorker>,
    /// When rows were kept last, and how long that took.
    kept: Option<(Instant, Duration)>,
    /// One for each candidate, with the configuration that is loaded.
    pub(super) workers: BTreeMap<usize, (ContentHash, BlockWorker)>,
}

impl BenchRunner<'_, '_> {
    pub(super) fn is_over(&self) -> bool {
        self.order.until.is_some_and(|until| Instant::now() >= until)
    }

    /// Every candidate's answers on every shape.
    fn judge_own<E>(&mut self, compile: &mut Compile<'_, E>) -> Result<(), BenchError<E>> {
        for at in 0..self.cells.len() {
            if self.is_over() {
                break;
            }
            let cell = &mut self.cells[at];
            let shape = &self.order.shapes[cell.shape];
            let own = &mut self.order.own[cell.implementation];
            let lost = own.judge(self.order.lane, shape, self.order.deep, compile, cell);
            if let Some(why) = lost.map_err(BenchError::Compile)? {
                return Err(BenchError::Lost(why));
            }
        }
        self.keep_rows(0)?;
        Ok(())
    }

    /// The problem at a shape as a candidate resolves it.
    pub(super) fn plan_at(&self, shape: usize) -> Option<ProblemPlan> {
        let own = self.cells.iter().filter(|cell| cell.shape == shape);
        own.into_iter().find_map(|cell| cell.plan.clone())
    }

    /// The worker that hands out inputs; started where it is not there.
    pub(super) fn carrier(&mut self) -> Result<&mut BlockWorker, LaneError> {
        if self.carrier.is_none() {
            let builds = self.order.own.iter().flat_map(|own| own.builds.values());
            let job = builds.into_iter().find_map(|built| match built {
                BuiltCandidate::Built(own) => Some(own.job.clone()),
                BuiltCandidate::Refused { .. } => None,
            });
            let none = || LaneError::Unexpected { found: "no candidate was built".to_string() };
            let worker = self.order.lane.block_worker(&job.ok_or_else(none)?)?;
            self.carrier = Some(worker);
        }
        let none = || LaneError::Unexpected { found: "no worker".to_string() };
        self.carrier.as_mut().ok_or_else(none)
    }

    /// Gives the carrier up after its death.
    pub(super) fn drop_carrier(&mut self) {
        self.carrier = None;
    }

    /// The position of an implementation of a peer, which is new where it was not known.
    pub(super) fn implementation(&mut self, name: &str, version: Option<String>) -> usize {
        let known = self.implementations.iter().position(|own| own.name == name);
        match known {
            Some(at) => {
                let own = &mut self.implementations[at];
                own.version = own.version.take().or(version);
                at
            }
            None => {
                let kind = ImplementationKind::Peer;
                self.implementations.push(Implementation { name: name.to_string(), kind, version });
                self.implementations.len() - 1
            }
        }
    }

    /// The position of a cell, which is new where it was not known.
    pub(super) fn cell(&mut self, implementation: usize, shape: usize) -> usize {
        let is_it = |own: &BenchCell| own.implementation == implementation && own.shape == shape;
        self.cells.iter().position(is_it).unwrap_or_else(|| {
            self.cells.push(BenchCell::new(implementation, shape));
            self.cells.len() - 1
        })
    }

    fn context(&self) -> FigureContext<'_> {
        FigureContext {
            device: self.order.lane.info(),
            implementations: &self.implementations,
            ranking: self.order.ranking,
            is_persistent: self.order.kernel.is_persistent,
            operator: operator(self.order.kernel),
            has_peers: !self.order.peers.is_empty(),
            seed: self.order.seed,
        }
    }

    /// Makes the rows of a shape, with a row for every peer's implementation that was named anywhere.
    fn finish<E>(&mut self, shape: usize) -> Result<(), BenchError<E>> {
        for at in 0..self.implementations.len() {
            let name = self.implementations[at].name.clone();
            let Some((peer, _)) = name.split_once('/') else { continue };
            if self.cells.iter().any(|cell| cell.implementation == at && cell.shape == shape) {
                continue;
            }
            // The row of the peer itself says why it named nothing.
            let whole = self.implementations.iter().position(|own| own.name == peer);
            let said =
                self.cells.iter().find(|cell| Some(cell.implementation) == whole && cell.shape == shape);
            let (status, why) = match said {
                Some(said) => (said.status, said.reason.clone()),
                None => (RowStatus::NotRun, "the peer did not name it for this problem".to_string()),
            };
            let cell = self.cell(at, shape);
            self.cells[cell].end(status, why);
        }
        if self.is_over() {
            for cell in self.cells.iter_mut().filter(|cell| cell.shape == shape && cell.reason == NOT_REACHED)
            {
                cell.reason = "the time of `--quick` was used up before this".to_string();
            }
        }
        let rows = self.rows_of(shape);
        self.rows.extend(rows);
        // Samples make rows and are not needed again.
        self.cells.iter_mut().filter(|cell| cell.shape == shape).for_each(|cell| cell.series.clear());
        self.keep_rows(shape + 1)?;
        Ok(())
    }

    fn rows_of(&self, shape: usize) -> Vec<BenchRow> {
        let mut cells: Vec<BenchCell> =
            self.cells.iter().filter(|cell| cell.shape == shape).cloned().collect();
        cells.sort_by_key(|cell| cell.implementation);
        let mut rows = figures::rows(&cells, &self.order.shapes[shape], &self.context());
        for row in &mut rows {
            row.reasons.insert("scales_badly".to_string(), "the run had not ended yet".to_string());
        }
        rows
    }

    /// Hands over what is finished: all rows of the first shapes, `done` of them, and rows of others that will not
    /// change. Not more often than it is worth: with thousands of shapes it takes a while.
    fn keep_rows(&mut self, done: usize) -> io::Result<()> {
        if self.kept.is_some_and(|(at, cost)| at.elapsed() < cost * KEEPING_SHARE) {
            return Ok(());
        }
        let began = Instant::now();
        let is_final = |row: &BenchRow| matches!(row.status, RowStatus::Fail | RowStatus::Skipped);
        let mut rows = self.rows.clone();
        for shape in done..self.order.shapes.len() {
            rows.extend(self.rows_of(shape).into_iter().filter(is_final));
        }
        (self.keep)(&rows, &self.implementations)?;
        self.kept = Some((Instant::now(), began.elapsed()));
        Ok(())
    }

    /// Looks along the axes, now that all times are there.
    fn scale(&mut self) {
        let sm_count = f64::from(self.order.lane.info().multiprocessors.max(1));
        let is_gpu = self.order.lane.info().kind == evo_protocol::device::DeviceKind::Cuda;
        let operator = operator(self.order.kernel);
        for (number, implementation) in self.implementations.iter().enumerate() {
            let mut points = Vec::new();
            let mut places = Vec::new();
            for (at, row) in self.rows.iter().enumerate() {
                let shape = self.order.shapes.iter().position(|own| own.problem.name == row.problem);
                let Some(shape) = shape.filter(|_| row.implementation == implementation.name) else {
                    continue;
                };
                let time = row.modes.get(self.order.ranking.as_str()).map(|own| own.p50_ns);
                let (Some(time_ns), Some(plan)) = (time, self.plan_at(shape)) else { continue };
                let is_own = number < self.order.own.len();
                let fill = if is_own && is_gpu { blocks(&plan) as f64 / sm_count } else { 1.0 };
                let axes = self.order.shapes[shape].axes.clone();
                points.push(ScalingPoint { axes, work: work(&plan, operator), time_ns, fill });
                places.push(at);
            }
            for (at, is_bad) in places.into_iter().zip(scales_badly(&points)) {
                self.rows[at].scales_badly = is_bad;
            }
        }
        for row in &mut self.rows {
            let why = match (row.scales_badly, row.modes.is_empty()) {
                (Some(_), _) => None,
                (None, true) => Some("it has no time"),
                (None, false) => Some("no smaller shape lies beside it on an axis"),
            };
            match why {
                Some(why) => row.reasons.insert("scales_badly".to_string(), why.to_string()),
                None => row.reasons.remove("scales_badly"),
            };
        }
    }
}

/// The built-in reference of a kernel, which says what it computes.
pub(super) fn operator(kernel: &KernelSpec) -> Option<&str> {
    match &kernel.check.reference {
        ReferenceSpec::Builtin { name } => Some(name),
        _ => None,
    }
}

/// A measure of a problem's work, for ratios between shapes.
fn work(plan: &ProblemPlan, operator: Option<&str>) -> f64 {
    let elements = || plan.buffers.iter().map(|own| own.elements() as f64).sum();
    figures::flops(plan, operator).or(plan.bytes).unwrap_or_else(elements).max(1.0)
}
