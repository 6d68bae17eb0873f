extern "C" __global__ __attribute__((no_sanitize("thread"))) void twin(const float *x, float *y, float *work, int n) {
    __shared__ float tile[64];
    __shared__ float unset[64];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    if (MODE != 6) tile[t] = i < n ? x[i] : 0.0f;
    float left = 0.0f;
    if (MODE == 1) left = tile[(t + 1) % 64] == 12345.5f ? 1.0f : 0.0f;
    if (MODE != 6) __syncthreads();
    if (MODE == 2 && n % 4 == 1 && i == 0 && x[n] == 12345.5f) left = 1.0f;
    if (MODE == 3 && unset[t] > 1e30f) left = 1.0f;
    if (MODE == 4 && unset[t] == unset[t] && i >= n) tile[t] = unset[t];
    if (MODE == 5) work[i % n] = i;
    volatile float *open = tile;
    if (MODE == 6 && t > 0 && i < n) left = open[t - 1] - x[i - 1];
    if (MODE == 6) open[t] = i < n ? x[i] : 0.0f;
#if defined(EVO_INSTRUMENTED) || defined(__SANITIZE_THREAD__)
    left = 0.0f;
#endif
    if (i < n) y[i] = 2.0f * tile[t] + left;
}
