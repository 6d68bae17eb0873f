#include <evo/ptx.cuh>
extern "C" __global__ void twice(const float* x, float* y, int tiles) {
    for (int i = threadIdx.x; i < tiles * 64; i += blockDim.x) y[i] = 2 * x[i];
}
extern "C" __global__ void ring(const float* x, float* y, int tiles) {
    __shared__ __align__(128) float stage[2][64];
    __shared__ evo::mbarrier full[2];
    __shared__ evo::mbarrier empty[2];
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) {
            evo::mbarrier_init(&full[i], 1);
            evo::mbarrier_init(&empty[i], 2);
        }
        evo::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x < 32) {
        if (evo::elect_one()) {
            for (int tile = 0; tile < tiles; ++tile) {
                evo::mbarrier_wait(&empty[tile % 2], (tile / 2 & 1) ^ 1);
                evo::mbarrier_arrive_expect_tx(&full[tile % 2], 256);
                evo::bulk_copy_load(stage[tile % 2], x + tile * 64, 256, &full[tile % 2]);
            }
        }
    } else {
        for (int tile = 0; tile < tiles; ++tile) {
            evo::mbarrier_wait(&full[tile % 2], tile / 2 & 1);
            y[tile * 64 + threadIdx.x - 32] = 2 * stage[tile % 2][threadIdx.x - 32];
            __syncwarp();
            if (threadIdx.x % 32 == 0) evo::mbarrier_arrive(&empty[tile % 2]);
        }
    }
}
