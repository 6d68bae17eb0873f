//! The files of the include folder: CUDA's own headers, and those of the C library whose declarations would clash with
//! CUDA's overloads, resolve to ours.
//!
//! What most kernels use is one header, which is precompiled. What few use is a file of its own, because each variant
//! is a run of the compiler.

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

const CUB: &str = "#pragma GCC system_header\n#include \"evo_cub_block.h\"\n#include \"evo_cub_move.h\"\n";

/// A header of `cuda::std`: the C++ library's, and what evo adds to it.
macro_rules! of_std {
    ($name:literal) => {
        (
            concat!("cuda/std/", $name),
            concat!("#pragma GCC system_header\n#include <", $name, ">\n#include <cuda/evo_std.h>\n"),
        )
    };
}

/// A header of `cuda::std` of which C++17's library has none: what evo adds is all of it.
const ADDED_TO_STD: &str = "#pragma GCC system_header\n#include <cuda/evo_std.h>\n";

const FILES: &[(&str, &str)] = &[
    ("evo_cuda.h", HEADER),
    ("evo_instrument.h", INSTRUMENT),
    ("cuda.h", SEE_HEADER),
    ("cuda_runtime.h", SEE_HEADER),
    ("cuda_runtime_api.h", SEE_HEADER),
    ("cuda_device_runtime_api.h", SEE_HEADER),
    ("device_launch_parameters.h", SEE_HEADER),
    ("device_functions.h", SEE_HEADER),
    ("device_atomic_functions.h", SEE_HEADER),
    ("device_double_functions.h", SEE_HEADER),
    ("device_types.h", SEE_HEADER),
    ("driver_types.h", SEE_HEADER),
    ("builtin_types.h", SEE_HEADER),
    ("host_defines.h", SEE_HEADER),
    ("common_functions.h", SEE_HEADER),
    ("library_types.h", SEE_HEADER),
    ("math_functions.h", SEE_HEADER),
    ("sm_20_intrinsics.h", SEE_HEADER),
    ("sm_30_intrinsics.h", SEE_HEADER),
    ("sm_32_intrinsics.h", SEE_HEADER),
    ("sm_35_intrinsics.h", SEE_HEADER),
    ("sm_61_intrinsics.h", SEE_HEADER),
    ("sm_20_atomic_functions.h", SEE_HEADER),
    ("sm_60_atomic_functions.h", SEE_HEADER),
    ("vector_types.h", SEE_HEADER),
    ("vector_functions.h", SEE_HEADER),
    ("math_constants.h", SEE_HEADER),
    ("cuda_fp16.h", SEE_HEADER),
    ("cuda_bf16.h", SEE_HEADER),
    ("mma.h", include_str!("include/cuda/mma.h")),
    ("math.h", SEE_HEADER),
    ("cmath", include_str!("include/library/cmath")),
    ("stdio.h", SEE_HEADER),
    ("cstdio", include_str!("include/library/cstdio")),
    ("assert.h", SEE_HEADER),
    ("cassert", SEE_HEADER),
    ("float.h", SEE_HEADER),
    ("cfloat", SEE_HEADER),
    ("stdlib.h", include_str!("include/library/stdlib.h")),
    ("cstdlib", include_str!("include/library/cstdlib")),
    ("iostream", include_str!("include/library/iostream")),
    ("cooperative_groups.h", SEE_HEADER),
    ("cooperative_groups/reduce.h", SEE_HEADER),
    ("cooperative_groups/scan.h", SEE_HEADER),
    ("cooperative_groups/memcpy_async.h", SEE_HEADER),
    ("cuda_pipeline.h", SEE_HEADER),
    ("cuda_pipeline_primitives.h", SEE_HEADER),
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
    of_std!("algorithm"),
    of_std!("array"),
    of_std!("cassert"),
    of_std!("cfloat"),
    of_std!("climits"),
    of_std!("chrono"),
    of_std!("cmath"),
    of_std!("complex"),
    of_std!("cstddef"),
    of_std!("cstdint"),
    of_std!("cstdlib"),
    of_std!("cstring"),
    of_std!("functional"),
    of_std!("initializer_list"),
    of_std!("iterator"),
    of_std!("limits"),
    of_std!("memory"),
    of_std!("numeric"),
    of_std!("optional"),
    of_std!("ratio"),
    of_std!("string_view"),
    of_std!("tuple"),
    of_std!("type_traits"),
    of_std!("utility"),
    of_std!("variant"),
    ("evo_cub_warp.h", include_str!("include/cub/warp.h")),
    ("evo_cub_block.h", include_str!("include/cub/block.h")),
    ("evo_cub_move.h", include_str!("include/cub/move.h")),
    ("cub/cub.cuh", CUB),
    ("cub/block/block_exchange.cuh", CUB),
    ("cub/block/block_load.cuh", CUB),
    ("cub/block/block_radix_sort.cuh", CUB),
    ("cub/block/block_reduce.cuh", CUB),
    ("cub/block/block_scan.cuh", CUB),
    ("cub/block/block_store.cuh", CUB),
    ("cub/thread/thread_operators.cuh", CUB),
    ("cub/util_type.cuh", CUB),
    ("cub/warp/warp_reduce.cuh", CUB),
    ("cub/warp/warp_scan.cuh", CUB),
    SHIPPED_HEADERS[0],
    SHIPPED_HEADERS[1],
    // Of CUDA's samples and of host libraries, which kernels include for the host half of their program.
    ("helper_cuda.h", SEE_HEADER),
    ("helper_functions.h", SEE_HEADER),
    ("helper_image.h", SEE_HEADER),
    ("helper_string.h", SEE_HEADER),
    ("helper_timer.h", SEE_HEADER),
    ("cublasLt.h", SEE_HEADER),
    ("cublas_v2.h", SEE_HEADER),
    ("cuda_profiler_api.h", SEE_HEADER),
    ("cufft.h", SEE_HEADER),
    ("curand.h", SEE_HEADER),
    ("cusolverDn.h", SEE_HEADER),
    ("cusparse.h", SEE_HEADER),
    ("nvToolsExt.h", SEE_HEADER),
    ("nvtx3/nvToolsExt.h", SEE_HEADER),
];

pub fn headers() -> &'static [(&'static str, &'static str)] {
    FILES
}

/// Names of the files that read nothing of the C library beyond what the precompiled header reads.
pub fn plain() -> impl Iterator<Item = &'static str> {
    headers().iter().filter(|(_, text)| !text.contains("#include <")).map(|(name, _)| *name)
}

/// Names of the files that are not part of the precompiled header.
pub fn apart() -> impl Iterator<Item = &'static str> {
    let own = |text: &str| text != HEADER && text != INSTRUMENT && text != SEE_HEADER;
    headers().iter().filter(move |(name, text)| own(text) && !name.starts_with("evo/")).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_file_is_listed_once() {
        let mut seen = HashSet::new();
        let twice: Vec<&str> =
            headers().iter().map(|(name, _)| *name).filter(|name| !seen.insert(*name)).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }
}
