#define WIDTH 8
template <typename T, int N>
__global__ void __launch_bounds__(N * 16) fill(T* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = T(N); }
namespace deep { template <int N> __global__ void fill(float* x) { x[threadIdx.x] = N; } }
__global__ void add(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] += 1; }
__global__ void add(double* x, int n) { if (threadIdx.x < n) x[threadIdx.x] += 2; }
__global__ void alone(float* x) { x[threadIdx.x] = 3; }
