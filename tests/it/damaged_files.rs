//! No file, however damaged, makes the loader panic or refuse without a word.

use std::fs;

use evo::kernel::load::load_file;
use proptest::prelude::*;

const SOUND: &str = include_str!("../data/kernels/saxpy/saxpy.toml");

/// Pieces that are likely to be read as something else where they do not belong.
const PIECES: &[&str] = &[
    "",
    "\"",
    "[",
    "]",
    "{ }",
    "{",
    "0",
    "-1",
    "1e400",
    "nan",
    "true",
    "\"N\"",
    "[[]]",
    "\n",
    "# ",
    "é",
    "99999999999999999999",
    "\"1 / 0\"",
    "\"\\u0000\"",
    "= ",
    ",",
    "\"BLOCK ** BLOCK\"",
    "kernel",
    "parameters",
];

fn survives(text: &str) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["saxpy.cu", "naive.cu"] {
        fs::write(folder.path().join(name), "// any text\n").unwrap();
    }
    let path = folder.path().join("space.toml");
    fs::write(&path, text).unwrap();
    if let Err(error) = load_file(&path) {
        assert!(error.to_string().starts_with("error: "), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_are_answered(
        start in 0..SOUND.len(), length in 0_usize..30, piece in proptest::sample::select(PIECES),
    ) {
        let mut text = SOUND.to_string();
        text.replace_range(start..(start + length).min(text.len()), piece);
        survives(&text);
    }

    /// Whole values exchanged: every kind at every place.
    #[test]
    fn values_of_any_kind_are_answered(place in 0_usize..40, piece in proptest::sample::select(PIECES)) {
        let values: Vec<(usize, usize)> = value_places();
        let (start, end) = values[place % values.len()];
        let mut text = SOUND.to_string();
        text.replace_range(start..end, piece);
        survives(&text);
    }
}

/// Byte ranges of simple values: what follows ` = ` up to the next separator.
fn value_places() -> Vec<(usize, usize)> {
    let places = SOUND.match_indices(" = ").map(|(at, separator)| {
        let start = at + separator.len();
        let end = SOUND[start..].find([',', ' ', '\n']).map_or(SOUND.len(), |length| start + length);
        (start, end)
    });
    places.collect()
}
