//! The files of the include folder: CUDA's own headers, and those of the C library whose declarations would clash with
//! CUDA's overloads, resolve to ours.
//!
//! What most kernels use is one header, which is precompiled. What few use is a file of its own, read only where a source
//! includes it, because each variant is a run of the compiler.

/// The CUDA-on-CPU header: what `#include "evo_cuda.h"` finds.
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

/// Headers for kernels that ship with evo, by the name that sources include: on every device the same text.
pub const SHIPPED_HEADERS: [(&str, &str); 2] = [
    ("evo/ptx.cuh", include_str!("include/evo/ptx.cuh")),
    ("evo/ptx_sm90.cuh", include_str!("include/evo/ptx_sm90.cuh")),
];

/// What an instrumented source includes behind it.
const INSTRUMENT: &str = include_str!("instrument/evo_instrument.h");

/// What a header says that has nothing of its own.
pub const SEE_HEADER: &str = "#include \"evo_cuda.h\"\n";

/// Every file of the include folder, by name.
pub fn headers() -> &'static [(&'static str, &'static str)] {
    &[
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
        ("mma.h", SEE_HEADER),
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
        SHIPPED_HEADERS[0],
        SHIPPED_HEADERS[1],
    ]
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
