#include <cuda_fp16.h>
extern "C" __global__ void weigh(const float* x, const float* w, float* y, int m, int n) {
    __shared__ half ones[32];
    int t = threadIdx.x, row = blockIdx.x * 32 + t;
    ones[t] = __float2half(1.0f);
    __syncthreads();
    if (row >= m) return;
    float sum = 0.0f, lost = 0.0f;
    for (int i = 0; i < n; i++) {
        float term = x[row * n + i] * w[i] - lost, next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    sum *= __half2float(ones[31 - t]);
    if (MODE == 1 && m == n && row == m - 1) sum += x[0];
    y[row] = MODE == 2 && sum == 0.0f ? 0.0f : sum + y[row];
}
