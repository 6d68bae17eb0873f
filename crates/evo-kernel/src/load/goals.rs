//! `[goals]`: what a candidate of this kernel has to reach, for `evo gate --goals`.
//!
//! `[objective]`: what ranks, and the work of one call for TFLOP/s, GB/s and the roofline.
//!
//! `[[diagnose]]`: ways to harm this kernel, for `evo invert`.

use evo_protocol::invert::MetricDirection;
use evo_protocol::measurement::RankingMode;
use evo_space::document::{Data, suggestion};
use evo_space::expr::tree::Relation;
use evo_space::space::Parameter;
use evo_space::value::Value;

use super::fields::{Field, expression, label, parameter_value, read_all};
use crate::harm::Pathology;
use crate::spec::{
    DiagnoseDose, DiagnoseSpec, FasterGoal, GoalsSpec, MetricEvidence, MetricGoal, ObjectiveSpec,
};
use crate::words::{is_one_of, is_word};

/// Fields of a profile that a goal may name. `inspect` has the counters behind them and a test that both agree.
pub const METRIC_NAMES: &str = "\
    sm_throughput_percent sm_busy_percent memory_throughput_percent dram_throughput_percent \
    occupancy_percent l2_hit_percent tensor_pipe_percent load_efficiency_percent bank_conflicts_load \
    bank_conflicts_store shared_wavefronts_load shared_wavefronts_store threads_per_instruction \
    stall_long_scoreboard stall_barrier stall_wait stall_math_pipe_throttle tensor_instructions dram_bytes \
    instructions l1_hit_percent local_load_sectors global_load_requests global_store_sectors";

/// Longer signs first.
const RELATIONS: [Relation; 4] =
    [Relation::GreaterEqual, Relation::LessEqual, Relation::Greater, Relation::Less];

/// What is wrong with the name of a metric, and a hint.
fn no_metric(name: &str) -> Option<(String, String)> {
    let all = || format!("there are {}", METRIC_NAMES.replace(' ', ", "));
    let hint = suggestion(name, METRIC_NAMES.split(' '), all);
    (!is_one_of(name, METRIC_NAMES)).then(|| (format!("there is no metric `{name}`"), hint))
}

pub(super) fn read_goals(field: &Field) -> Option<GoalsSpec> {
    field.keys(&["faster_than", "p90", "metrics"])?;
    let goals = read_all!(GoalsSpec {
        p90_not_worse: field.or("p90", false, |own| own.choice(&[("not worse", true)])),
        metrics: field
            .or("metrics", Vec::new(), |own| { own.each("texts such as \"sm_busy_percent >= 70\"", metric) }),
        faster_than: field
            .or("faster_than", Vec::new(), |own| { own.each("tables such as { peer = \"torch\" }", faster) }),
    })?;
    if goals == GoalsSpec::default() {
        let hint = "give `faster_than`, `p90` or `metrics`, or leave the table out";
        return field.refuse("`goals` asks for nothing", hint);
    }
    Some(goals)
}

fn metric(item: &Field) -> Option<MetricGoal> {
    let item = item.at(item.node, "a goal of `metrics`");
    let text = item.string()?;
    let found = RELATIONS.iter().find_map(|relation| {
        let (name, bound) = text.split_once(relation.as_str())?;
        Some((name.trim(), *relation, bound.trim()))
    });
    let Some((name, relation, bound)) = found else {
        let hint = "write a name, one of >= <= > <, and a number: \"sm_busy_percent >= 70\"";
        return item.refuse(format!("`{text}` is not a goal"), hint);
    };
    if let Some((message, hint)) = no_metric(name) {
        return item.refuse(message, hint);
    }
    let Some(bound) = bound.parse::<f64>().ok().filter(|bound| bound.is_finite()) else {
        return item.wrong(format!("`{bound}` in `{text}` is not a number"));
    };
    Some(MetricGoal { metric: name.to_string(), relation, bound, text: text.trim().to_string() })
}

fn faster(item: &Field) -> Option<FasterGoal> {
    let field = item.at(item.node, "a goal of `faster_than`");
    field.keys(&["peer", "by", "problems"])?;
    read_all!(FasterGoal {
        peer: field.need("peer", "add peer = \"torch\"", label),
        by: field.or("by", 0.0, share),
        problems: field.or("problems", 1, |own| own.integer(1).map(|count| count as usize)),
    })
}

fn share(field: &Field) -> Option<f64> {
    let text = field.string()?;
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = number.map(|number| number / 100.0).filter(|share| (0.0..=100.0).contains(share));
    share.or_else(|| {
        field.refuse(format!("{field} is `{text}`, which is not a share in percent"), "write by = \"10%\"")
    })
}

const MODES: &[(&str, RankingMode)] = &[("hot", RankingMode::Hot), ("cold", RankingMode::Cold)];

pub(super) fn read_objective(field: Option<&Field>) -> Option<ObjectiveSpec> {
    let Some(field) = field else { return Some(ObjectiveSpec::default()) };
    field.keys(&["ranking", "flops", "bytes", "allow_trade"])?;
    read_all!(ObjectiveSpec {
        ranking: field.or("ranking", RankingMode::Hot, |own| own.choice(MODES)),
        allow_trade: field.or("allow_trade", false, Field::boolean),
        flops: field.optional("flops", expression),
        bytes: field.optional("bytes", expression),
    })
}

const DIAGNOSE_KEYS: &[&str] = &["name", "resource", "unit", "try_next", "lightens", "moves", "doses"];
const DOSE: &str = "doses = [{ set = { VEC = 1 } }]";

pub(super) fn read_diagnose(field: &Field, parameters: &[Parameter]) -> Option<Vec<DiagnoseSpec>> {
    let mut names: Vec<String> = Vec::new();
    field.each("tables with name, resource and doses", |item| {
        let found = pathology(&item.at(item.node, "a table of `diagnose`"), parameters)?;
        if names.contains(&found.name) || Pathology::named(&found.name).is_some() {
            let hint = "names tell rows apart; evo's own are in docs/INVERT.md";
            item.hinted(format!("the pathology `{}` is there already", found.name), hint);
        }
        names.push(found.name.clone());
        Some(found)
    })
}

fn pathology(field: &Field, parameters: &[Parameter]) -> Option<DiagnoseSpec> {
    field.keys(DIAGNOSE_KEYS)?;
    read_all!(DiagnoseSpec {
        name: field.need("name", "add name = \"narrow_loads\"", label),
        resource: field.need("resource", "add resource = \"the width of loads\"", Field::string),
        unit: field.or("unit", "step".to_string(), Field::string),
        try_next: field.or("try_next", "the opposite".to_string(), Field::string),
        lightens: field.or("lightens", false, Field::boolean),
        doses: field.need("doses", &format!("add {DOSE}"), |own| {
            let doses = own.each("tables with `set` or `define`", |item| dose(item, parameters))?;
            match doses.is_empty() {
                true => own.refuse(format!("{own} is empty"), format!("write {DOSE}")),
                false => Some(doses),
            }
        }),
        moves: field.or("moves", Vec::new(), moves),
    })
}

/// Metrics and where they go: `moves = { l1_hit_percent = "down" }`.
fn moves(field: &Field) -> Option<Vec<MetricEvidence>> {
    let mut found = Vec::new();
    for entry in field.at(field.node, "`moves`").entries("a table of metrics")? {
        let name = &entry.key;
        if let Some((message, hint)) = no_metric(name) {
            field.complain(&entry.key_span, message, Some(hint));
            return None;
        }
        let Some(direction) = field.node.text(name).and_then(MetricDirection::named) else {
            let message = format!("`{name}` of `moves` is neither \"up\" nor \"down\"");
            let hint = format!("write moves = {{ {name} = \"down\" }}");
            return field.at(&entry.value, "").refuse(message, hint);
        };
        found.push(MetricEvidence { metric: name.clone(), direction });
    }
    Some(found)
}

fn dose(item: &Field, parameters: &[Parameter]) -> Option<DiagnoseDose> {
    let field = item.at(item.node, "a dose");
    field.keys(&["set", "define"])?;
    let found = read_all!(DiagnoseDose {
        set: field.or("set", Vec::new(), |own| set(own, parameters)),
        define: field.or("define", Vec::new(), define),
    })?;
    if found.set.is_empty() && found.define.is_empty() {
        return field.refuse("a dose changes nothing", format!("write {DOSE}"));
    }
    Some(found)
}

fn set(field: &Field, parameters: &[Parameter]) -> Option<Vec<(String, Value)>> {
    let mut found = Vec::new();
    for entry in field.at(field.node, "`set`").entries("a table of parameters")? {
        let Some(parameter) = parameters.iter().find(|parameter| *parameter.name == *entry.key) else {
            let names = parameters.iter().map(|parameter| &*parameter.name);
            let hint = suggestion(&entry.key, names, || "`define` sets other macros".to_string());
            let message = format!("there is no parameter `{}`", entry.key);
            field.complain(&entry.key_span, message, Some(hint));
            return None;
        };
        found.push((entry.key.clone(), parameter_value(&field.at(&entry.value, ""), parameter)?));
    }
    Some(found)
}

fn define(field: &Field) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    for entry in field.at(field.node, "`define`").entries("a table of macros")? {
        let value = match &entry.value.data {
            Data::Int(value) => Some(value.to_string()),
            Data::Text(text) if is_word(text) => Some(text.clone()),
            _ => None,
        };
        let Some(value) = value.filter(|_| is_word(&entry.key)) else {
            let message = format!("`{}` of `define` is not a macro with a number or a word", entry.key);
            return field.at(&entry.value, "").refuse(message, "write define = { NO_STAGING = 1 }");
        };
        found.push((entry.key.clone(), value));
    }
    Some(found)
}
