//! Variants that are not worth running. When the device could take a variant, the strategy is asked once more, because
//! by then it knows what the compiler reports.
//!
//! A variant that is passed over has its own verdict, and counts against no budget of evaluations.

use evo_journal::budget::StopReason;
use evo_protocol::evaluation::Evaluation;

use crate::ports::Recipe;
use crate::run::Engine;
use crate::trouble::EngineResult;
use crate::variant::Twin;

/// After so many the next variant runs unasked: a wrong model must meet evidence, and a run must come to its end.
const IN_A_ROW: u32 = 31;

impl<R: Recipe> Engine<'_, R> {
    pub(super) fn counted(&self) -> u64 {
        self.study.history.evaluations.len() as u64 - self.ledger.uncounted
    }

    /// A generation's worth of counted evaluations, and the variants that were passed over between them.
    pub(super) fn slice(&self, generation: u32) -> &[Evaluation] {
        let all = &self.study.history.evaluations;
        let first = u64::from(generation) * u64::from(self.options.population.get());
        let start = position_after(all, first);
        &all[start..position_after(all, first + u64::from(self.options.population.get())).max(start)]
    }

    /// The default configuration always runs, because others are compared with it; so does a variant that was in flight
    /// at a crash. Without facts there is nothing new to ask about.
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

    /// A variant that does not count leaves room for one more in the budget.
    pub(super) fn make_room(&mut self) {
        if matches!(self.ending.stop, Some(StopReason::Evaluations | StopReason::Generations)) {
            self.ending.stop = None;
        }
    }

    /// Variants that wait for its result end too: they have the same code and the same launches.
    pub(super) fn pass_over(&mut self, number: u64) -> EngineResult {
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::HashSet;
    use std::rc::Rc;

    use evo_protocol::verdict::{VerdictClass, VerdictKind};
    use evo_search::registry::create;
    use evo_search::strategy::Strategy;

    use crate::fake::{Plays, Ran, ScriptedStrategy, TestStudy, all_pass, judging};

    /// Passes over what has at least `limit` registers, and checks what it is asked and told.
    fn picky<'a>(inner: Box<dyn Strategy + 'a>, limit: f64) -> Box<ScriptedStrategy<'a>> {
        let mut picky = ScriptedStrategy::new(inner);
        let refused = Rc::new(RefCell::new(HashSet::new()));
        let passed_over = Rc::clone(&refused);
        picky.tell = Box::new(move |outcome| {
            let registers = outcome.facts.and_then(|facts| facts.registers);
            assert_eq!(registers.is_some(), outcome.class != VerdictClass::Compile, "{outcome:?}");
            if outcome.class == VerdictClass::PassedOver {
                assert!(registers >= Some(limit) && outcome.objective_ns.is_none(), "{outcome:?}");
            } else {
                assert!(!passed_over.borrow().contains(&outcome.genome), "passed over, yet {outcome:?}");
            }
        });
        let mut asked = HashSet::new();
        picky.reconsider = Box::new(move |genome, facts| {
            assert!(asked.insert(genome.clone()), "asked twice of {genome:?}");
            let is_worth = facts.registers < Some(limit);
            if !is_worth {
                refused.borrow_mut().insert(genome.clone());
            }
            is_worth
        });
        Box::new(picky)
    }

    fn whole(bench: &TestStudy) -> Box<dyn Strategy + '_> {
        create("exhaustive", &bench.space, 1).unwrap()
    }

    /// A run that passes over what has at least `limit` registers. Fakes compile to 10 and `A` more.
    fn run(bench: &TestStudy, limit: f64) -> Ran {
        bench.run_strategy(picky(whole(bench), limit), |_| all_pass()).unwrap()
    }

    fn run_backwards(bench: &TestStudy) -> Ran {
        let mut backwards = picky(whole(bench), 13.0);
        let mut rest = whole(bench).ask(1000);
        backwards.ask = Box::new(move |inner, _| {
            // It is done once nothing is left.
            inner.ask(1);
            rest.pop().into_iter().collect()
        });
        bench.run_strategy(backwards, |_| all_pass()).unwrap()
    }

    const SPACE: &str = "[parameters]\nA = [0, 1, 2, 3, 4, 5]\nB = [0, 1, 2]\n";

    #[test]
    fn what_is_passed_over_is_compiled_and_never_run() {
        let mut plays = Plays::default();
        plays.play("what has 13 registers or more", SPACE, |bench| drop(run(bench, 13.0)));
        let default = "[parameters]\nA = { values = [0, 1, 2, 3, 4], default = 4 }\n";
        plays.play("the default is run", default, |bench| drop(run(bench, 13.0)));
        plays.play("everything is run where the user wants it", SPACE, |bench| {
            run(bench.with(|own| own.options.run_all = true), 13.0);
        });
        for (evaluations, generations) in [(Some(7), None), (None, Some(2))] {
            plays.play("a budget of evaluations is spent on what runs", SPACE, |bench| {
                bench.options.budget.generations = generations;
                run_backwards(bench.budget(evaluations));
            });
        }
        // LATE reaches the source but not the machine code, and DEAD not even the source.
        for twins in ["LATE", "DEAD"] {
            let space = format!("[parameters]\nA = [0, 5]\n{twins} = [0, 1, 2]\n");
            plays.play("twins are not run or not asked about", &space, |bench| drop(run(bench, 13.0)));
        }
        plays.play("a resumed study leaves passed over what was", SPACE, |bench| {
            run(bench.budget(5), 11.0);
            bench.budget(None).run(all_pass());
        });
        // The strategy itself checks that all but what does not compile comes with facts.
        let space = "[parameters]\nA = [0, 1, 2, 6]\nB = [0, 1]\n";
        plays.play("facts are told of what fails after compiling", space, |bench| {
            bench.run_strategy(picky(whole(bench), 13.0), |_| judging(|_| VerdictKind::Hang)).unwrap();
        });
        insta::assert_snapshot!(plays.0);
    }

    #[test]
    fn slices_hold_as_many_evaluations_as_a_generation_has() {
        let bench = TestStudy::new(SPACE);
        run_backwards(&bench);
        let (mut counted, mut passed_over) = (Vec::new(), 0);
        for generation in 0..3 {
            let path = bench.journal().with_file_name(format!("gen-{generation:03}.json"));
            let value: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
            let evaluations = value["evaluations"].as_array().unwrap();
            assert!(evaluations.iter().all(|one| one["generation"] == generation));
            let passed = evaluations.iter().filter(|one| one["verdict"]["kind"] == "passed_over").count();
            counted.push(evaluations.len() - passed);
            passed_over += passed;
        }
        assert_eq!((counted, passed_over), (vec![4, 4, 1], 9));
        assert_eq!(bench.history().ends[0].passed_over, 9);
    }

    #[test]
    fn a_strategy_that_refuses_everything_meets_evidence() {
        let values = (0..70).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
        let bench = TestStudy::new(&format!("[parameters]\nB = [{values}]\n"));
        let ran = run(&bench, 0.0);
        assert_eq!((ran.summary.end.evaluations, ran.summary.end.passed_over), (3, 67));
    }
}
