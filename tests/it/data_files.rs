//! Inputs from files with and without a header: made for one shape, so that smaller ones leave them out.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::support::{BRIEF, evo};

/// The example box blur over one image.
fn folder(fill: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/box_blur");
    for name in ["blur.cu", "naive.cu"] {
        fs::copy(from.join(name), folder.path().join(name)).unwrap();
    }
    let space = fs::read_to_string(from.join("blur.toml")).unwrap();
    let role = "shape = [\"H\", \"W\"], role = \"input\"";
    let space = space.replace(role, &format!("{role}, fill = {{ {fill} }}"));
    let space = space.replace("sizes = { H = 270, W = 480 }", "sizes = { H = 24, W = 40 }");
    assert!(space.contains(fill) && space.contains("H = 24"));
    fs::write(folder.path().join("blur.toml"), space).unwrap();
    let data: Vec<u8> = (0..24 * 40u32).flat_map(|at| ((at * 37 % 101) as f32).to_le_bytes()).collect();
    let mut header = "{'descr': '<f4', 'fortran_order': False, 'shape': (24, 40), }".to_string();
    header.push_str(&" ".repeat(128 - 10 - 1 - header.len()));
    header.push('\n');
    let length = (header.len() as u16).to_le_bytes();
    let npy = [&b"\x93NUMPY\x01\x00"[..], &length, header.as_bytes(), &data].concat();
    fs::write(folder.path().join("x.npy"), npy).unwrap();
    fs::write(folder.path().join("x.bin"), data).unwrap();
    folder
}

fn judged(folder: &Path) -> (Option<i32>, Value) {
    let words = format!("test-one blur.toml --device host --seed 3 {BRIEF} --json");
    let output = evo(folder, &words).output().unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

#[test]
fn a_kernel_is_judged_with_what_a_file_holds() {
    for fill in ["npy = \"x.npy\"", "raw = \"x.bin\""] {
        let folder = folder(fill);
        let (code, answer) = judged(folder.path());
        let text = answer.to_string();
        assert_eq!(code, Some(0), "{fill}: {text}");
        assert!(text.contains("2 problems without a matching file of inputs or answers"), "{text}");
        // The sizes of the problem itself must be the file's.
        let path = folder.path().join("blur.toml");
        let space = fs::read_to_string(&path).unwrap().replace("H = 24", "H = 23");
        fs::write(&path, space).unwrap();
        let (code, answer) = judged(folder.path());
        let text = answer.to_string();
        assert_ne!(code, Some(0), "{text}");
        assert!(text.contains("harness_error") && text.contains("x."), "{text}");
    }
}
