//! Puts the candidates of all sizes together into a few shapes.
//!
//! All combinations would be far too many, and most faults depend on one size. So each shape takes another
//! candidate of every size, in an order that differs from size to size, until every candidate of the longest
//! list has had its turn; no two free extents of a shape are equal if that can be helped, because equal
//! extents hide swapped strides.

use std::collections::BTreeMap;

use super::candidates;
use super::roles::SizeRole;

/// Shapes made by turning through the candidates; flags add a few.
const TURNS: usize = 6;
/// Shapes of a kernel without any tile.
const TURNS_UNTILED: usize = 3;

/// One shape: the sizes that differ from the first problem's.
pub(super) type Shape = BTreeMap<String, i64>;

/// The shapes, the most telling first. `threads` is how many threads a block has.
pub(super) fn assemble(roles: &BTreeMap<String, SizeRole>, threads: i64) -> Vec<Shape> {
    let lists = lists(roles, threads);
    if lists.is_empty() {
        return Vec::new();
    }
    let tiled = roles.values().any(|role| matches!(role, SizeRole::Free { tile: Some(_), .. }));
    let longest = lists.iter().map(|(_, list)| list.len()).max().unwrap_or(0);
    let turns = longest.min(if tiled { TURNS } else { TURNS_UNTILED });
    let mut shapes: Vec<Shape> = (0..turns).map(|turn| shape(roles, &lists, turn, turn % 2)).collect();
    if roles.values().any(|role| *role == SizeRole::Flag) {
        // One element more than one and than two tiles, with every flag the other way round.
        shapes.extend(
            [0, 3]
                .into_iter()
                .filter(|turn| *turn < turns)
                .map(|turn| shape(roles, &lists, turn, 1 - turn % 2)),
        );
    }
    shapes
}

/// One shape for each size with a tile: several tiles of it, and little of all others. Many tiles meet code
/// that two tiles never reach, and small other sizes keep that cheap.
pub(super) fn several_tiles(roles: &BTreeMap<String, SizeRole>) -> Vec<Shape> {
    let long = |(name, role): (&String, &SizeRole)| match role {
        SizeRole::Free { tile: Some(tile), step, most } => {
            let value = candidates::several_tiles(*tile, *step, *most)?;
            Some(reduced(roles, &Shape::from([(name.clone(), value)]), Some(name)))
        }
        _ => None,
    };
    roles.iter().filter_map(long).collect()
}

/// The free sizes with their candidates.
fn lists(roles: &BTreeMap<String, SizeRole>, threads: i64) -> Vec<(&str, Vec<i64>)> {
    let list = |role: &SizeRole| match role {
        SizeRole::Free { tile: Some(tile), step, most } => Some(candidates::of_tile(*tile, *step, *most)),
        SizeRole::Free { tile: None, step, most } => Some(candidates::untiled(threads, *step, *most)),
        _ => None,
    };
    let lists = roles.iter().filter_map(|(name, role)| Some((name.as_str(), list(role)?)));
    lists.filter(|(_, list)| !list.is_empty()).collect()
}

fn shape(roles: &BTreeMap<String, SizeRole>, lists: &[(&str, Vec<i64>)], turn: usize, flags: usize) -> Shape {
    let mut shape = Shape::new();
    let is_tiled = |name: &str| matches!(roles.get(name), Some(SizeRole::Free { tile: Some(_), .. }));
    for (name, list) in lists {
        // Each further size of its kind starts one candidate later, so that two tails meet in one shape.
        let before = lists.iter().take_while(|(other, _)| other != name);
        let position = before.filter(|(other, _)| is_tiled(other) == is_tiled(name)).count();
        let rotated = (0..list.len()).map(|offset| list[(turn + position + offset) % list.len()]);
        let unused = |value: &i64| !shape.values().any(|taken| taken == value);
        let value = rotated.clone().find(unused).or_else(|| rotated.clone().next());
        shape.extend(value.map(|value| ((*name).to_string(), value)));
    }
    for (position, (name, role)) in roles.iter().enumerate() {
        if *role == SizeRole::Flag {
            shape.insert(name.clone(), ((flags + position) % 2) as i64);
        }
    }
    tie(roles, &mut shape);
    shape
}

/// The same shape with fewer elements: sizes that no tile divides are small primes, and where there is a
/// `focus`, all free sizes but that one.
pub(super) fn reduced(roles: &BTreeMap<String, SizeRole>, shape: &Shape, focus: Option<&str>) -> Shape {
    let mut reduced = shape.clone();
    let keeps = |name: &str, role: &SizeRole| match (role, focus) {
        (SizeRole::Free { tile, .. }, None) => tile.is_some(),
        (SizeRole::Free { .. }, Some(focus)) => name == focus,
        _ => true,
    };
    let kept = roles.iter().filter(|(name, role)| keeps(name, role));
    let mut used: Vec<i64> = kept.filter_map(|(name, _)| shape.get(name)).copied().collect();
    for (name, role) in roles.iter().filter(|(name, role)| !keeps(name, role)) {
        let SizeRole::Free { step, most, .. } = role else { continue };
        let small = candidates::SMALL.map(|prime| prime.saturating_mul(*step));
        let fits = |value: &&i64| **value <= *most && !used.contains(value);
        if let Some(value) = small.iter().find(fits).copied() {
            used.push(value);
            reduced.insert(name.clone(), value);
        }
    }
    tie(roles, &mut reduced);
    reduced
}

/// Sizes that follow others.
pub(super) fn tie(roles: &BTreeMap<String, SizeRole>, shape: &mut Shape) {
    for (name, role) in roles {
        if let SizeRole::Tied { leader, factor, offset } = role
            && let Some(value) = shape.get(leader)
            && let Some(value) = value.checked_mul(*factor).and_then(|value| value.checked_add(*offset))
        {
            shape.insert(name.clone(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(tile: Option<i64>) -> SizeRole {
        SizeRole::Free { tile, step: 1, most: 4096 }
    }

    fn shown(roles: &[(&str, SizeRole)]) -> Vec<String> {
        let roles: BTreeMap<String, SizeRole> =
            roles.iter().map(|(name, role)| ((*name).to_string(), role.clone())).collect();
        let text = |shape: &Shape| {
            shape.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
        };
        assemble(&roles, 128).iter().map(text).collect()
    }

    #[test]
    fn one_size_takes_every_candidate() {
        assert_eq!(shown(&[("N", free(Some(64)))]), ["N=65", "N=63", "N=1", "N=129", "N=64", "N=193"]);
    }

    #[test]
    fn two_sizes_with_equal_tiles_are_never_square() {
        let shapes = shown(&[("M", free(Some(64))), ("N", free(Some(64)))]);
        let expected = ["M=65,N=63", "M=63,N=1", "M=1,N=129", "M=129,N=64", "M=64,N=193", "M=193,N=65"];
        assert_eq!(shapes, expected);
    }

    #[test]
    fn each_tiled_size_is_several_tiles_long_once() {
        let roles = [("K", free(None)), ("M", free(Some(64))), ("N", free(Some(1000)))];
        let roles = roles.map(|(name, role)| (name.to_string(), role)).into();
        let shapes = several_tiles(&roles);
        assert_eq!(shapes, [Shape::from([("K".into(), 3), ("M".into(), 321), ("N".into(), 5)])]);
    }

    #[test]
    fn flags_are_crossed_and_ties_are_kept() {
        let tied = SizeRole::Tied { leader: "HKV".into(), factor: 4, offset: 0 };
        let shapes = shown(&[
            ("CAUSAL", SizeRole::Flag),
            ("D", SizeRole::Kept),
            ("HKV", free(None)),
            ("HQ", tied),
            ("SQ", free(Some(32))),
        ]);
        assert_eq!(shapes.len(), 8, "{shapes:?}");
        assert_eq!(shapes[0], "CAUSAL=0,HKV=3,HQ=12,SQ=33");
        assert_eq!(shapes[6], "CAUSAL=1,HKV=3,HQ=12,SQ=33");
        assert_eq!(shown(&[("D", SizeRole::Kept)]), [""; 0]);
    }
}
