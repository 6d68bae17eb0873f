//! What compilers can open is decided by the system, whatever the source says. NVRTC is called without the reading of its
//! text here.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use evo::compile::confined;
use evo::compile::nvrtc::{self, Nvrtc};
use evo_protocol::binary::KernelSource;
use evo_protocol::check::{CheckSet, GateCheck};
use evo_protocol::verdict::Verdict;

use crate::compile::{Bench, source};
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
        let says = |words: &str| verdict.message.contains(words);
        match verdict.label().as_str() {
            "static_reject:include" => assert!(says("makes the compiler open"), "{way}: {verdict:?}"),
            label => {
                assert_eq!(label, "compile_error", "{way}: {verdict:?}");
                let hint = "hint: files are opened in the folders";
                assert!(says("open source file") && says(hint), "{way}: {verdict:?}");
            }
        }
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
    let mut nvrtc = load();
    nvrtc.is_confined = false;
    for way in ways(root.path()) {
        let verdict = nvrtc.compile(&kernel(root.path(), &way), "sm_90").expect_err(&way);
        assert!(quotes(&verdict), "{way}: {verdict:?}");
    }
}

/// Ways to the secret through g++ and its assembler that no reading of the text finds, and whether they show it in
/// messages; the others put it into the binary.
fn hidden_ways(root: &Path) -> Vec<(String, bool)> {
    let secret = root.join("secret").display().to_string();
    // The assembler gets a section's name as it stands.
    let section = |lines: &str| {
        let attribute = format!("__attribute__((section({lines})))");
        format!("__device__ {attribute} int hidden = 1;\n__device__ int* shown = &hidden;")
    };
    let embed = format!("\\n.incbin \\\"{secret}\\\"\\n#");
    vec![
        (format!("#define NAME \"{secret}\"\n#include NAME"), true),
        (format!("%:include \"{secret}\""), true),
        (
            format!(
                "#define ASK __has_include\n#if ASK(\"{secret}\")\n#include \"op.h\"\n#error hunter2\n#endif"
            ),
            true,
        ),
        (format!("#line 1 \"{secret}\"\nint wrong = ;"), true),
        (section(&format!("\".data,\\\"aw\\\"{embed}\"")), false),
        (
            format!(
                "#define PART \".data,\\\"aw\\\"\\n.in\"\n#define TEXT(x) #x\n#define OTHER(x) TEXT(x)\n{}",
                section(&format!("PART \"cbin \" OTHER(\"{secret}\") \"\\n#\""))
            ),
            false,
        ),
        (section(&format!("\".data,\\\"aw\\\"\\n.include \\\"{secret}\\\"\\n#\"")), true),
    ]
}

fn unconfined() -> Bench {
    let mut bench = Bench::host();
    bench.options.checks = CheckSet::without(GateCheck::IncludePaths, None);
    bench
}

#[test]
fn a_cpp_compiler_opens_no_file_outside_the_include_folders() {
    if !confined::is_supported() {
        return skipped("this system has no Landlock");
    }
    let (root, bench) = (folder(), Bench::host());
    let honest =
        "#include \"op.h\"\n#include <cuda_fp16.h>\n#include <map>\n__device__ float f() { return OP; }";
    bench.compile(kernel(root.path(), honest)).unwrap();
    // The folder's own links are its author's.
    let linked = bench.verdict(kernel(root.path(), "#include \"file.h\""));
    assert!(linked.label() == "compile_error" && quotes(&linked), "{linked:?}");
    fs::remove_file(root.path().join("inc/file.h")).unwrap();
    let hidden = hidden_ways(root.path()).into_iter().map(|(way, _)| way);
    for way in hidden.chain(ways(root.path())).filter(|way| !way.contains("file.h")) {
        let verdict = bench.verdict(kernel(root.path(), &way));
        assert!(!quotes(&verdict), "{way}: {verdict:?}");
        let is_missing = ["Cargo", "up/"].iter().any(|word| way.contains(word));
        let expected = if is_missing { "compile_error" } else { "static_reject:include" };
        assert_eq!(verdict.label(), expected, "{way}: {verdict:?}");
    }
}

/// The same sources read the secret where nothing confines the compiler, so the test above can fail.
#[test]
fn a_cpp_compiler_would_open_them_all() {
    let (root, bench) = (folder(), unconfined());
    for (way, is_shown) in hidden_ways(root.path()) {
        let shown = match bench.compile(kernel(root.path(), &way)) {
            Ok(binary) => {
                let bytes = fs::read(binary.path).unwrap();
                !is_shown && bytes.windows(7).any(|window| window == b"hunter2")
            }
            Err(verdict) => is_shown && quotes(&verdict),
        };
        assert!(shown, "{way}");
    }
}
