extern "C" __global__ void steps(const float* x, float* y, int n) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    float own = i < n ? x[i] : 0.0f;
    for (int k = 0; k < STEPS; ++k) own = 0.5f * own + 1.0f;
    if (i < n) y[i] = own + BIAS;
}
