#include "same.cuh"
#include "factor.cuh"
extern "C" __global__ void naive(const float* x, float* y, int n) {
    for (int i = 0; i < n; ++i) y[i] = SAME * COMMON_FACTOR * x[i];
}
