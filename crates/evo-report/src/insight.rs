//! One line at the end of a sweep: which parameters mattered, when the best was found, how random search would
//! have done, which values were never tried.

use evo_search::insight::{ENOUGH, Importance, Insight, MicroAgreement, ParameterShare};
use minijinja::context;
use minijinja::value::Serde;

use super::templates;

/// Parameters that are named: until they cover this share, and at most so many.
const COVERED: f64 = 0.75;
const PARAMETERS: usize = 4;

/// A forest that explains less than this share of the variance says nothing about parameters.
const UNDERSTOOD: f64 = 0.1;

/// The line, without a newline; none where there is nothing to tell.
pub fn line(insight: &Insight) -> Option<String> {
    insight.best.as_ref()?;
    let values = context! {
        insight => Serde(insight),
        enough => ENOUGH,
        judged => MicroAgreement::JUDGED,
        decisive => Serde(insight.importance.as_ref().map(decisive)),
    };
    templates::paragraphs("insight.txt.j2", values).into_iter().next()
}

/// The parameters that decide, until the rest is little.
fn decisive(importance: &Importance) -> Vec<&ParameterShare> {
    if importance.explained < UNDERSTOOD {
        return Vec::new();
    }
    let mut covered = 0.0;
    let shares = importance.parameters.iter().take(PARAMETERS).take_while(|parameter| {
        let is_needed = covered < COVERED && parameter.share >= 0.01;
        covered += parameter.share;
        is_needed
    });
    shares.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use evo_search::insight::{Basis, Best, DeadParameter, ModelCalibration, RandomSearch, Values};

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
