//! `report.md`: what was tried, step by step, and what each step came to.

use evo_journal::gates::GateRun;
use evo_journal::iterations::Iteration;
use evo_journal::record::Confirmation;
use evo_protocol::evaluation::Evaluation;
use evo_protocol::verdict::Gate;
use evo_space::text::{counted, printable};
use serde_json::Value;

use super::change::{self, SourceText};
use super::entry::LogEntry;
use super::known::{NewBest, new_bests};
use super::markdown::{block, code, gates, measured, plain, speedup};
use super::material::ReportMaterial;
use crate::text::{mix, time};

/// The gates that ask for right answers.
const TESTS: [Gate; 4] = [Gate::TinyShapes, Gate::FullShapes, Gate::Repeatability, Gate::Honesty];

/// The iteration log.
pub fn report_markdown(material: &ReportMaterial) -> String {
    let header = &material.study.header;
    let mut text = format!(
        "<!-- evo.report -->\n# Iteration log: {} on {}\n\n",
        plain(&header.kernel),
        plain(&header.device.name)
    );
    text += &format!(
        "Study {}, space {}, strategy {}, seed {}, {} in the journal. Times are medians with their 95 % interval, in the \
         `{}` timing mode.\n\n",
        code(&header.study),
        code(&header.space),
        code(&header.strategy),
        header.seed,
        counted(material.evaluations().len(), "evaluation"),
        header.ranking.as_str()
    );
    text += &format!("Verdicts: {}.\n\n", plain(&mix(material.evaluations())));
    for damage in &material.study.damage {
        text += &format!("> {}\n\n", plain(damage));
    }
    let mut entries = searched(material);
    entries.extend(material.study.history.confirmations.iter().map(|one| confirmed(material, one)));
    entries.extend(profiled(material));
    entries.extend(material.iterations.iter().map(|one| evaluated(material, one)));
    entries.extend(material.gates.iter().map(gated));
    if entries.is_empty() {
        text += "Nothing passed yet, so there is no step to tell.\n";
    }
    entries.iter().enumerate().for_each(|(at, entry)| text += &entry.text(at + 1));
    text
}

/// Each new best of the screening.
fn searched(material: &ReportMaterial) -> Vec<LogEntry> {
    let bests = new_bests(material.evaluations());
    let entry = |(at, best): (usize, &NewBest<'_>)| {
        let one = best.evaluation;
        let before = at.checked_sub(1).map(|at| &bests[at]);
        let change = match before {
            None => format!("the first variant that passed: {}", code(&one.configuration.to_string())),
            Some(before) => code(&change::parameters(&before.evaluation.configuration, &one.configuration)),
        };
        let step = match before {
            None => time(best.time_ns),
            Some(before) => format!(
                "{} → {} ({:.3}×, screening; not paired)",
                time(before.time_ns),
                time(best.time_ns),
                before.time_ns / best.time_ns
            ),
        };
        let next = match bests.get(at + 1) {
            Some(next) => format!("the search went on; evaluation {} was faster", next.evaluation.number),
            None => "none of the later variants was faster in the screening".to_string(),
        };
        LogEntry {
            title: format!("Search: evaluation {}", one.number),
            fields: vec![
                (
                    "Phase",
                    format!("search, generation {}, proposed by {}", one.generation, code(&one.origin)),
                ),
                ("Hypothesis", expectation(one)),
                ("Profile", "not run for this variant".to_string()),
                ("Change", change),
                ("Build", build(one)),
                ("Tests", gates(one, &TESTS)),
                ("Sanitizer", gates(one, &[Gate::Sanitize])),
                ("Old → new", format!("{step}{}", per_problem(one, material))),
                ("Decision", "keep: the fastest so far".to_string()),
                ("Next", next),
            ],
        }
    };
    bests.iter().enumerate().map(entry).collect()
}

fn expectation(one: &Evaluation) -> String {
    match one.expected {
        None => "none was recorded".to_string(),
        Some(own) => format!(
            "the model expected {} ({} to {}), with a risk of {:.0} % to fail",
            time(own.objective_ns),
            time(own.low_ns),
            time(own.high_ns),
            100.0 * own.risk
        ),
    }
}

fn build(one: &Evaluation) -> String {
    let resources = one.resources.iter().map(|own| {
        let number = |value: Option<u64>| value.map_or("unknown".to_string(), |value| value.to_string());
        format!(
            "{}: {} registers, {} bytes spilled",
            code(&own.entry),
            number(own.registers.map(u64::from)),
            number(own.spill_store_bytes)
        )
    });
    let resources: Vec<String> = resources.collect();
    let compiled = match one.compile_ms {
        ms if ms > 0.0 => format!("compiled in {ms:.0} ms"),
        _ => "another variant's binary".to_string(),
    };
    [vec![compiled], resources].concat().join("; ")
}

/// Times of each problem where there is more than one.
fn per_problem(one: &Evaluation, material: &ReportMaterial) -> String {
    let mode = material.study.header.ranking.timing();
    let own = one.measurements.iter().filter(|own| own.mode == mode);
    let told: Vec<String> = own.map(|own| format!("{} {}", code(&own.problem), measured(own))).collect();
    if told.is_empty() { String::new() } else { format!("; {}", told.join(", ")) }
}

fn confirmed(material: &ReportMaterial, one: &Confirmation) -> LogEntry {
    let is_baseline = one.number == one.baseline;
    let change = match material.numbered(one.baseline).filter(|_| !is_baseline) {
        Some(base) => code(&change::parameters(&base.configuration, &one.evaluation.configuration)),
        None => "none: this is the baseline".to_string(),
    };
    let pairs: Vec<String> = one
        .pairs
        .iter()
        .map(|pair| {
            let ends = (1.0 / pair.ratio_high, 1.0 / pair.ratio_low);
            format!("{} {}", code(&pair.problem), speedup(1.0 / pair.ratio, Some(ends)))
        })
        .collect();
    let champion = material.section.as_ref().map(|own| own.champion.number);
    let decision = match (champion == Some(one.number), one.evaluation.verdict.is_pass(), is_baseline) {
        (true, ..) => "champion",
        (_, false, _) => "reject: it failed a gate at full depth",
        (_, _, true) => "baseline of the comparison",
        _ => "not the fastest of those confirmed",
    };
    let floor = one.noise_floor.map_or("unknown".to_string(), |own| format!("{:.2} %", 100.0 * own));
    LogEntry {
        title: format!("Confirmation: evaluation {}", one.number),
        fields: vec![
            (
                "Phase",
                "confirmation: every gate again at full depth, then paired blocks in fresh processes".into(),
            ),
            (
                "Hypothesis",
                format!("the screened time ({}) holds", one.screened_ns.map_or("none".into(), time)),
            ),
            ("Change", change),
            ("Build", build(&one.evaluation)),
            ("Tests", gates(&one.evaluation, &TESTS)),
            ("Sanitizer", gates(&one.evaluation, &[Gate::Sanitize])),
            (
                "Old → new",
                match pairs.is_empty() {
                    true => "no paired comparison".to_string(),
                    false => format!(
                        "against evaluation {}: {}; noise floor {floor}",
                        one.baseline,
                        pairs.join(", ")
                    ),
                },
            ),
            ("Decision", format!("{decision} ({})", code(&one.evaluation.verdict.label()))),
            (
                "Next",
                match champion == Some(one.number) {
                    true => "`final_summary.md` has its numbers".to_string(),
                    false => "none".to_string(),
                },
            ),
        ],
    }
}

/// What the newest profile found.
fn profiled(material: &ReportMaterial) -> Option<LogEntry> {
    let result = &material.study.profile.as_ref()?["result"];
    let text = |value: &Value| value.as_str().unwrap_or("unknown").to_string();
    let findings = result["findings"].as_array().into_iter().flatten();
    let told: Vec<String> = findings
        .map(|one| format!("{} {}", code(&text(&one["metric"])), plain(&text(&one["next"]))))
        .collect();
    Some(LogEntry {
        title: "Profile".to_string(),
        fields: vec![
            ("Phase", "profile".to_string()),
            ("Profile", format!("bottleneck: {}", code(&text(&result["bottleneck"])))),
            ("Next", if told.is_empty() { "nothing was found".to_string() } else { told.join("; ") }),
        ],
    })
}

fn evaluated(material: &ReportMaterial, one: &Iteration) -> LogEntry {
    let problems: Vec<String> = one
        .problems
        .iter()
        .map(|own| {
            let shown = |value: Option<f64>| value.map_or("not timed".to_string(), time);
            let speed = own.speedup.map_or(String::new(), |speed| format!(" ({speed:.3}×)"));
            format!("{} {} → {}{speed}", code(&own.problem), shown(own.against_p50_ns), shown(own.p50_ns))
        })
        .collect();
    let mut fields = vec![
        ("Phase", format!("evaluate, {}", one.at)),
        ("Hypothesis", one.hypothesis.as_deref().map_or("none was given".to_string(), plain)),
        ("Change", edited(material, one)),
        ("Tests", format!("{} {}", code(&one.verdict), plain(&one.message))),
        ("Old → new", format!("against {}: {}", plain(&one.against), problems.join(", "))),
        ("Decision", format!("{}: {}", one.decision, plain(&one.why))),
    ];
    if !one.notes.is_empty() {
        fields.push(("Notes", plain(&one.notes.join("; "))));
    }
    LogEntry { title: format!("Evaluate: evaluation {}", one.number), fields }
}

/// The source of an evaluation beside that of the one it was compared with, or its configuration.
fn edited(material: &ReportMaterial, one: &Iteration) -> String {
    let configuration = code(&one.candidate.configuration.to_string());
    let Some(source) = &one.candidate.source else { return format!("configuration {configuration}") };
    let earlier = material.iterations.iter().take_while(|own| own.number < one.number);
    let rival = earlier.filter(|own| own.candidate.source.is_some()).last();
    let Some((rival, text)) = rival.and_then(|own| Some((own, own.candidate.source.as_ref()?))) else {
        return format!("a source of its own, {} lines, with {configuration}", source.lines().count());
    };
    let before = SourceText { name: format!("evaluation {}", rival.number), text: text.clone() };
    let after = SourceText { name: format!("evaluation {}", one.number), text: source.clone() };
    match change::source(&before, &after) {
        Some(diff) => block("diff", &printable(&diff)),
        None => format!("the source of evaluation {} with {configuration}", rival.number),
    }
}

fn gated(one: &GateRun) -> LogEntry {
    let problems: Vec<String> = one
        .problems
        .iter()
        .map(|own| {
            let ratio = own.ratio.map_or("no ratio".to_string(), |ratio| format!("{ratio:.3} of its time"));
            format!("{} {ratio} ({})", code(&own.problem), plain(&own.decision))
        })
        .collect();
    LogEntry {
        title: format!("Gate: run {}", one.number),
        fields: vec![
            ("Phase", format!("gate, {}", one.at)),
            ("Change", code(&one.candidate.configuration.to_string())),
            ("Old → new", format!("against {}: {}", code(&one.baseline), problems.join(", "))),
            ("Decision", format!("{}: {}", plain(&one.decision), plain(&one.why))),
        ],
    }
}
