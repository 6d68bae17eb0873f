// `cuComplex.h`: complex numbers as pairs.
#pragma GCC system_header
#include "evo_cuda.h"
#ifndef EVO_CUDA_COMPLEX_H
#define EVO_CUDA_COMPLEX_H
typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;
#define EVO_COMPLEX(Pair, Real, name, suffix)                                                      \
    EVO_INLINE Real cuCreal##suffix(Pair x) { return x.x; }                                        \
    EVO_INLINE Real cuCimag##suffix(Pair x) { return x.y; }                                        \
    EVO_INLINE Pair make_##name(Real real, Real imaginary) { return Pair{real, imaginary}; }       \
    EVO_INLINE Pair cuConj##suffix(Pair x) { return Pair{x.x, -x.y}; }                             \
    EVO_INLINE Pair cuCadd##suffix(Pair x, Pair y) { return Pair{x.x + y.x, x.y + y.y}; }          \
    EVO_INLINE Pair cuCsub##suffix(Pair x, Pair y) { return Pair{x.x - y.x, x.y - y.y}; }          \
    EVO_INLINE Pair cuCmul##suffix(Pair x, Pair y) {                                               \
        return Pair{x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x};                                 \
    }                                                                                              \
    /* Scaled by the divisor's size, which keeps squares within range. */                          \
    EVO_INLINE Pair cuCdiv##suffix(Pair x, Pair y) {                                               \
        Real scale = (Real)1 / ((Real)fabs(y.x) + (Real)fabs(y.y));                                \
        Real a = x.x * scale, b = x.y * scale, c = y.x * scale, d = y.y * scale;                   \
        Real over = (Real)1 / (c * c + d * d);                                                     \
        return Pair{(a * c + b * d) * over, (b * c - a * d) * over};                               \
    }                                                                                              \
    EVO_INLINE Real cuCabs##suffix(Pair x) { return hypot(x.x, x.y); }                             \
    EVO_INLINE Pair cuCfma##suffix(Pair x, Pair y, Pair z) {                                       \
        return Pair{fma(-x.y, y.y, fma(x.x, y.x, z.x)), fma(x.y, y.x, fma(x.x, y.y, z.y))};        \
    }
EVO_COMPLEX(cuFloatComplex, float, cuFloatComplex, f)
EVO_COMPLEX(cuDoubleComplex, double, cuDoubleComplex, )
#undef EVO_COMPLEX
EVO_INLINE cuComplex make_cuComplex(float real, float imaginary) { return cuComplex{real, imaginary}; }
EVO_INLINE cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex x) { return cuDoubleComplex{x.x, x.y}; }
EVO_INLINE cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex x) { return cuFloatComplex{(float)x.x, (float)x.y}; }
#endif
