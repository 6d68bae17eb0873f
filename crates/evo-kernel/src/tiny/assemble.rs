//! Puts the candidates of all sizes together into a few shapes.
//!
//! All combinations would be far too many, and most faults depend on one size. So each shape takes another candidate of
//! every size, in an order that differs from size to size, until every candidate of the longest list has had its turn;
//! no two free extents of a shape are equal if that can be helped, because equal extents hide swapped strides.

use std::collections::BTreeMap;

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
        let few = [0, 3].into_iter().filter(|turn| *turn < turns);
        shapes.extend(few.map(|turn| shape(roles, &lists, turn, 1 - turn % 2)));
    }
    shapes
}

/// One shape for each size with a tile: several tiles of it, and little of all others. Many tiles meet code
/// that two tiles never reach, and small other sizes keep that cheap.
pub(super) fn several_tiles(roles: &BTreeMap<String, SizeRole>) -> Vec<Shape> {
    let long = |(name, role): (&String, &SizeRole)| match role {
        SizeRole::Free { tile: Some(tile), step, most } => {
            let value = size_of_several_tiles(*tile, *step, *most)?;
            Some(reduced(roles, &Shape::from([(name.clone(), value)]), Some(name)))
        }
        _ => None,
    };
    roles.iter().filter_map(long).collect()
}

fn lists(roles: &BTreeMap<String, SizeRole>, threads: i64) -> Vec<(&str, Vec<i64>)> {
    let list = |role: &SizeRole| match role {
        SizeRole::Free { tile: Some(tile), step, most } => Some(of_tile(*tile, *step, *most)),
        SizeRole::Free { tile: None, step, most } => Some(untiled(threads, *step, *most)),
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

/// Sizes that no tile divides are small primes, and where there is a `focus`, all free sizes but that one.
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
        let small = SMALL.map(|prime| prime.saturating_mul(*step));
        let fits = |value: &&i64| **value <= *most && !used.contains(value);
        if let Some(value) = small.iter().find(fits).copied() {
            used.push(value);
            reduced.insert(name.clone(), value);
        }
    }
    tie(roles, &mut reduced);
    reduced
}

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

/// Values of a size that a tile divides, the most telling first: one element more and one less than a tile,
/// a single one, two tiles and a bit, one whole tile, and a prime near three tiles. `step` is what the kernel
/// needs a multiple of; `most` is the size's largest value in any problem, beyond which nobody asked for it.
fn of_tile(tile: i64, step: i64, most: i64) -> Vec<i64> {
    let up = |value: i64| value.saturating_add(step - 1) / step * step;
    let down = |value: i64| value / step * step;
    let wanted = [
        up(tile.saturating_add(1)),
        down(tile - 1),
        up(1),
        up(tile.saturating_mul(2).saturating_add(1)),
        up(tile),
        up(prime_from(tile.saturating_mul(3))),
    ];
    fitting(wanted, most)
}

/// Each once.
fn fitting(wanted: impl IntoIterator<Item = i64>, most: i64) -> Vec<i64> {
    let mut values = Vec::new();
    for value in wanted {
        if (1..=most).contains(&value) && !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

/// One element more than so many tiles. Code that depends on the number of tiles (a pipeline that fills, a loop that
/// is unrolled four times) has met every case by then.
const SEVERAL: i64 = 5;

fn size_of_several_tiles(tile: i64, step: i64, most: i64) -> Option<i64> {
    let value = tile.checked_mul(SEVERAL)?.checked_add(step)? / step * step;
    (value <= most).then_some(value)
}

/// Small primes in turn with sizes round a block's threads, over which blocks loop: one element more than threads,
/// primes above, just as many, and one less. Where no problem has as many, they lie below the largest that one has: a
/// loop over such a size takes several turns there. All are multiples of `step` and at most `most`.
fn untiled(threads: i64, step: i64, most: i64) -> Vec<i64> {
    let largest = most / step;
    // Small primes are all that there is of a small size, such as a batch.
    let round = if largest > SMALL[4] { threads.min(largest - 1) } else { threads };
    let above = prime_from(round.saturating_add(2));
    let large = [round.saturating_add(1), above, round, prime_from(above + 1), round - 1];
    let wanted = SMALL.into_iter().zip(large).flat_map(|(small, large)| [small, large]);
    let mut values = fitting(wanted.map(|value| value.saturating_mul(step)), most);
    if values.is_empty() && largest > 0 {
        values.push(largest * step);
    }
    values
}

pub(super) const SMALL: [i64; 5] = [3, 5, 7, 11, 13];

/// The first prime from `start` on; `start` itself where that is out of reach.
fn prime_from(start: i64) -> i64 {
    let start = start.max(2);
    // Trial division is quick below this, and no tile is larger.
    if start > 1 << 30 {
        return start;
    }
    (start..).find(|number| (2..).take_while(|d| d * d <= *number).all(|d| number % d != 0)).unwrap_or(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_of_a_tile_come_first() {
        assert_eq!(of_tile(64, 1, 4096), [65, 63, 1, 129, 64, 193]);
        assert_eq!(of_tile(64, 4, 4096), [68, 60, 4, 132, 64, 196]);
        assert_eq!(of_tile(64, 64, 4096), [128, 64, 192, 256]);
        assert_eq!(of_tile(64, 1, 100), [65, 63, 1, 64]);
        assert_eq!(of_tile(2, 1, 100), [3, 1, 5, 2, 7]);
        assert_eq!(of_tile(i64::MAX, 1, 7), [1]);
    }

    #[test]
    fn several_tiles_and_a_bit() {
        assert_eq!(size_of_several_tiles(64, 1, 4096), Some(321));
        assert_eq!(size_of_several_tiles(64, 8, 4096), Some(328));
        assert_eq!(size_of_several_tiles(64, 64, 4096), Some(384));
        assert_eq!(size_of_several_tiles(64, 1, 320), None);
        assert_eq!(size_of_several_tiles(i64::MAX, 1, i64::MAX), None);
    }

    #[test]
    fn sizes_without_a_tile_are_small_primes_and_lie_round_the_threads() {
        assert_eq!(untiled(256, 1, 4096), [3, 257, 5, 263, 7, 256, 11, 269, 13, 255]);
        assert_eq!(untiled(256, 1, 112), [3, 112, 5, 7, 111, 11, 13, 110]);
        assert_eq!(untiled(256, 1, 8), [3, 5, 7]);
        assert_eq!(untiled(32, 8, 1024)[..4], [24, 264, 40, 296]);
        assert_eq!(untiled(256, 1, 1), [1]);
        assert_eq!(untiled(256, 8, 4), [0; 0]);
    }
}
