//! The files of the include folder: CUDA's own headers, and those of the C library whose declarations would clash with
//! CUDA's overloads, resolve to ours.
//!
//! What most kernels use is one header, which is precompiled. What few use is a file of its own, because each variant
//! is a run of the compiler.

use std::sync::LazyLock;

pub const HEADER: &str = concat!(
    include_str!("include/evo_base.h"),
    include_str!("include/evo_vector.h"),
    include_str!("include/evo_math.h"),
    include_str!("include/evo_half.h"),
    include_str!("include/evo_atomic.h"),
    include_str!("include/evo_warp.h"),
    include_str!("include/evo_round.h"),
    include_str!("include/evo_special.h"),
    include_str!("include/evo_simd.h"),
    include_str!("include/evo_half_more.h"),
    include_str!("include/evo_memory.h"),
    include_str!("include/evo_std.h"),
    include_str!("include/evo_groups.h"),
    include_str!("include/evo_ptx.h"),
    include_str!("include/evo_async.h"),
    include_str!("include/evo_bulk.h"),
    include_str!("include/evo_wgmma.h"),
);

pub const SHIPPED_HEADERS: [(&str, &str); 2] = [
    ("evo/ptx.cuh", include_str!("include/evo/ptx.cuh")),
    ("evo/ptx_sm90.cuh", include_str!("include/evo/ptx_sm90.cuh")),
];

const INSTRUMENT: &str = include_str!("instrument/evo_instrument.h");

/// What a header says that has nothing of its own.
pub const SEE_HEADER: &str = "#include \"evo_cuda.h\"\n";

/// Headers that have nothing of their own: of CUDA, and of the C library where its declarations would clash.
const SEE: &str = "\
    cuda.h cuda_runtime.h cuda_runtime_api.h cuda_device_runtime_api.h device_launch_parameters.h
    device_functions.h device_atomic_functions.h device_double_functions.h device_types.h driver_types.h
    builtin_types.h host_defines.h common_functions.h library_types.h math_functions.h
    sm_20_intrinsics.h sm_30_intrinsics.h sm_32_intrinsics.h sm_35_intrinsics.h sm_61_intrinsics.h
    sm_20_atomic_functions.h sm_60_atomic_functions.h vector_types.h vector_functions.h math_constants.h
    cuda_fp16.h cuda_bf16.h math.h stdio.h assert.h cassert float.h cfloat cooperative_groups.h
    cooperative_groups/reduce.h cooperative_groups/scan.h cooperative_groups/memcpy_async.h
    cuda_pipeline.h cuda_pipeline_primitives.h";

/// Of CUDA's samples and of host libraries, which kernels include for the host half of their program.
const OF_HOST_HALVES: &str = "\
    helper_cuda.h helper_functions.h helper_image.h helper_string.h helper_timer.h cublasLt.h
    cublas_v2.h cuda_profiler_api.h cufft.h curand.h cusolverDn.h cusparse.h nvToolsExt.h
    nvtx3/nvToolsExt.h";

/// Headers of `cuda::std`: the C++ library's, and what evo adds to it.
const OF_STD: &str = "\
    algorithm array cassert cfloat climits chrono cmath complex cstddef cstdint cstdlib cstring
    functional initializer_list iterator limits memory numeric optional ratio string_view tuple
    type_traits utility variant";

const OF_CUB: &str = "\
    cub/cub.cuh cub/block/block_exchange.cuh cub/block/block_load.cuh cub/block/block_radix_sort.cuh
    cub/block/block_reduce.cuh cub/block/block_scan.cuh cub/block/block_store.cuh
    cub/thread/thread_operators.cuh cub/util_type.cuh cub/warp/warp_reduce.cuh cub/warp/warp_scan.cuh";

const CUB: &str = "#pragma GCC system_header\n#include \"evo_cub_block.h\"\n#include \"evo_cub_move.h\"\n";

/// A header of `cuda::std` of which C++17's library has none: what evo adds is all of it.
const ADDED_TO_STD: &str = "#pragma GCC system_header\n#include <cuda/evo_std.h>\n";

const OWN: [(&str, &str); 22] = [
    ("evo_cuda.h", HEADER),
    ("evo_instrument.h", INSTRUMENT),
    ("mma.h", include_str!("include/cuda/mma.h")),
    ("cmath", include_str!("include/library/cmath")),
    ("cstdio", include_str!("include/library/cstdio")),
    ("stdlib.h", include_str!("include/library/stdlib.h")),
    ("cstdlib", include_str!("include/library/cstdlib")),
    ("iostream", include_str!("include/library/iostream")),
    ("cuComplex.h", include_str!("include/cuda/complex.h")),
    ("cuda_fp8.h", include_str!("include/cuda/fp8.h")),
    ("nv/target", include_str!("include/cuda/target.h")),
    ("cuda/evo_std.h", include_str!("include/cuda/std.h")),
    ("cuda/atomic", include_str!("include/cuda/atomic.h")),
    ("cuda/barrier", include_str!("include/cuda/barrier.h")),
    ("cuda/pipeline", include_str!("include/cuda/pipeline.h")),
    ("cuda/std/atomic", "#pragma GCC system_header\n#include <cuda/atomic>\n"),
    ("cuda/std/barrier", "#pragma GCC system_header\n#include <cuda/barrier>\n"),
    ("cuda/std/bit", ADDED_TO_STD),
    ("cuda/std/span", ADDED_TO_STD),
    ("evo_cub_warp.h", include_str!("include/cub/warp.h")),
    ("evo_cub_block.h", include_str!("include/cub/block.h")),
    ("evo_cub_move.h", include_str!("include/cub/move.h")),
];

static FILES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let mut files: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, text: &str| files.push((name.to_string(), text.to_string()));
    OWN.iter().chain(&SHIPPED_HEADERS).for_each(|(name, text)| add(name, text));
    for name in SEE.split_whitespace().chain(OF_HOST_HALVES.split_whitespace()) {
        add(name, SEE_HEADER);
    }
    OF_CUB.split_whitespace().for_each(|name| add(name, CUB));
    for name in OF_STD.split_whitespace() {
        let text = format!("#pragma GCC system_header\n#include <{name}>\n#include <cuda/evo_std.h>\n");
        add(&format!("cuda/std/{name}"), &text);
    }
    files
});

pub fn headers() -> &'static [(String, String)] {
    &FILES
}

/// Names of the files that read nothing of the C library beyond what the precompiled header reads.
pub fn plain() -> impl Iterator<Item = &'static str> {
    headers().iter().filter(|(_, text)| !text.contains("#include <")).map(|(name, _)| name.as_str())
}

/// Names of the files that are not part of the precompiled header.
pub fn apart() -> impl Iterator<Item = &'static str> {
    let is_apart = |text: &str| text != HEADER && text != INSTRUMENT && text != SEE_HEADER;
    headers()
        .iter()
        .filter(move |(name, text)| is_apart(text) && !name.starts_with("evo/"))
        .map(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_file_is_listed_once() {
        let mut seen = HashSet::new();
        let twice: Vec<&str> =
            headers().iter().map(|(name, _)| name.as_str()).filter(|name| !seen.insert(*name)).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }
}
