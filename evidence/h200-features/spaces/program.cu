#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <vector>
#include <chrono>
#include <cuda_runtime.h>

#define CHECK(call)                                                                         \
    do {                                                                                    \
        cudaError_t status = (call);                                                        \
        if (status != cudaSuccess) {                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
            exit(1);                                                                        \
        }                                                                                   \
    } while (0)

#ifndef BLOCK
#define BLOCK 128
#endif
#ifndef LIE
#define LIE 0
#endif

static std::vector<float> expected(const std::vector<float>& x) {
    std::vector<float> y;
    for (float own : x) y.push_back(own * own);
    return y;
}

__device__ float squared(float x) { return LIE ? fabsf(x) : x * x; }

__global__ void program(const float* x, float* y, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) y[i] = squared(x[i]);
}

int main(int argc, char** argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 1 << 20;
    std::vector<float> x(n, 3.0f), y(n);
    float *d_x, *d_y;
    CHECK(cudaMalloc(&d_x, n * sizeof(float)));
    CHECK(cudaMalloc(&d_y, n * sizeof(float)));
    CHECK(cudaMemcpy(d_x, x.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    auto began = std::chrono::steady_clock::now();
    program<<<(n + BLOCK - 1) / BLOCK, BLOCK>>>(d_x, d_y, n);
    CHECK(cudaDeviceSynchronize());
    std::cout << std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count() << " s\n";
    CHECK(cudaMemcpy(y.data(), d_y, n * sizeof(float), cudaMemcpyDeviceToHost));
    printf("%s\n", y == expected(x) ? "right" : "wrong");
    return 0;
}
