namespace taps { __constant__ float d_filter[16]; }
__device__ float d_sums[4];
extern "C" __global__ void convolve(const float* x, float* y, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) {
        float sum = 0.0f;
        for (int tap = 0; tap < 5; ++tap) sum += (i + tap < n ? x[i + tap] : 0.0f) * taps::d_filter[tap];
        y[i] = sum;
    }
    if (i == 0) {
        double all = 0.0;
        for (int tap = 0; tap < 5; ++tap) all += taps::d_filter[tap];
        d_sums[0] = all;
        d_sums[1] = all * x[0];
    }
}
