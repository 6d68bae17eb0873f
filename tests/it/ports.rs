//! `benches/ports`: space files for kernels of other repositories, which are not here.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip::skipped;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/ports")
}

fn run(checkouts: &Path, names: &[&str]) -> std::process::Output {
    Command::new("sh")
        .arg(folder().join("run.sh"))
        .arg(checkouts)
        .args(names)
        .env("EVO", env!("CARGO_BIN_EXE_evo"))
        .env("EVO_CACHE_DIR", checkouts.join("cache"))
        .output()
        .unwrap()
}

#[test]
fn each_port_names_its_source_and_has_a_row_on_the_page() {
    let page = std::fs::read_to_string(folder().join("README.md")).unwrap();
    let mut ports = 0;
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        ports += 1;
        let text = std::fs::read_to_string(&path).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("# port: "));
        let words: Vec<&str> = line.unwrap_or_default().split(' ').collect();
        let [repository, commit, file] = words[..] else {
            panic!("{}: no line `# port: OWNER/REPO COMMIT PATH`", path.display());
        };
        assert!(text.contains(&format!("= \"checkout/{file}\"")), "{}: {file}", path.display());
        let name = path.file_stem().unwrap().to_str().unwrap();
        let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("{name} has no row"));
        for word in [repository, &commit[..10], file] {
            assert!(row.contains(word), "{name}: {word} is not in its row");
        }
    }
    assert!(ports >= 12, "{ports} ports");
}

#[test]
fn the_script_of_the_ports_says_what_is_missing_and_what_fails() {
    if Command::new("python3").arg("--version").output().is_err() {
        skipped("it needs python3");
        return;
    }
    let checkouts = tempfile::tempdir().unwrap();
    let nowhere = run(&checkouts.path().join("nowhere"), &["vector_add"]);
    assert_eq!(nowhere.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nowhere.stderr).ends_with("nowhere` is not a folder\n"));

    let missing = run(checkouts.path(), &["vector_add"]);
    assert_eq!(missing.status.code(), Some(1));
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(said.contains("skipped vector_add: ") && said.contains("is missing"), "{said}");

    let kernel = checkouts.path().join("KernelTuner/kernel_tuner/test/vector_add.cu");
    std::fs::create_dir_all(kernel.parent().unwrap()).unwrap();
    let text = "__global__ void vector_add(float* c, float* a, float* b, int n) { c[0] = nothing; }\n";
    std::fs::write(&kernel, text).unwrap();
    let broken = run(checkouts.path(), &["vector_add"]);
    let rows = String::from_utf8_lossy(&broken.stdout).into_owned();
    let row = rows.lines().last().unwrap_or_default();
    assert!(row.starts_with("| vector_add | KernelTuner/kernel_tuner | baf4fd1a87 |"), "{rows}");
    assert!(row.contains("| compile_error (") && row.contains("nothing"), "{rows}");
    assert_eq!(std::fs::read_to_string(&kernel).unwrap(), text);
}
