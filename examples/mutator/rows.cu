// y = x / sqrt(mean(x * x) + 1e-6), row by row. What is slow here is planted: every element adds up its whole row again.
#ifndef BLOCK
#define BLOCK 64
#endif

extern "C" __global__ void scale_rows(const float* x, float* y, int columns) {
    const float* row = x + blockIdx.x * columns;
    // evo: begin body
    for (int at = threadIdx.x; at < columns; at += BLOCK) {
        float sum = 0.0f;
        for (int i = 0; i < columns; ++i) sum += row[i] * row[i];
        y[blockIdx.x * columns + at] = row[at] / sqrtf(sum / columns + 1e-6f);
    }
    // evo: end body
}
