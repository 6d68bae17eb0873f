//! Every measured space that is at hand reads as a recording.

use super::*;

/// The folder of measured spaces: `$EVO_SHARED/tuning_data` or `../shared/tuning_data`.
fn measured() -> Vec<std::path::PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared").to_string();
    let folder = std::env::var("EVO_SHARED").unwrap_or(beside) + "/tuning_data";
    let Ok(entries) = std::fs::read_dir(&folder) else {
        eprintln!("skipped: no folder `{folder}` with measured spaces");
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.to_string_lossy().ends_with(".json.gz")).collect();
    paths.sort();
    paths
}

#[test]
fn measured_spaces_match_their_constraints_row_by_row() {
    for path in measured() {
        let recording = Recording::open(&path).unwrap_or_else(|error| panic!("{error}"));
        let rows = recording.rows();
        assert!(path.to_string_lossy().contains(&recording.name));
        assert!(recording.exhaustive, "{}", recording.name);
        assert_eq!(recording.space.count(), rows.len() as u128, "{}", recording.name);
        for (row, genome) in rows.iter().zip(recording.space.iter()) {
            assert_eq!(genome, recording.genome(row.number));
            assert_eq!(recording.row(&genome), Some(row));
        }
    }
}
