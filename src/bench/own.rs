//! Our own implementations: candidates that are built once, judged shape by shape by all gates on
//! answers, and timed in workers of their own.

use std::io;

use evo_protocol::bench::RowStatus;
use evo_protocol::binary::Binary;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Gate, GateReport, GateState, Verdict};
use evo_space::genome::Configuration;
use evo_space::space::SearchSpace;
use serde_json::json;

use super::figures::BenchCell;
use crate::engine::ports::CompileAnswer;
use crate::engine::prepared::PreparedKernel;
use crate::engine::prepared::{self, BuiltCode};
use crate::engine::recipe::KernelRecipe;
use crate::engine::single;
use crate::kernel::spec::ProblemSpec;
use crate::supervise::job::{Job, JobReach, Judgement, Standing, TinyNotes};
use crate::supervise::lane::Lane;

/// What ends a run before its end, beside a compiler that does not work.
#[derive(Debug)]
pub enum BenchError {
    /// The device is gone.
    Lost(String),
    /// Rows or files for peers cannot be written.
    Files(io::Error),
}

pub type Compile<'c, E> = dyn FnMut(&PreparedKernel) -> Result<CompileAnswer<Vec<Binary>>, E> + 'c;

#[derive(Debug)]
pub struct OwnCandidate<'a> {
    pub name: String,
    /// What it is: the hash of its source and configuration.
    pub version: Option<String>,
    pub space: &'a SearchSpace,
    pub configuration: Configuration,
    /// For no problem in particular.
    pub recipe: KernelRecipe<'a>,
    pub(super) built: Option<Built>,
}

/// A candidate as it is loaded, or what its rows say where it does not compile or is refused before.
type Built = Result<Box<LoadableCandidate>, (RowStatus, String)>;

#[derive(Debug)]
pub(super) struct LoadableCandidate {
    pub(super) job: Job,
    built: Vec<BuiltCode>,
    /// Whether its small shapes have been judged.
    has_tiny: bool,
    /// Why no shape of it is right: a small shape was wrong.
    broken: Option<String>,
}

impl<'a> OwnCandidate<'a> {
    pub fn new(
        name: String,
        version: Option<String>,
        space: &'a SearchSpace,
        configuration: Configuration,
        recipe: KernelRecipe<'a>,
    ) -> OwnCandidate<'a> {
        OwnCandidate { name, version, space, configuration, recipe, built: None }
    }

    /// `deep` compiles an instrumented build too.
    fn build<E>(&self, deep: bool, compile: &mut Compile<'_, E>) -> Result<Built, E> {
        let configuration = &self.configuration;
        if let Some(refused) = single::constraint_verdict(self.space, configuration) {
            return Ok(Err((RowStatus::Skipped, refused.verdict.message)));
        }
        let Some(genome) = self.space.genome(configuration) else {
            let reason = format!("`{configuration}` is not a point of the space");
            return Ok(Err((RowStatus::Skipped, reason)));
        };
        let mut code: Option<Vec<BuiltCode>> = None;
        let job = single::job(&self.recipe, genome, configuration.clone(), deep, |prepared| {
            let answer: Result<Vec<Binary>, Box<Verdict>> = compile(prepared)?;
            // The first is the candidate itself; the instrumented build comes after.
            if let (None, Ok(binaries)) = (&code, &answer) {
                code = Some(prepared::built_codes(&prepared.sources, binaries));
            }
            Ok(answer)
        })?;
        Ok(match job {
            Ok((_, job)) => Ok(Box::new(LoadableCandidate {
                job,
                built: code.unwrap_or_default(),
                has_tiny: false,
                broken: None,
            })),
            Err(evaluation) => {
                let verdict = evaluation.verdict;
                let status = if verdict.is_trouble() { RowStatus::NotRun } else { RowStatus::Fail };
                Err((status, in_a_line(&verdict)))
            }
        })
    }

    /// Judges the candidate at a shape: every gate on its answers. Small shapes are judged with its first shape, `deep` looks
    /// longer.
    pub(super) fn judge<E: From<BenchError>>(
        &mut self,
        lane: &mut Lane,
        shape: &ProblemSpec,
        deep: bool,
        compile: &mut Compile<'_, E>,
        cell: &mut BenchCell,
    ) -> Result<(), E> {
        let mut built = match self.built.take() {
            Some(built) => built,
            None => self.build(deep, compile)?,
        };
        let judged = match &mut built {
            Err((status, reason)) => {
                cell.refuse(*status, reason.clone());
                Ok(())
            }
            Ok(own) => match self.recipe.plan_of(&self.configuration, shape, &own.built) {
                Err(verdict) => {
                    cell.refuse(RowStatus::Skipped, in_a_line(&verdict));
                    Ok(())
                }
                Ok(plan) => own.judge(lane, plan, deep, cell),
            },
        };
        self.built = Some(built);
        Ok(judged?)
    }
}

impl LoadableCandidate {
    fn judge(
        &mut self,
        lane: &mut Lane,
        plan: ProblemPlan,
        deep: bool,
        cell: &mut BenchCell,
    ) -> Result<(), BenchError> {
        let name = plan.name.clone();
        cell.plan = Some(plan.clone());
        if let Some(why) = &self.broken {
            cell.refuse(RowStatus::Fail, why.clone());
            return Ok(());
        }
        let reach = if deep { JobReach::Deep } else { JobReach::Whole };
        let mut job = Job { checked: vec![plan], timed: Vec::new(), reach, ..self.job.clone() };
        if self.has_tiny {
            let absent = "small shapes were judged with an earlier shape".to_string();
            let tiny_notes = TinyNotes { absent, ..TinyNotes::default() };
            let (tiny, several, drawn) = Default::default();
            job = Job { tiny, several, drawn, tiny_notes, reach: JobReach::Whole, ..job };
        }
        let Judgement { verdict, gates, lost, .. } = lane.evaluate(&job, &Standing::default());
        let state = |gate: Gate| gates.iter().find(|own| own.gate == gate).map(|own| own.state);
        self.has_tiny |= state(Gate::TinyShapes) == Some(GateState::Pass);
        if state(Gate::TinyShapes) == Some(GateState::Fail) && !verdict.is_trouble() {
            self.broken = Some(in_a_line(&verdict));
        }
        let full = gates.iter().find(|own| own.gate == Gate::FullShapes);
        let parity = full.and_then(|own| own.evidence.get(GateReport::PARITY));
        let parity = parity.and_then(|own| own.get(&name)).cloned();
        // Of a wrong answer the verdict says how far off it is.
        let off = verdict.evidence.get("abs_error_max").filter(|own| own.is_number());
        cell.parity = parity.or_else(|| off.map(|own| json!({ "max_abs_error": own })));
        // A verdict alone does not say that the gates ran.
        let ran = [Gate::Launch, Gate::FullShapes, Gate::Repeatability];
        let is_right = verdict.is_pass() && ran.iter().all(|gate| state(*gate) == Some(GateState::Pass));
        match (is_right, verdict.is_pass(), verdict.is_trouble()) {
            (true, ..) => cell.is_right(),
            (false, true, _) => cell.refuse(RowStatus::NotRun, "a gate on its answers did not run"),
            (false, false, true) => cell.refuse(RowStatus::NotRun, in_a_line(&verdict)),
            (false, false, false) => cell.refuse(RowStatus::Fail, in_a_line(&verdict)),
        }
        if lost { Err(BenchError::Lost(in_a_line(&verdict))) } else { Ok(()) }
    }
}

pub(super) fn in_a_line(verdict: &Verdict) -> String {
    let first = verdict.message.lines().next().unwrap_or_default();
    if first.is_empty() { verdict.label() } else { format!("{}: {first}", verdict.label()) }
}
