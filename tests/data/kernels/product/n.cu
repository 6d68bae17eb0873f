extern "C" __global__ void naive(const REAL* a, const REAL* b, REAL* c, int m, int n, int k) {
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i >= m * n) return;
    REAL sum = 0;
    for (int p = 0; p < k; p++) sum += a[i / n * k + p] * b[p * n + i % n];
    c[i] = sum;
}
