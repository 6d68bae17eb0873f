extern "C" __global__ void naive(const float* w, const float* x, float* y, int m, int n) {
    double sum = 0.0;
    for (int k = 0; k < n; ++k) sum += (double)w[blockIdx.x * n + k] * x[k];
    y[blockIdx.x] = sum;
}
