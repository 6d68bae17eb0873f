//! Readers on small files of our own, on damaged files, and on measured spaces where they are available.

use std::io::Write;
use std::path::{Path, PathBuf};

use evo_protocol::verdict::{VerdictClass, VerdictKind};
use evo_space::value::Value;
use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/replay").join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(fixture(name)).unwrap()
}

fn open_bytes(name: &str, bytes: &[u8]) -> Result<Recording, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    Recording::open(&path).map_err(|error| {
        let hint = error.hint().map_or(String::new(), |hint| format!("\nhint: {hint}"));
        format!("{error}{hint}").replace(&path.display().to_string(), "FILE")
    })
}

fn broken(name: &str, from: &str, to: &str) -> String {
    let text = text(name);
    assert!(text.contains(from), "{from}");
    open_bytes(name, text.replacen(from, to, 1).as_bytes()).unwrap_err()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn row<'a>(recording: &'a Recording, block: i64, vec: i64, mode: &str) -> &'a Row {
    let find = |name: &str| match name {
        "BLOCK" => Value::Int(block),
        "VEC" => Value::Int(vec),
        "MODE" => Value::text(mode),
        _ => Value::Int(4096),
    };
    let positions =
        recording.space.parameters().iter().map(|one| one.position(&find(&one.name)).unwrap() as u16);
    recording.row(&evo_space::genome::Genome::from(positions.collect::<Vec<u16>>())).unwrap()
}

/// All three files hold the same measurements.
fn check_axpy(recording: &Recording) {
    assert_eq!((recording.rows().len(), recording.space.count(), recording.exhaustive), (13, 13, true));
    let best = row(recording, 64, 2, "staged");
    assert_eq!((best.class, best.kind), (VerdictClass::Ok, VerdictKind::Pass));
    assert!((best.objective_ns.unwrap() - 0.4e6).abs() < 1e-6, "{best:?}");
    assert_eq!((best.cost.compile_ms, best.cost.validate_ms, best.cost.framework_ms), (120.0, 2.0, 1.5));
    assert!((best.cost.runs_ms - 4.0).abs() < 1e-9);
    assert!((best.cost.total_ms() - 126.0).abs() < 1e-9);
    let refused = row(recording, 64, 4, "staged");
    assert_eq!((refused.kind, refused.objective_ns), (VerdictKind::CompileError, None));
    assert_eq!((refused.cost.runs_ms, refused.cost.compile_ms), (0.0, 140.0));
    assert_eq!(row(recording, 128, 2, "staged").kind, VerdictKind::LaunchFail);
    for (number, row) in recording.rows().iter().enumerate() {
        assert_eq!(recording.row(&recording.genome(number)), Some(row));
    }
}

#[test]
fn three_formats_of_one_measurement_agree() {
    let data = Recording::open(&fixture("axpy__Toy.json")).unwrap();
    check_axpy(&data);
    assert_eq!(
        (data.format, data.name.as_str(), data.problem.as_str()),
        (Format::TuningData, "axpy__Toy", "4096")
    );
    assert!(data.notices.is_empty());
    let cache = Recording::open(&fixture("kernel_tuner_cache.json")).unwrap();
    check_axpy(&cache);
    assert_eq!((cache.format, cache.gpu.as_str()), (Format::KernelTunerCache, "Toy GPU 1"));
    let results = Recording::open(&fixture("axpy__Toy-t4.json")).unwrap();
    check_axpy(&results);
    assert_eq!((results.format, results.gpu.as_str()), (Format::T4, "Toy-t4"));
    for listed in [&cache, &results] {
        for (own, sorted) in listed.space.parameters().iter().zip(data.space.parameters()) {
            assert_eq!((&own.name, &own.values), (&sorted.name, &sorted.values));
        }
        assert_eq!(listed.notices, ["the recording has no constraints: its configurations are the space"]);
    }
}

#[test]
fn compressed_files_are_unpacked_and_cut_off_ones_are_named() {
    let packed = gzip(text("axpy__Toy.json").as_bytes());
    check_axpy(&open_bytes("x.json.gz", &packed).unwrap());
    // The content tells, not the name.
    check_axpy(&open_bytes("x.json", &packed).unwrap());
    let cut = open_bytes("x.json.gz", &packed[..packed.len() / 2]).unwrap_err();
    assert!(cut.starts_with("cannot unpack the recording `FILE`: "), "{cut}");
    assert!(cut.ends_with("\nhint: the file may be cut off; fetch it again"), "{cut}");
}

#[test]
fn a_cache_file_that_was_never_closed_is_read() {
    let whole = text("kernel_tuner_cache.json");
    let open = whole.trim_end().strip_suffix("}\n}").unwrap();
    let recording = open_bytes("cache.json", format!("{open},\n").as_bytes()).unwrap();
    check_axpy(&recording);
    assert_eq!(recording.notices[1], "the recording has no constraints: its configurations are the space");
    assert_eq!(recording.notices[0], "the cache file was never closed: its run ended early");
}

#[test]
fn words_that_python_writes_for_numbers_are_read() {
    let text = text("kernel_tuner_cache.json");
    let text = text.replacen(
        "\"time\": 1.0",
        "\"GFLOP/s\": -Infinity, \"word\": \"NaN \\\" NaN\", \"time\": NaN",
        1,
    );
    let recording = open_bytes("cache.json", text.as_bytes()).unwrap();
    assert_eq!(row(&recording, 32, 1, "direct").kind, VerdictKind::LaunchFail);
    assert_eq!(recording.rows().iter().filter(|row| row.class == VerdictClass::Ok).count(), 10);
}

#[test]
fn old_cache_files_without_version_words_and_runs() {
    let text = text("kernel_tuner_cache.json");
    let text =
        text.replace("\"schema_version\": \"1.1.0\",\n", "").replace("\"CompilationFailedConfig\"", "1e20");
    let text =
        text.replace("\"times\"", "\"unknown\"").replace("\"time\": \"Runtime", "\"__error__\": \"Runtime");
    let text = text.replace("\"objective\": \"time\"", "\"objective\": [\"time\", \"energy\"]");
    let recording = open_bytes("cache.json", text.as_bytes()).unwrap();
    assert_eq!(row(&recording, 64, 4, "staged").kind, VerdictKind::LaunchFail);
    assert_eq!(row(&recording, 64, 2, "staged").cost.runs_ms, 12.0);
    assert_eq!(row(&recording, 128, 2, "staged").kind, VerdictKind::LaunchFail);
    assert_eq!(recording.notices[0], "the cache was tuned for `time energy`; the replay ranks `time`");
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    const DATA: &str = "axpy__Toy.json";
    const CACHE: &str = "kernel_tuner_cache.json";
    const T4: &str = "axpy__Toy-t4.json";
    let second = "{\"BLOCK\": 32, \"VEC\": 2,";
    let mut told = String::new();
    for (name, from, to) in [
        // Rows that disagree with their file.
        (DATA, "\"BLOCK * VEC <= 256\"", "\"BLOCK * VEC <= 128\""),
        (DATA, "\"BLOCK * VEC <= 256\"", "\"BLOCK * VEC <= 512\""),
        (DATA, "\"BLOCK\": [0, 0, 0, 1", "\"BLOCK\": [0, 0, 0, 7"),
        (DATA, "\"VEC\": [0, 1, 2", "\"VEC\": [0, 0, 2"),
        (DATA, "\"status\": [0", "\"status\": [1"),
        (DATA, "\"objective\": [1.0", "\"objective\": [null"),
        (DATA, "\"objective\": [1.0", "\"objective\": [-1.0"),
        (DATA, "\"status\": [0", "\"status\": [9"),
        // Files that are damaged as a whole.
        (DATA, "tuning-data/1", "tuning-data/2"),
        (DATA, "\"compile_ms\"", "\"compile\""),
        (DATA, "\"size\": 13", "\"size\": 12"),
        (DATA, "\"VEC\": [0", "\"VEK\": [0"),
        (DATA, "\"min\"", "\"max\""),
        (DATA, "\"unit\": \"ms\"", "\"unit\": \"W\""),
        (DATA, "BLOCK * VEC", "BLOK * VEC"),
        (DATA, "[32, 64, 128]", "[32, 64, 64]"),
        (DATA, "\"format\"", "\"fo"),
        (CACHE, "\"1.1.0\"", "\"20.9.8\""),
        (CACHE, "RuntimeFailed", "Unheard"),
        (CACHE, "{\"BLOCK\": 32", "{\"BLOKK\": 32"),
        (CACHE, "\"time\": 1.0", "\"tim\": 1.0"),
        (T4, "\"1.0.0\"", "\"2.0.0\""),
        (T4, "\"compile\"", "\"odd\""),
        (T4, second, "{\"BLOCK\": 32,"),
        (T4, second, "{\"BLOCK\": [1], \"VEC\": 2,"),
        (T4, second, "{\"B\": 1, \"BLOCK\": 32, \"VEC\": 2,"),
    ] {
        told += &format!("# {name}: {to}\n{}\n", broken(name, from, to));
    }
    let other: [&[u8]; 7] = [
        b"{\"parameters\": {\"A\": [1]}}",
        b"{\"metadata\": {}, \"schema_version\": \"1.0.0\"}",
        b"{\"a\": 1}",
        b"",
        b"{\"params\": [",
        b"[parameters]\nA = [1]\n",
        &[0xff, 0xfe, 0],
    ];
    for bytes in other {
        told += &format!("# {}\n{}\n", bytes.escape_ascii(), open_bytes("x.json", bytes).unwrap_err());
    }
    for space in [
        "VEC = [1]\nBLOCK = [32]\n",
        "VEC = [1]\nBLOCK = [32]\nMODE = [\"direct\"]\nX = [1, 2]\n",
        "VEC = [8]\nBLOCK = [32]\nMODE = [\"direct\"]\n",
    ] {
        let own = SearchSpace::parse(&format!("[parameters]\n{space}")).unwrap();
        let error = Recording::of_text(&text(DATA), "axpy__Toy", Some(own)).unwrap_err();
        told += &format!("# {}\n{error}\n", space.escape_debug());
    }
    insta::assert_snapshot!(told);
    let missing = Recording::open(Path::new("/nonexistent/x.json")).unwrap_err();
    assert_eq!(missing.to_string(), "cannot read the recording `/nonexistent/x.json`");
    assert!(missing.hint().is_some_and(|hint| hint.starts_with("`replay:` takes a file")));
}

#[test]
fn a_space_of_the_callers_selects_rows() {
    let smaller = SearchSpace::parse(
        "[parameters]\nVEC = [1, 2]\nBLOCK = [32, 64, 256]\nMODE = [\"direct\", \"staged\"]\n",
    )
    .unwrap();
    let recording = Recording::open_in(&fixture("axpy__Toy.json"), Some(smaller)).unwrap();
    assert_eq!((recording.rows().len(), recording.space.count()), (6, 12));
    assert!(!recording.exhaustive);
    assert_eq!(recording.notices, ["7 of 13 recorded configurations are outside the space and are left out"]);
    assert!((row(&recording, 64, 2, "staged").objective_ns.unwrap() - 0.4e6).abs() < 1e-6);
}

/// A recording of a whole space: it must hold every valid point, in canonical order.
fn check_whole(recording: &Recording) {
    let (rows, name) = (recording.rows(), recording.name.as_str());
    assert!(recording.exhaustive, "{name}");
    assert_eq!(recording.space.count(), rows.len() as u128, "{name}");
    for (row, genome) in rows.iter().zip(recording.space.iter()) {
        assert_eq!(genome, recording.genome(row.number), "{name}");
        assert_eq!(recording.row(&genome), Some(row), "{name}");
    }
}

fn failures(recording: &Recording) -> usize {
    recording.rows().iter().filter(|row| row.class != VerdictClass::Ok).count()
}

#[test]
fn our_own_whole_spaces_match_their_constraints_row_by_row() {
    let stencil = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/stencil__invented.json");
    for (path, size, failing) in [(stencil, 672, 90), (fixture("axpy__Toy.json"), 13, 2)] {
        // Measured spaces come compressed, so these are read compressed too.
        let packed = gzip(&std::fs::read(path).unwrap());
        let recording = open_bytes("recording.json.gz", &packed).unwrap_or_else(|error| panic!("{error}"));
        check_whole(&recording);
        assert_eq!((recording.rows().len(), failures(&recording)), (size, failing), "{}", recording.name);
    }
}

fn measured() -> Vec<PathBuf> {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared").to_string();
    let folder = std::env::var("EVO_SHARED").unwrap_or(beside) + "/tuning_data";
    let Ok(entries) = std::fs::read_dir(&folder) else {
        // Past the harness, which keeps the output of `eprintln!` of passing tests to itself.
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "skipped: there is no folder `{folder}` with measured spaces");
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.to_string_lossy().ends_with(".json.gz")).collect();
    paths.sort();
    paths
}

#[test]
fn measured_spaces_match_their_constraints_row_by_row() {
    let sizes = [("convolution-old", 6768), ("convolution", 4362), ("dedispersion", 11130), ("gemm", 17956)];
    let failing =
        [("convolution-old__RTX3090", 1548), ("convolution__A100", 161), ("convolution__A4000", 161)];
    for path in measured() {
        let recording = Recording::open(&path).unwrap_or_else(|error| panic!("{error}"));
        let name = recording.name.as_str();
        assert!(path.to_string_lossy().contains(name));
        check_whole(&recording);
        if let Some((_, size)) = sizes.iter().find(|(kernel, _)| *kernel == recording.kernel) {
            assert_eq!(recording.rows().len(), *size, "{name}");
            let expected = failing.iter().find(|(own, _)| *own == name).map_or(0, |(_, count)| *count);
            assert_eq!(failures(&recording), expected, "{name}");
        }
    }
}

#[test]
fn outcomes_move_to_a_space_that_has_their_values() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/stencil__invented.json");
    let recording = Recording::open(Path::new(path)).unwrap();
    let all = recording.study(0..recording.rows().len(), &recording.space);
    assert_eq!(all.outcomes.len(), recording.rows().len());
    assert_eq!(
        all.best().map(|(_, best)| best),
        recording.rows().iter().filter_map(|row| row.objective_ns).min_by(f64::total_cmp)
    );
    let some = recording.study([3, 5, 1_000_000].into_iter(), &recording.space);
    assert_eq!(some.outcomes[1], (recording.genome(5), recording.rows()[5].objective_ns));
    assert_eq!(some.outcomes.len(), 2);
    let other = SearchSpace::parse("[parameters]\nQ = [1, 2]\n").unwrap();
    assert!(recording.study(0..10, &other).outcomes.is_empty());
}
