//! The C and C++ library's headers beside CUDA's functions, and the macros of the architecture.

use super::*;

#[test]
fn library_headers_and_names_of_std_do_not_clash() {
    let text = r#"
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
        extern "C" __global__ void k(float* y, double* z, int n) {
            y[0] = mixed(4.0f);
            z[0] = mixed(9.0);
            y[1] = min(n, 3) + max(1.5f, 0.5f) + abs(-n) + abs(-2.5f);
            y[2] = isnan(y[0]) + isinf(INFINITY) + std::isfinite(1.0);
            y[3] = numeric_limits<float>::max() == FLT_MAX && INT_MAX == numeric_limits<int>::max();
            complex<float> i(0.0f, 1.0f);
            y[4] = (i * i).real();
            tuple<int, float> pair = make_tuple(1, 2.5f);
            y[5] = get<1>(pair) + is_same<uint32_t, unsigned>::value + sqrt(16) + M_PI;
            memset(z + 1, 0, 8);
            assert(n == 7);
            y[6] = clock() >= 0;
            char* own = (char*)malloc(4);
            y[7] = own != nullptr;
            free(own);
        }
    "#;
    let mut bench = Bench::new(text, "k");
    let (y, z) = (bench.buffer("y", &[0f32; 8]), bench.buffer("z", &[5f64; 2]));
    bench.run(1, 1, 0, vec![buffer(y), buffer(z), int(7)]).unwrap();
    let four = 2.5 + 1.0 + 4.0 + std::f64::consts::PI;
    assert_eq!(bench.values::<f32>(y), [31.0, 14.0, 2.0, 1.0, -1.0, four as f32, 1.0, 1.0]);
    assert_eq!(bench.values::<f64>(z), [3.0 + 9.0 + 9.0 + 9.0 + 82.0, 0.0]);
}

#[test]
fn a_source_sees_an_architecture_and_this_device() {
    let text = r#"
        extern "C" __global__ void k(int* y) {
        #if defined(__CUDACC__) && defined(EVO_HOST) && __CUDA_ARCH__ >= 800
            y[0] = __CUDA_ARCH__;
            y[1] = (int)__reduce_add_sync(0xffffffffu, threadIdx.x);
        #endif
        }
    "#;
    let mut bench = Bench::new(text, "k");
    let y = bench.buffer("y", &[0i32; 2]);
    bench.run(1, 32, 0, vec![buffer(y)]).unwrap();
    assert_eq!(bench.values::<i32>(y), [900, 496]);
}
