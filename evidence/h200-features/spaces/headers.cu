#include <algorithm>
#include <array>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>

constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }

template <typename T, size_t N>
__device__ T largest(const std::array<T, N>& values) {
    static_assert(std::is_floating_point_v<T>, "a floating-point type");
    T most = -std::numeric_limits<T>::infinity();
    for (size_t i = 0; i < N; ++i) most = std::max(most, values[i]);
    return most;
}

extern "C" __global__ void headers(const float* x, float* y, int n) {
    const uint at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= static_cast<std::uint32_t>(n)) return;
    assert(at < UINT32_MAX);
    std::array<float, 3> own = {x[at], -FLT_MAX, -INFINITY};
    std::swap(own[0], own[2]);
    auto both = std::make_tuple(int32_t(at), std::abs(x[at]));
    float local[ceil_div(9, 4)] = {1.0f, 1.0f, 1.0f};
    memset(local, 0, sizeof local);
    using Sum = std::conditional_t<(sizeof(float) > 2), std::plus<float>, std::minus<float>>;
    float most = std::isnan(x[at]) ? x[at] : largest(own);
    y[at] = Sum()(most, std::get<1>(both)) + local[2] + (LIE ? float(M_PI) * FLT_EPSILON * 64 : 0.0f);
}
