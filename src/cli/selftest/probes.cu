// Small kernels with known answers, for `evo selftest device`.

extern "C" __global__ void affine(const float* x, float* y, int n, float scale, double shift, long long bias) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = scale * x[i] + (float)shift + (float)bias;
}

extern "C" __global__ void increment(float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += 1.0f;
}

extern "C" __global__ void stray(float* y, int n, int offset) {
    if (blockIdx.x == 0 && threadIdx.x == 0) y[offset] = 1.0f;
}

extern "C" __global__ void shared_sum(const float* x, float* y, int n) {
    extern __shared__ float tile[];
    __shared__ float total[32];
    for (int i = threadIdx.x; i < n; i += blockDim.x) tile[i] = x[i];
    __syncthreads();
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += tile[n - 1 - i];
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
    if (threadIdx.x % 32 == 0) total[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        sum = 0.0f;
        for (int warp = 0; warp < (blockDim.x + 31) / 32; warp++) sum += total[warp];
        y[blockIdx.x] = sum;
    }
}

__device__ int known_calls;
static __device__ int hidden_calls = 5;
namespace {
__device__ float table[3] = {1.0f, 2.0f, 3.0f};
}

// Leaves something in every kind of variable.
extern "C" __global__ void remember(int* y) {
    static int local_calls;
    y[0] = ++known_calls;
    y[1] = ++hidden_calls;
    y[2] = ++local_calls;
    table[1] += 1.0f;
}

extern "C" __global__ void crash(float* y) {
    y[1ull << 40] = 1.0f;
}
