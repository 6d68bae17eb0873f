#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <vector>
#include <cuda_runtime.h>
#include "detail/random.h"

inline void cuda_check(cudaError_t status, const char* file, int line) {
    if (status != cudaSuccess) {
        fprintf(stderr, "%s:%d: %s\n", file, line, cudaGetErrorString(status));
        exit(EXIT_FAILURE);
    }
}
#define cudaCheck(err) (cuda_check(err, __FILE__, __LINE__))

template <class T> __host__ __device__ T ceil_div(T a, T b) { return (a + b - 1) / b; }
// Nothing is written on it, and a kernel calls it.
constexpr int tile() { return 64; }
__device__ inline float twice(float x) { return x + x; }
static float average(const std::vector<float>& all) { return all.empty() ? 0 : all[0]; }
