extern "C" __global__ void naive(const float* x, float* y, int n) {
    for (int b = 0; b < n; b += BLOCK) {
        double part[BLOCK], next[BLOCK];
        for (int t = 0; t < BLOCK; ++t) part[t] = b + t < n ? x[b + t] : 0.0f;
        for (int k = 0; k < 8; ++k) {
            for (int t = 0; t < BLOCK; ++t) next[t] = 0.5 * (part[t] + part[(t + 1) % BLOCK]);
            for (int t = 0; t < BLOCK; ++t) part[t] = next[t];
        }
        for (int t = 0; t < BLOCK; ++t) if (b + t < n) y[b + t] = part[t];
    }
}
