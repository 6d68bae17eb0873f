// Vector types with CUDA's sizes and alignments (CUDA C++ Programming Guide, table of vector types).
//
// Types of 16 bytes are 16-byte aligned, so a misaligned access of one is an aligned vector move that faults,
// as it does on a GPU.
#ifndef EVO_VECTOR_H
#define EVO_VECTOR_H
#pragma GCC system_header

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#define EVO_VECTOR(T, name, align1, align2, align4)                                                \
    struct __attribute__((aligned(align1))) name##1 { T x; };                                      \
    struct __attribute__((aligned(align2))) name##2 { T x, y; };                                   \
    struct __attribute__((aligned(align1))) name##3 { T x, y, z; };                                \
    struct __attribute__((aligned(align4))) name##4 { T x, y, z, w; };                             \
    EVO_MAKE(T, name)
#define EVO_MAKE(T, name)                                                                          \
    EVO_INLINE name##1 make_##name##1(T x) { return name##1{x}; }                                  \
    EVO_INLINE name##2 make_##name##2(T x, T y) { return name##2{x, y}; }                          \
    EVO_INLINE name##3 make_##name##3(T x, T y, T z) { return name##3{x, y, z}; }                  \
    EVO_INLINE name##4 make_##name##4(T x, T y, T z, T w) { return name##4{x, y, z, w}; }

EVO_VECTOR(signed char, char, 1, 2, 4)
EVO_VECTOR(unsigned char, uchar, 1, 2, 4)
EVO_VECTOR(short, short, 2, 4, 8)
EVO_VECTOR(unsigned short, ushort, 2, 4, 8)
EVO_VECTOR(int, int, 4, 8, 16)
EVO_VECTOR(long, long, 8, 16, 16)
EVO_VECTOR(unsigned long, ulong, 8, 16, 16)
EVO_VECTOR(long long, longlong, 8, 16, 16)
EVO_VECTOR(unsigned long long, ulonglong, 8, 16, 16)
EVO_VECTOR(float, float, 4, 8, 16)
EVO_VECTOR(double, double, 8, 16, 16)
// `uint3` is the type of the indices and was needed before.
struct __attribute__((aligned(4))) uint1 { unsigned x; };
struct __attribute__((aligned(8))) uint2 { unsigned x, y; };
struct __attribute__((aligned(16))) uint4 { unsigned x, y, z, w; };
EVO_MAKE(unsigned, uint)
#undef EVO_VECTOR
#undef EVO_MAKE
#endif
