//! Answers that are computed before a gate asks for them.
//!
//! A command is a process with files of its own, which a variant that is not fenced in could look at. So a gate first
//! has the answers computed that it is going to ask for, with every module parked; whatever is asked beyond that
//! (further shapes and seeds for finalists) parks the modules for one case. Answers of built-in references are
//! computed while the first variants are compiled.

use std::time::{Duration, Instant};

use evo_protocol::device::DeviceError;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::Gate;
use evo_protocol::worker::{CheckPlan, Depth, Phase, ReferencePlan};

use super::answers::command_of;
use super::bench::GateRun;
use super::case::{self, Case};
use super::expected::{self, Question};
use super::inputs::{self, Family};
use super::state::Judge;
use super::{command, wrong};

/// What a compiler takes for the first variant, about: one that is ready must not wait.
const AHEAD_MAX: Duration = Duration::from_millis(300);

/// Has the answers computed that a gate is going to ask for.
pub(super) fn foresee(run: &mut GateRun<'_>) -> Result<(), DeviceError> {
    let check = &run.check;
    if command_of(check).is_none() {
        return Ok(());
    }
    let explored = wrong::explored(&run.judge.slot(run.slot)?.history);
    let cases = match run.gate {
        // As many as time allows: nobody knows which before.
        Gate::TinyShapes if run.depth == Depth::Deep => Vec::new(),
        Gate::TinyShapes | Gate::FullShapes => {
            case::cases(check, &run.plans.iter().collect::<Vec<_>>(), run.depth, explored)?
        }
        Gate::Repeatability => {
            let alike = (run.depth == Depth::Deep).then_some(inputs::REARRANGED);
            let seeds = [0, 1].into_iter().chain(alike);
            let of = |plan| seeds.clone().map(move |seed_index| Case { seed_index, ..Case::first(plan) });
            run.plans.iter().flat_map(of).collect()
        }
        _ => Vec::new(),
    };
    run.judge.foresee(check, &cases)
}

impl Judge {
    /// Computes answers before any variant is there. Of a command those to the first case of each problem: what is wrong
    /// with it shows at once. Of a built-in reference all that a contender meets at these problems.
    pub fn rehearse(&mut self, check: &CheckPlan, plans: &[ProblemPlan]) -> Result<(), DeviceError> {
        if matches!(check.reference, ReferencePlan::Builtin { .. }) {
            return self.answer_ahead(check, plans);
        }
        let cases: Vec<Case> = plans.iter().map(Case::first).collect();
        self.ask_again(check, &cases)?;
        self.foresee(check, &cases)?;
        let error = cases.iter().find_map(|case| self.unanswered.get(&Question::ahead(check, case).key));
        error.map_or(Ok(()), |error| Err(error.clone()))
    }

    /// What has no answer is left to the gate that asks.
    fn answer_ahead(&mut self, check: &CheckPlan, plans: &[ProblemPlan]) -> Result<(), DeviceError> {
        // Prepared inputs need a candidate's modules.
        let plans: Vec<&ProblemPlan> = plans.iter().filter(|plan| plan.prepare_launches.is_empty()).collect();
        let mut cases = case::cases(check, &plans, Depth::Full, case::RANGE_KNOWN)?;
        // Every variant meets the first case of a problem, only contenders meet the others.
        let is_first = |case: &Case| case.seed_index == 0 && case.family == Family::Normal;
        cases.sort_by_key(|case| !is_first(case));
        let began = Instant::now();
        for case in cases {
            if began.elapsed() > AHEAD_MAX {
                break;
            }
            let asked = Question::ahead(check, &case);
            if self.pool.set(&asked.key).is_none() {
                self.report(Phase::Preparing, &case.name());
                let _ = self.answer(&asked);
            }
        }
        Ok(())
    }

    /// Asks a command the same twice: where its answers differ by chance, what the judge takes for rounding would be its
    /// dice, and a wrong variant could pass.
    fn ask_again(&mut self, check: &CheckPlan, cases: &[Case]) -> Result<(), DeviceError> {
        let Some(reference) = command_of(check) else { return Ok(()) };
        for case in cases {
            if self.knows(&Question::ahead(check, case)) {
                continue;
            }
            let magnitude = expected::magnitudes(check, case).first().copied().unwrap_or(1.0);
            let inputs = expected::input_bytes(&case.plan, case.draw(check, magnitude))?;
            let agreed = self.runner(reference, case)?.agrees_with_itself(&inputs);
            self.commands.rest();
            agreed?;
        }
        Ok(())
    }

    pub(super) fn foresee(&mut self, check: &CheckPlan, cases: &[Case]) -> Result<(), DeviceError> {
        if command_of(check).is_none() {
            return Ok(());
        }
        let done = cases.iter().try_for_each(|case| {
            let asked = Question::ahead(check, case);
            if self.pool.set(&asked.key).is_some() || self.knows(&asked) {
                return Ok(());
            }
            // What the task leaves unanswered is said when the case comes.
            match self.consult(&asked) {
                Err(error) if command::is_failure(&error) => Err(error),
                _ => Ok(()),
            }
        });
        self.commands.rest();
        done
    }

    fn knows(&mut self, asked: &Question<'_>) -> bool {
        self.unanswered.contains_key(&asked.key) || matches!(self.kept(asked), Ok(Some(_)))
    }
}
