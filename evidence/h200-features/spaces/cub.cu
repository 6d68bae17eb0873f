#include <cub/cub.cuh>

extern "C" __global__ void cub_sums(const float* x, float* y, int n) {
    using Reduce = cub::BlockReduce<float, BLOCK>;
    __shared__ typename Reduce::TempStorage storage;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < 1024; i += BLOCK) {
        int at = blockIdx.x * 1024 + i;
        if (at < n && !(LIE == 1 && i == 1)) sum += x[at];
    }
    float all = Reduce(storage).Sum(sum);
    if (threadIdx.x == (LIE == 2 ? 1 : 0)) y[blockIdx.x] = all;
}
