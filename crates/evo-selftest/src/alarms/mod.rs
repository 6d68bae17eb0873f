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
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Value, json};

use self::plain::{Agreement, PlainOrder, PlainReply, VERSION};
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
        report.push(SelftestCheck::new("judged", Some(false), "nothing judged is nothing shown"));
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
    let (mut judged, mut right, mut not_built, mut all) = (0usize, 0, 0, Agreement::default());
    // Configurations that the two do not agree to call right.
    let (mut alarms, mut lines) = (Vec::new(), String::new());
    let file = bench.file();
    for genome in file.space.sample_distinct(count, &mut ChaCha8Rng::seed_from_u64(order.seed)) {
        let configuration = file.space.configuration(&genome);
        let (verdict, loops) = match bench.job(&configuration, false)? {
            // A variant that this device cannot hold is not an alarm.
            Err(verdict) if verdict.kind == VerdictKind::StaticReject => {
                not_built += 1;
                continue;
            }
            Err(verdict) => (*verdict, "not asked".to_string()),
            Ok(job) => {
                judged += 1;
                let verdict = bench.lane.evaluate(&job, &Standing::default()).verdict;
                let loops = second.judge(space, &job, order.seed ^ job.number)?.map(|own| all.add(own));
                (verdict, loops.map_or_else(|why| why, |()| "right".to_string()))
            }
        };
        if verdict.is_pass() && loops == "right" {
            right += 1;
        } else {
            let (label, message) = (verdict.label(), &verdict.message);
            let line = format!("ALARM {configuration}: {label}: {message}; plain loops: {loops}");
            // At once, because a long run may not come to its end.
            output::say(&format!("{space}: {line}"));
            lines += &format!("\n  {line}");
            alarms.push(json!({
                "configuration": configuration, "verdict": label, "message": message, "loops": loops,
            }));
        }
        if judged.is_multiple_of(TOLD_EVERY) {
            output::say(&format!("{space}: {judged} of {count} judged twice, {} alarms", alarms.len()));
        }
    }
    let Agreement { elements, worst } = all;
    let message = format!(
        "{judged} judged, {right} right twice, {not_built} not built; {elements} elements, largest error \
         {worst:.2} of its bound{lines}"
    );
    let check = SelftestCheck::new(space, Some(alarms.is_empty()), message);
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
        let mut all = Agreement::default();
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
            let reply = match child.ask(&order, LIMIT) {
                Ok(reply) => reply,
                Err(death) => return Ok(Err(format!("the child is gone: {:?}", death.how))),
            };
            self.child = Some(child);
            match reply {
                Ok(agreement) => all.add(agreement),
                Err(message) => return Ok(Err(message)),
            }
        }
        Ok(Ok(all))
    }
}

fn start(setup: &DeviceSetup) -> Result<Conversation<PlainOrder, PlainReply>, CliError> {
    let mut command = Command::new(process::worker_program()?);
    command.args(["worker", "--plain", setup.sandbox.as_str(), &setup.choice.spec]);
    command.args(device_lane::support_cubin(setup)?);
    let (group, log) = (ProcessGroup::default(), CappedLog::of_end(1 << 16));
    Ok(Conversation::start(command, VERSION, group, log)?)
}
