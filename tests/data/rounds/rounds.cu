extern "C" __global__ void rounds(const float* x, float* y, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= n) return;
    for (int round = 0; round < ROUNDS; round++) {
        volatile float sum = x[i];
        for (int k = 0; k < 20; k++) sum = sum + 1.0f;
        for (int k = 0; k < 20; k++) sum = sum - 1.0f;
        y[i] = 2.0f * x[i] + (sum > 1e30f ? 1.0f : 0.0f);
    }
}
