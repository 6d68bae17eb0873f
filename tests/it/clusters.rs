//! The kernels that ship with clusters of several blocks, at the gates of the host device: whole, and with a wait, an arrival
//! or a barrier taken out.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

use crate::support::{self, BRIEF, timed_on_host};

/// Judges a configuration on the host device; gives the verdict up to its first colon, and the whole answer.
fn judged(folder: &tempfile::TempDir, words: &[&str]) -> (String, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
    command.current_dir(folder.path()).env("EVO_CACHE_DIR", support::cache());
    command.arg("test-one").args(words).args(["--device", "host", "--json"]).args(BRIEF.split(' '));
    let output = command.output().unwrap();
    let whole: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    let verdict = whole["verdict"].as_str().unwrap_or_else(|| panic!("{whole:#}"));
    (verdict.split(':').next().unwrap_or(verdict).to_string(), whole)
}

const DECODE: [&str; 8] = [
    "BODY=mma",
    "ROWS=16",
    "NUM_WARPS=2",
    "BLOCK_N=32",
    "STAGES=2",
    "MIN_KEYS=64",
    "COMBINE=cluster",
    "BLOCKS=66",
];
const ATTENTION: [&str; 7] = [
    "ROW_GROUPS=1",
    "KV_GROUPS=1",
    "BLOCK_N=32",
    "STAGES=2",
    "PRODUCER=warp",
    "EPILOGUE=direct",
    "CLUSTER=2",
];
const SPLIT: [&str; 6] =
    ["SPLIT=4", "BLOCK_N=32", "STAGES=2", "PRODUCER=warp", "EPILOGUE=direct", "MIN_BLOCKS=1"];
const GEMM: [&str; 4] = ["BLOCK_N=64", "ROW_TILES=1", "CONSUMERS=1", "EPILOGUE=direct"];

#[test]
fn kernels_with_clusters_pass_every_gate_on_the_host() {
    let folder = tempfile::tempdir().unwrap();
    for words in [
        [["attention_decode_d64"].as_slice(), &DECODE].concat(),
        [["attention_hopper_d128"].as_slice(), &ATTENTION].concat(),
        [["attention_hopper_layouts", "ROW_GROUPS=1", "KV_GROUPS=2"].as_slice(), &SPLIT].concat(),
        [["gemm_hopper", "SPLIT_K=2", "BLOCKS=1000"].as_slice(), &GEMM].concat(),
        vec!["gemm_hopper", "CLUSTER=2", "BLOCK_N=128", "ROW_TILES=1", "CONSUMERS=1", "EPILOGUE=direct"],
        [["gemm_hopper", "ACROSS=4"].as_slice(), &GEMM].concat(),
    ] {
        let problems = timed_on_host(words[0]);
        let words: Vec<&str> = words.into_iter().chain(problems.iter().map(String::as_str)).collect();
        let (verdict, whole) = judged(&folder, &words);
        assert_eq!(verdict, "pass", "{words:?}: {whole:#}");
    }
    // All problems, also those that are only checked.
    let words = [["gemm_hopper", "ACROSS=2", "SPLIT_K=2", "BLOCKS=1000"].as_slice(), &GEMM].concat();
    let (verdict, whole) = judged(&folder, &words);
    assert_eq!(verdict, "pass", "{words:?}: {whole:#}");
}

/// Replaces a line of a template and judges the copy: one of these verdicts.
fn broken(space: &str, template: &str, words: &[&str], (line, other): (&str, &str), verdicts: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = format!("{space}.toml");
    fs::copy(root.join("search_spaces").join(&file), folder.path().join(&file)).unwrap();
    let text = fs::read_to_string(root.join("templates").join(template)).unwrap();
    assert!(text.contains(line), "{line}");
    // The last place: what comes before may be another branch.
    let (before, behind) = text.rsplit_once(line).unwrap();
    fs::write(folder.path().join(template), format!("{before}{other}{behind}")).unwrap();
    let file = format!("./{file}");
    let (found, whole) = judged(&folder, &[[file.as_str()].as_slice(), words].concat());
    assert!(verdicts.contains(&found.as_str()), "{line} -> {other}: {found}, not {verdicts:?}\n{whole:#}");
}

#[test]
fn mistakes_between_the_blocks_of_a_cluster_are_found_without_a_gpu() {
    let decode = ("attention_decode_d64", "attention_decode.cu.j2");
    let gemm = ("gemm_hopper", "gemm_hopper.cu.j2");
    let attention = ("attention_hopper_d128", "attention_hopper.cu.j2");
    let split = [["SPLIT_K=2", "BLOCKS=1000"].as_slice(), &GEMM].concat();
    let across = [["ACROSS=2"].as_slice(), &split].concat();
    for ((space, template), words, edit, verdicts) in [
        // A block leaves while others read what it has left.
        (
            decode,
            &DECODE[..],
            ("    cluster_barrier();\n}\n#endif", "}\n#endif"),
            ["crash_illegal_instruction"].as_slice(),
        ),
        // Parts are read before all blocks have left theirs.
        (
            decode,
            &DECODE,
            ("    cluster_barrier();\n    for (int item", "    for (int item"),
            &["crash_illegal_instruction", "nondeterministic", "wrong_answer"],
        ),
        // Sums are read before the other block has handed them over.
        (
            gemm,
            &split,
            ("    __syncwarp();\n    evo::cluster_sync();\n    if (run > 0)", "    if (run > 0)"),
            &["crash_illegal_instruction", "divergent_barrier"],
        ),
        // A block keeps its share of A to the first block.
        (gemm, &across, ("((1 << ACROSS) - 1) << first", "1 << first"), &["divergent_barrier"]),
        // A stage is filled again while the neighbor still reads it.
        (
            gemm,
            &across,
            (
                "evo::mbarrier_arrive_cluster(empty, first + threadIdx.x % 32);",
                "evo::mbarrier_arrive(empty);",
            ),
            &["divergent_barrier", "crash_illegal_instruction", "wrong_answer", "nondeterministic"],
        ),
        // Only the own block's producer hears that a stage was read, which both blocks fill.
        (
            attention,
            &ATTENTION,
            ("evo::mbarrier_arrive_cluster(empty, threadIdx.x % 32);", "evo::mbarrier_arrive(empty);"),
            &["divergent_barrier", "crash_illegal_instruction", "wrong_answer"],
        ),
        // Copies go to a block whose barriers may not have been made.
        (
            attention,
            &ATTENTION,
            (
                "    evo::cluster_arrive_relaxed();\n    evo::cluster_wait();\n<% else %>\n    __syncthreads();",
                "    __syncthreads();\n<% else %>\n    __syncthreads();",
            ),
            &["crash_illegal_instruction"],
        ),
    ] {
        broken(space, template, words, edit, verdicts);
    }
}

#[test]
fn mistakes_where_blocks_share_out_keys_are_found_without_a_gpu() {
    let words = [["ROW_GROUPS=2"].as_slice(), &SPLIT].concat();
    for (edit, verdicts) in [
        // A block leaves while others read what it has found.
        (
            (
                "    __syncwarp();\n    evo::cluster_arrive_relaxed();\n    evo::cluster_wait();\n<% endif %>\n}",
                "<% endif %>\n}",
            ),
            ["crash_illegal_instruction"].as_slice(),
        ),
        // What the others have found is read before they have left it.
        (
            ("            __syncwarp();\n            evo::cluster_sync();\n", ""),
            &["crash_illegal_instruction", "divergent_barrier"],
        ),
        // Results are left where other warps still read values.
        (
            ("    evo::bar_sync(6, SET_THREADS);\n", ""),
            &["crash_illegal_instruction", "nondeterministic", "wrong_answer"],
        ),
        // Blocks are added up as if all had the same maximum.
        (("rescaling(found[other].x, base[0], factor)", "1.0f"), &["wrong_answer"]),
    ] {
        broken("attention_hopper", "attention_hopper.cu.j2", &words, edit, verdicts);
    }
}
