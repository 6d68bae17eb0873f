//! Everything that a small space answers, against all of its points judged by the constraints as written.

use std::fmt::Display;

use evo_space::expr::Expr;
use evo_space::genome::Genome;
use evo_space::program::Scratch;
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use evo_space::value::Value;
use evo_space::{Neighborhood, Size};

use super::generator::Spec;

/// `Err` says what is wrong.
pub type Checked = Result<(), String>;

fn same(what: impl Display, right: bool) -> Checked {
    if right { Ok(()) } else { Err(format!("{what} is wrong")) }
}

/// How many points are valid, or what the index has wrong.
pub fn check(spec: &Spec) -> Result<usize, String> {
    let space = spec.build()?;
    let valid = valid_points(&space);
    same("exactness", space.is_exact())?;
    check_size(&space, &valid)?;
    check_indices(&space, &valid)?;
    // The same points as a list, out of order and some of them twice.
    let points = valid.iter().rev().chain(valid.iter().step_by(3)).cloned().collect();
    let listed = SearchSpace::of_points(space.parameters().to_vec(), points);
    same("the size of a list", listed.count() == valid.len() as u128 && listed.is_exact())?;
    same("what a list holds", listed.iter().eq(valid.iter().cloned()))?;
    let indices = valid.iter().map(|genome| listed.index_of(genome));
    same("the index of a listed point", indices.eq((0..valid.len() as u128).map(Some)))?;
    Ok(valid.len())
}

/// Every operation, of a space that is counted or of one that is too entangled for that.
pub fn check_operations(space: &SearchSpace) -> Checked {
    let valid = valid_points(space);
    check_size(space, &valid)?;
    check_indices(space, &valid)?;
    check_samples(space, &valid)?;
    for number in 0..20u16 {
        let sizes = space.parameters().iter().map(|parameter| parameter.values.len() as u16);
        let point: Vec<u16> = sizes.zip(1u16..).map(|(size, at)| (number * 31 + at * 17) % size).collect();
        check_fixed(space, &valid, usize::from(number) % point.len(), &point)?;
        check_around(space, &valid, &Genome::from(point))?;
    }
    valid.iter().step_by(valid.len() / 4 + 1).try_for_each(|point| check_around(space, &valid, point))
}

/// All points in canonical order, valid or not.
pub fn points(space: &SearchSpace) -> Vec<Genome> {
    let mut points = vec![Vec::new()];
    for parameter in space.parameters() {
        let longer = |point: &Vec<u16>| {
            (0..parameter.values.len() as u16).map(|at| [&point[..], &[at]].concat()).collect::<Vec<_>>()
        };
        points = points.iter().flat_map(longer).collect();
    }
    points.into_iter().map(Genome::from).collect()
}

pub fn valid_points(space: &SearchSpace) -> Vec<Genome> {
    let mut points = points(space);
    points.retain(|genome| space.explain(genome).is_empty());
    points
}

fn check_size(space: &SearchSpace, valid: &[Genome]) -> Checked {
    match space.size() {
        Size::Exact(count) => {
            let valid_count = valid.len() as u128;
            let counts =
                (space.count(), space.valid()) == (valid_count, &count) && count == valid_count.into();
            same("the count", counts)?;
            same("what occurs", space.effective_domains() == occurring(space, valid))
        }
        Size::Unknown { at_most, estimate, spread } => {
            let at_most_valid = at_most == *space.valid() && at_most >= valid.len().into();
            let off = (estimate - valid.len() as f64).abs();
            // Six standard deviations, because many random spaces are tried and none may fail by chance.
            same(
                format_args!("{estimate} ± {spread} for {}", valid.len()),
                at_most_valid && off <= 6.0 * spread,
            )
        }
    }
}

fn occurring(space: &SearchSpace, points: &[Genome]) -> Vec<Vec<u16>> {
    let domain = |slot: usize| {
        let mut positions: Vec<u16> = points.iter().map(|point| point.positions()[slot]).collect();
        positions.sort_unstable();
        positions.dedup();
        positions
    };
    (0..space.parameters().len()).map(domain).collect()
}

fn check_indices(space: &SearchSpace, valid: &[Genome]) -> Checked {
    same("iteration", space.iter().eq(valid.iter().cloned()))?;
    let indices: Option<Vec<u128>> = valid.iter().map(|genome| space.index_of(genome)).collect();
    let indices = indices.ok_or("a valid point has no index")?;
    let ascending = indices.is_sorted_by(|a, b| a < b) && indices.iter().all(|index| *index < space.count());
    same("an index", ascending)?;
    same("an exact index", !space.is_exact() || indices.iter().copied().eq(0..valid.len() as u128))?;
    let found = (0..space.count()).filter_map(|index| space.genome_at(index));
    same("the point of an index", found.eq(valid.iter().cloned()))?;
    same("the end", space.genome_at(space.count()).is_none())?;
    for first in [0, space.count() / 3, space.count().saturating_sub(1), space.count(), u128::MAX] {
        let rest = &valid[indices.partition_point(|index| *index < first)..];
        same(format_args!("iteration from {first}"), space.iter_from(first).eq(rest.iter().cloned()))?;
    }
    points(space).iter().try_for_each(|point| check_membership(space, valid, point))
}

fn check_membership(space: &SearchSpace, valid: &[Genome], point: &Genome) -> Checked {
    let found = (space.contains(point), space.index_of(point).is_some());
    let is_valid = valid.binary_search(point).is_ok();
    same(format_args!("membership of {point:?}"), found == (is_valid, is_valid))
}

fn check_samples(space: &SearchSpace, valid: &[Genome]) -> Checked {
    let mut rng = seeded(3);
    let is_valid = |genome: &Genome| valid.binary_search(genome).is_ok();
    for _ in 0..20 {
        let genome = space.sample(&mut rng);
        same("a sample", genome.as_ref().map_or(valid.is_empty(), is_valid))?;
    }
    for n in [0, 1, 3, valid.len() / 2, valid.len(), valid.len() + 5] {
        let mut sample = space.sample_distinct(n, &mut rng);
        sample.sort();
        sample.dedup();
        let count = sample.len();
        same("a sample of distinct points", sample.iter().all(is_valid) && count == n.min(valid.len()))?;
        let spread = space.sample_stratified(n, &mut rng);
        let sorted = spread.is_sorted_by(|a, b| a < b) && spread.iter().all(is_valid);
        let complete = spread.len() == count || (!space.is_exact() && spread.len() < count);
        same("a stratified sample", sorted && complete)?;
    }
    Ok(())
}

fn check_fixed(space: &SearchSpace, valid: &[Genome], slot: usize, point: &[u16]) -> Checked {
    let part = space.fixed(&[(slot, point[slot])]);
    let fits = |genome: &&Genome| genome.positions()[slot] == point[slot];
    let expected: Vec<Genome> = valid.iter().filter(fits).cloned().collect();
    let found = (0..part.count()).filter_map(|index| part.genome_at(index));
    let iterates = part.iter().eq(expected.iter().cloned()) && found.eq(expected.iter().cloned());
    same(format_args!("the part with {slot} at {}", point[slot]), iterates)?;
    let contains = valid.iter().all(|genome| part.contains(genome) == expected.contains(genome));
    let mut all = part.sample_distinct(expected.len() + 1, &mut seeded(5));
    all.sort();
    same("a part's points", contains && all == expected)?;
    let exact =
        part.count() == expected.len() as u128 && part.effective_domains() == occurring(space, &expected);
    same("a part's size", !space.is_exact() || exact)
}

/// Membership, the nearest valid point and the neighbors of a point, valid or not.
pub fn check_around(space: &SearchSpace, valid: &[Genome], point: &Genome) -> Checked {
    check_membership(space, valid, point)?;
    let distance = |other: &Genome| {
        let pairs = || other.positions().iter().zip(point.positions());
        let moved: u16 = pairs().map(|(a, b)| a.abs_diff(*b)).sum();
        (pairs().filter(|(a, b)| a != b).count(), moved)
    };
    let repaired = space.repair(point, &mut seeded(7));
    let nearest = repaired.as_ref().map(distance) == valid.iter().map(distance).min();
    let is_valid = repaired.is_none_or(|genome| valid.binary_search(&genome).is_ok());
    same(format_args!("what is nearest to {point:?}"), nearest && is_valid)?;
    let known = [Neighborhood::Hamming, Neighborhood::HammingAdjacent, Neighborhood::StrictlyAdjacent];
    // What occurs in any valid point is known of exact spaces only.
    let adjacent = space.is_exact().then_some(Neighborhood::Adjacent);
    for neighborhood in known.into_iter().chain(adjacent) {
        let expected = scan(valid, point.positions(), neighborhood);
        let count = space.neighbor_count(point, neighborhood).to_string();
        let agrees = space.neighbors(point, neighborhood) == expected && count == expected.len().to_string();
        same(format_args!("{neighborhood:?} of {point:?}"), agrees)?;
    }
    Ok(())
}

fn scan(valid: &[Genome], point: &[u16], neighborhood: Neighborhood) -> Vec<Genome> {
    let differ = |other: &&Genome| other.positions().iter().zip(point).filter(|(a, b)| a != b).count();
    let hamming: Vec<Genome> = valid.iter().filter(|other| differ(other) == 1).cloned().collect();
    // Of a list, what lies within the bounds of each parameter.
    let inside = |points: &[Genome], bounds: Vec<(u16, u16)>| {
        let is_inside = |other: &&Genome| {
            other.positions().iter().zip(&bounds).all(|(at, (low, high))| low <= at && at <= high)
        };
        points.iter().filter(|other| differ(other) > 0).filter(is_inside).cloned().collect()
    };
    // The nearest on either side that occurs in a list.
    let nearest = |points: &[Genome]| {
        let bounds = |(slot, own): (usize, &u16)| {
            let occurring = || points.iter().map(|point| point.positions()[slot]);
            let below = occurring().filter(|at| at < own).max();
            (below.unwrap_or(*own), occurring().filter(|at| at > own).min().unwrap_or(*own))
        };
        point.iter().enumerate().map(bounds).collect()
    };
    match neighborhood {
        Neighborhood::HammingAdjacent => inside(&hamming, nearest(&hamming)),
        Neighborhood::Hamming => hamming,
        Neighborhood::Adjacent => inside(valid, nearest(valid)),
        Neighborhood::StrictlyAdjacent => {
            inside(valid, point.iter().map(|at| (at.saturating_sub(1), at + 1)).collect())
        }
    }
}

/// Every constraint, compiled, against its tree at every point: the two evaluators of the language.
pub fn check_compiled(spec: &Spec) -> Checked {
    let space = spec.build()?;
    let points = points(&space);
    for constraint in space.constraints() {
        let expr: &Expr = &constraint.expr;
        let slot = |name: &str| space.parameters().iter().position(|parameter| &*parameter.name == name);
        let slots: Vec<usize> = expr.distinct_names().iter().filter_map(|name| slot(name)).collect();
        let domains: Vec<Vec<Value>> =
            slots.iter().map(|slot| space.parameters()[*slot].values.clone()).collect();
        let compiled = expr.compile(&domains);
        let mut scratch = Scratch::default();
        for point in &points {
            let position = |name: usize| usize::from(point.positions()[slots[name]]);
            let expected = expr.evaluate(&space.configuration(point)).ok();
            let found = compiled.evaluate(|name| &domains[name][position(name)], &mut scratch);
            same(format_args!("{} at {point:?}: {found:?}, {expected:?}", expr.text()), found == expected)?;
        }
    }
    Ok(())
}
