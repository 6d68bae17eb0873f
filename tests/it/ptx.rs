//! `evo/ptx.cuh`: a source of one's own that includes it on every target, the way to take it elsewhere; and the kernels that
//! ship with it, right and broken, at the gates of the host device.

use std::fs;

use assert_cmd::Command;
use serde_json::Value;

use crate::support::{BRIEF, timed_on_host};
use crate::toolchain;

fn evo(folder: &tempfile::TempDir) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evo"));
    command.current_dir(folder.path()).env("EVO_CACHE_DIR", folder.path().join("cache"));
    if let Ok(folder) = toolchain::nvrtc() {
        command.env("EVO_NVRTC_DIR", folder);
    }
    command
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
fn every_function_compiles_where_it_exists_and_harms_nowhere_else() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let probes = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/evo-selftest/src/ptx");
    let [first, second] =
        ["probes.cu", "hopper.cu"].map(|name| fs::read_to_string(probes.join(name)).unwrap());
    // Parameters are macros, which must not change the probes.
    let space = SPACE.replace("T = [1, 2]\nN = [16]", "UNUSED = [1]");
    let own = "extern \"C\" __global__ void own(float* x) { x[threadIdx.x] = 0; }\n";
    fs::write(folder.path().join("own.toml"), space).unwrap();
    fs::write(folder.path().join("own.cu"), format!("{first}{second}{own}")).unwrap();
    for arch in ["sm_80", "sm_90a"] {
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
    let mut command = evo(folder);
    command.arg("test-one").args(words).args(["--device", "host", "--json"]).args(BRIEF.split(' '));
    let output = command.output().unwrap();
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
    // Heads and rows at any distance, and the logarithms of the sums, of both sets of warpgroups.
    let problems = timed_on_host("attention_hopper_layouts");
    let layouts = [["attention_hopper_layouts", "EPILOGUE=direct"].as_slice(), &ATTENTION_HOPPER].concat();
    let checked = ["--problem", "s1_s3", "--problem", "s2_s1", "--problem", "s239_s1"];
    let words = layouts.into_iter().chain(checked).chain(problems.iter().map(String::as_str));
    assert_eq!(judged(&folder, &words.collect::<Vec<_>>()), "pass");
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

const RING_SPACE: &str = r#"
[kernel]
name = "ring"
source = "ring.cu"
[parameters]
STAGES = [2]
[[arguments]]
name = "x"
dtype = "f32"
shape = ["TILES * 64"]
role = "input"
[[arguments]]
name = "y"
dtype = "f32"
shape = ["TILES * 64"]
role = "output"
[[arguments]]
name = "tiles"
dtype = "i32"
value = "TILES"
[[launches]]
entry = "ring"
grid = [1]
block = [96]
[[problems]]
name = "small"
sizes = { TILES = 5 }
[check]
reference = { source = "ring.cu", entry = "twice", grid = [1], block = [96] }
"#;

/// A warp that fills two stages by bulk copies and two that read them.
const RING: &str = r#"
#include <evo/ptx.cuh>
extern "C" __global__ void twice(const float* x, float* y, int tiles) {
    for (int i = threadIdx.x; i < tiles * 64; i += blockDim.x) y[i] = 2 * x[i];
}
extern "C" __global__ void ring(const float* x, float* y, int tiles) {
    __shared__ __align__(128) float stage[2][64];
    __shared__ evo::mbarrier full[2];
    __shared__ evo::mbarrier empty[2];
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) {
            evo::mbarrier_init(&full[i], 1);
            evo::mbarrier_init(&empty[i], 2);
        }
        evo::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        if (evo::elect_one()) {
            for (int tile = 0; tile < tiles; ++tile) {
                evo::mbarrier_wait(&empty[tile % 2], (tile / 2 & 1) ^ 1);
                evo::mbarrier_arrive_expect_tx(&full[tile % 2], 256);
                evo::bulk_copy_load(stage[tile % 2], x + tile * 64, 256, &full[tile % 2]);
            }
        }
    } else {
        for (int tile = 0; tile < tiles; ++tile) {
            evo::mbarrier_wait(&full[tile % 2], tile / 2 & 1);
            y[tile * 64 + threadIdx.x - 32] = 2 * stage[tile % 2][threadIdx.x - 32];
            __syncwarp();
            if (threadIdx.x % 32 == 0) evo::mbarrier_arrive(&empty[tile % 2]);
        }
    }
}
"#;

/// What becomes of a reader that does not wait: it reads ones, and phases that nobody awaits do not end or end too often.
const EARLY: [&str; 4] =
    ["wrong_answer", "nondeterministic", "divergent_barrier", "crash_illegal_instruction"];

#[test]
fn roles_that_hand_over_by_barriers_are_judged_without_a_gpu() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("ring.toml"), RING_SPACE).unwrap();
    for (line, broken, verdicts) in [
        ("", "", ["pass"].as_slice()),
        ("evo::fence_mbarrier_init();", "", &["crash_illegal_instruction"]),
        // Nobody waits for the copies, or for the wrong phase of them.
        ("evo::mbarrier_wait(&full[tile % 2], tile / 2 & 1);", "", &EARLY),
        ("&full[tile % 2], tile / 2 & 1", "&full[tile % 2], (tile / 2 & 1) ^ 1", &EARLY),
        // The stage is overwritten while it is read.
        ("evo::mbarrier_wait(&empty[tile % 2], (tile / 2 & 1) ^ 1);", "", &EARLY),
        // Roles wait for each other.
        ("(&full[tile % 2], 256)", "(&full[tile % 2], 512)", &["divergent_barrier"]),
        ("evo::mbarrier_init(&empty[i], 2);", "evo::mbarrier_init(&empty[i], 3);", &["divergent_barrier"]),
        ("stage[tile % 2], x", "stage[tile % 2] + 2, x", &["crash_misaligned"]),
    ] {
        assert!(RING.contains(line), "{line}");
        fs::write(folder.path().join("ring.cu"), RING.replacen(line, broken, 1)).unwrap();
        let found = judged(&folder, &["ring.toml", "STAGES=2"]);
        assert!(verdicts.contains(&found.as_str()), "{line} -> {broken}: {found}, not {verdicts:?}");
    }
}
