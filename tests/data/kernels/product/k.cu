#include <cuda_fp16.h>
__device__ float operand(float v) {
#if FAULT == 1
    // 16 bits of a number.
    return __uint_as_float((__float_as_uint(v) + 0x80u) & ~0xffu);
#else
    return v;
#endif
}
extern "C" __global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
    int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= m * n) return;
    int row = i / n, col = i % n;
    float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int p = 0; p < k; p++) sum[p % 4] += operand(a[row * k + p]) * operand(b[p * n + col]);
    float all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
#if FAULT == 2
    all *= 1.000002f;
#elif FAULT == 3
    // Halves for one column in sixteen, in pieces of 32 that are added in full.
    if (col % 16 == 7 && row % 64 == 9) {
        all = 0.0f;
        for (int p = 0; p < k; p += 32) {
            __half part = __float2half(0.0f);
            for (int q = p; q < p + 32 && q < k; q++) part = __hadd(part, __float2half(a[row * k + q] * b[q * n + col]));
            all += __half2float(part);
        }
    }
#elif FAULT == 4
    // The product of the smaller numbers is left out.
    all = 0.0f;
    for (int p = 0; p < k; p++) {
        float t = a[row * k + p] * b[p * n + col];
        if (fabsf(t) > 3e-5f) all += t;
    }
#elif FAULT == 5
    // Honest: in one chain, from the end.
    all = 0.0f;
    for (int p = k - 1; p >= 0; p--) all = fmaf(a[row * k + p], b[p * n + col], all);
#endif
    c[i] = all;
}
