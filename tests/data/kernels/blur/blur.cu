#if RADIUS < 1
#error "no radius"
#endif
extern "C" __global__ void blur(const float* x, float* y) {
    __shared__ float row[WIDTH + 2 * RADIUS];
    const float* own = x + blockIdx.x * WIDTH;
    for (int i = threadIdx.x; i < WIDTH + 2 * RADIUS; i += BLOCK) {
        int at = i - RADIUS;
        row[i] = at >= 0 && at < WIDTH ? own[at] : 0.0f;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < WIDTH; i += BLOCK) {
        float sum = 0.0f;
        #pragma unroll
        for (int k = 0; k <= 2 * RADIUS; ++k) sum += row[i + k];
        y[blockIdx.x * WIDTH + i] = sum;
    }
}
