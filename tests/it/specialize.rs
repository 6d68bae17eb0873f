//! Sizes that are compile-time constants: one binary for each set of their values, each judged by every gate.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use evo::engine::Recipe;
use evo::engine::recipe::KernelRecipe;
use evo::kernel::load::load_file;
use evo::kernel::spec::{ProblemSpec, SpaceFile};
use evo_protocol::device::DeviceLimits;
use serde_json::Value;

use crate::support::{BRIEF, evo};
use crate::toolchain;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/specialize");

/// The space file with some texts replaced, beside its sources.
fn folder(changes: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["mask.cu.j2", "naive.cu"] {
        fs::copy(Path::new(FOLDER).join(name), folder.path().join(name)).unwrap();
    }
    let mut text = fs::read_to_string(Path::new(FOLDER).join("mask.toml")).unwrap();
    for (from, to) in changes {
        assert!(text.contains(from), "the file has no {from:?}");
        text = text.replacen(from, to, 1);
    }
    let path = folder.path().join("mask.toml");
    fs::write(&path, text).unwrap();
    (folder, path)
}

/// The message for the changed file.
fn message(changes: &[(&str, &str)]) -> String {
    let (folder, path) = folder(changes);
    let shown = load_file(&path).map_or_else(|error| error.to_string(), |_| "no error".to_string());
    shown.replace(&format!("{}/", folder.path().display()), "")
}

/// The answer of a command whose last line is an object.
fn answer(folder: &Path, words: &str) -> Value {
    let output = evo(folder, words).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    serde_json::from_str(last).unwrap_or_else(|_| serde_json::from_str(&text).unwrap())
}

fn drafted(file: &SpaceFile, problems: &[&str]) -> (BTreeSet<String>, BTreeSet<String>, Vec<String>) {
    let kernel = file.kernel.as_ref().unwrap();
    let chosen: Vec<&ProblemSpec> =
        kernel.problems.iter().filter(|one| problems.contains(&one.name.as_str())).collect();
    let recipe = KernelRecipe::new(kernel, DeviceLimits::of_arch("sm_90a").unwrap(), &chosen, None, 1);
    let configuration = file.space.configuration(&file.space.default_genome());
    let prepared = recipe.prepare(&configuration).unwrap();
    let constants = |source: &evo_protocol::binary::KernelSource| source.constants.to_string();
    let hashes = prepared.sources.iter().map(|own| own.variant_hash.to_string()).collect();
    let shapes = prepared.tiny.plans.iter().chain(&prepared.tiny.several).map(|plan| plan.name.clone());
    (prepared.sources.iter().map(constants).collect(), hashes, shapes.collect())
}

#[test]
fn each_set_of_values_is_a_source_with_small_shapes_of_its_own() {
    let (_folder, path) = folder(&[]);
    let file = load_file(&path).unwrap_or_else(|error| panic!("{error}"));
    let (constants, hashes, shapes) = drafted(&file, &["plain", "masked", "masked_long"]);
    let all = ["C=24 MASKED=0", "C=24 MASKED=1", "C=40 MASKED=1"];
    assert_eq!(constants, all.map(String::from).into());
    assert_eq!(hashes.len(), 3, "a binary says which of them it is");
    for own in all {
        let name = format!("tiny:{}", own.replace(' ', ","));
        assert!(shapes.iter().filter(|shape| shape.starts_with(&name)).count() >= 3, "{own}: {shapes:?}");
    }
    assert!(shapes.iter().all(|shape| all.iter().any(|own| shape.contains(&own.replace(' ', ",")))));
    // A study of one problem compiles what that problem needs.
    assert_eq!(drafted(&file, &["masked_long"]).0, ["C=40 MASKED=1".to_string()].into());
}

#[test]
fn the_text_of_a_configuration_has_a_section_for_each_set() {
    let (folder, _) = folder(&[]);
    let text = |words: &str| {
        let output = evo(folder.path(), words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let whole = text("render ./mask.toml");
    for line in [
        "#if EVO_C == 24 && EVO_MASKED == 0\n",
        "#elif EVO_C == 24 && EVO_MASKED == 1\n",
        "#elif EVO_C == 40 && EVO_MASKED == 1\n",
        "#endif\n",
    ] {
        assert!(whole.contains(line), "{line} {whole}");
    }
    let one = text("render ./mask.toml --problem masked_long");
    assert!(one.contains("constexpr int columns = 40;") && !one.contains("#if"), "{one}");
    assert!(one.contains("// constants: C=40 MASKED=1\n"), "{one}");
    let output = evo(folder.path(), "render ./mask.toml --problem long").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("problems are plain, masked, masked_long"));
}

#[test]
fn every_binary_meets_every_gate() {
    let (folder, _) = folder(&[]);
    let judged = |words: &str| {
        let words = format!("test-one ./mask.toml {words} --device host --seed 3 {BRIEF} --json");
        let whole = answer(folder.path(), &words);
        (whole["verdict"].as_str().unwrap_or_default().to_string(), whole)
    };
    let (kind, whole) = judged("");
    assert_eq!(kind, "pass", "{whole:#}");
    for (wrong, constants) in [("masked", "MASKED=1"), ("c40", "C=40")] {
        let (kind, whole) = judged(&format!("WRONG={wrong}"));
        assert_eq!(kind, "wrong_answer", "{whole:#}");
        let text = format!("{} {}", whole["message"], whole["evidence"]);
        assert!(text.contains(constants), "{constants}: {text}");
    }
    // The binary that is wrong is not even compiled for a problem that does not use it.
    let (kind, whole) = judged("WRONG=c40 --problem plain");
    assert_eq!(kind, "pass", "{whole:#}");
}

/// The one text of a configuration is judged as the template is: by it candidates are restored and baselines kept.
#[test]
fn the_rendered_text_stands_in_for_the_template() {
    let (folder, _) = folder(&[]);
    let output = evo(folder.path(), "render ./mask.toml").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let judged = |text: &str| {
        fs::write(folder.path().join("own.cu"), text).unwrap();
        let words = format!("test-one ./mask.toml --source own.cu --device host --seed 3 {BRIEF} --json");
        let whole = answer(folder.path(), &words);
        (whole["verdict"].as_str().unwrap_or_default().to_string(), whole)
    };
    let (kind, whole) = judged(&text);
    assert_eq!(kind, "pass", "{whole:#}");
    let broken = text.replacen("? 2.0f * x[at] : 0.0f", "? 2.0f * x[at] : 3.0f", 3);
    assert_ne!(broken, text);
    let (kind, whole) = judged(&broken);
    assert_eq!(kind, "wrong_answer", "{whole:#}");
}

#[test]
fn a_plain_source_gets_constants_as_macros() {
    let (folder, _) = folder(&[("template = \"mask.cu.j2\"", "source = \"mask.cu\"")]);
    let source = r#"
extern "C" __global__ void mask(const float* x, float* y, int rows, int, int) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= rows * C) return;
#if MASKED
    y[at] = at % C <= at / C ? 2.0f * x[at] : 0.0f;
#else
    y[at] = 2.0f * x[at];
#endif
}
"#;
    fs::write(folder.path().join("mask.cu"), source).unwrap();
    let words = format!("test-one ./mask.toml --device host --seed 3 {BRIEF} --json");
    let whole = answer(folder.path(), &words);
    assert_eq!(whole["verdict"], "pass", "{whole:#}");
}

#[test]
fn a_sweep_judges_each_configuration_once() {
    let (folder, _) = folder(&[]);
    let words = "sweep ./mask.toml --budget 4 --finalists 1 --device host --seed 3 --out evidence --study s";
    let output = evo(folder.path(), &format!("{words} {BRIEF}")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let journal = fs::read_to_string(folder.path().join("evidence/s/journal.jsonl")).unwrap();
    let records = journal.lines().filter(|line| line.contains("\"kind\":\"evaluation\""));
    assert_eq!(records.count(), 4, "{journal}");
    let text = fs::read_to_string(folder.path().join("evidence/leaderboard.json")).unwrap();
    let board: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(board["sections"][0]["champion"]["configuration"]["WRONG"], "never", "{board:#}");
}

#[test]
fn compile_shows_every_binary() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let (folder, _) = folder(&[]);
    let compile = |words: &str| {
        let mut command = evo(folder.path(), words);
        let output = command.env("EVO_NVRTC_DIR", toolchain::nvrtc_dir()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = compile("compile ./mask.toml --arch sm_80");
    for own in ["mask [C=24 MASKED=0]", "mask [C=24 MASKED=1]", "mask [C=40 MASKED=1]"] {
        assert!(text.contains(own), "{text}");
    }
    let whole: Value = serde_json::from_str(&compile("compile ./mask.toml --arch sm_80 --json")).unwrap();
    let binaries = whole["binaries"].as_array().unwrap();
    let hashes: BTreeSet<&str> = binaries.iter().map(|own| own["code_hash"].as_str().unwrap()).collect();
    assert_eq!((binaries.len(), hashes.len()), (3, 3), "{whole:#}");
    assert_eq!(binaries[2]["constants"], serde_json::json!({"C": 40, "MASKED": 1}));
}

#[test]
fn mistakes_have_a_place_and_a_way_out() {
    let names =
        |list: &str| message(&[("specialize = [\"MASKED\", \"C\"]", &format!("specialize = {list}"))]);
    insta::assert_snapshot!(names("[\"MASK\", \"BLOCK\", \"C\", \"C\"]"));
    insta::assert_snapshot!(message(&[
        (", C = 40, MASKED", ", C = 40, HIDDEN = 1, MASKED"),
        ("\"MASKED\", \"C\"", "\"HIDDEN\"")
    ]));
    // A size that is not named stays an argument.
    insta::assert_snapshot!(names("[\"MASKED\"]"));
    let problems: String = (1..=17)
        .map(|c| format!("[[problems]]\nname = \"p{c}\"\nsizes = {{ R = 5, C = {c}, MASKED = 0 }}\n"))
        .collect();
    insta::assert_snapshot!(message(&[("[check]", &format!("{problems}[check]"))]));
}
