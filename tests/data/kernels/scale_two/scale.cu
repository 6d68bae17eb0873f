
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int at = blockIdx.x * 64 + threadIdx.x;
    if (at >= n) return;
    volatile float value = x[at];
    const int steps = n < 1000 ? SHORT : LONG;
    for (int step = 0; step < steps; ++step) value = value + 0.0f;
    y[at] = 2.0f * value;
}
