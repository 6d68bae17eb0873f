// The parts of CUB that a warp computes (CUB, "Warp-wide collectives"), and what all parts have in common.
//
// Each collective does its barriers and touches its TempStorage as CUB's does, so that storage which is used again
// without a barrier is a race here too. What CUB leaves undefined, such as a sum in other threads than the first, is all ones.
#pragma GCC system_header
#ifndef EVO_CUB_WARP_H
#define EVO_CUB_WARP_H
#include "evo_cuda.h"

namespace cub {

struct NullType {
    template <class T> NullType& operator=(const T&) { return *this; }
};
// The line of the source that calls a collective, for messages about threads that do not come.
class evo_called {
    int line;
    explicit evo_called(int at) : line(at) {}

  public:
    static evo_called here(int at = __builtin_LINE()) { return evo_called(at); }
    operator int() const { return line; }
};
#define EVO_CALLED evo_called line = evo_called::here()

template <class K, class V> struct KeyValuePair {
    typedef K Key;
    typedef V Value;
    Key key;
    Value value;
    KeyValuePair() = default;
    KeyValuePair(const Key& own_key, const Value& own_value) : key(own_key), value(own_value) {}
    bool operator!=(const KeyValuePair& other) const { return key != other.key || value != other.value; }
};
struct Sum { template <class A, class B> auto operator()(const A& a, const B& b) const { return a + b; } };
struct Difference { template <class A, class B> auto operator()(const A& a, const B& b) const { return a - b; } };
struct Max { template <class T> T operator()(const T& a, const T& b) const { return a < b ? b : a; } };
struct Min { template <class T> T operator()(const T& a, const T& b) const { return b < a ? b : a; } };
struct Equality { template <class A, class B> bool operator()(const A& a, const B& b) const { return a == b; } };
struct Inequality { template <class A, class B> bool operator()(const A& a, const B& b) const { return a != b; } };
// Of equal values the one with the smaller key.
struct ArgMax {
    template <class P> P operator()(const P& a, const P& b) const {
        return b.value > a.value || (b.value == a.value && b.key < a.key) ? b : a;
    }
};
struct ArgMin {
    template <class P> P operator()(const P& a, const P& b) const {
        return b.value < a.value || (b.value == a.value && b.key < a.key) ? b : a;
    }
};

EVO_INLINE unsigned LaneId() { return evo_self()->linear % 32; }
EVO_INLINE unsigned WarpId() { return evo_self()->linear / 32; }
EVO_INLINE int RowMajorTid(int, int, int) { return (int)evo_self()->linear; }

template <class T> EVO_INLINE T evo_undefined() {
    static_assert(__is_trivially_copyable(T), "the host device lacks collectives on types that cannot be copied as bytes; on CUDA this compiles");
    T value;
    __builtin_memset((void*)&value, 0xff, sizeof(T));
    return value;
}
template <class T> EVO_INLINE T evo_from_lane(unsigned mask, T value, int lane, int width, int line) {
    return cooperative_groups::evo_in_pieces(value, [&](uint64_t bits) { return __shfl_sync(mask, bits, lane, width, line); });
}
// Lanes of the calling thread's logical warp of `Width` threads that exist.
template <int Width> EVO_INLINE unsigned evo_warp_mask() {
    static_assert(Width >= 1 && Width <= 32, "a warp has at most 32 threads");
    unsigned lanes = Width == 32 ? 0xffffffffu : (1u << Width % 32) - 1;
    unsigned first = LaneId() / Width * Width, threads = evo_self()->threads - WarpId() * 32;
    unsigned existing = threads >= 32 ? 0xffffffffu : (1u << threads) - 1;
    return lanes << first & existing;
}
// Sums from the lane on up to lane `valid` of its logical warp, in order.
template <int Width, class T, class Op> EVO_INLINE T evo_reduce_warp(T value, int valid, Op op, int line) {
    unsigned mask = evo_warp_mask<Width>();
    int own = (int)LaneId(), first = own / Width * Width, rank = own - first;
    for (int distance = 1; distance < Width; distance *= 2) {
        bool has = rank + distance < valid;
        T other = evo_from_lane(mask, value, has ? own + distance : own, 32, line);
        if (has) value = op(value, other);
    }
    return value;
}
template <int Width, class T, class Op> EVO_INLINE T evo_scan_warp(T value, Op op, int line) {
    unsigned mask = evo_warp_mask<Width>();
    int own = (int)LaneId(), rank = own % Width;
    for (int distance = 1; distance < Width; distance *= 2) {
        bool has = rank >= distance;
        T other = evo_from_lane(mask, value, has ? own - distance : own, 32, line);
        if (has) value = op(other, value);
    }
    return value;
}

template <class T, int Width = 32, int Arch = 0> class WarpReduce {
    // The first lane has the result.
    T finished(T value) const { return LaneId() % Width == 0 ? value : evo_undefined<T>(); }

  public:
    struct TempStorage : NullType {};
    WarpReduce(TempStorage&) {}
    template <class Op> T Reduce(T value, Op op, EVO_CALLED) { return finished(evo_reduce_warp<Width>(value, Width, op, line)); }
    template <class Op> T Reduce(T value, Op op, int valid, EVO_CALLED) {
        return finished(evo_reduce_warp<Width>(value, valid, op, line));
    }
    T Sum(T value, EVO_CALLED) { return Reduce(value, cub::Sum(), line); }
    T Sum(T value, int valid, EVO_CALLED) { return Reduce(value, cub::Sum(), valid, line); }
};

template <class T, int Width = 32, int Arch = 0> class WarpScan {
    T last(T value, int line) const {
        int own = (int)LaneId(), first = own / Width * Width;
        return evo_from_lane(evo_warp_mask<Width>(), value, first + Width - 1, 32, line);
    }
    T before(T inclusive, T initial, int line) const {
        int own = (int)LaneId();
        T other = evo_from_lane(evo_warp_mask<Width>(), inclusive, own % Width ? own - 1 : own, 32, line);
        return own % Width ? other : initial;
    }

  public:
    struct TempStorage : NullType {};
    WarpScan(TempStorage&) {}
    template <class Op> void InclusiveScan(T in, T& out, Op op, EVO_CALLED) { out = evo_scan_warp<Width>(in, op, line); }
    template <class Op> void InclusiveScan(T in, T& out, Op op, T& all, EVO_CALLED) {
        out = evo_scan_warp<Width>(in, op, line);
        all = last(out, line);
    }
    template <class Op> void ExclusiveScan(T in, T& out, T initial, Op op, T& all, EVO_CALLED) {
        T sums = evo_scan_warp<Width>(in, op, line), other = before(sums, sums, line);
        all = last(sums, line);
        out = LaneId() % Width ? op(initial, other) : initial;
    }
    template <class Op> void ExclusiveScan(T in, T& out, T initial, Op op, EVO_CALLED) {
        T all;
        ExclusiveScan(in, out, initial, op, all, line);
    }
    // Without an initial value the first lane's result is undefined.
    template <class Op> void ExclusiveScan(T in, T& out, Op op, EVO_CALLED) {
        out = before(evo_scan_warp<Width>(in, op, line), evo_undefined<T>(), line);
    }
    void InclusiveSum(T in, T& out, EVO_CALLED) { InclusiveScan(in, out, cub::Sum(), line); }
    void InclusiveSum(T in, T& out, T& all, EVO_CALLED) { InclusiveScan(in, out, cub::Sum(), all, line); }
    void ExclusiveSum(T in, T& out, EVO_CALLED) { ExclusiveScan(in, out, T(0), cub::Sum(), line); }
    void ExclusiveSum(T in, T& out, T& all, EVO_CALLED) { ExclusiveScan(in, out, T(0), cub::Sum(), all, line); }
    T Broadcast(T value, unsigned lane, EVO_CALLED) {
        int own = (int)LaneId();
        return evo_from_lane(evo_warp_mask<Width>(), value, own / Width * Width + (int)lane, 32, line);
    }
};

// A block must have the threads that its collectives are made for.
EVO_INLINE void evo_demand_threads(unsigned threads, int line) {
    if (evo_self()->threads != threads)
        evo_stop(EVO_STOP_ILLEGAL, line, "a collective of CUB is used by a block of another size than its template says");
}
EVO_INLINE unsigned evo_rank() { return evo_self()->linear; }
EVO_INLINE void evo_meet(int line) { evo_barrier(EVO_SYNC, line, 0); }

} // namespace cub
#endif
