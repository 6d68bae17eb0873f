extern "C" __global__ void naive(const float* x, float* y, int n) {
    for (int i = 0; i < n; ++i) {
        double own = x[i];
        for (int k = 0; k < 64; ++k) own = 0.5 * own + 1.0;
        y[i] = own;
    }
}
