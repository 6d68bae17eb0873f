//! What happens to a variant at each stage, from proposal to verdict.

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use evo_compile::full_cache;
use evo_journal::budget::StopReason;
use evo_journal::error::JournalError;
use evo_protocol::evaluation::{Evaluation, Expectation};
use evo_protocol::verdict::{Gate, VerdictClass};
use evo_report::event::Event;
use evo_search::strategy::Outcome;
use evo_space::genome::{ContentHash, Genome};
use evo_supervise::job::{Judgement, Standing};

use crate::ahead::{Ahead, Need, fixed, lane_depth};
use crate::carry::{improve, problem_times};
use crate::lane::LaneJob;
use crate::ports::{CompileAnswer, Message, Recipe, Refused};
use crate::run::{Engine, TICK};
use crate::trouble::{EngineError, EngineResult, RunTrouble, Weight, weigh};
use crate::variant::{Twin, Variant, code_and_plan};

impl<R: Recipe> Engine<'_, R> {
    pub(super) fn propose(&mut self) -> EngineResult<usize> {
        self.feed_compilers()?;
        let ahead = self.look_ahead();
        let mut proposed = 0;
        // Variants that are refused at once never enter the flight, and the device must be fed in between.
        while proposed < ahead && self.flight.variants.len() < ahead {
            // Such a variant shares machine and device with no other, so that another crash is certainly its own.
            if self.flight.variants.values().any(Variant::runs_alone) {
                break;
            }
            // A retry belongs to what was proposed before the run began to end.
            let next = match self.ending.stop {
                None => self.next_variant(),
                Some(_) if self.flight.variants.is_empty() => self.flight.again.pop_front(),
                Some(_) => None,
            };
            let Some(variant) = next else { break };
            proposed += 1;
            self.begin(variant)?;
            self.feed_compilers()?;
        }
        Ok(proposed)
    }

    fn look_ahead(&self) -> usize {
        let (jobs, evaluated) = (self.compilers.jobs(), self.counted());
        if !self.compilers.are_timed() {
            return fixed(jobs, evaluated, self.lanes.live());
        }
        let is_limited = self.options.evaluations_max().is_some();
        let lanes = self.lanes.live();
        let useful = self.strategy.useful_in_flight(lanes);
        self.ahead.target(Need { jobs, evaluated, learns: self.strategy.learns(), lanes, is_limited, useful })
    }

    /// As late as they can be busy all the same.
    pub(super) fn feed_compilers(&mut self) -> EngineResult {
        let jobs = self.compilers.jobs();
        while self.flight.compiling < Ahead::depth(jobs) {
            let Some(number) = self.flight.waiting.pop_front() else { break };
            let Some(variant) = self.flight.variants.get(&number) else { continue };
            let Some((prepared, _)) = &variant.prepared else { continue };
            self.flight.compiling += 1;
            self.ahead.submitted(number, jobs, self.wall.elapsed());
            let configuration = variant.configuration.clone();
            self.observer.observe(&Event::Compiling { number, configuration });
            self.compilers.submit(number, prepared);
        }
        Ok(())
    }

    /// The next variant: first those that run again, then the strategy's.
    fn next_variant(&mut self) -> Option<Variant<R::Prepared>> {
        let alone = self.flight.variants.is_empty();
        if let Some(first) = self.flight.again.front() {
            // It waits until nothing else is in flight, so that a second crash strikes no other variant. With many
            // lanes many were in flight, and one after the other they would take long.
            let may_run = alone || self.fleet.is_several() && !first.runs_alone();
            return if may_run { self.flight.again.pop_front() } else { None };
        }
        // `pass_over` gives the place back.
        let under_way = self.counted() + self.flight.variants.len() as u64;
        if let Some((limit, reason)) = self.options.evaluations_max()
            && under_way >= limit
        {
            self.ending.stop = Some(reason);
            return None;
        }
        // A strategy may repeat itself, or propose a point that an earlier run evaluated.
        while let Some(proposal) = self.strategy.ask(1).pop() {
            if self.ledger.known.insert(proposal.genome.clone()) {
                let configuration = self.space.configuration(&proposal.genome);
                let number = self.ledger.take_number();
                let mut variant =
                    Variant::new(number, proposal.genome, configuration, proposal.origin.0, false);
                // NaN and infinity have no JSON form that the journal could read back.
                variant.expected = proposal.expected.filter(Expectation::is_sound);
                let problems = &self.study.header().problems;
                variant.aimed_at = proposal.target.and_then(|at| problems.get(at).cloned());
                return Some(variant);
            }
        }
        // The strategy may propose again once it has heard the verdicts of what is in flight.
        let is_done = self.strategy.is_done();
        if is_done || alone {
            let reason = if is_done { StopReason::SpaceExhausted } else { StopReason::StrategyDone };
            self.ending.stop = Some(reason);
        }
        None
    }

    pub(super) fn begin(&mut self, mut variant: Variant<R::Prepared>) -> EngineResult {
        let number = variant.number;
        if let Err(evaluation) = variant.prepare(self.recipe) {
            self.flight.variants.insert(number, variant);
            return match self.if_final(*evaluation)? {
                Some(evaluation) => self.settle(evaluation),
                None => Ok(()),
            };
        }
        let Some(variant) = self.take_over_source(variant)? else { return Ok(()) };
        let Some(key) = variant.source_key() else { return Ok(()) };
        self.flight.variants.insert(number, variant);
        match self.twins.sources.get_mut(&key) {
            Some(Twin::Pending { waiting, .. }) => waiting.push(number),
            Some(Twin::Known { .. }) => self.built(number, &key)?,
            None => {
                // A variant with the same source that is proposed meanwhile waits for this one.
                self.twins.sources.insert(key, Twin::Pending { owner: number, waiting: Vec::new() });
                self.flight.waiting.push_back(number);
            }
        }
        Ok(())
    }

    pub(super) fn compiled(&mut self, number: u64, answer: CompileAnswer<R::Binary>) -> EngineResult {
        // Saturating, because `abandon` sets the count to 0 while answers are under way.
        self.flight.compiling = self.flight.compiling.saturating_sub(1);
        self.ahead.answered(number, self.wall.elapsed());
        self.feed_compilers()?;
        // A full disk is not this variant's fault, and the next variants would fail in the same way.
        if let Some(message) = full_cache(&answer) {
            return Err(EngineError::CacheFull(message));
        }
        // The variant was abandoned while it was compiled.
        let Some(variant) = self.flight.variants.get(&number) else { return Ok(()) };
        let Some(key) = variant.source_key() else { return Ok(()) };
        // The hash that is compiled into the binary. The launch gate must expect this one for twins too.
        let hash = variant.configuration.hash();
        if let Err(verdict) = &answer {
            let refused = variant.refused(Refused { gate: Gate::Compile, verdict: verdict.clone() });
            if self.if_final(*refused)?.is_none() {
                return Ok(());
            }
        }
        let answer = (answer, hash);
        let waiting = Twin::resolve(self.twins.sources.get_mut(&key), answer);
        self.built(number, &key)?;
        for twin in waiting {
            self.built(twin, &key)?;
        }
        Ok(())
    }

    pub(super) fn built(&mut self, number: u64, key: &ContentHash) -> EngineResult {
        let Some(Twin::Known { owner, answer: (answer, variant_hash) }) = self.twins.sources.get(key) else {
            return Ok(());
        };
        let Some(variant) = self.flight.variants.get_mut(&number) else { return Ok(()) };
        // Only the first variant with a source has paid for its compilation.
        let twin_of = (*owner != number).then_some(*owner);
        match variant.job(self.recipe, answer, variant_hash, None) {
            Err(mut evaluation) => {
                if twin_of.is_some() {
                    evaluation.compile_ms = 0.0;
                    evaluation.duplicate_of = twin_of.filter(|_| answer.is_err());
                }
                self.settle(*evaluation)
            }
            Ok(job) => {
                if twin_of.is_some() {
                    variant.build.compile_ms = 0.0;
                }
                let code = variant.code_key();
                self.queue(number, code, job)
            }
        }
    }

    /// Queues a job for the lane, unless a variant with the same machine code and plan has run or is queued.
    fn queue(&mut self, number: u64, code: Option<ContentHash>, job: R::Job) -> EngineResult {
        let is_known = code.as_ref().is_some_and(|code| self.twins.codes.contains_key(code));
        // Measured by another study, or before an edit of the source that left the machine code alone.
        if !is_known && self.take_over_code(number, code.as_ref())? {
            return Ok(());
        }
        match code.as_ref().and_then(|code| self.twins.codes.get_mut(code)) {
            Some(Twin::Pending { waiting, .. }) => waiting.push(number),
            Some(Twin::Known { owner, .. }) => {
                let owner = *owner;
                self.settle_as_twin(number, owner)?;
            }
            None => {
                // Unknown code shares nothing: the variant always runs.
                if let Some(code) = &code {
                    self.twins
                        .codes
                        .insert(code.clone(), Twin::Pending { owner: number, waiting: Vec::new() });
                }
                if let Some(variant) = self.flight.variants.get_mut(&number) {
                    // On the first variant with this code only: `evaluated` and `pass_over` resolve by it.
                    variant.code = code;
                }
                self.flight.ready.insert(number, job);
            }
        }
        Ok(())
    }

    pub(super) fn feed_lane(&mut self) -> EngineResult {
        // Messages may come faster than the loop looks at the clock.
        let has_time = self.wall.left_to_search().is_none_or(|left| !left.is_zero());
        let depth = lane_depth(self.lanes.live());
        while has_time && self.flight.on_lane.len() < depth {
            let Some((number, job)) = self.flight.ready.pop_first() else { break };
            // Asked as late as possible: by now the strategy has heard more verdicts than when it proposed.
            if !self.is_worth_running(number) {
                self.pass_over(number)?;
                continue;
            }
            let Some(variant) = self.flight.variants.get(&number) else { continue };
            // Journaled before the lane has it: if evo dies now, the next run knows what was running.
            self.study.started(number, &variant.configuration, None)?;
            self.flight.on_lane.push(number);
            self.observer.observe(&Event::Evaluating { number });
            // The task before it may still improve the standing; then this variant is screened more leniently.
            let mut standing = self.standing.clone();
            if variant.genome == self.space.default_genome() {
                // What all others are compared with has to be measured: with compilers that are busy, a faster
                // variant may be there before it, and beside that one it would only be `too_slow`.
                standing = Standing::default();
                // As soon as it can be launched: the other lanes measure it while the first one judges it.
                if self.fleet.is_several() && self.fleet.anchor.is_none() {
                    self.anchor_all(number, job.clone(), 1);
                }
            }
            self.lanes.queue(LaneJob { number, job: Box::new(job), standing, avoid: None });
        }
        Ok(())
    }

    pub(super) fn evaluated(
        &mut self,
        lane: usize,
        ratio: f64,
        number: u64,
        result: Judgement,
    ) -> EngineResult {
        self.flight.on_lane.retain(|own| *own != number);
        // A lost device says nothing about the variant, so no verdict is recorded for it.
        if result.lost {
            return self.lane_lost(lane, number, result);
        }
        if !self.flight.variants.contains_key(&number) {
            return Ok(());
        }
        if let Some(recovery) = result.recovery {
            self.replaced(lane, recovery);
        }
        match self.second_look(lane, number, result)? {
            Some(result) => self.judged(lane, ratio, number, result),
            None => Ok(()),
        }
    }

    pub(super) fn judged(&mut self, lane: usize, ratio: f64, number: u64, result: Judgement) -> EngineResult {
        let Some(variant) = self.flight.variants.get(&number) else { return Ok(()) };
        let code = variant.code.clone();
        let mut evaluation = variant.judged(result);
        self.fleet.sign(lane, ratio, &mut evaluation);
        let Some(evaluation) = self.if_final(evaluation)? else { return Ok(()) };
        let several = self.fleet.is_several().then(|| evaluation.clone());
        // The original is settled before its twins, which copy their result from the history.
        self.settle(evaluation)?;
        if let Some(evaluation) = several {
            self.anchor_judged(lane, ratio, &evaluation)?;
        }
        let Some(code) = code else { return Ok(()) };
        let waiting = Twin::resolve(self.twins.codes.get_mut(&code), ());
        for twin in waiting {
            self.settle_as_twin(twin, number)?;
        }
        Ok(())
    }

    pub(super) fn device_lost(&mut self, number: u64, result: &Judgement) -> EngineResult {
        // The next in the lane's queue hears of the same loss.
        let Some(variant) = self.flight.variants.get(&number) else { return Ok(()) };
        let (configuration, why) = (variant.configuration.to_string(), &result.verdict.message);
        if result.verdict.is_trouble() {
            self.stop_for(RunTrouble::new(why.as_str()))?;
        } else {
            self.notice(format!("the device is lost while `{configuration}` is on it: {why}"))?;
            self.abandon(StopReason::DeviceLost);
        }
        self.flight.leave_lanes();
        Ok(())
    }

    pub(super) fn settle_as_twin(&mut self, number: u64, original: u64) -> EngineResult {
        let Some(original) = self.evaluation_of(original) else { return Ok(()) };
        let Some(variant) = self.flight.variants.get(&number) else { return Ok(()) };
        let evaluation = variant.twin_of(original);
        self.settle(evaluation)
    }

    pub(super) fn settle(&mut self, evaluation: Evaluation) -> EngineResult {
        match self.flight.variants.remove(&evaluation.number) {
            Some(variant) => self.record(&variant.genome, evaluation),
            None => Ok(()),
        }
    }

    /// Records a verdict: in the journal first, then for the strategy and the observers.
    pub(super) fn record(&mut self, genome: &Genome, mut evaluation: Evaluation) -> EngineResult {
        // Position and generation count the evaluations before this one, so both are read before `record`.
        let position = self.study.history.evaluations.len();
        let counted = self.counted();
        let population = u64::from(self.options.population.get());
        evaluation.generation = (counted / population) as u32;
        let generation = evaluation.generation;
        let is_last = evaluation.is_counted() && (counted + 1).is_multiple_of(population);
        self.ledger.uncounted += u64::from(!evaluation.is_counted());
        // A strategy that learned it earlier could have acted on something that a resumed run does not know.
        self.study.record(&mut evaluation)?;
        self.clock.note_verdict(self.lanes.busy().as_secs_f64(), self.compilers.busy_seconds());
        self.undone.troubles.note_verdict();
        self.ahead.done(evaluation.device_ms / 1e3);
        let best = self.learn(position, Some(genome.clone()), &evaluation);
        let failed_default = self.failed_default(genome, &evaluation);
        if evaluation.is_timed() && *genome == self.space.default_genome() {
            self.announce_looks([evaluation.number].into_iter());
        }
        self.observer.observe(&Event::Finished { evaluation: Box::new(evaluation), best });
        failed_default.map_or(Ok(()), |message| self.notice(message))?;
        if is_last {
            self.write_generation(generation);
        }
        Ok(())
    }

    /// Takes in an evaluation of the history, which the space may not have any more; whether it is the best so far.
    pub(super) fn learn(&mut self, position: usize, genome: Option<Genome>, evaluation: &Evaluation) -> bool {
        self.ledger.index.insert(evaluation.number, position);
        if let Some(genome) = genome {
            self.ledger.known.insert(genome.clone());
            self.teach(genome, evaluation);
        }
        // What was taken over took no time on the device here, and a twin none of its own.
        let is_own = evaluation.duplicate_of.is_none() && evaluation.device_ms > 0.0;
        if is_own && evaluation.verdict.is_pass() {
            self.wall.costs.note_full(evaluation.device_ms / 1e3, evaluation.is_default());
        }
        improve(&mut self.standing, evaluation, self.study.header())
    }

    fn teach(&mut self, genome: Genome, evaluation: &Evaluation) {
        let header = self.study.header();
        let position = |name: &String| header.problems.iter().position(|own| own == name);
        let times = match header.per_problem {
            true => problem_times(evaluation, &header.problems, header.ranking),
            false => Vec::new(),
        };
        self.strategy.tell(&Outcome {
            genome,
            class: evaluation.verdict.kind.class(),
            objective_ns: evaluation.objective_ns,
            facts: evaluation.facts,
            times,
            target: evaluation.aimed_at.as_ref().and_then(position),
        });
    }

    /// A mistake in the space file or in the reference shows there first.
    fn failed_default(&self, genome: &Genome, evaluation: &Evaluation) -> Option<String> {
        let verdict = &evaluation.verdict;
        if verdict.is_pass() || !evaluation.is_counted() || *genome != self.space.default_genome() {
            return None;
        }
        Some(format!(
            "the default configuration `{}` failed: {}: {}",
            evaluation.configuration,
            verdict.label(),
            verdict.message.lines().next().unwrap_or_default()
        ))
    }

    pub(super) fn remember_code(&mut self, evaluation: &Evaluation) {
        // Only a first-hand result about the code is reused, and only from a variant that reached the device.
        let usable = evaluation.duplicate_of.is_none()
            && evaluation.verdict.kind.class() != VerdictClass::Harness
            && evaluation.gate(Gate::Launch).is_some_and(|report| report.cases > 0);
        let Some(hash) = evaluation.code_hash.as_ref().filter(|_| usable) else { return };
        if let Ok(prepared) = self.recipe.prepare(&evaluation.configuration) {
            let code = code_and_plan(hash, &self.recipe.identity(&prepared).plan);
            self.twins.codes.insert(code, Twin::Known { owner: evaluation.number, answer: () });
        }
    }

    /// Writes a slice. A view that cannot be written never stops a run: it is tried again at the end.
    fn write_generation(&mut self, generation: u32) {
        let slice = self.slice(generation);
        // A run that ends on a boundary has written its last slice already.
        if slice.is_empty() {
            return;
        }
        if let Err(error) = self.study.write_generation(generation, slice) {
            self.undone.unwritten.push(generation);
            self.warn_of_view(&error, "it is tried again at the end");
        }
        let best_ns = self.standing.objective_ns;
        self.observer.observe(&Event::Generation { generation, best_ns });
    }

    /// Writes the last slice even though it is not complete, and those that could not be written before.
    pub(super) fn write_open_generations(&mut self) {
        std::mem::take(&mut self.undone.unwritten).into_iter().for_each(|own| self.write_again(own));
        self.write_generation((self.counted() / u64::from(self.options.population.get())) as u32);
    }

    pub(super) fn write_again(&mut self, generation: u32) {
        if let Err(error) = self.study.write_generation(generation, self.slice(generation)) {
            self.warn_of_view(&error, "the journal has its evaluations");
        }
    }

    /// Says that a view is missing, and what becomes of it. Not in the journal, whose disk may be the same.
    pub(super) fn warn_of_view(&mut self, error: &JournalError, what_now: &str) {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
        self.observer.observe(&Event::Notice { message: format!("{error}{cause}; {what_now}") });
    }

    /// Waits for the lane's answer or a compiler's, outside the search. `None` once the user wants out, and when the wall
    /// time is used up; the run then ends at once.
    pub(super) fn next_message(&mut self) -> EngineResult<Option<Message<R::Binary>>> {
        // What is begun after an interrupt is not waited for either.
        while !self.ending.is_early() {
            let left = self.wall.left_with_grace();
            // At least a moment, so that what has arrived already is never left unread.
            let patience = left.map_or(TICK, |left| left.min(TICK)).max(Duration::from_millis(1));
            match self.inbox.receiver.recv_timeout(patience) {
                Ok(Message::Interrupt(count)) => self.interrupted(count),
                Ok(message) => return Ok(Some(message)),
                Err(RecvTimeoutError::Disconnected) => return Err(EngineError::Stopped("device lane")),
                Err(RecvTimeoutError::Timeout) if left.is_some_and(|left| left.is_zero()) => {
                    self.ending.at_once = true;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        Ok(None)
    }

    /// Gives an evaluation back that is final. Else its variant is set aside, to be tried again on its own from the
    /// beginning, or is given up.
    fn if_final(&mut self, evaluation: Evaluation) -> EngineResult<Option<Evaluation>> {
        let Some(variant) = self.flight.variants.get(&evaluation.number) else { return Ok(Some(evaluation)) };
        let weight = weigh(variant.trouble.as_deref(), &evaluation.verdict);
        if weight == Weight::Final {
            return Ok(Some(evaluation));
        }
        let Some(mut variant) = self.flight.variants.remove(&evaluation.number) else { return Ok(None) };
        let waiting = self.forget_work(&variant);
        // A run that ends does not try again; the next one does.
        if weight == Weight::Again && !self.ending.stop.is_some_and(StopReason::is_cut) {
            let first_line = evaluation.verdict.message.lines().next().unwrap_or_default();
            let message = format!("`{}` is tried again: {first_line}", variant.configuration);
            variant.trouble = Some(Box::new(evaluation.verdict));
            self.flight.again.push_back(variant.restarted());
            self.notice(message)?;
        } else {
            self.record_trouble(&variant.genome, evaluation)?;
        }
        self.restart(waiting).map(|()| None)
    }

    /// Records a variant without a verdict, and stops the run when there are too many in a row.
    pub(super) fn record_trouble(&mut self, genome: &Genome, mut evaluation: Evaluation) -> EngineResult {
        self.study.record_not_final(&mut evaluation)?;
        self.ledger.known.insert(genome.clone());
        // Strategies take nothing from this class, and wait for no other answer.
        self.strategy.tell(&Outcome::new(genome.clone(), VerdictClass::Harness, None));
        self.make_room();
        let stop = self.undone.troubles.note_trouble(&evaluation.verdict);
        self.observer.observe(&Event::NotFinal { evaluation: Box::new(evaluation) });
        let Some(stop) = stop.filter(|_| !self.ending.is_early()) else { return Ok(()) };
        self.stop_for(stop)
    }

    pub(super) fn stop_for(&mut self, trouble: RunTrouble) -> EngineResult {
        self.study.note(trouble.text.clone())?;
        self.undone.troubles.stopped = Some(trouble);
        self.abandon(StopReason::Harness);
        Ok(())
    }

    /// Gives the twins that wait. The source is compiled again too, because what the cache held for it may be gone.
    pub(super) fn forget_work(&mut self, variant: &Variant<R::Prepared>) -> Vec<u64> {
        let mut waiting = Vec::new();
        if let Some(twin) = variant.source_key().and_then(|key| self.twins.sources.remove(&key)) {
            waiting.extend(twin.into_waiting());
        }
        if let Some(twin) = variant.code.as_ref().and_then(|code| self.twins.codes.remove(code)) {
            waiting.extend(twin.into_waiting());
        }
        waiting
    }

    pub(super) fn restart(&mut self, numbers: Vec<u64>) -> EngineResult {
        for number in numbers {
            if let Some(variant) = self.flight.variants.remove(&number) {
                self.begin(variant.restarted())?;
            }
        }
        Ok(())
    }
}
