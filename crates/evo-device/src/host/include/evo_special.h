// Special functions of CUDA's math library that the C library lacks, or has under other names.
//
// All are computed in double precision, so the float forms round once more and are exact to a unit in the last place.
#ifndef EVO_SPECIAL_H
#define EVO_SPECIAL_H
#pragma GCC system_header

#define EVO_BESSEL(name)                                                                           \
    extern "C" double name(double) noexcept;                                                       \
    extern "C" float name##f(float) noexcept;
EVO_BESSEL(j0) EVO_BESSEL(j1) EVO_BESSEL(y0) EVO_BESSEL(y1)
#undef EVO_BESSEL
extern "C" double jn(int, double) noexcept;
extern "C" float jnf(int, float) noexcept;
extern "C" double yn(int, double) noexcept;
extern "C" float ynf(int, float) noexcept;

// A start within half a percent (S. Winitzki, "A handy approximation for the error function and its inverse", 2008):
// `log_term` is ln(1 - y^2).
EVO_INLINE double evo_erfinv_start(double log_term) {
    const double a = 0.147;
    double half = 2.0 / (3.14159265358979323846 * a) + 0.5 * log_term;
    return __builtin_sqrt(__builtin_sqrt(half * half - log_term / a) - half);
}
// Halley's method on erfc(x) = y for 0 < y < 1; each step triples the number of right digits.
EVO_INLINE double evo_erfcinv_small(double y) {
    if (y == 0.0) return __builtin_inf();
    // Far out from erfc(x) = exp(-x * x) / (x * sqrt(pi)), where the other start is too far off for the steps.
    double down = -__builtin_log(y);
    double x = y < 1e-3 ? __builtin_sqrt(down - 0.5 * __builtin_log(3.14159265358979323846 * down))
                        : evo_erfinv_start(__builtin_log(2.0 - y) - down);
    for (int step = 0; step < 4; step++) {
        double slope = 1.12837916709551257390 * __builtin_exp(-x * x);
        double change = (__builtin_erfc(x) - y) / slope;
        if (!__builtin_isfinite(change)) break;
        x += change / (1.0 + x * change);
    }
    return x;
}
EVO_INLINE double evo_erfinv_middle(double y) {
    if (y == 0.0) return y;
    double x = __builtin_copysign(evo_erfinv_start(__builtin_log1p(-y * y)), y);
    for (int step = 0; step < 4; step++) {
        double change = (__builtin_erf(x) - y) / (1.12837916709551257390 * __builtin_exp(-x * x));
        x -= change / (1.0 + x * change);
    }
    return x;
}
// Differences such as 1 - y are exact where they are taken.
EVO_INLINE double erfinv(double y) {
    double size = __builtin_fabs(y);
    if (!(size <= 1.0)) return __builtin_nan("");
    return size < 0.5 ? evo_erfinv_middle(y) : __builtin_copysign(evo_erfcinv_small(1.0 - size), y);
}
EVO_INLINE double erfcinv(double y) {
    if (!(y >= 0.0 && y <= 2.0)) return __builtin_nan("");
    if (y < 0.5) return evo_erfcinv_small(y);
    return y > 1.5 ? -evo_erfcinv_small(2.0 - y) : evo_erfinv_middle(1.0 - y);
}
// exp(x * x) with the square's rounding error: `power` is 1 or -1.
EVO_INLINE double evo_exp_square(double x, double power) {
    double square = x * x, rest = __builtin_fma(x, x, -square);
    return __builtin_exp(power * square) * (1.0 + power * rest);
}
EVO_INLINE double erfcx(double x) {
    if (x < 10.0) return x < -27.0 ? __builtin_inf() : evo_exp_square(x, 1.0) * __builtin_erfc(x);
    // The asymptotic series: at 10 its terms fall to 1e-17 before they grow.
    double sum = 1.0, term = 1.0, step = 0.5 / x / x;
    for (int k = 1; k < 20 && __builtin_fabs(term) > 1e-18; k++) sum += term *= -(2 * k - 1) * step;
    return sum / x * 0.56418958354775628695;
}
EVO_INLINE double normcdf(double x) {
    // -x / sqrt(2), whose rounding error moves the tail's value by far more than a unit.
    double at = -x * 0.70710678118654752440;
    double rest = __builtin_fma(-x, 0.70710678118654752440, -at) + x * 4.8336466567264567e-17;
    double value = __builtin_erfc(at);
    if (__builtin_isfinite(at)) value -= rest * 1.12837916709551257390 * __builtin_exp(-at * at);
    return 0.5 * value;
}
EVO_INLINE double normcdfinv(double p) { return -1.41421356237309504880 * erfcinv(2.0 * p); }

// Modified Bessel functions: the power series, all of whose terms have one sign, and far out the asymptotic one (NIST
// Digital Library of Mathematical Functions, 10.25.2 and 10.40.1).
EVO_INLINE double evo_bessel_i(int order, double x) {
    double size = __builtin_fabs(x);
    if (size < 40.0) {
        double quarter = 0.25 * x * x, term = order ? 0.5 * size : 1.0, sum = term;
        for (int k = 1; k < 200 && term > 1e-18 * sum; k++) sum += term *= quarter / k / (k + order);
        return sum;
    }
    double sum = 1.0, term = 1.0;
    for (int k = 1; k < 60 && __builtin_fabs(term) > 1e-18; k++)
        sum += term *= -(4.0 * order * order - (2.0 * k - 1) * (2.0 * k - 1)) / (8.0 * size * k);
    // In two halves, so that the power does not overflow before the result does.
    double half = __builtin_exp(0.5 * size);
    return half * (sum / __builtin_sqrt(6.28318530717958647692 * size)) * half;
}
EVO_INLINE double cyl_bessel_i0(double x) { return evo_bessel_i(0, x); }
EVO_INLINE double cyl_bessel_i1(double x) { return __builtin_copysign(evo_bessel_i(1, x), x); }

// Lengths, without overflow on the way.
EVO_INLINE double norm3d(double x, double y, double z) { return __builtin_hypot(__builtin_hypot(x, y), z); }
EVO_INLINE double norm4d(double x, double y, double z, double w) {
    return __builtin_hypot(__builtin_hypot(x, y), __builtin_hypot(z, w));
}
EVO_INLINE double rnorm3d(double x, double y, double z) { return 1.0 / norm3d(x, y, z); }
EVO_INLINE double rnorm4d(double x, double y, double z, double w) { return 1.0 / norm4d(x, y, z, w); }
EVO_INLINE double norm(int count, const double* values) {
    double length = 0.0;
    for (int at = 0; at < count; at++) length = __builtin_hypot(length, values[at]);
    return length;
}
EVO_INLINE double rnorm(int count, const double* values) { return 1.0 / norm(count, values); }
EVO_INLINE float norm4df(float x, float y, float z, float w) { return (float)norm4d(x, y, z, w); }
EVO_INLINE float rnorm4df(float x, float y, float z, float w) { return (float)rnorm4d(x, y, z, w); }
EVO_INLINE float normf(int count, const float* values) {
    // Squares of floats neither overflow nor vanish in double precision.
    double sum = 0.0;
    for (int at = 0; at < count; at++) sum += (double)values[at] * values[at];
    return (float)__builtin_sqrt(sum);
}
EVO_INLINE float rnormf(int count, const float* values) { return (float)(1.0 / (double)normf(count, values)); }
EVO_INLINE double rhypot(double x, double y) { return 1.0 / __builtin_hypot(x, y); }
EVO_INLINE double rcbrt(double x) { return 1.0 / __builtin_cbrt(x); }

#define EVO_NARROW(name)                                                                           \
    EVO_INLINE float name##f(float x) { return (float)name((double)x); }
EVO_NARROW(erfinv) EVO_NARROW(erfcinv) EVO_NARROW(erfcx) EVO_NARROW(normcdf) EVO_NARROW(normcdfinv)
EVO_NARROW(cyl_bessel_i0) EVO_NARROW(cyl_bessel_i1)
#undef EVO_NARROW
#define EVO_OVERLOAD(name)                                                                         \
    EVO_INLINE float name(float x) { return name##f(x); }
EVO_OVERLOAD(erfinv) EVO_OVERLOAD(erfcinv) EVO_OVERLOAD(erfcx) EVO_OVERLOAD(normcdf) EVO_OVERLOAD(normcdfinv)
EVO_OVERLOAD(cyl_bessel_i0) EVO_OVERLOAD(cyl_bessel_i1) EVO_OVERLOAD(rcbrt) EVO_OVERLOAD(sinpi) EVO_OVERLOAD(cospi)
EVO_OVERLOAD(exp10) EVO_OVERLOAD(j0) EVO_OVERLOAD(j1) EVO_OVERLOAD(y0) EVO_OVERLOAD(y1)
#undef EVO_OVERLOAD
EVO_INLINE float rhypot(float x, float y) { return rhypotf(x, y); }
EVO_INLINE void sincos(float x, float* sine, float* cosine) { sincosf(x, sine, cosine); }
EVO_INLINE void sincospi(float x, float* sine, float* cosine) { sincospif(x, sine, cosine); }

// The extremes of one type, and tests under their older names.
EVO_INLINE unsigned umin(unsigned a, unsigned b) { return b < a ? b : a; }
EVO_INLINE unsigned umax(unsigned a, unsigned b) { return a < b ? b : a; }
EVO_INLINE long long llmin(long long a, long long b) { return b < a ? b : a; }
EVO_INLINE long long llmax(long long a, long long b) { return a < b ? b : a; }
EVO_INLINE unsigned long long ullmin(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
EVO_INLINE unsigned long long ullmax(unsigned long long a, unsigned long long b) { return a < b ? b : a; }
EVO_INLINE float fdivide(float x, float y) { return x / y; }
EVO_INLINE int __finite(double x) { return __builtin_isfinite(x); }
EVO_INLINE int __finitef(float x) { return __builtin_isfinite(x); }
EVO_INLINE int __isfinited(double x) { return __builtin_isfinite(x); }
EVO_INLINE int __isnan(double x) { return __builtin_isnan(x); }
EVO_INLINE int __isnanf(float x) { return __builtin_isnan(x); }
EVO_INLINE int __isinf(double x) { return __builtin_isinf(x); }
EVO_INLINE int __isinff(float x) { return __builtin_isinf(x); }
EVO_INLINE int __signbit(double x) { return __builtin_signbit(x) != 0; }
EVO_INLINE int __signbitf(float x) { return __builtin_signbit(x) != 0; }
EVO_INLINE int __signbitd(double x) { return __builtin_signbit(x) != 0; }
#endif
