extern "C" __global__ void gemv(const float* columns, const float* x, float* y, int m, int n) {
    int row = blockIdx.x * BLOCK + threadIdx.x;
    if (row >= m) return;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k) sum += columns[k * (m + PAD) + row] * x[k];
    y[row] = sum;
}
