// Cooperative groups: what they compute, copies that land at their wait, and groups that never meet.
//@ arguments: int* out[512]
//@ launch: 1 x 64
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda_pipeline.h>
namespace cg = cooperative_groups;

//@ case: scans and partitions of tiles
auto block = cg::this_thread_block();
int rank = block.thread_rank();
int* row = out + 8 * rank;
auto tile = cg::tiled_partition<16>(block);
row[0] = cg::inclusive_scan(tile, rank);
row[1] = cg::exclusive_scan(tile, rank, cg::greater<int>());
auto same = cg::labeled_partition(tile, rank % 3);
row[2] = same.size() * 100 + same.thread_rank();
row[3] = cg::reduce(same, rank, cg::plus<int>());
auto half = cg::binary_partition(tile, rank % 4 == 0);
row[4] = half.size() * 100 + half.meta_group_rank();
row[5] = half.shfl(rank, half.size() - 1);
row[6] = tile.match_any(rank / 2);
double wide = tile.shfl_xor((double)rank, 1);
struct { int a, b, c; } three = {rank, 2 * rank, 3 * rank};
row[7] = (int)wide + tile.shfl(three, 5).c;
//@ gives:
for (int rank = 0; rank < 64; rank++) {
    int first = rank / 16 * 16, place = rank % 16, sum = 0, alike = 0, among = 0, alike_sum = 0, side = 0, last = 0;
    for (int other = first; other < first + 16; other++) {
        if (other <= rank) sum += other;
        if (other % 3 == rank % 3) alike++, among += other < rank, alike_sum += other;
        if ((other % 4 == 0) == (rank % 4 == 0)) side++, last = other;
    }
    int* row = out + 8 * rank;
    row[0] = sum;
    row[1] = place == 0 ? 0 : rank - 1;
    row[2] = alike * 100 + among;
    row[3] = alike_sum;
    row[4] = side * 100 + (rank % 4 == 0);
    row[5] = last;
    row[6] = 3 << (place / 2 * 2);
    row[7] = (rank ^ 1) + 3 * (first + 5);
}

//@ case: groups of sizes that are known late
auto block = cg::this_thread_block();
int rank = block.thread_rank();
int* row = out + 4 * rank;
cg::thread_group whole = block, quarter = cg::tiled_partition(block, 8);
__shared__ int sum[8];
if (quarter.thread_rank() == 0) sum[rank / 8] = 0;
quarter.sync();
atomicAdd(&sum[rank / 8], rank);
cg::sync(quarter);
row[0] = sum[rank / 8];
row[1] = whole.size() * 1000 + whole.thread_rank();
row[2] = quarter.size() * 1000 + quarter.thread_rank();
cg::invoke_one(block, [&] { row[3] = 7; });
//@ gives:
for (int rank = 0; rank < 64; rank++) {
    int* row = out + 4 * rank;
    for (int other = rank / 8 * 8; other < rank / 8 * 8 + 8; other++) row[0] += other;
    row[1] = 64000 + rank;
    row[2] = 8000 + rank % 8;
    row[3] = rank == 0 ? 7 : 0;
}

//@ case: a group copy lands at its wait and no earlier
//@ arguments: const int* x[100] = i, int* out[320]
__shared__ int tile[2][96];
__shared__ int more[64];
auto block = cg::this_thread_block();
cg::memcpy_async(block, tile[0], x, sizeof(int) * 96);
cg::memcpy_async(block, tile[1], 96, x + 1, 1000);
out[block.thread_rank()] = tile[0][block.thread_rank()];
cg::wait_prior<1>(block);
out[64 + block.thread_rank()] = tile[0][95 - block.thread_rank()];
cg::wait(block);
out[128 + block.thread_rank()] = tile[1][95 - block.thread_rank()];
__pipeline_memcpy_async(&more[threadIdx.x], x + threadIdx.x, 4);
__pipeline_commit();
out[192 + threadIdx.x] = more[threadIdx.x];
__pipeline_wait_prior(0);
out[256 + threadIdx.x] = more[threadIdx.x];
//@ gives:
for (int rank = 0; rank < 64; rank++) {
    out[rank] = out[192 + rank] = -1;
    out[64 + rank] = 95 - rank;
    out[128 + rank] = 96 - rank;
    out[256 + rank] = rank;
}

//@ case: lanes that never come to their tile
//@ launch: 1 x 8
//@ finds: divergent_barrier:warp | threads 0-2 wait at line 3 (`__shfl_down_sync`, mask 0x000000ff), threads 3-7 have returned (block 0,0,0)
auto tile = cg::tiled_partition<8>(cg::this_thread_block());
if (threadIdx.x % 8 < 3)
    out[0] = tile.shfl_down(1, 1);

//@ case: a grid waits for all its blocks again and again
//@ arguments: int* out[64] = i
//@ launch: 2 x 32, cooperative
volatile int* at = out;
auto grid = cooperative_groups::this_grid();
int rank = (int)grid.thread_rank(), all = (int)grid.size();
for (int round = 0; round < 50; round++) {
    int other = at[(rank + 32) % all];
    grid.sync();
    at[rank] = other + 1;
    grid.sync();
}
//@ gives:
// An even number of rounds: each value is back where it was.
for (int i = 0; i < 64; i++) out[i] = i + 50;

//@ case: groups synchronize, shuffle and reduce
auto block = cg::this_thread_block();
auto tile = cg::tiled_partition<16>(block);
auto pair = cg::tiled_partition<2>(tile);
__shared__ int own[64];
int rank = block.thread_rank(), value = rank;
own[rank] = rank;
block.sync();
for (int lanes = tile.size() / 2; lanes > 0; lanes /= 2) value += tile.shfl_down(value, lanes);
int sum = tile.shfl(value, 0), most = cg::reduce(tile, rank, cg::greater<int>());
int odd = 0;
if (rank % 2 == 1) {
    auto some = cg::coalesced_threads();
    odd = some.size() * 100 + some.thread_rank();
}
out[6 * rank] = sum;
out[6 * rank + 1] = most;
out[6 * rank + 2] = tile.meta_group_rank() * 100 + tile.thread_rank();
out[6 * rank + 3] = pair.any(rank == 5);
out[6 * rank + 4] = odd;
out[6 * rank + 5] = own[63 - rank];
//@ gives:
for (int rank = 0; rank < 64; rank++) {
    int* row = out + 6 * rank;
    row[0] = 16 * (rank / 16 * 16) + 120;
    row[1] = rank / 16 * 16 + 15;
    row[2] = rank / 16 * 100 + rank % 16;
    row[3] = rank / 2 == 2;
    // A lane is a group by itself.
    row[4] = rank % 2 == 1 ? 100 : 0;
    row[5] = 63 - rank;
}

//@ case: lanes in different rounds of a loop are not one group: sums that lanes share by opportunity add up
//@ launch: 1 x 32
for (int bit = 0; bit < 4; bit++) {
    if (threadIdx.x >> bit & 1) {
        auto group = cg::coalesced_threads();
        if (group.thread_rank() == 0) atomicAdd(out + bit, (int)group.size());
    }
}
//@ gives:
for (int i = 0; i < 4; i++) out[i] = 16;
