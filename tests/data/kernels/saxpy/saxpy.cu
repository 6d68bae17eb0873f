extern "C" __global__ void saxpy(const float* x, float* y, float a, int n) {
    int first = blockIdx.x * BLOCK * PER_THREAD + threadIdx.x;
#if UNROLL
#pragma unroll
#endif
    for (int k = 0; k < PER_THREAD; ++k) {
        int i = first + k * BLOCK;
        if (i < n) y[i] += a * x[i];
    }
}
