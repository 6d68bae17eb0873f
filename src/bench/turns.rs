//! Peers beside candidates: what peers answer, judged as a candidate's answer is, and blocks in turn.
//!
//! Peers run in the same minutes on the same device, so that clocks and heat hit everybody alike; every second round
//! goes backwards, so that a steady drift does not favor whoever comes first.

use std::fs;
use std::path::Path;
use std::time::Instant;

use evo_protocol::bench::RowStatus;
use evo_protocol::crosscheck::CrosscheckArray;
use evo_protocol::measurement::TimingMode;
use evo_protocol::plan::{BufferPlan, ProblemPlan, Role};
use evo_protocol::verdict::GateReport;
use serde_json::{Value, json};

use super::figures::NOT_TIMED;
use super::own::BuiltCandidate;
use super::run::{BenchError, BenchRunner, operator};
use crate::peer::{ClaimedTime, PeerFailure, PeerProblem};
use crate::supervise::blocks::BlockWorker;
use crate::supervise::lane::LaneError;
use crate::timing::stats::median;
use crate::worker::judge::honesty;
use evo_system::scratch::ScratchFolder;

/// Somebody whose turn comes.
struct Turn {
    /// Position among the cells.
    cell: usize,
    who: TurnOf,
    claims: Vec<(TimingMode, ClaimedTime)>,
}

enum TurnOf {
    /// A candidate, by position. `echo` has two blocks in a row: what they differ by is noise.
    Own { at: usize, echo: bool },
    /// A peer, by position, and its own name of the implementation.
    Peer { seat: usize, name: String },
}

impl BenchRunner<'_, '_> {
    /// What every peer answers on every shape. Where the run's time is limited they leave a third of what is left of it for
    /// samples: a peer that hangs would use up all of it, and nobody would be timed.
    pub(super) fn check_peers<E>(&mut self) -> Result<(), BenchError<E>> {
        let now = Instant::now();
        let until = self.order.until.map(|until| now + until.saturating_duration_since(now) * 2 / 3);
        self.order.peers.iter_mut().for_each(|peer| peer.answer_by(until));
        for shape in 0..self.order.shapes.len() {
            for seat in 0..self.order.peers.len() {
                if until.is_some_and(|until| Instant::now() >= until) {
                    let whole = self.whole_peer(seat, shape);
                    self.cells[whole].end(RowStatus::NotRun, "the time of `--quick` was used up before this");
                    continue;
                }
                self.check_peer(seat, shape)?;
            }
        }
        Ok(())
    }

    /// The cell of a peer as a whole, for what no implementation of it is the reason of.
    fn whole_peer(&mut self, seat: usize, shape: usize) -> usize {
        let peer = &self.order.peers[seat];
        let (name, version) = (peer.name().to_string(), peer.version().map(String::from));
        let implementation = self.implementation(&name, version);
        self.cell(implementation, shape)
    }

    /// One peer's answers on one shape, with other inputs first: an answer that is known by heart does not fit both.
    fn check_peer<E>(&mut self, seat: usize, shape: usize) -> Result<(), BenchError<E>> {
        let Some(plan) = self.plan_at(shape) else {
            let whole = self.whole_peer(seat, shape);
            self.cells[whole]
                .end(RowStatus::NotRun, "no candidate resolves this problem, so its inputs are not known");
            return Ok(());
        };
        for seed_index in [1, 0] {
            let listed = match self.prepare_peer(seat, shape, &plan, seed_index)? {
                Ok(listed) => listed,
                Err((status, why)) => {
                    let whole = self.whole_peer(seat, shape);
                    self.end_peer(seat, shape, status, &why);
                    self.cells[whole].end(status, why);
                    return Ok(());
                }
            };
            let (folder, names) = listed;
            for cell in names {
                if self.cells[cell].status == RowStatus::Fail || self.cells[cell].reason_is_final() {
                    continue;
                }
                self.judge_peer(seat, cell, &plan, seed_index, folder.path())?;
            }
        }
        Ok(())
    }

    /// Ends all cells of a peer on a shape that are not decided otherwise.
    fn end_peer(&mut self, seat: usize, shape: usize, status: RowStatus, why: &str) {
        let prefix = format!("{}/", self.order.peers[seat].name());
        let implementations = &self.implementations;
        let own = self.cells.iter_mut().filter(|cell| {
            cell.shape == shape && implementations[cell.implementation].name.starts_with(&prefix)
        });
        own.filter(|cell| !cell.reason_is_final()).for_each(|cell| cell.end(status, why));
    }

    /// Hands a problem to a peer: the folder with its inputs, and the cells of what the peer can do.
    #[expect(clippy::type_complexity, reason = "the inner error is a row, the outer one ends the run")]
    fn prepare_peer<E>(
        &mut self,
        seat: usize,
        shape: usize,
        plan: &ProblemPlan,
        seed_index: u32,
    ) -> Result<Result<(ScratchFolder, Vec<usize>), (RowStatus, String)>, BenchError<E>> {
        let folder = self.scratch.folder()?;
        let handed = self.carrier().and_then(|own| own.hand_out(plan, seed_index, folder.path()));
        if let Err(error) = handed {
            self.drop_carrier();
            if let LaneError::Lost { why } = error {
                return Err(BenchError::Lost(why));
            }
            return Ok(Err((RowStatus::NotRun, format!("its inputs could not be written: {error}"))));
        }
        fs::create_dir_all(folder.path().join("outputs"))?;
        let operator = operator(self.order.kernel).map(String::from);
        let problem = peer_problem(plan, &self.order.kernel.name, operator, folder.path());
        let peer = &mut self.order.peers[seat];
        let listed = match peer.prepare(&problem) {
            Ok(listed) => listed,
            Err(PeerFailure::Unable(why)) => return Ok(Err((RowStatus::Skipped, why))),
            Err(failure) => return Ok(Err((RowStatus::NotRun, failure.reason().to_string()))),
        };
        let (peer, version) = (peer.name().to_string(), peer.version().map(String::from));
        let mut cells = Vec::new();
        for own in listed {
            let version = own.version.clone().or_else(|| version.clone());
            let at = self.implementation(&format!("{peer}/{}", own.name), version);
            let cell = self.cell(at, shape);
            self.cells[cell].plan = Some(plan.clone());
            match own.unable {
                Some(why) => self.cells[cell].end(RowStatus::Skipped, why),
                None => cells.push(cell),
            }
        }
        Ok(Ok((folder, cells)))
    }

    /// The peer's own name of a cell's implementation.
    fn name_in_peer(&self, cell: usize) -> String {
        let name = &self.implementations[self.cells[cell].implementation].name;
        name.split_once('/').map_or(name.clone(), |(_, own)| own.to_string())
    }

    fn judge_peer<E>(
        &mut self,
        seat: usize,
        cell: usize,
        plan: &ProblemPlan,
        seed_index: u32,
        folder: &Path,
    ) -> Result<(), BenchError<E>> {
        // What another implementation wrote must not be found there.
        let outputs = folder.join("outputs");
        fs::remove_dir_all(&outputs).and_then(|()| fs::create_dir(&outputs))?;
        let name = self.name_in_peer(cell);
        if let Err(failure) = self.order.peers[seat].output(&name) {
            self.cells[cell].end(RowStatus::NotRun, failure.reason());
            return Ok(());
        }
        let judged = self.carrier().and_then(|own| own.judge_foreign(plan, seed_index, folder));
        let own = &mut self.cells[cell];
        match judged {
            Ok(answer) => {
                let parity = answer.report.evidence.get(GateReport::PARITY);
                own.parity = parity.and_then(|seen| seen.get(&plan.name)).cloned().or(own.parity.take());
                match answer.verdict {
                    None => own.is_right(),
                    Some(verdict) if verdict.is_trouble() => {
                        own.end(RowStatus::NotRun, format!("its answer was not judged: {}", verdict.message));
                    }
                    Some(verdict) => {
                        own.correct = Some(false);
                        let first = verdict.message.lines().next().unwrap_or_default();
                        own.end(RowStatus::Fail, format!("{}: {first}", verdict.label()));
                    }
                }
            }
            Err(error) => {
                own.end(RowStatus::NotRun, format!("its answer was not judged: {error}"));
                self.drop_carrier();
                if let LaneError::Lost { why } = error {
                    return Err(BenchError::Lost(why));
                }
            }
        }
        Ok(())
    }

    /// Times everybody who is right on a shape.
    pub(super) fn time_shape<E>(&mut self, shape: usize) -> Result<(), BenchError<E>> {
        if self.is_over() {
            return Ok(());
        }
        let mut turns = self.seated(shape)?;
        let modes = self.order.modes;
        for mode in modes.iter().copied() {
            for half in 0..2 * self.order.rounds {
                self.go_round(&mut turns, mode, half)?;
            }
        }
        let info = self.order.lane.info().clone();
        for turn in &turns {
            let cell = &mut self.cells[turn.cell];
            let is_peer = matches!(turn.who, TurnOf::Peer { .. });
            let false_claim = turn.claims.iter().find_map(|(_, claimed)| claimed.conclude().err());
            let impossible = cell.series.iter().find_map(|(mode, series)| {
                let plan = cell.plan.as_ref()?;
                honesty::check(plan, &info, *mode, median(&series.samples_ns)).verdict
            });
            match (false_claim, impossible, is_peer) {
                (Some(why), ..) => cell.end(RowStatus::NotRun, why),
                (None, Some(verdict), true) => cell.end(RowStatus::NotRun, verdict.message),
                (None, Some(verdict), false) => cell.end(RowStatus::Fail, verdict.message),
                (None, None, _) => {
                    cell.status = RowStatus::Pass;
                    cell.reason = String::new();
                }
            }
        }
        Ok(())
    }

    /// Whose turns come on a shape; peers are given the problem again.
    fn seated<E>(&mut self, shape: usize) -> Result<Vec<Turn>, BenchError<E>> {
        let mut turns = Vec::new();
        let claims = || self.order.modes.iter().map(|mode| (*mode, ClaimedTime::new(*mode))).collect();
        for (cell, own) in self.cells.iter().enumerate() {
            if own.shape == shape && own.may_be_timed() && own.implementation < self.order.own.len() {
                let echo = turns.is_empty();
                let who = TurnOf::Own { at: own.implementation, echo };
                turns.push(Turn { cell, who, claims: Vec::new() });
            }
        }
        let claims: Vec<(TimingMode, ClaimedTime)> = claims();
        let Some(plan) = self.plan_at(shape) else { return Ok(turns) };
        for seat in 0..self.order.peers.len() {
            let prefix = format!("{}/", self.order.peers[seat].name());
            let is_wanted = |cell: &usize| {
                let own = &self.cells[*cell];
                own.shape == shape
                    && own.may_be_timed()
                    && self.implementations[own.implementation].name.starts_with(&prefix)
            };
            let wanted: Vec<usize> = (0..self.cells.len()).filter(is_wanted).collect();
            if wanted.is_empty() {
                continue;
            }
            match self.prepare_peer(seat, shape, &plan, 0)? {
                Ok((_, cells)) => {
                    for cell in wanted.into_iter().filter(|cell| cells.contains(cell)) {
                        let who = TurnOf::Peer { seat, name: self.name_in_peer(cell) };
                        turns.push(Turn { cell, who, claims: claims.clone() });
                    }
                }
                Err((status, why)) => self.end_peer(seat, shape, status, &why),
            }
        }
        Ok(turns)
    }

    /// One block of everybody; those that fail leave.
    fn go_round<E>(
        &mut self,
        turns: &mut Vec<Turn>,
        mode: TimingMode,
        half: u32,
    ) -> Result<(), BenchError<E>> {
        let backwards = half % 2 == 1;
        let is_last = half + 1 == 2 * self.order.rounds;
        let mut order: Vec<usize> = (0..turns.len()).collect();
        if backwards {
            order.reverse();
        }
        let mut gone = Vec::new();
        for at in order {
            let turn = &mut turns[at];
            let (first, second) = match self.block(turn, mode, is_last)? {
                Ok(blocks) => blocks,
                Err((status, why)) => {
                    self.cells[turn.cell].end(status, why);
                    gone.push(at);
                    continue;
                }
            };
            let series = self.cells[turn.cell].series_of(mode);
            if let Some(second) = second {
                // Which of both is the echo changes with the direction, as who comes first does.
                let (own, echo) = if backwards { (second, first) } else { (first, second) };
                series.echoes_ns.push(median(&echo));
                series.medians_ns.push(median(&own));
                series.samples_ns.extend(own);
            } else {
                series.medians_ns.push(median(&first));
                series.samples_ns.extend(first);
            }
        }
        gone.sort_unstable();
        for at in gone.into_iter().rev() {
            turns.remove(at);
        }
        Ok(())
    }

    /// One block, or two in a row; why there is none.
    #[expect(clippy::type_complexity, reason = "the inner error is a row, the outer one ends the run")]
    fn block<E>(
        &mut self,
        turn: &mut Turn,
        mode: TimingMode,
        check: bool,
    ) -> Result<Result<(Vec<f64>, Option<Vec<f64>>), (RowStatus, String)>, BenchError<E>> {
        let ms = self.order.lane.block_ms();
        match &turn.who {
            TurnOf::Own { at, echo } => {
                let (at, echo, cell) = (*at, *echo, turn.cell);
                let first = self.own_block((at, cell), mode, ms, check && !echo)?;
                let second = match (&first, echo) {
                    (Ok(_), true) => match self.own_block((at, cell), mode, ms, check)? {
                        Ok(samples) => Some(samples),
                        Err(why) => return Ok(Err(why)),
                    },
                    _ => None,
                };
                Ok(first.map(|first| (first, second)))
            }
            TurnOf::Peer { seat, name } => {
                let claimed = turn.claims.iter_mut().find(|(own, _)| *own == mode);
                let Some((_, claimed)) = claimed else {
                    return Ok(Err((RowStatus::NotRun, NOT_TIMED.to_string())));
                };
                let answer = self.order.peers[*seat].block(name, mode, ms, claimed);
                Ok(answer.map(|own| (own, None)).map_err(|failure| {
                    let why = format!("while it was timed ({}): {}", mode.as_str(), failure.reason());
                    (RowStatus::NotRun, why)
                }))
            }
        }
    }

    #[expect(clippy::type_complexity, reason = "the inner error is a row, the outer one ends the run")]
    fn own_block<E>(
        &mut self,
        (at, cell): (usize, usize),
        mode: TimingMode,
        ms: f64,
        check: bool,
    ) -> Result<Result<Vec<f64>, (RowStatus, String)>, BenchError<E>> {
        let Some(plan) = self.cells[cell].plan.clone() else {
            return Ok(Err((RowStatus::NotRun, NOT_TIMED.to_string())));
        };
        let shape = self.cells[cell].shape;
        let answer = self.worker(at, shape).and_then(|worker| worker.block(&plan, mode, ms, check));
        match answer {
            Ok(answer) => {
                if answer.sticky {
                    self.workers.remove(&at);
                }
                if answer.parity.is_some() {
                    self.cells[cell].parity = answer.parity;
                }
                Ok(match answer.verdict {
                    None => Ok(answer.samples_ns),
                    Some(own) => {
                        let first = own.message.lines().next().unwrap_or_default();
                        let why = format!("{} while it was timed: {first}", own.label());
                        Err((if own.is_trouble() { RowStatus::NotRun } else { RowStatus::Fail }, why))
                    }
                })
            }
            Err(LaneError::Lost { why }) => Err(BenchError::Lost(why)),
            Err(error) => {
                self.workers.remove(&at);
                Ok(Err((RowStatus::NotRun, format!("while it was timed: {error}"))))
            }
        }
    }

    /// The process that times a candidate at a shape's configuration.
    fn worker(&mut self, at: usize, shape: usize) -> Result<&mut BlockWorker, LaneError> {
        let none = || LaneError::Unexpected { found: "the candidate was not built".to_string() };
        let own = &self.order.own[at];
        let hash = own.configuration_at(&self.order.shapes[shape].parameters).hash();
        let is_loaded = self.workers.get(&at).is_some_and(|(loaded, _)| *loaded == hash);
        if !is_loaded {
            let Some(BuiltCandidate::Built(built)) = own.builds.get(&hash) else { return Err(none()) };
            // The old one ends before the new one takes memory.
            self.workers.remove(&at);
            let worker = self.order.lane.block_worker(&built.job)?;
            self.workers.insert(at, (hash, worker));
        }
        self.workers.get_mut(&at).map(|(_, worker)| worker).ok_or_else(none)
    }
}

/// A problem as a peer sees it, with files in a folder.
pub fn peer_problem(
    plan: &ProblemPlan,
    kernel: &str,
    operator: Option<String>,
    folder: &Path,
) -> PeerProblem {
    let array = |own: &BufferPlan, place: &str| CrosscheckArray {
        path: folder.join(place).join(format!("{}.npy", own.name)),
        dtype: own.dtype.as_str().to_string(),
        npy: own.dtype.npy().to_string(),
        shape: own.shape.clone(),
    };
    let of = |roles: &[Role], place: &str| {
        let own = plan.buffers.iter().filter(|own| roles.contains(&own.role));
        own.map(|own| (own.name.clone(), array(own, place))).collect()
    };
    let number = |value: f64| if value.is_finite() { json!(value) } else { json!(value.to_string()) };
    let scalars = plan.scalars.iter().map(|own| {
        let value: Value = own.integer.map_or_else(|| number(own.value), |integer| json!(integer));
        (own.name.clone(), value)
    });
    PeerProblem {
        problem: plan.name.clone(),
        kernel: kernel.to_string(),
        operator,
        sizes: plan.sizes.clone(),
        scalars: scalars.collect(),
        inputs: of(&[Role::Input, Role::Inout, Role::Restored], "inputs"),
        outputs: of(&[Role::Output, Role::Inout], "outputs"),
    }
}
