//! What a tuner asks of a space that is ready: points, indices, samples, neighbors, all rows.

use std::hint::black_box;
use std::time::{Duration, Instant};

use evo_space::Neighborhood;
use evo_space::genome::Genome;
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use serde::Serialize;

use super::spread::Spread;

/// Random valid points that membership and both directions of the index are asked for.
const POINTS: usize = 100_000;
/// Size of a sample, and configurations whose neighbors are asked for.
const SAMPLE: usize = 1000;
/// Runs of each operation.
const RUNS: usize = 7;
/// No new configuration is asked for its neighbors after this long.
const NEIGHBORS_PATIENCE: Duration = Duration::from_secs(4);
/// Larger neighborhoods are counted, not made: boxes have up to 3 to the power of the parameters.
const NEIGHBORS_MAX: u32 = 1_000_000;
/// Rows that are listed at most; the first ones of a larger space.
const ROWS_MAX: u128 = 20_000_000;

/// Times of one space's operations.
#[derive(Debug, Serialize)]
pub struct Operations {
    pub contains_ns: Spread,
    pub index_of_ns: Spread,
    pub genome_at_ns: Spread,
    pub sample_1000_seconds: Spread,
    pub neighbors: Vec<Neighbors>,
    pub rows: Rows,
}

/// Neighbors of random valid configurations.
#[derive(Debug, Serialize)]
pub struct Neighbors {
    pub neighborhood: &'static str,
    /// Configurations asked before the patience ended.
    pub asked: usize,
    /// Configurations left out because they have over a million neighbors.
    pub too_many: usize,
    pub mean_found: f64,
    /// Scaled to 1,000 configurations; 0 if none was asked.
    pub per_1000_seconds: f64,
}

/// All rows, or the first ones of a large space, one after the other.
#[derive(Debug, Serialize)]
pub struct Rows {
    pub listed: u64,
    pub ns_per_row: Spread,
}

/// Measures them all.
pub fn measure(space: &SearchSpace) -> Operations {
    let mut rng = seeded(1);
    let points: Vec<Genome> = (0..POINTS).filter_map(|_| space.sample(&mut rng)).collect();
    let indices: Vec<u128> = points.iter().filter_map(|point| space.index_of(point)).collect();
    assert_eq!(indices.len(), POINTS, "every point of a space that is not empty has an index");
    let configurations = &points[..SAMPLE];
    Operations {
        contains_ns: per_call(&points, |point| space.contains(point)),
        index_of_ns: per_call(&points, |point| space.index_of(point)),
        genome_at_ns: per_call(&indices, |index| space.genome_at(*index)),
        sample_1000_seconds: Spread::seconds(RUNS * 3, || space.sample_distinct(SAMPLE, &mut rng)),
        neighbors: NEIGHBORHOODS
            .iter()
            .map(|(name, kind)| neighbors(space, configurations, name, *kind))
            .collect(),
        rows: rows(space),
    }
}

const NEIGHBORHOODS: [(&str, Neighborhood); 4] = [
    ("hamming", Neighborhood::Hamming),
    ("hamming_adjacent", Neighborhood::HammingAdjacent),
    ("strictly_adjacent", Neighborhood::StrictlyAdjacent),
    ("adjacent", Neighborhood::Adjacent),
];

/// Nanoseconds of one call, each run over all items.
fn per_call<I, T>(items: &[I], call: impl Fn(&I) -> T) -> Spread {
    let run = || {
        for item in items {
            black_box(call(black_box(item)));
        }
    };
    Spread::seconds(RUNS, run).times(1e9 / items.len() as f64)
}

fn neighbors(
    space: &SearchSpace,
    configurations: &[Genome],
    neighborhood: &'static str,
    kind: Neighborhood,
) -> Neighbors {
    let (mut asked, mut too_many, mut found) = (0, 0, 0);
    let mut busy = Duration::ZERO;
    for configuration in configurations {
        if space.neighbor_count(configuration, kind) > NEIGHBORS_MAX.into() {
            too_many += 1;
            continue;
        }
        let start = Instant::now();
        let list = black_box(space.neighbors(configuration, kind));
        busy += start.elapsed();
        found += list.len();
        asked += 1;
        if busy > NEIGHBORS_PATIENCE {
            break;
        }
    }
    let share = |sum: f64| if asked == 0 { 0.0 } else { sum / asked as f64 };
    Neighbors {
        neighborhood,
        asked,
        too_many,
        mean_found: share(found as f64),
        per_1000_seconds: share(busy.as_secs_f64() * 1000.0),
    }
}

fn rows(space: &SearchSpace) -> Rows {
    let listed = space.count().min(ROWS_MAX);
    let list = || space.iter().take(listed as usize).for_each(|genome| drop(black_box(genome)));
    Rows { listed: listed as u64, ns_per_row: Spread::seconds(RUNS, list).times(1e9 / listed as f64) }
}
