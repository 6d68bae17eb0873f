extern "C" __global__ void scale(const float* x, float* y, int n) {
    int at = blockIdx.x * 64 + threadIdx.x;
    if (at >= n) return;
    y[at] = VALUE;
}
