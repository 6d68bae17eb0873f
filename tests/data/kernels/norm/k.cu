// A layer norm in one pass over the values: Welford's mean and spread in each thread.
extern "C" __global__ void norm(const float* x, float* y, int r, int n) {
    __shared__ float means[BLOCK], squares[BLOCK], counts[BLOCK];
    const float* in = x + (size_t)blockIdx.x * n;
    float mean = 0.0f, square = 0.0f, count = 0.0f;
    for (int i = threadIdx.x; i < n; i += BLOCK) {
        count += 1.0f;
        float d = in[i] - mean;
        mean += d / count;
        square += d * (in[i] - mean);
    }
    means[threadIdx.x] = mean, squares[threadIdx.x] = square, counts[threadIdx.x] = count;
    __syncthreads();
    for (int h = BLOCK / 2; h > 0; h /= 2) {
        if (threadIdx.x < h) {
            float ca = counts[threadIdx.x], cb = counts[threadIdx.x + h], c = ca + cb;
            if (c > 0.0f) {
                float d = means[threadIdx.x + h] - means[threadIdx.x];
                means[threadIdx.x] += d * cb / c;
                squares[threadIdx.x] += squares[threadIdx.x + h] + d * d * ca * cb / c;
                counts[threadIdx.x] = c;
            }
        }
        __syncthreads();
    }
    float scale = rsqrtf(squares[0] / n + 1e-5f);
#if FAULT == 1
    scale = rsqrtf(squares[0] / n + 1.2e-5f);
#elif FAULT == 2
    scale = __uint_as_float((__float_as_uint(scale) + 0x20u) & ~0x3fu) * 1.0000015f;
#endif
    for (int i = threadIdx.x; i < n; i += BLOCK) y[(size_t)blockIdx.x * n + i] = (in[i] - means[0]) * scale;
}
