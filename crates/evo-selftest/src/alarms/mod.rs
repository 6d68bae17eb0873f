//! Random configurations of the kernels that ship with evo, judged by the gates and judged again by a path that shares no
//! judgement with them.
//!
//! `plain` runs a variant on inputs of its own, `loops` computes the answers in fp64 with plain loops and says
//! how far off an honest kernel may be.

mod loops;
mod plain;

use evo::cli::error::CliError;
use evo::cli::output;
use evo::cli::selftest::{SelftestBench, SelftestCheck, SelftestReport, open_device};
use evo::kernel::catalog;
use evo::supervise::job::Standing;
use evo::supervise::lane::LaneLimits;
use evo_device::device::Device;
use evo_protocol::verdict::{VerdictClass, VerdictKind};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use serde_json::{Value, json};

use self::plain::Agreement;
use crate::order::Order;

/// The spaces that ship for users.
const SPACES: &[&str] =
    &["attention_simt", "attention_mma", "gemm", "gemm_mma", "reduction", "rmsnorm", "softmax", "transpose"];

/// Configurations unless the command line says how many.
const CONFIGURATIONS: usize = 60;

/// How far a space is, is told after so many.
const TOLD_EVERY: usize = 10;

/// A check for each space, which passes where both judges call every variant right.
pub fn run(order: &Order, report: &mut SelftestReport) -> Result<Value, CliError> {
    let spaces: Vec<&'static str> = SPACES.iter().copied().filter(|name| order.wants(name)).collect();
    if spaces.is_empty() {
        return Err(order.names_nothing("space", format!("the spaces are {}", SPACES.join(", "))));
    }
    let wanted = order.count.unwrap_or(CONFIGURATIONS);
    let (mut info, mut judged) = (Value::Null, 0);
    let mut device = open_device(&order.setup)?;
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
        let check = judged_twice(space, count, &mut bench, (device.as_mut(), order.seed))?;
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
    (device, seed): (&mut dyn Device, u64),
) -> Result<SelftestCheck, CliError> {
    let (mut judged, mut right, mut not_built, mut all) = (0usize, 0, 0, Agreement::default());
    // Configurations that the two do not agree to call right.
    let (mut alarms, mut lines) = (Vec::new(), String::new());
    let file = bench.file();
    for genome in file.space.sample_distinct(count, &mut ChaCha8Rng::seed_from_u64(seed)) {
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
                // A variant that crashes or hangs would take this process with it.
                let is_wild = matches!(verdict.kind.class(), VerdictClass::Crash | VerdictClass::Hang);
                let loops = match is_wild {
                    true => "not asked".to_string(),
                    false => plain::judge(device, space, &job, seed ^ job.number)
                        .map(|own| all.add(own))
                        .map_or_else(|why| why.to_string(), |()| "right".to_string()),
                };
                (verdict, loops)
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
