//! `evo/ptx.cuh`: its self-test on the host device, a source of one's own that includes it on every target, the way to take
//! it elsewhere; and the kernels that ship with it, right and broken, at the gates of the host device.

use std::fs;

use assert_cmd::Command;
use serde_json::Value;

use crate::toolchain;

fn evo(folder: &tempfile::TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
    command.current_dir(folder.path()).env("EVO_CACHE_DIR", folder.path().join("cache"));
    if let Ok(folder) = toolchain::nvrtc() {
        command.env("EVO_NVRTC_DIR", folder);
    }
    command
}

#[test]
fn every_instruction_agrees_with_plain_loops_on_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["selftest", "ptx", "--device", "host", "--seed", "7", "--json"];
    let output = evo(&folder).args(arguments).output().unwrap();
    let whole: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = whole["checks"].as_array().unwrap();
    let failed: Vec<&Value> = checks.iter().filter(|check| check["passed"] != true).collect();
    assert!(failed.is_empty(), "{failed:#?}");
    assert_eq!(output.status.code(), Some(0));
    for name in ["mma_k16_bf16_f32", "load_x4_trans", "store_x2", "copy_cg_16_zfill", "named_barriers"] {
        assert!(checks.iter().any(|check| check["name"] == name), "{name}");
    }
    let output =
        evo(&folder).args(["selftest", "ptx", "--device", "host", "--only", "wgmma"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

const SPACE: &str = r#"
[kernel]
name = "own"
source = "own.cu"
[parameters]
T = [1, 2]
N = [16]
[[arguments]]
name = "x"
dtype = "f32"
shape = ["M"]
role = "inout"
[[launches]]
entry = "own"
grid = [1]
block = [32]
[[problems]]
name = "small"
sizes = { M = 32 }
[check]
reference = { source = "own.cu", entry = "own", grid = [1], block = [32] }
"#;

/// Parameters arrive as macros, which must not change the header.
const SOURCE: &str = r#"
#include <evo/ptx.cuh>
extern "C" __global__ void own(float* x) {
    __shared__ uint4 rows[32];
    unsigned a[4], b[2], halves[2] = {};
    float sums[4] = {};
    evo::cp_async_cg<128>(rows + threadIdx.x, x + threadIdx.x / 8 * 4);
    evo::cp_async_commit();
    evo::cp_async_wait<0>();
    __syncwarp();
    evo::ldmatrix_x4(a[0], a[1], a[2], a[3], rows + threadIdx.x);
    evo::ldmatrix_x2_trans(b[0], b[1], rows + threadIdx.x);
    evo::mma_m16n8k16<evo::f16>(sums, a, b, sums);
    evo::mma_m16n8k16<evo::bf16>(sums, a, b, sums);
    evo::mma_m16n8k16<evo::f16>(halves, a, b, halves);
    x[threadIdx.x] = evo::warp_sum<4>(evo::ex2_ftz(sums[0])) + evo::warp_max<32>(sums[1]) + halves[0];
}
"#;

#[test]
fn a_source_of_ones_own_compiles_with_it_for_every_target() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("own.toml"), SPACE).unwrap();
    fs::write(folder.path().join("own.cu"), SOURCE).unwrap();
    let mut archs = vec!["host"];
    if !toolchain::lacks_nvrtc() {
        archs.extend(["sm_80", "sm_86", "sm_89", "sm_90a"]);
    }
    for arch in archs {
        let output = evo(&folder).args(["compile", "own.toml", "--all", "--arch", arch]).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        assert_eq!(output.status.code(), Some(0), "{arch}: {}", String::from_utf8_lossy(&text));
    }
}

#[test]
fn it_can_be_taken_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let headers = [("evo/ptx.cuh", "mma.sync.aligned.m16n8k16"), ("evo/ptx_sm90.cuh", "wgmma.mma_async")];
    for (name, instruction) in headers {
        let output = evo(&folder).args(["render", "--header", name]).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(text.contains(instruction), "{text}");
        let included: Vec<_> =
            text.lines().filter_map(|line| line.trim().strip_prefix("#include ")).collect();
        let ours = |line: &&str| headers.iter().any(|(own, _)| *line == format!("<{own}>"));
        assert!(included.iter().all(ours), "the two stand alone: {included:?}");
    }
    let output = evo(&folder).args(["render", "--header", "evo/ptx.h"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("evo/ptx.cuh"));
}

/// Judges a configuration on the host device; gives the verdict.
fn judged(folder: &tempfile::TempDir, words: &[&str]) -> String {
    let output =
        evo(folder).arg("test-one").args(words).args(["--device", "host", "--json"]).output().unwrap();
    let whole: Value = serde_json::from_slice(&output.stdout).unwrap();
    let verdict = whole["verdict"].as_str().unwrap_or_else(|| panic!("{whole:#}"));
    verdict.split(':').next().unwrap_or(verdict).to_string()
}

/// Two groups of two warps, whose barriers are named ones, and logits of bf16 that leave no room for rounding.
const ATTENTION: [&str; 5] = ["BLOCK_M=32", "BLOCK_N=16", "NUM_WARPS=4", "KV_GROUPS=2", "RESCALE=lazy"];
const GEMM: [&str; 6] =
    ["BLOCK_M=32", "BLOCK_N=64", "BLOCK_K=16", "WARPS_M=1", "WARPS_N=2", "EPILOGUE=direct"];

/// Two sets of warpgroups with a producer beside them, and two of which one multiplies while the other stores.
const ATTENTION_HOPPER: [&str; 7] = [
    "ROW_GROUPS=1",
    "KV_GROUPS=2",
    "BLOCK_N=32",
    "OVERLAP=tiles",
    "PRODUCER=warp",
    "Q_IN_REGS=1",
    "MIN_BLOCKS=1",
];
const GEMM_HOPPER: [&str; 4] = ["BLOCK_N=64", "ROW_TILES=1", "SHARE=turns", "EPILOGUE=box"];

#[test]
fn kernels_for_hopper_pass_every_gate_on_the_host() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(judged(&folder, &[["attention_hopper_bf16"].as_slice(), &ATTENTION_HOPPER].concat()), "pass");
    assert_eq!(judged(&folder, &[["gemm_hopper"].as_slice(), &GEMM_HOPPER].concat()), "pass");
}

#[test]
fn kernels_for_tensor_cores_pass_every_gate_on_the_host() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(judged(&folder, &[["attention_mma_bf16"].as_slice(), &ATTENTION].concat()), "pass");
    assert_eq!(judged(&folder, &[["gemm_mma_bf16"].as_slice(), &GEMM].concat()), "pass");
}

#[test]
fn their_mistakes_are_found_without_a_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let space = "attention_mma.toml";
    fs::copy(root.join("search_spaces").join(space), folder.path().join(space)).unwrap();
    let template = fs::read_to_string(root.join("templates/attention_mma.cu.j2")).unwrap();
    let words = [[space].as_slice(), &ATTENTION].concat();
    let start = "    float top[ROW_TILES][2];\n    float sum";
    let early = format!("    if (threadIdx.x >= 96) return;\n{start}");
    for (line, broken, verdict) in [
        // K is read before it has landed.
        ("evo::cp_async_wait<2 * (STAGES_K - 1)>();", "", "wrong_answer"),
        // K is overwritten while the group's other warp reads it, and V read before that one's copies are there.
        ("evo::cp_async_wait<2 * (STAGES_V - 1)>();\n        group_barrier(group);", "", "wrong_answer"),
        // Chunks are not put where they are read.
        ("* STRIDE + (chunk ^ chunk_mask(row)) * CHUNK,", "* STRIDE + chunk * CHUNK,", "wrong_answer"),
        // The mask is aligned top-left.
        ("const int offset = length_kv - length_q;", "const int offset = 0;", "wrong_answer"),
        // A lane passes the address of an element, not of a chunk.
        ("lane / 16 * 8) * STRIDE;", "lane / 16 * 8) * STRIDE + 1;", "crash_misaligned"),
        // One warp of a group leaves before the others.
        (start, early.as_str(), "divergent_barrier"),
        // Rows behind the last key are read.
        ("down < left && chunk * CHUNK < HEAD_DIM ? 16 : 0", "16", "oob_read"),
    ] {
        assert!(template.contains(line), "{line}");
        let text = template.replacen(line, broken, 1);
        fs::write(folder.path().join("attention_mma.cu.j2"), text).unwrap();
        let found = judged(&folder, &words);
        // What is read too early differs between the orders of warps; either gate may see it first.
        let differs = verdict == "wrong_answer" && found == "nondeterministic";
        assert!(found == verdict || differs, "{line} -> {broken}: {found}, not {verdict}");
    }
}
