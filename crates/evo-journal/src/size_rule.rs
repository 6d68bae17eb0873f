//! Which configuration of a set to use, as a rule over problem sizes: a small decision tree, told as a list.

use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub struct RuleProblem<'a> {
    pub sizes: &'a BTreeMap<String, i64>,
    /// What each member of the set takes over the best time, at least 1.
    pub factors: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SizeStep {
    /// An expression over sizes; the last step has none.
    pub when: Option<String>,
    /// The same as bounds: a size and the largest value that it may have.
    bounds: Vec<Split>,
    pub member: usize,
}

pub fn member_of(steps: &[SizeStep], sizes: &BTreeMap<String, i64>) -> usize {
    let holds = |own: &Split| sizes.get(&own.name).copied().unwrap_or(0) <= own.most;
    steps.iter().find(|step| step.bounds.iter().all(holds)).map_or(0, |step| step.member)
}

/// A rule that gives each problem a member within `1 + within` of the best; `None` where sizes do not tell them apart.
/// Thresholds are values that problems have: between two of them, nothing was measured.
pub fn rule(problems: &[RuleProblem<'_>], within: f64) -> Option<Vec<SizeStep>> {
    let mut steps = Vec::new();
    let all: Vec<&RuleProblem<'_>> = problems.iter().collect();
    add(&all, within, &[], &mut steps)?;
    // A step before the last one that leads where the last one leads says nothing.
    while let [.., before, last] = &steps[..]
        && before.member == last.member
    {
        steps.remove(steps.len() - 2);
    }
    Some(steps)
}

/// Steps of a left branch come first and exhaust it, so that a right branch needs no condition of its own.
fn add(problems: &[&RuleProblem<'_>], within: f64, path: &[Split], steps: &mut Vec<SizeStep>) -> Option<()> {
    if let Some(member) = common(problems, within) {
        let bounds = tightest(path);
        let when = (!bounds.is_empty()).then(|| condition(&bounds));
        steps.push(SizeStep { when, bounds, member });
        return Some(());
    }
    let (split, left, right) = best_split(problems, within)?;
    let longer: Vec<Split> = path.iter().cloned().chain([split]).collect();
    add(&left, within, &longer, steps)?;
    add(&right, within, path, steps)
}

fn common(problems: &[&RuleProblem<'_>], within: f64) -> Option<usize> {
    let members = problems.first()?.factors.len();
    let suits = |member: &usize| problems.iter().all(|own| own.factors[*member] <= 1.0 + within);
    let loss = |member: usize| problems.iter().map(|own| own.factors[member].ln()).sum::<f64>();
    (0..members).filter(suits).min_by(|a, b| loss(*a).total_cmp(&loss(*b)))
}

/// `name <= most`, of which `flag` is `name == 0`.
#[derive(Clone, Debug, PartialEq)]
struct Split {
    name: String,
    most: i64,
    flag: bool,
}

type Halves<'p, 'a> = (Split, Vec<&'p RuleProblem<'a>>, Vec<&'p RuleProblem<'a>>);

fn best_split<'p, 'a>(problems: &[&'p RuleProblem<'a>], within: f64) -> Option<Halves<'p, 'a>> {
    let names: BTreeSet<&String> = problems.iter().flat_map(|own| own.sizes.keys()).collect();
    let mut best: Option<((usize, usize), Halves<'p, 'a>)> = None;
    for name in names {
        let value = |own: &RuleProblem<'_>| own.sizes.get(name).copied().unwrap_or(0);
        let values: BTreeSet<i64> = problems.iter().map(|own| value(own)).collect();
        let flag = values.iter().all(|value| (0..=1).contains(value));
        // Behind the largest value there is nothing to split off.
        for most in values.iter().copied().take(values.len() - 1) {
            let (left, right): (Vec<_>, Vec<_>) =
                problems.iter().copied().partition(|own| value(own) <= most);
            let needed = members_needed(&left, within) + members_needed(&right, within);
            let cost = (needed, left.len().abs_diff(right.len()));
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, (Split { name: name.clone(), most, flag }, left, right)));
            }
        }
    }
    best.map(|(_, halves)| halves)
}

fn members_needed(problems: &[&RuleProblem<'_>], within: f64) -> usize {
    let members = problems.first().map_or(0, |own| own.factors.len());
    let rows: Vec<Vec<f64>> =
        (0..members).map(|member| problems.iter().map(|own| own.factors[member]).collect()).collect();
    super::cover::smallest(&rows, within).map_or(usize::MAX / 4, |own| own.members.len())
}

fn tightest(path: &[Split]) -> Vec<Split> {
    let mut bounds: Vec<Split> = Vec::new();
    for split in path {
        match bounds.iter_mut().find(|own| own.name == split.name) {
            Some(own) => own.most = own.most.min(split.most),
            None => bounds.push(split.clone()),
        }
    }
    bounds
}

fn condition(bounds: &[Split]) -> String {
    let text = |own: &Split| match own.flag {
        true => format!("{} == 0", own.name),
        false => format!("{} <= {}", own.name, own.most),
    };
    bounds.iter().map(text).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    type Given<'a> = (&'a [(&'a str, i64)], &'a [f64]);

    #[track_caller]
    fn check(problems: &[Given<'_>], expected: Option<&[(&str, usize)]>) {
        let sizes: Vec<BTreeMap<String, i64>> = problems
            .iter()
            .map(|(sizes, _)| sizes.iter().map(|(name, value)| (name.to_string(), *value)).collect())
            .collect();
        let given: Vec<RuleProblem<'_>> = problems
            .iter()
            .zip(&sizes)
            .map(|((_, factors), sizes)| RuleProblem { sizes, factors: factors.to_vec() })
            .collect();
        let found = rule(&given, 0.02);
        let shown = found.as_ref().map(|steps| {
            let step = |one: &SizeStep| (one.when.clone().unwrap_or_default(), one.member);
            steps.iter().map(step).collect::<Vec<_>>()
        });
        let expected = expected
            .map(|steps| steps.iter().map(|(when, member)| (when.to_string(), *member)).collect::<Vec<_>>());
        assert_eq!(shown, expected);
        for (own, steps) in given.iter().flat_map(|own| found.as_ref().map(|steps| (own, steps))) {
            assert!(own.factors[member_of(steps, own.sizes)] <= 1.02, "{steps:?} at {:?}", own.sizes);
        }
    }

    #[test]
    fn rules_are_as_short_as_the_sizes_allow() {
        let (first, second): (&[f64], &[f64]) = (&[1.0, 1.5], &[1.5, 1.0]);
        let both: &[f64] = &[1.01, 1.0];
        check(&[(&[("N", 8)], first), (&[("N", 64)], first)], Some(&[("", 0)]));
        check(&[(&[("N", 8)], both), (&[("N", 64)], both)], Some(&[("", 1)]));
        check(&[(&[("N", 8)], first), (&[("N", 64)], second)], Some(&[("N <= 8", 0), ("", 1)]));
        check(
            &[(&[("N", 8)], first), (&[("N", 32)], both), (&[("N", 64)], second)],
            Some(&[("N <= 8", 0), ("", 1)]),
        );
        let flags: &[Given<'_>] = &[
            (&[("CAUSAL", 0), ("N", 8)], first),
            (&[("CAUSAL", 1), ("N", 8)], second),
            (&[("CAUSAL", 0), ("N", 64)], first),
            (&[("CAUSAL", 1), ("N", 64)], second),
        ];
        check(flags, Some(&[("CAUSAL == 0", 0), ("", 1)]));
        // The middle needs another member than both ends.
        let ends: &[Given<'_>] = &[(&[("N", 8)], first), (&[("N", 32)], second), (&[("N", 64)], first)];
        check(ends, Some(&[("N <= 8", 0), ("N <= 32", 1), ("", 0)]));
        let both_axes: &[Given<'_>] = &[
            (&[("M", 1), ("N", 8)], first),
            (&[("M", 1), ("N", 64)], second),
            (&[("M", 9), ("N", 8)], second),
            (&[("M", 9), ("N", 64)], second),
        ];
        check(both_axes, Some(&[("M <= 1 and N <= 8", 0), ("", 1)]));
        check(&[(&[("N", 8)], first), (&[("N", 8)], second)], None);
        check(&[], None);
    }
}
