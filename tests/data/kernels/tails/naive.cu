extern "C" __global__ void naive(const REAL* x, REAL* y, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
