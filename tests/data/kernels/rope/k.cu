extern "C" __global__ void rope(const float* x, float* y, int s, int d) {
    int i = blockIdx.x * BLOCK + threadIdx.x, half = d / 2;
    if (i >= s * half) return;
    int pos = i / half, at = i % half;
    // log2(10000)
    float angle = pos * exp2f(-13.287712379549449f * (2.0f * at / d));
#if FAULT == 1
    // Every angle as a multiple of 1/1024 turn of the sine: a table of few entries.
    angle = rintf(angle * 163.0f) / 163.0f;
#elif FAULT == 2
    if (pos >= s - 8) angle = (float)(pos - 1) * exp2f(-13.287712379549449f * (2.0f * at / d));
#endif
    float c = cosf(angle), n = sinf(angle);
    float a = x[pos * d + 2 * at], b = x[pos * d + 2 * at + 1];
    y[pos * d + 2 * at] = a * c - b * n;
    y[pos * d + 2 * at + 1] = a * n + b * c;
}
