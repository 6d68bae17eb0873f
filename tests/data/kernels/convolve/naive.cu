extern "C" __global__ void naive(const float* x, float* y, const float* filter, float* sums, int n) {
    for (int i = 0; i < n; ++i) {
        double sum = 0.0;
        for (int tap = 0; tap < 5; ++tap) sum += (i + tap < n ? (double)x[i + tap] : 0.0) * filter[tap];
        y[i] = sum;
    }
    double all = 0.0;
    for (int tap = 0; tap < 5; ++tap) all += filter[tap];
    sums[0] = all;
    sums[1] = all * x[0];
}
