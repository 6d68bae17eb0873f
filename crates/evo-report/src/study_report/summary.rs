//! `final_summary.md`: what came of a study, for whoever reads one page of it.

use evo_protocol::leaderboard::{ModeResult, ProblemResult};
use evo_protocol::verdict::GateState;
use evo_space::text::counted;

use super::change::{self, SourcePair};
use super::findings::findings;
use super::known::refused_faster;
use super::markdown::{block, code, escaped, plain, speedup, table};
use super::material::ReportMaterial;
use crate::text::{mix, time};

/// Refused variants that are listed.
const REFUSED: usize = 10;

pub fn summary_markdown(material: &ReportMaterial) -> String {
    let header = &material.study.header;
    let title =
        format!("<!-- evo.report -->\n# {} on {}\n\n", plain(&header.kernel), plain(&header.device.name));
    let mut found = String::from("## Findings\n\n");
    for (at, one) in findings(material).iter().enumerate() {
        found += &format!("{}. {}.\n", at + 1, named(one));
    }
    [
        title,
        found + "\n",
        format!("## Problems\n\n{}\n", problems(material)),
        format!("## Change\n\n{}\n", changed(material)),
        format!("## Goals and gates\n\n{}\n", judged(material)),
        refused(material),
        format!("## Conditions\n\n{}\n", conditions(material)),
        format!("## Again\n\n{}", again(material)),
    ]
    .concat()
}

/// A finding with its names as code: the only markup in it are evo's own backticks.
fn named(finding: &str) -> String {
    let part = |(at, text): (usize, &str)| if at % 2 == 1 { code(text) } else { escaped(text) };
    finding.split('`').enumerate().map(part).collect()
}

/// Problem → best peer → the baseline → ours → speed-up.
fn problems(material: &ReportMaterial) -> String {
    let Some(section) = &material.section else {
        return screened(material);
    };
    let mode = section.ranking.as_str();
    let rows: Vec<Vec<String>> = section
        .champion
        .results
        .iter()
        .map(|own| {
            let pair = section.champion.pairs.iter().find(|pair| pair.problem == own.problem);
            let base = baseline_result(material, &own.problem);
            vec![
                code(&own.problem),
                peer(material, &own.problem),
                base.map_or("not kept".to_string(), |base| both(base.p50_ns, Some(base.p90_ns))),
                own.modes.get(mode).map_or("not timed".to_string(), |one| both(one.p50_ns, Some(one.p90_ns))),
                pair.map_or("not compared".to_string(), |pair| {
                    speedup(1.0 / pair.ratio, Some((1.0 / pair.ratio_high, 1.0 / pair.ratio_low)))
                }),
                share(own),
            ]
        })
        .collect();
    let head = [
        "problem",
        "best peer p50 / p90",
        "baseline p50 / p90",
        "ours p50 / p90",
        "speed-up",
        "of the roofline",
    ];
    let all = section.champion.speedup.map_or(String::new(), |value| {
        let range = section.champion.speedup_low.zip(section.champion.speedup_high);
        format!("\nOver all problems: {}, paired in fresh processes.\n", speedup(value, range))
    });
    format!("{}{all}{}", table(&head, &rows), peers_from(material))
}

/// The same where nothing was confirmed.
fn screened(material: &ReportMaterial) -> String {
    let Some(best) = material.winner() else { return "No variant passed.\n".to_string() };
    let mode = material.study.header.ranking.timing();
    let rows: Vec<Vec<String>> = best
        .measurements
        .iter()
        .filter(|own| own.mode == mode)
        .map(|own| vec![code(&own.problem), peer(material, &own.problem), both(own.p50_ns, Some(own.p90_ns))])
        .collect();
    let text = match rows.is_empty() {
        true => {
            let time = best.objective_ns.map_or("no time".to_string(), time);
            format!("Evaluation {}: {time}, as it was recorded.\n", best.number)
        }
        false => table(&["problem", "best peer p50 / p90", "ours p50 / p90"], &rows),
    };
    format!("{text}\nNothing is confirmed: these are times of the screening, without a paired comparison.\n")
}

fn baseline_result<'a>(material: &'a ReportMaterial, problem: &str) -> Option<&'a ModeResult> {
    let section = material.section.as_ref()?;
    let entry = section.entries().find(|own| own.number == section.baseline.number)?;
    let result = entry.results.iter().find(|own| own.problem == problem)?;
    result.modes.get(section.ranking.as_str())
}

fn peer(material: &ReportMaterial, problem: &str) -> String {
    match material.peers.iter().find(|own| own.problem == problem) {
        None => "not run".to_string(),
        Some(own) => match own.peer_p50_ns {
            Some(p50) => format!("{} ({})", both(p50, own.peer_p90_ns), plain(&own.peer)),
            None => format!("{} (no time)", plain(&own.peer)),
        },
    }
}

fn peers_from(material: &ReportMaterial) -> String {
    let Some(folder) = &material.peers_from else {
        return "\nNo peer was measured: `evo bench` times other people's implementations.\n".to_string();
    };
    let told = material.peers.iter().filter_map(|own| {
        let (ratio, low, high) = (own.ratio?, own.ratio_low?, own.ratio_high?);
        let (problem, peer) = (code(&own.problem), plain(&own.peer));
        Some(format!(
            "{problem} takes {ratio:.3} ({low:.3} to {high:.3}) of the time of {peer} ({})",
            own.decision
        ))
    });
    let told: Vec<String> = told.collect();
    format!("\nPeers come from {}, a run of its own: {}.\n", code(folder), told.join("; "))
}

fn both(p50: f64, p90: Option<f64>) -> String {
    format!("{} / {}", time(p50), p90.map_or("unknown".to_string(), time))
}

fn share(own: &ProblemResult) -> String {
    own.roofline_share.map_or("unknown".to_string(), |share| format!("{:.1} %", 100.0 * share))
}

fn changed(material: &ReportMaterial) -> String {
    let (Some(winner), Some(base)) = (material.winner(), material.baseline()) else {
        return "There is no winner to compare.\n".to_string();
    };
    if winner.number == base.number {
        return "The baseline itself is the fastest.\n".to_string();
    }
    let parameters = change::parameters(&base.configuration, &winner.configuration);
    let of = |number| format!("evaluation {number}");
    let lead = format!("From {} to {}: {}\n\n", of(base.number), of(winner.number), code(&parameters));
    lead + &match &material.sources {
        SourcePair::Unknown { why } => {
            format!("The difference of their sources is not shown: {}.\n", plain(why))
        }
        SourcePair::Known { baseline, champion } => match change::source(baseline, champion) {
            Some(diff) => block("diff", &diff),
            None => "Their rendered sources are equal.\n".to_string(),
        },
    }
}

fn judged(material: &ReportMaterial) -> String {
    let goals = match material.gates.last() {
        None => "Goals: not judged; `evo gate --goals` judges those of the space file.\n".to_string(),
        Some(run) => format!(
            "Newest gate run ({}, run {}): {}; {}.\n",
            run.at,
            run.number,
            plain(&run.decision),
            plain(&run.why)
        ),
    };
    let Some(section) = &material.section else {
        return goals + "\nNothing was confirmed, so no gate ran at full depth.\n";
    };
    let rows = section.champion.gates.iter().map(|(gate, state)| {
        let state = match state {
            GateState::Pass => "pass",
            GateState::Fail => "fail",
            GateState::NotRun => "not run",
        };
        vec![code(gate), state.to_string()]
    });
    format!("{goals}\n{}", table(&["gate of the champion", "state"], &rows.collect::<Vec<_>>()))
}

fn refused(material: &ReportMaterial) -> String {
    let Some(best) = material.best_ns() else { return String::new() };
    let all = refused_faster(&material.study.header, &material.study.history, best);
    let rows: Vec<Vec<String>> = all
        .iter()
        .take(REFUSED)
        .map(|own| {
            let verdict = &own.evaluation.verdict;
            vec![
                own.evaluation.number.to_string(),
                code(&verdict.label()),
                time(own.time_ns),
                plain(&verdict.message),
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let more = match all.len().saturating_sub(REFUSED) {
        0 => String::new(),
        more => format!("\n{} more.\n", counted(more, "variant")),
    };
    let head = ["evaluation", "verdict", "time that it claimed", "what was seen"];
    format!("## Faster, and refused\n\n{}{more}\n", table(&head, &rows))
}

fn conditions(material: &ReportMaterial) -> String {
    let header = &material.study.header;
    let device = &header.device;
    let floor = material.section.as_ref().and_then(|own| own.noise_floor);
    let commit = match (&header.environment.git_commit, header.environment.git_dirty) {
        (None, _) => "none was recorded".to_string(),
        (Some(commit), Some(true)) => format!("{commit}, with uncommitted changes"),
        (Some(commit), _) => commit.clone(),
    };
    let toolchain = material.section.as_ref().map(|own| own.champion.toolchain.as_str());
    let clocks = clocks(material);
    let rows = [
        ("device", format!("{} ({}, {})", device.name, device.kind.as_str(), device.arch)),
        ("driver", device.driver.clone()),
        ("compiler", toolchain.unwrap_or("unknown").to_string()),
        ("timing mode that ranks", header.ranking.as_str().to_string()),
        (
            "noise floor",
            floor.map_or("not measured".to_string(), |own| format!("{:.2} % (A against A)", 100.0 * own)),
        ),
        ("clocks while confirming", clocks),
        ("evo", header.evo.clone()),
        ("git commit", commit),
        ("space", format!("{} ({}), {} valid points", header.space, header.space_hash.short(), header.valid)),
        ("strategy, seed", format!("{}, {}", header.strategy, header.seed)),
        ("evaluations", material.evaluations().len().to_string()),
        ("verdicts", mix(material.evaluations())),
        ("begun", header.started_at.clone()),
    ];
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|(name, value)| vec![name.to_string(), plain(&value)]).collect();
    let warnings = header.warnings.iter().map(|own| format!("- warning: {}\n", plain(own)));
    let damage = material.study.damage.iter().map(|own| format!("- {}\n", plain(own)));
    let told: String = warnings.chain(damage).collect();
    format!("{}{}{told}", table(&["condition", "value"], &rows), if told.is_empty() { "" } else { "\n" })
}

/// The range of the clock while the champion was confirmed.
fn clocks(material: &ReportMaterial) -> String {
    let entries = material.section.iter().flat_map(|own| &own.champion.results);
    let modes = entries.flat_map(|own| own.modes.values());
    let seen: Vec<u32> = modes.filter_map(|own| own.telemetry.clock_sm_mhz).collect();
    match (seen.iter().min(), seen.iter().max()) {
        (Some(low), Some(high)) if low == high => format!("{low} MHz"),
        (Some(low), Some(high)) => format!("{low} to {high} MHz"),
        _ => "not recorded".to_string(),
    }
}

fn again(material: &ReportMaterial) -> String {
    let header = &material.study.header;
    let mut lines = Vec::new();
    if let Some(section) = &material.section {
        lines.push(section.champion.repro.clone());
    } else if let Some(best) = material.winner() {
        lines.push(evo_journal::leaderboard::repro(header, &best.configuration));
    }
    let words = header.environment.command.iter().map(|word| evo_space::text::quote(word).into_owned());
    let command = words.collect::<Vec<_>>().join(" ");
    if !command.is_empty() {
        lines.push(command);
    }
    lines.push(format!("evo report {}", evo_space::text::quote(&header.study)));
    block("sh", &lines.join("\n"))
}
