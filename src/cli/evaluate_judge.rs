//! The device's part of `evo evaluate`: the candidate's gates and times, the rival's, and both side by side.

use evo_protocol::evaluation::Evaluation;
use evo_protocol::measurement::Measurement;
use evo_protocol::plan::ProblemPlan;

use super::aim::Aim;
use super::call::Call;
use super::error::CliError;
use super::judged_candidate::{JudgedCandidate, so_far, without_comparison};
use super::one_args::TestOneArgs;
use super::rival::ChosenRival;
use super::trial::{self, AskedCandidate, OpenedCandidate};
use super::{session, verdict_answer};
use crate::engine::single::{self, Single};
use crate::kernel::spec::KernelSpec;
use crate::supervise::job::{Job, JobReach, Standing};
use crate::timing::acceptance::{RivalProblem, TimeRatio, tail_ratio};

/// Judges the candidate, and compares it with its rival where both pass.
pub fn judge(
    one: &TestOneArgs,
    call: &Call,
    asked: &AskedCandidate,
    rival: &ChosenRival,
) -> Result<JudgedCandidate, CliError> {
    let kernel = asked.kernel()?;
    let mode = kernel.objective.ranking.timing();
    if let Some(refused) = asked.refused() {
        return Ok(without_comparison(Single::refused(refused), mode));
    }
    let mut opened = asked.open(one, call)?;
    let note = |evaluation: &Evaluation| call.know(|facts| facts.so_far = Some(so_far(Some(evaluation))));
    judge_opened(one, asked, &mut opened, JobDepth::DEEP, Some(rival), note)
}

/// How much of a candidate is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobDepth {
    /// Every gate at full depth, and the full measurement.
    pub deep: bool,
    pub reach: JobReach,
}

impl JobDepth {
    pub const DEEP: JobDepth = JobDepth { deep: true, reach: JobReach::Whole };
}

/// The same on a device that is open, and only as deep as that; compared with a rival where there is one. `note` gets
/// the verdict as soon as it is known.
pub fn judge_opened(
    one: &TestOneArgs,
    asked: &AskedCandidate,
    opened: &mut OpenedCandidate<'_>,
    depth: JobDepth,
    rival: Option<&ChosenRival>,
    note: impl FnOnce(&Evaluation),
) -> Result<JudgedCandidate, CliError> {
    let kernel = asked.kernel()?;
    let mode = kernel.objective.ranking.timing();
    let device = opened.lane.info().clone();
    let (single, job) = match opened.job(depth.deep)? {
        Ok((begun, job)) => {
            let job = Job { reach: depth.reach, ..job };
            (begun.judged(opened.lane.evaluate(&job, &Standing::default())), job)
        }
        Err(evaluation) => {
            let single = Single::refused(*evaluation);
            trouble_of(&single)?;
            return Ok(JudgedCandidate { device: Some(device), ..without_comparison(single, mode) });
        }
    };
    note(&single.evaluation);
    trouble_of(&single)?;
    let canonical = canonical(kernel, &job.timed);
    let missing = verdict_answer::missing(&single.evaluation, Aim::Evaluate);
    let (allowed, missing): (Vec<&str>, Vec<&str>) =
        missing.into_iter().partition(|name| one.allow_not_run.iter().any(|own| own == name));
    let owned = |names: Vec<&str>| names.into_iter().map(String::from).collect::<Vec<String>>();
    let mut judged = JudgedCandidate { device: Some(device), canonical, ..without_comparison(single, mode) };
    judged.allowed = owned(allowed);
    judged.findings.missing = owned(missing);
    let may_compare = judged.findings.correct && judged.findings.missing.is_empty();
    if let Some(rival) = rival.filter(|_| may_compare) {
        judged.findings.not_compared = None;
        compare(one, opened, asked, rival, &job, &mut judged)?;
    }
    judged.job = Some(job);
    Ok(judged)
}

/// What says nothing about a candidate is an error of the command's.
fn trouble_of(single: &Single) -> Result<(), CliError> {
    let verdict = &single.evaluation.verdict;
    if single.lost {
        return Err(CliError::device(verdict.message.as_str()));
    }
    match verdict.is_trouble() {
        true => Err(session::trouble("the candidate could not be judged", verdict)),
        false => Ok(()),
    }
}

/// Which timed problems are canonical; all of them where this run has none that is marked.
fn canonical(kernel: &KernelSpec, plans: &[ProblemPlan]) -> Vec<bool> {
    let is_marked =
        |plan: &ProblemPlan| kernel.problems.iter().any(|own| own.name == plan.name && own.canonical);
    let marked: Vec<bool> = plans.iter().map(is_marked).collect();
    if marked.contains(&true) { marked } else { vec![true; plans.len()] }
}

/// A rival that passed its gates.
pub struct JudgedRival {
    pub evaluation: Evaluation,
    pub job: Job,
}

/// Judges a rival, deep as the candidate's so that the samples of both were taken in one way. The inner error says why
/// there is nothing to compare with.
pub fn ranking_rival(
    one: &TestOneArgs,
    opened: &mut OpenedCandidate<'_>,
    asked: &AskedCandidate,
    rival: &ChosenRival,
) -> Result<Result<JudgedRival, String>, CliError> {
    Ok(match judge_rival(one, opened, asked, rival, JobDepth::DEEP)? {
        Ok((evaluation, _)) if !evaluation.may_rank() => {
            Err(format!("the rival does not pass its gates: {}", evaluation.verdict.label()))
        }
        Ok((evaluation, job)) => Ok(JudgedRival { evaluation, job }),
        Err(why) => Err(why),
    })
}

/// Judges the rival, and times both side by side.
fn compare(
    one: &TestOneArgs,
    opened: &mut OpenedCandidate<'_>,
    asked: &AskedCandidate,
    rival: &ChosenRival,
    job: &Job,
    judged: &mut JudgedCandidate,
) -> Result<(), CliError> {
    let JudgedRival { evaluation: against, job: rival_job } = match ranking_rival(one, opened, asked, rival)?
    {
        Ok(rival) => rival,
        Err(why) => {
            judged.findings.not_compared = Some(why);
            return Ok(());
        }
    };
    let (against, lane) = (&against, &mut opened.lane);
    let code = judged.single.evaluation.code_hash.as_ref();
    let launches = |job: &Job| job.timed.iter().map(|plan| plan.launches.clone()).collect::<Vec<_>>();
    if code.is_some() && code == against.code_hash.as_ref() && launches(job) == launches(&rival_job) {
        judged.findings.is_same_code = true;
        return Ok(());
    }
    let times = single::compare(lane, &rival_job, job, job.timed.len());
    judged.findings.noise_floor = times.noise_floor;
    judged.pairs = times.problems;
    let rows: Vec<RivalProblem> =
        job.timed.iter().enumerate().map(|(at, plan)| row(judged, against, plan, at, asked.seed)).collect();
    judged.score = score(&rows, &job.timed);
    judged.findings.problems = rows;
    Ok(())
}

/// The rival's gates and times, or why there are none.
pub fn judge_rival(
    one: &TestOneArgs,
    opened: &mut OpenedCandidate<'_>,
    asked: &AskedCandidate,
    rival: &ChosenRival,
    depth: JobDepth,
) -> Result<Result<(Evaluation, Job), String>, CliError> {
    let (setup, lane) = (&asked.setup, &mut opened.lane);
    let own = &rival.resolved;
    let kernel = session::kernel_of(&own.file)?;
    if let Some(refused) = single::constraint_verdict(&own.file.space, &own.configuration) {
        return Ok(Err(format!("the rival is not valid: {}", refused.verdict.message)));
    }
    let problems = asked.problems(kernel, one)?;
    let recipe = session::recipe(kernel, &problems, setup, lane, asked.seed)?;
    let (genome, configuration) = (own.genome.clone(), own.configuration.clone());
    let begun =
        single::job(&recipe, genome, configuration, depth.deep, |prepared| trial::compile(setup, prepared))?;
    let (begun, job) = match begun {
        Ok((begun, job)) => (begun, Job { reach: depth.reach, ..job }),
        Err(refused) => return Ok(Err(format!("the rival is refused: {}", refused.verdict.label()))),
    };
    let single = begun.judged(lane.evaluate(&job, &Standing::default()));
    if single.lost {
        return Err(CliError::device("the device was lost while the rival was judged"));
    }
    Ok(Ok((single.evaluation, job)))
}

fn row(
    judged: &JudgedCandidate,
    against: &Evaluation,
    plan: &ProblemPlan,
    at: usize,
    seed: u64,
) -> RivalProblem {
    let samples = |evaluation: &Evaluation| {
        let is_own = |one: &&Measurement| one.problem == plan.name && one.mode == judged.mode;
        evaluation.measurements.iter().find(is_own).map(|one| one.raw_ns.clone()).unwrap_or_default()
    };
    let pair = judged.pairs.get(at).and_then(|pair| pair.as_ref().ok());
    RivalProblem {
        problem: plan.name.clone(),
        canonical: judged.canonical.get(at).copied().unwrap_or(true),
        ratio: pair.map(|pair| TimeRatio { median: pair.ratio, low: pair.ratio_low, high: pair.ratio_high }),
        tail: tail_ratio(&samples(&judged.single.evaluation), &samples(against), seed),
    }
}

/// The weighted geometric mean of the speed-ups; `None` unless all canonical problems have one.
fn score(rows: &[RivalProblem], plans: &[ProblemPlan]) -> Option<f64> {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (row, plan) in rows.iter().zip(plans).filter(|(row, _)| row.canonical) {
        sum -= plan.weight * row.ratio?.median.ln();
        weights += plan.weight;
    }
    Some((sum / weights).exp()).filter(|score| score.is_finite() && *score > 0.0)
}
