//! The device's part of `evo gate`: the candidate's gates and times, the baseline's, and both side by side in rounds.

use evo_protocol::device::DeviceInfo;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::measurement::TimingMode;
use evo_protocol::verdict::GateState;

use super::aim::{Aim, SANITIZE};
use super::call::Call;
use super::device_lane;
use super::error::CliError;
use super::evaluate_inspect::sanitized;
use super::evaluate_judge::{JudgedRival, ranking_rival};
use super::gate_args::GateDemands;
use super::one_args::TestOneArgs;
use super::rival::ChosenRival;
use super::trial::{self, AskedCandidate};
use super::{session, verdict_answer};
use crate::engine::regress::{ComparedProblem, compare_rounds};
use crate::engine::single::{self, Single};
use crate::supervise::job::{Job, Standing};
use crate::supervise::lane::LaneOptions;

/// A candidate beside the baseline.
pub struct JudgedGate {
    pub single: Single,
    /// Absent for a candidate that was refused before it reached the device.
    pub job: Option<Job>,
    pub device: Option<DeviceInfo>,
    /// The timing mode that ranks.
    pub mode: TimingMode,
    pub toolchain: Option<String>,
    /// Demanded gates that did not run, and those of them that were allowed not to.
    pub missing: Vec<String>,
    pub allowed: Vec<String>,
    /// The baseline, where it passed its gates.
    pub baseline: Option<Evaluation>,
    /// Why nothing was compared.
    pub not_compared: Option<String>,
    /// For each timed problem; empty where nothing was compared.
    pub compared: Vec<ComparedProblem>,
    /// Of a candidate without a baseline.
    pub noise_floor: Option<f64>,
    /// What workers are told, for a profiler.
    pub options: Option<LaneOptions>,
}

impl JudgedGate {
    fn refused(single: Single, mode: TimingMode, device: Option<DeviceInfo>) -> JudgedGate {
        JudgedGate {
            single,
            job: None,
            device,
            mode,
            toolchain: None,
            missing: Vec::new(),
            allowed: Vec::new(),
            baseline: None,
            not_compared: None,
            compared: Vec::new(),
            noise_floor: None,
            options: None,
        }
    }

    /// Whether the candidate passed.
    pub fn is_correct(&self) -> bool {
        self.single.evaluation.verdict.is_pass()
    }
}

/// Judges the candidate, and compares it with the baseline where both pass; without one, only its own noise floor is
/// measured.
pub fn judge(
    one: &TestOneArgs,
    call: &Call,
    asked: &AskedCandidate,
    baseline: Option<&ChosenRival>,
    demands: &GateDemands,
) -> Result<JudgedGate, CliError> {
    let kernel = asked.kernel()?;
    let mode = kernel.objective.ranking.timing();
    if let Some(refused) = asked.refused() {
        return Ok(JudgedGate::refused(Single::refused(refused), mode, None));
    }
    let mut opened = asked.open(one, call)?;
    let device = Some(opened.lane.info().clone());
    let own = &asked.candidate;
    let mut toolchain = None;
    let begun =
        single::job(&opened.recipe, own.genome.clone(), own.configuration.clone(), true, |prepared| {
            let answer = trial::compile(&asked.setup, prepared)?;
            let told = answer.iter().flatten().map(|binary| binary.toolchain.clone()).next();
            toolchain = told.or(toolchain.take());
            Ok::<_, CliError>(answer)
        })?;
    let (begun, job) = match begun {
        Ok(pair) => pair,
        Err(refused) => return Ok(JudgedGate::refused(Single::refused(*refused), mode, device)),
    };
    let single = begun.judged(opened.lane.evaluate(&job, &Standing::default()));
    let verdict = &single.evaluation.verdict;
    if single.lost {
        return Err(CliError::device(verdict.message.as_str()));
    }
    if verdict.is_trouble() {
        return Err(session::trouble("the candidate could not be judged", verdict));
    }
    let missing = verdict_answer::missing(&single.evaluation, Aim::Gate);
    let (allowed, missing): (Vec<&str>, Vec<&str>) =
        missing.into_iter().partition(|name| one.allow_not_run.iter().any(|own| own == name));
    let owned = |names: Vec<&str>| names.into_iter().map(String::from).collect::<Vec<String>>();
    let options = device_lane::lane_options(&asked.setup, one.run.worker_command.as_deref(), Some(kernel))?;
    let mut judged = JudgedGate::refused(single, mode, device);
    (judged.allowed, judged.missing) = (owned(allowed), owned(missing));
    (judged.toolchain, judged.options) = (toolchain, Some(options));
    if judged.is_correct() {
        match baseline {
            Some(rival) => match ranking_rival(one, &mut opened, asked, rival)? {
                Ok(JudgedRival { evaluation, job: against }) => {
                    opened.lane.expect_pairs();
                    let (lane, count) = (&mut opened.lane, job.timed.len());
                    judged.compared =
                        compare_rounds(lane, &against, &job, count, demands.threshold, asked.seed);
                    judged.baseline = Some(evaluation);
                }
                Err(why) => judged.not_compared = Some(why.replace("the rival", "the baseline")),
            },
            None => {
                let floor = opened.lane.noise_floor(&job, job.timed.len());
                judged.noise_floor = floor.ok().map(|own| own.floor).filter(|floor| floor.is_finite());
            }
        }
    }
    // Its process holds the device, which the sanitizer's is to have for itself.
    drop(opened);
    if demands.sanitizer && judged.is_correct() {
        sanitize(one, asked, &mut judged, &job)?;
    }
    judged.job = Some(job);
    Ok(judged)
}

/// Looks for faults with a sanitizer, whose answer is demanded. A finding is the candidate's verdict.
fn sanitize(
    one: &TestOneArgs,
    asked: &AskedCandidate,
    judged: &mut JudgedGate,
    job: &Job,
) -> Result<(), CliError> {
    let (report, verdict) = sanitized(one, asked, job, false)?;
    let is_allowed = one.allow_not_run.iter().any(|name| name == SANITIZE);
    if report.state == GateState::NotRun {
        let names = if is_allowed { &mut judged.allowed } else { &mut judged.missing };
        names.push(SANITIZE.to_string());
    }
    judged.single.evaluation.sanitized(&report, verdict.as_ref());
    Ok(())
}
