__device__ float table[4] = {1, 2, 3, 4};
template <int N> __device__ float folded(const float* x, int at) {
    float sum = 0;
    for (int i = 0; i < N; ++i) sum += x[(at + i) % N] * table[i % 4];
    return sum;
}
extern "C" __global__ void __launch_bounds__(128) scale(const float* x, float* y, int n) {
    __shared__ float tile[128];
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = at < n ? x[at] : 0;
    __syncthreads();
    if (at < n) y[at] = erff(tile[127 - threadIdx.x]) + folded<7>(x, at);
}
