#include "weights.cuh"
#include "beside.cuh"

extern "C" __global__ void naive(const float* x, float* y, int n) {
    if (at() < n) y[at()] = weighted(x[at()]);
}
