//! The benchmark beside Kernel Tuner: its spaces open, are large enough, and its Python has its own tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use evo::kernel::load;

use crate::skip::skipped;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/throughput_peers")
}

#[test]
fn the_spaces_beside_kernel_tuner_have_the_points_that_the_page_promises() {
    let page = std::fs::read_to_string(folder().join("README.md")).unwrap();
    for (kernel, valid, promised) in [
        ("gemm", 7_344, "7,344"),
        ("convolution", 8_032, "8,032"),
        ("scale_add", 8_280, "8,280"),
        ("layer_norm", 40, "40"),
    ] {
        let file = load::load_file(&folder().join(format!("{kernel}.toml")))
            .unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(file.space.count(), valid, "{kernel}");
        assert!(
            page.lines().any(|line| line.contains(kernel) && line.contains(promised)),
            "{kernel}: {promised}"
        );
    }
}

#[test]
fn the_python_of_the_benchmark_passes_its_tests() {
    if Command::new("python3").arg("--version").output().is_err() {
        skipped("it needs python3");
        return;
    }
    let output = Command::new("python3")
        .args(["-B", "-m", "unittest", "discover", "."])
        .current_dir(folder())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
