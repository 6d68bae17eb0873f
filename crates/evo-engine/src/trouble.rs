//! Trouble that no variant is to blame for: killed processes, missing tools and folders, a harness that fails.
//!
//! Such a variant is tried once more, on its own and from the beginning. If that fails too, the journal keeps it
//! as `not_final`: it uses no budget, the strategy learns nothing from it, and the next `--resume` tries it
//! again. A machine on which this happens often gives no results worth having, so the run then stops and says
//! what is wrong.

use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::{Verdict, VerdictClass};
use evo_search::strategy::Outcome;
use evo_space::genome::Genome;

use super::doubt::{RunTrouble, Weight, weigh};
use super::error::EngineError;
use super::ports::Recipe;
use super::run::Engine;
use super::variant::Variant;
use evo_journal::budget::StopReason;
use evo_report::event::Event;

impl<R: Recipe> Engine<'_, R> {
    /// Weighs a verdict on a variant in flight.
    pub(super) fn weigh(&self, number: u64, verdict: &Verdict) -> Weight {
        let first = self.flight.variants.get(&number).and_then(|variant| variant.trouble.as_deref());
        match weigh(first, verdict) {
            // A run that ends does not try again; the next one does.
            Weight::Again if self.ending.stop.is_some_and(StopReason::is_cut) => Weight::NotFinal,
            weight => weight,
        }
    }

    /// Sets a variant aside, to be tried again on its own from the beginning.
    pub(super) fn try_again(&mut self, number: u64, verdict: Verdict) -> Result<(), EngineError> {
        let Some(mut variant) = self.flight.variants.remove(&number) else { return Ok(()) };
        let message = format!("`{}` is tried again: {}", variant.configuration, first_line(&verdict));
        variant.trouble = Some(Box::new(verdict));
        let waiting = self.forget_work(&variant);
        self.flight.retries.push_back(variant.restarted());
        self.notice(message)?;
        self.restart(waiting)
    }

    /// Ends a variant in flight without a verdict.
    pub(super) fn give_up(&mut self, evaluation: Evaluation) -> Result<(), EngineError> {
        let Some(variant) = self.flight.variants.remove(&evaluation.number) else { return Ok(()) };
        let waiting = self.forget_work(&variant);
        self.record_trouble(&variant.genome, evaluation)?;
        self.restart(waiting)
    }

    /// Records a variant without a verdict, and stops the run when there are too many.
    pub(super) fn record_trouble(
        &mut self,
        genome: &Genome,
        mut evaluation: Evaluation,
    ) -> Result<(), EngineError> {
        self.study.record_not_final(&mut evaluation)?;
        self.ledger.known.insert(genome.clone());
        // Strategies take nothing from this class, and wait for no other answer.
        self.strategy.tell(&Outcome::new(genome.clone(), VerdictClass::Harness, None));
        // Its place in the budget goes to another variant.
        if matches!(self.ending.stop, Some(StopReason::Evaluations | StopReason::Generations)) {
            self.ending.stop = None;
        }
        let evaluated = self.counted() - self.ledger.finished_before;
        let stop = self.undone.troubles.note_trouble(&evaluation.verdict, evaluated);
        self.observer.observe(&Event::NotFinal { evaluation: Box::new(evaluation) });
        let Some(stop) = stop.filter(|_| !self.ending.is_early()) else { return Ok(()) };
        self.stop_for(stop)
    }

    /// Ends the run because of the machine.
    pub(super) fn stop_for(&mut self, trouble: RunTrouble) -> Result<(), EngineError> {
        self.study.note(trouble.text.clone())?;
        self.undone.troubles.stopped = Some(trouble);
        self.abandon(StopReason::Harness);
        Ok(())
    }

    /// Forgets what a variant's twins would take from it; gives those that wait for it. Its source is compiled
    /// again as well, because what the cache held for it may be gone.
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

    /// Takes variants that waited for another through all stages by themselves.
    pub(super) fn restart(&mut self, numbers: Vec<u64>) -> Result<(), EngineError> {
        for number in numbers {
            if let Some(variant) = self.flight.variants.remove(&number) {
                self.begin(variant.restarted())?;
            }
        }
        Ok(())
    }
}

fn first_line(verdict: &Verdict) -> &str {
    verdict.message.lines().next().unwrap_or_default()
}
