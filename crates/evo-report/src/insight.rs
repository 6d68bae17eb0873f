//! One line at the end of a sweep: which parameters mattered, when the best was found, how random search would
//! have done, which values were never tried.

use evo_search::insight::{
    Basis, DeadParameter, ENOUGH, Importance, Insight, MicroAgreement, RandomSearch, Values,
};
use evo_space::text::counted;

/// Values that are named; the others are counted.
const NAMED: usize = 4;

/// Parameters that are named: until they cover this share, and at most so many.
const COVERED: f64 = 0.75;
const PARAMETERS: usize = 4;

/// A forest that explains less than this share of the variance says nothing about parameters.
const UNDERSTOOD: f64 = 0.1;

/// The line, without a newline; none where there is nothing to tell.
pub fn line(insight: &Insight) -> Option<String> {
    let best = insight.best.as_ref()?;
    let mut parts = vec![match &insight.importance {
        Some(importance) => decided(importance),
        None if insight.passing < ENOUGH => "too few measurements to say what decides the time".to_string(),
        None => "all variants took the same time".to_string(),
    }];
    parts.push(format!(
        "the best was evaluation {} of {}, proposed by `{}`",
        best.after_evaluations, insight.evaluations, best.origin
    ));
    parts.extend(insight.random.as_ref().map(|random| against(random, best.objective_ns)));
    if let Some(calibration) = &insight.calibration
        && let (Some(factor), Some(inside)) = (calibration.typical_factor, calibration.inside)
    {
        parts.push(format!(
            "the median prediction error is {} ({:.0} % of {} predictions were inside their interval)",
            more(factor),
            100.0 * inside,
            calibration.measured
        ));
    }
    parts.extend(insight.micro.as_ref().map(micro));
    parts.extend(nothing(&insight.dead));
    parts.extend(values("never tried", &insight.untried));
    parts.extend(values("never passed", &insight.never_passed));
    Some(format!("insight: {}", parts.join("; ")))
}

/// Which parameters decide, until the rest is little.
fn decided(importance: &Importance) -> String {
    if importance.explained < UNDERSTOOD {
        return "no parameter explains the time".to_string();
    }
    let (mut named, mut covered) = (Vec::new(), 0.0);
    for one in importance.parameters.iter().take(PARAMETERS) {
        if covered >= COVERED || one.share < 0.01 {
            break;
        }
        covered += one.share;
        named.push(format!("`{}` ({:.0} %)", one.name, 100.0 * one.share));
    }
    match named.len() {
        0 => "no parameter explains the time".to_string(),
        1 => format!("{} decides most of the time", named[0]),
        _ => format!("{} decide most of the time", named.join(", ")),
    }
}

/// Random search beside the best that was found.
fn against(random: &RandomSearch, best_ns: f64) -> String {
    let basis = match random.basis {
        Basis::WholeSpace => {
            let draws = random.median_to_match.unwrap_or(1);
            return format!(
                "random search needs {} to find one as fast (median)",
                counted(draws, "evaluation")
            );
        }
        Basis::OwnDraws => "from this study's random draws",
        Basis::Model => "estimated",
    };
    let reached = match random.median_ns {
        None => "would find nothing that passes".to_string(),
        Some(median) if median <= best_ns * 1.01 => "would end as fast".to_string(),
        Some(median) => format!("would end about {} slower", more(median / best_ns)),
    };
    format!("random search with the same budget {reached} ({basis})")
}

/// Whether the ranking that the search began with holds here.
fn micro(own: &MicroAgreement) -> String {
    let needed = MicroAgreement::JUDGED;
    match (own.spearman, own.dropped) {
        (Some(spearman), false) => {
            format!("the micro ranking agrees (Spearman {spearman:.2} over {needed} configurations)")
        }
        (Some(spearman), true) => format!(
            "the micro ranking does not hold here, and the rest of it was dropped (Spearman {spearman:.2} over {needed} \
             configurations, where 0.3 is asked for)"
        ),
        (None, true) => format!(
            "the first {needed} configurations of the micro ranking all failed or took the same time, and the rest of it \
             was dropped"
        ),
        (None, false) => format!(
            "{} of the micro ranking were measured, too few to compare ({needed} are needed)",
            own.measured
        ),
    }
}

/// A factor above 1: up to two as a percentage on top, beyond as times.
fn more(factor: f64) -> String {
    match 100.0 * (factor - 1.0) {
        percent if percent < 10.0 => format!("{percent:.1} %"),
        percent if percent < 100.0 => format!("{percent:.0} %"),
        _ => format!("{factor:.1} times"),
    }
}

/// Parameters that could as well be left out of the space.
fn nothing(dead: &[DeadParameter]) -> Option<String> {
    let names: Vec<String> = dead.iter().map(|one| format!("`{}`", one.parameter)).collect();
    match names.len() {
        0 => None,
        1 => Some(format!("{} changes nothing: the code is the same for all its values", names[0])),
        _ => Some(format!("{} change nothing: the code is the same for all their values", names.join(", "))),
    }
}

fn values(what: &str, all: &[Values]) -> Option<String> {
    let pairs: Vec<String> = all
        .iter()
        .flat_map(|one| one.values.iter().map(|value| format!("`{}={value}`", one.parameter)))
        .collect();
    let more = match pairs.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let named = &pairs[..pairs.len().min(NAMED)];
    (!named.is_empty()).then(|| format!("{what}: {}{more}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use evo_search::insight::{Best, ModelCalibration, ParameterShare};

    use super::*;

    fn share(name: &str, share: f64) -> ParameterShare {
        ParameterShare { name: name.into(), share }
    }

    fn random(basis: Basis, median_ns: Option<f64>) -> RandomSearch {
        RandomSearch {
            basis,
            evaluations: 200,
            median_ns,
            quarter_ns: median_ns,
            three_quarters_ns: median_ns,
            chance_as_good: 0.1,
            median_to_match: Some(340),
            course: Vec::new(),
        }
    }

    fn insight() -> Insight {
        let parameters = vec![share("TILE", 0.6), share("BX", 0.3), share("BY", 0.1)];
        let values = Values { parameter: "UNROLL".into(), values: (1..=6).map(Into::into).collect() };
        Insight {
            evaluations: 200,
            passing: 180,
            best: Some(Best {
                number: 60,
                objective_ns: 1000.0,
                origin: "crossover".into(),
                expected: None,
                after_evaluations: 57,
                after_cost_share: Some(0.3),
            }),
            importance: Some(Importance { observations: 180, explained: 0.9, parameters }),
            untried: vec![values],
            never_passed: Vec::new(),
            dead: Vec::new(),
            random: Some(random(Basis::Model, Some(1310.0))),
            calibration: None,
            micro: None,
            operators: BTreeMap::new(),
        }
    }

    #[test]
    fn one_line_says_what_was_learned() {
        let expected = "insight: `TILE` (60 %), `BX` (30 %) decide most of the time; the best was evaluation 57 \
                        of 200, proposed by `crossover`; random search with the same budget would end about 31 % slower \
                        (estimated); never tried: `UNROLL=1`, `UNROLL=2`, `UNROLL=3`, `UNROLL=4` and 2 more";
        assert_eq!(line(&insight()).unwrap(), expected);
        let nothing_passed = Insight { best: None, ..insight() };
        assert_eq!(line(&nothing_passed), None);
    }

    #[test]
    fn each_part_has_its_words() {
        let check = |insight: Insight, part: &str| {
            let line = line(&insight).unwrap();
            assert!(line.contains(part), "{line}");
        };
        let against = |basis, median| Insight { random: Some(random(basis, median)), ..insight() };
        check(
            against(Basis::WholeSpace, Some(1.0)),
            "random search needs 340 evaluations to find one as fast (median)",
        );
        check(
            against(Basis::OwnDraws, Some(1005.0)),
            "random search with the same budget would end as fast (from this study's random draws)",
        );
        check(
            against(Basis::Model, Some(2500.0)),
            "random search with the same budget would end about 2.5 times slower (estimated)",
        );
        check(
            against(Basis::Model, None),
            "random search with the same budget would find nothing that passes (estimated)",
        );
        let unclear = Importance { observations: 180, explained: 0.02, parameters: vec![share("A", 1.0)] };
        check(
            Insight { importance: Some(unclear), ..insight() },
            "insight: no parameter explains the time; ",
        );
        check(Insight { importance: None, passing: 19, ..insight() }, "too few measurements");
        check(Insight { importance: None, ..insight() }, "all variants took the same time");
        let dead = |names: &[&str]| -> Vec<DeadParameter> {
            names.iter().map(|name| DeadParameter { parameter: name.to_string(), pairs: 9 }).collect()
        };
        check(Insight { dead: dead(&["VEC"]), ..insight() }, "`VEC` changes nothing: the code is the same");
        check(Insight { dead: dead(&["VEC", "PAD"]), ..insight() }, "`VEC`, `PAD` change nothing: ");
        let calibration = ModelCalibration {
            expected: 170,
            measured: 150,
            inside: Some(0.64),
            typical_factor: Some(1.12),
            risk_expected: 0.1,
            risk_came: 0.12,
        };
        let told = "the median prediction error is 12 % (64 % of 150 predictions were inside their interval)";
        check(Insight { calibration: Some(calibration), ..insight() }, told);
        let agreement = |measured, spearman, dropped| Insight {
            micro: Some(MicroAgreement { measured, spearman, dropped }),
            ..insight()
        };
        let agrees = "the micro ranking agrees (Spearman 0.83 over 8 configurations)";
        check(agreement(12, Some(0.83), false), agrees);
        let dropped = "and the rest of it was dropped (Spearman -0.20 over 8 configurations, where 0.3";
        check(agreement(8, Some(-0.2), true), dropped);
        check(agreement(8, None, true), "the first 8 configurations of the micro ranking all failed");
        check(agreement(3, None, false), "3 of the micro ranking were measured, too few to compare");
    }
}
