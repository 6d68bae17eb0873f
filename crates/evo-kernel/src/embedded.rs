//! Space files, templates and sources that ship inside the binary, as text.
//!
//! Apart from `catalog`, because the loader looks here for files that a space names.

macro_rules! embedded {
    ($folder:literal: $($name:literal)*) => {
        &[$(($name, include_str!(concat!("../../../", $folder, "/", $name)))),*]
    };
}

pub const SPACES: &[(&str, &str)] = embedded!("search_spaces":
    "attention_simt.toml" "attention_mma.toml" "attention_mma_bf16.toml" "attention_mma_d80.toml" "attention_mma_d96.toml"
    "attention_mma_d128.toml" "attention_mma_d256.toml" "attention_layouts.toml" "attention_ladder.toml"
    "attention_decode.toml" "attention_decode_bf16.toml" "attention_decode_d64.toml" "attention_decode_layouts.toml"
    "attention_hopper.toml" "attention_hopper_bf16.toml" "attention_hopper_d80.toml" "attention_hopper_d96.toml"
    "attention_hopper_d128.toml" "attention_hopper_d256.toml"
    "attention_hopper_layouts.toml" "gemm_hopper.toml" "gemm_hopper_bf16.toml"
    "gemm.toml" "gemm_mma.toml" "gemm_mma_bf16.toml" "softmax.toml" "rmsnorm.toml" "reduction.toml" "transpose.toml"
    "faults.toml" "faults_heads.toml");

pub const TEMPLATES: &[(&str, &str)] = embedded!("templates":
    "attention_simt.cu.j2" "attention_mma.cu.j2" "attention_decode.cu.j2" "attention_hopper.cu.j2" "attention_naive.cu"
    "gemm.cu.j2" "gemm_mma.cu.j2" "gemm_hopper.cu.j2" "softmax.cu.j2" "rmsnorm.cu.j2" "reduction.cu.j2"
    "transpose.cu.j2" "faults.cu.j2" "faults_naive.cu" "faults_heads.cu.j2" "faults_heads_naive.cu"
    "gates.cu.j2" "gates_naive.cu" "anchors.cu.j2" "anchors_naive.cu");

pub fn names() -> Vec<&'static str> {
    SPACES.iter().map(|(file, _)| file.trim_end_matches(".toml")).collect()
}
