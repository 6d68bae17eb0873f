#include "own.cuh"
#include <factor.cuh>
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) y[i] = own_factor() * COMMON_FACTOR * x[i];
}
