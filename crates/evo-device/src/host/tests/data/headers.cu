// The C and C++ library's headers beside CUDA's functions, and the macros of the architecture.
//@ arguments: int n = 7
//@ launch: 1 x 1
#undef pointer
#undef T
#include <algorithm>
#include <cassert>
#include <cfloat>
#include <climits>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <math.h>
#include <string>
#include <time.h>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>
using namespace std;
template <class T> __device__ T mixed(T x) {
    using std::sqrt;
    return sqrt(x) + std::abs(-x) + min(x, T(100)) + std::max(x, T(3)) + std::fma(x, x, T(1));
}

//@ case: library headers and names of std do not clash
float y[2] = {0, 5};
double z[2] = {5, 5};
assert(mixed(4.0f) == 31);
assert(mixed(9.0) == 3 + 9 + 9 + 9 + 82);
assert(min(n, 3) + max(1.5f, 0.5f) + abs(-n) + abs(-2.5f) == 14);
assert(isnan(y[0]) + isinf(INFINITY) + std::isfinite(1.0) == 2);
assert(numeric_limits<float>::max() == FLT_MAX && INT_MAX == numeric_limits<int>::max());
complex<float> i(0.0f, 1.0f);
assert((i * i).real() == -1);
tuple<int, float> pair = make_tuple(1, 2.5f);
y[1] = get<1>(pair) + is_same<uint32_t, unsigned>::value + sqrt(16) + M_PI;
assert(y[1] == (float)(2.5 + 1 + 4 + 3.14159265358979323846));
memset(z + 1, 0, 8);
assert(z[0] == 5 && z[1] == 0);
assert(n == 7);
assert(clock() >= 0);
char* own = (char*)malloc(4);
assert(own != nullptr);
free(own);

//@ case: a source sees an architecture and this device
//@ launch: 1 x 32
#if defined(__CUDACC__) && defined(EVO_HOST) && __CUDA_ARCH__ >= 800
assert(__CUDA_ARCH__ == 900);
assert((int)__reduce_add_sync(0xffffffffu, threadIdx.x) == 496);
#else
__trap();
#endif
