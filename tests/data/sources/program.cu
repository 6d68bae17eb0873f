#include <stdio.h>
#include <stdlib.h>
#include <iostream>
#include <vector>
#include <chrono>
#include <cuda_runtime.h>
#include <helper_cuda.h>
#include "helper_functions.h"

#define CHECK(call)                                                                      \
    do {                                                                                 \
        cudaError_t status = (call);                                                     \
        if (status != cudaSuccess) {                                                     \
            fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
            exit(EXIT_FAILURE);                                                          \
        }                                                                                \
    } while (0)

typedef std::chrono::steady_clock Clock;
static std::vector<float> samples;
float *d_x = nullptr, *d_y = nullptr;

class Stopwatch {
public:
    Stopwatch() : begin(Clock::now()) {}
    double ms() const { return std::chrono::duration<double, std::milli>(Clock::now() - begin).count(); }
private:
    Clock::time_point begin;
};

struct Factors { float a, b; };
constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
__host__ __device__ inline float scaled(Factors f, float x) { return f.a * x + f.b; }
void launch(int n);

__global__ void warm(float* x) { x[threadIdx.x] = 0; }

__global__ void saxpy(float a, const float* x, float* y, int n) {
    __shared__ float tile[ceil_div(1000, 8)];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x % 125] = i < n ? x[i] : 0;
    if (i < n) y[i] = scaled({a, 0.0f}, x[i]) + y[i];
}

std::ostream& operator<<(std::ostream& out, const Factors& f) { return out << f.a << " " << f.b; }

void reference(float a, const std::vector<float>& x, std::vector<float>& y) {
    for (size_t i = 0; i < x.size(); ++i) y[i] = scaled({a, 0}, x[i]) + y[i];
}

void launch(int n) {
    warm<<<1, 32>>>(d_x);
    saxpy<<<ceil_div(n, 128), 128>>>(2.0f, d_x, d_y, n);
}

int main(int argc, char** argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 1 << 20;
    Stopwatch watch;
    CHECK(cudaMalloc(&d_x, n * sizeof(float)));
    launch(n);
    checkCudaErrors(cudaDeviceSynchronize());
    std::cout << Factors{1, 2} << watch.ms() << std::endl;
    return 0;
}
