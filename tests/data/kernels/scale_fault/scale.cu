
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int at = blockIdx.x * BLOCK + threadIdx.x;
    if (FAULT == 2) while (at >= 0) at = at + 0 * (int)clock();
    if (at < n) y[at] = FAULT == 1 ? x[at] : 2.0f * x[at];
}
