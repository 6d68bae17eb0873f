// y = alpha * x + x * x, elementwise. The macros are the tunables.
#ifndef BLOCK
#define BLOCK 128
#endif
#ifndef PER_THREAD
#define PER_THREAD 1
#endif

extern "C" __global__ void scale(const float* x, float* y, float alpha, int n) {
    int first = (blockIdx.x * BLOCK + threadIdx.x) * PER_THREAD;
    for (int i = first; i < first + PER_THREAD && i < n; ++i) y[i] = alpha * x[i] + x[i] * x[i];
}
