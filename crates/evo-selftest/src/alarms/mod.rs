//! Random configurations of the kernels that ship with evo, judged by the gates and judged again by a path that shares no
//! code with them.
//!
//! `plain` runs a variant in a child on inputs of its own, `loops` computes the answers in fp64 with plain loops and says
//! how far off an honest kernel may be.

mod loops;
mod plain;

use std::process::Command;
use std::time::Duration;

use evo::cli::device_lane;
use evo::cli::error::CliError;
use evo::cli::output;
use evo::cli::selftest::{SelftestBench, SelftestCheck, SelftestReport};
use evo::cli::session::DeviceSetup;
use evo::kernel::catalog;
use evo::process::{self, CappedLog, Conversation, ProcessGroup};
use evo::supervise::job::{Job, Standing};
use evo::supervise::lane::LaneLimits;
use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::VerdictKind;
use evo_space::genome::Configuration;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Value, json};

use self::plain::{PlainOrder, PlainReply, VERSION};
use crate::order::Order;

pub use self::plain::serve;

/// The spaces that ship for users.
const SPACES: &[&str] =
    &["attention_simt", "attention_mma", "gemm", "gemm_mma", "reduction", "rmsnorm", "softmax", "transpose"];

/// Configurations unless the command line says how many.
const CONFIGURATIONS: usize = 60;

/// How far a space is, is told after so many.
const TOLD_EVERY: usize = 10;

/// Opening a device, and one variant on all of its problems with the loops on this processor.
const LIMIT: Duration = Duration::from_secs(60);

/// A check for each space, which passes where both judges call every variant right.
pub fn run(order: &Order, report: &mut SelftestReport) -> Result<Value, CliError> {
    let spaces: Vec<&'static str> = SPACES.iter().copied().filter(|name| order.wants(name)).collect();
    if spaces.is_empty() {
        return Err(order.names_nothing("space", format!("the spaces are {}", SPACES.join(", "))));
    }
    let wanted = order.count.unwrap_or(CONFIGURATIONS);
    let (mut info, mut judged) = (Value::Null, 0);
    for (number, space) in spaces.iter().enumerate() {
        // What does not divide goes to the first spaces.
        let count = wanted / spaces.len() + usize::from(number < wanted % spaces.len());
        if count == 0 {
            report.skip(space, "no configuration is left for it");
            continue;
        }
        let file = catalog::open(space)?;
        let mut bench = SelftestBench::start(&file, &order.setup, order.seed, LaneLimits::default())?;
        info = serde_json::to_value(bench.lane.info())?;
        let check = judged_twice(space, count, &mut bench, order)?;
        judged += check.details["judged"].as_u64().unwrap_or(0);
        report.push(check);
    }
    if judged == 0 {
        report.add("judged", Err("nothing judged is nothing shown".to_string()));
    }
    Ok(info)
}

fn judged_twice(
    space: &'static str,
    count: usize,
    bench: &mut SelftestBench<'_>,
    order: &Order,
) -> Result<SelftestCheck, CliError> {
    let mut second = SecondJudge { setup: &order.setup, child: None };
    let (mut judged, mut right, mut not_built, mut elements, mut worst) = (0usize, 0, 0, 0, 0.0f64);
    // Configurations that the two do not agree to call right.
    let (mut alarms, mut lines) = (Vec::new(), String::new());
    let mut alarm = |configuration: &Configuration, verdict: String, message: &str, loops: &str| {
        let line = format!("ALARM {configuration}: {verdict}: {message}; plain loops: {loops}");
        // At once, because a long run may not come to its end.
        output::say(&format!("{space}: {line}"));
        lines += &format!("\n  {line}");
        alarms.push(json!({
            "configuration": configuration, "verdict": verdict, "message": message, "loops": loops,
        }));
        alarms.len()
    };
    let file = bench.file();
    let mut alarm_count = 0;
    for genome in file.space.sample_distinct(count, &mut ChaCha8Rng::seed_from_u64(order.seed)) {
        let configuration = file.space.configuration(&genome);
        let job = match bench.job(&configuration, false)? {
            Ok(job) => job,
            // A variant that this device cannot hold is not an alarm.
            Err(verdict) if verdict.kind == VerdictKind::StaticReject => {
                not_built += 1;
                continue;
            }
            Err(verdict) => {
                alarm_count = alarm(&configuration, verdict.label(), &verdict.message, "not asked");
                continue;
            }
        };
        let verdict = bench.lane.evaluate(&job, &Standing::default()).verdict;
        let loops = match second.judge(space, &job, order.seed ^ job.number)? {
            PlainReply::Right { elements: compared, worst: largest } => {
                elements += compared;
                worst = worst.max(largest);
                "right".to_string()
            }
            PlainReply::Wrong { message } | PlainReply::Failed { message } => message,
        };
        judged += 1;
        if verdict.is_pass() && loops == "right" {
            right += 1;
        } else {
            alarm_count = alarm(&configuration, verdict.label(), &verdict.message, &loops);
        }
        if judged.is_multiple_of(TOLD_EVERY) {
            output::say(&format!("{space}: {judged} of {count} judged twice, {alarm_count} alarms"));
        }
    }
    let message = format!(
        "{judged} judged, {right} right twice, {not_built} not built; {elements} elements, largest error \
         {worst:.2} of its bound{lines}"
    );
    let check = SelftestCheck { name: space.into(), message, ..SelftestCheck::default() };
    let check = SelftestCheck { passed: Some(alarms.is_empty()), ..check };
    Ok(check.with(&json!({
        "judged": judged, "right": right, "not_built": not_built, "elements": elements, "worst": worst,
        "alarms": alarms,
    })))
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
            let binary = build.binary.path.clone();
            let order = PlainOrder {
                kernel: kernel.to_string(),
                binary: binary.ok_or_else(|| CliError::harness("a compiled variant has no file"))?,
                entries: build.entries.clone(),
                plans: plans.iter().filter(|plan| build.constants.serves(&plan.sizes)).cloned().collect(),
                seed,
            };
            let mut child = match self.child.take() {
                Some(child) => child,
                None => start(self.setup)?,
            };
            match child.ask(&order, LIMIT) {
                Ok(PlainReply::Right { elements, worst }) => {
                    all += elements;
                    most = f64::max(most, worst);
                }
                Ok(other) => {
                    self.child = Some(child);
                    return Ok(other);
                }
                Err(death) => {
                    return Ok(PlainReply::Failed {
                        message: format!("the child is gone: {:?}", death.cause),
                    });
                }
            }
            self.child = Some(child);
        }
        Ok(PlainReply::Right { elements: all, worst: most })
    }
}

fn start(setup: &DeviceSetup) -> Result<Conversation<PlainOrder, PlainReply>, CliError> {
    let mut command = Command::new(process::worker_program()?);
    command.args(["worker", "--plain", setup.sandbox.as_str(), &setup.choice.spec]);
    command.args(device_lane::support_cubin(setup)?);
    let (group, log) = (ProcessGroup::default(), CappedLog::of_end(1 << 16));
    Ok(Conversation::start(command, VERSION, group, log)?)
}
