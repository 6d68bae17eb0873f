// evo/ptx.cuh: PTX instructions as thin, typed functions, for tensor-core kernels from sm_75 and sm_80 on.
//
// The file includes `evo/ptx_sm90.cuh` at its end, which lies beside it, and nothing else. It needs CUDA 11.2 or later,
// NVRTC or nvcc, and C++17. `evo render --header evo/ptx.cuh` prints it, and likewise the other. In a kernel that evo runs, `#include <evo/ptx.cuh>` works as it is, and on evo's host device
// the same functions check how they are used: a copy lands at its wait and no earlier, misaligned addresses and lanes
// that are missing end the launch with their line (docs/ptx.md).
//
// Fragments (PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type"): a lane is 4 * g + t. Each register
// of A and B holds two neighbors, the first in its low half.
//
//   A, 16 x 16, row-major    a[0] = (g, 2t..)  a[1] = (g + 8, 2t..)  a[2] = (g, 2t + 8..)  a[3] = (g + 8, 2t + 8..)
//   A, 16 x 8                a[0], a[1] of these
//   B, 16 x 8, column-major  b[0] = (2t.., g)  b[1] = (2t + 8.., g)
//   B, 8 x 8                 b[0] of these
//   C and D, 16 x 8, fp32    c[0] = (g, 2t)  c[1] = (g, 2t + 1)  c[2] = (g + 8, 2t)  c[3] = (g + 8, 2t + 1)
//   C and D, 16 x 8, fp16    c[0] = (g, 2t..)  c[1] = (g + 8, 2t..)
//
// D may be C. Accumulation: with S = |c| + sum |a b|, |d - exact| <= K * 2^-22 * S in fp32 and (K / 4) * 2^-11 * S in
// fp16, plus one unit of the smallest subnormal for each term; in S a subnormal a or b counts as the smallest normal
// number. Sums of which all parts are exact are exact. The order of addition is the hardware's. (`evo-selftest ptx`
// checks this.)
#ifndef EVO_PTX_CUH
#define EVO_PTX_CUH
#ifndef EVO_HOST
#pragma nv_diag_suppress 177

#define EVO_PTX static __device__ __forceinline__

namespace evo {

// Types of operands.
struct f16 {};
struct bf16 {};

// The address that instructions take which work on shared memory.
EVO_PTX unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// D = A B + C for a whole warp. sm_80; m16n8k8 with fp16 operands: sm_75.
template <class EvoT>
EVO_PTX void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const float (&c)[4]);
template <class EvoT>
EVO_PTX void mma_m16n8k16(unsigned (&d)[2], const unsigned (&a)[4], const unsigned (&b)[2], const unsigned (&c)[2]);
template <class EvoT>
EVO_PTX void mma_m16n8k8(float (&d)[4], const unsigned (&a)[2], const unsigned (&b)[1], const float (&c)[4]);
template <class EvoT>
EVO_PTX void mma_m16n8k8(unsigned (&d)[2], const unsigned (&a)[2], const unsigned (&b)[1], const unsigned (&c)[2]);

#define EVO_PTX_MMA(EvoT, type)                                                                                       \
    template <>                                                                                                       \
    __device__ __forceinline__ void mma_m16n8k16<EvoT>(float(&d)[4], const unsigned(&a)[4], const unsigned(&b)[2],    \
                                                       const float(&c)[4]) {                                          \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 "                                            \
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"                                     \
            : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                                          \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]),      \
              "f"(c[3]));                                                                                             \
    }                                                                                                                 \
    template <>                                                                                                       \
    __device__ __forceinline__ void mma_m16n8k8<EvoT>(float(&d)[4], const unsigned(&a)[2], const unsigned(&b)[1],     \
                                                      const float(&c)[4]) {                                           \
        asm("mma.sync.aligned.m16n8k8.row.col.f32." type "." type ".f32 "                                             \
            "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"                                                    \
            : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                                          \
            : "r"(a[0]), "r"(a[1]), "r"(b[0]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));                           \
    }
EVO_PTX_MMA(f16, "f16")
EVO_PTX_MMA(bf16, "bf16")
#undef EVO_PTX_MMA
template <>
__device__ __forceinline__ void mma_m16n8k16<f16>(unsigned (&d)[2], const unsigned (&a)[4], const unsigned (&b)[2],
                                                  const unsigned (&c)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"
        : "=r"(d[0]), "=r"(d[1])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]));
}
template <>
__device__ __forceinline__ void mma_m16n8k8<f16>(unsigned (&d)[2], const unsigned (&a)[2], const unsigned (&b)[1],
                                                 const unsigned (&c)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3}, {%4}, {%5, %6};"
        : "=r"(d[0]), "=r"(d[1])
        : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c[0]), "r"(c[1]));
}

// 8 x 8 matrices of 16-bit elements from shared memory (sm_75) and to it (sm_90): lane i has the address of row i % 8 of
// matrix i / 8, 16-byte aligned; the lanes behind the last matrix may pass anything. Register j of lane 4g + t holds
// elements 2t and 2t + 1 of row g of matrix j; with `_trans`, elements g of rows 2t and 2t + 1.
#define EVO_PTX_MATRICES(suffix, trans)                                                                               \
    EVO_PTX void ldmatrix_x1##suffix(unsigned& r0, const void* row) {                                                 \
        asm volatile("ldmatrix.sync.aligned.m8n8.x1" trans ".shared.b16 {%0}, [%1];"                                  \
                     : "=r"(r0) : "r"(shared_address(row)) : "memory");                                               \
    }                                                                                                                 \
    EVO_PTX void ldmatrix_x2##suffix(unsigned& r0, unsigned& r1, const void* row) {                                   \
        asm volatile("ldmatrix.sync.aligned.m8n8.x2" trans ".shared.b16 {%0, %1}, [%2];"                              \
                     : "=r"(r0), "=r"(r1) : "r"(shared_address(row)) : "memory");                                     \
    }                                                                                                                 \
    EVO_PTX void ldmatrix_x4##suffix(unsigned& r0, unsigned& r1, unsigned& r2, unsigned& r3, const void* row) {       \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 {%0, %1, %2, %3}, [%4];"                      \
                     : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(shared_address(row)) : "memory");                 \
    }
EVO_PTX_MATRICES(, "")
EVO_PTX_MATRICES(_trans, ".trans")
#undef EVO_PTX_MATRICES
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define EVO_PTX_MATRICES(suffix, trans)                                                                               \
    EVO_PTX void stmatrix_x1##suffix(void* row, unsigned r0) {                                                        \
        asm volatile("stmatrix.sync.aligned.m8n8.x1" trans ".shared.b16 [%0], {%1};"                                  \
                     : : "r"(shared_address(row)), "r"(r0) : "memory");                                               \
    }                                                                                                                 \
    EVO_PTX void stmatrix_x2##suffix(void* row, unsigned r0, unsigned r1) {                                           \
        asm volatile("stmatrix.sync.aligned.m8n8.x2" trans ".shared.b16 [%0], {%1, %2};"                              \
                     : : "r"(shared_address(row)), "r"(r0), "r"(r1) : "memory");                                      \
    }                                                                                                                 \
    EVO_PTX void stmatrix_x4##suffix(void* row, unsigned r0, unsigned r1, unsigned r2, unsigned r3) {                 \
        asm volatile("stmatrix.sync.aligned.m8n8.x4" trans ".shared.b16 [%0], {%1, %2, %3, %4};"                      \
                     : : "r"(shared_address(row)), "r"(r0), "r"(r1), "r"(r2), "r"(r3) : "memory");                    \
    }
EVO_PTX_MATRICES(, "")
EVO_PTX_MATRICES(_trans, ".trans")
#undef EVO_PTX_MATRICES
#endif

// Copies from global to shared memory in the background, sm_80. Both addresses are multiples of the size. `_ca` goes
// through L1, `_cg` moves 16 bytes past it and may fetch 64, 128 or 256 bytes into L2 on the way. With `_zfill` only
// `source_bytes` are read, which may be 0, and the rest of the target becomes zero.
template <int EvoBytes> EVO_PTX void cp_async_ca(void* to, const void* from) {
    static_assert(EvoBytes == 4 || EvoBytes == 8 || EvoBytes == 16, "cp.async copies 4, 8 or 16 bytes");
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 : : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "n"(EvoBytes) : "memory");
}
template <int EvoBytes> EVO_PTX void cp_async_ca_zfill(void* to, const void* from, unsigned source_bytes) {
    static_assert(EvoBytes == 4 || EvoBytes == 8 || EvoBytes == 16, "cp.async copies 4, 8 or 16 bytes");
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 : : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "n"(EvoBytes), "r"(source_bytes)
                 : "memory");
}
#define EVO_PTX_COPY(prefetch, word)                                                                                  \
    if constexpr (EvoPrefetch == prefetch)                                                                            \
        asm volatile("cp.async.cg.shared.global" word " [%0], [%1], 16, %2;"                                          \
                     : : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(source_bytes) : "memory");
template <int EvoPrefetch = 0> EVO_PTX void cp_async_cg_zfill(void* to, const void* from, unsigned source_bytes) {
    static_assert(EvoPrefetch == 0 || EvoPrefetch == 64 || EvoPrefetch == 128 || EvoPrefetch == 256,
                  "L2 fetches 64, 128 or 256 bytes");
    EVO_PTX_COPY(0, "")
    EVO_PTX_COPY(64, ".L2::64B")
    EVO_PTX_COPY(128, ".L2::128B")
    EVO_PTX_COPY(256, ".L2::256B")
}
#undef EVO_PTX_COPY
#define EVO_PTX_COPY(prefetch, word)                                                                                  \
    if constexpr (EvoPrefetch == prefetch)                                                                            \
        asm volatile("cp.async.cg.shared.global" word " [%0], [%1], 16;"                                              \
                     : : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)) : "memory");
template <int EvoPrefetch = 0> EVO_PTX void cp_async_cg(void* to, const void* from) {
    static_assert(EvoPrefetch == 0 || EvoPrefetch == 64 || EvoPrefetch == 128 || EvoPrefetch == 256,
                  "L2 fetches 64, 128 or 256 bytes");
    EVO_PTX_COPY(0, "")
    EVO_PTX_COPY(64, ".L2::64B")
    EVO_PTX_COPY(128, ".L2::128B")
    EVO_PTX_COPY(256, ".L2::256B")
}
#undef EVO_PTX_COPY
// Closes the group of the copies that this thread has issued since the last one. A group may be empty.
EVO_PTX void cp_async_commit() { asm volatile("cp.async.commit_group;" : : : "memory"); }
// Waits for this thread's groups but the latest `EvoLeft`. Other threads' copies need a barrier behind it.
template <int EvoLeft> EVO_PTX void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(EvoLeft) : "memory");
}
// Waits for all copies of this thread, in groups or not.
EVO_PTX void cp_async_wait_all() { asm volatile("cp.async.wait_all;" : : : "memory"); }

// Barriers of a part of the block, numbers 1 to 15: whole warps, `threads` in all, of which those that only arrive go on.
// A number that the compiler does not know takes all 16 barriers of the block.
EVO_PTX void bar_sync(unsigned number, unsigned threads) {
    asm volatile("bar.sync %0, %1;" : : "r"(number), "r"(threads) : "memory");
}
EVO_PTX void bar_arrive(unsigned number, unsigned threads) {
    asm volatile("bar.arrive %0, %1;" : : "r"(number), "r"(threads) : "memory");
}

// 2^x with a relative error of at most 2^-22. `ex2_ftz` is one instruction and takes subnormal numbers for zero.
EVO_PTX float ex2(float x) {
    float y;
    asm("ex2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
EVO_PTX float ex2_ftz(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Two floats rounded to nearest even in one register, the first in the low half. sm_80.
template <class EvoT> EVO_PTX unsigned pack(float low, float high);
template <> __device__ __forceinline__ unsigned pack<f16>(float low, float high) {
    unsigned word;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}
template <> __device__ __forceinline__ unsigned pack<bf16>(float low, float high) {
    unsigned word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}

// The two numbers of a register, the low half first.
template <class EvoT> EVO_PTX void unpack(unsigned word, float& low, float& high);
template <> __device__ __forceinline__ void unpack<f16>(unsigned word, float& low, float& high) {
    asm("{\n.reg .b16 a, b;\nmov.b32 {a, b}, %2;\ncvt.f32.f16 %0, a;\ncvt.f32.f16 %1, b;\n}"
        : "=f"(low), "=f"(high) : "r"(word));
}
template <> __device__ __forceinline__ void unpack<bf16>(unsigned word, float& low, float& high) {
    low = __uint_as_float(word << 16);
    high = __uint_as_float(word & 0xffff0000u);
}

// Over each run of `EvoLanes` lanes, which all get the result; the whole warp takes part.
template <int EvoLanes> EVO_PTX float warp_sum(float value) {
    static_assert(EvoLanes > 0 && EvoLanes <= 32 && (EvoLanes & (EvoLanes - 1)) == 0, "1, 2, 4, 8, 16 or 32 lanes");
#pragma unroll
    for (int distance = EvoLanes / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, distance);
    return value;
}
template <int EvoLanes> EVO_PTX float warp_max(float value) {
    static_assert(EvoLanes > 0 && EvoLanes <= 32 && (EvoLanes & (EvoLanes - 1)) == 0, "1, 2, 4, 8, 16 or 32 lanes");
#pragma unroll
    for (int distance = EvoLanes / 2; distance > 0; distance /= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
    return value;
}

} // namespace evo

#undef EVO_PTX
#pragma nv_diag_default 177
#endif
#include <evo/ptx_sm90.cuh>
#endif
