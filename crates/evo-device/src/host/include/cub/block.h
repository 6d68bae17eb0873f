// Reductions and scans of a block (CUB, "Block-wide collectives"): warps first, then the warps' results.
#pragma GCC system_header
#ifndef EVO_CUB_BLOCK_H
#define EVO_CUB_BLOCK_H
#include "evo_cub_warp.h"

namespace cub {

enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING, BLOCK_REDUCE_WARP_REDUCTIONS,
                            BLOCK_REDUCE_WARP_REDUCTIONS_NONDETERMINISTIC };
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

template <class T, int X, BlockReduceAlgorithm Algorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int Y = 1, int Z = 1, int Arch = 0>
class BlockReduce {
    static constexpr int threads = X * Y * Z, warps = (threads + 31) / 32;

  public:
    struct TempStorage { T evo_of_warp[warps]; };
    BlockReduce(TempStorage& own) : temp(own) {}
    // The result is the first thread's.
    template <class Op> T Reduce(T value, Op op, int valid, EVO_CALLED) {
        evo_demand_threads(threads, line);
        int first = (int)WarpId() * 32, here = valid - first < 32 ? valid - first : 32;
        T sum = evo_reduce_warp<32>(value, here, op, line);
        if (LaneId() == 0) temp.evo_of_warp[WarpId()] = sum;
        evo_meet(line);
        if (evo_rank() != 0) return evo_undefined<T>();
        for (int warp = 1; warp < warps && warp * 32 < valid; warp++) sum = op(sum, temp.evo_of_warp[warp]);
        return sum;
    }
    template <class Op> T Reduce(T value, Op op, EVO_CALLED) { return Reduce(value, op, threads, line); }
    template <int Items, class Op> T Reduce(T (&values)[Items], Op op, EVO_CALLED) {
        T sum = values[0];
        for (int item = 1; item < Items; item++) sum = op(sum, values[item]);
        return Reduce(sum, op, threads, line);
    }
    T Sum(T value, EVO_CALLED) { return Reduce(value, cub::Sum(), threads, line); }
    T Sum(T value, int valid, EVO_CALLED) { return Reduce(value, cub::Sum(), valid, line); }
    template <int Items> T Sum(T (&values)[Items], EVO_CALLED) { return Reduce(values, cub::Sum(), line); }

  private:
    TempStorage& temp;
};

template <class T, int X, BlockScanAlgorithm Algorithm = BLOCK_SCAN_RAKING, int Y = 1, int Z = 1, int Arch = 0>
class BlockScan {
    static constexpr int threads = X * Y * Z, warps = (threads + 31) / 32;

  public:
    struct TempStorage { T evo_of_warp[warps], evo_before_block; };
    BlockScan(TempStorage& own) : temp(own) {}

  private:
    TempStorage& temp;

    // What stands before this thread's value, if anything does, and the block's whole.
    template <class Op> bool before(T value, T& prefix, T& all, Op op, int line) {
        evo_demand_threads(threads, line);
        T inclusive = evo_scan_warp<32>(value, op, line);
        int own = (int)LaneId(), warp = (int)WarpId();
        unsigned last = evo_rank() + 1 == (unsigned)threads ? LaneId() : 31;
        if (LaneId() == last) temp.evo_of_warp[warp] = inclusive;
        T lane_before = evo_from_lane(evo_warp_mask<32>(), inclusive, own ? own - 1 : own, 32, line);
        evo_meet(line);
        all = temp.evo_of_warp[0];
        T warps_before = all;
        for (int other = 1; other < warps; other++) {
            if (other == warp) warps_before = all;
            all = op(all, temp.evo_of_warp[other]);
        }
        prefix = warp == 0 ? lane_before : own == 0 ? warps_before : op(warps_before, lane_before);
        return evo_rank() != 0;
    }
    // The callback is the first warp's, and its answer in the first lane counts for all.
    template <class Callback> T from_callback(Callback& callback, T all, int line) {
        if (WarpId() == 0) {
            T answer = callback(all);
            if (LaneId() == 0) temp.evo_before_block = answer;
        }
        evo_meet(line);
        return temp.evo_before_block;
    }
    // Scans `Items` values of each thread behind `initial`, if there is one.
    template <bool Exclusive, int Items, class Op> void scan(const T* in, T* out, const T* initial, T* all_out, Op op, int line) {
        T sum = in[0], prefix, all;
        for (int item = 1; item < Items; item++) sum = op(sum, in[item]);
        bool has = before(sum, prefix, all, op, line);
        spread<Exclusive, Items>(in, out, initial, has, prefix, op);
        if (all_out) *all_out = all;
    }
    template <bool Exclusive, int Items, class Op>
    void spread(const T* in, T* out, const T* initial, bool has, T prefix, Op op) {
        if (initial) prefix = has ? op(*initial, prefix) : *initial, has = true;
        for (int item = 0; item < Items; item++) {
            T own = in[item], next = has ? op(prefix, own) : own;
            out[item] = !Exclusive ? next : has ? prefix : evo_undefined<T>();
            prefix = next, has = true;
        }
    }
    template <bool Exclusive, int Items, class Op, class Callback>
    void scan_behind(const T* in, T* out, Callback& callback, Op op, int line) {
        T sum = in[0], prefix, all;
        for (int item = 1; item < Items; item++) sum = op(sum, in[item]);
        bool has = before(sum, prefix, all, op, line);
        T initial = from_callback(callback, all, line);
        spread<Exclusive, Items>(in, out, &initial, has, prefix, op);
    }
    template <class F> using is_callback = decltype((*(F*)nullptr)(*(T*)nullptr));

  public:
    void InclusiveSum(T in, T& out, EVO_CALLED) { scan<false, 1>(&in, &out, nullptr, nullptr, cub::Sum(), line); }
    void InclusiveSum(T in, T& out, T& all, EVO_CALLED) { scan<false, 1>(&in, &out, nullptr, &all, cub::Sum(), line); }
    template <class F, class = is_callback<F>> void InclusiveSum(T in, T& out, F& callback, EVO_CALLED) {
        scan_behind<false, 1>(&in, &out, callback, cub::Sum(), line);
    }
    template <int Items> void InclusiveSum(T (&in)[Items], T (&out)[Items], EVO_CALLED) {
        scan<false, Items>(in, out, nullptr, nullptr, cub::Sum(), line);
    }
    template <int Items> void InclusiveSum(T (&in)[Items], T (&out)[Items], T& all, EVO_CALLED) {
        scan<false, Items>(in, out, nullptr, &all, cub::Sum(), line);
    }
    void ExclusiveSum(T in, T& out, EVO_CALLED) { T zero = T(0); scan<true, 1>(&in, &out, &zero, nullptr, cub::Sum(), line); }
    void ExclusiveSum(T in, T& out, T& all, EVO_CALLED) { T zero = T(0); scan<true, 1>(&in, &out, &zero, &all, cub::Sum(), line); }
    template <class F, class = is_callback<F>> void ExclusiveSum(T in, T& out, F& callback, EVO_CALLED) {
        scan_behind<true, 1>(&in, &out, callback, cub::Sum(), line);
    }
    template <int Items> void ExclusiveSum(T (&in)[Items], T (&out)[Items], EVO_CALLED) {
        T zero = T(0);
        scan<true, Items>(in, out, &zero, nullptr, cub::Sum(), line);
    }
    template <int Items> void ExclusiveSum(T (&in)[Items], T (&out)[Items], T& all, EVO_CALLED) {
        T zero = T(0);
        scan<true, Items>(in, out, &zero, &all, cub::Sum(), line);
    }
    template <int Items, class F, class = is_callback<F>>
    void ExclusiveSum(T (&in)[Items], T (&out)[Items], F& callback, EVO_CALLED) {
        scan_behind<true, Items>(in, out, callback, cub::Sum(), line);
    }
    template <class Op> void InclusiveScan(T in, T& out, Op op, EVO_CALLED) { scan<false, 1>(&in, &out, nullptr, nullptr, op, line); }
    template <class Op> void InclusiveScan(T in, T& out, Op op, T& all, EVO_CALLED) { scan<false, 1>(&in, &out, nullptr, &all, op, line); }
    template <int Items, class Op> void InclusiveScan(T (&in)[Items], T (&out)[Items], Op op, EVO_CALLED) {
        scan<false, Items>(in, out, nullptr, nullptr, op, line);
    }
    template <int Items, class Op> void InclusiveScan(T (&in)[Items], T (&out)[Items], Op op, T& all, EVO_CALLED) {
        scan<false, Items>(in, out, nullptr, &all, op, line);
    }
    template <class Op> void ExclusiveScan(T in, T& out, T initial, Op op, EVO_CALLED) { scan<true, 1>(&in, &out, &initial, nullptr, op, line); }
    template <class Op> void ExclusiveScan(T in, T& out, T initial, Op op, T& all, EVO_CALLED) { scan<true, 1>(&in, &out, &initial, &all, op, line); }
    template <class Op> void ExclusiveScan(T in, T& out, Op op, EVO_CALLED) { scan<true, 1>(&in, &out, nullptr, nullptr, op, line); }
    template <int Items, class Op> void ExclusiveScan(T (&in)[Items], T (&out)[Items], T initial, Op op, EVO_CALLED) {
        scan<true, Items>(in, out, &initial, nullptr, op, line);
    }
    template <int Items, class Op> void ExclusiveScan(T (&in)[Items], T (&out)[Items], T initial, Op op, T& all, EVO_CALLED) {
        scan<true, Items>(in, out, &initial, &all, op, line);
    }
};

} // namespace cub
#endif
