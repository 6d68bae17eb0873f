//! Shapes drawn by lot, for finalists.
//!
//! A fault may depend on what is left over of a tile, on the number of tiles, or on both of two sizes; nobody can
//! list what to try. So each size takes the residues of its tile in random order, powers of two to either side of a
//! whole tile first, none twice before all had their turn, with zero to eight whole tiles before them, and in one shape of four up to a few thousand in one size: between
//! small shapes and timed ones lie those that nobody looks at. One shape in four leaves the same at every border. The
//! study's seed decides, which kernels do not know.

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::assemble::{self, Shape};
use super::roles::SizeRole;

/// How many are looked at is a matter of time, so there are enough for kernels whose shapes cost a millisecond.
const SHAPES: usize = 384;
/// Whole tiles of the size that a shape is long in, at most.
const TILES: i64 = 8;
/// One shape of so many is long: it has any number of tiles in one size, up to those of the largest problem, as far as
/// elements allow. Each is of another order of magnitude than those before.
pub(super) const LONG: usize = 4;
/// And one shape of so many has at most a whole tile and a part of one: what is left over may matter where there is
/// little else.
const SHORT: i64 = 4;
const LONG_MOST: i64 = 1 << 22;
/// Whole tiles of the other sizes: enough that two of them can have neighbors on both sides.
const TILES_BESIDE: i64 = 2;

/// Of so many shapes one leaves a single element of a tile in every size, one leaves all but one, and one leaves none.
const CORNERS: i64 = 9;
/// One shape of so many has equal sizes: a kernel may take another path there, and a step of equal sizes is a multiple of
/// neither or of both.
const EQUAL: i64 = 9;

/// Shapes of random sizes; each with versions of itself, every one smaller than the last, for where the first has too
/// many elements. `threads` is how many threads a block has: sizes without a tile are divided by these.
pub(super) fn draw(roles: &BTreeMap<String, SizeRole>, threads: i64, seed: u64) -> Vec<Vec<Shape>> {
    // Not the stream that inputs start from.
    let mut source = ChaCha8Rng::seed_from_u64(seed);
    source.set_stream(1);
    let mut sizes: Vec<DrawnSize> =
        roles.iter().filter_map(|(name, role)| DrawnSize::of(name, role, threads)).collect();
    if sizes.is_empty() {
        return Vec::new();
    }
    let first = part(&mut source);
    // Steps of the golden ratio leave no part of the range out for long.
    let length = |turn: usize| (first + (turn / LONG) as f64 * 0.618_033_988_749_895).fract();
    let is_long = |turn: usize| turn % LONG == LONG - 1;
    let long = |turn| is_long(turn).then(|| length(turn));
    (0..SHAPES).map(|turn| versions(roles, &mut sizes, long(turn), &mut source)).collect()
}

struct DrawnSize {
    name: String,
    period: i64,
    step: i64,
    most: i64,
    residues: Vec<i64>,
}

impl DrawnSize {
    fn of(name: &str, role: &SizeRole, threads: i64) -> Option<DrawnSize> {
        let SizeRole::Free { tile, step, most } = role else { return None };
        // More residues than shapes cannot have their turn, however large the tile is.
        let period = tile.unwrap_or(threads).clamp(1, (*most).max(1));
        Some(DrawnSize { name: name.to_string(), period, step: *step, most: *most, residues: Vec::new() })
    }

    /// The next residue; all have their turn before one comes again.
    fn residue(&mut self, source: &mut ChaCha8Rng) -> i64 {
        if self.residues.is_empty() {
            let count = (self.period as u64).div_ceil(self.step as u64).min(1 << 16) as i64;
            self.residues = (0..count).map(|residue| residue * self.step).collect();
            shuffle(&mut self.residues, source);
            // Taken from the end. Which of them a slow kernel still meets is a matter of time.
            self.residues.sort_by_key(|residue| is_border(*residue, self.period));
        }
        self.residues.pop().unwrap_or(0)
    }

    /// A value of so many tiles and a residue, or of fewer tiles where no problem is that large.
    fn value(&self, tiles: i64, residue: i64) -> i64 {
        let at = |tiles: i64| (tiles * self.period + residue + self.step - 1) / self.step * self.step;
        let value = (0..=tiles).rev().map(at).find(|value| *value <= self.most);
        value.filter(|value| *value > 0).unwrap_or_else(|| (self.most / self.step * self.step).min(at(1)))
    }
}

fn versions(
    roles: &BTreeMap<String, SizeRole>,
    sizes: &mut [DrawnSize],
    length: Option<f64>,
    source: &mut ChaCha8Rng,
) -> Vec<Shape> {
    let long = below(source, sizes.len() as i64) as usize;
    let flags = source.next_u64();
    let corner = corner(source);
    let equal = equal_sizes(sizes, source);
    let is_short = below(source, SHORT) == 0 && length.is_none();
    let drawn: Vec<(i64, i64)> = (sizes.iter_mut().enumerate())
        .map(|(position, size)| {
            let tiles = match (position == long, corner) {
                // The larger of two: few tiles are what every other shape has.
                (true, _) if is_short => below(source, 2),
                (true, _) => match length {
                    Some(length) => many_tiles(length, size.most.min(LONG_MOST) / size.period),
                    None => 1 + below(source, TILES).max(below(source, TILES)),
                },
                (false, Some(_)) => TILES_BESIDE,
                (false, None) => below(source, TILES_BESIDE + 1),
            };
            let residue = match corner {
                Some(own) => own.rem_euclid(size.period),
                None => size.residue(source),
            };
            (tiles, residue)
        })
        .collect();
    let with = |tiles_of: &dyn Fn(usize, i64) -> i64| {
        let mut shape = Shape::new();
        for (position, (size, (tiles, residue))) in sizes.iter().zip(&drawn).enumerate() {
            let mut value = size.value(tiles_of(position, *tiles), *residue);
            let same = equal.iter().find(|(_, other)| *other == position).map(|(own, _)| *own);
            let same = same.and_then(|own| shape.get(&sizes[own].name));
            let same =
                same.map(|value| value / size.step * size.step).filter(|own| (1..=size.most).contains(own));
            if let Some(same) = same {
                value = same;
            // Equal extents hide swapped strides.
            } else if shape.values().any(|taken| *taken == value) {
                value = if value > size.step { value - size.step } else { value + size.step };
            }
            if (1..=size.most).contains(&value) {
                shape.insert(size.name.clone(), value);
            }
        }
        let switches = roles.iter().filter(|(_, role)| **role == SizeRole::Flag);
        shape.extend(
            switches.enumerate().map(|(at, (name, _))| (name.clone(), (flags >> (at % 64) & 1) as i64)),
        );
        assemble::tie(roles, &mut shape);
        shape
    };
    let mut all = vec![with(&|_, tiles| tiles)];
    for most in [TILES, TILES / 2, 2, 1, 0] {
        let fewer = with(&|position, tiles| if position == long { tiles.min(most) } else { 0 });
        if all.last() != Some(&fewer) {
            all.push(fewer);
        }
    }
    all
}

/// Whether a residue is a power of two, or one less or more than none: what is left over of a vector, a warp or half a
/// tile, to either side of it.
fn is_border(residue: i64, period: i64) -> bool {
    let is_power = |number: i64| number > 0 && number & (number - 1) == 0;
    is_power(residue) || is_power(period - residue)
}

/// What every size leaves of its tile in this shape, if it is the same: what is right at each border may be wrong where all
/// of them meet.
fn corner(source: &mut ChaCha8Rng) -> Option<i64> {
    match below(source, CORNERS) {
        0 => Some(1),
        1 => Some(-1),
        2 => Some(0),
        _ => None,
    }
}

/// Sizes that take the value of an earlier one: none in most shapes, else all that follow the first or one of them.
fn equal_sizes(sizes: &[DrawnSize], source: &mut ChaCha8Rng) -> Vec<(usize, usize)> {
    let count = sizes.len();
    if count < 2 || below(source, EQUAL) != 0 {
        return Vec::new();
    }
    if below(source, 2) == 0 {
        return (1..count).map(|own| (0, own)).collect();
    }
    let own = 1 + below(source, count as i64 - 1) as usize;
    vec![(below(source, own as i64) as usize, own)]
}

/// A number from 0 to 1.
fn part(source: &mut ChaCha8Rng) -> f64 {
    (source.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// A number of tiles from `TILES` to `most`, of any order of magnitude alike.
fn many_tiles(part: f64, most: i64) -> i64 {
    let factor = (most.max(TILES) as f64 / TILES as f64).powf(part);
    (TILES as f64 * factor) as i64
}

/// A number from 0 to `end`, exclusive. The ends are small, so the remainder leans to none.
fn below(source: &mut ChaCha8Rng, end: i64) -> i64 {
    (source.next_u64() % end.max(1) as u64) as i64
}

fn shuffle(values: &mut [i64], source: &mut ChaCha8Rng) {
    for last in (1..values.len()).rev() {
        values.swap(last, below(source, last as i64 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roles(sizes: &[(&str, Option<i64>, i64)]) -> BTreeMap<String, SizeRole> {
        let free = |(name, tile, step): &(&str, Option<i64>, i64)| {
            ((*name).to_string(), SizeRole::Free { tile: *tile, step: *step, most: 2048 })
        };
        sizes.iter().map(free).collect()
    }

    #[test]
    fn every_residue_has_its_turn_with_few_and_with_many_tiles() {
        let drawn = draw(&roles(&[("C", None, 1), ("N", Some(256), 1)]), 64, 7);
        let values = |name: &str| drawn.iter().map(|shapes| shapes[0][name]).collect::<Vec<_>>();
        for (name, period) in [("N", 256), ("C", 64)] {
            let mut residues: Vec<i64> = values(name).iter().map(|value| value % period).collect();
            residues.sort_unstable();
            residues.dedup();
            // A value that two sizes share moves on by one, so a few residues may be missing.
            assert!(residues.len() as i64 > period * 17 / 20, "{name} {}", residues.len());
        }
        let tiles: Vec<i64> = values("N").iter().map(|value| value / 256).collect();
        assert!((0..8).all(|count| tiles.contains(&count)), "{tiles:?}");
        assert!(drawn.iter().flatten().all(|shape| shape["N"] <= 2048));
        let square = drawn.iter().filter(|shapes| shapes[0]["N"] == shapes[0]["C"]).count();
        assert!((20..70).contains(&square), "{square}");
        let whole = drawn.iter().filter(|own| own[0]["N"] % 256 == 0 && own[0]["C"] % 64 == 0).count();
        assert!((20..70).contains(&whole), "{whole}");
    }

    #[test]
    fn residues_at_the_borders_of_vectors_come_first() {
        let drawn = draw(&roles(&[("N", Some(128), 1)]), 64, 7);
        let first: Vec<i64> = drawn.iter().take(30).map(|shapes| shapes[0]["N"] % 128).collect();
        for residue in [1, 2, 4, 8, 16, 32, 64, 96, 112, 120, 124, 126, 127] {
            assert!(first.contains(&residue), "{residue}: {first:?}");
        }
    }

    #[test]
    fn some_shapes_are_long() {
        let role = SizeRole::Free { tile: Some(64), step: 1, most: 1 << 20 };
        let drawn = draw(&BTreeMap::from([("N".to_string(), role)]), 64, 7);
        let count = |from: i64, to: i64| drawn.iter().filter(|own| (from..to).contains(&own[0]["N"])).count();
        assert!(count(1 << 10, 1 << 13) > 15 && count(1 << 13, 1 << 17) > 15, "{drawn:?}");
        assert!(count(1, 10 * 64) > 250 && count(1 << 17, 1 << 20) > 15);
        // Ten long shapes leave no two octaves out.
        let long: Vec<i64> = (0..40).skip(LONG - 1).step_by(LONG).map(|turn| drawn[turn][0]["N"]).collect();
        let met = |octave: i64| long.iter().any(|value| (1 << octave..1 << (octave + 2)).contains(value));
        assert!((10..18).step_by(2).all(met), "{long:?}");
    }

    #[test]
    fn smaller_versions_keep_what_is_left_over() {
        for shapes in draw(&roles(&[("M", Some(64), 1), ("N", Some(128), 1)]), 128, 7) {
            let area = |shape: &Shape| shape["M"] * shape["N"];
            assert!(shapes.windows(2).all(|pair| area(&pair[1]) <= area(&pair[0])), "{shapes:?}");
            assert!(area(shapes.last().unwrap()) <= 65 * 129, "{shapes:?}");
        }
    }

    #[test]
    fn steps_and_seeds_are_kept() {
        let own = roles(&[("N", Some(64), 16), ("S", Some(8), 32)]);
        let drawn = draw(&own, 128, 1);
        assert!(drawn.iter().flatten().all(|shape| shape["N"] % 16 == 0 && shape["S"] % 32 == 0));
        assert_eq!(drawn, draw(&own, 128, 1));
        assert_ne!(drawn, draw(&own, 128, 2));
        assert!(draw(&roles(&[]), 128, 1).is_empty());
    }
}
