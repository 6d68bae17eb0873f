__global__ void residual(REAL* out, const REAL* a, const REAL* b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
