// The place of matrix fragments. `mma.h` resolves here, so that a template may include it; `nvcuda::wmma`
// (fragment, load_matrix_sync, mma_sync, store_matrix_sync, fill_fragment) is to be built on the warp operations
// of `evo_warp.h`: each lane hands its part to the runtime, the last one computes. Until then a variant
// that uses fragments does not compile on the host, and its verdict says so.
#ifndef EVO_MATRIX_H
#define EVO_MATRIX_H
#pragma GCC system_header
#endif
