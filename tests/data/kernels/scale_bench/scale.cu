
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int at = blockIdx.x * 64 + threadIdx.x;
    if (at >= n) return;
    volatile float value = x[at];
    for (int step = 0; step < WORK; ++step) value = value + 0.0f;
    y[at] = FAULT == 1 && n == 500 ? value : 2.0f * value;
}
