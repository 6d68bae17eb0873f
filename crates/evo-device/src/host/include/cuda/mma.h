// `mma.h`: matrix fragments of a warp (CUDA C++ Programming Guide, "Warp Matrix Functions").
//
// Which lane holds which element is the device's choice; here element i of lane l is number 32 i + l, row by row. As with
// `evo/ptx.cuh`, the last lane to come multiplies for the warp, and what a GPU leaves undefined ends the launch.
#pragma GCC system_header
#include "evo_cuda.h"
#ifndef EVO_CUDA_MMA_H
#define EVO_CUDA_MMA_H
// An instrumented source has it as a macro, so that a kernel cannot leave its own accesses unchecked.
#pragma push_macro("no_sanitize")
#undef no_sanitize

namespace nvcuda {
namespace wmma {
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32;
}

template <class T> struct evo_element { typedef T type; };
template <> struct evo_element<precision::tf32> { typedef float type; };
// What fragments of a type compute in: exact for products of halves, and for sums of whole numbers.
template <class T> EVO_INLINE double evo_wide(T value) { return (double)(float)value; }
EVO_INLINE double evo_wide(double value) { return value; }
EVO_INLINE double evo_wide(int value) { return (double)value; }
template <class T> struct evo_result {
    static T of(double sum, bool) { return T(evo_round_odd(sum)); }
};
template <> struct evo_result<float> {
    static float of(double sum, bool) { return (float)sum; }
};
template <> struct evo_result<double> {
    static double of(double sum, bool) { return sum; }
};
template <> struct evo_result<int> {
    static int of(double sum, bool saturate) {
        if (saturate) return sum > 2147483647.0 ? 2147483647 : sum < -2147483648.0 ? -2147483647 - 1 : (int)sum;
        return (int)(unsigned)(long long)sum;
    }
};

template <class Use, int M, int N, int K> struct evo_extent;
template <int M, int N, int K> struct evo_extent<matrix_a, M, N, K> { static constexpr int rows = M, columns = K; };
template <int M, int N, int K> struct evo_extent<matrix_b, M, N, K> { static constexpr int rows = K, columns = N; };
template <int M, int N, int K> struct evo_extent<accumulator, M, N, K> { static constexpr int rows = M, columns = N; };

template <class T, int M, int N, int K> constexpr bool evo_has_shape() {
    constexpr bool sixteen = (M == 16 && N == 16 && K == 16) || (M == 32 && N == 8 && K == 16) || (M == 8 && N == 32 && K == 16);
    if (__is_same(T, precision::tf32)) return M == 16 && N == 16 && K == 8;
    if (__is_same(T, double)) return M == 8 && N == 8 && K == 4;
    if (__is_same(T, float)) return sixteen || (M == 16 && N == 16 && K == 8);
    return sixteen;
}
template <class Use, int M, int N, int K, class T, class Layout = void> class fragment {
    static_assert(evo_has_shape<T, M, N, K>(), "the host device lacks matrix fragments of this shape or type; on CUDA this compiles");
    typedef evo_extent<Use, M, N, K> extent;

  public:
    typedef typename evo_element<T>::type element_type;
    typedef element_type storage_element_type;
    static constexpr int evo_own = extent::rows * extent::columns / 32;
    // Fragments of halves hold 16 elements on every GPU, some of them twice.
    static constexpr int num_elements = __is_same(T, __half) && !__is_same(Use, accumulator) ? 16 : evo_own;
    static constexpr int num_storage_elements = num_elements;
    element_type x[num_elements];
};

EVO_INLINE void evo_come_together(int line) {
    if (evo_gather(EVO_GATHER_LDMATRIX, line, nullptr)) evo_release();
}
template <class T> EVO_INLINE void evo_demand_matrix(const T* at, unsigned stride, int line) {
    evo_demand_aligned(at, 32, line, "misaligned matrix: its address is no multiple of 32 bytes,");
    if (stride * sizeof(T) % 16 != 0)
        evo_stop(EVO_STOP_MISALIGNED, line, "misaligned matrix: its rows or columns are no multiples of 16 bytes apart,");
}
template <class F, class U> EVO_INLINE void fill_fragment(F& own, const U& value) {
    for (int item = 0; item < F::num_elements; item++) own.x[item] = value;
}
template <class Extent> EVO_INLINE size_t evo_place(int item, unsigned stride, bool by_rows) {
    int element = 32 * item + (int)(evo_self()->linear % 32);
    int row = element / Extent::columns, column = element % Extent::columns;
    return by_rows ? (size_t)row * stride + column : (size_t)column * stride + row;
}
template <class F, class Extent, class T>
EVO_INLINE void evo_load(F& own, const T* from, unsigned stride, bool by_rows, int line) {
    evo_come_together(line);
    evo_demand_matrix(from, stride, line);
    for (int item = 0; item < F::num_elements; item++) own.x[item] = from[evo_place<Extent>(item % F::evo_own, stride, by_rows)];
}
template <class Use, int M, int N, int K, class T, class Layout>
EVO_INLINE void load_matrix_sync(fragment<Use, M, N, K, T, Layout>& own, const typename evo_element<T>::type* from, unsigned stride,
                                 int line = __builtin_LINE()) {
    evo_load<fragment<Use, M, N, K, T, Layout>, evo_extent<Use, M, N, K>>(own, from, stride, __is_same(Layout, row_major), line);
}
template <int M, int N, int K, class T>
EVO_INLINE void load_matrix_sync(fragment<accumulator, M, N, K, T>& own, const T* from, unsigned stride, layout_t layout,
                                 int line = __builtin_LINE()) {
    evo_load<fragment<accumulator, M, N, K, T>, evo_extent<accumulator, M, N, K>>(own, from, stride, layout == mem_row_major, line);
}
template <int M, int N, int K, class T>
EVO_INLINE void store_matrix_sync(T* to, const fragment<accumulator, M, N, K, T>& own, unsigned stride, layout_t layout,
                                  int line = __builtin_LINE()) {
    evo_come_together(line);
    evo_demand_matrix(to, stride, line);
    for (int item = 0; item < own.num_elements; item++)
        to[evo_place<evo_extent<accumulator, M, N, K>>(item, stride, layout == mem_row_major)] = own.x[item];
}
// 10 bits of fraction; halves go away from zero (PTX ISA, "cvt.rna.tf32").
EVO_INLINE float __float_to_tf32(float value) {
    unsigned bits = __float_as_uint(value);
    return (bits & 0x7f800000u) == 0x7f800000u ? value : __uint_as_float((bits + 0x1000u) & ~0x1fffu);
}

struct evo_fragments {
    const void *a, *b, *c;
    void* d;
};
template <class T> EVO_INLINE double evo_operand(typename evo_element<T>::type value) {
    // The other bits are not looked at.
    if constexpr (__is_same(T, precision::tf32)) return (double)__uint_as_float(__float_as_uint(value) & ~0x1fffu);
    else return evo_wide(value);
}
template <int M, int N, int K, class T, class D, class C>
EVO_UNCHECKED static __attribute__((noinline, unused)) void evo_multiply(const void* const* lanes, bool saturate) {
    typedef typename evo_element<T>::type Element;
    auto at = [](int element) { return element / 32; };
    for (int row = 0; row < M; row++)
        for (int column = 0; column < N; column++) {
            int place = row * N + column;
            const evo_fragments* own = (const evo_fragments*)lanes[place % 32];
            double sum = evo_wide(((const C*)own->c)[at(place)]);
            for (int k = 0; k < K; k++) {
                int left = row * K + k, right = k * N + column;
                const Element* a = (const Element*)((const evo_fragments*)lanes[left % 32])->a;
                const Element* b = (const Element*)((const evo_fragments*)lanes[right % 32])->b;
                sum += evo_operand<T>(a[at(left)]) * evo_operand<T>(b[at(right)]);
            }
            // D may be C: this element of it is not read again.
            ((D*)own->d)[at(place)] = evo_result<D>::of(sum, saturate);
        }
}
template <int M, int N, int K, class T, class A, class B, class D, class C>
EVO_INLINE void mma_sync(fragment<accumulator, M, N, K, D>& d, const fragment<matrix_a, M, N, K, T, A>& a,
                         const fragment<matrix_b, M, N, K, T, B>& b, const fragment<accumulator, M, N, K, C>& c,
                         bool saturate = false, int line = __builtin_LINE()) {
    evo_fragments own = {a.x, b.x, c.x, d.x};
    if (const void* const* lanes = evo_gather(EVO_GATHER_MMA, line, &own)) {
        evo_multiply<M, N, K, T, D, C>(lanes, saturate);
        evo_release();
    }
}
} // namespace wmma
} // namespace nvcuda
#pragma pop_macro("no_sanitize")
#endif
