// The instructions of `evo/ptx_sm90.cuh` on data that the host knows, behind `probes.cu` in one source. On targets before
// sm_90a the kernels are empty and nobody launches them.
#if defined(EVO_HOST) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HOPPER(call) call

// Where an operand's element lies in bytes: rows of SWIZZLE bytes, of which there are `rows`, then the next panel. Without
// a swizzle rows have 16 bytes. Which chunk of 16 bytes it is depends on the address.
template <int SWIZZLE> __device__ unsigned char* place_of(unsigned char* tile, int row, int column, int rows) {
    const int span = SWIZZLE ? SWIZZLE : 16;
    unsigned char* at = tile + (2 * column / span * rows + row) * span + 2 * column % span;
    const size_t address = reinterpret_cast<size_t>(at);
    return at + ((address ^ ((address >> 7 & (SWIZZLE / 16 - (SWIZZLE > 0))) << 4)) - address);
}

// An operand of `extent` rows or columns and depth 64, by its descriptor and the steps of 16 along the depth.
template <int SWIZZLE, int TRANS> struct Operand {
    unsigned char* tile;
    int extent;
    __device__ void fill(const unsigned short* from) const {
        for (int at = threadIdx.x; at < extent * 64; at += 128) {
            const int mn = at / 64;
            const int k = at % 64;
            unsigned char* to = TRANS ? place_of<SWIZZLE>(tile, k, mn, 64) : place_of<SWIZZLE>(tile, mn, k, extent);
            *reinterpret_cast<unsigned short*>(to) = from[at];
        }
    }
    __device__ unsigned long long at_step(int step) const {
        const int span = SWIZZLE ? SWIZZLE : 16;
        if (TRANS) {
            // Without a swizzle the two distances change their roles.
            const unsigned panel = 64 * span;
            const unsigned group = 8 * span;
            return evo::wgmma_advance(
                evo::wgmma_descriptor(tile, SWIZZLE ? panel : group, SWIZZLE ? group : panel, SWIZZLE), step * 16 * span);
        }
        const unsigned long long first = evo::wgmma_descriptor(tile, extent * 16, 8 * span, SWIZZLE);
        return evo::wgmma_advance(first, step * 32 / span * extent * span + step * 32 % span);
    }
};

// D = A B + C for even blocks, A B for odd ones; A is 64 x 64 by rows, B 64 x N by columns. Of the 128 threads each has its
// places of C and D.
template <class T, int N, int TRANS_B, int TRANS_A, int SWIZZLE, int REGISTERS>
__device__ void multiply(const unsigned short* a, const unsigned short* b, const float* c, float* d) {
    extern __shared__ __align__(1024) unsigned char tiles[];
    const Operand<SWIZZLE, TRANS_A> left = {tiles, 64};
    const Operand<SWIZZLE, TRANS_B> right = {tiles + 64 * 128, N};
    a += blockIdx.x * 64 * 64;
    const int warp = threadIdx.x / 32;
    const int g = threadIdx.x % 32 / 4;
    const int t = threadIdx.x % 4;
    left.fill(a);
    right.fill(b + blockIdx.x * N * 64);
    unsigned words[4][4];
    for (int step = 0; step < 4; ++step)
        for (int i = 0; i < 4; ++i) {
            const unsigned short* from = a + (16 * warp + g + i % 2 * 8) * 64 + 16 * step + 2 * t + i / 2 * 8;
            words[step][i] = from[0] | static_cast<unsigned>(from[1]) << 16;
        }
    const size_t first = (static_cast<size_t>(blockIdx.x) * 64 + 16 * warp + g) * N + 2 * t;
    float sums[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; ++i) sums[i] = c[first + i / 2 % 2 * 8 * N + i / 4 * 8 + i % 2];
    evo::fence_proxy_async();
    __syncthreads();
    evo::wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
        const int keeps = step > 0 || blockIdx.x % 2 == 0;
        if constexpr (REGISTERS)
            evo::wgmma_m64k16<T, N, TRANS_B>(sums, words[step], right.at_step(step), keeps);
        else
            evo::wgmma_m64k16<T, N, TRANS_B, TRANS_A>(sums, left.at_step(step), right.at_step(step), keeps);
    }
    evo::wgmma_commit();
    evo::wgmma_wait<0>();
    evo::wgmma_hold(sums);
#pragma unroll
    for (int i = 0; i < N / 2; ++i) d[first + i / 2 % 2 * 8 * N + i / 4 * 8 + i % 2] = sums[i];
}

// One warp fills a ring of three stages by bulk copies; three warps read it, and tell by barriers that they have.
__device__ void play_bulk_ring(const uint4* in, uint4* out) {
    __shared__ __align__(128) uint4 ring[3][32];
    __shared__ evo::mbarrier full[3];
    __shared__ evo::mbarrier empty[3];
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < 3; ++stage) {
            evo::mbarrier_init(&full[stage], 1);
            evo::mbarrier_init(&empty[stage], 3);
        }
        evo::fence_mbarrier_init();
    }
    __syncthreads();
    const uint4* own = in + blockIdx.x * 11 * 32;
    if (threadIdx.x < 32) {
        if (evo::elect_one()) {
            for (int tile = 0; tile < 11; ++tile) {
                const int stage = tile % 3;
                evo::mbarrier_wait(&empty[stage], (tile / 3 & 1) ^ 1);
                if (tile % 2) {
                    evo::mbarrier_expect_tx(&full[stage], 512);
                    evo::bulk_copy_load(ring[stage], own + tile * 32, 256, &full[stage]);
                    evo::bulk_copy_load(ring[stage] + 16, own + tile * 32 + 16, 256, &full[stage]);
                    evo::mbarrier_arrive(&full[stage]);
                } else {
                    evo::mbarrier_arrive_expect_tx(&full[stage], 512);
                    evo::bulk_copy_load(ring[stage], own + tile * 32, 512, &full[stage]);
                }
            }
        }
    } else {
        for (int tile = 0; tile < 11; ++tile) {
            const int stage = tile % 3;
            while (!evo::mbarrier_try_wait(&full[stage], tile / 3 & 1)) {}
            const uint4 value = ring[stage][31 - threadIdx.x % 32];
            __syncwarp();
            if (threadIdx.x % 32 == 0) evo::mbarrier_arrive(&empty[stage]);
            if (threadIdx.x / 32 == 1 + tile % 3) out[(blockIdx.x * 11 + tile) * 32 + threadIdx.x % 32] = value;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) evo::mbarrier_inval(&full[0]);
}

// Threads turn a tile around in shared memory, one stores it in two groups.
__device__ void play_bulk_stores(const uint4* in, uint4* out) {
    __shared__ __align__(128) uint4 tile[64];
    tile[63 - threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
    evo::fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        evo::bulk_copy_store(out + blockIdx.x * 64, tile, 512);
        evo::bulk_commit();
        evo::bulk_copy_store(out + blockIdx.x * 64 + 32, tile + 32, 512);
        evo::bulk_commit();
        evo::bulk_wait_read<1>();
        evo::bulk_wait<0>();
    }
    evo::l2_prefetch(in);
    evo::l2_prefetch_bulk(in, 64);
}

// Each block of a cluster reads from the next one's memory, writes to the one behind it, and counts its arrivals.
__device__ void play_clusters(const float* in, float* out) {
    __shared__ float4 own[64];
    __shared__ float sent[64];
    __shared__ evo::mbarrier met;
    const unsigned rank = evo::cluster_rank();
    const unsigned size = evo::cluster_size();
    const float value = in[blockIdx.x * 64 + threadIdx.x];
    own[threadIdx.x] = make_float4(value, 0, 0, value);
    if (threadIdx.x == 0) {
        evo::mbarrier_init(&met, 64 * size);
        evo::fence_mbarrier_init();
    }
    evo::cluster_arrive();
    evo::cluster_wait();
    const float4 theirs = evo::dsmem_load(evo::mapa(own, (rank + 1) % size) + 63 - threadIdx.x);
    evo::dsmem_store(evo::mapa(sent, (rank + size - 1) % size) + threadIdx.x, theirs.x + theirs.w);
    evo::cluster_sync();
    for (unsigned block = 0; block < size; ++block) evo::mbarrier_arrive_cluster(&met, block);
    evo::mbarrier_wait(&met, 0);
    out[blockIdx.x * 64 + threadIdx.x] = sent[threadIdx.x];
    evo::cluster_sync();
}

// Two warpgroups hand registers over; one lane of each warp is elected, the same each time.
__device__ void play_registers_and_elections(const unsigned* in, unsigned* out) {
    const unsigned value = in[blockIdx.x * 256 + threadIdx.x];
    evo::grid_dependency_wait();
    if (threadIdx.x < 128) {
        evo::setmaxnreg_dec<40>();
    } else {
        evo::setmaxnreg_inc<232>();
    }
    const bool elected = evo::elect_one();
    const unsigned ballot = __ballot_sync(0xffffffffu, elected);
    const bool same = evo::elect_one() == elected;
    evo::grid_dependency_launch();
    out[blockIdx.x * 256 + threadIdx.x] = value + (__popc(ballot) == 1 && same);
}

// A copy's coordinates from memory.
template <int... AXES> struct Axes {};
template <int RANK, int... AXES> struct AxesTo : AxesTo<RANK - 1, RANK - 1, AXES...> {};
template <int... AXES> struct AxesTo<0, AXES...> {
    using type = Axes<AXES...>;
};

// The box of this block, as it lies in shared memory behind the copy. Odd blocks give a priority.
template <int RANK, int... AXES>
__device__ void play_box_load(const evo::tensor_map& map, const int* places, unsigned* out, Axes<AXES...>) {
    extern __shared__ __align__(1024) unsigned char tiles[];
    __shared__ evo::mbarrier full;
    const int* at = places + blockIdx.x * 8;
    if (threadIdx.x == 0) {
        evo::tma_prefetch(map);
        evo::mbarrier_init(&full, 1);
        evo::fence_mbarrier_init();
        evo::mbarrier_arrive_expect_tx(&full, at[5]);
        if (blockIdx.x % 2) {
            const auto policy = blockIdx.x % 4 == 1 ? evo::cache_policy_evict_first() : evo::cache_policy_evict_last();
            evo::tma_load_hint<RANK>(tiles, map, &full, policy, at[AXES]...);
        } else {
            evo::tma_prefetch_box<RANK>(map, at[AXES]...);
            evo::tma_load<RANK>(tiles, map, &full, at[AXES]...);
        }
    }
    __syncthreads();
    evo::mbarrier_wait(&full, 0);
    for (int i = threadIdx.x; i < at[5] / 4; i += 64)
        out[blockIdx.x * 2048 + i] = reinterpret_cast<const unsigned*>(tiles)[i];
}

// Each block of a cluster fetches its box for all of them.
__device__ void play_box_multicast(const evo::tensor_map& map, const int* places, unsigned* out) {
    extern __shared__ __align__(1024) unsigned char tiles[];
    __shared__ evo::mbarrier full;
    const unsigned rank = evo::cluster_rank();
    const unsigned size = evo::cluster_size();
    const int* at = places + blockIdx.x * 8;
    if (threadIdx.x == 0) {
        evo::mbarrier_init(&full, 1);
        evo::fence_mbarrier_init();
        evo::mbarrier_arrive_expect_tx(&full, at[5] * size);
    }
    evo::cluster_sync();
    if (threadIdx.x == 0)
        evo::tma_load_multicast<2>(tiles + rank * 8192, map, &full, (1 << size) - 1, at[0], at[1]);
    evo::mbarrier_wait(&full, 0);
    for (unsigned part = 0; part < size; ++part)
        for (int i = threadIdx.x; i < at[5] / 4; i += 64)
            out[(blockIdx.x * size + part) * 2048 + i] = reinterpret_cast<const unsigned*>(tiles)[part * 2048 + i];
    evo::cluster_sync();
}

template <int RANK, int... AXES>
__device__ void play_box_store(const evo::tensor_map& map, const unsigned* in, const int* at, Axes<AXES...>) {
    extern __shared__ __align__(1024) unsigned char tiles[];
    for (int i = threadIdx.x; i < at[5] / 4; i += 64) reinterpret_cast<unsigned*>(tiles)[i] = in[i];
    evo::fence_proxy_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        evo::tma_store<RANK>(map, tiles, at[AXES]...);
        evo::bulk_commit();
        evo::bulk_wait<0>();
    }
}
#else
#define HOPPER(call)
#endif

#define WGMMA(entry, T, N, TRANS_B, TRANS_A, SWIZZLE, REGISTERS)                                                      \
    extern "C" __global__ void __launch_bounds__(128)                                                                 \
        entry(const unsigned short* a, const unsigned short* b, const float* c, float* d) {                           \
        HOPPER((multiply<evo::T, N, TRANS_B, TRANS_A, SWIZZLE, REGISTERS>(a, b, c, d)));                              \
    }
WGMMA(wgmma_n8_f16, f16, 8, 0, 0, 128, 0)
WGMMA(wgmma_n24_f16, f16, 24, 0, 0, 128, 0)
WGMMA(wgmma_n64_f16, f16, 64, 0, 0, 128, 0)
WGMMA(wgmma_n104_f16, f16, 104, 0, 0, 128, 0)
WGMMA(wgmma_n128_f16, f16, 128, 0, 0, 128, 0)
WGMMA(wgmma_n176_f16, f16, 176, 0, 0, 128, 0)
WGMMA(wgmma_n256_f16, f16, 256, 0, 0, 128, 0)
WGMMA(wgmma_n16_bf16, bf16, 16, 0, 0, 128, 0)
WGMMA(wgmma_n72_bf16, bf16, 72, 0, 0, 128, 0)
WGMMA(wgmma_n192_bf16, bf16, 192, 0, 0, 128, 0)
WGMMA(wgmma_n248_bf16, bf16, 248, 0, 0, 128, 0)
WGMMA(wgmma_n32_f16_64b, f16, 32, 0, 0, 64, 0)
WGMMA(wgmma_n96_bf16_64b, bf16, 96, 0, 0, 64, 0)
WGMMA(wgmma_n40_bf16_32b, bf16, 40, 0, 0, 32, 0)
WGMMA(wgmma_n136_f16_32b, f16, 136, 0, 0, 32, 0)
WGMMA(wgmma_n48_f16_none, f16, 48, 0, 0, 0, 0)
WGMMA(wgmma_n160_bf16_none, bf16, 160, 0, 0, 0, 0)
WGMMA(wgmma_n64_f16_trans, f16, 64, 1, 0, 128, 0)
WGMMA(wgmma_n200_bf16_trans, bf16, 200, 1, 0, 128, 0)
WGMMA(wgmma_n80_bf16_trans_64b, bf16, 80, 1, 0, 64, 0)
WGMMA(wgmma_n56_f16_trans_32b, f16, 56, 1, 0, 32, 0)
WGMMA(wgmma_n112_f16_trans_none, f16, 112, 1, 0, 0, 0)
WGMMA(wgmma_n64_bf16_trans_a, bf16, 64, 0, 1, 128, 0)
WGMMA(wgmma_n120_f16_trans_both_64b, f16, 120, 1, 1, 64, 0)
WGMMA(wgmma_n144_f16_trans_both_none, f16, 144, 1, 1, 0, 0)
WGMMA(wgmma_n64_f16_registers, f16, 64, 1, 0, 128, 1)
WGMMA(wgmma_n240_bf16_registers, bf16, 240, 1, 0, 128, 1)
WGMMA(wgmma_n88_f16_registers, f16, 88, 0, 0, 128, 1)

extern "C" __global__ void bulk_ring(const uint4* in, uint4* out) { HOPPER(play_bulk_ring(in, out)); }
extern "C" __global__ void bulk_stores(const uint4* in, uint4* out) { HOPPER(play_bulk_stores(in, out)); }
extern "C" __global__ void clusters(const float* in, float* out) { HOPPER(play_clusters(in, out)); }
extern "C" __global__ void __launch_bounds__(256, 1) registers_and_elections(const unsigned* in, unsigned* out) {
    HOPPER(play_registers_and_elections(in, out));
}

#define BOXES(rank)                                                                                                   \
    extern "C" __global__ void box_load_##rank##d(const __grid_constant__ evo::tensor_map map, const unsigned*,       \
                                                  const int* places, unsigned* out) {                                 \
        HOPPER((play_box_load<rank>(map, places, out, AxesTo<rank>::type())));                                        \
    }                                                                                                                 \
    extern "C" __global__ void box_store_##rank##d(const __grid_constant__ evo::tensor_map map, const unsigned* in,   \
                                                   const int* places, unsigned*) {                                    \
        HOPPER((play_box_store<rank>(map, in, places, AxesTo<rank>::type())));                                        \
    }
BOXES(1)
BOXES(2)
BOXES(3)
BOXES(4)
BOXES(5)
extern "C" __global__ void box_multicast_2d(const __grid_constant__ evo::tensor_map map, const unsigned*,
                                            const int* places, unsigned* out) {
    HOPPER(play_box_multicast(map, places, out));
}
