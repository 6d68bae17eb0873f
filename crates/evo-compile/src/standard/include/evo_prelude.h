// What nvcc's own start brings along and NVRTC's does not: short names of types, a few macros of the C library, and
// mathematics on whole numbers. It is read before the source, so it adds names that nobody defines otherwise.
#pragma once
// libcu++ defines `INFINITY` and `NAN` anew, as other headers do with `M_PI`.
#pragma nv_diag_suppress 47

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
#ifndef EVO_OWN_INTEGERS
#include <cstdint>
#endif
#include <climits>

// As constants, so that they can initialize constants.
#ifndef INFINITY
#define INFINITY __builtin_bit_cast(float, 0x7f800000u)
#endif
#ifndef NAN
#define NAN __builtin_bit_cast(float, 0x7fffffffu)
#endif
#ifndef HUGE_VALF
#define HUGE_VALF INFINITY
#endif
#ifndef HUGE_VAL
#define HUGE_VAL __builtin_bit_cast(double, 0x7ff0000000000000ull)
#endif
#ifndef M_PI
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#endif

// C++ computes `sqrt(2)` and `pow(2, x)` in double precision; CUDA's overloads for floating point alone make the call
// ambiguous.
namespace evo_std {
// Names begin with `evo_`, because parameters of a space are macros: one may be called T, A or x.
// Enumerators: a static member of a full specialization would be a variable of every module, which is checked and
// restored like a kernel's own.
template <class evo_T> struct evo_is_whole { enum : bool { evo_value = false }; };
#define EVO_WHOLE(evo_T) template <> struct evo_is_whole<evo_T> { enum : bool { evo_value = true }; };
EVO_WHOLE(bool) EVO_WHOLE(char) EVO_WHOLE(signed char) EVO_WHOLE(unsigned char) EVO_WHOLE(short)
EVO_WHOLE(unsigned short) EVO_WHOLE(int) EVO_WHOLE(unsigned int) EVO_WHOLE(long) EVO_WHOLE(unsigned long)
EVO_WHOLE(long long) EVO_WHOLE(unsigned long long)
#undef EVO_WHOLE
template <class evo_T> struct evo_is_floating { enum : bool { evo_value = false }; };
template <> struct evo_is_floating<float> { enum : bool { evo_value = true }; };
template <> struct evo_is_floating<double> { enum : bool { evo_value = true }; };
template <bool, class evo_T> struct evo_only_if {};
template <class evo_T> struct evo_only_if<true, evo_T> { typedef evo_T evo_type; };
template <class evo_T>
using evo_when_whole = typename evo_only_if<evo_is_whole<evo_T>::evo_value, double>::evo_type;
// Two numbers of which one at least is whole.
template <class evo_A, class evo_B>
using evo_when_mixed = typename evo_only_if<
    (evo_is_whole<evo_A>::evo_value && (evo_is_whole<evo_B>::evo_value || evo_is_floating<evo_B>::evo_value)) ||
        (evo_is_floating<evo_A>::evo_value && evo_is_whole<evo_B>::evo_value), double>::evo_type;
}

#define EVO_OF_WHOLE(name) \
    template <class evo_T> __host__ __device__ inline evo_std::evo_when_whole<evo_T> name(evo_T evo_x) { \
        return name((double)evo_x); \
    }
EVO_OF_WHOLE(sqrt) EVO_OF_WHOLE(cbrt) EVO_OF_WHOLE(rsqrt) EVO_OF_WHOLE(exp) EVO_OF_WHOLE(exp2) EVO_OF_WHOLE(log)
EVO_OF_WHOLE(log2) EVO_OF_WHOLE(log10) EVO_OF_WHOLE(log1p) EVO_OF_WHOLE(expm1) EVO_OF_WHOLE(sin) EVO_OF_WHOLE(cos)
EVO_OF_WHOLE(tan) EVO_OF_WHOLE(atan) EVO_OF_WHOLE(sinh) EVO_OF_WHOLE(cosh) EVO_OF_WHOLE(tanh) EVO_OF_WHOLE(erf)
EVO_OF_WHOLE(floor) EVO_OF_WHOLE(ceil) EVO_OF_WHOLE(trunc) EVO_OF_WHOLE(round) EVO_OF_WHOLE(fabs)
#undef EVO_OF_WHOLE
#define EVO_OF_MIXED(name) \
    template <class evo_A, class evo_B> \
    __host__ __device__ inline evo_std::evo_when_mixed<evo_A, evo_B> name(evo_A evo_x, evo_B evo_y) { \
        return name((double)evo_x, (double)evo_y); \
    }
EVO_OF_MIXED(pow) EVO_OF_MIXED(fmod) EVO_OF_MIXED(fmin) EVO_OF_MIXED(fmax) EVO_OF_MIXED(atan2) EVO_OF_MIXED(hypot)
#undef EVO_OF_MIXED
