// One thread adds up one scalar product.
__global__ void scalar_products(REAL* out, const REAL* a, const REAL* b, int vectors, int elements) {
    int v = blockIdx.x * blockDim.x + threadIdx.x;
    if (v >= vectors) return;
    REAL sum = 0;
    for (int i = 0; i < elements; i++) sum += a[v * elements + i] * b[v * elements + i];
    out[v] = sum;
}
