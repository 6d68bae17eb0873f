//! The run itself: the answers of the whole grid first, then times, shape by shape.
//!
//! Whatever goes wrong with one implementation on one shape is the reason in its row; only a lost device, a compiler
//! that does not work, and files that cannot be written end a run.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use evo_protocol::bench::{BenchRow, BenchRun, Implementation, ImplementationKind, RowStatus};
use evo_protocol::device::DeviceKind;
use evo_protocol::plan::ProblemPlan;
use evo_space::genome::ContentHash;

use super::figures::{self, BenchCell, FigureContext, NOT_REACHED, ScalingPoint, scales_badly};
use super::own::{BenchError, Compile, OwnCandidate};
use super::shapes::BenchShape;
use crate::kernel::spec::{KernelSpec, ReferenceSpec};
use crate::peer::{self, PeerSeat};
use crate::report::judged::blocks;
use crate::supervise::blocks::BlockWorker;
use crate::supervise::lane::{Lane, LaneError};
use evo_system::scratch::ScratchPlace;

pub type Keep<'k> = dyn FnMut(&[BenchRow], &[Implementation]) -> io::Result<()> + 'k;

/// Keeping rows may take one part in so many of a run's time.
const KEEPING_SHARE: u32 = 20;

/// What a peer's last block may take beyond the run's time.
const LAST_BLOCK: Duration = Duration::from_secs(5);

/// What a quick run says of a cell that it did not come to.
pub(super) const TIME_USED_UP: &str = "the time of `--quick` was used up before this";

#[derive(Debug)]
pub struct BenchOrder<'a> {
    pub run: &'a BenchRun,
    pub lane: &'a mut Lane,
    pub kernel: &'a KernelSpec,
    pub own: Vec<OwnCandidate<'a>>,
    pub peers: Vec<PeerSeat>,
    pub shapes: &'a [BenchShape],
    /// Whether gates look as long as they do at a finalist.
    pub deep: bool,
    /// No shape is begun after this.
    pub until: Option<Instant>,
    /// The folder in which files for peers are made.
    pub cache: PathBuf,
}

impl BenchOrder<'_> {
    pub(super) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

/// Why something came to nothing.
pub(super) enum Stop {
    /// It is the reason of a row.
    Row(RowStatus, String),
    Run(BenchError),
}

impl From<BenchError> for Stop {
    fn from(error: BenchError) -> Stop {
        Stop::Run(error)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Run(BenchError::Files(error))
    }
}

impl Stop {
    /// After trouble with a worker, `what` is not as it should be.
    pub(super) fn of(error: LaneError, what: &str) -> Stop {
        match error {
            LaneError::Lost { why } => Stop::Run(BenchError::Lost(why)),
            error => Stop::Row(RowStatus::NotRun, format!("{what}: {error}")),
        }
    }
}

/// Runs it; the rows, in the order of shapes, and whose they are. Where it ends early, the rows that were finished have been
/// kept.
pub fn run<E: From<BenchError>>(
    order: BenchOrder<'_>,
    compile: &mut Compile<'_, E>,
    keep: &mut Keep<'_>,
) -> Result<(Vec<BenchRow>, Vec<Implementation>), E> {
    let scratch = peer::place(&order.cache, "peers").map_err(BenchError::Files)?;
    let implementation = |candidate: &OwnCandidate<'_>| Implementation {
        name: candidate.name.clone(),
        kind: ImplementationKind::Own,
        version: candidate.version.clone(),
    };
    let places = (0..order.shapes.len()).flat_map(|shape| (0..order.own.len()).map(move |at| (shape, at)));
    let mut runner = BenchRunner {
        cells: places.map(|place| (place, BenchCell::default())).collect(),
        implementations: order.own.iter().map(implementation).collect(),
        order,
        keep,
        scratch,
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

/// A shape and an implementation, by position.
pub(super) type Place = (usize, usize);

pub(super) struct BenchRunner<'a, 'k> {
    pub(super) order: BenchOrder<'a>,
    keep: &'k mut Keep<'k>,
    pub(super) scratch: ScratchPlace,
    /// In the order of rows.
    pub(super) cells: BTreeMap<Place, BenchCell>,
    /// Candidates first.
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
    /// Every candidate's answers on every shape.
    fn judge_own<E: From<BenchError>>(&mut self, compile: &mut Compile<'_, E>) -> Result<(), E> {
        let order = &mut self.order;
        for ((shape, at), cell) in &mut self.cells {
            if order.is_over() {
                break;
            }
            order.own[*at].judge(order.lane, &order.shapes[*shape], order.deep, compile, cell)?;
        }
        Ok(self.keep_rows(0)?)
    }

    /// The cells of a shape with their implementations.
    pub(super) fn cells_of(&self, shape: usize) -> impl Iterator<Item = (usize, &BenchCell)> {
        self.cells.range((shape, 0)..(shape + 1, 0)).map(|((_, at), cell)| (*at, cell))
    }

    pub(super) fn cell(&mut self, place: Place) -> &mut BenchCell {
        self.cells.entry(place).or_default()
    }

    /// Ends a cell where it stopped.
    pub(super) fn stop(&mut self, place: Place, stop: Stop) -> Result<(), BenchError> {
        match stop {
            Stop::Row(status, why) => {
                self.cell(place).end(status, why);
                Ok(())
            }
            Stop::Run(error) => Err(error),
        }
    }

    /// The problem at a shape as a candidate resolves it.
    pub(super) fn plan_at(&self, shape: usize) -> Option<ProblemPlan> {
        self.cells_of(shape).find_map(|(_, cell)| cell.plan.clone())
    }

    /// Asks the worker that hands out inputs; it is started where it is not there, and given up after a failure.
    pub(super) fn ask_carrier<T>(
        &mut self,
        what: &str,
        question: impl FnOnce(&mut BlockWorker) -> Result<T, LaneError>,
    ) -> Result<T, Stop> {
        let ask = || {
            if let Some(carrier) = &mut self.carrier {
                return question(carrier);
            }
            let mut builds = self.order.own.iter().flat_map(|candidate| candidate.builds.values());
            let built = builds.find_map(|built| built.as_ref().ok());
            let none = || LaneError::Unexpected { found: "no candidate was built".to_string() };
            question(self.carrier.insert(self.order.lane.block_worker(&built.ok_or_else(none)?.job)?))
        };
        ask().map_err(|error| {
            self.carrier = None;
            Stop::of(error, what)
        })
    }

    /// The position of an implementation of a peer, which is new where it was not known.
    pub(super) fn implementation(&mut self, name: &str, version: Option<String>) -> usize {
        let Some(at) = self.implementations.iter().position(|known| known.name == name) else {
            let kind = ImplementationKind::Peer;
            self.implementations.push(Implementation { name: name.to_string(), kind, version });
            return self.implementations.len() - 1;
        };
        let known = &mut self.implementations[at].version;
        *known = known.take().or(version);
        at
    }

    /// Makes the rows of a shape, with a row for every peer's implementation that was named anywhere.
    fn finish(&mut self, shape: usize) -> Result<(), BenchError> {
        for (at, implementation) in self.implementations.iter().enumerate() {
            let Some((peer, _)) = implementation.name.split_once('/') else { continue };
            // The row of the peer itself says why it named nothing.
            let peer = self.implementations.iter().position(|own| own.name == peer);
            let cell = match peer.and_then(|peer| self.cells.get(&(shape, peer))) {
                Some(cell) => BenchCell::ended(cell.status, &cell.reason),
                None => BenchCell::ended(RowStatus::NotRun, "the peer did not name it for this problem"),
            };
            self.cells.entry((shape, at)).or_insert(cell);
        }
        let is_over = self.order.is_over();
        for (_, cell) in self.cells.range_mut((shape, 0)..(shape + 1, 0)) {
            if is_over && cell.reason == NOT_REACHED {
                cell.reason = TIME_USED_UP.to_string();
            }
        }
        self.rows.extend(self.rows_of(shape));
        // Samples make rows and are not needed again.
        self.cells.range_mut((shape, 0)..(shape + 1, 0)).for_each(|(_, cell)| cell.series.clear());
        self.keep_rows(shape + 1)
    }

    fn rows_of(&self, shape: usize) -> Vec<BenchRow> {
        let cells: Vec<_> =
            self.cells_of(shape).map(|(at, cell)| (&self.implementations[at], cell)).collect();
        let context = FigureContext {
            device: self.order.lane.info(),
            ranking: self.order.run.ranking_mode,
            is_persistent: self.order.kernel.is_persistent,
            operator: operator(self.order.kernel),
            has_peers: !self.order.peers.is_empty(),
            seed: self.order.run.seed,
        };
        figures::rows(&cells, &self.order.shapes[shape], &context)
    }

    /// Hands over what is finished: all rows of the first shapes, `done` of them, and rows of others that will not
    /// change. Not more often than it is worth: with thousands of shapes it takes a while.
    fn keep_rows(&mut self, done: usize) -> Result<(), BenchError> {
        if self.kept.is_some_and(|(at, cost)| at.elapsed() < cost * KEEPING_SHARE) {
            return Ok(());
        }
        let began = Instant::now();
        let is_final = |row: &BenchRow| matches!(row.status, RowStatus::Fail | RowStatus::Skipped);
        let mut rows = self.rows.clone();
        for shape in done..self.order.shapes.len() {
            rows.extend(self.rows_of(shape).into_iter().filter(is_final));
        }
        (self.keep)(&rows, &self.implementations).map_err(BenchError::Files)?;
        self.kept = Some((Instant::now(), began.elapsed()));
        Ok(())
    }

    /// Looks along the axes, now that all times are there.
    fn scale(&mut self) {
        let info = self.order.lane.info();
        let (sm_count, is_gpu) = (f64::from(info.multiprocessors.max(1)), info.kind == DeviceKind::Cuda);
        let operator = operator(self.order.kernel);
        let mut rows = std::mem::take(&mut self.rows);
        for implementation in &self.implementations {
            let is_own = implementation.kind == ImplementationKind::Own;
            let point = |row: &BenchRow| {
                let shapes = self.order.shapes;
                let shape = shapes.iter().position(|own| own.problem.name == row.problem)?;
                let time_ns = row.modes.get(self.order.run.ranking_mode.as_str())?.p50_ns;
                let plan = self.plan_at(shape)?;
                let fill = if is_own && is_gpu { blocks(&plan) as f64 / sm_count } else { 1.0 };
                let axes = shapes[shape].axes.clone();
                Some(ScalingPoint { axes, work: work(&plan, operator), time_ns, fill })
            };
            let (timed, points): (Vec<_>, Vec<_>) = rows
                .iter_mut()
                .filter(|row| row.implementation == implementation.name)
                .filter_map(|row| point(row).map(|point| (row, point)))
                .unzip();
            timed.into_iter().zip(scales_badly(&points)).for_each(|(row, is_bad)| row.scales_badly = is_bad);
        }
        for row in &mut rows {
            let why = match row.modes.is_empty() {
                true => "it has no time",
                false => "no smaller shape lies beside it on an axis",
            };
            match row.scales_badly {
                Some(_) => row.reasons.remove("scales_badly"),
                None => row.reasons.insert("scales_badly".to_string(), why.to_string()),
            };
        }
        self.rows = rows;
    }
}

/// The built-in reference of a kernel, which says what it computes.
pub fn operator(kernel: &KernelSpec) -> Option<&str> {
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
