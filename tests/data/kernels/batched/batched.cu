extern "C" __global__ void batched(const float* x, float* y, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x, b = blockIdx.y;
    if (i < n) y[b * n + i] = 2.0f * x[(FAULT ? 0 : b * n) + i];
}
