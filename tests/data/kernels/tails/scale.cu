extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) y[i] = (FAULT && i >= n / BLOCK * BLOCK) ? x[i] : 2.0f * x[i];
}
