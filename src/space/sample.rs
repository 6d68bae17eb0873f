//! Uniform samples of valid points.

use std::collections::{HashMap, HashSet};

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::index::Index;
use super::space::SearchSpace;
use crate::genome::Genome;

impl SearchSpace {
    /// A uniform valid point; `None` for an empty space.
    pub fn sample(&self, rng: &mut ChaCha8Rng) -> Option<Genome> {
        self.index.sample(rng).map(Genome::from)
    }

    /// Up to `n` distinct uniform valid points, in random order; all of them if there are no more.
    pub fn sample_distinct(&self, n: usize, rng: &mut ChaCha8Rng) -> Vec<Genome> {
        self.index.sample_distinct(n, rng)
    }
}

impl Index {
    /// Up to `n` distinct uniform points, in random order; all of them if there are no more.
    pub fn sample_distinct(&self, n: usize, rng: &mut ChaCha8Rng) -> Vec<Genome> {
        let count = u128::try_from(self.total()).unwrap_or(u128::MAX);
        if count / 4 <= n as u128 {
            return self.shuffled(n.min(count as usize), count, rng);
        }
        let mut seen = HashSet::new();
        let mut list = Vec::with_capacity(n);
        // At most a quarter of the space is asked for, so that most draws are new.
        while list.len() < n {
            let Some(genome) = self.sample(rng).map(Genome::from) else { break };
            if seen.insert(genome.clone()) {
                list.push(genome);
            }
        }
        list
    }

    /// The first `n` of all indices in random order: a shuffle that stores only what it moved.
    fn shuffled(&self, n: usize, count: u128, rng: &mut ChaCha8Rng) -> Vec<Genome> {
        let mut moved: HashMap<u128, u128> = HashMap::new();
        let mut list = Vec::with_capacity(n);
        for at in 0..n as u128 {
            let other = rng.random_range(at..count);
            let drawn = moved.get(&other).copied().unwrap_or(other);
            let displaced = moved.get(&at).copied().unwrap_or(at);
            moved.insert(other, displaced);
            list.extend(self.point(drawn).map(Genome::from));
        }
        list
    }
}
