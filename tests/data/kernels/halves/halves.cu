#include <cuda_fp16.h>
extern "C" __global__ void halves(const __half* x, __half* y, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    // Both steps round to a half, which near -1/6 is much of what is left.
    if (i < n) y[i] = __hadd(__hmul(x[i], __float2half(3.0f)), __float2half(0.5f));
}
