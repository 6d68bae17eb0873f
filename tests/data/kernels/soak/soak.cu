
#if CASE == 2
#error "this variant does not compile"
#endif
extern "C" __global__ void soak(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i] + (CASE == 1 ? 1.0f : 0.0f);
    if (n == -1 - PAD) y[0] = PAD;
    if (CASE == 3 && i == 0) y[n] = 1.0f;
}
