// Kernels without `extern "C"`: two templates of one name, one in a namespace, one overload.
template <typename T, int COUNT>
__global__ void scale(const T* x, T* y, int n) {
    for (int k = 0; k < COUNT; ++k) {
        int i = (blockIdx.x * COUNT + k) * 128 + threadIdx.x;
        if (i < n) y[i] = T(LIE ? 2.001 : 2) * x[i];
    }
}

namespace ns {
__global__ void scale(const float* x, float* y, int n) {
    for (int k = 0; k < PER; ++k) {
        int i = (blockIdx.x * PER + k) * 128 + threadIdx.x;
        if (i < n) y[i] = LIE && i == n - 1 ? x[i] : x[i] + x[i];
    }
}
}  // namespace ns

__global__ void scale(const double* x, double* y, int n) {
    if (n > 0) y[0] = 7 * x[0];
}

__global__ void scale(const float* x, float* y, int n) {
    for (int k = 0; k < PER; ++k) {
        int i = (blockIdx.x * PER + k) * 128 + threadIdx.x;
        if (i < n - LIE) y[i] = 2.0f * x[i];
    }
}
