extern "C" __global__ void transpose(const float* w, float* columns, int m, int n, int stride) {
    int k = blockIdx.x * 32 + threadIdx.x;
    if (k >= n) return;
    for (int row = 0; row < m; ++row) columns[k * stride + row] = w[row * n + k];
}
