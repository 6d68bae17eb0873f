// Math functions and bit operations under their CUDA names.
//
// The C library's functions are declared here rather than included: its headers take longer to parse than
// everything else together. CUDA's fast intrinsics (`__expf`, `__fdividef`, …) become the accurate
// functions: a variant that is only right with their errors is not found here, but one that is right stays right.
#ifndef EVO_MATH_H
#define EVO_MATH_H
#pragma GCC system_header

// Whole numbers, and pairs that are not of one type, are computed in double precision, as by C++'s own functions.
template <class T> struct evo_number_of { static constexpr int rank = 0; };
#define EVO_NUMBER(T) template <> struct evo_number_of<T> { static constexpr int rank = 1; typedef double whole; };
EVO_NUMBER(bool) EVO_NUMBER(char) EVO_NUMBER(signed char) EVO_NUMBER(unsigned char) EVO_NUMBER(short)
EVO_NUMBER(unsigned short) EVO_NUMBER(int) EVO_NUMBER(unsigned) EVO_NUMBER(long) EVO_NUMBER(unsigned long)
EVO_NUMBER(long long) EVO_NUMBER(unsigned long long)
#undef EVO_NUMBER
template <> struct evo_number_of<float> { static constexpr int rank = 2; };
template <> struct evo_number_of<double> { static constexpr int rank = 2; };
template <bool> struct evo_if {};
template <> struct evo_if<true> { typedef double type; };
template <class A, class B> struct evo_mixed : evo_if<(evo_number_of<A>::rank * evo_number_of<B>::rank > 0)> {};

#define EVO_MATH_1(name)                                                                           \
    extern "C" double name(double) noexcept;                                                       \
    extern "C" float name##f(float) noexcept;                                                      \
    EVO_INLINE float name(float x) { return __builtin_##name##f(x); }                              \
    template <class T> EVO_INLINE typename evo_number_of<T>::whole name(T x) { return __builtin_##name((double)x); }
EVO_MATH_1(sin) EVO_MATH_1(cos) EVO_MATH_1(tan) EVO_MATH_1(asin) EVO_MATH_1(acos) EVO_MATH_1(atan)
EVO_MATH_1(sinh) EVO_MATH_1(cosh) EVO_MATH_1(tanh) EVO_MATH_1(asinh) EVO_MATH_1(acosh) EVO_MATH_1(atanh)
EVO_MATH_1(exp) EVO_MATH_1(exp2) EVO_MATH_1(expm1) EVO_MATH_1(log) EVO_MATH_1(log2) EVO_MATH_1(log10)
EVO_MATH_1(log1p) EVO_MATH_1(sqrt) EVO_MATH_1(cbrt) EVO_MATH_1(floor) EVO_MATH_1(ceil) EVO_MATH_1(trunc)
EVO_MATH_1(round) EVO_MATH_1(rint) EVO_MATH_1(nearbyint) EVO_MATH_1(fabs) EVO_MATH_1(erf) EVO_MATH_1(erfc)
EVO_MATH_1(tgamma) EVO_MATH_1(lgamma) EVO_MATH_1(logb)
#undef EVO_MATH_1
#define EVO_MATH_2(name)                                                                           \
    extern "C" double name(double, double) noexcept;                                               \
    extern "C" float name##f(float, float) noexcept;                                               \
    EVO_INLINE float name(float x, float y) { return __builtin_##name##f(x, y); }                  \
    template <class A, class B> EVO_INLINE typename evo_mixed<A, B>::type name(A x, B y) {         \
        return __builtin_##name((double)x, (double)y);                                             \
    }
EVO_MATH_2(nextafter) EVO_MATH_2(pow) EVO_MATH_2(fmod) EVO_MATH_2(atan2) EVO_MATH_2(hypot)
EVO_MATH_2(fdim) EVO_MATH_2(copysign) EVO_MATH_2(remainder)
#undef EVO_MATH_2
// As in CUDA, a NaN loses against a number. Written out, since the library's function is a call.
EVO_INLINE float fmaxf(float a, float b) { return a != a || b > a ? b : a; }
EVO_INLINE float fminf(float a, float b) { return a != a || b < a ? b : a; }
EVO_INLINE double fmax(double a, double b) { return a != a || b > a ? b : a; }
EVO_INLINE double fmin(double a, double b) { return a != a || b < a ? b : a; }
EVO_INLINE float fmax(float a, float b) { return fmaxf(a, b); }
EVO_INLINE float fmin(float a, float b) { return fminf(a, b); }
template <class A, class B> EVO_INLINE typename evo_mixed<A, B>::type fmax(A a, B b) { return fmax((double)a, (double)b); }
template <class A, class B> EVO_INLINE typename evo_mixed<A, B>::type fmin(A a, B b) { return fmin((double)a, (double)b); }
// The compiler of a GPU keeps these in single precision.
EVO_INLINE float pow(float x, int y) { return __builtin_powf(x, (float)y); }
EVO_INLINE double pow(double x, int y) { return __builtin_pow(x, (double)y); }
extern "C" double fma(double, double, double) noexcept;
extern "C" float fmaf(float, float, float) noexcept;
extern "C" double exp10(double) noexcept;
extern "C" float exp10f(float) noexcept;
extern "C" double ldexp(double, int) noexcept;
extern "C" float ldexpf(float, int) noexcept;
extern "C" double frexp(double, int*) noexcept;
extern "C" float frexpf(float, int*) noexcept;
extern "C" double modf(double, double*) noexcept;
extern "C" float modff(float, float*) noexcept;
EVO_INLINE float ldexp(float x, int power) { return __builtin_ldexpf(x, power); }
EVO_INLINE float frexp(float x, int* power) { return __builtin_frexpf(x, power); }
EVO_INLINE float modf(float x, float* whole) { return __builtin_modff(x, whole); }
#define EVO_TO_WHOLE(name, T)                                                                      \
    extern "C" T name(double) noexcept;                                                            \
    extern "C" T name##f(float) noexcept;                                                          \
    EVO_INLINE T name(float x) { return __builtin_##name##f(x); }
EVO_TO_WHOLE(lrint, long) EVO_TO_WHOLE(llrint, long long) EVO_TO_WHOLE(lround, long) EVO_TO_WHOLE(llround, long long)
EVO_TO_WHOLE(ilogb, int)
#undef EVO_TO_WHOLE
#define EVO_SCALE(name, T)                                                                         \
    extern "C" double name(double, T) noexcept;                                                    \
    extern "C" float name##f(float, T) noexcept;                                                   \
    EVO_INLINE float name(float x, T power) { return __builtin_##name##f(x, power); }
EVO_SCALE(scalbn, int) EVO_SCALE(scalbln, long)
#undef EVO_SCALE
extern "C" double remquo(double, double, int*) noexcept;
extern "C" float remquof(float, float, int*) noexcept;
EVO_INLINE float remquo(float x, float y, int* quotient) { return __builtin_remquof(x, y, quotient); }
extern "C" double nan(const char*) noexcept;
extern "C" float nanf(const char*) noexcept;
extern "C" int abs(int) noexcept;
extern "C" long labs(long) noexcept;
extern "C" long long llabs(long long) noexcept;
EVO_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
EVO_INLINE long abs(long x) { return x < 0 ? -x : x; }
EVO_INLINE long long abs(long long x) { return x < 0 ? -x : x; }
EVO_INLINE float abs(float x) { return __builtin_fabsf(x); }
EVO_INLINE double abs(double x) { return __builtin_fabs(x); }
EVO_INLINE bool isnan(float x) { return __builtin_isnan(x); }
EVO_INLINE bool isnan(double x) { return __builtin_isnan(x); }
EVO_INLINE bool isnormal(float x) { return __builtin_isnormal(x); }
EVO_INLINE bool isnormal(double x) { return __builtin_isnormal(x); }
EVO_INLINE bool isinf(float x) { return __builtin_isinf(x); }
EVO_INLINE bool isinf(double x) { return __builtin_isinf(x); }
EVO_INLINE bool isfinite(float x) { return __builtin_isfinite(x); }
EVO_INLINE bool isfinite(double x) { return __builtin_isfinite(x); }
EVO_INLINE bool signbit(float x) { return __builtin_signbit(x); }
EVO_INLINE bool signbit(double x) { return __builtin_signbit(x); }

EVO_INLINE float rsqrtf(float x) { return 1.0f / __builtin_sqrtf(x); }
EVO_INLINE double rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
EVO_INLINE float rsqrt(float x) { return rsqrtf(x); }
EVO_INLINE void sincosf(float x, float* s, float* c) { *s = __builtin_sinf(x); *c = __builtin_cosf(x); }
EVO_INLINE void sincos(double x, double* s, double* c) { *s = __builtin_sin(x); *c = __builtin_cos(x); }
EVO_INLINE float __expf(float x) { return __builtin_expf(x); }
EVO_INLINE float __exp2f(float x) { return __builtin_exp2f(x); }
EVO_INLINE float __exp10f(float x) { return exp10f(x); }
EVO_INLINE float __logf(float x) { return __builtin_logf(x); }
EVO_INLINE float __log2f(float x) { return __builtin_log2f(x); }
EVO_INLINE float __log10f(float x) { return __builtin_log10f(x); }
EVO_INLINE float __sinf(float x) { return __builtin_sinf(x); }
EVO_INLINE float __cosf(float x) { return __builtin_cosf(x); }
EVO_INLINE float __tanf(float x) { return __builtin_tanf(x); }
EVO_INLINE float __tanhf(float x) { return __builtin_tanhf(x); }
EVO_INLINE float __powf(float x, float y) { return __builtin_powf(x, y); }
EVO_INLINE float __fdividef(float x, float y) { return x / y; }
EVO_INLINE float fdividef(float x, float y) { return x / y; }
EVO_INLINE float __frcp_rn(float x) { return 1.0f / x; }
EVO_INLINE float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
EVO_INLINE float __frsqrt_rn(float x) { return (float)(1.0 / __builtin_sqrt((double)x)); }
EVO_INLINE float __fdiv_rn(float x, float y) { return x / y; }
EVO_INLINE float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
EVO_INLINE double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
// The barrier keeps a product from being fused with a sum: on a GPU these are never contracted.
EVO_INLINE float __fmul_rn(float x, float y) { float z = x * y; __asm__("" : "+m"(z)); return z; }
EVO_INLINE float __fadd_rn(float x, float y) { float z = x + y; __asm__("" : "+m"(z)); return z; }
EVO_INLINE float __fsub_rn(float x, float y) { float z = x - y; __asm__("" : "+m"(z)); return z; }
EVO_INLINE double __dmul_rn(double x, double y) { double z = x * y; __asm__("" : "+m"(z)); return z; }
EVO_INLINE double __dadd_rn(double x, double y) { double z = x + y; __asm__("" : "+m"(z)); return z; }
EVO_INLINE float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

EVO_INLINE int __float_as_int(float x) { int y; __builtin_memcpy(&y, &x, 4); return y; }
EVO_INLINE unsigned __float_as_uint(float x) { unsigned y; __builtin_memcpy(&y, &x, 4); return y; }
EVO_INLINE float __int_as_float(int x) { float y; __builtin_memcpy(&y, &x, 4); return y; }
EVO_INLINE float __uint_as_float(unsigned x) { float y; __builtin_memcpy(&y, &x, 4); return y; }
EVO_INLINE long long __double_as_longlong(double x) { long long y; __builtin_memcpy(&y, &x, 8); return y; }
EVO_INLINE double __longlong_as_double(long long x) { double y; __builtin_memcpy(&y, &x, 8); return y; }

EVO_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
EVO_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
EVO_INLINE int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
EVO_INLINE int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
EVO_INLINE int __ffs(int x) { return __builtin_ffs(x); }
EVO_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
EVO_INLINE unsigned __brev(unsigned x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}
EVO_INLINE int __mul24(int x, int y) { return (int)((unsigned)(x << 8 >> 8) * (unsigned)(y << 8 >> 8)); }
EVO_INLINE unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffffu) * (y & 0xffffffu); }
EVO_INLINE int __mulhi(int x, int y) { return (int)(((long long)x * y) >> 32); }
EVO_INLINE unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x * y) >> 32); }
EVO_INLINE unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)(((unsigned __int128)x * y) >> 64);
}
EVO_INLINE unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    unsigned long long both = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) {
        unsigned choice = selector >> (4 * i);
        unsigned byte = (unsigned)(both >> (8 * (choice & 7))) & 0xffu;
        if (choice & 8) byte = byte & 0x80u ? 0xffu : 0u;
        result |= byte << (8 * i);
    }
    return result;
}
EVO_INLINE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)((((unsigned long long)high << 32 | low) << (shift & 31)) >> 32);
}
EVO_INLINE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
EVO_INLINE int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; i++) c += (int)(signed char)(a >> (8 * i)) * (int)(signed char)(b >> (8 * i));
    return c;
}

EVO_INLINE unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
EVO_INLINE unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}
EVO_INLINE long long __mul64hi(long long x, long long y) { return (long long)(((__int128)x * y) >> 64); }
EVO_INLINE int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
EVO_INLINE int __double2loint(double x) { return (int)__double_as_longlong(x); }
EVO_INLINE double __hiloint2double(int high, int low) {
    return __longlong_as_double((long long)((unsigned long long)(unsigned)high << 32 | (unsigned)low));
}

#define EVO_EXTREMES(T, A, B)                                                                      \
    EVO_INLINE T min(A a, B b) { return (T)a < (T)b ? (T)a : (T)b; }                               \
    EVO_INLINE T max(A a, B b) { return (T)a > (T)b ? (T)a : (T)b; }
EVO_EXTREMES(int, int, int)
EVO_EXTREMES(unsigned, unsigned, unsigned)
EVO_EXTREMES(unsigned, int, unsigned)
EVO_EXTREMES(unsigned, unsigned, int)
EVO_EXTREMES(long, long, long)
EVO_EXTREMES(unsigned long, unsigned long, unsigned long)
EVO_EXTREMES(unsigned long, long, unsigned long)
EVO_EXTREMES(unsigned long, unsigned long, long)
EVO_EXTREMES(long long, long long, long long)
EVO_EXTREMES(unsigned long long, unsigned long long, unsigned long long)
EVO_EXTREMES(unsigned long long, long long, unsigned long long)
EVO_EXTREMES(unsigned long long, unsigned long long, long long)
#undef EVO_EXTREMES
EVO_INLINE float min(float a, float b) { return fminf(a, b); }
EVO_INLINE float max(float a, float b) { return fmaxf(a, b); }
EVO_INLINE double min(double a, double b) { return fmin((double)a, (double)b); }
EVO_INLINE double max(double a, double b) { return fmax((double)a, (double)b); }
EVO_INLINE double min(float a, double b) { return fmin((double)a, (double)b); }
EVO_INLINE double max(float a, double b) { return fmax((double)a, (double)b); }
EVO_INLINE double min(double a, float b) { return fmin((double)a, (double)b); }
EVO_INLINE double max(double a, float b) { return fmax((double)a, (double)b); }

template <class T> EVO_INLINE T __ldg(const T* pointer) { return *pointer; }
template <class T> EVO_INLINE T __ldcg(const T* pointer) { return *pointer; }
template <class T> EVO_INLINE T __ldca(const T* pointer) { return *pointer; }
template <class T> EVO_INLINE T __ldcs(const T* pointer) { return *pointer; }
template <class T> EVO_INLINE T __ldlu(const T* pointer) { return *pointer; }
// Read now and as a whole: neither from a copy that the compiler keeps nor in advance.
template <class T> EVO_INLINE T __ldcv(const T* pointer) {
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    T value = *pointer;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    return value;
}
template <class T> EVO_INLINE void __stcg(T* pointer, T value) { *pointer = value; }
template <class T> EVO_INLINE void __stcs(T* pointer, T value) { *pointer = value; }
template <class T> EVO_INLINE void __stwb(T* pointer, T value) { *pointer = value; }
template <class T> EVO_INLINE void __stwt(T* pointer, T value) { *pointer = value; }
#endif
