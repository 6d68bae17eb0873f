#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <cuda_runtime.h>
extern "C" __global__ void simple(float* out, uint32_t count) {
    static_assert(INT64_MAX == LLONG_MAX && UINT8_MAX == 255 && SIZE_MAX == std::numeric_limits<uint64_t>::max(), "");
    constexpr float none = std::numeric_limits<float>::quiet_NaN(), most = INFINITY;
    const uint at = threadIdx.x;
    if (at < count) out[at] = std::fmax(none, std::sqrt(out[at])) + most + FLT_EPSILON + DBL_MIN + offsetof(float2, y);
}
