//! The run itself: the answers of the whole grid first, then times, shape by shape.
//!
//! Whatever goes wrong with one implementation on one shape is the reason in its row; only a lost device, a compiler
//! that does not work, and files that cannot be written end a run.
//!
//! Peers run in the same minutes on the same device, so that clocks and heat hit everybody alike; every second round
//! goes backwards, so that a steady drift does not favor whoever comes first.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, io};

use evo_protocol::bench::{BenchRow, BenchRun, Implementation, ImplementationKind, RowStatus};
use evo_protocol::device::DeviceKind;
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::GateReport;
use evo_system::scratch::{ScratchFolder, ScratchPlace};

use super::figures::{self, BenchCell, FigureContext, NOT_REACHED, NOT_TIMED};
use super::own::{BenchError, Compile, OwnCandidate, in_a_line};
use crate::engine::recipe::problems_on;
use crate::kernel::spec::{KernelSpec, ProblemSpec};
use crate::peer::{self, ForeignProblem, PeerProblem, PeerSeat};
use crate::supervise::lane::{Lane, LaneError};
use crate::supervise::solo::BlockWorker;
use crate::timing::stats::median;
use crate::worker::judge::honesty;

pub type Keep<'k> = dyn FnMut(&[BenchRow], &[Implementation]) -> io::Result<()> + 'k;

/// Keeping rows may take one part in so many of a run's time.
const KEEPING_SHARE: u32 = 20;

/// What a peer's last block may take beyond the run's time.
const LAST_BLOCK: Duration = Duration::from_secs(5);

/// What a quick run says of a cell that it did not come to.
const TIME_USED_UP: &str = "the time of `--quick` was used up before this";

#[derive(Debug)]
pub struct BenchOrder<'a> {
    pub run: &'a BenchRun,
    pub lane: &'a mut Lane,
    pub kernel: &'a KernelSpec,
    pub own: Vec<OwnCandidate<'a>>,
    pub peers: Vec<PeerSeat>,
    pub shapes: &'a [ProblemSpec],
    /// Whether gates look as long as they do at a finalist.
    pub deep: bool,
    /// No shape is begun after this.
    pub until: Option<Instant>,
    /// The folder in which files for peers are made.
    pub cache: PathBuf,
}

impl BenchOrder<'_> {
    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until)
    }
}

enum Stop {
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
    fn of(error: LaneError, what: &str) -> Stop {
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
    let order = &mut runner.order;
    for ((shape, at), cell) in &mut runner.cells {
        if order.is_over() {
            break;
        }
        order.own[*at].judge(order.lane, &order.shapes[*shape], order.deep, compile, cell)?;
    }
    runner.keep_rows(0)?;
    runner.check_peers()?;
    let last = runner.order.until.map(|until| until + LAST_BLOCK);
    runner.order.peers.iter_mut().for_each(|peer| peer.answer_by(last));
    for shape in 0..runner.order.shapes.len() {
        runner.time_shape(shape)?;
        runner.finish(shape)?;
    }
    let BenchRunner { order, rows, implementations, .. } = runner;
    order.peers.into_iter().for_each(PeerSeat::end);
    Ok((rows, implementations))
}

/// A shape and an implementation, by position.
type Place = (usize, usize);

struct BenchRunner<'a, 'k> {
    order: BenchOrder<'a>,
    keep: &'k mut Keep<'k>,
    scratch: ScratchPlace,
    /// In the order of rows.
    cells: BTreeMap<Place, BenchCell>,
    /// Candidates first.
    implementations: Vec<Implementation>,
    /// Of the shapes that are done.
    rows: Vec<BenchRow>,
    /// Hands inputs to peers and judges what they answer.
    carrier: Option<BlockWorker>,
    /// When rows were kept last, and how long that took.
    kept: Option<(Instant, Duration)>,
    /// One for each candidate.
    workers: BTreeMap<usize, BlockWorker>,
}

impl BenchRunner<'_, '_> {
    fn cells_of(&self, shape: usize) -> impl Iterator<Item = (usize, &BenchCell)> {
        self.cells.range((shape, 0)..(shape + 1, 0)).map(|((_, at), cell)| (*at, cell))
    }

    fn cell(&mut self, place: Place) -> &mut BenchCell {
        self.cells.entry(place).or_default()
    }

    fn stop(&mut self, place: Place, stop: Stop) -> Result<(), BenchError> {
        match stop {
            Stop::Row(status, why) => {
                self.cell(place).end(status, why);
                Ok(())
            }
            Stop::Run(error) => Err(error),
        }
    }

    fn plan_at(&self, shape: usize) -> Option<ProblemPlan> {
        self.cells_of(shape).find_map(|(_, cell)| cell.plan.clone())
    }

    /// Asks the worker that hands out inputs; it is started where it is not there, and given up after a failure.
    fn ask_carrier<T>(
        &mut self,
        what: &str,
        question: impl FnOnce(&mut BlockWorker) -> Result<T, LaneError>,
    ) -> Result<T, Stop> {
        let ask = || {
            if let Some(carrier) = &mut self.carrier {
                return question(carrier);
            }
            let built = self.order.own.iter().find_map(|candidate| candidate.built.as_ref()?.as_ref().ok());
            let none = || LaneError::Unexpected { found: "no candidate was built".to_string() };
            question(self.carrier.insert(self.order.lane.block_worker(&built.ok_or_else(none)?.job)?))
        };
        ask().map_err(|error| {
            self.carrier = None;
            Stop::of(error, what)
        })
    }

    /// The position of an implementation of a peer, which is new where it was not known.
    fn implementation(&mut self, name: &str, version: Option<String>) -> usize {
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
            kernel: self.order.kernel,
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
        // The first time takes longer than those that follow.
        self.kept = (done > 0).then(|| (Instant::now(), began.elapsed()));
        Ok(())
    }

    /// What every peer answers on every shape. Where the run's time is limited they leave a third of what is left of it for
    /// samples: a peer that hangs would use up all of it, and nobody would be timed.
    fn check_peers(&mut self) -> Result<(), BenchError> {
        let now = Instant::now();
        let until = self.order.until.map(|until| now + until.saturating_duration_since(now) * 2 / 3);
        self.order.peers.iter_mut().for_each(|peer| peer.answer_by(until));
        for shape in 0..self.order.shapes.len() {
            for seat in 0..self.order.peers.len() {
                let checked = match until.is_some_and(|until| Instant::now() >= until) {
                    true => Err(Stop::Row(RowStatus::NotRun, TIME_USED_UP.to_string())),
                    false => self.check_peer(seat, shape),
                };
                let Err(stop) = checked else { continue };
                self.end_peer(seat, shape, &stop);
                // The peer as a whole has a row for what no implementation of it is the reason of.
                let peer = &self.order.peers[seat];
                let (name, version) = (peer.name().to_string(), peer.version().map(String::from));
                let implementation = self.implementation(&name, version);
                self.stop((shape, implementation), stop)?;
            }
        }
        Ok(())
    }

    /// One peer's answers on one shape, with other inputs first: an answer that is known by heart does not fit both.
    fn check_peer(&mut self, seat: usize, shape: usize) -> Result<(), Stop> {
        let unknown = "no candidate resolves this problem, so its inputs are not known";
        let plan = self.plan_at(shape).ok_or_else(|| Stop::Row(RowStatus::NotRun, unknown.to_string()))?;
        for seed_index in [1, 0] {
            let (folder, places) = self.prepare_peer(seat, shape, &plan, seed_index)?;
            for place in places {
                if self.cell(place).reason_is_final() {
                    continue;
                }
                if let Err(stop) = self.judge_peer(seat, place, &plan, seed_index, folder.path()) {
                    self.stop(place, stop)?;
                }
            }
        }
        Ok(())
    }

    fn places_of(&self, seat: usize, shape: usize) -> Vec<Place> {
        let prefix = format!("{}/", self.order.peers[seat].name());
        let is_its = |at: &usize| self.implementations[*at].name.starts_with(&prefix);
        self.cells_of(shape).map(|(at, _)| at).filter(is_its).map(|at| (shape, at)).collect()
    }

    /// Ends all cells of a peer on a shape that are not decided otherwise.
    fn end_peer(&mut self, seat: usize, shape: usize, stop: &Stop) {
        let Stop::Row(status, why) = stop else { return };
        for place in self.places_of(seat, shape) {
            let cell = self.cell(place);
            if !cell.reason_is_final() {
                cell.end(*status, why);
            }
        }
    }

    /// Hands a problem to a peer: the folder with its inputs, and the places of what the peer can do.
    fn prepare_peer(
        &mut self,
        seat: usize,
        shape: usize,
        plan: &ProblemPlan,
        seed_index: u32,
    ) -> Result<(ScratchFolder, Vec<Place>), Stop> {
        let folder = self.scratch.folder()?;
        self.ask_carrier("its inputs could not be written", |carrier| {
            carrier.hand_out(plan, seed_index, folder.path(), false)
        })?;
        let place = folder.path().join("outputs");
        fs::create_dir_all(&place)?;
        let problem = PeerProblem {
            problem: ForeignProblem::of(plan, folder.path()),
            kernel: self.order.kernel.name.clone(),
            operator: figures::operator(self.order.kernel).map(String::from),
            outputs: peer::arrays(plan, |own| own.role.is_answer(), &place, |dtype| dtype),
        };
        let peer = &mut self.order.peers[seat];
        let listed = peer.prepare(&problem).map_err(|failure| {
            let status = if failure.is_unable { RowStatus::Skipped } else { RowStatus::NotRun };
            Stop::Row(status, failure.reason)
        })?;
        let (peer, version) = (peer.name().to_string(), peer.version().map(String::from));
        let mut places = Vec::new();
        for listed in listed {
            let version = listed.version.or_else(|| version.clone());
            let place = (shape, self.implementation(&format!("{peer}/{}", listed.name), version));
            let cell = self.cell(place);
            cell.plan = Some(plan.clone());
            match listed.unable {
                Some(why) => cell.end(RowStatus::Skipped, why),
                None => places.push(place),
            }
        }
        Ok((folder, places))
    }

    fn name_in_peer(&self, (_, at): Place) -> String {
        let name = &self.implementations[at].name;
        name.split_once('/').map_or(name.as_str(), |(_, name)| name).to_string()
    }

    fn judge_peer(
        &mut self,
        seat: usize,
        place: Place,
        plan: &ProblemPlan,
        seed_index: u32,
        folder: &Path,
    ) -> Result<(), Stop> {
        // What another implementation wrote must not be found there.
        let outputs = folder.join("outputs");
        fs::remove_dir_all(&outputs).and_then(|()| fs::create_dir(&outputs))?;
        let name = self.name_in_peer(place);
        let written = self.order.peers[seat].output(&name);
        written.map_err(|failure| Stop::Row(RowStatus::NotRun, failure.reason))?;
        let answer = self.ask_carrier("its answer was not judged", |carrier| {
            carrier.judge_foreign(plan, seed_index, folder)
        })?;
        let cell = self.cell(place);
        let parity = answer.report.evidence.get(GateReport::PARITY);
        cell.parity = parity.and_then(|parity| parity.get(&plan.name)).cloned().or(cell.parity.take());
        match answer.verdict {
            None => cell.is_right(),
            Some(verdict) if verdict.is_trouble() => {
                cell.end(RowStatus::NotRun, format!("its answer was not judged: {}", verdict.message));
            }
            Some(verdict) => cell.refuse(RowStatus::Fail, in_a_line(&verdict)),
        }
        Ok(())
    }

    fn time_shape(&mut self, shape: usize) -> Result<(), BenchError> {
        if self.order.is_over() {
            return Ok(());
        }
        let mut turns = self.seated(shape)?;
        for mode in &self.order.run.modes {
            for half in 0..2 * self.order.run.rounds {
                self.go_round(&mut turns, *mode, half)?;
            }
        }
        let info = self.order.lane.info().clone();
        for turn in &turns {
            let cell = self.cell(turn.place);
            let is_peer = turn.peer.is_some();
            let mut series = cell.series.iter();
            let false_claim = series.find_map(|(mode, own)| own.claimed.conclude(*mode).err());
            let impossible = cell.series.iter().find_map(|(mode, series)| {
                let plan = cell.plan.as_ref()?;
                honesty::check(plan, &info, *mode, median(&series.samples_ns)).verdict
            });
            let bad = if is_peer { RowStatus::NotRun } else { RowStatus::Fail };
            match false_claim.filter(|_| is_peer).or(impossible.map(|verdict| verdict.message)) {
                Some(why) => cell.end(bad, why),
                None => {
                    cell.status = RowStatus::Pass;
                    cell.reason = String::new();
                }
            }
        }
        Ok(())
    }

    /// Whose turns come on a shape; peers are given the problem again.
    fn seated(&mut self, shape: usize) -> Result<Vec<Turn>, BenchError> {
        let may_be_timed = |(at, cell): (usize, &_)| BenchCell::may_be_timed(cell).then_some((shape, at));
        let own = self.cells_of(shape).take(self.order.own.len()).filter_map(may_be_timed);
        let mut turns: Vec<Turn> =
            own.enumerate().map(|(number, place)| Turn { place, peer: None, echo: number == 0 }).collect();
        let Some(plan) = self.plan_at(shape) else { return Ok(turns) };
        for seat in 0..self.order.peers.len() {
            let mut wanted = self.places_of(seat, shape);
            wanted.retain(|place| self.cells[place].may_be_timed());
            if wanted.is_empty() {
                continue;
            }
            match self.prepare_peer(seat, shape, &plan, 0) {
                Ok((_, places)) => {
                    for place in wanted.into_iter().filter(|place| places.contains(place)) {
                        let peer = Some((seat, self.name_in_peer(place)));
                        turns.push(Turn { place, peer, echo: false });
                    }
                }
                Err(Stop::Run(error)) => return Err(error),
                Err(stop) => self.end_peer(seat, shape, &stop),
            }
        }
        Ok(turns)
    }

    /// A block of everybody; those that fail leave.
    fn go_round(&mut self, turns: &mut Vec<Turn>, mode: TimingMode, half: u32) -> Result<(), BenchError> {
        let backwards = half % 2 == 1;
        let is_last = half + 1 == 2 * self.order.run.rounds;
        let mut order: Vec<&Turn> = turns.iter().collect();
        if backwards {
            order.reverse();
        }
        for turn in order {
            if let Err(stop) = self.block(turn, mode, backwards, is_last) {
                self.stop(turn.place, stop)?;
            }
        }
        turns.retain(|turn| self.cells[&turn.place].may_be_timed());
        Ok(())
    }

    /// One block, or two in a row.
    fn block(&mut self, turn: &Turn, mode: TimingMode, backwards: bool, check: bool) -> Result<(), Stop> {
        let ms = self.order.lane.block_ms();
        let (samples, echo) = match &turn.peer {
            Some((seat, name)) => {
                let series = self.cells.entry(turn.place).or_default().series.entry(mode).or_default();
                let block = self.order.peers[*seat].block(name, mode, ms, &mut series.claimed);
                let samples = block.map_err(|failure| {
                    let why = format!("while it was timed ({}): {}", mode.as_str(), failure.reason);
                    Stop::Row(RowStatus::NotRun, why)
                })?;
                (samples, None)
            }
            None if turn.echo => {
                let first = self.own_block(turn.place, mode, ms, false)?;
                let second = self.own_block(turn.place, mode, ms, check)?;
                // Which of both is the echo changes with the direction, as who comes first does.
                if backwards { (second, Some(first)) } else { (first, Some(second)) }
            }
            None => (self.own_block(turn.place, mode, ms, check)?, None),
        };
        let series = self.cell(turn.place).series.entry(mode).or_default();
        series.echoes_ns.extend(echo.map(|echo| median(&echo)));
        series.medians_ns.push(median(&samples));
        series.samples_ns.extend(samples);
        Ok(())
    }

    fn own_block(&mut self, place: Place, mode: TimingMode, ms: f64, check: bool) -> Result<Vec<f64>, Stop> {
        let Some(plan) = self.cell(place).plan.clone() else {
            return Err(Stop::Row(RowStatus::NotRun, NOT_TIMED.to_string()));
        };
        let block = self.worker(place.1).and_then(|worker| worker.block(&plan, mode, ms, check));
        if block.as_ref().map_or(true, |block| block.sticky) {
            self.workers.remove(&place.1);
        }
        let block = block.map_err(|error| Stop::of(error, "while it was timed"))?;
        if block.parity.is_some() {
            self.cell(place).parity = block.parity;
        }
        let Some(verdict) = block.verdict else { return Ok(block.samples_ns) };
        let first = verdict.message.lines().next().unwrap_or_default();
        let why = format!("{} while it was timed: {first}", verdict.label());
        Err(Stop::Row(if verdict.is_trouble() { RowStatus::NotRun } else { RowStatus::Fail }, why))
    }

    fn worker(&mut self, at: usize) -> Result<&mut BlockWorker, LaneError> {
        Ok(match self.workers.entry(at) {
            Entry::Occupied(worker) => worker.into_mut(),
            Entry::Vacant(place) => {
                let none = || LaneError::Unexpected { found: "the candidate was not built".to_string() };
                let built = self.order.own[at].built.as_ref().and_then(|built| built.as_ref().ok());
                place.insert(self.order.lane.block_worker(&built.ok_or_else(none)?.job)?)
            }
        })
    }
}

struct Turn {
    place: Place,
    /// The peer, by position, and its own name of the implementation; none for a candidate.
    peer: Option<(usize, String)>,
    /// Whether it has two blocks in a row: what they differ by is noise.
    echo: bool,
}

/// The timed problems of a kernel on a kind of device, those for commands that name them included.
pub fn of_kernel(kernel: &KernelSpec, kind: DeviceKind) -> Vec<ProblemSpec> {
    of_problems(problems_on(kernel, kind))
}

/// Those of the problems that are timed; where none of them is marked as canonical, all of them are.
pub fn of_problems<'a>(problems: impl IntoIterator<Item = &'a ProblemSpec>) -> Vec<ProblemSpec> {
    let mut timed: Vec<ProblemSpec> = problems.into_iter().filter(|own| own.timed).cloned().collect();
    if !timed.iter().any(|problem| problem.canonical) {
        timed.iter_mut().for_each(|problem| problem.canonical = true);
    }
    timed
}
