// Gauss and Jordan with pivots.
extern "C" __global__ void inverse(const float* a, float* y, int b) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= b) return;
    float m[3][6];
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++) { m[r][c] = a[9 * i + 3 * r + c]; m[r][c + 3] = r == c ? 1.0f : 0.0f; }
    for (int p = 0; p < 3; p++) {
        int best = p;
        for (int r = p + 1; r < 3; r++) if (fabsf(m[r][p]) > fabsf(m[best][p])) best = r;
        for (int c = 0; c < 6; c++) { float t = m[p][c]; m[p][c] = m[best][c]; m[best][c] = t; }
        float over = 1.0f / m[p][p];
        for (int c = 0; c < 6; c++) m[p][c] *= over;
        for (int r = 0; r < 3; r++) {
            if (r == p) continue;
            float f = m[r][p];
            for (int c = 0; c < 6; c++) m[r][c] -= f * m[p][c];
        }
    }
    for (int r = 0; r < 3; r++)
        for (int c = 0; c < 3; c++) {
            float v = m[r][c + 3];
#if FAULT == 1
            v *= 1.000004f;
#elif FAULT == 2
            if (i % 97 == 0) v *= 1.001f;
#endif
            y[9 * i + 3 * r + c] = v;
        }
}
