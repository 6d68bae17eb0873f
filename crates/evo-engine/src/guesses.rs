//! Sources compiled before they are proposed. With a budget of evaluations few variants are under way, because each is
//! chosen with more known, and most compilers idle. They compile what the strategy would propose next as things
//! stand. What it then really proposes is often compiled already, and was still chosen with everything known.
//!
//! A guess has no number, no verdict and no line in the journal, and whether it was made changes no proposal.

use evo_compile::full_cache;
use evo_space::genome::Genome;

use crate::ports::{CompileAnswer, Recipe};
use crate::run::Engine;
use crate::state::FIRST_TICKET;
use crate::trouble::EngineError;
use crate::variant::Twin;

/// One in this many compile processes is left to variants, so that one that was not guessed does not wait.
const RESERVED: usize = 4;

/// Guesses are made when so many processes idle: asking the strategy takes as long as a proposal.
const LEAST: usize = 3;

impl<R: Recipe> Engine<'_, R> {
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashSet;
    use std::sync::Arc;

    use evo_protocol::verdict::{Cause, Verdict, VerdictKind};
    use evo_search::registry::create;
    use evo_search::strategy::{Outcome, Proposal, Strategy};

    use super::*;
    use crate::fake::{Ran, TestStudy, all_pass};
    use crate::state::is_guess;

    /// Proposes the whole space in order, two at a time, and foresees the next points.
    struct Foreseeing<'a> {
        inner: Box<dyn Strategy + 'a>,
        all: Vec<Genome>,
        begun: usize,
        under_way: HashSet<Genome>,
        foresees: bool,
        asked: &'a Cell<usize>,
    }

    impl Strategy for Foreseeing<'_> {
        fn name(&self) -> &str {
            "foreseeing"
        }

        fn ask(&mut self, n: usize) -> Vec<Proposal> {
            let proposals = if self.under_way.len() < 2 { self.inner.ask(n) } else { Vec::new() };
            self.begun += proposals.len();
            self.under_way.extend(proposals.iter().map(|own| own.genome.clone()));
            proposals
        }

        fn tell(&mut self, outcome: &Outcome) {
            self.under_way.remove(&outcome.genome);
            self.inner.tell(outcome);
        }

        fn likely(&self, n: usize) -> Vec<Genome> {
            self.asked.set(self.asked.get() + 1);
            let ahead = self.all.iter().skip(self.begun).take(if self.foresees { n } else { 0 });
            // The last point of all is never wanted in time.
            ahead.chain(self.all.last()).cloned().collect()
        }

        fn is_done(&self) -> bool {
            self.inner.is_done()
        }
    }

    fn run(bench: &TestStudy, foresees: bool) -> (Ran, usize) {
        let inner = create("exhaustive", &bench.space, 1).unwrap();
        let all = bench.space.iter().collect();
        let asked = Cell::new(0);
        let strategy =
            Foreseeing { inner, all, begun: 0, under_way: HashSet::new(), foresees, asked: &asked };
        let ran = bench.run_strategy(Box::new(strategy), |_| all_pass()).unwrap();
        (ran, asked.get())
    }

    const SPACE: &str = "[parameters]\nA = [0, 1, 2, 6]\nB = [0, 1, 2]\nDEAD = [0, 1]\n";

    fn study() -> TestStudy {
        let mut bench = TestStudy::new(SPACE);
        bench.options.budget.evaluations = Some(20);
        bench.idle_compilers = true;
        bench
    }

    fn twice(sources: &[String]) -> usize {
        sources.len() - sources.iter().collect::<HashSet<_>>().len()
    }

    #[test]
    fn what_was_guessed_is_compiled_once_and_has_the_same_verdict() {
        let (blind, foreseen) = (study(), study());
        let (without, _) = run(&blind, false);
        let (with, asked) = run(&foreseen, true);
        assert!(asked > 0);
        assert_eq!(blind.verdicts(), foreseen.verdicts());
        assert_eq!(without.log.evaluated, with.log.evaluated);
        let guesses = |ran: &Ran| ran.log.compiled.iter().filter(|ticket| is_guess(**ticket)).count();
        // The one that is never wanted, and nearly everything.
        assert_eq!(guesses(&without), 1);
        assert!(guesses(&with) > 5, "{:?}", with.log.compiled);
        assert_eq!((twice(&with.log.sources), twice(&without.log.sources)), (0, 0));
        // Who came first pays for the compilation, whoever ordered it.
        let history = foreseen.open().history;
        let paid =
            history.evaluations.iter().filter(|one| one.duplicate_of.is_none() && one.verdict.is_pass());
        assert!(paid.clone().count() > 5 && paid.clone().all(|one| one.compile_ms > 0.0));
        assert!(history.evaluations.iter().all(|one| !is_guess(one.duplicate_of.unwrap_or(0))));
    }

    #[test]
    fn no_guess_where_compiling_disturbs_or_nothing_is_scarce() {
        let mut host = study();
        host.idle_compilers = false;
        assert_eq!(run(&host, true).1, 0);
        let mut endless = study();
        endless.options.budget.evaluations = None;
        assert_eq!(run(&endless, true).1, 0);
    }

    #[test]
    fn trouble_with_a_guess_is_nobodys_verdict() {
        let mut bench = study();
        // Each source fails at its first compilation, and only guesses come first.
        bench.trouble = Some(Arc::new(|source, tries| {
            let trouble =
                Verdict::new(VerdictKind::HarnessError, "the compiler was killed").with_cause(Cause::Machine);
            (tries == 1 && source != "code 0 0 // 0" && source != "code 0 1 // 0").then_some(trouble)
        }));
        let (ran, _) = run(&bench, true);
        assert_eq!(ran.summary.end.not_final, 0);
        let clean = study();
        run(&clean, true);
        assert_eq!(bench.verdicts(), clean.verdicts());
    }
}
