//! Sources of a space that need a GPU target, compiled by NVRTC: what fits, what is refused, and what can be taken elsewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::kernels::Kernel;
use crate::toolchain;

/// What a compilation without a device prints, with its exit code.
fn compiled(kernel: &Kernel, words: &str) -> (Option<i32>, String) {
    let mut command = kernel.evo(&format!("compile {words}"));
    if let Ok(folder) = toolchain::nvrtc() {
        command.env("EVO_NVRTC_DIR", folder);
    }
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// `evo/ptx.cuh` in a source of one's own. Parameters arrive as macros, which must not change the header.
#[test]
fn a_source_of_ones_own_compiles_with_our_header_for_every_target() {
    let kernel = Kernel::copy("ptx");
    let mut archs = vec!["host"];
    if !toolchain::lacks_nvrtc() {
        archs.extend(["sm_80", "sm_86", "sm_89", "sm_90a"]);
    }
    for arch in archs {
        let (code, text) = compiled(&kernel, &format!("own/space.toml --all --arch {arch}"));
        assert_eq!(code, Some(0), "{arch}: {text}");
    }
    if toolchain::lacks_nvrtc() {
        return;
    }
    // Every function of it compiles where it exists and harms nowhere else.
    let probes = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/evo-selftest/src/ptx");
    let [first, second] =
        ["probes.cu", "hopper.cu"].map(|name| fs::read_to_string(probes.join(name)).unwrap());
    let own = "extern \"C\" __global__ void own(float* x) { x[threadIdx.x] = 0; }\n";
    kernel.edit("space.toml", "T = [1, 2]\nN = [16]", "UNUSED = [1]");
    kernel.write("own.cu", &format!("{first}{second}{own}"));
    for arch in ["sm_80", "sm_90a"] {
        let (code, text) = compiled(&kernel, &format!("own/space.toml --all --arch {arch}"));
        assert_eq!(code, Some(0), "{arch}: {text}");
    }
}

#[test]
fn our_headers_can_be_taken_elsewhere() {
    let kernel = Kernel::copy("ptx");
    let headers = [("evo/ptx.cuh", "mma.sync.aligned.m16n8k16"), ("evo/ptx_sm90.cuh", "wgmma.mma_async")];
    for (name, instruction) in headers {
        let output = kernel.evo(&format!("render --header {name}")).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(text.contains(instruction), "{text}");
        let included: Vec<_> =
            text.lines().filter_map(|line| line.trim().strip_prefix("#include ")).collect();
        let ours = |line: &&str| headers.iter().any(|(own, _)| *line == format!("<{own}>"));
        assert!(included.iter().all(ours), "the two stand alone: {included:?}");
    }
    let output = kernel.evo("render --header evo/ptx.h").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("evo/ptx.cuh"));
}

#[test]
fn headers_beside_a_kernel_and_in_named_folders_are_found() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let (code, text) = compiled(&Kernel::copy("headers"), "own/space.toml --arch sm_90 --json");
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn tensor_maps_need_sm_90_and_the_type_that_the_source_takes() {
    let kernel = Kernel::copy("row_sum_map");
    let pointer =
        kernel.read("row_sum.cu").replace("const __grid_constant__ tensor_map map", "const tensor_map* map");
    kernel.write("mine.cu", &pointer);
    let output = kernel.evo("render own/space.toml --source own/mine.cu").output().unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{shown}");
    assert!(shown.contains("x_map: tensor map of x") && shown.contains("const tensor_map *map"), "{shown}");
    let output = kernel.evo("render own/space.toml --source own/row_sum.cu").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    if toolchain::lacks_nvrtc() {
        return;
    }
    // 12 of 18 keep a box within 256 rows; of these, one pair of columns and span does not go together.
    let (_, shown) = compiled(&kernel, "own/space.toml --all --arch sm_90a");
    assert!(shown.contains("18 variants for sm_90a by nvrtc"), "{shown}");
    assert!(shown.contains("10 fit, 8 static_reject:tensor_map"), "{shown}");
    // Without the instructions an older target compiles it, and has no maps all the same.
    let plain = "struct alignas(64) tensor_map { char bytes[128]; };\nextern \"C\" __global__ void row_sum(const \
                 __grid_constant__ tensor_map map, float* y, int rows, int columns) {}";
    let (_, shown) = compiled(kernel.write("row_sum.cu", plain), "own/space.toml --all --arch sm_89");
    assert!(shown.contains("0 fit, 18 static_reject:tensor_map"), "{shown}");
    assert!(shown.contains("which `sm_89` does not have: sm_90 is the first with them"), "{shown}");
}

#[test]
fn each_set_of_constants_is_a_binary() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    let kernel = Kernel::copy("specialize");
    let (code, text) = compiled(&kernel, "own/space.toml --arch sm_80");
    let all = ["mask [C=24 MASKED=0]", "mask [C=24 MASKED=1]", "mask [C=40 MASKED=1]"];
    assert!(code == Some(0) && all.iter().all(|own| text.contains(own)), "{text}");
    let (_, text) = compiled(&kernel, "own/space.toml --arch sm_80 --json");
    let whole: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let binaries = whole["binaries"].as_array().unwrap();
    let hashes: BTreeSet<&str> = binaries.iter().map(|own| own["code_hash"].as_str().unwrap()).collect();
    assert_eq!((binaries.len(), hashes.len()), (3, 3), "{whole:#}");
    assert_eq!(binaries[2]["constants"], json!({"C": 40, "MASKED": 1}));
}

/// What sm_86 and sm_89 allow a block: 99 KiB of shared memory.
const SHARED_MAX: u64 = 101_376;

#[test]
fn decoding_fits_the_small_gpus() {
    if toolchain::lacks_nvrtc() {
        return;
    }
    for (space, arch) in [("attention_decode", "sm_86"), ("attention_decode_d64", "sm_89")] {
        let words = format!("{space} --arch {arch} --sample 8 --seed 11 --jobs 2 --json");
        let (_, text) = compiled(&Kernel::copy("ptx"), &words);
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let variants: Vec<Value> = lines.filter(|line| line["entries"].is_array()).collect();
        assert_eq!(variants.len(), 8, "{text}");
        for variant in variants {
            // Clusters need sm_90: evo says so before it launches anything.
            if variant["fits"] != true {
                assert_eq!(variant["configuration"]["COMBINE"], "cluster", "{variant:#}");
                let verdict = [&variant["verdict"]["kind"], &variant["verdict"]["cause"]];
                assert_eq!(verdict, ["static_reject", "cluster"], "{variant:#}");
                continue;
            }
            for entry in variant["entries"].as_array().unwrap() {
                let bytes = |name: &str| entry[name].as_u64().unwrap();
                let shared = bytes("shared_static_bytes") + bytes("shared_dynamic_bytes");
                // A constraint keeps what a lane holds to what fits: more than a few words would be its mistake.
                assert!(shared <= SHARED_MAX && bytes("spill_store_bytes") <= 64, "{variant:#}");
            }
        }
    }
}
