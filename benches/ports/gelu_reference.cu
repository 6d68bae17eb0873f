// The approximation of GELU with a hyperbolic tangent.
__global__ void gelu(REAL* out, const REAL* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    REAL v = x[i];
    REAL inner = REAL(0.79788456080286535588) * (v + REAL(0.044715) * v * v * v);
    out[i] = REAL(0.5) * v * (REAL(1) + tanh(inner));
}
