#include "op.h"

extern "C" __global__ void scale(const float *x, float *y, int n) {
    for (int i = (blockIdx.x * blockDim.x + threadIdx.x) * VEC; i < n; i += gridDim.x * blockDim.x * VEC) {
        for (int j = i; j < i + VEC && j < n; j++) { for (volatile int w = 0; w < 50 * WASTE; w++) {} y[j] = OP(x[j]); }
    }
}
