//! The values that one size takes in derived shapes.

/// Values of a size that a tile divides, the most telling first: one element more and one less than a tile,
/// a single one, two tiles and a bit, one whole tile, and a prime near three tiles. `step` is what the kernel
/// needs a multiple of; `most` is the size's largest value in any problem, beyond which nobody asked for it.
pub(super) fn of_tile(tile: i64, step: i64, most: i64) -> Vec<i64> {
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

/// A size of several tiles and a bit; `None` where no problem is that large.
pub(super) fn several_tiles(tile: i64, step: i64, most: i64) -> Option<i64> {
    let value = tile.checked_mul(SEVERAL)?.checked_add(step)? / step * step;
    (value <= most).then_some(value)
}

/// Values of a size that no tile divides: small primes in turn with sizes round a block's threads, over which blocks
/// loop: one element more than threads, primes above, just as many, and one less. All are multiples of `step` and at
/// most `most`.
pub(super) fn untiled(threads: i64, step: i64, most: i64) -> Vec<i64> {
    let above = prime_from(threads.saturating_add(2));
    let large = [threads.saturating_add(1), above, threads, prime_from(above + 1), threads - 1];
    let mut values = Vec::new();
    for value in SMALL.into_iter().zip(large).flat_map(|(small, large)| [small, large]) {
        let value = value.saturating_mul(step);
        if (1..=most).contains(&value) && !values.contains(&value) {
            values.push(value);
        }
    }
    let only = most / step * step;
    if values.is_empty() && only > 0 {
        values.push(only);
    }
    values
}

/// Small primes, for sizes that are to cost few elements.
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
        // A kernel that supports whole tiles only gets whole tiles.
        assert_eq!(of_tile(64, 64, 4096), [128, 64, 192, 256]);
        assert_eq!(of_tile(64, 1, 100), [65, 63, 1, 64]);
        assert_eq!(of_tile(2, 1, 100), [3, 1, 5, 2, 7]);
        assert_eq!(of_tile(i64::MAX, 1, 7), [1]);
    }

    #[test]
    fn several_tiles_and_a_bit() {
        assert_eq!(several_tiles(64, 1, 4096), Some(321));
        assert_eq!(several_tiles(64, 8, 4096), Some(328));
        assert_eq!(several_tiles(64, 64, 4096), Some(384));
        assert_eq!(several_tiles(64, 1, 320), None);
        assert_eq!(several_tiles(i64::MAX, 1, i64::MAX), None);
    }

    #[test]
    fn sizes_without_a_tile_are_small_primes_and_lie_round_the_threads() {
        assert_eq!(untiled(256, 1, 4096), [3, 257, 5, 263, 7, 256, 11, 269, 13, 255]);
        assert_eq!(untiled(256, 1, 8), [3, 5, 7]);
        assert_eq!(untiled(32, 8, 1024)[..4], [24, 264, 40, 296]);
        assert_eq!(untiled(256, 1, 1), [1]);
        assert_eq!(untiled(256, 8, 4), [0; 0]);
    }
}
