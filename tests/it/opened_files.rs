//! What NVRTC can open is decided by the system, so that a source which gets past the reading of its text gains nothing.
//! The compiler is called without that reading here.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use evo::compile::confined;
use evo::compile::nvrtc::{self, Nvrtc};
use evo_protocol::binary::KernelSource;
use evo_protocol::verdict::Verdict;

use crate::compile::source;
use crate::skip::skipped;
use crate::toolchain;

/// What no message may quote.
const SECRET: &str = "hunter2 is the password";

/// An include folder with a header and two links that lead out of it, and a secret beside the folder.
fn folder() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("inc")).unwrap();
    fs::write(root.path().join("secret"), SECRET).unwrap();
    fs::write(root.path().join("inc/op.h"), "#define OP 2.0f\n").unwrap();
    symlink(root.path().join("secret"), root.path().join("inc/file.h")).unwrap();
    symlink(root.path(), root.path().join("inc/up")).unwrap();
    root
}

fn load() -> Nvrtc {
    nvrtc::locate(&toolchain::toolbox()).unwrap().load().unwrap()
}

fn kernel(root: &Path, text: &str) -> KernelSource {
    let text = format!("{text}\nextern \"C\" __global__ void k(float* x) {{ x[0] = 2.0f; }}\n");
    KernelSource { options: vec![format!("-I{}", root.join("inc").display())], ..source("k", &text, "k") }
}

/// Ways to a file outside the include folders.
fn ways(root: &Path) -> Vec<String> {
    let secret = root.join("secret").display().to_string();
    let mut ways: Vec<String> =
        ["file.h", "up/secret", "../secret"].map(|name| format!("#include \"{name}\"")).into();
    ways.push(format!("#include \"{secret}\""));
    ways.push(format!("#inc\\\nlude <{secret}>"));
    ways.push(format!("auto s = R\"x(\" /* )x\";\n#include \"{secret}\"\n// */"));
    ways.push(format!("#define NAME \"{secret}\"\n#include NAME"));
    // A file of the folder that the compiler runs in: Cargo's manifest here.
    ways.push("#include \"Cargo.toml\"".to_string());
    ways
}

/// Whether a verdict or its log holds a line of the secret or of Cargo's manifest.
fn quotes(verdict: &Verdict) -> bool {
    let whole = serde_json::to_string(verdict).unwrap();
    ["hunter2", "[workspace]"].iter().any(|text| whole.contains(text))
}

#[test]
fn nvrtc_opens_no_file_outside_the_include_folders() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    if !confined::is_supported() {
        return skipped("this system has no Landlock");
    }
    let root = folder();
    let nvrtc = load();
    let honest = "#include \"op.h\"\n#include <cuda_fp16.h>\n__device__ float f() { return OP; }";
    assert!(nvrtc.compile(&kernel(root.path(), honest), "sm_90").is_ok());
    for way in ways(root.path()) {
        let verdict = nvrtc.compile(&kernel(root.path(), &way), "sm_90").expect_err(&way);
        assert_eq!(verdict.label(), "compile_error", "{way}: {verdict:?}");
        let says = |words: &str| verdict.message.contains(words);
        assert!(
            says("open source file") && says("hint: files are opened in the folders"),
            "{way}: {verdict:?}"
        );
        assert!(!quotes(&verdict), "{way}: {verdict:?}");
    }
    // Whether a file is there is not told either.
    let asks = |path: PathBuf| {
        let text = format!("#if __has_include(\"{}\")\n#error there\n#endif", path.display());
        nvrtc.compile(&kernel(root.path(), &text), "sm_90").is_ok()
    };
    assert!(asks(root.path().join("secret")) && asks(root.path().join("absent")));
}

/// The same sources read the secret where nothing confines the compiler, so the test above can fail.
#[test]
fn nvrtc_would_open_them_all() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let root = folder();
    let nvrtc = load().trusting();
    for way in ways(root.path()) {
        let verdict = nvrtc.compile(&kernel(root.path(), &way), "sm_90").expect_err(&way);
        assert!(quotes(&verdict), "{way}: {verdict:?}");
    }
}
