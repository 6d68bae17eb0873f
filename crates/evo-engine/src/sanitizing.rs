//! Variants under a sanitizer: the finalists, and the best of every so many generations once the search is over.
//!
//! The lane asks the sanitizer, so it never runs while something is timed on the same device. What it finds is written
//! down before anything acts on it, and a resumed study takes an answer over instead of asking for it again.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::{Gate, GateState};

use super::confirm::{Deep, Rebuilt};
use super::error::EngineError;
use super::lane::Task;
use super::ports::{LaneAnswer, NoSanitizer, Recipe, SanitizerAnswer};
use super::run::Engine;
use evo_journal::record::{SanitizedVariant, now};

impl<R: Recipe> Engine<'_, R> {
    /// Looks at a finalist that passed. What is found is its verdict.
    pub(super) fn sanitize_finalist(
        &mut self,
        deep: &mut Deep<R>,
        is_baseline: bool,
    ) -> Result<(), EngineError> {
        if !self.options.sanitize.finalists || !deep.evaluation.may_rank() || self.ending.is_early() {
            return Ok(());
        }
        let within = self.time.wall.left_to_sanitizer(is_baseline);
        if let Some(answer) = self.sanitized(&deep.evaluation, &deep.job, within)? {
            answer.told(&mut deep.evaluation);
        }
        Ok(())
    }

    /// Whether the sanitizer's answer is there, where it is demanded.
    pub(super) fn has_answer(&mut self, evaluation: &Evaluation) -> Result<bool, EngineError> {
        let report = evaluation.gate(Gate::Sanitize);
        let has_passed = report.is_some_and(|report| report.state == GateState::Pass);
        if has_passed || !self.options.sanitize.demanded || !evaluation.may_rank() {
            return Ok(true);
        }
        let why = report.map_or(String::new(), |report| format!(": {}", report.message));
        let finalist = &evaluation.configuration;
        self.notice(format!(
            "`{finalist}` is not confirmed: compute-sanitizer is demanded and gave no answer{why}"
        ))?;
        Ok(false)
    }

    /// Looks at the best of every so many generations, as far as time allows. They come last, because the board needs
    /// the finalists.
    pub(super) fn sanitize_generations(&mut self) -> Result<(), EngineError> {
        let Some(every) = self.options.sanitize.every.filter(|_| self.sanitizer.is_there) else {
            return Ok(());
        };
        for number in self.due(every) {
            let within = self.time.wall.left();
            if self.ending.is_early() || !self.time.wall.fits_look(within) {
                return Ok(());
            }
            let Some(Rebuilt { screened, job, .. }) = self.rebuilt(number, None)? else { continue };
            let Some(answer) = self.sanitized(&screened, &job, within)? else { continue };
            if let Some(verdict) = &answer.verdict {
                // Its file has the verdict of before.
                self.undone.unwritten.push(screened.generation);
                let (generation, label) = (screened.generation + 1, verdict.label());
                self.notice(format!(
                    "`{}`, the best of generation {generation}: {label}: {}",
                    screened.configuration, verdict.message
                ))?;
            }
        }
        Ok(())
    }

    /// The best of every so many generations, without those that have an answer.
    fn due(&self, every: NonZeroU32) -> Vec<u64> {
        let mut best = BTreeMap::<u32, (f64, u64)>::new();
        for one in &self.study.history.evaluations {
            let is_own = one.is_timed() && one.duplicate_of.is_none() && one.taken_over_from.is_none();
            let is_due = (one.generation + 1).is_multiple_of(every.get());
            let Some(objective) = one.objective_ns.filter(|_| is_own && is_due) else { continue };
            let place = best.entry(one.generation).or_insert((objective, one.number));
            if objective < place.0 {
                *place = (objective, one.number);
            }
        }
        let answered = |number: &u64| {
            let evaluation = self.ledger.index.get(number).map(|at| &self.study.history.evaluations[*at]);
            evaluation.is_some_and(|one| self.known(one).is_some())
        };
        best.into_values().map(|(_, number)| number).filter(|number| !answered(number)).collect()
    }

    /// The answer of an earlier look at the same code.
    fn known(&self, evaluation: &Evaluation) -> Option<SanitizerAnswer> {
        let known = self.study.history.sanitized.get(&evaluation.number)?;
        let is_same = known.code_hash.is_some() && known.code_hash == evaluation.code_hash;
        (is_same && known.report.state != GateState::NotRun).then(|| SanitizerAnswer {
            report: known.report.clone(),
            verdict: known.verdict.clone(),
            looked: false,
        })
    }

    /// An answer, old or new; `None` when the run has to end.
    fn sanitized(
        &mut self,
        evaluation: &Evaluation,
        job: &R::Job,
        within: Option<Duration>,
    ) -> Result<Option<SanitizerAnswer>, EngineError> {
        if let Some(known) = self.known(evaluation) {
            return Ok(Some(known));
        }
        // A comparison is worth more than a look that nobody demands.
        if self.sanitizer.is_there && !self.options.sanitize.demanded && !self.time.wall.fits_look(within) {
            return Ok(Some(NoSanitizer("no time was left for compute-sanitizer").answer()));
        }
        let began = self.time.wall.elapsed();
        let configuration = evaluation.configuration.clone();
        let look = Task::Sanitize { job: Box::new(job.clone()), configuration, within };
        self.lanes.send(self.fleet.confirming, look);
        let Some(LaneAnswer::Sanitized(answer)) = self.lane_answer()? else { return Ok(None) };
        let took = self.time.wall.elapsed().saturating_sub(began);
        let is_missing = answer.report.state == GateState::NotRun;
        if answer.looked || self.options.sanitize.demanded {
            let tally = self.sanitizer.tally.get_or_insert_default();
            tally.variants += u64::from(answer.looked);
            tally.findings += u64::from(answer.verdict.is_some());
            tally.unanswered += u64::from(is_missing);
            tally.seconds += took.as_secs_f64();
        }
        if answer.looked {
            self.time.wall.costs.note_sanitizer(took);
            self.study.sanitized(SanitizedVariant {
                number: evaluation.number,
                configuration_hash: evaluation.configuration_hash.clone(),
                code_hash: evaluation.code_hash.clone(),
                report: answer.report.clone(),
                verdict: answer.verdict.clone(),
                at: now(),
                at_ms: None,
            })?;
        }
        Ok(Some(*answer))
    }
}
