extern "C" __global__ void naive(const float* x, float* y, const float* filter, float* sums, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double sum = 0.0;
    for (int tap = 0; tap < 5; ++tap) sum += (i + tap < n ? (double)x[i + tap] : 0.0) * filter[tap];
    y[i] = sum;
    if (i > 0) return;
    double all = 0.0;
    for (int tap = 0; tap < 5; ++tap) all += filter[tap];
    sums[0] = all;
    sums[1] = all * x[0];
}
