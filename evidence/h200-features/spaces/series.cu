extern "C" __global__ void series(const float* x, float* y, int n) {
    for (int k = 0; k < PER; ++k) {
        int i = (blockIdx.x * PER + k) * BLOCK + threadIdx.x;
        if (i < n) y[i] = (LIE && k == PER - 1 ? 3.5f : 3.0f) * x[i];
    }
}
