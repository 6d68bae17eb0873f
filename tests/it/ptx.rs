//! `evo/ptx.cuh`: its self-test on the host device, a source of one's own that includes it on every target, and the way
//! to take it elsewhere.

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
    let output = evo(&folder).args(["render", "--header", "evo/ptx.cuh"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text.contains("mma.sync.aligned.m16n8k16"), "{text}");
    assert!(!text.lines().any(|line| line.trim_start().starts_with("#include")), "it stands alone: {text}");
    let output = evo(&folder).args(["render", "--header", "evo/ptx.h"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("evo/ptx.cuh"));
}
