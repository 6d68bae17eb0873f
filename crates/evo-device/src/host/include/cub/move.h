// Loads, stores, exchanges and sorts of a block (CUB, "Block-wide collectives").
#pragma GCC system_header
#ifndef EVO_CUB_MOVE_H
#define EVO_CUB_MOVE_H
#include "evo_cub_warp.h"

namespace cub {

enum BlockLoadAlgorithm { BLOCK_LOAD_DIRECT, BLOCK_LOAD_STRIPED, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE,
                          BLOCK_LOAD_WARP_TRANSPOSE, BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED };
enum BlockStoreAlgorithm { BLOCK_STORE_DIRECT, BLOCK_STORE_STRIPED, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE,
                           BLOCK_STORE_WARP_TRANSPOSE, BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED };
enum CacheLoadModifier { LOAD_DEFAULT, LOAD_CA, LOAD_CG, LOAD_CS, LOAD_CV, LOAD_LDG, LOAD_VOLATILE };
enum CacheStoreModifier { STORE_DEFAULT, STORE_WB, STORE_CG, STORE_CS, STORE_WT, STORE_VOLATILE };
template <CacheLoadModifier Modifier, class Iterator> EVO_INLINE auto ThreadLoad(Iterator from) { return *from; }
template <CacheStoreModifier Modifier, class Iterator, class T> EVO_INLINE void ThreadStore(Iterator to, T value) { *to = value; }

// An exchange through shared memory where it needs one.
template <class T, int Size> struct evo_room { T evo_values[Size]; };
template <class T> struct evo_room<T, 0> {};
template <class T, int Items> EVO_INLINE void evo_demand_vectors(const void* at, int line) {
    constexpr unsigned count = Items % 4 == 0 ? 4 : Items % 2 == 0 ? 2 : 1, bytes = count * sizeof(T) < 16 ? count * sizeof(T) : 16;
    evo_demand_aligned(at, bytes & (0u - bytes), line, "misaligned vector of BLOCK_LOAD_VECTORIZE or BLOCK_STORE_VECTORIZE,");
}

template <class T, int X, int Items, BlockLoadAlgorithm Algorithm = BLOCK_LOAD_DIRECT, int Y = 1, int Z = 1, int Arch = 0>
class BlockLoad {
    static constexpr int threads = X * Y * Z;
    static constexpr bool exchanges = Algorithm >= BLOCK_LOAD_TRANSPOSE, by_warp = Algorithm > BLOCK_LOAD_TRANSPOSE;

  public:
    struct TempStorage : evo_room<T, exchanges ? threads * Items : 0> {};
    BlockLoad(TempStorage& own) : temp(own) {}
    template <class Iterator> void Load(Iterator from, T (&items)[Items], EVO_CALLED) { load(from, items, threads * Items, nullptr, line); }
    // Items beyond the valid ones keep their values, or get the default.
    template <class Iterator> void Load(Iterator from, T (&items)[Items], int valid, EVO_CALLED) { load(from, items, valid, nullptr, line); }
    template <class Iterator, class Default>
    void Load(Iterator from, T (&items)[Items], int valid, Default other, EVO_CALLED) {
        T value = (T)other;
        load(from, items, valid, &value, line);
    }

  private:
    TempStorage& temp;
    static void demand_vectors(const T* from, int line) { evo_demand_vectors<T, Items>(from, line); }
    template <class Iterator> static void demand_vectors(Iterator, int) {}
    template <class Iterator> void load(Iterator from, T (&items)[Items], int valid, const T* other, int line) {
        evo_demand_threads(threads, line);
        if (Algorithm == BLOCK_LOAD_VECTORIZE && valid == threads * Items) demand_vectors(from, line);
        int rank = (int)evo_rank(), warp = rank / 32 * 32, lanes = threads - warp < 32 ? threads - warp : 32;
        for (int item = 0; item < Items; item++) {
            int blocked = rank * Items + item;
            int striped = by_warp ? warp * Items + item * lanes + rank - warp : item * threads + rank;
            int at = Algorithm == BLOCK_LOAD_STRIPED || exchanges ? striped : blocked;
            if constexpr (exchanges) {
                temp.evo_values[at] = at < valid ? (T)from[at] : other ? *other : items[item];
            } else {
                if (at < valid) items[item] = from[at];
                else if (other) items[item] = *other;
            }
        }
        if constexpr (exchanges) {
            if (by_warp) __syncwarp(evo_warp_mask<32>(), line);
            else evo_meet(line);
            for (int item = 0; item < Items; item++)
                if (other || rank * Items + item < valid) items[item] = temp.evo_values[rank * Items + item];
        }
    }
};

template <class T, int X, int Items, BlockStoreAlgorithm Algorithm = BLOCK_STORE_DIRECT, int Y = 1, int Z = 1, int Arch = 0>
class BlockStore {
    static constexpr int threads = X * Y * Z;
    static constexpr bool exchanges = Algorithm >= BLOCK_STORE_TRANSPOSE, by_warp = Algorithm > BLOCK_STORE_TRANSPOSE;

  public:
    struct TempStorage : evo_room<T, exchanges ? threads * Items : 0> {};
    BlockStore(TempStorage& own) : temp(own) {}
    template <class Iterator> void Store(Iterator to, T (&items)[Items], EVO_CALLED) { store(to, items, threads * Items, line); }
    template <class Iterator> void Store(Iterator to, T (&items)[Items], int valid, EVO_CALLED) { store(to, items, valid, line); }

  private:
    TempStorage& temp;
    static void demand_vectors(T* to, int line) { evo_demand_vectors<T, Items>(to, line); }
    template <class Iterator> static void demand_vectors(Iterator, int) {}
    template <class Iterator> void store(Iterator to, T (&items)[Items], int valid, int line) {
        evo_demand_threads(threads, line);
        if (Algorithm == BLOCK_STORE_VECTORIZE && valid == threads * Items) demand_vectors(to, line);
        int rank = (int)evo_rank(), warp = rank / 32 * 32, lanes = threads - warp < 32 ? threads - warp : 32;
        if constexpr (exchanges) {
            for (int item = 0; item < Items; item++) temp.evo_values[rank * Items + item] = items[item];
            if (by_warp) __syncwarp(evo_warp_mask<32>(), line);
            else evo_meet(line);
        }
        for (int item = 0; item < Items; item++) {
            int blocked = rank * Items + item;
            int striped = by_warp ? warp * Items + item * lanes + rank - warp : item * threads + rank;
            int at = Algorithm == BLOCK_STORE_STRIPED || exchanges ? striped : blocked;
            if (at >= valid) continue;
            if constexpr (exchanges) to[at] = temp.evo_values[at];
            else to[at] = items[item];
        }
    }
};

template <class T, int X, int Items, bool TimeSliced = false, int Y = 1, int Z = 1, int Arch = 0> class BlockExchange {
    static constexpr int threads = X * Y * Z;

  public:
    struct TempStorage : evo_room<T, threads * Items> {};
    BlockExchange(TempStorage& own) : temp(own) {}
    void BlockedToStriped(const T (&in)[Items], T (&out)[Items], EVO_CALLED) { move(in, out, blocked, striped, line); }
    void BlockedToStriped(T (&items)[Items], EVO_CALLED) { move(items, items, blocked, striped, line); }
    void StripedToBlocked(const T (&in)[Items], T (&out)[Items], EVO_CALLED) { move(in, out, striped, blocked, line); }
    void StripedToBlocked(T (&items)[Items], EVO_CALLED) { move(items, items, striped, blocked, line); }
    template <class Rank> void ScatterToBlocked(const T (&in)[Items], T (&out)[Items], Rank (&ranks)[Items], EVO_CALLED) {
        move(in, out, [&](int item) { return (int)ranks[item]; }, blocked, line);
    }
    template <class Rank> void ScatterToBlocked(T (&items)[Items], Rank (&ranks)[Items], EVO_CALLED) {
        ScatterToBlocked(items, items, ranks, line);
    }
    template <class Rank> void ScatterToStriped(const T (&in)[Items], T (&out)[Items], Rank (&ranks)[Items], EVO_CALLED) {
        move(in, out, [&](int item) { return (int)ranks[item]; }, striped, line);
    }
    template <class Rank> void ScatterToStriped(T (&items)[Items], Rank (&ranks)[Items], EVO_CALLED) {
        ScatterToStriped(items, items, ranks, line);
    }

  private:
    TempStorage& temp;
    static int blocked(int item) { return (int)evo_rank() * Items + item; }
    static int striped(int item) { return item * threads + (int)evo_rank(); }
    template <class From, class To> void move(const T (&in)[Items], T (&out)[Items], From from, To to, int line) {
        evo_demand_threads(threads, line);
        for (int item = 0; item < Items; item++) temp.evo_values[from(item)] = in[item];
        evo_meet(line);
        for (int item = 0; item < Items; item++) out[item] = temp.evo_values[to(item)];
    }
};

// A key's bits in an order in which unsigned comparison sorts it: negative numbers are turned round.
template <class K> EVO_INLINE uint64_t evo_sortable(K key) {
    uint64_t bits = 0, top = 1ull << (8 * sizeof(K) - 1);
    __builtin_memcpy(&bits, (const void*)&key, sizeof(K));
    constexpr bool real = __is_same(K, float) || __is_same(K, double) || __is_same(K, __half) || __is_same(K, __nv_bfloat16);
    if constexpr (real) return bits & top ? ~bits & (top | (top - 1)) : bits | top;
    else return (K)-1 < (K)0 ? bits ^ top : bits;
}

template <class K, int X, int Items, class V = NullType, int RadixBits = 4, bool Memoize = true,
          int Scan = 0, int Config = 0, int Y = 1, int Z = 1, int Arch = 0>
class BlockRadixSort {
    static constexpr int threads = X * Y * Z, count = threads * Items;
    static constexpr bool has_values = !__is_same(V, NullType);

  public:
    struct TempStorage {
        K evo_keys[count];
        evo_room<V, has_values ? count : 0> evo_others;
        unsigned short evo_places[2][count];
    };
    BlockRadixSort(TempStorage& own) : temp(own) { static_assert(count <= 65536, "a block sorts at most 65536 keys"); }
#define EVO_SORT(name, descending, striped)                                                        \
    void name(K (&keys)[Items], int begin = 0, int end = 8 * sizeof(K), EVO_CALLED) {              \
        sort(keys, (V*)nullptr, begin, end, descending, striped, line);                            \
    }                                                                                              \
    template <class W> void name(K (&keys)[Items], W (&values)[Items], int begin = 0, int end = 8 * sizeof(K), EVO_CALLED) { \
        sort(keys, values, begin, end, descending, striped, line);                                 \
    }
    EVO_SORT(Sort, false, false) EVO_SORT(SortDescending, true, false)
    EVO_SORT(SortBlockedToStriped, false, true) EVO_SORT(SortDescendingBlockedToStriped, true, true)
#undef EVO_SORT

  private:
    TempStorage& temp;
    void sort(K* keys, V* values, int begin, int end, bool descending, bool to_striped, int line) {
        evo_demand_threads(threads, line);
        int rank = (int)evo_rank();
        for (int item = 0; item < Items; item++) {
            temp.evo_keys[rank * Items + item] = keys[item];
            if constexpr (has_values) temp.evo_others.evo_values[rank * Items + item] = values[item];
        }
        evo_meet(line);
        // One thread finds the order; this processor would run the others one after another.
        if (rank == 0) find_order(begin, end, descending);
        evo_meet(line);
        for (int item = 0; item < Items; item++) {
            int place = temp.evo_places[0][to_striped ? item * threads + rank : rank * Items + item];
            keys[item] = temp.evo_keys[place];
            if constexpr (has_values) values[item] = temp.evo_others.evo_values[place];
        }
    }
    // Stable, digit by digit from the lowest.
    void find_order(int begin, int end, bool descending) {
        unsigned short (&now)[count] = temp.evo_places[0], (&next)[count] = temp.evo_places[1];
        for (int at = 0; at < count; at++) now[at] = (unsigned short)at;
        for (int low = begin; low < end; low += 8) {
            int bits = end - low < 8 ? end - low : 8, starts[257] = {};
            auto digit = [&](int place) {
                unsigned found = (unsigned)(evo_sortable(temp.evo_keys[place]) >> low) & ((1u << bits) - 1);
                return descending ? (1u << bits) - 1 - found : found;
            };
            for (int at = 0; at < count; at++) starts[digit(now[at]) + 1]++;
            for (int value = 0; value < 256; value++) starts[value + 1] += starts[value];
            for (int at = 0; at < count; at++) next[starts[digit(now[at])]++] = now[at];
            for (int at = 0; at < count; at++) now[at] = next[at];
        }
    }
};

} // namespace cub
#endif
