extern "C" __global__ void naive(const REAL* x, const REAL* w, REAL* y, int m, int n) {
    int row = blockIdx.x * 32 + threadIdx.x;
    if (row >= m) return;
    REAL sum = 0;
    for (int i = 0; i < n; i++) sum += x[row * n + i] * w[i];
    y[row] += sum;
}
