// `cuda::std` is the C++ library: each of its headers reads the one of that name. What C++17 lacks of the bit operations and
// spans stands here.
#pragma GCC system_header
#ifndef EVO_CUDA_STD_H
#define EVO_CUDA_STD_H
#include <cstddef>
#include <cstdint>
#include <utility>

namespace std {}
namespace cuda {
namespace std {
using namespace ::std;

template <class To, class From> EVO_INLINE To bit_cast(const From& from) {
    static_assert(sizeof(To) == sizeof(From), "bit_cast between types of one size");
    To to;
    __builtin_memcpy((void*)&to, (const void*)&from, sizeof(To));
    return to;
}
// For unsigned types of up to 64 bits.
template <class T> constexpr int popcount(T x) { return __builtin_popcountll(x); }
template <class T> constexpr int countl_zero(T x) { return x ? __builtin_clzll(x) - (64 - 8 * (int)sizeof(T)) : 8 * (int)sizeof(T); }
template <class T> constexpr int countr_zero(T x) { return x ? __builtin_ctzll(x) : 8 * (int)sizeof(T); }
template <class T> constexpr int countl_one(T x) { return countl_zero((T)~x); }
template <class T> constexpr int countr_one(T x) { return countr_zero((T)~x); }
template <class T> constexpr int bit_width(T x) { return 8 * (int)sizeof(T) - countl_zero(x); }
template <class T> constexpr bool has_single_bit(T x) { return x != 0 && (x & (x - 1)) == 0; }
template <class T> constexpr T bit_floor(T x) { return x ? (T)((T)1 << (bit_width(x) - 1)) : (T)0; }
template <class T> constexpr T bit_ceil(T x) { return x < 2 ? (T)1 : (T)((T)1 << bit_width((T)(x - 1))); }
template <class T> constexpr T rotl(T x, int by) {
    int bits = 8 * (int)sizeof(T), left = (by % bits + bits) % bits;
    return left ? (T)(x << left | x >> (bits - left)) : x;
}
template <class T> constexpr T rotr(T x, int by) { return rotl(x, -by); }

constexpr size_t dynamic_extent = (size_t)-1;
template <class T, size_t Extent = dynamic_extent> class span {
    T* first;
    size_t count;

  public:
    constexpr span() : first(nullptr), count(0) {}
    constexpr span(T* at, size_t elements) : first(at), count(elements) {}
    template <size_t Size> constexpr span(T (&array)[Size]) : first(array), count(Size) {}
    constexpr T* data() const { return first; }
    constexpr size_t size() const { return count; }
    constexpr bool empty() const { return count == 0; }
    constexpr T& operator[](size_t at) const { return first[at]; }
    constexpr T* begin() const { return first; }
    constexpr T* end() const { return first + count; }
    constexpr T& front() const { return first[0]; }
    constexpr T& back() const { return first[count - 1]; }
    constexpr span<T> subspan(size_t at, size_t elements = dynamic_extent) const {
        return span<T>(first + at, elements == dynamic_extent ? count - at : elements);
    }
};
} // namespace std
} // namespace cuda
#endif
