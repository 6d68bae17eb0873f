//! Sizes that are compile-time constants: one binary for each set of their values, each judged by every gate.

use std::collections::BTreeSet;

use evo::engine::Recipe;
use evo::engine::recipe::KernelRecipe;
use evo::kernel::spec::{ProblemSpec, SpaceFile};
use evo_protocol::device::DeviceLimits;
use serde_json::Value;

use crate::support::BRIEF;
use crate::support::kernels::Kernel;

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
    let file = Kernel::copy("specialize").load();
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
    let kernel = Kernel::copy("specialize");
    let text = |words: &str| {
        let output = kernel.evo(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let whole = text("render own/space.toml");
    for line in [
        "#if EVO_C == 24 && EVO_MASKED == 0\n",
        "#elif EVO_C == 24 && EVO_MASKED == 1\n",
        "#elif EVO_C == 40 && EVO_MASKED == 1\n",
        "#endif\n",
    ] {
        assert!(whole.contains(line), "{line} {whole}");
    }
    let one = text("render own/space.toml --problem masked_long");
    assert!(one.contains("constexpr int columns = 40;") && !one.contains("#if"), "{one}");
    assert!(one.contains("// constants: C=40 MASKED=1\n"), "{one}");
    let output = kernel.evo("render own/space.toml --problem long").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("problems are plain, masked, masked_long"));
}

/// The one text of a configuration is judged as the template is: by it candidates are restored and baselines kept.
#[test]
fn the_rendered_text_stands_in_for_the_template() {
    let kernel = Kernel::copy("specialize");
    let output = kernel.evo("render own/space.toml").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words = "--source own/own.cu --seed 3 --level quick";
    let judged = |text: &str| kernel.write("own.cu", text).judged(words, None);
    let whole = judged(&text);
    assert_eq!(whole["verdict"], "pass", "{whole:#}");
    let broken = text.replacen("? 2.0f * x[at] : 0.0f", "? 2.0f * x[at] : 3.0f", 3);
    assert_ne!(broken, text);
    let whole = judged(&broken);
    assert_eq!(whole["verdict"], "wrong_answer", "{whole:#}");
}
#[test]
fn a_sweep_judges_each_configuration_once() {
    let kernel = Kernel::copy("specialize");
    let words =
        "sweep own/space.toml --budget 4 --finalists 1 --device host --seed 3 --out evidence --study s";
    let output = kernel.evo(&format!("{words} {BRIEF}")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let journal = kernel.read("../evidence/s/journal.jsonl");
    let records = journal.lines().filter(|line| line.contains("\"kind\":\"evaluation\""));
    assert_eq!(records.count(), 4, "{journal}");
    let board: Value = serde_json::from_str(&kernel.read("../evidence/leaderboard.json")).unwrap();
    assert_eq!(board["sections"][0]["champion"]["configuration"]["WRONG"], "never", "{board:#}");
}
