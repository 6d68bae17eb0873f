extern "C" __global__ void strided(const float* x, float* y, int m, int n, int ld) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < m * n) y[i] = 2.0f * x[i / n * ld + i % n];
}
