// The rest of CUDA's functions on `__half` and `__nv_bfloat16` (CUDA Math API, "Half Precision Intrinsics"): comparisons
// that NaN passes, masks, fused forms, and conversions with each rounding.
#ifndef EVO_HALF_MORE_H
#define EVO_HALF_MORE_H
#pragma GCC system_header

// The nearest number of a half type, moved one step where it lies on the wrong side: `mode` is EVO_UP, EVO_DOWN,
// EVO_ZERO or EVO_NEAREST.
template <class H> EVO_INLINE H evo_half_directed(double value, int mode) {
    H near = H(evo_round_odd(value));
    double back = (double)(float)near;
    if (mode == EVO_ZERO) mode = value > 0.0 ? EVO_DOWN : EVO_UP;
    bool above = mode == EVO_DOWN && back > value, below = mode == EVO_UP && back < value;
    if (!above && !below) return near;
    unsigned bits = near.evo_x;
    if ((bits & 0x7fffu) == 0) return evo_raw(near, above ? 0x8001u : 0x0001u);
    bool toward_zero = above == ((bits & 0x8000u) == 0);
    return evo_raw(near, (unsigned short)(toward_zero ? bits - 1u : bits + 1u));
}
// A whole number that double cannot hold becomes its odd neighbor, which rounds as the number itself.
template <class T> EVO_INLINE double evo_odd_double(T whole) {
    double value = evo_widened<double>(EVO_ZERO, whole);
    if ((T)value == whole) return value;
    return __longlong_as_double(__double_as_longlong(value) | 1);
}
// 0 for NaN; the ends of the range beyond them.
template <class T> EVO_INLINE T evo_small_whole(float value, float low, float high) {
    return value != value ? (T)0 : value <= low ? (T)low : value >= high ? (T)high : (T)value;
}

#define EVO_HALF_ROUNDED(H, half, suffix, mode, rounded)                                           \
    EVO_INLINE H __float2##half##_##suffix(float a) { return evo_half_directed<H>(a, mode); }      \
    EVO_HALF_WHOLE(H, half, suffix, mode, rounded)
#define EVO_HALF_WHOLE(H, half, suffix, mode, rounded)                                             \
    EVO_INLINE H __int2##half##_##suffix(int a) { return evo_half_directed<H>(a, mode); }          \
    EVO_INLINE H __uint2##half##_##suffix(unsigned a) { return evo_half_directed<H>(a, mode); }    \
    EVO_INLINE H __short2##half##_##suffix(short a) { return evo_half_directed<H>(a, mode); }      \
    EVO_INLINE H __ushort2##half##_##suffix(unsigned short a) { return evo_half_directed<H>(a, mode); } \
    EVO_INLINE H __ll2##half##_##suffix(long long a) { return evo_half_directed<H>(evo_odd_double(a), mode); } \
    EVO_INLINE H __ull2##half##_##suffix(unsigned long long a) {                                   \
        return evo_half_directed<H>(evo_odd_double(a), mode);                                      \
    }                                                                                              \
    EVO_INLINE int __##half##2int_##suffix(H a) { return __float2int_##suffix((float)a); }         \
    EVO_INLINE unsigned __##half##2uint_##suffix(H a) { return __float2uint_##suffix((float)a); }  \
    EVO_INLINE long long __##half##2ll_##suffix(H a) { return __float2ll_##suffix((float)a); }     \
    EVO_INLINE unsigned long long __##half##2ull_##suffix(H a) { return __float2ull_##suffix((float)a); } \
    EVO_INLINE short __##half##2short_##suffix(H a) {                                              \
        return evo_small_whole<short>(rounded((float)a), -32768.0f, 32767.0f);                     \
    }                                                                                              \
    EVO_INLINE unsigned short __##half##2ushort_##suffix(H a) {                                    \
        return evo_small_whole<unsigned short>(rounded((float)a), 0.0f, 65535.0f);                 \
    }
#define EVO_HALF_REST(H, H2, half)                                                                 \
    EVO_HALF_WHOLE(H, half, rn, EVO_NEAREST, __builtin_rintf)                                      \
    EVO_HALF_ROUNDED(H, half, rz, EVO_ZERO, __builtin_truncf)                                      \
    EVO_HALF_ROUNDED(H, half, rd, EVO_DOWN, __builtin_floorf)                                      \
    EVO_HALF_ROUNDED(H, half, ru, EVO_UP, __builtin_ceilf)                                         \
    EVO_INLINE signed char __##half##2char_rz(H a) {                                               \
        return evo_small_whole<signed char>(__builtin_truncf((float)a), -128.0f, 127.0f);          \
    }                                                                                              \
    EVO_INLINE unsigned char __##half##2uchar_rz(H a) {                                            \
        return evo_small_whole<unsigned char>(__builtin_truncf((float)a), 0.0f, 255.0f);           \
    }                                                                                              \
    EVO_INLINE bool __hne(H a, H b) { return (float)a < (float)b || (float)a > (float)b; }         \
    EVO_INLINE H2 __hne2(H2 a, H2 b) { return H2(H(__hne(a.x, b.x) ? 1.0f : 0.0f), H(__hne(a.y, b.y) ? 1.0f : 0.0f)); } \
    EVO_INLINE bool __hbne2(H2 a, H2 b) { return __hne(a.x, b.x) && __hne(a.y, b.y); }             \
    EVO_UNORDERED(H, H2, eq, ne) EVO_UNORDERED(H, H2, ne, eq) EVO_UNORDERED(H, H2, lt, ge)         \
    EVO_UNORDERED(H, H2, le, gt) EVO_UNORDERED(H, H2, gt, le) EVO_UNORDERED(H, H2, ge, lt)         \
    EVO_INLINE bool operator==(const H2& a, const H2& b) { return __hbeq2(a, b); }                 \
    EVO_INLINE bool operator!=(const H2& a, const H2& b) { return __hbneu2(a, b); }                \
    EVO_INLINE H2 __hisnan2(H2 a) { return H2(H(__hisnan(a.x) ? 1.0f : 0.0f), H(__hisnan(a.y) ? 1.0f : 0.0f)); } \
    EVO_INLINE H2 __hmax2_nan(H2 a, H2 b) { return H2(__hmax_nan(a.x, b.x), __hmax_nan(a.y, b.y)); } \
    EVO_INLINE H2 __hmin2_nan(H2 a, H2 b) { return H2(__hmin_nan(a.x, b.x), __hmin_nan(a.y, b.y)); } \
    EVO_INLINE H __hfma_sat(H a, H b, H c) { return H(__saturatef((float)__hfma(a, b, c))); }      \
    EVO_INLINE H2 __hfma2_sat(H2 a, H2 b, H2 c) { return H2(__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)); } \
    EVO_INLINE H2 __hfma2_relu(H2 a, H2 b, H2 c) { return H2(__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)); } \
    EVO_INLINE H2 __hcmadd(H2 a, H2 b, H2 c) {                                                     \
        return H2(__hfma(-a.y, b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y))); \
    }                                                                                              \
    EVO_INLINE H htanh_approx(H a) { return htanh(a); }                                            \
    EVO_INLINE H2 h2tanh_approx(H2 a) { return h2tanh(a); }
// `name` holds or one of both is NaN: the opposite does not hold. Masks have 16 bits for each element.
#define EVO_UNORDERED(H, H2, name, opposite)                                                       \
    EVO_INLINE bool __h##name##u(H a, H b) { return !__h##opposite(a, b); }                        \
    EVO_INLINE H2 __h##name##u2(H2 a, H2 b) {                                                      \
        return H2(H(__h##name##u(a.x, b.x) ? 1.0f : 0.0f), H(__h##name##u(a.y, b.y) ? 1.0f : 0.0f)); \
    }                                                                                              \
    EVO_INLINE bool __hb##name##u2(H2 a, H2 b) { return __h##name##u(a.x, b.x) && __h##name##u(a.y, b.y); } \
    EVO_INLINE unsigned __h##name##2_mask(H2 a, H2 b) {                                            \
        return (__h##name(a.x, b.x) ? 0xffffu : 0u) | (__h##name(a.y, b.y) ? 0xffff0000u : 0u);    \
    }                                                                                              \
    EVO_INLINE unsigned __h##name##u2_mask(H2 a, H2 b) {                                           \
        return (__h##name##u(a.x, b.x) ? 0xffffu : 0u) | (__h##name##u(a.y, b.y) ? 0xffff0000u : 0u); \
    }
EVO_HALF_REST(__half, __half2, half)
EVO_HALF_REST(__nv_bfloat16, __nv_bfloat162, bfloat16)
#undef EVO_UNORDERED
#undef EVO_HALF_REST
#undef EVO_HALF_WHOLE
#undef EVO_HALF_ROUNDED
EVO_INLINE __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(a.x, b.x); }
EVO_INLINE __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(a.y, b.y); }

#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7c00u)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7fffu)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7bffu)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half((unsigned short)0x0001u)
#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0x0000u)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half((unsigned short)0x8000u)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3c00u)
#define CUDART_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7f80u)
#define CUDART_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7fffu)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7f7fu)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16((unsigned short)0x0001u)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000u)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x8000u)
#define CUDART_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3f80u)
#endif
