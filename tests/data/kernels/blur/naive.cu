extern "C" __global__ void naive(const float* x, float* y) {
    const float* own = x + blockIdx.x * WIDTH;
    for (int i = 0; i < WIDTH; ++i) {
        double sum = 0.0;
        for (int at = max(i - RADIUS, 0); at <= min(i + RADIUS, WIDTH - 1); ++at) sum += own[at];
        y[blockIdx.x * WIDTH + i] = sum;
    }
}
