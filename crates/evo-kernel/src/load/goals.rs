//! `[goals]`: what a candidate of this kernel has to reach, for `evo gate --goals`.
//!
//! `[objective]`: what ranks, and the work of one call for TFLOP/s, GB/s and the roofline.
//!
//! `[[diagnose]]`: ways to harm this kernel, for `evo invert`.

use evo_protocol::invert::MetricDirection;
use evo_protocol::measurement::RankingMode;
use evo_space::document::{Data, Node};
use evo_space::space::Parameter;
use evo_space::value::Value;

use super::fields::{KnownNames, Reader, suggestion};
use crate::harm::Pathology;
use crate::spec::{
    DiagnoseDose, DiagnoseSpec, FasterGoal, GoalsSpec, MetricEvidence, MetricGoal, MetricRelation,
    ObjectiveSpec,
};

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

pub(super) fn read_goals(reader: &mut Reader, node: Option<&Node>) -> Option<Option<GoalsSpec>> {
    let Some(node) = node else { return Some(None) };
    let fields = reader.fields(node, "`goals`", &["faster_than", "p90", "metrics"])?;
    let p90_not_worse = reader
        .value(&fields, "p90", false, |reader, node, what| reader.choice(node, what, &[("not worse", true)]));
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
        let hint = "give `faster_than`, `p90` or `metrics`, or leave the table out";
        return reader.refuse(&node.span, "`goals` asks for nothing", hint);
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
        let hint = "write a name, one of >= <= > <, and a number: \"sm_busy_percent >= 70\"";
        return reader.refuse(&node.span, format!("`{text}` is not a goal"), hint);
    };
    if !METRIC_NAMES.contains(&name) {
        let hint = suggestion(name, METRIC_NAMES.iter().copied(), || {
            format!("there are {}", METRIC_NAMES.join(", "))
        });
        return reader.refuse(&node.span, format!("there is no metric `{name}`"), hint);
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
    let peer = reader.need(&fields, "peer", "add peer = \"torch\"", Reader::label);
    let by = reader.value(&fields, "by", 0.0, share);
    let problems = reader.value(&fields, "problems", 1, |reader, node, what| {
        reader.integer(node, what, 1).map(|count| count as usize)
    });
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

const MODES: &[(&str, RankingMode)] = &[("hot", RankingMode::Hot), ("cold", RankingMode::Cold)];

/// Reads the table; an absent one ranks by hot time.
pub(super) fn read_objective(
    reader: &mut Reader,
    node: Option<&Node>,
    names: &KnownNames,
) -> Option<ObjectiveSpec> {
    let Some(node) = node else {
        let ranking = RankingMode::Hot;
        return Some(ObjectiveSpec { ranking, flops: None, bytes: None, allow_trade: false });
    };
    let fields = reader.fields(node, "`objective`", &["ranking", "flops", "bytes", "allow_trade"])?;
    let ranking = reader
        .value(&fields, "ranking", RankingMode::Hot, |reader, node, what| reader.choice(node, what, MODES));
    let allow_trade = reader.value(&fields, "allow_trade", false, Reader::boolean);
    let mut work =
        |key: &str| reader.optional(&fields, key, |reader, node, what| reader.expression(node, what, names));
    let (flops, bytes) = (work("flops"), work("bytes"));
    Some(ObjectiveSpec { ranking: ranking?, flops: flops?, bytes: bytes?, allow_trade: allow_trade? })
}

const DIAGNOSE_KEYS: &[&str] = &["name", "resource", "unit", "try_next", "lightens", "moves", "doses"];
const DOSE: &str = "doses = [{ set = { VEC = 1 } }]";

pub(super) fn read_diagnose(
    reader: &mut Reader,
    node: Option<&Node>,
    parameters: &[Parameter],
) -> Option<Vec<DiagnoseSpec>> {
    let Some(node) = node else { return Some(Vec::new()) };
    let tables = reader.list(node, "`diagnose`", "tables with name, resource and doses")?;
    let mut all: Vec<DiagnoseSpec> = Vec::new();
    let mut is_whole = true;
    for table in tables {
        let Some(own) = pathology(reader, table, parameters) else {
            is_whole = false;
            continue;
        };
        if all.iter().any(|earlier| earlier.name == own.name) || Pathology::named(&own.name).is_some() {
            let hint = "names tell rows apart; evo's own are in docs/INVERT.md".to_string();
            reader.hinted(&table.span, format!("the pathology `{}` is there already", own.name), Some(hint));
            is_whole = false;
        }
        all.push(own);
    }
    is_whole.then_some(all)
}

fn pathology(reader: &mut Reader, node: &Node, parameters: &[Parameter]) -> Option<DiagnoseSpec> {
    let fields = reader.fields(node, "a table of `diagnose`", DIAGNOSE_KEYS)?;
    let name = reader.need(&fields, "name", "add name = \"narrow_loads\"", Reader::label);
    let resource = reader.need(&fields, "resource", "add resource = \"the width of loads\"", Reader::string);
    let optional = |reader: &mut Reader, key: &str, otherwise: &str| {
        reader.value(&fields, key, otherwise.to_string(), Reader::string)
    };
    let unit = optional(reader, "unit", "step");
    let try_next = optional(reader, "try_next", "the opposite");
    let lightens = reader.value(&fields, "lightens", false, Reader::boolean);
    let doses = reader.required(&fields, "doses", &format!("add {DOSE}"));
    let doses = doses.and_then(|node| {
        let items = reader.list(node, &fields.name("doses"), "tables with `set` or `define`")?;
        if items.is_empty() {
            let hint = Some(format!("write {DOSE}"));
            reader.hinted(&node.span, format!("{} is empty", fields.name("doses")), hint);
        }
        let found: Vec<_> = items.iter().map(|item| dose(reader, item, parameters)).collect();
        found.into_iter().collect::<Option<Vec<_>>>().filter(|found| !found.is_empty())
    });
    let moves = match fields.get("moves") {
        Some(node) => moves(reader, node),
        None => Some(Vec::new()),
    };
    let (name, resource, unit, try_next) = (name?, resource?, unit?, try_next?);
    Some(DiagnoseSpec { name, resource, unit, try_next, lightens: lightens?, moves: moves?, doses: doses? })
}

/// Metrics and where they go: `moves = { l1_hit_percent = "down" }`.
fn moves(reader: &mut Reader, node: &Node) -> Option<Vec<MetricEvidence>> {
    let Data::Table(entries) = &node.data else {
        reader.error(&node.span, format!("`moves` is {}, expected a table of metrics", node.kind()));
        return None;
    };
    let mut found = Vec::new();
    for entry in entries {
        if !METRIC_NAMES.contains(&entry.key.as_str()) {
            let hint = suggestion(&entry.key, METRIC_NAMES.iter().copied(), || {
                format!("there are {}", METRIC_NAMES.join(", "))
            });
            return reader.refuse(&entry.key_span, format!("there is no metric `{}`", entry.key), hint);
        }
        let direction = match &entry.value.data {
            Data::Text(text) => MetricDirection::named(text),
            _ => None,
        };
        let Some(direction) = direction else {
            let hint = format!("write moves = {{ {} = \"down\" }}", entry.key);
            let message = format!("`{}` of `moves` is neither \"up\" nor \"down\"", entry.key);
            return reader.refuse(&entry.value.span, message, hint);
        };
        found.push(MetricEvidence { metric: entry.key.clone(), direction });
    }
    Some(found)
}

fn dose(reader: &mut Reader, node: &Node, parameters: &[Parameter]) -> Option<DiagnoseDose> {
    let fields = reader.fields(node, "a dose", &["set", "define"])?;
    let set = match fields.get("set") {
        Some(node) => set(reader, node, parameters),
        None => Some(Vec::new()),
    };
    let define = match fields.get("define") {
        Some(node) => define(reader, node),
        None => Some(Vec::new()),
    };
    let found = DiagnoseDose { set: set?, define: define? };
    if found.set.is_empty() && found.define.is_empty() {
        return reader.refuse(&node.span, "a dose changes nothing", format!("write {DOSE}"));
    }
    Some(found)
}

fn set(reader: &mut Reader, node: &Node, parameters: &[Parameter]) -> Option<Vec<(String, Value)>> {
    let Data::Table(entries) = &node.data else {
        reader.error(&node.span, format!("`set` is {}, expected a table of parameters", node.kind()));
        return None;
    };
    let mut found = Vec::new();
    for entry in entries {
        let Some(parameter) = parameters.iter().find(|own| *own.name == *entry.key) else {
            let hint = suggestion(&entry.key, parameters.iter().map(|own| &*own.name), || {
                "`define` sets other macros".to_string()
            });
            let message = format!("there is no parameter `{}`", entry.key);
            return reader.refuse(&entry.key_span, message, hint);
        };
        found.push((entry.key.clone(), reader.parameter_value(&entry.value, parameter)?));
    }
    Some(found)
}

/// Macros and what they stand for: numbers or words.
fn define(reader: &mut Reader, node: &Node) -> Option<Vec<(String, String)>> {
    let Data::Table(entries) = &node.data else {
        reader.error(&node.span, format!("`define` is {}, expected a table of macros", node.kind()));
        return None;
    };
    let mut found = Vec::new();
    for entry in entries {
        let is_word = |text: &str| {
            let letter = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            !text.is_empty() && text.chars().all(letter)
        };
        let value = match &entry.value.data {
            Data::Int(value) => Some(value.to_string()),
            Data::Text(text) if is_word(text) => Some(text.clone()),
            _ => None,
        };
        let Some(value) = value.filter(|_| is_word(&entry.key)) else {
            let hint = "write define = { NO_STAGING = 1 }";
            let message = format!("`{}` of `define` is not a macro with a number or a word", entry.key);
            return reader.refuse(&entry.value.span, message, hint);
        };
        found.push((entry.key.clone(), value));
    }
    Some(found)
}
