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
use evo_space::genome::ContentHash;

use super::answers::command_of;
use super::bench::GateRun;
use super::case::{self, Case};
use super::command::{self, CommandRunner};
use super::expected;
use super::inputs::{self, Family};
use super::naive::NaiveModules;
use super::state::Judge;
use super::wrong;

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
        match cases.iter().find_map(|case| self.unanswered.get(&expected::key(check, case, None))) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
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
            let key = expected::key(check, &case, None);
            if self.pool.set(&key).is_none() {
                self.report(Phase::Preparing, &case.name());
                let _ = self.answer(&key, check, &case, NaiveModules::default());
            }
        }
        Ok(())
    }

    /// Asks a command the same twice: where its answers differ by chance, what the judge takes for rounding would be its
    /// dice, and a wrong variant could pass.
    fn ask_again(&mut self, check: &CheckPlan, cases: &[Case]) -> Result<(), DeviceError> {
        let Some(reference) = command_of(check) else { return Ok(()) };
        for case in cases {
            if self.knows(check, case, &expected::key(check, case, None)) {
                continue;
            }
            self.device.park()?;
            let magnitude = expected::magnitudes(check, case).first().copied().unwrap_or(1.0);
            let inputs = expected::inputs_at(check, case, magnitude)?;
            let (plan, label, reporter) = (&case.plan, case.name(), &mut self.reporter);
            let mut runner =
                CommandRunner { desk: &mut self.commands, reference, plan, label: &label, reporter };
            let agreed = runner.agrees_with_itself(&inputs);
            self.commands.rest();
            agreed?;
        }
        Ok(())
    }

    pub(super) fn foresee(&mut self, check: &CheckPlan, cases: &[Case]) -> Result<(), DeviceError> {
        if command_of(check).is_none() {
            return Ok(());
        }
        let mut done = Ok(());
        for case in cases {
            let key = expected::key(check, case, None);
            if self.pool.set(&key).is_some() || self.knows(check, case, &key) {
                continue;
            }
            let computed = self.consult(&key, check, case, NaiveModules::default());
            // What the task leaves unanswered is said when the case comes.
            done = computed
                .map(drop)
                .or_else(|error| if command::is_failure(&error) { Err(error) } else { Ok(()) });
            if done.is_err() {
                break;
            }
        }
        self.commands.rest();
        done
    }

    fn knows(&mut self, check: &CheckPlan, case: &Case, key: &ContentHash) -> bool {
        self.unanswered.contains_key(key) || matches!(self.kept(check, case, key), Ok(Some(_)))
    }
}
