//! The tables of the page.

use evo_journal::leaderboard::repro;
use evo_protocol::leaderboard::RankedEntry;
use evo_protocol::verdict::GateState;
use evo_space::text::shortened;
use serde::Serialize;

use crate::study_report::known::{KnownTime, chart_class, refused_faster};
use crate::study_report::material::ReportMaterial;
use crate::text::time;

/// Rows that the page shows without its script.
const ROWS: usize = 50;
/// Refused variants that are shown.
const REFUSED: usize = 30;
/// Characters of a message or of evidence in a cell.
const TEXT: usize = 400;

/// A cell: its text, and how it looks (`number`, `code`, a verdict's class).
#[derive(Clone, Debug, Serialize)]
pub struct PageCell {
    text: String,
    class: String,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct PageTable {
    pub head: Vec<String>,
    pub rows: Vec<Vec<PageCell>>,
    /// What stands below it, or in its place.
    pub note: String,
}

fn cell(class: &str, text: impl Into<String>) -> PageCell {
    PageCell { text: text.into(), class: class.into() }
}

fn table(head: &[&str], rows: Vec<Vec<PageCell>>, note: impl Into<String>) -> PageTable {
    PageTable { head: head.iter().map(|own| own.to_string()).collect(), rows, note: note.into() }
}

/// The champion's problems beside the best peer.
pub fn problems(material: &ReportMaterial) -> PageTable {
    let Some(section) = &material.section else { return PageTable::default() };
    let mode = section.ranking.as_str();
    let rows = section.champion.results.iter().map(|own| {
        let pair = section.champion.pairs.iter().find(|pair| pair.problem == own.problem);
        let peer = material.peers.iter().find(|peer| peer.problem == own.problem);
        let timed = own.modes.get(mode);
        let sizes: Vec<String> = own.sizes.iter().map(|(name, value)| format!("{name}={value}")).collect();
        vec![
            cell("", own.problem.clone()),
            cell("code", sizes.join(" ")),
            cell("number", timed.map_or("not timed".into(), |own| time(own.p50_ns))),
            cell("number", timed.map_or("not timed".into(), |own| time(own.p90_ns))),
            cell(
                "number",
                pair.map_or("not compared".into(), |pair| {
                    let (low, high) = (1.0 / pair.ratio_high, 1.0 / pair.ratio_low);
                    format!("{:.3}× ({low:.3} to {high:.3})", 1.0 / pair.ratio)
                }),
            ),
            cell(
                "number",
                peer.map_or("not run".into(), |own| {
                    let shown = own.peer_p50_ns.map_or("no time".into(), time);
                    format!("{shown} ({})", own.peer)
                }),
            ),
            cell(
                "number",
                own.roofline_share.map_or("unknown".into(), |own| format!("{:.1} %", 100.0 * own)),
            ),
        ]
    });
    let head =
        ["problem", "sizes", "p50", "p90", "speed-up over the baseline", "best peer p50", "of the roofline"];
    table(
        &head,
        rows.collect(),
        format!("Times in the {mode} timing mode. Speed-ups are paired, with their 95 % interval."),
    )
}

/// The confirmed variants.
pub fn ranked(material: &ReportMaterial) -> PageTable {
    let Some(section) = &material.section else { return PageTable::default() };
    let rows = section.entries().map(|own| {
        let range = own.speedup_low.zip(own.speedup_high);
        let range = range.map_or(String::new(), |(low, high)| format!("{low:.4} to {high:.4}"));
        let registers = own.resources.iter().filter_map(|own| own.registers).max();
        let spills: u64 = own.resources.iter().filter_map(|own| own.spill_store_bytes).sum();
        let failed: Vec<&str> = own
            .gates
            .iter()
            .filter(|(_, state)| **state != GateState::Pass)
            .map(|(gate, _)| gate.as_str())
            .collect();
        vec![
            cell("number", own.rank.to_string()),
            cell("number", own.number.to_string()),
            cell("number", time(own.objective_ns)),
            cell("number", own.speedup.map_or("baseline".into(), |own| format!("{own:.4}×"))),
            cell("number", range),
            cell("", slower_on(own)),
            cell("number", registers.map_or("unknown".into(), |own| own.to_string())),
            cell("number", spills.to_string()),
            cell("", if failed.is_empty() { "all".into() } else { format!("all but {}", failed.join(", ")) }),
            cell("code", own.configuration.to_string()),
        ]
    });
    let head = [
        "rank",
        "evaluation",
        "time",
        "speed-up",
        "95 % interval",
        "slower on",
        "registers",
        "spilled bytes",
        "gates passed",
        "configuration",
    ];
    table(&head, rows.collect(), "")
}

/// The problems on which an entry is slower than the baseline beyond doubt, which keeps it from the first rank.
fn slower_on(entry: &RankedEntry) -> String {
    let told = entry.traded.iter().map(|own| format!("{} ({:.3}× its time)", own.problem, own.ratio));
    told.collect::<Vec<_>>().join(", ")
}

/// Variants that were refused although they looked faster than the winner.
pub fn refused(material: &ReportMaterial) -> PageTable {
    let header = &material.study.header;
    let Some(best) = material.best_ns() else {
        return table(&[], Vec::new(), "There is no winner to compare refused variants with.");
    };
    let all = refused_faster(header, &material.study.history, best);
    if all.is_empty() {
        let count = material.evaluations().iter().filter(|one| {
            let class = one.verdict.kind.class();
            !matches!(chart_class(class).0, "ok" | "slow" | "passed" | "harness")
        });
        let note = match count.count() {
            0 => "No variant was refused.".to_string(),
            count => {
                format!("{count} variants were refused; none of them had a time that beat the winner's.")
            }
        };
        return table(&[], Vec::new(), note);
    }
    let rows = all.iter().take(REFUSED).map(|own| {
        let one = own.evaluation;
        let evidence: Vec<String> =
            one.verdict.evidence.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let (timed, of) = own.problems;
        let part = if timed < of { format!(" ({timed} of {of} problems)") } else { String::new() };
        vec![
            cell("number", one.number.to_string()),
            cell(chart_class(one.verdict.kind.class()).0, one.verdict.label()),
            cell("number", format!("{}{part}", time(own.time_ns))),
            cell("number", format!("{:.3}×", best / own.time_ns)),
            cell("text", shortened(&one.verdict.message, TEXT).into_owned()),
            cell("code", shortened(&evidence.join(" "), TEXT).into_owned()),
            cell("code", repro(header, &one.configuration)),
        ]
    });
    let head = [
        "evaluation",
        "verdict",
        "time that it claimed",
        "over the winner",
        "what was seen",
        "evidence",
        "again",
    ];
    let note = match all.len().saturating_sub(REFUSED) {
        0 => "Times that were taken before the variant was refused: what a tuner without these gates would report.".to_string(),
        more => format!("{more} more are in the table of all rows."),
    };
    table(&head, rows.collect(), note)
}

/// The fastest evaluations, for readers without a script.
pub fn first_rows(material: &ReportMaterial) -> PageTable {
    let mut all: Vec<_> = material.evaluations().iter().collect();
    let key = |one: &evo_protocol::evaluation::Evaluation| match KnownTime::of(one) {
        KnownTime::Measured(time) if one.verdict.is_pass() => (0, time),
        KnownTime::Measured(time) | KnownTime::AtLeast(time) => (1, time),
        KnownTime::Unknown => (2, one.number as f64),
    };
    all.sort_by(|a, b| {
        let (a, b) = (key(a), key(b));
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    });
    let rows = all.iter().take(ROWS).map(|one| {
        let known = KnownTime::of(one);
        let lead = if matches!(known, KnownTime::AtLeast(_)) { "≥ " } else { "" };
        vec![
            cell("number", one.number.to_string()),
            cell(chart_class(one.verdict.kind.class()).0, one.verdict.label()),
            cell("number", known.value().map_or(String::new(), |own| format!("{lead}{}", time(own)))),
            cell("", one.origin.clone()),
            cell("code", one.configuration.to_string()),
            cell("text", shortened(&one.verdict.message, TEXT).into_owned()),
        ]
    });
    let note = match all.len().saturating_sub(ROWS) {
        0 => String::new(),
        more => format!("{more} more rows are in the page's data; its script shows them."),
    };
    table(
        &["evaluation", "verdict", "time", "proposed by", "configuration", "what was seen"],
        rows.collect(),
        note,
    )
}

/// Under which conditions everything was measured.
pub fn environment(material: &ReportMaterial) -> PageTable {
    let header = &material.study.header;
    let (device, environment) = (&header.device, &header.environment);
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: String| rows.push((name.to_string(), value));
    add("device", format!("{} ({}, {})", device.name, device.kind.as_str(), device.arch));
    add("device id", device.uuid.clone());
    add("driver", device.driver.clone());
    add("multiprocessors", device.multiprocessors.to_string());
    let peak = |value: Option<f64>, unit: &str, factor: f64| {
        value.map_or("unknown".to_string(), |own| format!("{:.1} {unit}", own / factor))
    };
    add("peak bandwidth", peak(device.bandwidth, "· 10⁹ bytes/s", 1e9));
    add("peak fp32", peak(device.flops_f32, "· 10¹² operations/s", 1e12));
    add("peak fp16, matrix units", peak(device.flops_f16, "· 10¹² operations/s", 1e12));
    if let Some(section) = &material.section {
        add("compiler", section.champion.toolchain.clone());
    }
    add("evo", header.evo.clone());
    add("platform", format!("{}, {} logical processors", environment.platform, environment.cores));
    let dirty = if environment.git_dirty == Some(true) { ", with uncommitted changes" } else { "" };
    add("git commit", environment.git_commit.clone().map_or("none was recorded".into(), |own| own + dirty));
    add("space", format!("{} ({})", header.space, header.space_hash));
    add(
        "strategy",
        format!("{}, seed {}, {} per generation", header.strategy, header.seed, header.population),
    );
    add("timing mode that ranks", header.ranking.as_str().to_string());
    add("problems", header.problems.join(", "));
    add("only checked", if header.checked.is_empty() { "none".into() } else { header.checked.join(", ") });
    for problem in header.definition.iter().flat_map(|own| &own.problems) {
        let sizes: Vec<String> =
            problem.sizes.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let timed = if problem.timed { "" } else { ", only checked" };
        add(
            &format!("problem {}", problem.name),
            format!("{}; weight {}{timed}", sizes.join(" "), problem.weight),
        );
    }
    for constraint in header.definition.iter().flat_map(|own| &own.constraints) {
        add("constraint", constraint.clone());
    }
    for warning in &header.warnings {
        add("warning", warning.clone());
    }
    for (name, value) in header.conditions.iter().flat_map(|own| own.iter()) {
        add(name, shortened(value, TEXT).into_owned());
    }
    let rows = rows.into_iter().map(|(name, value)| vec![cell("", name), cell("code", value)]);
    table(&["condition", "value"], rows.collect(), "")
}

/// The runs of the study, and how each ended.
pub fn runs(material: &ReportMaterial) -> PageTable {
    let rows = material.study.history.ends.iter().map(|own| {
        vec![
            cell("", own.at.clone()),
            cell("", own.reason.describe()),
            cell("number", own.evaluations_this_run.to_string()),
            cell("number", format!("{:.1} s", own.throughput.search_seconds)),
            cell("number", format!("{:.1}", own.throughput.evaluations_per_second)),
            cell("number", format!("{:.0} %", 100.0 * own.throughput.device_busy)),
            cell(
                "number",
                format!("{:.0} % of {}", 100.0 * own.throughput.compile_busy, own.throughput.compile_jobs),
            ),
        ]
    });
    let head =
        ["ended", "because", "evaluations", "search", "evaluations/s", "device busy", "compilers busy"];
    let rows: Vec<_> = rows.collect();
    let note = if rows.is_empty() { "No run of this study has ended by itself yet." } else { "" };
    table(&head, rows, note)
}
