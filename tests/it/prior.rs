//! Searches that start from earlier studies, as a program on a recording.

use std::path::Path;

/// Sweeps the invented recording in `folder`: exit code and stderr.
fn sweep(folder: &Path, study: &str, words: &[&str]) -> (i32, String) {
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/stencil__invented.json");
    let device = format!("replay:{}", recording.display());
    let mut command = assert_cmd::Command::cargo_bin("evo").unwrap();
    let fixed = ["sweep", "--device", &device, "--budget", "24", "--seed", "1", "--study", study];
    let output = command.current_dir(folder).args(fixed).args(words).output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_sweep_starts_from_the_studies_beside_it_unless_told_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let told = "note: the search starts from earlier outcomes of this kernel: `evidence/first` (24)";
    let evolve = ["--strategy", "evolve"];
    let (code, stderr) = sweep(folder.path(), "first", &evolve);
    assert!(code == 0 && !stderr.contains("earlier outcomes"), "{stderr}");
    let (code, stderr) = sweep(folder.path(), "second", &evolve);
    assert!(code == 0 && stderr.contains(told), "{stderr}");
    let journal = std::fs::read_to_string(folder.path().join("evidence/second/journal.jsonl")).unwrap();
    assert!(journal.contains("earlier outcomes") && journal.contains("\"origin\":\"prior\""), "{journal}");
    let (code, stderr) = sweep(folder.path(), "third", &["--strategy", "evolve", "--no-prior"]);
    assert!(code == 0 && !stderr.contains("earlier outcomes"), "{stderr}");
    // A strategy without a use for them says so.
    let told = "note: `random` ignores earlier outcomes of this kernel: `evidence/first` (24), ";
    let (code, stderr) = sweep(folder.path(), "fourth", &["--strategy", "random"]);
    assert!(code == 0 && stderr.contains(told) && stderr.contains("`--strategy evolve` starts"), "{stderr}");
    let (code, stderr) = sweep(folder.path(), "fifth", &["--strategy", "random", "--no-prior"]);
    assert!(code == 0 && !stderr.contains("earlier outcomes"), "{stderr}");
}

#[test]
fn a_prior_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |words: &[&str], message: &str| {
        let words = [&["--strategy", "evolve"], words].concat();
        let (code, stderr) = sweep(folder.path(), "s", &words);
        assert_eq!(code, 2, "{stderr}");
        assert!(stderr.contains(message), "{stderr}");
    };
    refused(&["--prior", "nowhere"], "cannot read the recording `nowhere`");
    let other = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/replay/kernel_tuner_cache.json");
    refused(&["--prior", other], "has no configuration of this space\nhint: ");
    refused(&["--prior", other, "--no-prior"], "cannot be used with");
}
