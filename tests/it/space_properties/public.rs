//! Large spaces, ours and other tuners': index to point and back at random, and samples that are uniform.

use std::path::{Path, PathBuf};

use evo_space::genome::Genome;
use evo_space::sample::seeded;
use evo_space::space::SearchSpace;
use rand::RngExt;

use crate::space::{open, own_spaces, shared_spaces};

/// Random indices of each space; a debug build takes its time.
const ROUND_TRIPS: usize = if cfg!(debug_assertions) { 10_000 } else { 100_000 };

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|own| own == extension)).collect();
    files.sort();
    files
}

fn public_spaces() -> Option<Vec<PathBuf>> {
    shared_spaces().map(|folder| files(&folder, "json"))
}

fn check_round_trips(path: &Path) {
    let space = open(path);
    let mut rng = seeded(17);
    for number in 0..ROUND_TRIPS {
        let index = rng.random_range(0..space.count());
        let genome = space.genome_at(index).unwrap();
        assert_eq!(space.index_of(&genome), Some(index), "{}", path.display());
        assert!(space.contains(&genome), "{}: {index}", path.display());
        // The constraints as written take longer.
        if number % 20 == 0 {
            assert!(space.violations(&genome).is_empty(), "{}: {index}", path.display());
        }
    }
}

#[test]
fn random_indices_of_our_spaces_round_trip() {
    let own = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("search_spaces"), "toml");
    assert!(own.len() >= 6);
    own.iter().chain(&files(&own_spaces(), "json")).for_each(|path| check_round_trips(path));
}

#[test]
fn random_indices_of_public_spaces_round_trip() {
    let Some(files) = public_spaces() else { return };
    files.iter().for_each(|path| check_round_trips(path));
}

/// Pearson's statistic of a sample over 100 cells. With 99 degrees of freedom a correct sampler exceeds
/// 181 for one seed in a million (Wilson and Hilferty's approximation); the seeds here are fixed.
const CELLS: usize = 100;
const CRITICAL: f64 = 181.0;

fn check_uniform(space: &SearchSpace, sample: &[Genome], cell: impl Fn(u128) -> usize, what: &str) {
    let mut seen = [0f64; CELLS];
    sample.iter().for_each(|genome| seen[cell(space.index_of(genome).unwrap())] += 1.0);
    let mut sizes = [0f64; CELLS];
    (0..space.count()).for_each(|index| sizes[cell(index)] += 1.0);
    let share = sample.len() as f64 / space.count() as f64;
    let terms = seen.iter().zip(&sizes).map(|(seen, size)| (seen - size * share).powi(2) / (size * share));
    let statistic: f64 = terms.sum();
    assert!(statistic < CRITICAL, "{what}: {statistic}");
    // Far too even is not random either: below 43 as rarely.
    assert!(statistic > 43.0, "{what}: {statistic}");
}

#[test]
fn samples_of_our_own_spaces_are_uniform() {
    check_samples(&files(&own_spaces(), "json"), &["windowed_stencil", "blocked_product"]);
}

#[test]
fn samples_of_public_spaces_are_uniform() {
    let Some(files) = public_spaces() else { return };
    check_samples(&files, &["hotspot", "gemm"]);
}

fn check_samples(files: &[PathBuf], names: &[&str]) {
    for name in names {
        let path = files.iter().find(|path| path.file_stem().is_some_and(|stem| stem == *name)).unwrap();
        let space = open(path);
        let count = space.count();
        // High digits by range, low digits by remainder.
        let by_range = |index: u128| (index * CELLS as u128 / count) as usize;
        let by_remainder = |index: u128| (index % CELLS as u128) as usize;
        let mut rng = seeded(23);
        let drawn: Vec<Genome> = (0..20_000).map(|_| space.sample(&mut rng).unwrap()).collect();
        check_uniform(&space, &drawn, by_range, name);
        check_uniform(&space, &drawn, by_remainder, name);
        // A hundredth of the space, so that drawing without replacement hardly evens out.
        let distinct = space.sample_distinct((count / 100) as usize, &mut rng);
        check_uniform(&space, &distinct, by_range, name);
        check_uniform(&space, &distinct, by_remainder, name);
    }
}
