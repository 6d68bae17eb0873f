//! One line at the end of a sweep: which parameters mattered, when the best was found, how random search would
//! have done, which values were never tried.

use evo_search::insight::{ENOUGH, Importance, Insight, MicroAgreement, ParameterShare, Values};
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
        untried => named(&insight.untried),
        never_passed => named(&insight.never_passed),
    };
    templates::paragraphs("insight.txt.j2", values).into_iter().next()
}

/// Values as they are typed, which templates would write in their own way.
fn named(parameters: &[Values]) -> Vec<String> {
    let of = |Values { parameter, values }: &Values| {
        values.iter().map(|value| format!("`{parameter}={value}`")).collect::<Vec<_>>()
    };
    parameters.iter().flat_map(of).collect()
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
    use serde_json::{Value, json};

    use super::*;

    fn insight_with(changes: Value) -> Insight {
        let mut insight = json!({
            "evaluations": 200, "passing": 180,
            "best": {"number": 60, "objective_ns": 1000.0, "origin": "crossover", "expected": null,
                "after_evaluations": 57, "after_cost_share": 0.3},
            "importance": {"observations": 180, "explained": 0.9, "parameters": [
                {"name": "TILE", "share": 0.6}, {"name": "BX", "share": 0.3}, {"name": "BY", "share": 0.1}]},
            "untried": [{"parameter": "UNROLL", "values": [1, 2, 3, 4, 5, 6]}],
            "never_passed": [{"parameter": "TMA", "values": [false]}],
            "random": random("model", Some(1310.0)), "calibration": null, "operators": {},
        });
        insight.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        serde_json::from_value(insight).unwrap()
    }

    fn random(basis: &str, median_ns: Option<f64>) -> Value {
        json!({"basis": basis, "evaluations": 200, "median_ns": median_ns, "quarter_ns": median_ns,
            "three_quarters_ns": median_ns, "chance_as_good": 0.1, "median_to_match": 340, "course": []})
    }

    #[test]
    fn one_line_says_what_was_learned() {
        let expected = "insight: `TILE` (60 %), `BX` (30 %) decide most of the time; the best was evaluation 57 \
                        of 200, proposed by `crossover`; random search with the same budget would end about 31 % slower \
                        (estimated); never tried: `UNROLL=1`, `UNROLL=2`, `UNROLL=3`, `UNROLL=4` and 2 more; never passed: `TMA=false`";
        assert_eq!(line(&insight_with(json!({}))).unwrap(), expected);
        assert_eq!(line(&insight_with(json!({ "best": null }))), None);
    }

    #[test]
    fn each_part_has_its_words() {
        let check = |changes: Value, part: &str| {
            let line = line(&insight_with(changes)).unwrap();
            assert!(line.contains(part), "{line}");
        };
        for (basis, median, part) in [
            ("whole_space", Some(1.0), "needs 340 evaluations to find one as fast (median)"),
            ("own_draws", Some(1005.0), "would end as fast (from this study's random draws)"),
            ("model", Some(2500.0), "would end about 2.5 times slower (estimated)"),
            ("model", None, "would find nothing that passes (estimated)"),
        ] {
            let budget = if basis == "whole_space" { "" } else { "with the same budget " };
            check(json!({ "random": random(basis, median) }), &format!("; random search {budget}{part}"));
        }
        let unclear =
            json!({"observations": 180, "explained": 0.02, "parameters": [{"name": "A", "share": 1.0}]});
        check(json!({ "importance": unclear }), "insight: no parameter explains the time; ");
        check(json!({ "importance": null, "passing": 19 }), "too few measurements");
        check(json!({ "importance": null }), "all variants took the same time");
        let (one, other) = (json!({"parameter": "VEC", "pairs": 9}), json!({"parameter": "PAD", "pairs": 9}));
        check(json!({ "dead": [one] }), "; `VEC` changes nothing: the code is the same for all its values");
        check(json!({ "dead": [one, other] }), "; `VEC`, `PAD` change nothing: ");
        let calibration = json!({"expected": 170, "measured": 150, "inside": 0.64, "typical_factor": 1.12,
            "risk_expected": 0.1, "risk_came": 0.12});
        let error =
            "the median prediction error is 12 % (64 % of 150 predictions were inside their interval)";
        check(json!({ "calibration": calibration }), error);
        for (measured, spearman, dropped, part) in [
            (12, Some(0.83), false, "agrees (Spearman 0.83 over 8 configurations)"),
            (
                8,
                Some(-0.2),
                true,
                "does not hold here, and the rest of it was dropped (Spearman -0.20 over 8 c",
            ),
            (8, None, true, "all failed or took the same time, and the rest of it was dropped"),
            (3, None, false, "were measured, too few to compare (8 are needed)"),
        ] {
            let micro = json!({ "measured": measured, "spearman": spearman, "dropped": dropped });
            check(json!({ "micro": micro }), &format!("micro ranking {part}"));
        }
    }
}
