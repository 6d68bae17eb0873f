#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

extern "C" __global__ void groups(const float* x, float* y, int n) {
    __shared__ float parts[BLOCK / 32];
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
    float sum = 0.0f;
    for (int i = block.thread_rank(); i < 1024; i += block.size()) {
        int at = blockIdx.x * 1024 + i;
        if (at < n) sum += x[at];
    }
    sum = cg::reduce(tile, sum, cg::plus<float>());
    if (tile.thread_rank() == 0) parts[tile.meta_group_rank()] = sum;
    block.sync();
    if (tile.meta_group_rank() == 0) {
        float own = tile.thread_rank() < tile.meta_group_size() - (LIE == 1) ? parts[tile.thread_rank()] : 0.0f;
        for (int step = tile.size() / 2; step > 0; step /= 2) own += tile.shfl_down(own, step);
        if (tile.thread_rank() == 0) y[blockIdx.x] = LIE == 2 ? own * 0.999f : own;
    }
}
