//! The attention kernels that ship, at the gates of the host device: every body and way to merge, and planted mistakes.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

use crate::support::{self, BRIEF, timed_on_host};
use crate::toolchain;

fn evo(folder: &tempfile::TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
    command.current_dir(folder.path()).env("EVO_CACHE_DIR", support::cache());
    if let Ok(folder) = toolchain::nvrtc() {
        command.env("EVO_NVRTC_DIR", folder);
    }
    command
}

/// Judges a configuration on the host device; gives the verdict up to its first colon, and the whole answer.
fn judged(folder: &tempfile::TempDir, words: &[&str]) -> (String, Value) {
    let mut command = evo(folder);
    command.arg("test-one").args(words).args(["--device", "host", "--json"]).args(BRIEF.split(' '));
    let output = command.output().unwrap();
    let whole: Value = serde_json::from_slice(&output.stdout).unwrap();
    let verdict = whole["verdict"].as_str().unwrap_or_else(|| panic!("{whole:#}"));
    (verdict.split(':').next().unwrap_or(verdict).to_string(), whole)
}

/// The same, at those of its problems that a shipped space times here.
fn judged_at_timed(folder: &tempfile::TempDir, space: &str, words: &[&str]) -> (String, Value) {
    let problems = timed_on_host(space);
    judged(folder, &words.iter().copied().chain(problems.iter().map(String::as_str)).collect::<Vec<_>>())
}

/// A space and its template in a folder of their own, for edits.
fn copied(space: &str, template: &str) -> (tempfile::TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let texts = [("search_spaces", format!("{space}.toml")), ("templates", template.to_string())].map(
        |(own, name)| {
            let text = fs::read_to_string(root.join(own).join(&name)).unwrap();
            fs::write(folder.path().join(name), &text).unwrap();
            text
        },
    );
    let [space, template] = texts;
    (folder, space, template)
}

#[test]
fn each_body_of_decoding_passes_every_gate_on_the_host() {
    let folder = tempfile::tempdir().unwrap();
    for words in [
        ["attention_decode", "BODY=cores", "ROWS=4", "NUM_WARPS=2", "BLOCK_N=32", "COMBINE=last"],
        ["attention_decode_d64", "BODY=mma", "ROWS=16", "NUM_WARPS=4", "BLOCK_N=16", "COMBINE=kernel"],
    ] {
        let more = ["MIN_KEYS=64", "STAGES=2", "BLOCKS=66"];
        let (verdict, whole) = judged_at_timed(&folder, words[0], &[words.as_slice(), &more].concat());
        assert_eq!(verdict, "pass", "{words:?}: {whole:#}");
    }
    // All problems, also those that are only checked.
    let words = "attention_decode_bf16 BODY=swap ROWS=16 NUM_WARPS=2 LAYOUT=pad COMBINE=programmatic MIN_KEYS=64 \
                 STAGES=2 BLOCKS=66";
    let (verdict, whole) = judged(&folder, &words.split_whitespace().collect::<Vec<_>>());
    assert_eq!(verdict, "pass", "{words}: {whole:#}");
}

/// Rows of all heads side by side, and the logarithms of the sums as a second output, against a reference of their own; on
/// the rungs of the ladder without tensor cores too.
#[test]
fn either_layout_and_every_rung_pass_every_gate_on_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let small = ["BLOCK_M=32", "BLOCK_N=32", "NUM_WARPS=2"];
    // Queries without a key, and many heads of one query, beside what is timed.
    let checked = ["s1_s3", "s2_s1", "s239_s1", "s64_s128", "s113_s203", "s108_s256"];
    let checked: Vec<&str> = checked.iter().flat_map(|name| ["--problem", name]).collect();
    for words in [
        ["attention_layouts", "MATH=scalar", "Q_IN_REGS=0"].as_slice(),
        &[["attention_layouts", "MATH=hybrid", "RESCALE=lazy"].as_slice(), &checked].concat(),
    ] {
        let (verdict, whole) = judged_at_timed(&folder, "attention_layouts", &[words, &small].concat());
        assert_eq!(verdict, "pass", "{words:?}: {whole:#}");
    }
    let words = ["attention_decode_layouts", "COMBINE=last", "BLOCKS=66", "--problem", "s1_s3"];
    let (verdict, whole) = judged_at_timed(&folder, "attention_decode_layouts", &words);
    assert_eq!(verdict, "pass", "{whole:#}");
}

/// 72 is padded to 80 in shared memory, by zeros for which nothing is read; 96 exchanges chunks within 64 bytes.
#[test]
fn widths_are_padded_without_reading_more() {
    let (folder, space, _) = copied("attention_mma_d80", "attention_mma.cu.j2");
    let padded = space
        .replace("HEAD_DIM = { values = [80], default = 80,", "HEAD_DIM = { values = [72], default = 72,")
        .replace("(HEAD_DIM + (8 if", "(80 + (8 if")
        .replace("(4 * HEAD_DIM + 32)", "352");
    assert!(padded.contains("352") && padded.contains("(80 + (8 if"), "{padded}");
    fs::write(folder.path().join("attention_mma_d80.toml"), padded).unwrap();
    let words = ["./attention_mma_d80.toml", "BLOCK_M=32", "BLOCK_N=16", "NUM_WARPS=2"];
    let (verdict, whole) = judged_at_timed(&folder, "attention_mma_d80", &words);
    assert_eq!(verdict, "pass", "{whole:#}");
    let wide = ["attention_mma_d96", "BLOCK_M=32", "BLOCK_N=32", "NUM_WARPS=4", "KV_GROUPS=2"];
    let (verdict, whole) = judged_at_timed(&folder, "attention_mma_d96", &wide);
    assert_eq!(verdict, "pass", "{whole:#}");
}

/// Widths that no shipped space has. In rows of 80 and 96 chunks are exchanged within fewer neighbors.
#[test]
fn decoding_takes_other_widths_of_a_head() {
    let (folder, space, _) = copied("attention_decode", "attention_decode.cu.j2");
    for (width, body, rows) in
        [("80", "BODY=mma", "ROWS=16"), ("96", "BODY=swap", "ROWS=16"), ("256", "BODY=cores", "ROWS=2")]
    {
        let keys = if width == "256" { "16" } else { "32" };
        let text = space
            .replace("HEAD_DIM = { values = [128], default = 128,", &{
                format!("HEAD_DIM = {{ values = [{width}], default = {width},")
            })
            .replace("default = 32, help = \"keys a tile\"", &format!("default = {keys}, help = \"keys\""));
        assert_ne!(text, space);
        fs::write(folder.path().join("attention_decode.toml"), text).unwrap();
        let words = ["./attention_decode.toml", body, rows, "MIN_KEYS=64", "BLOCKS=66"];
        let (verdict, whole) = judged_at_timed(&folder, "attention_decode", &words);
        assert_eq!(verdict, "pass", "{width}: {whole:#}");
    }
}

#[test]
fn mistakes_in_decoding_are_found_without_a_gpu() {
    let (folder, _, template) = copied("attention_decode_d64", "attention_decode.cu.j2");
    let words = [
        "./attention_decode_d64.toml",
        "BODY=swap",
        "NUM_WARPS=2",
        "BLOCK_N=32",
        "STAGES=2",
        "BLOCKS=66",
        "MIN_KEYS=64",
        "COMBINE=last",
    ];
    for (line, broken, verdicts) in [
        // The counter does not wrap: from the second call on nobody is last.
        (
            "atomicInc(counters + blockIdx.y",
            "atomicAdd(counters + blockIdx.y",
            ["nondeterministic", "wrong_answer"],
        ),
        // A block merges before the others are done.
        ("if (turn != splits - 1) {", "if (turn + 2 < splits) {", ["wrong_answer", "nondeterministic"]),
        // K is read before it has landed.
        (
            "        Scores scores;\n        evo::cp_async_wait<2 * STAGES - 1>();",
            "        Scores scores;",
            ["wrong_answer", "nondeterministic"],
        ),
        // A stage is filled again while other lanes still read it.
        (
            "rows.score(tile, scores);",
            "copy(step + STAGES, k, 0); rows.score(tile, scores);",
            ["wrong_answer", "nondeterministic"],
        ),
        // Splits are merged as if all had the same maximum.
        (
            "const float weight = weight_of(mark.x, base, factor);\n            store",
            "const float weight = 1.0f;\n            store",
            ["wrong_answer", "wrong_answer"],
        ),
        // Rows behind the last key are read.
        ("first + row < rows ? 16 : 0", "16", ["oob_read", "oob_read"]),
        // A packed row is another query in Q and in the output than under the mask.
        (
            "static_cast<size_t>(row / group) * strides.row",
            "static_cast<size_t>(row % length_q) * strides.row",
            ["wrong_answer", "wrong_answer"],
        ),
    ] {
        assert!(template.contains(line), "{line}");
        fs::write(folder.path().join("attention_decode.cu.j2"), template.replacen(line, broken, 1)).unwrap();
        let (found, whole) = judged(&folder, &words);
        assert!(
            verdicts.contains(&found.as_str()),
            "{line} -> {broken}: {found}, not {verdicts:?}\n{whole:#}"
        );
    }
}

/// Warpgroups whose softmaxes come by turns: in step with their products, and two tiles in flight beside them. Where a turn is
/// not passed on, all wait.
#[test]
fn softmaxes_by_turns_pass_every_gate_on_the_host() {
    let (folder, _, template) = copied("attention_hopper", "attention_hopper.cu.j2");
    let words = "./attention_hopper.toml TURNS=2 ROW_GROUPS=2 BLOCK_N=32 STAGES=2 PRODUCER=warp MIN_BLOCKS=1";
    let judged_with = |overlap: &str| judged(&folder, &[words.split(' ').collect(), vec![overlap]].concat());
    for overlap in ["OVERLAP=parts", "OVERLAP=tiles"] {
        let words: Vec<&str> = words.split(' ').chain([overlap]).collect();
        let (verdict, whole) = judged_at_timed(&folder, "attention_hopper", &words);
        assert_eq!(verdict, "pass", "{overlap}: {whole:#}");
    }
    let line = "<{ end_turn(2, \"step\") }><{ await_output(\"before\") }>";
    assert!(template.contains(line), "{line}");
    let broken = template.replace(line, "<{ await_output(\"before\") }>");
    fs::write(folder.path().join("attention_hopper.cu.j2"), broken).unwrap();
    let (verdict, whole) = judged_with("OVERLAP=tiles");
    assert_eq!(verdict, "divergent_barrier", "{whole:#}");
}

/// Weights on their way through shared memory: with keys that fill a panel and keys that do not, and two tiles in flight. What
/// a product reads there has to be told to its proxy, and to the other warps.
#[test]
fn weights_in_shared_memory_pass_every_gate_on_the_host() {
    let (folder, _, template) = copied("attention_hopper", "attention_hopper.cu.j2");
    let words = "./attention_hopper.toml P_IN_REGS=0 ROW_GROUPS=2 STAGES=1 PRODUCER=warp MIN_BLOCKS=1";
    let judged_with = |more: &[&str]| judged(&folder, &[words.split(' ').collect(), more.to_vec()].concat());
    for more in [["BLOCK_N=80", "OVERLAP=parts"], ["BLOCK_N=64", "OVERLAP=tiles"]] {
        let words: Vec<&str> = words.split(' ').chain(more).collect();
        let (verdict, whole) = judged_at_timed(&folder, "attention_hopper", &words);
        assert_eq!(verdict, "pass", "{more:?}: {whole:#}");
    }
    let told = "    evo::fence_proxy_async();\n#pragma unroll\n    for (int group = 0";
    let together = "        if (group == weights.group) evo::bar_sync(2 + group, 128);";
    for (line, other, expected) in [
        (told, "#pragma unroll\n    for (int group = 0", ["crash_illegal_instruction"].as_slice()),
        (
            together,
            "        (void)group;",
            &["nondeterministic", "crash_illegal_instruction", "wrong_answer"],
        ),
    ] {
        assert_eq!(template.matches(line).count(), 1, "{line}");
        fs::write(folder.path().join("attention_hopper.cu.j2"), template.replace(line, other)).unwrap();
        let (verdict, whole) = judged_with(&["BLOCK_N=64", "OVERLAP=none"]);
        assert!(expected.contains(&verdict.as_str()), "{line}: {verdict}\n{whole:#}");
    }
}

/// What sm_86 and sm_89 allow a block: 99 KiB of shared memory.
const SHARED_MAX: u64 = 101_376;

#[test]
fn decoding_fits_the_small_gpus() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (space, arch) in [("attention_decode", "sm_86"), ("attention_decode_d64", "sm_89")] {
        let words =
            ["compile", space, "--arch", arch, "--sample", "8", "--seed", "11", "--jobs", "2", "--json"];
        let output = evo(&folder).args(words).output().unwrap();
        let lines: Vec<Value> = String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(|l| serde_json::from_str(l).unwrap())
            .collect();
        let variants: Vec<&Value> = lines.iter().filter(|line| line["entries"].is_array()).collect();
        assert_eq!(variants.len(), 8, "{lines:#?}");
        for variant in variants {
            // Clusters need sm_90: evo says so before it launches anything.
            if variant["fits"] != true {
                assert_eq!(variant["configuration"]["COMBINE"], "cluster", "{variant:#}");
                let verdict = [&variant["verdict"]["kind"], &variant["verdict"]["cause"]];
                assert_eq!(verdict, ["static_reject", "cluster"], "{variant:#}");
                continue;
            }
            for entry in variant["entries"].as_array().unwrap() {
                let shared = entry["shared_static_bytes"].as_u64().unwrap()
                    + entry["shared_dynamic_bytes"].as_u64().unwrap();
                assert!(shared <= SHARED_MAX, "{variant:#}");
                // A constraint keeps what a lane holds to what fits: more than a few words would be its mistake.
                assert!(entry["spill_store_bytes"].as_u64().unwrap() <= 64, "{variant:#}");
            }
        }
    }
}

/// The story of the blocks of 64 rows that hung elsewhere: here each way to share them out is a valid point, or is refused
/// with its reason before anything is compiled.
#[test]
fn blocks_of_64_rows_are_valid_or_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let mut valid = Vec::new();
    for (warps, groups) in [1, 2, 4, 8].into_iter().flat_map(|warps| [1, 2, 4, 8].map(|own| (warps, own))) {
        let (warps_word, groups_word) = (format!("NUM_WARPS={warps}"), format!("KV_GROUPS={groups}"));
        let words = ["space", "attention_mma", "--check", "BLOCK_M=64", &warps_word, &groups_word];
        let output = evo(&folder).args(words).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        if text.starts_with("valid") {
            valid.push((warps, groups));
        } else {
            assert!(text.starts_with("invalid") && text.contains("    because "), "{words:?}: {text}");
        }
    }
    assert_eq!(valid, [(2, 1), (4, 1), (4, 2), (8, 2), (8, 4)]);
}
