#include <cooperative_groups.h>
namespace cg = cooperative_groups;

extern "C" __global__ void grid_sync(const float* x, float* y, float* partial, int n) {
    cg::grid_group grid = cg::this_grid();
    float sum = 0.0f;
    for (unsigned long long i = grid.thread_rank(); i < n; i += grid.size()) sum += x[i];
    // Whoever does not wait reads what this block writes late.
    if (LIE == 1 && blockIdx.x == 1) for (int turn = 0; turn < 2000; ++turn) sum += 0.0f * x[turn % n];
    partial[grid.thread_rank()] = sum;
    if (LIE != 1) grid.sync();
    if (grid.thread_rank() != 0) return;
    float all = 0.0f;
    for (int k = 0; k < 2 * BLOCK - (LIE == 2); ++k) all += partial[k];
    y[0] = all;
}
