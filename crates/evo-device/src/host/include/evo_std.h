// The math functions under their C++ names. A source may include the C++ library's headers; those of them that
// declare math functions resolve to ours, so that `std::sqrt` and `sqrt` are one function and neither is ambiguous.
#ifndef EVO_STD_H
#define EVO_STD_H
#pragma GCC system_header

namespace std {
using ::acos; using ::acosf; using ::acosh; using ::asin; using ::asinf; using ::asinh; using ::atan; using ::atan2;
using ::atan2f; using ::atanf; using ::atanh; using ::cbrt; using ::cbrtf; using ::ceil; using ::ceilf; using ::copysign;
using ::copysignf; using ::cos; using ::cosf; using ::cosh; using ::coshf; using ::erf; using ::erfc; using ::erfcf;
using ::erff; using ::exp; using ::exp2; using ::exp2f; using ::expf; using ::expm1; using ::expm1f; using ::fabs;
using ::fabsf; using ::fdim; using ::fdimf; using ::floor; using ::floorf; using ::fma; using ::fmaf; using ::fmax;
using ::fmaxf; using ::fmin; using ::fminf; using ::fmod; using ::fmodf; using ::frexp; using ::frexpf; using ::hypot;
using ::hypotf; using ::ilogb; using ::ilogbf; using ::isfinite; using ::isinf; using ::isnan; using ::isnormal;
using ::ldexp; using ::ldexpf; using ::lgamma; using ::lgammaf; using ::llrint; using ::llrintf; using ::llround;
using ::llroundf; using ::log; using ::log10; using ::log10f; using ::log1p; using ::log1pf; using ::log2; using ::log2f;
using ::logb; using ::logbf; using ::logf; using ::lrint; using ::lrintf; using ::lround; using ::lroundf; using ::modf;
using ::modff; using ::nan; using ::nanf; using ::nearbyint; using ::nearbyintf; using ::nextafter; using ::nextafterf;
using ::pow; using ::powf; using ::remainder; using ::remainderf; using ::remquo; using ::remquof; using ::rint;
using ::rintf; using ::round; using ::roundf; using ::scalbln; using ::scalbn; using ::signbit; using ::sin; using ::sinf;
using ::sinh; using ::sinhf; using ::sqrt; using ::sqrtf; using ::tan; using ::tanf; using ::tanh; using ::tanhf;
using ::tgamma; using ::tgammaf; using ::trunc; using ::truncf;
using ::abs; using ::labs; using ::llabs; using ::malloc; using ::free; using ::size_t; using ::ptrdiff_t;
}
#endif
