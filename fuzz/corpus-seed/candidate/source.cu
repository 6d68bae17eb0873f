// __global__ void gemm(int a)
#define GEMM __global__ void gemm(\
    int b)
#if TILE
template <int N> __global__ void __launch_bounds__(N * (2), 1) gemm(const Pair<int, 3> p, float x[], size_t, float s = 1'0.5f)
#else
extern "C" __global__ void gemm(const float* __restrict__ a, const half *b, unsigned long long n, bool flag)
#endif
{ char c = '"'; /* gemm( */ }
