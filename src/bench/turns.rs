//! Peers beside candidates: what peers answer, judged as a candidate's answer is, and blocks in turn.
//!
//! Peers run in the same minutes on the same device, so that clocks and heat hit everybody alike; every second round
//! goes backwards, so that a steady drift does not favor whoever comes first.

use std::fs;
use std::path::Path;
use std::time::Instant;

use evo_protocol::bench::RowStatus;
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::GateReport;

use super::figures::{BenchCell, NOT_TIMED};
use super::own::BenchError;
use super::own::in_a_line;
use super::run::{BenchRunner, Place, Stop, TIME_USED_UP, operator};
use crate::peer::{self, ForeignProblem, PeerProblem};
use crate::supervise::blocks::BlockWorker;
use crate::supervise::lane::LaneError;
use crate::timing::stats::median;
use crate::worker::judge::honesty;
use evo_system::scratch::ScratchFolder;

/// An implementation that is timed.
struct Turn {
    place: Place,
    /// The peer, by position, and its own name of the implementation; none for a candidate.
    peer: Option<(usize, String)>,
    /// Whether it has two blocks in a row: what they differ by is noise.
    echo: bool,
}

impl BenchRunner<'_, '_> {
    /// What every peer answers on every shape. Where the run's time is limited they leave a third of what is left of it for
    /// samples: a peer that hangs would use up all of it, and nobody would be timed.
    pub(super) fn check_peers(&mut self) -> Result<(), BenchError> {
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

    /// The places of a peer's implementations on a shape.
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
            carrier.hand_out(plan, seed_index, folder.path())
        })?;
        let place = folder.path().join("outputs");
        fs::create_dir_all(&place)?;
        let problem = PeerProblem {
            problem: ForeignProblem::of(plan, folder.path()),
            kernel: self.order.kernel.name.clone(),
            operator: operator(self.order.kernel).map(String::from),
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

    /// The peer's own name of an implementation.
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

    /// Times everybody who is right on a shape.
    pub(super) fn time_shape(&mut self, shape: usize) -> Result<(), BenchError> {
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
            match (false_claim.filter(|_| is_peer), impossible) {
                (Some(why), _) => cell.end(RowStatus::NotRun, why),
                (None, Some(verdict)) if is_peer => cell.end(RowStatus::NotRun, verdict.message),
                (None, Some(verdict)) => cell.end(RowStatus::Fail, verdict.message),
                (None, None) => {
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
        let block = self.worker(place).and_then(|worker| worker.block(&plan, mode, ms, check));
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

    /// The process that times a candidate at a shape's configuration.
    fn worker(&mut self, (shape, at): Place) -> Result<&mut BlockWorker, LaneError> {
        let none = || LaneError::Unexpected { found: "the candidate was not built".to_string() };
        let own = &self.order.own[at];
        let hash = own.configuration.with(&self.order.shapes[shape].parameters).hash();
        if self.workers.get(&at).is_none_or(|(loaded, _)| *loaded != hash) {
            let Some(Ok(built)) = own.builds.get(&hash) else { return Err(none()) };
            // The old one ends before the new one takes memory.
            self.workers.remove(&at);
            let worker = self.order.lane.block_worker(&built.job)?;
            self.workers.insert(at, (hash, worker));
        }
        self.workers.get_mut(&at).map(|(_, worker)| worker).ok_or_else(none)
    }
}
