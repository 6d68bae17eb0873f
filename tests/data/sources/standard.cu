#include <cuda_runtime.h>
#include <device_launch_parameters.h>
#include <algorithm>
#include <array>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>
#include <iostream>
#include <vector>

using namespace std;

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

template <typename T, int N>
__device__ T largest(const std::array<T, N>& values) {
    static_assert(std::is_floating_point_v<T> && std::is_same<T, float>::value, "single precision");
    T most = -std::numeric_limits<T>::infinity();
    for (int i = 0; i < N; ++i) most = std::max(most, values[i]);
    return most;
}

extern "C" __global__ void all(const float* in, float* out, std::uint32_t count, size_t stride) {
    const uint at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count) return;
    assert(stride < UINT64_MAX);
    std::array<float, 3> own = {in[at], FLT_MAX, -INFINITY};
    auto both = std::make_tuple(int32_t(at), std::abs(in[at]));
    std::pair<int, float> sum = std::make_pair(0, 0.0f);
    for (int i = 0; i < ceil_div(100, 32); ++i) sum.second += sqrt(2) * pow(i, 2) + fabs(in[at]) + floor(i / 2);
    std::swap(own[0], own[1]);
    float local[ceil_div(9, 4)] = {};
    memset(local, 0, sizeof local);
    const bool odd = isnan(in[at]) || std::isinf(own[2]) || at == uint(INT_MAX);
    if (odd) printf("%d\n", std::get<0>(both));
    using Sum = std::conditional_t<(sizeof(float) > 2), std::plus<float>, std::minus<float>>;
    out[at * stride] = Sum()(largest<float, 3>(own), std::get<1>(both)) + min(sum.second, float(M_PI)) + local[0] + NAN;
}
