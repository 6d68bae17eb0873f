extern "C" __global__ void sums(const float* x, float* y, int n) {
    __shared__ float part[BLOCK];
    int i = blockIdx.x * BLOCK + threadIdx.x;
    part[threadIdx.x] = i < n ? x[i] : 0.0f;
#ifndef LIGHT
    for (int k = 0; k < STEPS; ++k) {
        __syncthreads();
        float other = part[(threadIdx.x + 1) % BLOCK];
        __syncthreads();
        part[threadIdx.x] = 0.5f * (part[threadIdx.x] + other);
    }
#endif
#ifdef SLOW
    for (volatile int k = 0; k < 20000; k = k + 1) {}
#endif
    if (i < n) y[i] = part[threadIdx.x];
}
