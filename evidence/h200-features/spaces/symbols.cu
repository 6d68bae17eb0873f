#if LIE == 3
#define KIND __device__
#else
#define KIND __constant__
#endif
namespace taps { KIND float d_filter[16]; }
__device__ float d_sums[4];

extern "C" __global__ void convolve(const float* x, float* y, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) {
        float sum = 0.0f;
        for (int tap = 0; tap < 5; ++tap)
            sum += (i + tap < n ? x[i + tap] : 0.0f) * (LIE == 1 ? 0.5f : taps::d_filter[tap]);
        y[i] = sum;
    }
    if (i == 0) {
        double all = 0.0;
        for (int tap = 0; tap < 5; ++tap) all += taps::d_filter[tap];
        d_sums[0] = all;
        if (LIE != 2) d_sums[1] = all * x[0];
#if LIE == 3
        taps::d_filter[4] = 0.25f;
#endif
        if (LIE == 4) d_sums[2] = 1.0f;
    }
}
