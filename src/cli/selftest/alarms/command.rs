//! The command: draws configurations, has each judged twice, and lists where the two answers differ.

use std::fmt;
use std::process::Command;
use std::time::Duration;

use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::VerdictKind;
use evo_protocol::worker::CandidateBuild;
use evo_space::genome::Configuration;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde::Serialize;

use super::plain::{PlainOrder, PlainReply, VERSION};
use crate::cli::answer::Answer;
use crate::cli::args::SelftestArgs;
use crate::cli::device_lane;
use crate::cli::error::CliError;
use crate::cli::exit_code::ExitCode;
use crate::cli::output;
use crate::cli::selftest::bench::SelftestBench;
use crate::cli::session::DeviceSetup;
use crate::kernel::catalog;
use crate::process::{self, CappedLog, Conversation, ProcessGroup};
use crate::supervise::job::{Job, Standing};

/// The spaces that ship for users.
const SPACES: &[&str] =
    &["attention_simt", "attention_mma", "gemm", "gemm_mma", "reduction", "rmsnorm", "softmax", "transpose"];

/// Configurations unless the command line says how many.
const CONFIGURATIONS: usize = 60;

/// How far a space is, is told after so many.
const TOLD_EVERY: usize = 10;

/// Opening a device, and one variant on all of its problems with the loops on this processor.
const LIMIT: Duration = Duration::from_secs(60);

/// What was found in one space.
#[derive(Debug, Serialize)]
struct SpaceTally {
    space: &'static str,
    /// Configurations that were judged twice.
    judged: usize,
    /// Both say that it is right.
    right: usize,
    /// Not compiled or not launched within the device's limits, so there was nothing to judge.
    not_built: usize,
    /// Output elements that the loops compared.
    elements: u64,
    /// The largest error that the loops saw, over its bound.
    worst: f64,
    /// Where the two differ, or both refuse.
    alarms: Vec<Alarm>,
}

/// A configuration about which the two do not agree that it is right.
#[derive(Debug, Serialize)]
struct Alarm {
    configuration: Configuration,
    verdict: String,
    message: String,
    loops: String,
}

impl fmt::Display for Alarm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Alarm { configuration, verdict, message, loops } = self;
        write!(f, "ALARM {configuration}: {verdict}: {message}; plain loops: {loops}")
    }
}

/// Runs the command: 0 where both judges call every variant right, 1 otherwise.
pub fn run(arguments: &SelftestArgs, setup: &DeviceSetup, seed: u64) -> Result<Answer, CliError> {
    let only = arguments.only.as_deref();
    let spaces: Vec<&'static str> =
        SPACES.iter().copied().filter(|name| only.is_none_or(|only| name.contains(only))).collect();
    if let (true, Some(only)) = (spaces.is_empty(), only) {
        return Err(CliError::usage(format!("no space has `{only}` in its name"))
            .with_hint(format!("the spaces are {}", SPACES.join(", "))));
    }
    output::say(&format!("seed {seed}: repeat with --seed {seed}"));
    let wanted = arguments.count.unwrap_or(CONFIGURATIONS);
    let mut tallies = Vec::new();
    let mut info = serde_json::Value::Null;
    for (number, space) in spaces.iter().enumerate() {
        // What does not divide goes to the first spaces.
        let count = wanted / spaces.len() + usize::from(number < wanted % spaces.len());
        let (device, tally) = space_tally(space, count, setup, seed)?;
        info = device;
        if !arguments.json {
            output::stdout(&text(&tally))?;
        }
        tallies.push(tally);
    }
    let judged: usize = tallies.iter().map(|tally| tally.judged).sum();
    // Nothing judged is nothing shown.
    let passed = judged > 0 && tallies.iter().all(|tally| tally.alarms.is_empty());
    let exit = if passed { ExitCode::Done } else { ExitCode::Failed };
    if arguments.json {
        let whole = serde_json::json!({ "device": info, "seed": seed, "passed": passed, "spaces": tallies });
        return Ok(Answer::object(exit, &whole));
    }
    let alarms: usize = tallies.iter().map(|tally| tally.alarms.len()).sum();
    output::stdout(&format!("{judged} configurations judged twice, {alarms} alarms\n"))?;
    Ok(exit.into())
}

fn space_tally(
    space: &'static str,
    count: usize,
    setup: &DeviceSetup,
    seed: u64,
) -> Result<(serde_json::Value, SpaceTally), CliError> {
    let file = catalog::open(space)?;
    let mut bench = SelftestBench::start(&file, setup, seed)?;
    let info = serde_json::to_value(bench.lane.info())?;
    let mut second = SecondJudge { setup, child: None };
    let mut tally =
        SpaceTally { space, judged: 0, right: 0, not_built: 0, elements: 0, worst: 0.0, alarms: Vec::new() };
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    for genome in file.space.sample_distinct(count, &mut random) {
        let configuration = file.space.configuration(&genome);
        let job = match bench.job(&configuration, false)? {
            Ok(job) => job,
            // A variant that this device cannot hold is not an alarm.
            Err(verdict) if verdict.kind == VerdictKind::StaticReject => {
                tally.not_built += 1;
                continue;
            }
            Err(verdict) => {
                let (verdict, message) = (verdict.label(), verdict.message.clone());
                let loops = "not asked".to_string();
                tally.alarms.push(Alarm { configuration, verdict, message, loops });
                continue;
            }
        };
        let judgement = bench.lane.evaluate(&job, &Standing::default());
        let reply = second.judge(space, &job, seed ^ job.number)?;
        tally.judged += 1;
        if tally.judged.is_multiple_of(TOLD_EVERY) {
            let (judged, alarms) = (tally.judged, tally.alarms.len());
            output::say(&format!("{space}: {judged} of {count} judged twice, {alarms} alarms"));
        }
        let loops = match reply {
            PlainReply::Right { elements, worst } => {
                tally.elements += elements;
                tally.worst = tally.worst.max(worst);
                "right".to_string()
            }
            PlainReply::Wrong { message } | PlainReply::Failed { message } => message,
            PlainReply::Opened => "an answer nobody asked for".to_string(),
        };
        if judgement.verdict.is_pass() && loops == "right" {
            tally.right += 1;
            continue;
        }
        let (verdict, message) = (judgement.verdict.label(), judgement.verdict.message);
        let alarm = Alarm { configuration, verdict, message, loops };
        // At once, because a long run may not come to its end.
        output::say(&format!("{space}: {alarm}"));
        tally.alarms.push(alarm);
    }
    Ok((info, tally))
}

/// The child that runs variants beside plain loops. Started when first needed, and again after its end.
struct SecondJudge<'a> {
    setup: &'a DeviceSetup,
    child: Option<Conversation<PlainOrder, PlainReply>>,
}

impl SecondJudge<'_> {
    fn judge(&mut self, kernel: &str, job: &Job, seed: u64) -> Result<PlainReply, CliError> {
        let mut plans: Vec<ProblemPlan> = job.all_checked();
        plans.extend(job.tiny.iter().chain(&job.several).cloned());
        let (mut all, mut most) = (0, 0.0);
        for build in &job.candidate.builds {
            let own = plans.iter().filter(|plan| build.constants.serves(&plan.sizes)).cloned().collect();
            match self.judge_build(kernel, build, own, seed)? {
                PlainReply::Right { elements, worst } => {
                    all += elements;
                    most = f64::max(most, worst);
                }
                other => return Ok(other),
            }
        }
        Ok(PlainReply::Right { elements: all, worst: most })
    }

    fn judge_build(
        &mut self,
        kernel: &str,
        build: &CandidateBuild,
        plans: Vec<ProblemPlan>,
        seed: u64,
    ) -> Result<PlainReply, CliError> {
        let binary = build.binary.path.clone();
        let binary = binary.ok_or_else(|| CliError::harness("a compiled variant has no file"))?;
        let entries = build.entries.clone();
        let order = PlainOrder::Run { kernel: kernel.to_string(), binary, entries, plans, seed };
        let child = match &mut self.child {
            Some(child) => child,
            None => self.child.insert(start(self.setup)?),
        };
        Ok(match child.ask(&order, LIMIT) {
            Ok(reply) => reply,
            Err(death) => {
                self.child = None;
                PlainReply::Failed { message: format!("the child is gone: {:?}", death.cause) }
            }
        })
    }
}

fn start(setup: &DeviceSetup) -> Result<Conversation<PlainOrder, PlainReply>, CliError> {
    let mut command = Command::new(process::worker_program()?);
    command.args(["worker", "--plain", "--sandbox", setup.sandbox.as_str()]);
    let (group, log) = (ProcessGroup::default(), CappedLog::of_end(1 << 16));
    let mut child = Conversation::start(command, VERSION, group, log)?;
    let support_cubin = device_lane::support_cubin(setup)?;
    let order = PlainOrder::Open { device: setup.choice.spec.clone(), support_cubin };
    match child.ask(&order, LIMIT) {
        Ok(PlainReply::Opened) => Ok(child),
        Ok(PlainReply::Failed { message }) => Err(CliError::environment(message)),
        Ok(other) => Err(CliError::harness(format!("the child answers {other:?}"))),
        Err(death) => Err(CliError::harness(format!("the child does not start: {:?}", death.cause))),
    }
}

fn text(tally: &SpaceTally) -> String {
    let SpaceTally { space, judged, right, not_built, elements, worst, alarms } = tally;
    let mut text = format!(
        "{space:<16} {judged:>5} judged, {right} right twice, {not_built} not built; {elements} elements, \
         largest error {worst:.2} of its bound\n"
    );
    for alarm in alarms {
        text.push_str(&format!("  {alarm}\n"));
    }
    text
}
