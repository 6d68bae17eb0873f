//! Our own small search spaces and the public ones of other tuners: exact counts and the exact sets.

use std::path::{Path, PathBuf};

use evo_space::space::SearchSpace;
use num_bigint::BigUint;

use crate::skip::skipped;

/// The folder of our own spaces in the style of other tuners', with what they must hold.
pub fn own_spaces() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/spaces")
}

/// The folder with other tuners' spaces, if it is beside the checkout; says so if not.
pub fn shared_spaces() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let folder = std::env::var_os("EVO_SHARED").map_or_else(beside, PathBuf::from).join("spaces");
    if !folder.is_dir() {
        skipped(&format!("there is no folder `{}` with public spaces", folder.display()));
        return None;
    }
    Some(folder)
}

/// The space of a file that is sound.
pub fn open(path: &Path) -> SearchSpace {
    let text = std::fs::read_to_string(path).unwrap();
    let name = path.display().to_string();
    SearchSpace::parse(&text).unwrap_or_else(|diagnostics| panic!("{}", diagnostics.render(&name, &text)))
}

#[derive(serde::Deserialize)]
struct Expected {
    expected_cartesian: Box<serde_json::value::RawValue>,
    expected_valid: Box<serde_json::value::RawValue>,
    rank_sum: String,
}

#[test]
fn our_own_spaces_have_exactly_the_expected_points() {
    check_expected(&own_spaces(), 3);
}

#[test]
fn shared_spaces_have_exactly_the_expected_points() {
    let Some(folder) = shared_spaces() else { return };
    check_expected(&folder, 12);
}

/// Every space file of a folder, which has at least so many, against the numbers that it names itself.
fn check_expected(folder: &Path, at_least: usize) {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    assert!(files.len() >= at_least, "only {} space files", files.len());
    for path in files {
        let expected: Expected = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let start = std::time::Instant::now();
        let space = open(&path);
        eprintln!("{}: {:.3} s", path.display(), start.elapsed().as_secs_f64());
        assert_eq!(space.cartesian().to_string(), expected.expected_cartesian.get(), "{}", path.display());
        assert_eq!(space.valid().to_string(), expected.expected_valid.get(), "{}", path.display());
        assert_eq!(rank_sum(&space).to_string(), expected.rank_sum, "{}", path.display());
        check_indices(&space);
    }
}

/// The sum of the cartesian ranks of all valid points (a point's rank is its index among all points, valid or not): it
/// tells sets of equal size apart.
fn rank_sum(space: &SearchSpace) -> BigUint {
    let (mut sum, mut stride) = (BigUint::ZERO, BigUint::from(1u8));
    for (slot, parameter) in space.parameters().iter().enumerate().rev() {
        for position in 1..parameter.values.len() as u16 {
            sum += space.fixed(&[(slot, position)]).valid() * &stride * position;
        }
        stride *= parameter.values.len();
    }
    sum
}

/// Index → point → index on the first, the last and evenly spread points; iteration agrees.
fn check_indices(space: &SearchSpace) {
    let count = space.count();
    let spread = (0..1000).map(|step| count / 1000 * step).chain([count - 1]);
    for index in spread {
        let genome = space.genome_at(index).unwrap();
        assert!(space.contains(&genome) && space.violations(&genome).is_empty());
        assert_eq!(space.index_of(&genome), Some(index));
    }
    assert_eq!(space.genome_at(count), None);
    for (index, genome) in space.iter().take(1000).enumerate() {
        assert_eq!(space.index_of(&genome), Some(index as u128));
    }
}
