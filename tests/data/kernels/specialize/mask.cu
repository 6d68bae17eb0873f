extern "C" __global__ void mask(const float* x, float* y, int rows, int, int) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= rows * C) return;
#if MASKED
    y[at] = at % C <= at / C ? 2.0f * x[at] : 0.0f;
#else
    y[at] = 2.0f * x[at];
#endif
}
