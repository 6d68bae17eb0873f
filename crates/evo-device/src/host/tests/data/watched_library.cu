// Watched launches of kernels that use groups, libcu++, CUB and Hopper's copies: honest uses pass, and storage that is
// used again without a barrier is a race.
//@ arguments: const float* in[100] = 1 (input), float* out[100] = 1 (output), float* work[256] = 1 (scratch), int* count[128], int n = 100
//@ launch: 2 x 64, shared 256
//@ watch: 1 0x123456789abcdef0
//@ setup: int t = threadIdx.x, b = blockIdx.x; (void)t; (void)b;
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/scan.h>
#include <cub/cub.cuh>
#include <cuda/pipeline>
#include <evo/ptx.cuh>
#include <mma.h>
namespace cg = cooperative_groups;
using namespace nvcuda;
using Sum = cub::BlockReduce<float, 64>;
using Scan = cub::BlockScan<float, 64>;

//@ case: temporary storage is used again behind a barrier only
//@ with BETWEEN: __syncthreads();
//@ finds: honest
//@ with BETWEEN:
//@ finds: nondeterministic:race | *
__shared__ Sum::TempStorage temp;
float a = Sum(temp).Sum(in[t]);
BETWEEN
float c = Sum(temp).Sum(in[t] + 1);
if (t == 0) out[b] = a + c;

//@ case: temporary storage of two kinds in one place
__shared__ union { Sum::TempStorage sum; Scan::TempStorage scan; } temp;
float all, own;
Scan(temp.scan).ExclusiveSum(in[t], own, all);
__syncthreads();
all += Sum(temp.sum).Sum(own);
if (t == 0) out[b] = all;

//@ case: copies on a barrier of libcu++
__shared__ float tile[64];
__shared__ cuda::barrier<cuda::thread_scope_block> bar;
auto block = cg::this_thread_block();
if (t == 0) init(&bar, 64);
block.sync();
for (int round = 0; round < 3; round++) {
    cuda::memcpy_async(block, tile, in, 256, bar);
    bar.arrive_and_wait();
    if (t < 50) out[t + 50 * b] = tile[63 - t];
    bar.arrive_and_wait();
}

//@ case: a copy of a group
__shared__ float tile[64];
auto block = cg::this_thread_block();
cg::memcpy_async(block, tile, in, 256);
cg::wait(block);
if (t < 50) out[t + 50 * b] = tile[63 - t];

//@ case: a pipeline of two stages
__shared__ float tile[2][64];
__shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
auto block = cg::this_thread_block();
auto pipe = cuda::make_pipeline(block, &state);
float sum = 0;
for (int at = 0, ahead = 0; at < 4; at++) {
    for (; ahead < 4 && ahead < at + 2; ahead++) {
        pipe.producer_acquire();
        cuda::memcpy_async(block, tile[ahead % 2], in, 256, pipe);
        pipe.producer_commit();
    }
    pipe.consumer_wait();
    sum += tile[at % 2][63 - t];
    pipe.consumer_release();
}
if (t < 50) out[t + 50 * b] = sum;

//@ case: atomic references
cuda::atomic_ref<int, cuda::thread_scope_device> all(count[0]);
all.fetch_add(1);
cuda::atomic_ref<int>(count[1]).fetch_max(t);

//@ case: tiles exchange through shared memory
//@ with SYNC: tile.sync();
//@ finds: honest
//@ with SYNC:
//@ finds: nondeterministic:race | *
__shared__ float own[64];
auto tile = cg::tiled_partition<8>(cg::this_thread_block());
own[t] = in[t];
SYNC
float x = own[t ^ 7];
x = cg::reduce(tile, x, cg::plus<float>()) + cg::exclusive_scan(tile, x);
if (t < 50) out[t + 50 * b] = x;

//@ case: the lane that multiplies for a warp reads what the others hold
//@ with BETWEEN: __syncthreads();
//@ finds: honest
//@ with BETWEEN:
//@ finds: nondeterministic:race | *
__shared__ __align__(32) float tile[256];
wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major> x;
wmma::fragment<wmma::matrix_b, 16, 16, 8, wmma::precision::tf32, wmma::row_major> y;
wmma::fragment<wmma::accumulator, 16, 16, 8, float> z;
for (int i = t; i < 256; i += 64) tile[i] = in[i % n];
BETWEEN
wmma::fill_fragment(z, 0.0f);
wmma::load_matrix_sync(x, tile, 16);
wmma::load_matrix_sync(y, tile, 16);
wmma::mma_sync(z, x, y, z);
__syncthreads();
if (t < 32) wmma::store_matrix_sync(tile, z, 16, wmma::mem_row_major);
__syncthreads();
if (t < 50) out[50 * b + t] = tile[t];

//@ case: a warp fills a ring of two stages and one reads it
//@ launch: 2 x 64, shared 320
//@ with FULL: evo::mbarrier_wait(full + i % 2, i / 2 & 1);
//@ finds: honest
//@ with FULL: if (t == 32) evo::mbarrier_wait(full + i % 2, i / 2 & 1); __syncwarp();
//@ finds: honest
//@ with FULL: if (t < 40) evo::mbarrier_wait(full + i % 2, i / 2 & 1);
//@ finds: nondeterministic:race | *without a barrier in between*
extern __shared__ __align__(128) float ring[];
evo::mbarrier* full = (evo::mbarrier*)(ring + 64);
evo::mbarrier* empty = full + 2;
if (t == 0) {
    for (int i = 0; i < 2; i++) {
        evo::mbarrier_init(full + i, 1);
        evo::mbarrier_init(empty + i, 1);
    }
    evo::fence_mbarrier_init();
}
__syncthreads();
if (t == 0) {
    for (int i = 0; i < 3; i++) {
        evo::mbarrier_wait(empty + i % 2, (i / 2 & 1) ^ 1);
        evo::mbarrier_arrive_expect_tx(full + i % 2, 128);
        evo::bulk_copy_load(ring + i % 2 * 32, in + 32 * i, 128, full + i % 2);
    }
}
if (t >= 32) {
    for (int i = 0; i < 3; i++) {
        FULL
        float own = ring[i % 2 * 32 + t - 32];
        __syncwarp();
        if (t == 32) evo::mbarrier_arrive(empty + i % 2);
        if (b == 0) out[32 * i + t - 32] = own;
    }
}

//@ case: who lets copies land has done nothing else since it did so before
//@ launch: 1 x 64, shared 320
extern __shared__ __align__(128) float stage[];
evo::mbarrier* full = (evo::mbarrier*)(stage + 32);
evo::mbarrier* empty = full + 1;
if (t == 0) {
    evo::mbarrier_init(full, 1);
    evo::mbarrier_init(empty, 1);
    evo::fence_mbarrier_init();
}
__syncthreads();
for (int i = 0; i < 3; i++) {
    if (t == 0) {
        evo::mbarrier_wait(empty, (i & 1) ^ 1);
        evo::mbarrier_arrive_expect_tx(full, 128);
        evo::bulk_copy_load(stage, in + 32 * i, 128, full);
    }
    if (t >= 32) evo::mbarrier_wait(full, i & 1);
    if (t == 63) evo::mbarrier_arrive(empty);
}

//@ case: a product of a warpgroup
//@ launch: 1 x 128, shared 4096
//@ finds: Unwritten*
extern __shared__ __align__(128) unsigned tile[];
for (int i = t; i < 256; i += 128) tile[i] = 0;
float d[4] = {};
evo::fence_proxy_async();
__syncthreads();
const unsigned long long place = evo::wgmma_descriptor(tile, 128, 256, 0);
evo::wgmma_fence();
for (int i = 0; i < 2; i++) evo::wgmma_m64k16<evo::f16, 8>(d, place, place, i);
evo::wgmma_commit();
evo::wgmma_wait<0>();
if (t < 25 && b == 0) for (int i = 0; i < 4; i++) out[4 * t + i] = d[i];

//@ case: a run that takes too long is given up
//@ finds: harness_error:budget | the instrumented run takes too long
float v = 0;
for (int i = 0; i < 100000; i++) v += *(volatile const float*)&in[i % n];
out[b * 2] = v;
