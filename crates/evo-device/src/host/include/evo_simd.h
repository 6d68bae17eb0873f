// Operations on parts of a word and on several numbers at once (CUDA Math API, "SIMD Intrinsics", "Integer Intrinsics").
#ifndef EVO_SIMD_H
#define EVO_SIMD_H
#pragma GCC system_header

#define EVO_PARTS(name, Part, bits, expression)                                                    \
    EVO_INLINE unsigned name(unsigned x, unsigned y) {                                             \
        unsigned result = 0;                                                                       \
        for (int at = 0; at < 32; at += bits) {                                                    \
            int a = (Part)(x >> at), b = (Part)(y >> at);                                          \
            result |= ((unsigned)(expression) & ((1u << bits) - 1)) << at;                         \
        }                                                                                          \
        return result;                                                                             \
    }
#define EVO_SIMD(suffix, Signed, Unsigned, bits, low, high)                                        \
    EVO_PARTS(__vavgs##suffix, Signed, bits, (a + b + (a + b >= 0)) >> 1)                          \
    EVO_PARTS(__vcmpges##suffix, Signed, bits, a >= b ? -1 : 0)                                    \
    EVO_PARTS(__vcmples##suffix, Signed, bits, a <= b ? -1 : 0)                                    \
    EVO_PARTS(__vsetne##suffix, Unsigned, bits, a != b)                                            \
    EVO_PARTS(__vsetgeu##suffix, Unsigned, bits, a >= b)                                           \
    EVO_PARTS(__vsetleu##suffix, Unsigned, bits, a <= b)                                           \
    EVO_PARTS(__vsetgts##suffix, Signed, bits, a > b)                                              \
    EVO_PARTS(__vsetges##suffix, Signed, bits, a >= b)                                             \
    EVO_PARTS(__vsetlts##suffix, Signed, bits, a < b)                                              \
    EVO_PARTS(__vsetles##suffix, Signed, bits, a <= b)                                             \
    EVO_INLINE unsigned __vnegss##suffix(unsigned x) { return __vsubss##suffix(0u, x); }           \
    EVO_INLINE unsigned __vabsss##suffix(unsigned x) { return __vmaxs##suffix(x, __vnegss##suffix(x)); }
EVO_SIMD(2, short, unsigned short, 16, -32768, 32767)
EVO_SIMD(4, signed char, unsigned char, 8, -128, 127)
#undef EVO_SIMD
#undef EVO_PARTS

// The greatest and the least of two or three, after a sum, not below zero (`relu`): whole words and halves.
#define EVO_BEST(T, kind, op, which)                                                               \
    EVO_INLINE T __vi##which##3_##kind(T a, T b, T c) { T d = a op b ? a : b; return d op c ? d : c; } \
    EVO_INLINE T __viadd##which##_##kind(T a, T b, T c) { T d = (T)((unsigned)a + (unsigned)b); return d op c ? d : c; } \
    EVO_INLINE T __vib##which##_##kind(T a, T b, bool* first) { return (*first = a op##= b) ? a : b; }
#define EVO_RELU(which)                                                                            \
    EVO_INLINE int __vi##which##_s32_relu(int a, int b) { return max(which(a, b), 0); }            \
    EVO_INLINE int __vi##which##3_s32_relu(int a, int b, int c) { return max(__vi##which##3_s32(a, b, c), 0); } \
    EVO_INLINE int __viadd##which##_s32_relu(int a, int b, int c) { return max(__viadd##which##_s32(a, b, c), 0); }
EVO_BEST(int, s32, >, max) EVO_BEST(int, s32, <, min)
EVO_BEST(unsigned, u32, >, max) EVO_BEST(unsigned, u32, <, min)
EVO_RELU(max) EVO_RELU(min)
#undef EVO_RELU
#undef EVO_BEST
#define EVO_HALVES(kind, letter, which)                                                            \
    EVO_INLINE unsigned __vi##which##3_##kind(unsigned a, unsigned b, unsigned c) {                \
        return __v##which##letter##2(__v##which##letter##2(a, b), c);                              \
    }                                                                                              \
    EVO_INLINE unsigned __viadd##which##_##kind(unsigned a, unsigned b, unsigned c) {              \
        return __v##which##letter##2(__vadd2(a, b), c);                                            \
    }                                                                                              \
    EVO_INLINE unsigned __vib##which##_##kind(unsigned a, unsigned b, bool* high, bool* low) {     \
        unsigned best = __v##which##letter##2(a, b);                                               \
        *high = best >> 16 == a >> 16, *low = (best & 0xffffu) == (a & 0xffffu);                   \
        return best;                                                                               \
    }
EVO_HALVES(s16x2, s, max) EVO_HALVES(s16x2, s, min) EVO_HALVES(u16x2, u, max) EVO_HALVES(u16x2, u, min)
#undef EVO_HALVES
#define EVO_HALVES_RELU(which)                                                                     \
    EVO_INLINE unsigned __vi##which##_s16x2_relu(unsigned a, unsigned b) { return __vmaxs2(__v##which##s2(a, b), 0u); } \
    EVO_INLINE unsigned __vi##which##3_s16x2_relu(unsigned a, unsigned b, unsigned c) {            \
        return __vmaxs2(__vi##which##3_s16x2(a, b, c), 0u);                                        \
    }                                                                                              \
    EVO_INLINE unsigned __viadd##which##_s16x2_relu(unsigned a, unsigned b, unsigned c) {          \
        return __vmaxs2(__viadd##which##_s16x2(a, b, c), 0u);                                      \
    }
EVO_HALVES_RELU(max) EVO_HALVES_RELU(min)
#undef EVO_HALVES_RELU

// Dot products: four bytes with four, two halves with the low or the high two of four bytes.
EVO_INLINE int __dp4a(char4 a, char4 b, int c) { return c + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
EVO_INLINE unsigned __dp4a(uchar4 a, uchar4 b, unsigned c) { return c + a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w; }
EVO_INLINE int __dp2a_lo(short2 a, char4 b, int c) { return c + a.x * b.x + a.y * b.y; }
EVO_INLINE int __dp2a_hi(short2 a, char4 b, int c) { return c + a.x * b.z + a.y * b.w; }
EVO_INLINE unsigned __dp2a_lo(ushort2 a, uchar4 b, unsigned c) { return c + (unsigned)a.x * b.x + (unsigned)a.y * b.y; }
EVO_INLINE unsigned __dp2a_hi(ushort2 a, uchar4 b, unsigned c) { return c + (unsigned)a.x * b.z + (unsigned)a.y * b.w; }
template <class T> EVO_INLINE T evo_word_as(unsigned word) {
    T value;
    __builtin_memcpy(&value, &word, 4);
    return value;
}
EVO_INLINE int __dp2a_lo(int a, int b, int c) { return __dp2a_lo(evo_word_as<short2>((unsigned)a), evo_word_as<char4>((unsigned)b), c); }
EVO_INLINE int __dp2a_hi(int a, int b, int c) { return __dp2a_hi(evo_word_as<short2>((unsigned)a), evo_word_as<char4>((unsigned)b), c); }
EVO_INLINE unsigned __dp2a_lo(unsigned a, unsigned b, unsigned c) { return __dp2a_lo(evo_word_as<ushort2>(a), evo_word_as<uchar4>(b), c); }
EVO_INLINE unsigned __dp2a_hi(unsigned a, unsigned b, unsigned c) { return __dp2a_hi(evo_word_as<ushort2>(a), evo_word_as<uchar4>(b), c); }

// The position of the set bit that is `offset - 1` further than the first one at or above `base`; below it for negative
// offsets; all ones where there is none.
EVO_INLINE unsigned __fns(unsigned mask, unsigned base, int offset) {
    int step = offset < 0 ? -1 : 1, left = offset < 0 ? -offset : offset;
    if (offset == 0) return base < 32 && mask >> base & 1u ? base : 0xffffffffu;
    for (int at = (int)base; at >= 0 && at < 32; at += step)
        if (mask >> at & 1u && --left == 0) return (unsigned)at;
    return 0xffffffffu;
}
EVO_INLINE void __prof_trigger(int) {}
#define __pm0() ((void)0)
#define __pm1() ((void)0)
#define __pm2() ((void)0)
#define __pm3() ((void)0)

// Which memory an address belongs to, and its number within shared memory.
EVO_INLINE unsigned __isShared(const void* at) {
    return at && evo_is_shared(at, 1) ? 1u : 0u;
}
EVO_INLINE unsigned __isLocal(const void* at) {
    return (((uintptr_t)at ^ (uintptr_t)evo_self()) & ~(uintptr_t)(EVO_REGION - 1)) == 0;
}
EVO_INLINE unsigned __isGlobal(const void* at) { return at && !__isShared(at) && !__isLocal(at); }
// An address is the same number in every space here.
EVO_INLINE size_t __cvta_generic_to_global(const void* at) { return (size_t)at; }
EVO_INLINE size_t __cvta_generic_to_shared(const void* at) { return (size_t)at; }
EVO_INLINE size_t __cvta_generic_to_local(const void* at) { return (size_t)at; }
EVO_INLINE size_t __cvta_generic_to_constant(const void* at) { return (size_t)at; }
EVO_INLINE void* __cvta_global_to_generic(size_t at) { return (void*)at; }
EVO_INLINE void* __cvta_shared_to_generic(size_t at) { return (void*)at; }
EVO_INLINE void* __cvta_local_to_generic(size_t at) { return (void*)at; }
EVO_INLINE void* __cvta_constant_to_generic(size_t at) { return (void*)at; }
#endif
