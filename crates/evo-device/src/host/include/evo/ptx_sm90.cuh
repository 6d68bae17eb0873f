// evo/ptx_sm90.cuh: Hopper's instructions as thin, typed functions. `evo/ptx.cuh` includes this file at its end.
//
// Barriers, bulk copies, clusters and programmatic launches need sm_90; `wgmma` and `setmaxnreg` need sm_90a. For older
// targets the file is empty. PTX ISA 8.0, CUDA 12.0.
#ifndef EVO_PTX_SM90_CUH
#define EVO_PTX_SM90_CUH
#ifndef EVO_HOST

namespace evo {

// A barrier in shared memory (`mbarrier`): 8 bytes, 8-byte aligned, opaque.
using mbarrier = unsigned long long;

// A box of a tensor in global memory, as the driver's cuTensorMapEncodeTiled writes it (CUtensorMap). Kernels take it
// as `const __grid_constant__ evo::tensor_map name`.
struct alignas(64) tensor_map {
    unsigned long long opaque[16];
};

} // namespace evo

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#pragma nv_diag_suppress 177

#define EVO_PTX static __device__ __forceinline__

namespace evo {

// ---- Barriers ------------------------------------------------------------------------------------------------------
// A phase ends when `count` arrivals and all expected bytes are in. The phase that runs first has parity 0; a wait for
// a parity returns when the phase of that parity has ended. So a wait for parity 1 on a new barrier returns at once.

// By one thread, before anybody else uses the barrier: `fence_mbarrier_init` or a fence of the proxy and a barrier of
// the block (or cluster) come in between.
EVO_PTX void mbarrier_init(mbarrier* barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(shared_address(barrier)), "r"(count) : "memory");
}
// The memory may then be used for other things.
EVO_PTX void mbarrier_inval(mbarrier* barrier) {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" : : "r"(shared_address(barrier)) : "memory");
}
// One arrival. What the thread has read and written before is done for those who wait.
EVO_PTX void mbarrier_arrive(mbarrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(shared_address(barrier)) : "memory");
}
// One arrival at the barrier that lies at this place in block `rank` of the cluster: it says that this warp has read what
// lay there. (A release for the whole cluster costs a fence of the GPU's memory, a microsecond each time.)
EVO_PTX void mbarrier_arrive_cluster(mbarrier* barrier, unsigned rank) {
    asm volatile("{\n.reg .b32 peer;\nmapa.shared::cluster.u32 peer, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [peer];\n}"
                 : : "r"(shared_address(barrier)), "r"(rank) : "memory");
}
// One arrival, and `bytes` that copies are to bring in this phase.
EVO_PTX void mbarrier_arrive_expect_tx(mbarrier* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 : : "r"(shared_address(barrier)), "r"(bytes) : "memory");
}
// The bytes alone.
EVO_PTX void mbarrier_expect_tx(mbarrier* barrier, unsigned bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
                 : : "r"(shared_address(barrier)), "r"(bytes) : "memory");
}
// Whether the phase of that parity has ended; the hardware may wait a short time before it says no.
EVO_PTX bool mbarrier_try_wait(mbarrier* barrier, unsigned parity) {
    unsigned ended;
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(ended) : "r"(shared_address(barrier)), "r"(parity) : "memory");
    return ended != 0;
}
// Waits until it has.
EVO_PTX void mbarrier_wait(mbarrier* barrier, unsigned parity) {
    asm volatile("{\n.reg .pred p;\nTRY:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra ENDED;\n"
                 "bra TRY;\nENDED:\n}"
                 : : "r"(shared_address(barrier)), "r"(parity) : "memory");
}
// Makes `mbarrier_init` of this thread known to copies and to the blocks of the cluster.
EVO_PTX void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory"); }
// Shared memory that this thread has written becomes visible to copies and `wgmma` (the asynchronous proxy): each
// writer calls it, then comes the barrier behind which the copy or the product is issued.
EVO_PTX void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" : : : "memory"); }

// ---- Copies of boxes (TMA) -----------------------------------------------------------------------------------------
// One thread issues a copy. Coordinates are in elements, innermost first, and may lie outside the tensor: such elements
// arrive as the map's fill and are not stored. Shared addresses are multiples of 128, and of 256, 512 or 1024 where a
// swizzle of 32, 64 or 128 bytes is to start at its first row. A load counts its box's bytes, fill included, off
// `barrier`; a store belongs to the thread's bulk group and needs `fence_proxy_async` before it.

#define EVO_TMA_RANK(rank, place, front, between, behind, ...)                                                        \
    if constexpr (EvoRank == rank)                                                                                    \
        asm volatile(front "." #rank "d." between "[%1, {" place "}]" behind ";" : : __VA_ARGS__ : "memory");
// Operands: %0 a shared address, %1 the map, %2 a barrier, %3 one more word, then coordinates.
#define EVO_TMA(front, between, behind, shared, barrier, more)                                                        \
    static_assert(EvoRank >= 1 && EvoRank <= 5 && sizeof...(coordinates) == EvoRank, "one coordinate a dimension");   \
    const int at[EvoRank] = {static_cast<int>(coordinates)...};                                                       \
    const unsigned long long box = reinterpret_cast<unsigned long long>(&map);                                        \
    EVO_TMA_RANK(1, "%4", front, between, behind, "r"(shared), "l"(box), "r"(barrier), more, "r"(at[0]))              \
    EVO_TMA_RANK(2, "%4, %5", front, between, behind, "r"(shared), "l"(box), "r"(barrier), more, "r"(at[0]),          \
                 "r"(at[1]))                                                                                          \
    EVO_TMA_RANK(3, "%4, %5, %6", front, between, behind, "r"(shared), "l"(box), "r"(barrier), more, "r"(at[0]),      \
                 "r"(at[1]), "r"(at[2]))                                                                              \
    EVO_TMA_RANK(4, "%4, %5, %6, %7", front, between, behind, "r"(shared), "l"(box), "r"(barrier), more,              \
                 "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]))                                                      \
    EVO_TMA_RANK(5, "%4, %5, %6, %7, %8", front, between, behind, "r"(shared), "l"(box), "r"(barrier), more,          \
                 "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(at[3]), "r"(at[4]))
#define EVO_TMA_LOAD "shared::cluster.global.mbarrier::complete_tx::bytes"
template <int EvoRank, class... EvoC>
EVO_PTX void tma_load(void* to, const tensor_map& map, mbarrier* barrier, EvoC... coordinates) {
    EVO_TMA("cp.async.bulk.tensor", EVO_TMA_LOAD " [%0], ", ", [%2]", shared_address(to),
            shared_address(barrier), "r"(0))
}
// With a priority in L2, one of `cache_policy_*`.
template <int EvoRank, class... EvoC>
EVO_PTX void tma_load_hint(void* to, const tensor_map& map, mbarrier* barrier, unsigned long long policy,
                           EvoC... coordinates) {
    EVO_TMA("cp.async.bulk.tensor", EVO_TMA_LOAD ".L2::cache_hint [%0], ", ", [%2], %3", shared_address(to),
            shared_address(barrier), "l"(policy))
}
// Into all blocks of the cluster whose bits of `blocks` are set, at the same place of their shared memory; the bytes
// count off the barrier at the same place of each.
template <int EvoRank, class... EvoC>
EVO_PTX void tma_load_multicast(void* to, const tensor_map& map, mbarrier* barrier, unsigned short blocks,
                                EvoC... coordinates) {
    EVO_TMA("cp.async.bulk.tensor", EVO_TMA_LOAD ".multicast::cluster [%0], ", ", [%2], %3", shared_address(to),
            shared_address(barrier), "h"(blocks))
}
template <int EvoRank, class... EvoC>
EVO_PTX void tma_store(const tensor_map& map, const void* from, EvoC... coordinates) {
    EVO_TMA("cp.async.bulk.tensor", "global.shared::cta.bulk_group ", ", [%0]", shared_address(from), 0, "r"(0))
}
// Fetches a box into L2.
template <int EvoRank, class... EvoC> EVO_PTX void tma_prefetch_box(const tensor_map& map, EvoC... coordinates) {
    EVO_TMA("cp.async.bulk.prefetch.tensor", "L2.global ", "", 0, 0, "r"(0))
}
#undef EVO_TMA_LOAD
#undef EVO_TMA
#undef EVO_TMA_RANK
// Fetches the map itself, so that the first copy need not wait for it.
EVO_PTX void tma_prefetch(const tensor_map& map) {
    asm volatile("prefetch.tensormap [%0];" : : "l"(reinterpret_cast<unsigned long long>(&map)) : "memory");
}

// ---- Copies of bytes -----------------------------------------------------------------------------------------------
// Addresses and sizes are multiples of 16.

EVO_PTX void bulk_copy_load(void* to, const void* from, unsigned bytes, mbarrier* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 : : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes),
                     "r"(shared_address(barrier)) : "memory");
}
EVO_PTX void bulk_copy_store(void* to, const void* from, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 : : "l"(__cvta_generic_to_global(to)), "r"(shared_address(from)), "r"(bytes) : "memory");
}
// Closes the group of the stores that this thread has issued since the last one.
EVO_PTX void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" : : : "memory"); }
// Waits for this thread's groups but the latest `EvoLeft`: `bulk_wait` until they are written, `bulk_wait_read` until
// their shared memory may be written again.
template <int EvoLeft> EVO_PTX void bulk_wait() {
    asm volatile("cp.async.bulk.wait_group %0;" : : "n"(EvoLeft) : "memory");
}
template <int EvoLeft> EVO_PTX void bulk_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" : : "n"(EvoLeft) : "memory");
}

// ---- L2 ------------------------------------------------------------------------------------------------------------

// Fetches the line at that address.
EVO_PTX void l2_prefetch(const void* from) {
    asm volatile("prefetch.global.L2 [%0];" : : "l"(__cvta_generic_to_global(from)) : "memory");
}
// Fetches so many bytes; address and size are multiples of 16.
EVO_PTX void l2_prefetch_bulk(const void* from, unsigned bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;"
                 : : "l"(__cvta_generic_to_global(from)), "r"(bytes) : "memory");
}
// Priorities of what a copy brings: the first to leave L2, and the last.
EVO_PTX unsigned long long cache_policy_evict_first() {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
EVO_PTX unsigned long long cache_policy_evict_last() {
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// ---- Clusters ------------------------------------------------------------------------------------------------------

// This block's number in its cluster, and how many blocks the cluster has.
EVO_PTX unsigned cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
EVO_PTX unsigned cluster_size() {
    unsigned size;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}
// The barrier of all threads of the cluster, in two halves and whole. Shared memory of other blocks may be used only
// behind a first one, and until a last one.
EVO_PTX void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" : : : "memory"); }
// Without making this thread's writes visible, which costs a fence of memory: behind `fence_mbarrier_init`, or at the end.
EVO_PTX void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" : : : "memory"); }
EVO_PTX void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" : : : "memory"); }
EVO_PTX void cluster_sync() {
    cluster_arrive();
    cluster_wait();
}
// What lies at this place of the shared memory of block `rank`.
template <class EvoT> EVO_PTX EvoT* mapa(EvoT* own, unsigned rank) {
    unsigned long long peer;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(peer) : "l"(reinterpret_cast<unsigned long long>(own)), "r"(rank));
    return reinterpret_cast<EvoT*>(peer);
}
// Loads and stores where `mapa` points.
EVO_PTX unsigned dsmem_load(const unsigned* from) {
    unsigned value;
    asm volatile("{\n.reg .u64 peer;\ncvta.to.shared::cluster.u64 peer, %1;\nld.shared::cluster.u32 %0, [peer];\n}"
                 : "=r"(value) : "l"(from) : "memory");
    return value;
}
EVO_PTX float dsmem_load(const float* from) {
    return __uint_as_float(dsmem_load(reinterpret_cast<const unsigned*>(from)));
}
EVO_PTX float2 dsmem_load(const float2* from) {
    float2 value;
    asm volatile("{\n.reg .u64 peer;\ncvta.to.shared::cluster.u64 peer, %2;\n"
                 "ld.shared::cluster.v2.f32 {%0, %1}, [peer];\n}"
                 : "=f"(value.x), "=f"(value.y) : "l"(from) : "memory");
    return value;
}
EVO_PTX float4 dsmem_load(const float4* from) {
    float4 value;
    asm volatile("{\n.reg .u64 peer;\ncvta.to.shared::cluster.u64 peer, %4;\n"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [peer];\n}"
                 : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w) : "l"(from) : "memory");
    return value;
}
EVO_PTX void dsmem_store(unsigned* to, unsigned value) {
    asm volatile("{\n.reg .u64 peer;\ncvta.to.shared::cluster.u64 peer, %0;\nst.shared::cluster.u32 [peer], %1;\n}"
                 : : "l"(to), "r"(value) : "memory");
}
EVO_PTX void dsmem_store(float* to, float value) {
    dsmem_store(reinterpret_cast<unsigned*>(to), __float_as_uint(value));
}
EVO_PTX void dsmem_store(float4* to, float4 value) {
    asm volatile("{\n.reg .u64 peer;\ncvta.to.shared::cluster.u64 peer, %0;\n"
                 "st.shared::cluster.v4.f32 [peer], {%1, %2, %3, %4};\n}"
                 : : "l"(to), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w) : "memory");
}

// ---- Programmatic launches -----------------------------------------------------------------------------------------

// Waits until the grids that this one depends on are done and their writes visible; returns at once in other launches.
EVO_PTX void grid_dependency_wait() { asm volatile("griddepcontrol.wait;" : : : "memory"); }
// Grids that depend on this one may start once all of its blocks have called this or ended.
EVO_PTX void grid_dependency_launch() { asm volatile("griddepcontrol.launch_dependents;" : : : "memory"); }

// True in one lane of a warp that is all here; which one is the hardware's choice, the same each time.
EVO_PTX bool elect_one() {
    unsigned elected;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(elected));
    return elected != 0;
}

// ---- Products of a warpgroup ---------------------------------------------------------------------------------------
// Four warps, the first of which has a number divisible by 4, multiply 64 x 16 by 16 x N. D: register 4 j + i of lane
// 4 g + t of warp w holds row 16 w + g (+ 8 for i = 2, 3), column 8 j + 2 t (+ 1 for i = 1, 3), as m16n8 fragments side
// by side. A in registers: the fragment of m16n8k16, warp w has rows 16 w to 16 w + 15.
//
// Operands in shared memory are read while the program goes on, and so is D written: `wgmma_fence` before the first
// product and whenever other instructions have touched D or A's registers; then products; `wgmma_commit`; and
// `wgmma_wait` before anybody uses D again or overwrites an operand. All four warps call all of these.
#if !defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL)

EVO_PTX void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" : : : "memory"); }
EVO_PTX void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory"); }
// Waits for all groups but the latest `EvoLeft`.
template <int EvoLeft> EVO_PTX void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" : : "n"(EvoLeft) : "memory");
}
// Keeps the compiler from moving uses of registers across this place, such as a wait. No instruction.
template <int EvoCount> EVO_PTX void wgmma_hold(float (&registers)[EvoCount]) {
#pragma unroll
    for (int i = 0; i < EvoCount; ++i) asm volatile("" : "+f"(registers[i]) : : "memory");
}

// Where an operand lies. Rows of `swizzle` bytes (128, 64, 32; 16 without a swizzle) form groups of eight, whose
// 16-byte chunks are exchanged as TMA does it; `tile` is aligned to a group or lies k steps behind one.
//   K-major (as stored [M or N][K]): `stride` bytes from one group of eight rows to the next; `leading` is unused with
//     a swizzle, without one it is the distance of neighboring chunks of K. 16 elements of K further: 32 bytes.
//   MN-major (as stored [K][M or N]): `stride` bytes from one group of eight rows of K to the next, `leading` from one
//     run of swizzle / 2 elements of M or N to the next; without a swizzle `leading` is the former and `stride` the
//     latter, of 8 elements. 16 elements of K further: 16 rows.
EVO_PTX unsigned long long wgmma_descriptor(const void* tile, unsigned leading, unsigned stride, unsigned swizzle) {
    const unsigned long long mode = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
    return (shared_address(tile) & 0x3ffff) >> 4 | static_cast<unsigned long long>(leading >> 4) << 16
        | static_cast<unsigned long long>(stride >> 4) << 32 | mode << 62;
}
// The same operand `bytes` further on.
EVO_PTX unsigned long long wgmma_advance(unsigned long long descriptor, unsigned bytes) {
    return descriptor + (bytes >> 4);
}

// D = A B + D, or A B where `scale_d` is 0. Types f16 and bf16; N = 8 to 256 in steps of 8; an operand is K-major, or
// MN-major where its `EvoTrans` is 1.
#define EVO_F(i) "+f"(d[i])
#define EVO_R8 "%0, %1, %2, %3"
#define EVO_O8 EVO_F(0), EVO_F(1), EVO_F(2), EVO_F(3)
#define EVO_R16 EVO_R8 ", %4, %5, %6, %7"
#define EVO_O16 EVO_O8, EVO_F(4), EVO_F(5), EVO_F(6), EVO_F(7)
#define EVO_R24 EVO_R16 ", %8, %9, %10, %11"
#define EVO_O24 EVO_O16, EVO_F(8), EVO_F(9), EVO_F(10), EVO_F(11)
#define EVO_R32 EVO_R24 ", %12, %13, %14, %15"
#define EVO_O32 EVO_O24, EVO_F(12), EVO_F(13), EVO_F(14), EVO_F(15)
#define EVO_R40 EVO_R32 ", %16, %17, %18, %19"
#define EVO_O40 EVO_O32, EVO_F(16), EVO_F(17), EVO_F(18), EVO_F(19)
#define EVO_R48 EVO_R40 ", %20, %21, %22, %23"
#define EVO_O48 EVO_O40, EVO_F(20), EVO_F(21), EVO_F(22), EVO_F(23)
#define EVO_R56 EVO_R48 ", %24, %25, %26, %27"
#define EVO_O56 EVO_O48, EVO_F(24), EVO_F(25), EVO_F(26), EVO_F(27)
#define EVO_R64 EVO_R56 ", %28, %29, %30, %31"
#define EVO_O64 EVO_O56, EVO_F(28), EVO_F(29), EVO_F(30), EVO_F(31)
#define EVO_R72 EVO_R64 ", %32, %33, %34, %35"
#define EVO_O72 EVO_O64, EVO_F(32), EVO_F(33), EVO_F(34), EVO_F(35)
#define EVO_R80 EVO_R72 ", %36, %37, %38, %39"
#define EVO_O80 EVO_O72, EVO_F(36), EVO_F(37), EVO_F(38), EVO_F(39)
#define EVO_R88 EVO_R80 ", %40, %41, %42, %43"
#define EVO_O88 EVO_O80, EVO_F(40), EVO_F(41), EVO_F(42), EVO_F(43)
#define EVO_R96 EVO_R88 ", %44, %45, %46, %47"
#define EVO_O96 EVO_O88, EVO_F(44), EVO_F(45), EVO_F(46), EVO_F(47)
#define EVO_R104 EVO_R96 ", %48, %49, %50, %51"
#define EVO_O104 EVO_O96, EVO_F(48), EVO_F(49), EVO_F(50), EVO_F(51)
#define EVO_R112 EVO_R104 ", %52, %53, %54, %55"
#define EVO_O112 EVO_O104, EVO_F(52), EVO_F(53), EVO_F(54), EVO_F(55)
#define EVO_R120 EVO_R112 ", %56, %57, %58, %59"
#define EVO_O120 EVO_O112, EVO_F(56), EVO_F(57), EVO_F(58), EVO_F(59)
#define EVO_R128 EVO_R120 ", %60, %61, %62, %63"
#define EVO_O128 EVO_O120, EVO_F(60), EVO_F(61), EVO_F(62), EVO_F(63)
#define EVO_R136 EVO_R128 ", %64, %65, %66, %67"
#define EVO_O136 EVO_O128, EVO_F(64), EVO_F(65), EVO_F(66), EVO_F(67)
#define EVO_R144 EVO_R136 ", %68, %69, %70, %71"
#define EVO_O144 EVO_O136, EVO_F(68), EVO_F(69), EVO_F(70), EVO_F(71)
#define EVO_R152 EVO_R144 ", %72, %73, %74, %75"
#define EVO_O152 EVO_O144, EVO_F(72), EVO_F(73), EVO_F(74), EVO_F(75)
#define EVO_R160 EVO_R152 ", %76, %77, %78, %79"
#define EVO_O160 EVO_O152, EVO_F(76), EVO_F(77), EVO_F(78), EVO_F(79)
#define EVO_R168 EVO_R160 ", %80, %81, %82, %83"
#define EVO_O168 EVO_O160, EVO_F(80), EVO_F(81), EVO_F(82), EVO_F(83)
#define EVO_R176 EVO_R168 ", %84, %85, %86, %87"
#define EVO_O176 EVO_O168, EVO_F(84), EVO_F(85), EVO_F(86), EVO_F(87)
#define EVO_R184 EVO_R176 ", %88, %89, %90, %91"
#define EVO_O184 EVO_O176, EVO_F(88), EVO_F(89), EVO_F(90), EVO_F(91)
#define EVO_R192 EVO_R184 ", %92, %93, %94, %95"
#define EVO_O192 EVO_O184, EVO_F(92), EVO_F(93), EVO_F(94), EVO_F(95)
#define EVO_R200 EVO_R192 ", %96, %97, %98, %99"
#define EVO_O200 EVO_O192, EVO_F(96), EVO_F(97), EVO_F(98), EVO_F(99)
#define EVO_R208 EVO_R200 ", %100, %101, %102, %103"
#define EVO_O208 EVO_O200, EVO_F(100), EVO_F(101), EVO_F(102), EVO_F(103)
#define EVO_R216 EVO_R208 ", %104, %105, %106, %107"
#define EVO_O216 EVO_O208, EVO_F(104), EVO_F(105), EVO_F(106), EVO_F(107)
#define EVO_R224 EVO_R216 ", %108, %109, %110, %111"
#define EVO_O224 EVO_O216, EVO_F(108), EVO_F(109), EVO_F(110), EVO_F(111)
#define EVO_R232 EVO_R224 ", %112, %113, %114, %115"
#define EVO_O232 EVO_O224, EVO_F(112), EVO_F(113), EVO_F(114), EVO_F(115)
#define EVO_R240 EVO_R232 ", %116, %117, %118, %119"
#define EVO_O240 EVO_O232, EVO_F(116), EVO_F(117), EVO_F(118), EVO_F(119)
#define EVO_R248 EVO_R240 ", %120, %121, %122, %123"
#define EVO_O248 EVO_O240, EVO_F(120), EVO_F(121), EVO_F(122), EVO_F(123)
#define EVO_R256 EVO_R248 ", %124, %125, %126, %127"
#define EVO_O256 EVO_O248, EVO_F(124), EVO_F(125), EVO_F(126), EVO_F(127)
#define EVO_SIZES                                                                                \
    EVO_N(8, 4, 5, 6, 7, 8, 9, 10) EVO_N(16, 8, 9, 10, 11, 12, 13, 14)                           \
    EVO_N(24, 12, 13, 14, 15, 16, 17, 18) EVO_N(32, 16, 17, 18, 19, 20, 21, 22)                  \
    EVO_N(40, 20, 21, 22, 23, 24, 25, 26) EVO_N(48, 24, 25, 26, 27, 28, 29, 30)                  \
    EVO_N(56, 28, 29, 30, 31, 32, 33, 34) EVO_N(64, 32, 33, 34, 35, 36, 37, 38)                  \
    EVO_N(72, 36, 37, 38, 39, 40, 41, 42) EVO_N(80, 40, 41, 42, 43, 44, 45, 46)                  \
    EVO_N(88, 44, 45, 46, 47, 48, 49, 50) EVO_N(96, 48, 49, 50, 51, 52, 53, 54)                  \
    EVO_N(104, 52, 53, 54, 55, 56, 57, 58) EVO_N(112, 56, 57, 58, 59, 60, 61, 62)                \
    EVO_N(120, 60, 61, 62, 63, 64, 65, 66) EVO_N(128, 64, 65, 66, 67, 68, 69, 70)                \
    EVO_N(136, 68, 69, 70, 71, 72, 73, 74) EVO_N(144, 72, 73, 74, 75, 76, 77, 78)                \
    EVO_N(152, 76, 77, 78, 79, 80, 81, 82) EVO_N(160, 80, 81, 82, 83, 84, 85, 86)                \
    EVO_N(168, 84, 85, 86, 87, 88, 89, 90) EVO_N(176, 88, 89, 90, 91, 92, 93, 94)                \
    EVO_N(184, 92, 93, 94, 95, 96, 97, 98) EVO_N(192, 96, 97, 98, 99, 100, 101, 102)             \
    EVO_N(200, 100, 101, 102, 103, 104, 105, 106) EVO_N(208, 104, 105, 106, 107, 108, 109, 110)  \
    EVO_N(216, 108, 109, 110, 111, 112, 113, 114) EVO_N(224, 112, 113, 114, 115, 116, 117, 118)  \
    EVO_N(232, 116, 117, 118, 119, 120, 121, 122) EVO_N(240, 120, 121, 122, 123, 124, 125, 126)  \
    EVO_N(248, 124, 125, 126, 127, 128, 129, 130) EVO_N(256, 128, 129, 130, 131, 132, 133, 134)
template <class EvoT> struct wgmma_type;
template <> struct wgmma_type<f16> {
    static constexpr bool wide = false;
};
template <> struct wgmma_type<bf16> {
    static constexpr bool wide = true;
};

#define EVO_WGMMA(size, type, sources, scale, flags, ...)                                                             \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " scale ", 0;\nwgmma.mma_async.sync.aligned.m64n" #size            \
                 "k16.f32." type "." type " {" EVO_R##size "}, " sources ", p, 1, 1, " flags ";\n}"                   \
                 : EVO_O##size : __VA_ARGS__);

template <class EvoT, int EvoN, int EvoTransB = 0, int EvoTransA = 0>
EVO_PTX void wgmma_m64k16(float (&d)[EvoN / 2], unsigned long long a, unsigned long long b, int scale_d) {
    static_assert(EvoN % 8 == 0 && EvoN >= 8 && EvoN <= 256, "N is a multiple of 8, up to 256");
#define EVO_N(size, h0, h1, h2, h3, h4, h5, h6)                                                                       \
    if constexpr (EvoN == size && wgmma_type<EvoT>::wide)                                                             \
        EVO_WGMMA(size, "bf16", "%" #h0 ", %" #h1, "%" #h2, "%" #h3 ", %" #h4, "l"(a), "l"(b), "r"(scale_d),          \
                  "n"(EvoTransA), "n"(EvoTransB))                                                                     \
    if constexpr (EvoN == size && !wgmma_type<EvoT>::wide)                                                            \
        EVO_WGMMA(size, "f16", "%" #h0 ", %" #h1, "%" #h2, "%" #h3 ", %" #h4, "l"(a), "l"(b), "r"(scale_d),           \
                  "n"(EvoTransA), "n"(EvoTransB))
    EVO_SIZES
#undef EVO_N
}
template <class EvoT, int EvoN, int EvoTransB = 0>
EVO_PTX void wgmma_m64k16(float (&d)[EvoN / 2], const unsigned (&a)[4], unsigned long long b, int scale_d) {
    static_assert(EvoN % 8 == 0 && EvoN >= 8 && EvoN <= 256, "N is a multiple of 8, up to 256");
#define EVO_N(size, h0, h1, h2, h3, h4, h5, h6)                                                                       \
    if constexpr (EvoN == size && wgmma_type<EvoT>::wide)                                                             \
        EVO_WGMMA(size, "bf16", "{%" #h0 ", %" #h1 ", %" #h2 ", %" #h3 "}, %" #h4, "%" #h5, "%" #h6, "r"(a[0]),       \
                  "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale_d), "n"(EvoTransB))                              \
    if constexpr (EvoN == size && !wgmma_type<EvoT>::wide)                                                            \
        EVO_WGMMA(size, "f16", "{%" #h0 ", %" #h1 ", %" #h2 ", %" #h3 "}, %" #h4, "%" #h5, "%" #h6, "r"(a[0]),        \
                  "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(scale_d), "n"(EvoTransB))
    EVO_SIZES
#undef EVO_N
}
#undef EVO_WGMMA
#undef EVO_SIZES
#undef EVO_F
#undef EVO_R8
#undef EVO_O8
#undef EVO_R16
#undef EVO_O16
#undef EVO_R24
#undef EVO_O24
#undef EVO_R32
#undef EVO_O32
#undef EVO_R40
#undef EVO_O40
#undef EVO_R48
#undef EVO_O48
#undef EVO_R56
#undef EVO_O56
#undef EVO_R64
#undef EVO_O64
#undef EVO_R72
#undef EVO_O72
#undef EVO_R80
#undef EVO_O80
#undef EVO_R88
#undef EVO_O88
#undef EVO_R96
#undef EVO_O96
#undef EVO_R104
#undef EVO_O104
#undef EVO_R112
#undef EVO_O112
#undef EVO_R120
#undef EVO_O120
#undef EVO_R128
#undef EVO_O128
#undef EVO_R136
#undef EVO_O136
#undef EVO_R144
#undef EVO_O144
#undef EVO_R152
#undef EVO_O152
#undef EVO_R160
#undef EVO_O160
#undef EVO_R168
#undef EVO_O168
#undef EVO_R176
#undef EVO_O176
#undef EVO_R184
#undef EVO_O184
#undef EVO_R192
#undef EVO_O192
#undef EVO_R200
#undef EVO_O200
#undef EVO_R208
#undef EVO_O208
#undef EVO_R216
#undef EVO_O216
#undef EVO_R224
#undef EVO_O224
#undef EVO_R232
#undef EVO_O232
#undef EVO_R240
#undef EVO_O240
#undef EVO_R248
#undef EVO_O248
#undef EVO_R256
#undef EVO_O256

// Registers a thread from here on, 24 to 256 in steps of 8, for all four warps of a warpgroup: `inc` waits until others
// have given back enough by `dec`. It takes effect in kernels whose bounds say how many blocks a multiprocessor holds.
template <int EvoRegisters> EVO_PTX void setmaxnreg_inc() {
    static_assert(EvoRegisters % 8 == 0 && EvoRegisters >= 24 && EvoRegisters <= 256, "24 to 256 in steps of 8");
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(EvoRegisters));
}
template <int EvoRegisters> EVO_PTX void setmaxnreg_dec() {
    static_assert(EvoRegisters % 8 == 0 && EvoRegisters >= 24 && EvoRegisters <= 256, "24 to 256 in steps of 8");
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(EvoRegisters));
}
#endif

} // namespace evo

#undef EVO_PTX
#pragma nv_diag_default 177
#endif
#endif
#endif
