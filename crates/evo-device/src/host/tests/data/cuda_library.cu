// libcu++, CUB and the small headers of CUDA: what they compute, and what they find.
//@ arguments: const int* x[4096] = i, int* out[1633]
//@ launch: 1 x 64
#include <cooperative_groups.h>
#include <cuComplex.h>
#include <cub/cub.cuh>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/cmath>
#include <cuda/std/cstdint>
#include <cuda/std/limits>
#include <cuda/std/span>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>
#include <cuda_fp8.h>
#include <nv/target>
namespace cg = cooperative_groups;
constexpr int BLOCK = 96, ITEMS = 4;
struct Running { int total; __device__ int operator()(int all) { int old = total; total += all; return old; } };
__device__ int bits(double x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_double_to_fp8(x, saturate, kind);
}
template <class Number> __device__ cuda::std::enable_if_t<cuda::std::is_integral_v<Number>, int> kind(Number) { return 1; }
template <class Number> __device__ cuda::std::enable_if_t<cuda::std::is_floating_point_v<Number>, int> kind(Number) { return 2; }

//@ case: atomics with scopes
cuda::atomic_ref<int, cuda::thread_scope_device> sum(out[0]);
sum.fetch_add(x[threadIdx.x], cuda::std::memory_order_relaxed);
cuda::atomic_ref<float> real(*(float*)&out[1]);
real.fetch_add(0.5f);
cuda::atomic_ref<int>(out[2]).fetch_max(x[threadIdx.x]);
__shared__ cuda::atomic<int, cuda::thread_scope_block> own;
if (threadIdx.x == 0) own.store(10);
__syncthreads();
own++;
own -= 2;
__syncthreads();
if (threadIdx.x == 0) {
    out[3] = own.load(cuda::memory_order_acquire);
    int expected = 5;
    out[4] = own.compare_exchange_strong(expected, 7) * 1000 + expected;
    out[5] = own.compare_exchange_strong(expected, 7) * 1000 + own;
    cuda::std::atomic<int*> at(out);
    at.fetch_add(3);
    out[6] = (int)(at.load() - out);
}
cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_device);
//@ gives:
const int expected[] = {2016, __float_as_int(32), 63, -54, -54, 1007, 3};
for (int i = 0; i < 7; i++) out[i] = expected[i];

//@ case: a flag that another warp sets is waited for
__shared__ cuda::atomic<int, cuda::thread_scope_block> flag;
if (threadIdx.x == 0) flag.store(0);
__syncthreads();
if (threadIdx.x == 0) { flag.wait(0); out[0] = flag; }
if (threadIdx.x == 40) { flag.store(x[9]); flag.notify_all(); }
//@ gives:
out[0] = 9;

//@ case: a copy on a barrier lands when its phase ends
__shared__ cuda::barrier<cuda::thread_scope_block> bar;
__shared__ int tile[100];
auto block = cg::this_thread_block();
if (block.thread_rank() == 0) init(&bar, block.size());
block.sync();
for (int round = 0; round < 3; round++) {
    cuda::memcpy_async(block, tile, x + round, sizeof(int) * 99, bar);
    if (threadIdx.x == 0) cuda::memcpy_async(tile + 99, x + 7, cuda::aligned_size_t<4>(4), bar);
    auto token = bar.arrive();
    block.sync();
    out[threadIdx.x] = tile[threadIdx.x];
    block.sync();
    bar.wait(std::move(token));
    out[64 + threadIdx.x] = tile[99 - threadIdx.x];
    bar.arrive_and_wait();
}
//@ gives:
for (int i = 0; i < 64; i++) out[i] = -1, out[64 + i] = i == 0 ? 7 : 101 - i;

//@ case: a thread that never arrives at a barrier
//@ finds: divergent_barrier:block | *threads 0-4, 6-63 wait at line 15 (`evo::mbarrier_wait` for parity 1, barrier in static shared memory, phase 1: 63 of 64 arrivals), thread 5 has returned*
__shared__ cuda::barrier<cuda::thread_scope_block> bar;
__shared__ int tile[100];
auto block = cg::this_thread_block();
if (block.thread_rank() == 0) init(&bar, block.size());
block.sync();
for (int round = 0; round < 3; round++) {
    cuda::memcpy_async(block, tile, x + round, sizeof(int) * 99, bar);
    if (threadIdx.x == 0) cuda::memcpy_async(tile + 99, x + 7, cuda::aligned_size_t<4>(4), bar);
    auto token = bar.arrive();
    block.sync();
    out[threadIdx.x] = tile[threadIdx.x];
    block.sync();
    bar.wait(std::move(token));
    out[64 + threadIdx.x] = tile[99 - threadIdx.x];
    if (threadIdx.x != 5) bar.arrive_and_wait(); else return;
}

//@ case: pipelines of a block and of a thread
__shared__ int tile[2][64];
__shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state, roles;
auto block = cg::this_thread_block();
int rank = block.thread_rank(), sum = 0, early = 0;
auto pipe = cuda::make_pipeline(block, &state);
for (int at = 0, ahead = 0; at < 5; at++) {
    for (; ahead < 5 && ahead < at + 2; ahead++) {
        pipe.producer_acquire();
        cuda::memcpy_async(block, tile[ahead % 2], x + 64 * ahead, sizeof(int) * 64, pipe);
        pipe.producer_commit();
    }
    block.sync();
    early += tile[at % 2][63 - rank] == -1;
    block.sync();
    pipe.consumer_wait();
    sum += tile[at % 2][63 - rank];
    pipe.consumer_release();
}
out[rank] = sum;
out[64 + rank] = early;
block.sync();
auto own = cuda::make_pipeline();
int late = 0;
for (int at = 0; at < 2; at++) {
    own.producer_acquire();
    cuda::memcpy_async(&tile[at][rank], x + 100 * at + rank, sizeof(int), own);
    own.producer_commit();
}
cuda::pipeline_consumer_wait_prior<1>(own);
late = tile[0][rank] * 1000 + tile[1][rank];
own.consumer_release();
own.consumer_wait();
out[128 + rank] = late;
out[192 + rank] = tile[1][rank];
block.sync();
auto split = cuda::make_pipeline(block, &roles, rank < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer);
auto half = cg::tiled_partition<32>(block);
for (int at = 0; at < 4; at++) {
    if (rank < 32) {
        split.producer_acquire();
        cuda::memcpy_async(half, tile[at % 2], x + 10 * at, sizeof(int) * 32, split);
        split.producer_commit();
    } else {
        split.consumer_wait();
        out[256 + rank] += tile[at % 2][63 - rank];
        split.consumer_release();
    }
}
//@ gives:
for (int rank = 0; rank < 64; rank++) {
    out[rank] = 640 + 5 * (63 - rank);
    out[64 + rank] = 5;
    out[128 + rank] = rank * 1000 - 1;
    out[192 + rank] = 100 + rank;
    out[256 + rank] = rank < 32 ? 0 : 60 + 4 * (63 - rank);
}

//@ case: block and warp primitives of CUB
//@ launch: 1 x 96
typedef cub::BlockReduce<int, BLOCK> Reduce;
typedef cub::BlockScan<int, BLOCK> Scan;
typedef cub::BlockLoad<int, BLOCK, ITEMS, cub::BLOCK_LOAD_TRANSPOSE> Load;
typedef cub::BlockLoad<int, BLOCK, ITEMS, cub::BLOCK_LOAD_WARP_TRANSPOSE> LoadWarp;
typedef cub::BlockStore<int, BLOCK, ITEMS, cub::BLOCK_STORE_TRANSPOSE> Store;
typedef cub::BlockRadixSort<int, BLOCK, ITEMS, short> Sort;
typedef cub::BlockExchange<int, BLOCK, ITEMS> Exchange;
__shared__ union {
    typename Reduce::TempStorage reduce; typename Scan::TempStorage scan; typename Load::TempStorage load;
    typename LoadWarp::TempStorage load_warp; typename Store::TempStorage store; typename Sort::TempStorage sort;
    typename Exchange::TempStorage exchange;
} temp;
int rank = threadIdx.x, items[ITEMS], sums[ITEMS], all;
Load(temp.load).Load(x, items);
__syncthreads();
Scan(temp.scan).ExclusiveSum(items, sums, all);
__syncthreads();
Store(temp.store).Store(out, sums);
__syncthreads();
int sum = Reduce(temp.reduce).Sum(items);
__syncthreads();
int most = Reduce(temp.reduce).Reduce(rank % 50, cub::Max(), 70);
__syncthreads();
out[384 + rank] = rank == 0 ? sum == all : sum;
if (rank == 0) out[480] = most;
LoadWarp(temp.load_warp).Load(x, items, 101, -7);
__syncthreads();
out[481 + rank] = items[0] + items[3];
Running running = {1000};
int before;
Scan(temp.scan).ExclusiveSum(1, before, running);
__syncthreads();
out[577 + rank] = before;
short values[ITEMS];
for (int item = 0; item < ITEMS; item++) items[item] = (rank * ITEMS + item) * 37 % 101 - 50, values[item] = rank * ITEMS + item;
Sort(temp.sort).Sort(items, values);
__syncthreads();
Exchange(temp.exchange).BlockedToStriped(items);
for (int item = 0; item < ITEMS; item++) out[673 + item * BLOCK + rank] = items[item], out[1057 + rank * ITEMS + item] = values[item];
typedef cub::WarpReduce<int, 16> Part;
__shared__ typename Part::TempStorage parts[6];
int part = Part(parts[rank / 16]).Sum(rank, 10);
out[1441 + rank] = part;
typedef cub::WarpScan<int> WarpScan;
__shared__ typename WarpScan::TempStorage scans[3];
int inclusive, warp_all;
WarpScan(scans[rank / 32]).InclusiveSum(rank, inclusive, warp_all);
out[1537 + rank] = inclusive * 10 + (warp_all == 496 + rank / 32 * 1024);
//@ gives:
for (int i = 0; i < 384; i++) out[i] = i * (i - 1) / 2;
// The sum is the first thread's.
for (int i = 0; i < 96; i++) out[384 + i] = i == 0 ? 1 : -1;
out[480] = 49;
for (int rank = 0; rank < 96; rank++) {
    out[481 + rank] = (4 * rank < 101 ? 4 * rank : -7) + (4 * rank + 3 < 101 ? 4 * rank + 3 : -7);
    out[577 + rank] = 1000 + rank;
    int first = rank / 16 * 16, inclusive = 0;
    for (int lane = rank / 32 * 32; lane <= rank; lane++) inclusive += lane;
    out[1441 + rank] = rank == first ? 10 * first + 45 : -1;
    out[1537 + rank] = inclusive * 10 + 1;
}
// A stable sort.
int place = 0;
for (int key = -50; key < 51; key++)
    for (int at = 0; at < 384; at++)
        if (at * 37 % 101 - 50 == key) out[673 + place] = key, out[1057 + place] = at, place++;

//@ case: a block of another size than CUB is made for
//@ launch: 1 x 96
//@ finds: crash_*block of another size*
typedef cub::BlockReduce<int, 64> Reduce;
__shared__ Reduce::TempStorage temp;
out[0] = Reduce(temp).Sum(x[0]);

//@ case: a thread that stays away from a reduction
//@ finds: divergent_barrier:block | *at line 4 (`__shfl_sync`*
typedef cub::BlockReduce<int, 64> Reduce;
__shared__ Reduce::TempStorage temp;
if (threadIdx.x < 63)
    out[0] = Reduce(temp).Sum(x[0]);

//@ case: numbers of eight bits
//@ launch: 1 x 1
double given[] = {1.0, -0.15625, 448.0, 464.0, 465.0, 1e30, 0x1p-9, 0x1p-10, 0x1.8p-10, 1.0625, 1.1875, -0.0};
for (int at = 0; at < 12; at++) {
    out[2 * at] = bits(given[at], __NV_SATFINITE, __NV_E4M3) << 8 | bits(given[at], __NV_NOSAT, __NV_E4M3);
    out[2 * at + 1] = bits(given[at], __NV_SATFINITE, __NV_E5M2) << 8 | bits(given[at], __NV_NOSAT, __NV_E5M2);
}
int wrong = 0;
for (int code = 0; code < 256; code++) {
    __nv_fp8_e4m3 a; __nv_fp8_e5m2 b;
    a.__x = b.__x = (unsigned char)code;
    float wide = float(a), wider = float(b);
    wrong += wide == wide && __nv_fp8_e4m3(wide).__x != code;
    wrong += wider == wider && !isinf(wider) && __nv_fp8_e5m2(wider).__x != code;
    wrong += isnan(wide) != ((code & 127) == 127);
}
out[24] = wrong;
float4 four = float4(__nv_fp8x4_e4m3(make_float4(1, 2, 3.3f, -500)));
out[25] = (int)(four.x + 10 * four.y + 100 * four.z + four.w);
out[26] = __half_as_ushort(__half(__nv_cvt_fp8_to_halfraw(0x7e, __NV_E4M3)));
//@ gives:
const int expected[] = {
0x3838, 0x3c3c, 0xa2a2, 0xb1b1, 0x7e7e, 0x5f5f, 0x7e7e, 0x5f5f, 0x7e7f, 0x5f5f, 0x7e7f, 0x7b7c,
0x0101, 0x1818, 0x0000, 0x1414, 0x0101, 0x1616, 0x3838, 0x3c3c, 0x3a3a, 0x3d3d, 0x8080, 0x8080,
    0, 1 + 20 + 325 - 448, 0x5f00};
for (int i = 0; i < 27; i++) out[i] = expected[i];

//@ case: the library of the device and its targets
//@ launch: 1 x 1
cuda::std::array<int, 3> three = {1, 2, 3};
cuda::std::span<const int> seen(x, 10);
out[0] = three.size() + three[2] + seen.subspan(4)[1];
out[1] = cuda::std::get<1>(cuda::std::make_tuple(1, 5)) + kind(1) + 10 * kind(1.0f);
out[2] = (int)cuda::std::sqrt(49.0f) + (cuda::std::numeric_limits<cuda::std::uint8_t>::max() == 255);
out[3] = cuda::std::popcount(0xf0u) + 10 * cuda::std::countl_zero((unsigned char)1) + 1000 * cuda::std::bit_ceil(5u);
out[4] = cuda::std::bit_cast<int>(1.0f);
NV_IF_TARGET(NV_PROVIDES_SM_80, (out[5] = 1;), (out[5] = 2;))
NV_DISPATCH_TARGET(NV_PROVIDES_SM_100, (out[6] = 1;), NV_PROVIDES_SM_70, (out[6] = 2;))
cuFloatComplex product = cuCmulf(make_cuFloatComplex(1, 2), make_cuFloatComplex(3, -4));
cuDoubleComplex ratio = cuCdiv(make_cuDoubleComplex(11, 2), make_cuDoubleComplex(3, -4));
out[7] = (int)(product.x * 100 + product.y);
out[8] = (int)(cuCabs(make_cuDoubleComplex(3, 4)) + 10 * ratio.x + 100 * ratio.y);
//@ gives:
const int expected[] = {11, 26, 8, 8074, 0x3f800000, 1, 2, 1102, 215};
for (int i = 0; i < 9; i++) out[i] = expected[i];
