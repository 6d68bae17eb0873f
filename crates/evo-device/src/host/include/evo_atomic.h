// Atomics on global and shared memory. They are real: blocks run on several processor threads at once.
// All are relaxed, as in CUDA; `__threadfence` orders.
#ifndef EVO_ATOMIC_H
#define EVO_ATOMIC_H
#pragma GCC system_header

// Replaces *address by next(old) and returns old, for types without an instruction of their own.
template <class Bits, class T, class F> EVO_INLINE T evo_atomic_update(T* address, F next) {
    static_assert(sizeof(Bits) == sizeof(T), "bits and value have one size");
    Bits old = __atomic_load_n((Bits*)address, __ATOMIC_RELAXED);
    for (;;) {
        T before, after;
        __builtin_memcpy((void*)&before, &old, sizeof(T));
        after = next(before);
        Bits wanted;
        __builtin_memcpy(&wanted, (const void*)&after, sizeof(T));
        if (__atomic_compare_exchange_n((Bits*)address, &old, wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            return before;
    }
}

#define EVO_ATOMIC_INTEGER(T)                                                                      \
    EVO_INLINE T atomicAdd(T* address, T value) { return __atomic_fetch_add(address, value, __ATOMIC_RELAXED); }  \
    EVO_INLINE T atomicExch(T* address, T value) { return __atomic_exchange_n(address, value, __ATOMIC_RELAXED); } \
    EVO_INLINE T atomicAnd(T* address, T value) { return __atomic_fetch_and(address, value, __ATOMIC_RELAXED); }  \
    EVO_INLINE T atomicOr(T* address, T value) { return __atomic_fetch_or(address, value, __ATOMIC_RELAXED); }    \
    EVO_INLINE T atomicXor(T* address, T value) { return __atomic_fetch_xor(address, value, __ATOMIC_RELAXED); }  \
    EVO_INLINE T atomicMin(T* address, T value) {                                                  \
        return evo_atomic_update<T>(address, [=](T old) { return old < value ? old : value; });    \
    }                                                                                              \
    EVO_INLINE T atomicMax(T* address, T value) {                                                  \
        return evo_atomic_update<T>(address, [=](T old) { return old > value ? old : value; });    \
    }                                                                                              \
    EVO_INLINE T atomicCAS(T* address, T expected, T value) {                                      \
        __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);        \
        return expected;                                                                           \
    }
EVO_ATOMIC_INTEGER(int)
EVO_ATOMIC_INTEGER(unsigned)
EVO_ATOMIC_INTEGER(unsigned long long)
EVO_ATOMIC_INTEGER(long long)
#undef EVO_ATOMIC_INTEGER
EVO_INLINE int atomicSub(int* address, int value) { return __atomic_fetch_sub(address, value, __ATOMIC_RELAXED); }
EVO_INLINE unsigned atomicSub(unsigned* address, unsigned value) {
    return __atomic_fetch_sub(address, value, __ATOMIC_RELAXED);
}
EVO_INLINE unsigned atomicInc(unsigned* address, unsigned limit) {
    return evo_atomic_update<unsigned>(address, [=](unsigned old) { return old >= limit ? 0u : old + 1u; });
}
EVO_INLINE unsigned atomicDec(unsigned* address, unsigned limit) {
    return evo_atomic_update<unsigned>(address, [=](unsigned old) { return old == 0u || old > limit ? limit : old - 1u; });
}
EVO_INLINE unsigned short atomicCAS(unsigned short* address, unsigned short expected, unsigned short value) {
    __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}
EVO_INLINE float atomicAdd(float* address, float value) {
    return evo_atomic_update<unsigned>(address, [=](float old) { return old + value; });
}
EVO_INLINE double atomicAdd(double* address, double value) {
    return evo_atomic_update<unsigned long long>(address, [=](double old) { return old + value; });
}
EVO_INLINE float atomicExch(float* address, float value) {
    return evo_atomic_update<unsigned>(address, [=](float) { return value; });
}
EVO_INLINE __half atomicAdd(__half* address, __half value) {
    return evo_atomic_update<unsigned short>(address, [=](__half old) { return old + value; });
}
EVO_INLINE __half2 atomicAdd(__half2* address, __half2 value) {
    return evo_atomic_update<unsigned>(address, [=](__half2 old) { return old + value; });
}
EVO_INLINE __nv_bfloat16 atomicAdd(__nv_bfloat16* address, __nv_bfloat16 value) {
    return evo_atomic_update<unsigned short>(address, [=](__nv_bfloat16 old) { return old + value; });
}
EVO_INLINE __nv_bfloat162 atomicAdd(__nv_bfloat162* address, __nv_bfloat162 value) {
    return evo_atomic_update<unsigned>(address, [=](__nv_bfloat162 old) { return old + value; });
}
#define EVO_SCOPED(name)                                                                           \
    template <class T, class V> EVO_INLINE T name##_block(T* address, V value) { return name(address, (T)value); } \
    template <class T, class V> EVO_INLINE T name##_system(T* address, V value) { return name(address, (T)value); }
EVO_SCOPED(atomicAdd) EVO_SCOPED(atomicExch) EVO_SCOPED(atomicMin) EVO_SCOPED(atomicMax) EVO_SCOPED(atomicAnd)
EVO_SCOPED(atomicOr) EVO_SCOPED(atomicXor) EVO_SCOPED(atomicSub) EVO_SCOPED(atomicInc) EVO_SCOPED(atomicDec)
#undef EVO_SCOPED
template <class T, class V> EVO_INLINE T atomicCAS_block(T* address, V expected, V value) {
    return atomicCAS(address, (T)expected, (T)value);
}
template <class T, class V> EVO_INLINE T atomicCAS_system(T* address, V expected, V value) {
    return atomicCAS(address, (T)expected, (T)value);
}
// Element by element, as on a GPU (sm_90 and later, global memory).
EVO_INLINE float2 atomicAdd(float2* address, float2 value) {
    return float2{atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y)};
}
EVO_INLINE float4 atomicAdd(float4* address, float4 value) {
    return float4{atomicAdd(&address->x, value.x), atomicAdd(&address->y, value.y), atomicAdd(&address->z, value.z),
                  atomicAdd(&address->w, value.w)};
}
#endif
