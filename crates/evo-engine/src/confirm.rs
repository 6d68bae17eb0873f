//! Confirmation: the best of the search measured again, every gate at full depth, against the baseline in fresh
//! processes. Among many variants, the fastest one of the screening was also lucky, so only fresh measurements are
//! published.
//!
//! A problem on which no confirmed variant is nearly as fast as the fastest of the search asks for one that is. Of these
//! the smallest set is confirmed that serves all such problems, at most as many as there are finalists.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::channel;

use evo_journal::budget::StopReason;
use evo_journal::portfolio::{NEAR, smallest};
use evo_journal::record::{Confirmation, ProblemWork, now};
use evo_protocol::device::EntryAttributes;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::leaderboard::PairedProblem;
use evo_protocol::verdict::Verdict;
use evo_report::event::Event;
use evo_space::genome::Configuration;
use evo_supervise::blame::after_two;
use evo_supervise::job::{Judgement, SecondLook, Standing};
use evo_supervise::lane::Renewal;
use evo_timing::paired;

use crate::lane::{LaneJob, Task};
use crate::ports::{
    CompileAnswer, DeepOrder, Evaluate, LaneAnswer, Message, PairAnswer, Recipe, Rivals, Sanitizer,
};
use crate::run::Engine;
use crate::trouble::{EngineResult, Weight, weigh};
use crate::variant::Variant;

/// Candidates tried per wanted finalist: one that fails at full depth makes room for the next.
const CANDIDATES_PER_FINALIST: usize = 3;

/// Of a comparison whose baseline drifts: on a machine that is never quiet, more of them would not help.
const PAIR_ATTEMPTS: usize = 3;

/// A drift below this is never repeated, however low the noise floor: it is half of the least difference
/// that a comparison claims (`timing::paired::claimable`).
const DRIFT_MAX: f64 = 0.0025;

pub(super) struct Rebuilt<R: Recipe> {
    variant: Variant<R::Prepared>,
    pub screened: Evaluation,
    pub job: R::Job,
}

pub(super) struct Deep<R: Recipe> {
    pub job: R::Job,
    pub evaluation: Evaluation,
    attributes: Vec<EntryAttributes>,
    /// One entry for each timed problem.
    pub work: Vec<ProblemWork>,
    toolchain: String,
}

struct WantedFinalists {
    /// 1 for a baseline that is confirmed.
    from_baseline: usize,
    /// With the baseline, where that takes no finalist's place.
    wanted: usize,
    /// Finalists that are not the baseline, and those of them that an earlier run confirmed.
    others: usize,
    known: usize,
}

impl<R: Recipe> Engine<'_, R> {
    /// Confirms the finalists on one lane, and anew on another one if that lane is lost; gives how many passed.
    pub(super) fn confirm(&mut self) -> EngineResult<usize> {
        let before = self.ending.stop;
        loop {
            self.fleet.confirming = self.lanes.first();
            self.fleet.adjusted.clear();
            self.measure_apart()?;
            let confirmed = self.confirm_finalists()?;
            let is_lost = self.ending.stop == Some(StopReason::DeviceLost);
            if !is_lost || self.lanes.live() == 0 {
                return Ok(confirmed);
            }
            let (lost, next) = (self.fleet.confirming, self.lanes.first());
            let (lost, next) = (self.fleet.shown(lost), self.fleet.shown(next));
            self.notice(format!("{lost} is lost; the finalists are confirmed on {next}"))?;
            self.ending.stop = before;
        }
    }

    fn confirm_finalists(&mut self) -> EngineResult<usize> {
        let ranked = self.ranked();
        let wanted = self.wanted_by_mean();
        let Some(first) = ranked.first() else { return Ok(0) };
        if wanted == 0 {
            return Ok(0);
        }
        let baseline_number = self.baseline(&ranked).unwrap_or(*first);
        let finalists = ranked.iter().copied().take(wanted).filter(|number| *number != baseline_number);
        self.announce_looks(finalists.clone().chain([baseline_number]));
        let others = finalists.clone().count();
        // Finalists of an earlier run are on the board already, and are not said to be left.
        let known = finalists.filter(|number| self.is_confirmed(*number, baseline_number)).count();
        if !self.wall.fits_confirmation() {
            self.undone.left_out = others.max(1).saturating_sub(known);
            return Ok(0);
        }
        // As many as there are, whatever was asked for.
        self.tell_confirming(0, others);
        self.expect_pairs()?;
        // The baseline comes first: the noise floor is measured on it and every finalist is paired with it.
        let Some(mut baseline) = self.deep(baseline_number, true)? else { return Ok(0) };
        self.sanitize_finalist(&mut baseline, true)?;
        let tries = wanted * CANDIDATES_PER_FINALIST;
        if !baseline.evaluation.may_rank() && others > 0 && self.undone.unsound.len() < tries {
            return self.with_next_baseline(&baseline);
        }
        let noise_floor = self.noise_floor(&baseline)?;
        // Asked again, now that one evaluation and the noise floor show what this machine needs. A baseline
        // alone would rank as the champion, although faster variants were found.
        if others > 0 && !self.ending.is_early() && !self.wall.fits_first_finalist() {
            self.undone.left_out = others.saturating_sub(known);
            return Ok(0);
        }
        // The baseline is confirmed in any case: the champion may be the default itself.
        let own = usize::from(self.confirm_one(baseline_number, &baseline, noise_floor)?);
        let is_finalist = ranked.iter().take(wanted).any(|number| *number == baseline_number);
        // The baseline uses up a finalist's place only if it ranks among the finalists.
        let wanted = if is_finalist { wanted } else { wanted + own };
        let confirmed = self.confirm_against(
            &baseline,
            noise_floor,
            WantedFinalists { from_baseline: own, wanted, others, known },
        )?;
        if self.ending.at_once && !self.ending.stop.is_some_and(StopReason::is_early) {
            self.undone.left_out = wanted.saturating_sub(confirmed + known);
        }
        let is_cut = others > 0 && (self.undone.left_out > 0 || self.ending.is_early());
        Ok(if is_cut && confirmed == own { 0 } else { confirmed })
    }

    /// Confirms the finalists against another baseline than this one, which does not pass at full depth.
    fn with_next_baseline(&mut self, failed: &Deep<R>) -> EngineResult<usize> {
        let number = failed.evaluation.number;
        self.confirm_one(number, failed, None)?;
        if self.ending.is_early() {
            return Ok(0);
        }
        self.undone.unsound.insert(number);
        let next = self.baseline(&self.ranked()).and_then(|number| self.evaluation_of(number));
        if let Some(next) = next.map(|evaluation| evaluation.configuration.clone()) {
            self.notice(format!("finalists are compared with `{next}` instead, the first that passed"))?;
        }
        self.confirm_finalists()
    }

    /// Confirms finalists against a baseline that is confirmed, and what problems need beside them. A finalist in which a
    /// sanitizer finds something afterwards makes room for the next candidate. How many are confirmed, the baseline too.
    fn confirm_against(
        &mut self,
        baseline: &Deep<R>,
        noise_floor: Option<f64>,
        WantedFinalists { from_baseline: own, mut wanted, others, known }: WantedFinalists,
    ) -> EngineResult<usize> {
        let (ranked, number) = (self.ranked(), baseline.evaluation.number);
        let tried = ranked.iter().copied().take(wanted * CANDIDATES_PER_FINALIST).collect();
        let mut candidates: VecDeque<u64> = self.in_turn(tried, number).into();
        candidates.retain(|candidate| *candidate != number);
        let (mut confirmed, mut specialists) = (own, None);
        loop {
            while confirmed < wanted && !self.ending.is_early() {
                let fits = match confirmed > own {
                    true => self.wall.fits_finalist(),
                    false => self.wall.fits_first_finalist(),
                };
                if !fits {
                    self.undone.left_out = (wanted - confirmed).min(candidates.len()).saturating_sub(known);
                    break;
                }
                let Some(candidate) = candidates.pop_front() else { break };
                let finalist = (confirmed + 1).saturating_sub(own);
                self.tell_confirming(finalist, others.max(finalist));
                confirmed += usize::from(self.confirm_one(candidate, baseline, noise_floor)?);
            }
            // Where problems were searched apart, the default may be the best in the mean and of no problem.
            let has_some = confirmed > own || self.study.header().per_problem && own > 0;
            if has_some && self.undone.left_out == 0 && specialists.is_none() {
                specialists = Some(self.confirm_specialists(&ranked, baseline, noise_floor)?);
            }
            let refused = self.sanitize_confirmed(number)?;
            if refused.is_empty() || self.ending.is_early() {
                return Ok(confirmed + specialists.unwrap_or_default());
            }
            confirmed = confirmed.saturating_sub(refused.len());
            // No further finalist comes for a baseline that was none.
            wanted -= usize::from(refused.contains(&number) && wanted > self.wanted_by_mean());
        }
    }

    /// Where problems were searched apart, one result beside the best of each problem.
    fn wanted_by_mean(&self) -> usize {
        match self.study.header().per_problem {
            true => self.options.finalists.min(1),
            false => self.options.finalists,
        }
    }

    pub(super) fn tell_confirming(&mut self, finalist: usize, of: usize) {
        let left = if finalist == 0 { of } else { of + 1 - finalist };
        let left_seconds = self.wall.confirmation(left, finalist == 0);
        self.observer.observe(&Event::Confirming { finalist, of, left_seconds });
    }

    /// The candidates in the order in which they are confirmed, best first. With a wall budget, finalists that an
    /// earlier run confirmed go last, so that a resumed study confirms the others.
    fn in_turn(&self, mut ranked: Vec<u64>, baseline: u64) -> Vec<u64> {
        let finalists = ranked.len().min(self.options.finalists);
        if self.wall.left().is_some() {
            ranked[..finalists].sort_by_key(|number| self.is_confirmed(*number, baseline));
        }
        ranked
    }

    pub(super) fn is_confirmed(&self, number: u64, baseline: u64) -> bool {
        let mut confirmations = self.study.history.confirmations.iter();
        confirmations.any(|one| one.number == number && one.baseline == baseline && one.evaluation.may_rank())
    }

    /// Evaluations with a time that can rank, best first, one for each machine code. Those that lost a race have met
    /// few questions; as finalists they meet all of them.
    pub(super) fn ranked(&self) -> Vec<u64> {
        let unsound = &self.undone.unsound;
        let passing = |one: &&Evaluation| {
            one.is_timed() && one.duplicate_of.is_none() && !unsound.contains(&one.number)
        };
        let mut ranked: Vec<(f64, u64)> = self
            .study
            .history
            .evaluations
            .iter()
            .filter(passing)
            .filter_map(|one| {
                // On the confirming lane, if it was measured there.
                let adjusted = self.fleet.adjusted.get(&one.number).map(|(time, _)| *time);
                Some((adjusted.or(one.objective_ns)?, one.number))
            })
            .collect();
        // Ties go to the lower number, so that a replay ranks in the same order.
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        ranked.into_iter().map(|(_, number)| number).collect()
    }

    /// The default configuration if it may be confirmed, else the first that passed.
    pub(super) fn baseline(&self, ranked: &[u64]) -> Option<u64> {
        let evaluations = &self.study.history.evaluations;
        let default = evaluations.iter().find(|one| one.is_default() && ranked.contains(&one.number));
        default.map(|one| one.number).or_else(|| ranked.iter().min().copied())
    }

    /// Builds a variant of the search once more; `None` where that is not possible any more.
    pub(super) fn rebuilt(
        &mut self,
        number: u64,
        order: Option<DeepOrder>,
    ) -> EngineResult<Option<Rebuilt<R>>> {
        let Some(screened) = self.evaluation_of(number).cloned() else { return Ok(None) };
        let configuration = screened.configuration.clone();
        let Some(genome) = self.space.genome(&configuration) else { return Ok(None) };
        let mut variant = Variant::new(number, genome, configuration, &screened.origin, false);
        if variant.prepare(self.recipe).is_err() {
            return Ok(None);
        }
        let Some((prepared, identity)) = &variant.prepared else { return Ok(None) };
        let texts = identity.text.as_ref().zip(screened.source_hash.as_ref());
        if texts.is_some_and(|(now, then)| now != then) {
            let message = format!(
                "`{}` is not confirmed: a file that it includes has changed since it was screened",
                variant.configuration
            );
            self.notice(message)?;
            return Ok(None);
        }
        let Some(answer) = self.compile_again(number, prepared)? else { return Ok(None) };
        if let Some(verdict) = answer.as_ref().err().filter(|verdict| verdict.is_trouble()) {
            self.not_confirmed(&variant.configuration, verdict)?;
            return Ok(None);
        }
        // Its own hash and never a twin's, because this compilation was ordered for this variant.
        let variant_hash = variant.configuration.hash();
        let job = variant.job(self.recipe, &answer, &variant_hash, order);
        Ok(job.ok().map(|job| Rebuilt { variant, screened, job }))
    }

    /// Evaluates again at full depth; `None` when interrupted or when the device is lost.
    fn deep(&mut self, number: u64, is_baseline: bool) -> EngineResult<Option<Deep<R>>> {
        let began = self.wall.elapsed();
        let sampling_max = self.wall.sampling_max();
        let order = DeepOrder { sampling_max, ..DeepOrder::after(self.clock.last_verdict) };
        let Some(rebuilt) = self.rebuilt(number, Some(order))? else { return Ok(None) };
        let Rebuilt { mut variant, screened, mut job } = rebuilt;
        if let Some(instrumented) = variant.instrumented(self.recipe) {
            let Some(answer) = self.compile_again(number, &instrumented)? else { return Ok(None) };
            self.recipe.add_instrumented(&mut job, &answer);
        }
        // The compile time of the search is kept, because this time the cache has answered.
        variant.build.compile_ms = screened.compile_ms;
        let Some(result) = self.judge_again(number, &job)? else { return Ok(None) };
        if result.verdict.is_trouble() {
            self.not_confirmed(&variant.configuration, &result.verdict)?;
            return Ok(None);
        }
        let attributes = result.attributes.clone();
        let mut evaluation = variant.judged(result);
        let lane = self.fleet.confirming;
        self.fleet.sign(lane, self.fleet.lanes[lane].account.ratio, &mut evaluation);
        // It is not a new evaluation, so it stays in the generation in which the search found it.
        evaluation.generation = screened.generation;
        let work = variant.prepared.as_ref().map(|(own, _)| self.recipe.work(own)).unwrap_or_default();
        let toolchain = variant.build.toolchain;
        self.wall.costs.note_deep(self.wall.elapsed().saturating_sub(began), is_baseline);
        Ok(Some(Deep { job, evaluation, attributes, work, toolchain }))
    }

    fn compile_again(
        &mut self,
        ticket: u64,
        prepared: &R::Prepared,
    ) -> EngineResult<Option<CompileAnswer<R::Binary>>> {
        let Some(answer) = self.compile_now(ticket, prepared)? else { return Ok(None) };
        let verdict = answer.as_ref().err();
        match verdict.is_some_and(|one| weigh(None, one) == Weight::Again) {
            true => self.compile_now(ticket, prepared),
            false => Ok(Some(answer)),
        }
    }

    /// Once more where the machine may be at fault. `None` when the user wants out, or when the device is lost.
    fn judge_again(&mut self, number: u64, job: &R::Job) -> EngineResult<Option<Judgement>> {
        let mut first: Option<Verdict> = None;
        loop {
            let standing = self.standing.clone();
            let Some(mut result) = self.judge(number, job.clone(), standing)? else { return Ok(None) };
            if result.lost {
                let lane = self.fleet.confirming;
                self.fleet.lanes[lane].account.out = Some(result.verdict.message.clone());
                self.ending.stop = Some(StopReason::DeviceLost);
                return Ok(None);
            }
            if let Some(first) = first {
                // A lane that does not look twice by itself, because in the search another one does.
                if result.second_look == Some(SecondLook::Broken) {
                    result.verdict = after_two(&first, result.verdict);
                }
                return Ok(Some(result));
            }
            if result.second_look.is_none() && weigh(None, &result.verdict) != Weight::Again {
                return Ok(Some(result));
            }
            first = Some(result.verdict);
        }
    }

    /// Says that a finalist is left out because evo or the machine failed, which says nothing about it.
    fn not_confirmed(&mut self, configuration: &Configuration, trouble: &Verdict) -> EngineResult {
        let why = trouble.message.lines().next().unwrap_or_default();
        self.notice(format!("`{configuration}` is not confirmed: {why}; `--resume` confirms again"))
    }

    /// Compiles outside the search; the cache answers at once for what was compiled before.
    fn compile_now(
        &mut self,
        ticket: u64,
        prepared: &R::Prepared,
    ) -> EngineResult<Option<CompileAnswer<R::Binary>>> {
        self.compilers.submit(ticket, prepared);
        loop {
            let Some(message) = self.next_message()? else { return Ok(None) };
            match message {
                Message::Compiled(own, outcome) if own == ticket => return Ok(Some(outcome)),
                Message::Lane(lane, answer) => self.beside(lane, &answer)?,
                Message::Compiled(..) | Message::Interrupt(_) => {}
            }
        }
    }

    fn beside(&mut self, lane: usize, answer: &LaneAnswer) -> EngineResult {
        match answer {
            LaneAnswer::Anchored { number, result } => self.anchored(lane, *number, result),
            LaneAnswer::Renewed(renewal) => self.renewed(lane, Renewal::clone(renewal)),
            _ => Ok(()),
        }
    }

    /// A lane's answer to the only task of the confirmation that it has; `None` when the run has to end at once.
    fn answer_of<T>(
        &mut self,
        asked: usize,
        task: Task<R::Job>,
        pick: impl Fn(LaneAnswer) -> Option<T>,
    ) -> EngineResult<Option<T>> {
        self.lanes.send(asked, task);
        while let Some(message) = self.next_message()? {
            if let Message::Lane(lane, answer) = message {
                self.beside(lane, &answer)?;
                // Only of its lane: what is picked is gone.
                if lane == asked
                    && let Some(found) = pick(*answer)
                {
                    return Ok(Some(found));
                }
            }
        }
        Ok(None)
    }

    pub(super) fn ask<T: Send + 'static>(
        &mut self,
        lane: usize,
        call: impl FnOnce(&mut dyn Evaluate<R::Job>, &mut dyn Sanitizer<R::Job>) -> T + Send + 'static,
    ) -> EngineResult<Option<T>> {
        let (sender, receiver) = channel();
        let call = Task::Call(Box::new(move |device, sanitizer| drop(sender.send(call(device, sanitizer)))));
        self.answer_of(lane, call, |_| receiver.try_recv().ok())
    }

    /// Evaluates on the confirming lane, in times of the first one.
    pub(super) fn judge(
        &mut self,
        number: u64,
        job: R::Job,
        standing: Standing,
    ) -> EngineResult<Option<Judgement>> {
        let task = Task::Evaluate(LaneJob { number, job: Box::new(job), standing, avoid: None });
        self.answer_of(self.fleet.confirming, task, |answer| match answer {
            LaneAnswer::Evaluated { result, .. } => Some(*result),
            _ => None,
        })
    }

    fn noise_floor(&mut self, baseline: &Deep<R>) -> EngineResult<Option<f64>> {
        let problems = baseline.work.len();
        if self.ending.is_early() || problems == 0 || !self.wall.fits_floor() {
            return Ok(None);
        }
        let began = self.wall.elapsed();
        let job = baseline.job.clone();
        match self.ask(self.fleet.confirming, move |device, _| device.noise_floor(&job, problems))? {
            // The largest, so that no difference counts that could be noise on one of the problems.
            Some(Ok(floor)) => {
                self.wall.costs.note_pairs(self.wall.elapsed().saturating_sub(began), None, problems);
                Ok(Some(floor))
            }
            Some(Err(message)) => {
                // A comparison without a floor still has its interval, so the confirmation goes on.
                self.notice(format!("no noise floor: {message}"))?;
                Ok(None)
            }
            None => Ok(None),
        }
    }

    fn expect_pairs(&mut self) -> EngineResult {
        self.ask(self.fleet.confirming, |device, _| device.expect_pairs()).map(|_| ())
    }

    pub(super) fn confirm_one(
        &mut self,
        number: u64,
        baseline: &Deep<R>,
        floor: Option<f64>,
    ) -> EngineResult<bool> {
        let is_baseline = number == baseline.evaluation.number;
        let deep = match is_baseline {
            true => None,
            false => {
                self.expect_pairs()?;
                let Some(mut deep) = self.deep(number, false)? else { return Ok(false) };
                self.sanitize_finalist(&mut deep, false)?;
                Some(deep)
            }
        };
        let finalist = deep.as_ref().unwrap_or(baseline);
        let evaluation = &finalist.evaluation;
        let is_good = evaluation.may_rank();
        let passed = is_good && self.has_answer(evaluation)?;
        // The baseline has no rival, and a variant that failed a gate has no time worth comparing.
        let pairs = match passed && !is_baseline {
            true => self.pairs(baseline, finalist, floor)?,
            false => Vec::new(),
        };
        if !is_good {
            self.notice(format!(
                "finalist `{}` does not pass at full depth: {} {}",
                evaluation.configuration,
                evaluation.verdict.label(),
                evaluation.verdict.message
            ))?;
        }
        // An interrupted comparison lacks problems and must not be published as a confirmation.
        if self.ending.is_early() {
            return Ok(false);
        }
        let repeated = if pairs.is_empty() { None } else { self.repeated(baseline, finalist, floor)? };
        let screened_ns = self.evaluation_of(number).and_then(|screened| screened.objective_ns);
        self.study.confirm(Confirmation {
            number,
            baseline: baseline.evaluation.number,
            evaluation: evaluation.clone(),
            pairs,
            work: finalist.work.clone(),
            attributes: finalist.attributes.clone(),
            toolchain: finalist.toolchain.clone(),
            noise_floor: floor,
            repeated,
            screened_ns,
            at: now(),
            at_ms: None,
        })?;
        Ok(passed)
    }

    /// The paired comparison on every timed problem, repeated where the baseline drifts by more than the noise and that
    /// might have decided; of several attempts at a problem the one whose baseline drifted least counts.
    fn pairs(
        &mut self,
        baseline: &Deep<R>,
        finalist: &Deep<R>,
        floor: Option<f64>,
    ) -> EngineResult<Vec<PairedProblem>> {
        let noise_floor = floor.unwrap_or(0.0);
        let most = noise_floor.max(DRIFT_MAX);
        let drift = |pair: &PairedProblem| pair.baseline_drift.unwrap_or(0.0);
        let mut best: BTreeMap<usize, PairedProblem> = BTreeMap::new();
        let mut problems: Vec<usize> = (0..finalist.work.len()).collect();
        for _ in 0..PAIR_ATTEMPTS {
            if problems.is_empty() || self.ending.is_early() {
                break;
            }
            let began = self.wall.elapsed();
            // Every comparison is made once; only a repetition needs room.
            if !best.is_empty() && !self.wall.fits_pairs(problems.len()) {
                break;
            }
            let lane = self.fleet.confirming;
            let answers = self.compare_on(lane, baseline, finalist, problems.clone(), floor)?;
            let Some(answers) = answers else { break };
            let rounds = answers.iter().flatten().map(|pair| pair.processes).max().or(Some(1));
            self.wall.costs.note_pairs(self.wall.elapsed().saturating_sub(began), rounds, answers.len());
            for (problem, answer) in std::mem::take(&mut problems).into_iter().zip(answers) {
                match answer {
                    Ok(pair) => {
                        // A variant that takes half as long is faster, whatever a percent of drift does to it.
                        if drift(&pair) > most && paired::hangs_on_drift(&pair, drift(&pair), noise_floor) {
                            problems.push(problem);
                        }
                        if best.get(&problem).is_none_or(|best| drift(&pair) < drift(best)) {
                            best.insert(problem, pair);
                        }
                    }
                    // An attempt that fails after a good one takes nothing away from that one.
                    Err(_) if best.contains_key(&problem) => {}
                    Err(message) => self.notice(format!("no paired comparison: {message}"))?,
                }
            }
        }
        Ok(best.into_values().collect())
    }

    pub(super) fn compare_on(
        &mut self,
        lane: usize,
        baseline: &Deep<R>,
        finalist: &Deep<R>,
        problems: Vec<usize>,
        floor: Option<f64>,
    ) -> EngineResult<Option<Vec<PairAnswer>>> {
        let (baseline, finalist) = (baseline.job.clone(), finalist.job.clone());
        let (noise_floor, within) = (floor.unwrap_or(0.0), self.wall.left());
        let rivals = Rivals { baseline, finalist, problems, noise_floor, within };
        self.ask(lane, move |device, _| device.pair(&rivals))
    }

    pub(super) fn notice(&mut self, message: String) -> EngineResult {
        self.study.note(message.clone())?;
        self.observer.observe(&Event::Notice { message });
        Ok(())
    }

    pub(super) fn confirm_specialists(
        &mut self,
        ranked: &[u64],
        baseline: &Deep<R>,
        noise_floor: Option<f64>,
    ) -> EngineResult<usize> {
        let times = self.times_by_problem(ranked);
        let number = baseline.evaluation.number;
        let (mut passed, mut failed) = (0, BTreeSet::new());
        // As many as there are finalists; where problems were searched apart, one for each problem if need be.
        let header = self.study.header();
        let problems = if header.per_problem { header.problems.len() } else { 0 };
        let most = self.options.finalists.max(problems);
        // A specialist that fails at full depth makes room for another one.
        for _ in 0..2 * most {
            let confirmed: BTreeSet<u64> =
                ranked.iter().copied().filter(|own| self.is_confirmed(*own, number)).collect();
            let left = specialists(&times, &confirmed, &failed);
            let next = left.first().copied();
            let Some(next) = next.filter(|_| passed < most && !self.ending.is_early()) else {
                break;
            };
            if !self.wall.fits_finalist() {
                self.undone.left_out += 1;
                break;
            }
            let of = (passed + left.len()).min(most);
            self.tell_confirming(passed + 1, of);
            match self.confirm_one(next, baseline, noise_floor)? {
                true => passed += 1,
                false => drop(failed.insert(next)),
            }
        }
        Ok(passed)
    }

    fn times_by_problem(&self, ranked: &[u64]) -> Vec<(u64, Vec<f64>)> {
        let header = self.study.header();
        let (problems, mode) = (&header.problems, header.ranking.timing());
        let times = |number: &u64| {
            let adjusted = self.fleet.adjusted.get(number).map(|(_, own)| own);
            let own = adjusted.or_else(|| Some(&self.evaluation_of(*number)?.measurements))?;
            let own = own.iter().filter(|one| one.mode == mode);
            let known: BTreeMap<&str, f64> = own.map(|one| (one.problem.as_str(), one.p50_ns)).collect();
            let all: Option<Vec<f64>> =
                problems.iter().map(|name| known.get(name.as_str()).copied()).collect();
            Some((*number, all?))
        };
        ranked.iter().filter_map(times).collect()
    }
}

/// The variants to confirm next, those that serve most problems first. `times` has each variant's time on each problem,
/// in the order of their means; `confirmed` and `failed` are not proposed.
fn specialists(times: &[(u64, Vec<f64>)], confirmed: &BTreeSet<u64>, failed: &BTreeSet<u64>) -> Vec<u64> {
    let usable: Vec<&(u64, Vec<f64>)> = times.iter().filter(|(number, _)| !failed.contains(number)).collect();
    let problems = usable.first().map_or(0, |(_, own)| own.len());
    let least = |problem: usize, among: &dyn Fn(u64) -> bool| {
        let own = usable.iter().filter(|(number, _)| among(*number)).map(|(_, own)| own[problem]);
        own.fold(f64::INFINITY, f64::min)
    };
    let open: Vec<(usize, f64)> = (0..problems)
        .map(|problem| (problem, least(problem, &|_| true)))
        .filter(|(problem, best)| {
            least(*problem, &|number| confirmed.contains(&number)) > best * (1.0 + NEAR)
        })
        .collect();
    if open.is_empty() {
        return Vec::new();
    }
    let others: Vec<&&(u64, Vec<f64>)> =
        usable.iter().filter(|(number, _)| !confirmed.contains(number)).collect();
    let rows: Vec<Vec<f64>> = others
        .iter()
        .map(|(_, own)| open.iter().map(|(problem, best)| own[*problem] / best).collect())
        .collect();
    let served = |row: &Vec<f64>| row.iter().filter(|factor| **factor <= 1.0 + NEAR).count();
    let mut members = smallest(&rows, NEAR).map_or(Vec::new(), |own| own.members);
    members.sort_by_key(|own| (std::cmp::Reverse(served(&rows[*own])), *own));
    members.into_iter().map(|own| others[own].0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(times: &[(u64, &[f64])], confirmed: &[u64], failed: &[u64], expected: &[u64]) {
        let times: Vec<(u64, Vec<f64>)> = times.iter().map(|(number, own)| (*number, own.to_vec())).collect();
        let set = |own: &[u64]| own.iter().copied().collect::<BTreeSet<u64>>();
        assert_eq!(specialists(&times, &set(confirmed), &set(failed)), expected);
    }

    #[test]
    fn problems_that_nobody_serves_get_the_fewest_specialists() {
        let times: &[(u64, &[f64])] = &[
            (1, &[100.0, 100.0, 100.0]),
            (2, &[90.0, 130.0, 130.0]),
            (3, &[150.0, 80.0, 120.0]),
            (4, &[150.0, 81.0, 60.0]),
        ];
        check(times, &[1], &[], &[4, 2]);
        check(times, &[1, 4], &[], &[2]);
        check(times, &[1, 2, 4], &[], &[]);
        // Without the one that serves two, each gets its own.
        check(times, &[1, 2], &[4], &[3]);
        check(times, &[], &[1, 2, 3, 4], &[]);
        check(&[(1, &[100.0]), (2, &[101.0])], &[1], &[], &[]);
        // Within 2 % of the fastest is served.
        check(&[(1, &[100.0, 50.0]), (2, &[98.5, 60.0])], &[1], &[], &[]);
    }
}
