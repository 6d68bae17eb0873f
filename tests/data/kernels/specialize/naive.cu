extern "C" __global__ void naive(const float* x, float* y, int rows, int columns, int masked) {
    const int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= rows * columns) return;
    const bool seen = masked == 0 || at % columns <= at / columns;
    y[at] = seen ? 2.0f * x[at] : 0.0f;
}
