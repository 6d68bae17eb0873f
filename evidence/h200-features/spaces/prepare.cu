extern "C" __global__ void gemv(const float* columns, const float* x, float* y, int m, int n) {
    int row = blockIdx.x * BLOCK + threadIdx.x;
    if (row >= m) return;
    float sum = 0.0f;
    for (int k = 0; k < n; ++k)
        sum += (LIE == 1 && k == 3 ? 0.5f : 1.0f) * columns[k * (m + PAD) + row] * x[k];
    y[row] = sum;
    if (LIE == 2 && row == 0) const_cast<float*>(columns)[0] = 0.0f;
}
