// Conversions and arithmetic with a rounding of their own, and operations on the bytes and halves of a word (CUDA Math
// API, "Type Casting Intrinsics", "Single Precision Intrinsics", "SIMD Intrinsics").
#ifndef EVO_ROUND_H
#define EVO_ROUND_H
#pragma GCC system_header

extern "C" int fegetround(void) noexcept;
extern "C" int fesetround(int) noexcept;
#ifdef __aarch64__
enum { EVO_NEAREST = 0, EVO_UP = 0x400000, EVO_DOWN = 0x800000, EVO_ZERO = 0xc00000 };
#else
enum { EVO_NEAREST = 0, EVO_DOWN = 0x400, EVO_UP = 0x800, EVO_ZERO = 0xc00 };
#endif

// A number beyond the range becomes its nearest end. NaN becomes 0 from float to 32 bits, and the smallest signed or
// the middle unsigned number otherwise (PTX ISA, "cvt").
template <class Whole, class Real> EVO_INLINE Whole evo_saturated(Real x, Whole low, Whole high, Whole nan) {
    if (x != x) return nan;
    // The upper end may round up to a power of two, which is out of range already.
    return x <= (Real)low ? low : x >= (Real)high ? high : (Whole)x;
}
#define EVO_CONVERT(name, Whole, Real, low, high, nan)                                             \
    EVO_INLINE Whole name##_rn(Real x) { return evo_saturated<Whole, Real>((Real)__builtin_rint((double)x), low, high, nan); }  \
    EVO_INLINE Whole name##_rz(Real x) { return evo_saturated<Whole, Real>((Real)__builtin_trunc((double)x), low, high, nan); } \
    EVO_INLINE Whole name##_rd(Real x) { return evo_saturated<Whole, Real>((Real)__builtin_floor((double)x), low, high, nan); } \
    EVO_INLINE Whole name##_ru(Real x) { return evo_saturated<Whole, Real>((Real)__builtin_ceil((double)x), low, high, nan); }
#define EVO_LONG_MAX 0x7fffffffffffffffLL
EVO_CONVERT(__float2int, int, float, -2147483647 - 1, 2147483647, 0)
EVO_CONVERT(__float2uint, unsigned, float, 0u, 0xffffffffu, 0u)
EVO_CONVERT(__float2ll, long long, float, -EVO_LONG_MAX - 1, EVO_LONG_MAX, -EVO_LONG_MAX - 1)
EVO_CONVERT(__float2ull, unsigned long long, float, 0ull, ~0ull, 1ull << 63)
EVO_CONVERT(__double2int, int, double, -2147483647 - 1, 2147483647, -2147483647 - 1)
EVO_CONVERT(__double2uint, unsigned, double, 0u, 0xffffffffu, 0x80000000u)
EVO_CONVERT(__double2ll, long long, double, -EVO_LONG_MAX - 1, EVO_LONG_MAX, -EVO_LONG_MAX - 1)
EVO_CONVERT(__double2ull, unsigned long long, double, 0ull, ~0ull, 1ull << 63)
#undef EVO_CONVERT
#undef EVO_LONG_MAX

// The variables are volatile, so that no arithmetic moves across a change of the rounding mode.
#define EVO_ROUNDED(Real, name, operation)                                                         \
    EVO_INLINE Real name(int mode, Real x, Real y, Real z) {                                       \
        volatile Real a = x, b = y, c = z, result;                                                 \
        int old = fegetround();                                                                    \
        fesetround(mode);                                                                          \
        result = operation;                                                                        \
        fesetround(old);                                                                           \
        (void)b, (void)c;                                                                          \
        return result;                                                                             \
    }
EVO_ROUNDED(float, evo_addf, a + b)
EVO_ROUNDED(float, evo_mulf, a * b)
EVO_ROUNDED(float, evo_divf, a / b)
EVO_ROUNDED(float, evo_sqrtf, __builtin_sqrtf(a))
EVO_ROUNDED(float, evo_fmaf, __builtin_fmaf(a, b, c))
EVO_ROUNDED(double, evo_add, a + b)
EVO_ROUNDED(double, evo_mul, a * b)
EVO_ROUNDED(double, evo_div, a / b)
EVO_ROUNDED(double, evo_sqrt, __builtin_sqrt(a))
EVO_ROUNDED(double, evo_fma, __builtin_fma(a, b, c))
#undef EVO_ROUNDED
EVO_INLINE float evo_narrowed(int mode, double x) {
    volatile double wide = x;
    int old = fegetround();
    fesetround(mode);
    volatile float result = (float)wide;
    fesetround(old);
    return result;
}
template <class Real, class Whole> EVO_INLINE Real evo_widened(int mode, Whole x) {
    volatile Whole whole = x;
    int old = fegetround();
    fesetround(mode);
    volatile Real result = (Real)whole;
    fesetround(old);
    return result;
}
#define EVO_DIRECTED(suffix, mode)                                                                 \
    EVO_INLINE float __fadd_##suffix(float x, float y) { return evo_addf(mode, x, y, 0); }          \
    EVO_INLINE float __fsub_##suffix(float x, float y) { return evo_addf(mode, x, -y, 0); }         \
    EVO_INLINE float __fmul_##suffix(float x, float y) { return evo_mulf(mode, x, y, 0); }          \
    EVO_INLINE float __fdiv_##suffix(float x, float y) { return evo_divf(mode, x, y, 0); }          \
    EVO_INLINE float __frcp_##suffix(float x) { return evo_divf(mode, 1, x, 0); }                   \
    EVO_INLINE float __fsqrt_##suffix(float x) { return evo_sqrtf(mode, x, 0, 0); }                 \
    EVO_INLINE float __fmaf_##suffix(float x, float y, float z) { return evo_fmaf(mode, x, y, z); } \
    EVO_INLINE double __dadd_##suffix(double x, double y) { return evo_add(mode, x, y, 0); }        \
    EVO_INLINE double __dsub_##suffix(double x, double y) { return evo_add(mode, x, -y, 0); }       \
    EVO_INLINE double __dmul_##suffix(double x, double y) { return evo_mul(mode, x, y, 0); }        \
    EVO_INLINE double __ddiv_##suffix(double x, double y) { return evo_div(mode, x, y, 0); }        \
    EVO_INLINE double __drcp_##suffix(double x) { return evo_div(mode, 1, x, 0); }                  \
    EVO_INLINE double __dsqrt_##suffix(double x) { return evo_sqrt(mode, x, 0, 0); }                \
    EVO_INLINE double __fma_##suffix(double x, double y, double z) { return evo_fma(mode, x, y, z); } \
    EVO_INLINE float __double2float_##suffix(double x) { return evo_narrowed(mode, x); }            \
    EVO_INLINE float __int2float_##suffix(int x) { return evo_widened<float>(mode, x); }                   \
    EVO_INLINE float __uint2float_##suffix(unsigned x) { return evo_widened<float>(mode, x); }             \
    EVO_INLINE float __ll2float_##suffix(long long x) { return evo_widened<float>(mode, x); }       \
    EVO_INLINE float __ull2float_##suffix(unsigned long long x) { return evo_widened<float>(mode, x); } \
    EVO_INLINE double __ll2double_##suffix(long long x) { return evo_widened<double>(mode, x); }    \
    EVO_INLINE double __ull2double_##suffix(unsigned long long x) { return evo_widened<double>(mode, x); } \
    EVO_INLINE float __fmaf_ieee_##suffix(float x, float y, float z) { return evo_fmaf(mode, x, y, z); }
EVO_DIRECTED(rd, EVO_DOWN)
EVO_DIRECTED(ru, EVO_UP)
EVO_DIRECTED(rz, EVO_ZERO)
#undef EVO_DIRECTED
EVO_INLINE double __dsub_rn(double x, double y) { return __dadd_rn(x, -y); }
EVO_INLINE float __fmaf_ieee_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
EVO_INLINE double __ddiv_rn(double x, double y) { return x / y; }
EVO_INLINE double __drcp_rn(double x) { return 1.0 / x; }
EVO_INLINE double __dsqrt_rn(double x) { return __builtin_sqrt(x); }
EVO_INLINE float __int2float_rn(int x) { return (float)x; }
EVO_INLINE float __uint2float_rn(unsigned x) { return (float)x; }
EVO_INLINE float __ll2float_rn(long long x) { return (float)x; }
EVO_INLINE float __ull2float_rn(unsigned long long x) { return (float)x; }
EVO_INLINE float __double2float_rn(double x) { return (float)x; }
EVO_INLINE double __int2double_rn(int x) { return (double)x; }
EVO_INLINE double __uint2double_rn(unsigned x) { return (double)x; }
EVO_INLINE double __ll2double_rn(long long x) { return (double)x; }
EVO_INLINE double __ull2double_rn(unsigned long long x) { return (double)x; }

// Multiples of pi: exact where the sine or the cosine is 0, 1 or -1.
EVO_INLINE void sincospi(double x, double* sine, double* cosine) {
    double quarters = __builtin_rint(2.0 * x), rest = (x - 0.5 * quarters) * 3.14159265358979323846;
    double s = __builtin_sin(rest), c = __builtin_cos(rest);
    // Numbers beyond 2^53 are even, and infinities have no angle.
    int turn = __builtin_isfinite(x) ? (int)(quarters - 4.0 * __builtin_floor(0.25 * quarters)) : 0;
    *sine = turn == 0 ? s : turn == 1 ? c : turn == 2 ? -s : -c;
    *cosine = turn == 0 ? c : turn == 1 ? -s : turn == 2 ? -c : s;
}
EVO_INLINE double sinpi(double x) { double s, c; sincospi(x, &s, &c); return s; }
EVO_INLINE double cospi(double x) { double s, c; sincospi(x, &s, &c); return c; }
EVO_INLINE void sincospif(float x, float* sine, float* cosine) {
    double s, c;
    sincospi((double)x, &s, &c);
    *sine = (float)s, *cosine = (float)c;
}
EVO_INLINE float sinpif(float x) { return (float)sinpi((double)x); }
EVO_INLINE float cospif(float x) { return (float)cospi((double)x); }
EVO_INLINE void __sincosf(float x, float* sine, float* cosine) { sincosf(x, sine, cosine); }
EVO_INLINE float norm3df(float x, float y, float z) { return (float)__builtin_sqrt((double)x * x + (double)y * y + (double)z * z); }
EVO_INLINE float rnorm3df(float x, float y, float z) { return 1.0f / norm3df(x, y, z); }
EVO_INLINE float rhypotf(float x, float y) { return 1.0f / __builtin_hypotf(x, y); }
EVO_INLINE float rcbrtf(float x) { return 1.0f / __builtin_cbrtf(x); }

EVO_INLINE unsigned __sad(int x, int y, unsigned z) { return z + (x < y ? (unsigned)y - (unsigned)x : (unsigned)x - (unsigned)y); }
EVO_INLINE unsigned __usad(unsigned x, unsigned y, unsigned z) { return z + (x < y ? y - x : x - y); }
EVO_INLINE int __hadd(int x, int y) { return (int)(((long long)x + y) >> 1); }
EVO_INLINE int __rhadd(int x, int y) { return (int)(((long long)x + y + 1) >> 1); }
EVO_INLINE unsigned __uhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y) >> 1); }
EVO_INLINE unsigned __urhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y + 1) >> 1); }
EVO_INLINE unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; i++) c += (a >> 8 * i & 0xffu) * (b >> 8 * i & 0xffu);
    return c;
}
EVO_INLINE unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev((unsigned)x) << 32 | __brev((unsigned)(x >> 32));
}

// Parts of a word: `Part` holds one exactly, signed or not; the result is cut to the part's bits.
#define EVO_PARTS(name, Part, bits, expression)                                                    \
    EVO_INLINE unsigned name(unsigned x, unsigned y) {                                             \
        unsigned result = 0;                                                                       \
        for (int at = 0; at < 32; at += bits) {                                                    \
            int a = (Part)(x >> at), b = (Part)(y >> at);                                          \
            result |= ((unsigned)(expression) & ((1u << bits) - 1)) << at;                         \
        }                                                                                          \
        return result;                                                                             \
    }
#define EVO_SIMD(suffix, Signed, Unsigned, bits, low, high, top)                                   \
    EVO_PARTS(__vadd##suffix, Unsigned, bits, a + b)                                               \
    EVO_PARTS(__vsub##suffix, Unsigned, bits, a - b)                                               \
    EVO_PARTS(__vaddus##suffix, Unsigned, bits, a + b > top ? top : a + b)                         \
    EVO_PARTS(__vsubus##suffix, Unsigned, bits, a < b ? 0 : a - b)                                 \
    EVO_PARTS(__vaddss##suffix, Signed, bits, a + b > high ? high : a + b < low ? low : a + b)     \
    EVO_PARTS(__vsubss##suffix, Signed, bits, a - b > high ? high : a - b < low ? low : a - b)     \
    EVO_PARTS(__vabsdiffu##suffix, Unsigned, bits, a < b ? b - a : a - b)                          \
    EVO_PARTS(__vabsdiffs##suffix, Signed, bits, a < b ? b - a : a - b)                            \
    EVO_PARTS(__vmaxu##suffix, Unsigned, bits, a < b ? b : a)                                      \
    EVO_PARTS(__vminu##suffix, Unsigned, bits, b < a ? b : a)                                      \
    EVO_PARTS(__vmaxs##suffix, Signed, bits, a < b ? b : a)                                        \
    EVO_PARTS(__vmins##suffix, Signed, bits, b < a ? b : a)                                        \
    EVO_PARTS(__vavgu##suffix, Unsigned, bits, (a + b + 1) >> 1)                                   \
    EVO_PARTS(__vhaddu##suffix, Unsigned, bits, (a + b) >> 1)                                      \
    EVO_PARTS(__vcmpeq##suffix, Unsigned, bits, a == b ? -1 : 0)                                   \
    EVO_PARTS(__vcmpne##suffix, Unsigned, bits, a != b ? -1 : 0)                                   \
    EVO_PARTS(__vcmpgtu##suffix, Unsigned, bits, a > b ? -1 : 0)                                   \
    EVO_PARTS(__vcmpgeu##suffix, Unsigned, bits, a >= b ? -1 : 0)                                  \
    EVO_PARTS(__vcmpltu##suffix, Unsigned, bits, a < b ? -1 : 0)                                   \
    EVO_PARTS(__vcmpleu##suffix, Unsigned, bits, a <= b ? -1 : 0)                                  \
    EVO_PARTS(__vcmpgts##suffix, Signed, bits, a > b ? -1 : 0)                                     \
    EVO_PARTS(__vcmplts##suffix, Signed, bits, a < b ? -1 : 0)                                     \
    EVO_PARTS(__vseteq##suffix, Unsigned, bits, a == b)                                            \
    EVO_PARTS(__vsetgtu##suffix, Unsigned, bits, a > b)                                            \
    EVO_PARTS(__vsetltu##suffix, Unsigned, bits, a < b)                                            \
    EVO_INLINE unsigned __vneg##suffix(unsigned x) { return __vsub##suffix(0u, x); }               \
    EVO_INLINE unsigned __vabs##suffix(unsigned x) { return __vabsdiffs##suffix(x, 0u); }          \
    EVO_INLINE unsigned __vsadu##suffix(unsigned x, unsigned y) {                                  \
        unsigned sum = 0, parts = __vabsdiffu##suffix(x, y);                                       \
        for (int at = 0; at < 32; at += bits) sum += parts >> at & ((1u << bits) - 1);             \
        return sum;                                                                                \
    }                                                                                              \
    EVO_INLINE unsigned __vsads##suffix(unsigned x, unsigned y) {                                  \
        unsigned sum = 0, parts = __vabsdiffs##suffix(x, y);                                       \
        for (int at = 0; at < 32; at += bits) sum += parts >> at & ((1u << bits) - 1);             \
        return sum;                                                                                \
    }
EVO_SIMD(2, short, unsigned short, 16, -32768, 32767, 65535)
EVO_SIMD(4, signed char, unsigned char, 8, -128, 127, 255)
#undef EVO_SIMD
#undef EVO_PARTS
#endif
