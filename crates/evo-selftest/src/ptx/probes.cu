// Every instruction of `evo/ptx.cuh` on data that the host knows, for `evo-selftest ptx`: a warp a block, a case a block.
#include <evo/ptx.cuh>

// Fragments by plain loads: the layouts are what is tested.
template <int WORDS, int DEPTH>
__device__ void load_operands(const unsigned short* a, const unsigned short* b, unsigned (&left)[WORDS],
                              unsigned (&right)[WORDS / 2]) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    for (int i = 0; i < WORDS; ++i) {
        const unsigned short* from = a + (g + i % 2 * 8) * DEPTH + 2 * t + i / 2 * 8;
        left[i] = from[0] | static_cast<unsigned>(from[1]) << 16;
    }
    for (int i = 0; i < WORDS / 2; ++i) {
        const unsigned short* from = b + (2 * t + 8 * i) * 8 + g;
        right[i] = from[0] | static_cast<unsigned>(from[8]) << 16;
    }
}

__device__ void load_sums(const float* c, float (&sums)[4]) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    for (int i = 0; i < 4; ++i) sums[i] = c[(g + i / 2 * 8) * 8 + 2 * t + i % 2];
}
__device__ void store_sums(float* d, const float (&sums)[4]) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    for (int i = 0; i < 4; ++i) d[(g + i / 2 * 8) * 8 + 2 * t + i % 2] = sums[i];
}
__device__ void load_sums(const unsigned short* c, unsigned (&sums)[2]) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    for (int i = 0; i < 2; ++i) {
        const unsigned short* from = c + (g + i * 8) * 8 + 2 * t;
        sums[i] = from[0] | static_cast<unsigned>(from[1]) << 16;
    }
}
__device__ void store_sums(unsigned short* d, const unsigned (&sums)[2]) {
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    for (int i = 0; i < 2; ++i) {
        unsigned short* to = d + (g + i * 8) * 8 + 2 * t;
        to[0] = static_cast<unsigned short>(sums[i]);
        to[1] = static_cast<unsigned short>(sums[i] >> 16);
    }
}

// `Sum` is what an accumulator is in memory, `Register` and PLACES what it is in a lane.
#define MMA(entry, instruction, operand, depth, Sum, Register, places)                                                \
    extern "C" __global__ void entry(const unsigned short* a, const unsigned short* b, const Sum* c, Sum* d) {        \
        unsigned left[depth / 4], right[depth / 8];                                                                   \
        Register sums[places];                                                                                        \
        load_operands<depth / 4, depth>(a + blockIdx.x * 16 * depth, b + blockIdx.x * 8 * depth, left, right);        \
        load_sums(c + blockIdx.x * 128, sums);                                                                        \
        evo::instruction<evo::operand>(sums, left, right, sums);                                                      \
        store_sums(d + blockIdx.x * 128, sums);                                                                       \
    }
MMA(mma_k16_f16_f32, mma_m16n8k16, f16, 16, float, float, 4)
MMA(mma_k16_bf16_f32, mma_m16n8k16, bf16, 16, float, float, 4)
MMA(mma_k16_f16_f16, mma_m16n8k16, f16, 16, unsigned short, unsigned, 2)
MMA(mma_k8_f16_f32, mma_m16n8k8, f16, 8, float, float, 4)
MMA(mma_k8_bf16_f32, mma_m16n8k8, bf16, 8, float, float, 4)
MMA(mma_k8_f16_f16, mma_m16n8k8, f16, 8, unsigned short, unsigned, 2)

// Rows of matrices lie scattered: row r of 32 in place 5 r + 3.
__device__ int place_of(int row) { return (5 * row + 3) % 32; }

__device__ void fill_rows(uint4* rows, const uint4* from) {
    rows[place_of(threadIdx.x)] = from[blockIdx.x * 32 + threadIdx.x];
    __syncwarp();
}

#define LOAD(entry, call, count)                                                                                      \
    extern "C" __global__ void entry(const uint4* matrices, unsigned* out) {                                          \
        __shared__ uint4 rows[32];                                                                                    \
        fill_rows(rows, matrices);                                                                                    \
        unsigned r[4] = {};                                                                                           \
        const void* row = rows + place_of(threadIdx.x % (8 * count));                                                 \
        call;                                                                                                         \
        for (int i = 0; i < count; ++i) out[(blockIdx.x * 32 + threadIdx.x) * 4 + i] = r[i];                          \
    }
LOAD(load_x1, evo::ldmatrix_x1(r[0], row), 1)
LOAD(load_x2, evo::ldmatrix_x2(r[0], r[1], row), 2)
LOAD(load_x4, evo::ldmatrix_x4(r[0], r[1], r[2], r[3], row), 4)
LOAD(load_x1_trans, evo::ldmatrix_x1_trans(r[0], row), 1)
LOAD(load_x2_trans, evo::ldmatrix_x2_trans(r[0], r[1], row), 2)
LOAD(load_x4_trans, evo::ldmatrix_x4_trans(r[0], r[1], r[2], r[3], row), 4)

// stmatrix exists from sm_90 on; before it nobody launches these.
#if defined(EVO_HOST) || __CUDA_ARCH__ >= 900
#define STORE_CALL(call) call
#else
#define STORE_CALL(call)
#endif
#define STORE(entry, call)                                                                                            \
    extern "C" __global__ void entry(const unsigned* in, uint4* out) {                                                \
        __shared__ uint4 rows[32];                                                                                    \
        const unsigned* r = in + (blockIdx.x * 32 + threadIdx.x) * 4;                                                 \
        rows[threadIdx.x] = make_uint4(0, 0, 0, 0);                                                                   \
        __syncwarp();                                                                                                 \
        void* row = rows + place_of(threadIdx.x);                                                                     \
        STORE_CALL(call);                                                                                             \
        (void)r, (void)row;                                                                                           \
        __syncwarp();                                                                                                 \
        out[blockIdx.x * 32 + threadIdx.x] = rows[place_of(threadIdx.x)];                                             \
    }
STORE(store_x1, evo::stmatrix_x1(row, r[0]))
STORE(store_x2, evo::stmatrix_x2(row, r[0], r[1]))
STORE(store_x4, evo::stmatrix_x4(row, r[0], r[1], r[2], r[3]))
STORE(store_x1_trans, evo::stmatrix_x1_trans(row, r[0]))
STORE(store_x2_trans, evo::stmatrix_x2_trans(row, r[0], r[1]))
STORE(store_x4_trans, evo::stmatrix_x4_trans(row, r[0], r[1], r[2], r[3]))

// Each lane copies its own 16 bytes, piece by piece; `source` says how many bytes of each piece are read.
#define COPY(entry, bytes, call)                                                                                      \
    extern "C" __global__ void entry(const unsigned char* in, const unsigned* source, unsigned char* out) {           \
        __shared__ uint4 tile[32];                                                                                    \
        tile[threadIdx.x] = make_uint4(~0u, ~0u, ~0u, ~0u);                                                           \
        unsigned char* own = reinterpret_cast<unsigned char*>(tile + threadIdx.x);                                    \
        const size_t first = (static_cast<size_t>(blockIdx.x) * 32 + threadIdx.x) * 16;                               \
        const unsigned read = source[blockIdx.x * 32 + threadIdx.x];                                                  \
        for (int at = 0; at < 16; at += bytes) {                                                                      \
            unsigned char* to = own + at;                                                                             \
            const unsigned char* from = in + first + at;                                                              \
            call;                                                                                                     \
        }                                                                                                             \
        evo::cp_async_wait_all();                                                                                     \
        *reinterpret_cast<uint4*>(out + first) = tile[threadIdx.x];                                                   \
        (void)read;                                                                                                   \
    }
COPY(copy_ca_4, 4, evo::cp_async_ca<4>(to, from))
COPY(copy_ca_8, 8, evo::cp_async_ca<8>(to, from))
COPY(copy_ca_16, 16, evo::cp_async_ca<16>(to, from))
COPY(copy_cg_16, 16, evo::cp_async_cg(to, from))
COPY(copy_cg_16_l2, 16, evo::cp_async_cg<128>(to, from))
COPY(copy_ca_4_zfill, 4, evo::cp_async_ca_zfill<4>(to, from, read % 5))
COPY(copy_ca_8_zfill, 8, evo::cp_async_ca_zfill<8>(to, from, read % 9))
COPY(copy_ca_16_zfill, 16, evo::cp_async_ca_zfill<16>(to, from, read % 17))
COPY(copy_cg_16_zfill, 16, evo::cp_async_cg_zfill(to, from, read % 17))

// A ring of three stages over 9 tiles: neighbors' copies are read, so each step waits, then meets.
extern "C" __global__ void copy_groups(const uint4* in, uint4* out) {
    __shared__ uint4 ring[3][32];
    const uint4* own = in + blockIdx.x * 9 * 32;
    for (int tile = 0; tile < 2; ++tile) {
        evo::cp_async_cg(&ring[tile][threadIdx.x], own + tile * 32 + threadIdx.x);
        evo::cp_async_commit();
    }
    for (int tile = 0; tile < 9; ++tile) {
        evo::cp_async_wait<1>();
        __syncthreads();
        if (tile + 2 < 9) evo::cp_async_cg(&ring[(tile + 2) % 3][threadIdx.x], own + (tile + 2) * 32 + threadIdx.x);
        evo::cp_async_commit();
        out[(blockIdx.x * 9 + tile) * 32 + threadIdx.x] = ring[tile % 3][31 - threadIdx.x];
    }
}

// Two warps write, two read; barrier 1 says that a round is full, barrier 2 that it is empty again.
extern "C" __global__ void named_barriers(const unsigned* in, unsigned* out) {
    __shared__ unsigned slot[64];
    for (int round = 0; round < 8; ++round) {
        const int at = (blockIdx.x * 8 + round) * 64;
        if (threadIdx.x < 64) {
            if (round > 0) evo::bar_sync(2, 128);
            slot[threadIdx.x] = in[at + threadIdx.x];
            evo::bar_arrive(1, 128);
        } else {
            evo::bar_sync(1, 128);
            out[at + threadIdx.x - 64] = slot[127 - threadIdx.x];
            if (round < 7) evo::bar_arrive(2, 128);
        }
    }
}

extern "C" __global__ void exponentials(const float* in, float* out, float* out_ftz) {
    const int at = blockIdx.x * 32 + threadIdx.x;
    out[at] = evo::ex2(in[at]);
    out_ftz[at] = evo::ex2_ftz(in[at]);
}

extern "C" __global__ void packs(const float* in, unsigned* out_f16, unsigned* out_bf16) {
    const int at = blockIdx.x * 32 + threadIdx.x;
    out_f16[at] = evo::pack<evo::f16>(in[2 * at], in[2 * at + 1]);
    out_bf16[at] = evo::pack<evo::bf16>(in[2 * at], in[2 * at + 1]);
}

extern "C" __global__ void unpacks(const unsigned* in, float* out_f16, float* out_bf16) {
    const int at = blockIdx.x * 32 + threadIdx.x;
    evo::unpack<evo::f16>(in[at], out_f16[2 * at], out_f16[2 * at + 1]);
    evo::unpack<evo::bf16>(in[at], out_bf16[2 * at], out_bf16[2 * at + 1]);
}

extern "C" __global__ void reductions(const float* in, float* sums, float* tops) {
    const int at = blockIdx.x * 32 + threadIdx.x, all = gridDim.x * 32;
    const float value = in[at];
    sums[at] = evo::warp_sum<2>(value), tops[at] = evo::warp_max<2>(value);
    sums[all + at] = evo::warp_sum<4>(value), tops[all + at] = evo::warp_max<4>(value);
    sums[2 * all + at] = evo::warp_sum<8>(value), tops[2 * all + at] = evo::warp_max<8>(value);
    sums[3 * all + at] = evo::warp_sum<16>(value), tops[3 * all + at] = evo::warp_max<16>(value);
    sums[4 * all + at] = evo::warp_sum<32>(value), tops[4 * all + at] = evo::warp_max<32>(value);
}
