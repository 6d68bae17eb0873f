//! `[goals]`: what a candidate of this kernel has to reach, for `evo gate --goals`.

use evo_space::diagnostic::nearest;
use evo_space::document::Node;

use super::fields::Reader;
use crate::spec::{FasterGoal, GoalsSpec, MetricGoal, MetricRelation};

/// Fields of a profile that a goal may name. `inspect` has the counters behind them and a test that both agree.
pub const METRIC_NAMES: &[&str] = &[
    "sm_throughput_percent",
    "sm_busy_percent",
    "memory_throughput_percent",
    "dram_throughput_percent",
    "occupancy_percent",
    "l2_hit_percent",
    "tensor_pipe_percent",
    "load_efficiency_percent",
    "bank_conflicts_load",
    "bank_conflicts_store",
    "shared_wavefronts_load",
    "shared_wavefronts_store",
    "threads_per_instruction",
    "stall_long_scoreboard",
    "stall_barrier",
    "stall_wait",
    "stall_math_pipe_throttle",
    "tensor_instructions",
    "dram_bytes",
    "instructions",
    "l1_hit_percent",
    "local_load_sectors",
    "global_load_requests",
    "global_store_sectors",
];

const RELATIONS: &[(&str, MetricRelation)] = &[
    (">=", MetricRelation::AtLeast),
    ("<=", MetricRelation::AtMost),
    (">", MetricRelation::Above),
    ("<", MetricRelation::Below),
];

/// Reads the table; nothing where there is none.
pub(super) fn read(reader: &mut Reader, node: Option<&Node>) -> Option<Option<GoalsSpec>> {
    let Some(node) = node else { return Some(None) };
    let fields = reader.fields(node, "`goals`", &["faster_than", "p90", "metrics"])?;
    let p90_not_worse = match fields.get("p90") {
        Some(node) => reader.choice(node, &fields.name("p90"), &[("not worse", true)]),
        None => Some(false),
    };
    let metrics = match fields.get("metrics") {
        Some(node) => {
            let items =
                reader.list(node, &fields.name("metrics"), "texts such as \"sm_busy_percent >= 70\"")?;
            let found: Vec<Option<MetricGoal>> = items.iter().map(|item| metric(reader, item)).collect();
            found.into_iter().collect()
        }
        None => Some(Vec::new()),
    };
    let faster_than = match fields.get("faster_than") {
        Some(node) => {
            let items =
                reader.list(node, &fields.name("faster_than"), "tables such as { peer = \"torch\" }")?;
            let found: Vec<Option<FasterGoal>> = items.iter().map(|item| faster(reader, item)).collect();
            found.into_iter().collect()
        }
        None => Some(Vec::new()),
    };
    let goals = GoalsSpec { faster_than: faster_than?, p90_not_worse: p90_not_worse?, metrics: metrics? };
    if goals == GoalsSpec::default() {
        let hint = "give `faster_than`, `p90` or `metrics`, or leave the table out".to_string();
        reader.hinted(&node.span, "`goals` asks for nothing", Some(hint));
        return None;
    }
    Some(Some(goals))
}

/// `sm_busy_percent >= 70`
fn metric(reader: &mut Reader, node: &Node) -> Option<MetricGoal> {
    let text = reader.string(node, "a goal of `metrics`")?;
    let found = RELATIONS.iter().find_map(|(sign, relation)| {
        let (name, bound) = text.split_once(sign)?;
        Some((name.trim(), *relation, bound.trim()))
    });
    let Some((name, relation, bound)) = found else {
        let hint = "write a name, one of >= <= > <, and a number: \"sm_busy_percent >= 70\"".to_string();
        reader.hinted(&node.span, format!("`{text}` is not a goal"), Some(hint));
        return None;
    };
    if !METRIC_NAMES.contains(&name) {
        let hint = match nearest(name, METRIC_NAMES.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", METRIC_NAMES.join(", ")),
        };
        reader.hinted(&node.span, format!("there is no metric `{name}`"), Some(hint));
        return None;
    }
    let Some(bound) = bound.parse::<f64>().ok().filter(|bound| bound.is_finite()) else {
        reader.error(&node.span, format!("`{bound}` in `{text}` is not a number"));
        return None;
    };
    Some(MetricGoal { metric: name.to_string(), relation, bound, text: text.trim().to_string() })
}

/// `{ peer = "torch", by = "10%", problems = 2 }`
fn faster(reader: &mut Reader, node: &Node) -> Option<FasterGoal> {
    let fields = reader.fields(node, "a goal of `faster_than`", &["peer", "by", "problems"])?;
    let peer = reader.required(&fields, "peer", "add peer = \"torch\"");
    let peer = peer.and_then(|node| reader.label(node, &fields.name("peer")));
    let by = match fields.get("by") {
        Some(node) => share(reader, node, &fields.name("by")),
        None => Some(0.0),
    };
    let problems = match fields.get("problems") {
        Some(node) => reader.integer(node, &fields.name("problems"), 1).map(|count| count as usize),
        None => Some(1),
    };
    Some(FasterGoal { peer: peer?, by: by?, problems: problems? })
}

/// `"10%"`
fn share(reader: &mut Reader, node: &Node, what: &str) -> Option<f64> {
    let text = reader.string(node, what)?;
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = number.map(|number| number / 100.0).filter(|share| (0.0..=100.0).contains(share));
    if share.is_none() {
        let hint = Some("write by = \"10%\"".to_string());
        reader.hinted(&node.span, format!("{what} is `{text}`, which is not a share in percent"), hint);
    }
    share
}
