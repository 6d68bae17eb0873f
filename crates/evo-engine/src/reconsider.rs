//! Variants that are not worth running. When the device could take a variant, the strategy is asked once
//! more, because by then it knows what the compiler reports. Where a variant waited for a compiler while other
//! outcomes came, the strategy is asked before it is compiled as well.
//!
//! A variant that is passed over has its own verdict, which is neither a failure nor a measurement. It
//! counts against no budget of evaluations, since it cost a compilation and no device time.

use evo_protocol::evaluation::Evaluation;

use super::error::EngineError;
use super::ports::Recipe;
use super::run::Engine;
use super::variant::Twin;
use evo_journal::budget::StopReason;

/// After this many in a row the next variant runs without asking: a wrong model must meet evidence,
/// and a run must come to its end.
const IN_A_ROW: u32 = 31;

impl<R: Recipe> Engine<'_, R> {
    /// Evaluations that count against a budget.
    pub(super) fn counted(&self) -> u64 {
        self.study.history.evaluations.len() as u64 - self.ledger.uncounted
    }

    /// The evaluations of a bookkeeping slice: a generation's worth of counted evaluations, and the
    /// variants that were passed over between them.
    pub(super) fn slice(&self, generation: u32) -> &[Evaluation] {
        let all = &self.study.history.evaluations;
        let first = u64::from(generation) * u64::from(self.options.population.get());
        let start = position_after(all, first);
        &all[start..position_after(all, first + u64::from(self.options.population.get())).max(start)]
    }

    /// Whether to run a compiled variant. The default configuration always runs, because others are
    /// compared with it. So does a variant that was in flight at a crash. Without facts there is nothing
    /// new to ask about.
    pub(super) fn is_worth_running(&mut self, number: u64) -> bool {
        let Some(variant) = self.flight.variants.get(&number) else { return true };
        let Some(facts) = variant.build.facts.filter(|_| !self.options.run_all) else { return true };
        let is_exempt = variant.runs_alone() || variant.genome == self.space.default_genome();
        let worth = is_exempt
            || self.ledger.passed_over_in_a_row >= IN_A_ROW
            || self.strategy.reconsider(&variant.genome, &facts);
        self.ledger.passed_over_in_a_row = if worth { 0 } else { self.ledger.passed_over_in_a_row + 1 };
        worth
    }

    /// Whether to compile a variant that waited. Only if an outcome came meanwhile is there anything new to ask about.
    pub(super) fn is_worth_compiling(&mut self, number: u64) -> bool {
        let Some(variant) = self.flight.variants.get(&number) else { return true };
        let has_news = self.study.history.evaluations.len() > variant.known;
        let is_exempt = variant.runs_alone() || variant.genome == self.space.default_genome();
        if !has_news || is_exempt || self.options.run_all || self.ledger.passed_over_in_a_row >= IN_A_ROW {
            return true;
        }
        let worth = self.strategy.is_worth_compiling(&variant.genome);
        // A variant that is compiled may still be passed over, so only one that is run ends the row.
        self.ledger.passed_over_in_a_row += u32::from(!worth);
        worth
    }

    /// Ends a variant without compiling it. Variants that wait for its source are queued on their own: their
    /// launches may be others.
    pub(super) fn pass_over_uncompiled(&mut self, number: u64) -> Result<(), EngineError> {
        let Some(variant) = self.flight.variants.remove(&number) else { return Ok(()) };
        self.make_room();
        let waiting = self.forget_work(&variant);
        self.record(&variant.genome, variant.not_compiled())?;
        self.restart(waiting)
    }

    /// The run stopped proposing because the variants in flight would use up the budget. One that does not count
    /// leaves room for one more.
    fn make_room(&mut self) {
        if matches!(self.ending.stop, Some(StopReason::Evaluations | StopReason::Generations)) {
            self.ending.stop = None;
        }
    }

    /// Ends a compiled variant without running it. Variants that wait for its result end too: they have
    /// the same code and the same launches.
    pub(super) fn pass_over(&mut self, number: u64) -> Result<(), EngineError> {
        let Some(variant) = self.flight.variants.get(&number) else { return Ok(()) };
        let (evaluation, code) = (variant.passed_over(), variant.code.clone());
        self.make_room();
        self.settle(evaluation)?;
        let Some(code) = code else { return Ok(()) };
        let waiting = Twin::resolve(self.twins.codes.get_mut(&code), ());
        // `resolve` has marked the code as measured, which it is not: a later twin must be asked about again.
        self.twins.codes.remove(&code);
        for twin in waiting {
            self.settle_as_twin(twin, number)?;
        }
        Ok(())
    }
}

/// The first position that has `counted` evaluations that count before it, or the end.
fn position_after(all: &[Evaluation], counted: u64) -> usize {
    let mut seen = 0;
    let before = |one: &&Evaluation| {
        let within = seen < counted;
        seen += u64::from(one.is_counted());
        within
    };
    all.iter().take_while(before).count()
}
