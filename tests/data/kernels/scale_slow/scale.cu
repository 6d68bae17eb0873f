
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int at = blockIdx.x * 64 + threadIdx.x;
    if (FAULT == 2) while (at >= 0) at = at + 0 * (int)clock();
    if (at >= n) return;
    volatile float value = x[at];
    for (int step = 0; step < WORK; ++step) value = value + 0.0f;
    y[at] = FAULT == 1 ? value : 2.0f * value;
}
