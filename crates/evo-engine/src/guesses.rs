//! Sources compiled before they are proposed. With a budget of evaluations few variants are under way, because each is
//! chosen with more known, and most compilers idle. They compile what the strategy would propose next as things
//! stand. What it then really proposes is often compiled already, and was still chosen with everything known.
//!
//! A guess has no number, no verdict and no line in the journal, and whether it was made changes no proposal. It is a
//! source whose answer is known before anyone asks for it.

use evo_space::genome::Genome;

use super::error::EngineError;
use super::ports::{CompileAnswer, Recipe};
use super::run::Engine;
use super::state::FIRST_TICKET;
use super::variant::Twin;
use evo_compile::full_cache;

/// One in this many compile processes is left to variants, so that one that was not guessed does not wait.
const RESERVED: usize = 4;

/// Guesses are made when so many processes idle: asking the strategy takes as long as a proposal.
const LEAST: usize = 3;

impl<R: Recipe> Engine<'_, R> {
    /// Keeps idle compilers busy with what is likely to be proposed.
    pub(super) fn guess(&mut self) {
        let known = self.study.history.evaluations.len();
        let is_asked = self.speculation.guesses.asked_at == Some(known);
        // Without a limit on evaluations the compilers have enough to do.
        if is_asked || !self.may_guess() {
            return;
        }
        let jobs = self.compilers.jobs();
        let free = jobs.saturating_sub(jobs.div_ceil(RESERVED));
        let free = free.saturating_sub(self.flight.compiling + self.speculation.guesses.running.len());
        if free < LEAST.min(jobs) {
            return;
        }
        self.speculation.guesses.asked_at = Some(known);
        let mut made = 0;
        for genome in self.strategy.likely(jobs) {
            if made == free {
                break;
            }
            made += usize::from(self.compile_guess(&genome));
        }
    }

    fn may_guess(&self) -> bool {
        let under_way = self.counted() + self.flight.variants.len() as u64;
        let has_room = self.options.evaluations_max().is_some_and(|(limit, _)| under_way < limit);
        let waits = self.flight.waiting.is_empty() && self.compilers.are_timed();
        has_room && waits && self.ending.stop.is_none() && !self.compilers.disturb_timing()
    }

    /// Whether it was sent to the compilers.
    fn compile_guess(&mut self, genome: &Genome) -> bool {
        if self.ledger.known.contains(genome) {
            return false;
        }
        let configuration = self.space.configuration(genome);
        // Refusals are told when it is proposed.
        let Ok(prepared) = self.recipe.prepare(&configuration) else { return false };
        let key = self.recipe.identity(&prepared).source;
        if self.twins.sources.contains_key(&key) {
            return false;
        }
        let ticket = FIRST_TICKET + self.speculation.guesses.made;
        self.speculation.guesses.made += 1;
        self.twins.sources.insert(key.clone(), Twin::Pending { owner: ticket, waiting: Vec::new() });
        self.speculation.guesses.running.insert(ticket, (key, configuration.hash()));
        self.compilers.submit(ticket, &prepared);
        true
    }

    /// A compiler's answer to a guess; variants with that source may wait for it.
    pub(super) fn guessed(
        &mut self,
        ticket: u64,
        answer: CompileAnswer<R::Binary>,
    ) -> Result<(), EngineError> {
        let Some((key, hash)) = self.speculation.guesses.running.remove(&ticket) else { return Ok(()) };
        if let Some(message) = full_cache(&answer) {
            return Err(EngineError::CacheFull(message));
        }
        // What says nothing about the source is not kept: who waits has it compiled in its own name.
        if answer.as_ref().is_err_and(|verdict| verdict.is_trouble()) {
            let waiting = self.twins.sources.remove(&key).map(Twin::into_waiting);
            return self.restart(waiting.unwrap_or_default());
        }
        let waiting = Twin::resolve(self.twins.sources.get_mut(&key), (answer, hash));
        for number in waiting {
            self.built(number, &key)?;
        }
        Ok(())
    }

    /// The search is over: nothing that it may have proposed is compiled any more.
    pub(super) fn give_up_guesses(&mut self) {
        if self.speculation.guesses.running.is_empty() {
            return;
        }
        self.compilers.cancel();
        for (_, (key, _)) in self.speculation.guesses.running.drain() {
            self.twins.sources.remove(&key);
        }
    }
}
