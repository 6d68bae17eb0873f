#ifndef BLOCK
#define BLOCK 128
#endif
#ifndef ITEMS
#define ITEMS 4
#endif
#ifndef STAGE
#define STAGE 0
#endif
#define FIXED 3
#define TILE (BLOCK * ITEMS)

extern "C" __global__ void __launch_bounds__(BLOCK) k(const double* x, double* y, long long n) {
    long long tile = (long long)blockIdx.x * TILE;
#if STAGE
#endif
    for (int i = 0; i < ITEMS; ++i) {
        long long at = tile + threadIdx.x + i * BLOCK;
        if (at < n) y[at] = FIXED * x[at];
    }
}
