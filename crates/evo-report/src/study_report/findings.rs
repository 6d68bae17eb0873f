//! The three things about a study that a reader should know first, each from a number that is in its records.

use evo_protocol::leaderboard::{LeaderboardSection, PairedDecision};
use evo_search::insight::{Basis, Insight};
use evo_space::text::counted;

use super::known::{new_bests, refused_faster};
use super::material::ReportMaterial;
use crate::text::{is_one_cards, time};

/// A model that explains less than this share of the variance says nothing about parameters.
const UNDERSTOOD: f64 = 0.1;
/// As many as are shown.
const FINDINGS: usize = 3;

/// At most three, the most important first.
pub fn findings(material: &ReportMaterial) -> Vec<String> {
    let mut found = vec![won(material)];
    found.extend(refused(material));
    let insight = material.study.insight.as_ref();
    found.extend(insight.and_then(decided));
    found.extend(insight.and_then(random));
    found.extend(standing(material));
    found.truncate(FINDINGS);
    found
}

fn won(material: &ReportMaterial) -> String {
    if let Some(section) = &material.section {
        return confirmed(section);
    }
    let bests = new_bests(material.evaluations());
    match (bests.first(), bests.last()) {
        (Some(first), Some(best)) if best.order > first.order => format!(
            "Nothing is confirmed: in the screening, evaluation {} takes {}, {:.2} times as fast as the first variant that \
             passed",
            best.evaluation.number,
            time(best.time_ns),
            first.time_ns / best.time_ns
        ),
        (Some(only), _) => format!(
            "Nothing is confirmed: the first variant that passed, evaluation {}, stayed the fastest ({})",
            only.evaluation.number,
            time(only.time_ns)
        ),
        (None, _) => match material.evaluations().len() {
            0 => "Nothing was evaluated yet".to_string(),
            all => format!("None of {} passed", counted(all, "evaluation")),
        },
    }
}

fn confirmed(section: &LeaderboardSection) -> String {
    let champion = &section.champion;
    if champion.number == section.baseline.number {
        return "No variant is faster than the baseline beyond the noise: the baseline stays the champion"
            .to_string();
    }
    let speed = champion.speedup.unwrap_or(1.0);
    let range = champion.speedup_low.zip(champion.speedup_high);
    let range = range.map_or(String::new(), |(low, high)| format!(" (95 % CI {low:.3} to {high:.3})"));
    let than = if section.baseline.is_default { "the default configuration" } else { "the baseline" };
    let word = match champion.decision {
        Some(PairedDecision::Faster) => "",
        Some(PairedDecision::Same) => ", a tie within the noise",
        Some(PairedDecision::Slower) => ", and slower on some problem",
        Some(PairedDecision::Ambiguous) => ", and the problems do not agree",
        None => ", without a paired comparison",
    };
    let again =
        if is_one_cards(champion) { ", on this card only: a second one does not repeat it" } else { "" };
    format!("Evaluation {} is {speed:.3}× as fast as {than}{range}, paired{word}{again}", champion.number)
}

fn refused(material: &ReportMaterial) -> Option<String> {
    let best = material.best_ns()?;
    let all = refused_faster(&material.study.header, &material.study.history, best);
    let fastest = all.first()?;
    Some(format!(
        "{} looked faster than the winner and {} refused; the fastest of them ({}, `{}`) claimed {}",
        counted(all.len(), "variant"),
        if all.len() == 1 { "was" } else { "were" },
        counted_number(fastest.evaluation.number),
        fastest.evaluation.verdict.label(),
        time(fastest.time_ns)
    ))
}

fn counted_number(number: u64) -> String {
    format!("evaluation {number}")
}

fn decided(insight: &Insight) -> Option<String> {
    let importance = insight.importance.as_ref().filter(|own| own.explained >= UNDERSTOOD)?;
    let first = importance.parameters.first().filter(|own| own.share >= 0.01)?;
    let second = importance.parameters.get(1).filter(|own| own.share >= 0.05);
    let second =
        second.map_or(String::new(), |own| format!(", then `{}` ({:.0} %)", own.name, 100.0 * own.share));
    Some(format!("`{}` decides most of the time ({:.0} %){second}", first.name, 100.0 * first.share))
}

fn random(insight: &Insight) -> Option<String> {
    let (random, best) = (insight.random.as_ref()?, insight.best.as_ref()?);
    if random.basis == Basis::WholeSpace {
        let draws = random.median_to_match?;
        return Some(format!(
            "Random search needs {} to find a variant as fast (median, from all valid points)",
            counted(draws, "evaluation")
        ));
    }
    let slower = random.median_ns? / best.objective_ns;
    let basis = if random.basis == Basis::OwnDraws { "from this study's random draws" } else { "estimated" };
    Some(format!(
        "Random search with the same budget would end about {:.1} % slower ({basis})",
        100.0 * (slower - 1.0).max(0.0)
    ))
}

fn standing(material: &ReportMaterial) -> Option<String> {
    let worst = material
        .peers
        .iter()
        .filter(|own| own.ratio.is_some_and(f64::is_finite))
        .max_by(|a, b| a.ratio.unwrap_or(0.0).total_cmp(&b.ratio.unwrap_or(0.0)))?;
    Some(format!(
        "Beside peers, `{}` stands worst: {:.3} of the time of {}",
        worst.problem, worst.ratio?, worst.peer
    ))
}
