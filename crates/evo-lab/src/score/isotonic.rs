//! Isotonic regression: the falling steps that fit points best by least squares, found by pooling
//! neighbors that rise (pool adjacent violators).

/// A falling function: values at ascending places, straight lines between them, constant outside.
#[derive(Debug)]
pub(super) struct Falling {
    xs: Vec<f64>,
    levels: Vec<f64>,
}

/// Neighboring places with a common level.
struct PooledBlock {
    level: f64,
    weight: f64,
    places: usize,
}

impl Falling {
    /// Fits points whose places ascend; points at one place count as their mean. At least one point.
    pub fn fit(points: impl Iterator<Item = (f64, f64)>) -> Falling {
        let (mut xs, mut blocks) = (Vec::<f64>::new(), Vec::<PooledBlock>::new());
        let mut places = points.peekable();
        while let Some((x, first)) = places.next() {
            let (mut level, mut weight) = (first, 1.0);
            while let Some((_, y)) = places.next_if(|(next, _)| *next == x) {
                weight += 1.0;
                // A running mean, so that points at one place weigh as much as there are.
                level += (y - level) / weight;
            }
            xs.push(x);
            push(&mut blocks, PooledBlock { level, weight, places: 1 });
        }
        let levels = blocks.iter().flat_map(|block| std::iter::repeat_n(block.level, block.places)).collect();
        Falling { xs, levels }
    }

    /// Adds its values at ascending places to `sums`.
    pub fn add_to(&self, places: &[f64], sums: &mut [f64]) {
        let (xs, levels) = (&self.xs, &self.levels);
        let last = xs.len() - 1;
        let mut piece = 0;
        for (x, sum) in places.iter().zip(sums) {
            *sum += if *x <= xs[0] {
                levels[0]
            } else if *x >= xs[last] {
                levels[last]
            } else {
                // Places ascend, so the piece only ever moves forward.
                while xs[piece + 1] < *x {
                    piece += 1;
                }
                let share = (x - xs[piece]) / (xs[piece + 1] - xs[piece]);
                levels[piece] + share * (levels[piece + 1] - levels[piece])
            };
        }
    }
}

/// Adds a block and pools from the end while levels rise.
fn push(blocks: &mut Vec<PooledBlock>, mut block: PooledBlock) {
    // A merged block can be above the one before it, so merging goes on backwards; each block is merged at most
    // once, which keeps the fit linear.
    while let Some(before) = blocks.pop_if(|before| before.level < block.level) {
        let weight = before.weight + block.weight;
        let level = (before.level * before.weight + block.level * block.weight) / weight;
        block = PooledBlock { level, weight, places: before.places + block.places };
    }
    blocks.push(block);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(points: &[(f64, f64)], places: &[f64], expected: &[f64]) {
        let mut sums = vec![0.0; places.len()];
        Falling::fit(points.iter().copied()).add_to(places, &mut sums);
        assert_eq!(sums, expected);
    }

    #[test]
    fn risers_are_pooled_and_equal_places_averaged() {
        check(&[(1.0, 5.0)], &[0.0, 1.0, 2.0], &[5.0, 5.0, 5.0]);
        check(&[(1.0, 5.0), (2.0, 3.0)], &[0.0, 1.5, 9.0], &[5.0, 4.0, 3.0]);
        // 2 and 4 rise: both become 3.
        check(&[(1.0, 6.0), (2.0, 2.0), (3.0, 4.0)], &[1.0, 1.5, 2.0, 3.0], &[6.0, 4.5, 3.0, 3.0]);
        // The mean of 0 and 4 weighs twice against 5: (2 + 2 + 5) / 3 = 3.
        check(&[(1.0, 0.0), (1.0, 4.0), (2.0, 5.0)], &[1.0, 2.0], &[3.0, 3.0]);
        // A late riser reaches back over two blocks: all are (3 + 2 + 7) / 3 = 4.
        check(&[(1.0, 3.0), (2.0, 2.0), (3.0, 7.0)], &[1.0, 2.0, 3.0], &[4.0, 4.0, 4.0]);
    }
}
