// `cuda_fp8.h`: numbers of eight bits with four or five for the exponent (CUDA Math API, "FP8 Intrinsics"; formats after
// Micikevicius et al., "FP8 formats for deep learning", 2022). Conversions round to nearest even, once.
#pragma GCC system_header
#include "evo_cuda.h"
#ifndef EVO_CUDA_FP8_H
#define EVO_CUDA_FP8_H

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

EVO_INLINE __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    const int fraction = kind == __NV_E4M3 ? 3 : 2, bias = kind == __NV_E4M3 ? 7 : 15;
    const unsigned top = kind == __NV_E4M3 ? 0x7eu : 0x7bu, beyond = kind == __NV_E4M3 ? 0x7fu : 0x7cu;
    if (x != x) return 0x7f;
    unsigned sign = __builtin_signbit(x) ? 0x80u : 0u, bits;
    double size = __builtin_fabs(x);
    if (size >= 0x1p20) {
        bits = beyond;
    } else {
        int power = size < __builtin_ldexp(1.0, 1 - bias) ? 1 - bias : __builtin_ilogb(size);
        // A whole number of units in the last place, of which 2^fraction are the first normal number.
        unsigned units = (unsigned)__builtin_rint(__builtin_ldexp(size, fraction - power));
        bits = ((unsigned)(power + bias - 1) << fraction) + units;
        if (bits > top) bits = beyond;
    }
    if (bits == beyond && saturate == __NV_SATFINITE) bits = top;
    return (__nv_fp8_storage_t)(sign | bits);
}
EVO_INLINE float evo_fp8_value(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
    // Five bits of exponent are those of a half.
    if (kind == __NV_E5M2) return evo_half_to_float((unsigned short)(x << 8));
    unsigned size = x & 0x7fu;
    float value = size == 0x7fu ? __builtin_nanf("")
                  : size < 8u   ? (float)size * 0x1p-9f
                                : __builtin_ldexpf((float)(8u + (size & 7u)), (int)(size >> 3) - 10);
    return x & 0x80u ? -value : value;
}
EVO_INLINE __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_double_to_fp8((double)x, saturate, kind);
}
EVO_INLINE __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_double_to_fp8((double)evo_half_to_float(x.x), saturate, kind);
}
EVO_INLINE __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_double_to_fp8((double)evo_bfloat_to_float(x.x), saturate, kind);
}
EVO_INLINE __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
    return __half_raw{evo_float_to_half(evo_fp8_value(x, kind))};
}
// The first of two numbers lies in the low byte.
EVO_INLINE __nv_fp8x2_storage_t __nv_cvt_double2_to_fp8x2(double2 x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return (__nv_fp8x2_storage_t)(__nv_cvt_double_to_fp8(x.x, saturate, kind) | __nv_cvt_double_to_fp8(x.y, saturate, kind) << 8);
}
EVO_INLINE __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_double2_to_fp8x2(double2{x.x, x.y}, saturate, kind);
}
EVO_INLINE __nv_fp8x2_storage_t __nv_cvt_halfraw2_to_fp8x2(__half2_raw x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_double2_to_fp8x2(double2{evo_half_to_float(x.x), evo_half_to_float(x.y)}, saturate, kind);
}
EVO_INLINE __nv_fp8x2_storage_t __nv_cvt_bfloat16raw2_to_fp8x2(__nv_bfloat162_raw x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_double2_to_fp8x2(double2{evo_bfloat_to_float(x.x), evo_bfloat_to_float(x.y)}, saturate, kind);
}
EVO_INLINE __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind) {
    return __half2_raw{__nv_cvt_fp8_to_halfraw((unsigned char)x, kind).x, __nv_cvt_fp8_to_halfraw((unsigned char)(x >> 8), kind).x};
}

#define EVO_FP8(name, pair, four, kind)                                                            \
    struct name {                                                                                  \
        __nv_fp8_storage_t __x;                                                                    \
        name() = default;                                                                          \
        EVO_FP8_FROM(name, kind, double) EVO_FP8_FROM(name, kind, float) EVO_FP8_FROM(name, kind, int) \
        EVO_FP8_FROM(name, kind, unsigned) EVO_FP8_FROM(name, kind, short) EVO_FP8_FROM(name, kind, unsigned short) \
        EVO_FP8_FROM(name, kind, long) EVO_FP8_FROM(name, kind, unsigned long)                     \
        EVO_FP8_FROM(name, kind, long long) EVO_FP8_FROM(name, kind, unsigned long long)           \
        explicit name(__half x) : __x(__nv_cvt_double_to_fp8((double)(float)x, __NV_SATFINITE, kind)) {} \
        explicit name(__nv_bfloat16 x) : __x(__nv_cvt_double_to_fp8((double)(float)x, __NV_SATFINITE, kind)) {} \
        explicit operator float() const { return evo_fp8_value(__x, kind); }                       \
        explicit operator double() const { return (double)evo_fp8_value(__x, kind); }              \
        explicit operator __half() const { return __half(evo_fp8_value(__x, kind)); }              \
        explicit operator __nv_bfloat16() const { return __nv_bfloat16(evo_fp8_value(__x, kind)); } \
        explicit operator int() const { return __float2int_rz(evo_fp8_value(__x, kind)); }         \
        explicit operator unsigned() const { return __float2uint_rz(evo_fp8_value(__x, kind)); }   \
        explicit operator bool() const { return (__x & 0x7fu) != 0; }                              \
    };                                                                                             \
    struct pair {                                                                                  \
        __nv_fp8x2_storage_t __x;                                                                  \
        pair() = default;                                                                          \
        explicit pair(float2 x) : __x(__nv_cvt_float2_to_fp8x2(x, __NV_SATFINITE, kind)) {}         \
        explicit pair(double2 x) : __x(__nv_cvt_double2_to_fp8x2(x, __NV_SATFINITE, kind)) {}       \
        explicit pair(__half2 x) : pair(float2{(float)x.x, (float)x.y}) {}                         \
        explicit pair(__nv_bfloat162 x) : pair(float2{(float)x.x, (float)x.y}) {}                  \
        explicit operator float2() const {                                                         \
            return float2{evo_fp8_value((unsigned char)__x, kind), evo_fp8_value((unsigned char)(__x >> 8), kind)}; \
        }                                                                                          \
        explicit operator __half2() const {                                                        \
            float2 wide = (float2)*this;                                                           \
            return __half2(__half(wide.x), __half(wide.y));                                        \
        }                                                                                          \
    };                                                                                             \
    struct four {                                                                                  \
        __nv_fp8x4_storage_t __x;                                                                  \
        four() = default;                                                                          \
        explicit four(float4 x)                                                                    \
            : __x(pair(float2{x.x, x.y}).__x | (unsigned)pair(float2{x.z, x.w}).__x << 16) {}      \
        explicit four(double4 x)                                                                   \
            : __x(pair(double2{x.x, x.y}).__x | (unsigned)pair(double2{x.z, x.w}).__x << 16) {}    \
        explicit four(__half2 low, __half2 high) : __x(pair(low).__x | (unsigned)pair(high).__x << 16) {} \
        explicit operator float4() const {                                                         \
            pair low, high;                                                                        \
            low.__x = (unsigned short)__x, high.__x = (unsigned short)(__x >> 16);                 \
            float2 first = (float2)low, second = (float2)high;                                     \
            return float4{first.x, first.y, second.x, second.y};                                   \
        }                                                                                          \
    };
#define EVO_FP8_FROM(name, kind, T)                                                                \
    explicit name(T x) : __x(__nv_cvt_double_to_fp8((double)x, __NV_SATFINITE, kind)) {}
EVO_FP8(__nv_fp8_e4m3, __nv_fp8x2_e4m3, __nv_fp8x4_e4m3, __NV_E4M3)
EVO_FP8(__nv_fp8_e5m2, __nv_fp8x2_e5m2, __nv_fp8x4_e5m2, __NV_E5M2)
#undef EVO_FP8_FROM
#undef EVO_FP8
#endif
