//! The bodies of the fuzz targets on mutated seeds: what libFuzzer does for hours, for seconds and without a nightly
//! compiler. `EVO_CASES` mutations of each seed's format, from `EVO_SEED` on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use evo_space::sample::seeded;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

#[path = "../../fuzz/bodies.rs"]
mod bodies;

/// Mutations of each format without `EVO_CASES`.
const CASES: u64 = 400;

/// Bytes of a mutated text; seeds are shorter.
const LENGTH_MAX: usize = 1 << 16;

/// What formats are made of, and what they are afraid of.
const WORDS: &[&str] = &[
    "null",
    "true",
    "-1",
    "0",
    "1e999",
    "-0.0",
    "NaN",
    "9223372036854775808",
    "\"\"",
    "\"\\u0000\"",
    "\u{1b}[2J",
    "{}",
    "[]",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\n",
    "\"",
    "\\",
    "#",
    " or ",
    " and ",
    " in [1]",
    "**",
    "//",
    "%",
    "(",
    ")",
    "A",
    "é",
    "\0",
];

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus-seed").join(target);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    // The order of a folder is not the same everywhere.
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

fn mutate(bytes: &mut Vec<u8>, other: &[u8], rng: &mut ChaCha8Rng) {
    for _ in 0..rng.random_range(1..6) {
        let at = rng.random_range(0..=bytes.len());
        let end = (at + rng.random_range(0..20)).min(bytes.len());
        match rng.random_range(0..6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.random_range(0..8),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let piece = bytes[at..end].repeat(rng.random_range(1..50));
                drop(bytes.splice(at..at, piece));
            }
            3 => {
                let from = rng.random_range(0..=other.len());
                let to = (from + rng.random_range(0..80)).min(other.len());
                drop(bytes.splice(at..end, other[from..to].iter().copied()));
            }
            _ => {
                let word = WORDS[rng.random_range(0..WORDS.len())];
                drop(bytes.splice(at..end, word.bytes()));
            }
        }
        bytes.truncate(LENGTH_MAX);
    }
}

fn run(target: &str, body: fn(&[u8])) {
    let seeds = seeds(target);
    let first = number("EVO_SEED", 1);
    for case in first..first + number("EVO_CASES", CASES) {
        let mut rng = seeded(case);
        let mut bytes = seeds[rng.random_range(0..seeds.len())].clone();
        // The first case is a seed as it is.
        if case > 1 {
            let other = seeds[rng.random_range(0..seeds.len())].clone();
            mutate(&mut bytes, &other, &mut rng);
        }
        if catch_unwind(AssertUnwindSafe(|| body(&bytes))).is_err() {
            let text = String::from_utf8_lossy(&bytes);
            panic!("{target} fails on case {case} (repeat: EVO_SEED={case} EVO_CASES=1): {text}");
        }
    }
}

#[test]
fn no_bytes_make_a_reader_panic() {
    let targets = [
        ("space_file", bodies::space_file as fn(&[u8])),
        ("expression", bodies::expression),
        ("worker_line", bodies::worker_line),
        ("journal", bodies::journal),
        ("leaderboard", bodies::leaderboard),
        ("candidate", bodies::candidate),
        ("recording", bodies::recording),
        ("profiler_page", bodies::profiler_page),
        ("request", bodies::request),
        ("sanitizer", bodies::sanitizer),
        ("task", bodies::task),
        ("baseline", bodies::baseline),
    ];
    targets.into_iter().for_each(|(target, body)| run(target, body));
}
