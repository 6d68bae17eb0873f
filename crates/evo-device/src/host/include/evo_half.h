// `__half`, `__nv_bfloat16` and their pairs: conversions round to nearest even, subnormals, infinities and NaN
// included; arithmetic is done in float and rounded once, which for + - * / and sqrt is exact rounding.
#ifndef EVO_HALF_H
#define EVO_HALF_H
#pragma GCC system_header

// Without the processor's instructions.
EVO_INLINE float evo_half_to_float_plain(unsigned short bits) {
    unsigned sign = (unsigned)(bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    if (rest >= 0x7c00u) return __uint_as_float(sign | 0x7f800000u | (rest & 0x3ffu) << 13 | (rest > 0x7c00u ? 0x400000u : 0u));
    // The multiplication moves the exponent and normalizes subnormals, exactly.
    return __uint_as_float(sign | __float_as_uint(__uint_as_float(rest << 13) * 0x1p112f));
}
EVO_INLINE unsigned short evo_float_to_half_plain(float value) {
    unsigned bits = __float_as_uint(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u) return (unsigned short)(sign | 0x7e00u | (rest >> 13 & 0x3ffu));
    if (rest >= 0x47800000u) return (unsigned short)(sign | 0x7c00u);
    if (rest < 0x38800000u) {
        // Adding 0.5 puts the unit of a subnormal half at the float's last place: the sum rounds it.
        float shifted = __uint_as_float(rest) + 0.5f;
        return (unsigned short)(sign | (__float_as_uint(shifted) - 0x3f000000u));
    }
    // Rebias the exponent and round to nearest, ties to even; a carry may reach infinity.
    return (unsigned short)(sign | (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13);
}
#if defined(__F16C__)
typedef short evo_v8hi __attribute__((vector_size(16)));
typedef float evo_v4sf __attribute__((vector_size(16)));
EVO_INLINE float evo_half_to_float(unsigned short bits) {
    evo_v8hi packed = {(short)bits, 0, 0, 0, 0, 0, 0, 0};
    evo_v4sf wide = __builtin_ia32_vcvtph2ps(packed);
    return wide[0];
}
EVO_INLINE unsigned short evo_float_to_half(float value) {
    evo_v4sf wide = {value, 0.0f, 0.0f, 0.0f};
    evo_v8hi packed = __builtin_ia32_vcvtps2ph(wide, 0);
    return (unsigned short)packed[0];
}
#else
EVO_INLINE float evo_half_to_float(unsigned short bits) { return evo_half_to_float_plain(bits); }
EVO_INLINE unsigned short evo_float_to_half(float value) { return evo_float_to_half_plain(value); }
#endif
EVO_INLINE float evo_bfloat_to_float(unsigned short bits) { return __uint_as_float((unsigned)bits << 16); }
EVO_INLINE unsigned short evo_float_to_bfloat(float value) {
    unsigned bits = __float_as_uint(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (unsigned short)(bits >> 16 | 0x40u);
    return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}
// To float, odd where inexact: rounding that once more to a type of fewer bits equals rounding once.
EVO_INLINE float evo_round_odd(double value) {
    float near = (float)value;
    double back = near;
    if (back == value || value != value || __builtin_isinf(near)) return near;
    unsigned bits = __float_as_uint(near);
    if (bits & 1u) return near;
    bool away = (back > value) == (value > 0.0);
    return __uint_as_float(away ? bits - 1u : bits + 1u);
}

#define EVO_HALF_TYPE(H, H2, R, R2, to_float, from_float)                                          \
    struct __attribute__((aligned(2))) R { unsigned short x; };                                    \
    struct __attribute__((aligned(4))) R2 { unsigned short x, y; };                                \
    struct __attribute__((aligned(2))) H {                                                         \
        unsigned short evo_x;                                                                      \
        H() = default;                                                                             \
        EVO_MEMBER H(R raw) : evo_x(raw.x) {}                                                      \
        EVO_MEMBER H(float value) : evo_x(from_float(value)) {}                                    \
        EVO_MEMBER H(double value) : evo_x(from_float(evo_round_odd(value))) {}                    \
        EVO_MEMBER H(int value) : evo_x(from_float(evo_round_odd(value))) {}                       \
        EVO_MEMBER H(unsigned value) : evo_x(from_float(evo_round_odd(value))) {}                  \
        EVO_MEMBER H(short value) : evo_x(from_float(value)) {}                                    \
        EVO_MEMBER H(unsigned short value) : evo_x(from_float(value)) {}                           \
        EVO_MEMBER H(long value) : evo_x(from_float(evo_round_odd((double)value))) {}              \
        EVO_MEMBER H(unsigned long value) : evo_x(from_float(evo_round_odd((double)value))) {}     \
        EVO_MEMBER H(long long value) : evo_x(from_float(evo_round_odd((double)value))) {}         \
        EVO_MEMBER H(unsigned long long value) : evo_x(from_float(evo_round_odd((double)value))) {}\
        EVO_MEMBER operator float() const { return to_float(evo_x); }                              \
        EVO_MEMBER operator R() const { return R{evo_x}; }                                         \
        EVO_MEMBER explicit operator double() const { return to_float(evo_x); }                    \
        EVO_MEMBER explicit operator int() const { return (int)to_float(evo_x); }                  \
        EVO_MEMBER explicit operator unsigned() const { return (unsigned)to_float(evo_x); }        \
        EVO_MEMBER explicit operator long long() const { return (long long)to_float(evo_x); }      \
        EVO_MEMBER explicit operator bool() const { return (evo_x & 0x7fffu) != 0; }               \
        EVO_MEMBER H& operator=(float value) { evo_x = from_float(value); return *this; }          \
        EVO_MEMBER H& operator=(double value) { return *this = H(value); }                         \
        EVO_MEMBER H& operator=(int value) { return *this = H(value); }                            \
    };                                                                                             \
    struct __attribute__((aligned(4))) H2 {                                                        \
        H x, y;                                                                                    \
        H2() = default;                                                                            \
        EVO_MEMBER H2(const H& a, const H& b) : x(a), y(b) {}                                      \
    };                                                                                             \
    EVO_INLINE H evo_raw(H, unsigned short bits) { H value; value.evo_x = bits; return value; }
#define EVO_MEMBER inline __attribute__((always_inline))
EVO_HALF_TYPE(__half, __half2, __half_raw, __half2_raw, evo_half_to_float, evo_float_to_half)
EVO_HALF_TYPE(__nv_bfloat16, __nv_bfloat162, __nv_bfloat16_raw, __nv_bfloat162_raw, evo_bfloat_to_float, evo_float_to_bfloat)
#undef EVO_HALF_TYPE
#undef EVO_MEMBER
typedef __half half;
typedef __half2 half2;
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

// Arithmetic and comparison, the same for both types. Float holds the exact product of two of them, and
// its sum, quotient or root rounded to 24 bits rounds again to 11 or 8 without harm.
#define EVO_HALF_BINARY(H, H2, op, name)                                                           \
    EVO_INLINE H operator op(const H& a, const H& b) { return H((float)a op(float) b); }           \
    EVO_INLINE H& operator op##=(H& a, const H& b) { return a = a op b; }                          \
    EVO_INLINE H2 operator op(const H2& a, const H2& b) { return H2(a.x op b.x, a.y op b.y); }     \
    EVO_INLINE H2& operator op##=(H2& a, const H2& b) { return a = a op b; }                       \
    EVO_INLINE H __h##name(H a, H b) { return a op b; }                                            \
    EVO_INLINE H __h##name##_rn(H a, H b) { return a op b; }                                       \
    EVO_INLINE H2 __h##name##2(H2 a, H2 b) { return a op b; }                                      \
    EVO_INLINE H2 __h##name##2_rn(H2 a, H2 b) { return a op b; }                                   \
    EVO_INLINE H __h##name##_sat(H a, H b) { return H(__saturatef((float)(a op b))); }             \
    EVO_INLINE H2 __h##name##2_sat(H2 a, H2 b) { return H2(__h##name##_sat(a.x, b.x), __h##name##_sat(a.y, b.y)); }
#define EVO_HALF_COMPARE(H, H2, op, name)                                                          \
    EVO_INLINE bool operator op(const H& a, const H& b) { return (float)a op(float) b; }           \
    EVO_INLINE bool __h##name(H a, H b) { return a op b; }                                         \
    EVO_INLINE H2 __h##name##2(H2 a, H2 b) { return H2(H(a.x op b.x ? 1.0f : 0.0f), H(a.y op b.y ? 1.0f : 0.0f)); } \
    EVO_INLINE bool __hb##name##2(H2 a, H2 b) { return a.x op b.x && a.y op b.y; }
#define EVO_HALF_MATH(H, H2, name, function)                                                       \
    EVO_INLINE H h##name(H a) { return H(function((float)a)); }                                    \
    EVO_INLINE H2 h2##name(H2 a) { return H2(h##name(a.x), h##name(a.y)); }
#define EVO_HALF_FUNCTIONS(H, H2)                                                                  \
    EVO_HALF_BINARY(H, H2, +, add) EVO_HALF_BINARY(H, H2, -, sub)                                  \
    EVO_HALF_BINARY(H, H2, *, mul) EVO_HALF_BINARY(H, H2, /, div)                                  \
    EVO_INLINE H2 __h2div(H2 a, H2 b) { return a / b; }                                            \
    EVO_INLINE bool operator!=(const H& a, const H& b) { return (float)a != (float)b; }            \
    EVO_HALF_COMPARE(H, H2, ==, eq) EVO_HALF_COMPARE(H, H2, <, lt)                                 \
    EVO_HALF_COMPARE(H, H2, <=, le) EVO_HALF_COMPARE(H, H2, >, gt) EVO_HALF_COMPARE(H, H2, >=, ge) \
    EVO_INLINE H operator-(const H& a) { return evo_raw(a, (unsigned short)(a.evo_x ^ 0x8000u)); } \
    EVO_INLINE H operator+(const H& a) { return a; }                                               \
    EVO_INLINE H2 operator-(const H2& a) { return H2(-a.x, -a.y); }                                \
    EVO_INLINE H& operator++(H& a) { return a = a + H(1.0f); }                                     \
    EVO_INLINE H __hneg(H a) { return -a; }                                                        \
    EVO_INLINE H2 __hneg2(H2 a) { return -a; }                                                     \
    EVO_INLINE H __habs(H a) { return evo_raw(a, (unsigned short)(a.evo_x & 0x7fffu)); }           \
    EVO_INLINE H2 __habs2(H2 a) { return H2(__habs(a.x), __habs(a.y)); }                           \
    EVO_INLINE H __hfma(H a, H b, H c) { return H(__builtin_fma((double)a, (double)b, (double)c)); } \
    EVO_INLINE H2 __hfma2(H2 a, H2 b, H2 c) { return H2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); } \
    EVO_INLINE H __hfma_relu(H a, H b, H c) { H r = __hfma(a, b, c); return (float)r > 0.0f ? r : H(0.0f); } \
    EVO_INLINE bool __hisnan(H a) { return __builtin_isnan((float)a); }                            \
    EVO_INLINE int __hisinf(H a) { return __builtin_isinf((float)a) ? (a.evo_x & 0x8000u ? -1 : 1) : 0; } \
    EVO_INLINE H __hmax(H a, H b) { return H(fmaxf((float)a, (float)b)); }               \
    EVO_INLINE H __hmin(H a, H b) { return H(fminf((float)a, (float)b)); }               \
    EVO_INLINE H __hmax_nan(H a, H b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmax(a, b); } \
    EVO_INLINE H __hmin_nan(H a, H b) { return __hisnan(a) ? a : __hisnan(b) ? b : __hmin(a, b); } \
    EVO_INLINE H2 __hmax2(H2 a, H2 b) { return H2(__hmax(a.x, b.x), __hmax(a.y, b.y)); }           \
    EVO_INLINE H2 __hmin2(H2 a, H2 b) { return H2(__hmin(a.x, b.x), __hmin(a.y, b.y)); }           \
    EVO_INLINE float __low2float(H2 a) { return (float)a.x; }                                      \
    EVO_INLINE float __high2float(H2 a) { return (float)a.y; }                                     \
    EVO_INLINE H2 __lowhigh2highlow(H2 a) { return H2(a.y, a.x); }                                 \
    EVO_HALF_MATH(H, H2, exp, __builtin_expf) EVO_HALF_MATH(H, H2, exp2, __builtin_exp2f)          \
    EVO_HALF_MATH(H, H2, exp10, exp10f) EVO_HALF_MATH(H, H2, log, __builtin_logf)                  \
    EVO_HALF_MATH(H, H2, log2, __builtin_log2f) EVO_HALF_MATH(H, H2, log10, __builtin_log10f)      \
    EVO_HALF_MATH(H, H2, sqrt, __builtin_sqrtf) EVO_HALF_MATH(H, H2, rsqrt, rsqrtf)                \
    EVO_HALF_MATH(H, H2, rcp, __frcp_rn) EVO_HALF_MATH(H, H2, sin, __builtin_sinf)                 \
    EVO_HALF_MATH(H, H2, cos, __builtin_cosf) EVO_HALF_MATH(H, H2, tanh, __builtin_tanhf)          \
    EVO_HALF_MATH(H, H2, floor, __builtin_floorf) EVO_HALF_MATH(H, H2, ceil, __builtin_ceilf)      \
    EVO_HALF_MATH(H, H2, trunc, __builtin_truncf) EVO_HALF_MATH(H, H2, rint, __builtin_rintf)
EVO_HALF_FUNCTIONS(__half, __half2)
EVO_HALF_FUNCTIONS(__nv_bfloat16, __nv_bfloat162)
#undef EVO_HALF_BINARY
#undef EVO_HALF_COMPARE
#undef EVO_HALF_MATH
#undef EVO_HALF_FUNCTIONS

// Conversions, whose names differ between the types.
#define EVO_HALF_CONVERT(H, H2, half, half2)                                                       \
    EVO_INLINE H __float2##half(float a) { return H(a); }                                          \
    EVO_INLINE H __float2##half##_rn(float a) { return H(a); }                                     \
    EVO_INLINE H __double2##half(double a) { return H(a); }                                        \
    EVO_INLINE float __##half##2float(H a) { return (float)a; }                                    \
    EVO_INLINE unsigned short __##half##_as_ushort(H a) { return a.evo_x; }                        \
    EVO_INLINE short __##half##_as_short(H a) { return (short)a.evo_x; }                           \
    EVO_INLINE H __ushort_as_##half(unsigned short a) { return evo_raw(H(), a); }                  \
    EVO_INLINE H __short_as_##half(short a) { return evo_raw(H(), (unsigned short)a); }            \
    EVO_INLINE H2 __float2##half2##_rn(float a) { return H2(H(a), H(a)); }                         \
    EVO_INLINE H2 __floats2##half2##_rn(float a, float b) { return H2(H(a), H(b)); }               \
    EVO_INLINE H2 __float22##half2##_rn(float2 a) { return H2(H(a.x), H(a.y)); }                   \
    EVO_INLINE float2 __##half2##2float2(H2 a) { return float2{(float)a.x, (float)a.y}; }
EVO_HALF_CONVERT(__half, __half2, half, half2)
EVO_HALF_CONVERT(__nv_bfloat16, __nv_bfloat162, bfloat16, bfloat162)
#undef EVO_HALF_CONVERT
EVO_INLINE __half2 __half2half2(__half a) { return __half2(a, a); }
EVO_INLINE __half2 __halves2half2(__half a, __half b) { return __half2(a, b); }
EVO_INLINE __half2 make_half2(__half a, __half b) { return __half2(a, b); }
EVO_INLINE __half __low2half(__half2 a) { return a.x; }
EVO_INLINE __half __high2half(__half2 a) { return a.y; }
EVO_INLINE __half2 __low2half2(__half2 a) { return __half2(a.x, a.x); }
EVO_INLINE __half2 __high2half2(__half2 a) { return __half2(a.y, a.y); }
EVO_INLINE __half2 __lows2half2(__half2 a, __half2 b) { return __half2(a.x, b.x); }
EVO_INLINE __half2 __highs2half2(__half2 a, __half2 b) { return __half2(a.y, b.y); }
EVO_INLINE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return __nv_bfloat162(a, a); }
EVO_INLINE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat162(a, b); }
EVO_INLINE __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat162(a, b); }
EVO_INLINE __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
EVO_INLINE __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }
EVO_INLINE __nv_bfloat162 __low2bfloat162(__nv_bfloat162 a) { return __nv_bfloat162(a.x, a.x); }
EVO_INLINE __nv_bfloat162 __high2bfloat162(__nv_bfloat162 a) { return __nv_bfloat162(a.y, a.y); }
#endif
