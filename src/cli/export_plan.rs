//! What `evo export` writes: one variant, or several with a rule that chooses among them by sizes.
//!
//! There are several where the candidate is several binaries, one for each set of constants, and where `dispatch` asks
//! for the portfolio of the leaderboard.

use std::collections::BTreeMap;

use evo_export::dispatch::{Dispatch, DispatchRule, DispatchVariant};
use evo_export::format::ExportFormat;
use evo_protocol::device::DeviceKind;
use evo_protocol::export::{ExportJudgement, ExportNumbers};
use evo_protocol::leaderboard::{LeaderboardSection, PortfolioSet, RankedEntry};
use evo_protocol::specialization::Specialization;
use evo_space::genome::Configuration;

use super::candidate as named;
use super::error::CliError;
use super::export_args::ExportArgs;
use super::export_unit::VariantWish;
use super::session;
use super::trial::AskedCandidate;
use crate::engine::candidate::CandidateKind;
use crate::kernel::spec::{KernelSpec, ProblemSpec};
use crate::kernel::specialize::{constants_of, distinct};
use crate::study::StudySearch;

/// How far from the fastest a variant of a dispatch table may be.
const WITHIN: f64 = 0.05;

/// What is written.
#[derive(Debug)]
pub struct ExportPlan<'a> {
    pub variants: Vec<VariantWish<'a>>,
    pub judged: ExportJudgement,
    /// How variants are chosen, where that was asked for or there are several.
    pub dispatch: Option<Dispatch>,
    /// Why there is no such rule although it was asked for.
    pub without_dispatch: Option<String>,
}

/// A configuration that takes part.
struct ExportMember {
    number: Option<u64>,
    configuration: Configuration,
    numbers: Option<ExportNumbers>,
}

/// The rule by which members are chosen: positions of members, the last one without a condition.
struct MemberRule {
    steps: Vec<(Option<String>, usize)>,
    within: Option<f64>,
    worst_factor: Option<f64>,
    is_exact: bool,
}

/// Finds out what is to be written.
pub fn plan<'a>(
    arguments: &ExportArgs,
    asked: &'a AskedCandidate,
    kind: DeviceKind,
    formats: &[ExportFormat],
) -> Result<ExportPlan<'a>, CliError> {
    let candidate = &asked.candidate;
    let kernel = session::kernel_of(&candidate.file)?;
    let problems = session::problems(kernel, kind, &arguments.one.problems)?;
    let wants = formats.contains(&ExportFormat::Dispatch);
    let section = section(arguments, asked, kernel)?;
    let alone = || ExportMember {
        number: None,
        configuration: candidate.configuration.clone(),
        numbers: section.as_ref().and_then(|own| numbers(own, &candidate.configuration)),
    };
    let mut without_dispatch = None;
    let is_champion = candidate.provenance.kind == CandidateKind::Champion;
    let (members, rule) =
        match section.as_ref().filter(|_| wants && is_champion).map(|own| portfolio(arguments, own)) {
            Some(Ok((members, rule))) => (members, Some(rule)),
            Some(Err(why)) => {
                without_dispatch = Some(why);
                (vec![alone()], None)
            }
            None => (vec![alone()], None),
        };
    let sets = distinct(problems.iter().map(|own| constants_of(&kernel.specialize, own)));
    if members.len() * sets.len() == 1 && wants && without_dispatch.is_none() {
        let why = "there is one variant, and nothing to choose; `@champion` of a leaderboard with a portfolio has more";
        without_dispatch = Some(why.to_string());
    }
    let judged = match (arguments.unchecked, is_recorded(asked)) {
        (true, _) => ExportJudgement::Unchecked,
        (false, true) => ExportJudgement::Recorded,
        (false, false) => ExportJudgement::Now,
    };
    let judged_on = match judged {
        ExportJudgement::Unchecked => None,
        ExportJudgement::Recorded => section.as_ref().map(|own| own.device.name.clone()),
        ExportJudgement::Now => {
            Some(asked.setup.choice.name.clone().unwrap_or_else(|| asked.setup.choice.spec.clone()))
        }
    };
    let several = members.len() * sets.len() > 1;
    let mut variants = Vec::new();
    for member in &members {
        for constants in &sets {
            let own = problems.iter().filter(|own| constants_of(&kernel.specialize, own) == *constants);
            variants.push(VariantWish {
                file: &candidate.file,
                kernel,
                configuration: member.configuration.clone(),
                constants: constants.clone(),
                problems: own.copied().collect(),
                source_hash: candidate.provenance.source_hash.clone().filter(|_| members.len() == 1),
                judged,
                judged_on: judged_on.clone(),
                numbers: member.numbers.clone(),
                folder: if several { folder(member.number, constants, members.len()) } else { String::new() },
            });
        }
    }
    let dispatch = several.then(|| dispatch(kernel, &variants, &sets, rule, &problems));
    Ok(ExportPlan { variants, judged, dispatch, without_dispatch })
}

/// What the leaderboard says of a candidate that it names.
fn section(
    arguments: &ExportArgs,
    asked: &AskedCandidate,
    kernel: &KernelSpec,
) -> Result<Option<LeaderboardSection>, CliError> {
    if !is_recorded(asked) {
        return Ok(None);
    }
    let candidate = &arguments.one.candidate;
    let search = StudySearch {
        out: &candidate.out,
        study: candidate.study.as_deref(),
        kernel: &kernel.name,
        device: named::kind_of(&arguments.one.run.device),
    };
    search.confirmed().map(Some).map_err(|error| named::error(error.into()))
}

fn numbers(section: &LeaderboardSection, configuration: &Configuration) -> Option<ExportNumbers> {
    let entry: &RankedEntry = section.entries().find(|own| own.configuration == *configuration)?;
    Some(ExportNumbers {
        study: section.study.name.clone(),
        number: entry.number,
        device: section.device.name.clone(),
        driver: section.device.driver.clone(),
        confirmed_at: section.confirmed_at.clone(),
        ranking: section.ranking.as_str().to_string(),
        speedup: entry.speedup,
        noise_floor: section.noise_floor,
        problems: entry.results.clone(),
    })
}

/// The smallest set of the leaderboard that is fast enough everywhere, with its rule; or why there is none.
fn portfolio(
    arguments: &ExportArgs,
    section: &LeaderboardSection,
) -> Result<(Vec<ExportMember>, MemberRule), String> {
    let portfolio = section
        .portfolio
        .as_ref()
        .ok_or("the leaderboard has no portfolio: it needs several timed problems")?;
    let set: &PortfolioSet = portfolio
        .sets
        .iter()
        .filter(|own| own.within <= WITHIN + 1e-9)
        .min_by(|a, b| a.members.len().cmp(&b.members.len()).then(a.worst_factor.total_cmp(&b.worst_factor)))
        .ok_or("the leaderboard has no set of variants within 5 %")?;
    let most = usize::from(arguments.variants_max);
    if set.members.len() > most {
        let count = set.members.len();
        return Err(format!(
            "{count} variants are needed to stay within 5 %, and `--variants-max` is {most}"
        ));
    }
    let rule = set.rule.as_ref().ok_or("problems of the same sizes need different variants")?;
    let place = |number: u64| set.members.iter().position(|own| own.number == number);
    let steps: Option<Vec<(Option<String>, usize)>> =
        rule.iter().map(|step| Some((step.when.clone(), place(step.number)?))).collect();
    let members = set.members.iter().map(|own| ExportMember {
        number: Some(own.number),
        configuration: own.configuration.clone(),
        numbers: numbers(section, &own.configuration),
    });
    let rule = MemberRule {
        steps: steps.ok_or("its rule names a variant that is not in it")?,
        within: Some(set.within),
        worst_factor: Some(set.worst_factor),
        is_exact: set.is_exact,
    };
    Ok((members.collect(), rule))
}

fn folder(number: Option<u64>, constants: &Specialization, members: usize) -> String {
    let own = number.filter(|_| members > 1).map(|number| format!("variant_{number}"));
    let values = constants.iter().map(|(name, value)| format!("{}_{value}", name.to_lowercase()));
    own.into_iter().chain(values).collect::<Vec<String>>().join("_")
}

/// The rule of all variants: which member, and of that the binary for the sizes.
fn dispatch(
    kernel: &KernelSpec,
    variants: &[VariantWish<'_>],
    sets: &[Specialization],
    rule: Option<MemberRule>,
    problems: &[&ProblemSpec],
) -> Dispatch {
    let rule = rule.unwrap_or(MemberRule {
        steps: vec![(None, 0)],
        within: None,
        worst_factor: None,
        is_exact: true,
    });
    let mut rules = Vec::new();
    for (when, member) in &rule.steps {
        for (at, constants) in sets.iter().enumerate() {
            let own = constants.iter().map(|(name, value)| format!("{name} == {value}"));
            let all: Vec<String> = when.iter().map(|when| format!("({when})")).chain(own).collect();
            let when = (!all.is_empty()).then(|| all.join(" and "));
            rules.push(DispatchRule { when, variant: member * sets.len() + at });
        }
    }
    let sizes = |own: &ProblemSpec| -> Vec<(String, i64)> {
        own.sizes.iter().map(|(name, value)| (name.clone(), value.as_int().unwrap_or(0))).collect()
    };
    // A problem belongs to the first variant that the rule gives it; the table says so for people.
    let chosen: BTreeMap<&str, usize> = problems
        .iter()
        .filter_map(|own| {
            let scope = |name: &str| own.sizes.get(name).cloned();
            let holds = |rule: &&DispatchRule| match &rule.when {
                None => true,
                Some(text) => evo_space::Expr::parse(text)
                    .is_ok_and(|expr| expr.evaluate(&scope).is_ok_and(|value| value.is_true())),
            };
            rules.iter().find(holds).map(|rule| (own.name.as_str(), rule.variant))
        })
        .collect();
    let variant = |(at, own): (usize, &VariantWish<'_>)| DispatchVariant {
        folder: own.folder.clone(),
        label: format!("{} {}", own.configuration, own.constants).trim_end().to_string(),
        problems: chosen
            .iter()
            .filter(|(_, chosen)| **chosen == at)
            .map(|(name, _)| name.to_string())
            .collect(),
    };
    Dispatch {
        kernel: kernel.name.clone(),
        sizes: kernel.problems.first().map(|own| own.sizes.keys().cloned().collect()).unwrap_or_default(),
        variants: variants.iter().enumerate().map(variant).collect(),
        rules,
        within: rule.within,
        worst_factor: rule.worst_factor,
        is_exact: rule.is_exact,
        measured: problems.iter().filter(|own| own.timed).map(|own| (own.name.clone(), sizes(own))).collect(),
    }
}

/// Whether the leaderboard vouches for a candidate.
fn is_recorded(asked: &AskedCandidate) -> bool {
    let from = &asked.candidate.provenance;
    matches!(from.kind, CandidateKind::Champion | CandidateKind::Previous) && !from.source_changed
}
